package sandbox

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// ownRoot is a root made of this host's Python and a few programs, without anything else
// of this host's.
var ownRoot = sync.OnceValues(func() (string, error) {
	root, err := os.MkdirTemp("", "root")
	if err != nil {
		return "", err
	}
	interpreter, err := filepath.EvalSymlinks(python)
	if err != nil {
		return root, err
	}
	library, err := exec.Command(python, "-I", "-c", "import os; print(os.path.dirname(os.__file__))").Output()
	if err != nil {
		return root, err
	}
	files := map[string]bool{interpreter: true, "/bin/sh": true, "/bin/echo": true, "/bin/cat": true, "/bin/sleep": true}
	stdlib := strings.TrimSpace(string(library))
	err = filepath.WalkDir(stdlib, func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && (entry.Name() == "test" || strings.HasPrefix(entry.Name(), "config-") || strings.HasSuffix(entry.Name(), "-packages")) {
			return fs.SkipDir
		}
		if err == nil && entry.Type().IsRegular() {
			files[path] = true
		}
		return err
	})
	if err != nil {
		return root, err
	}
	needed := regexp.MustCompile(`/\S+`)
	for path := range files {
		if strings.Contains(path, ".so") || !strings.HasPrefix(path, stdlib) {
			out, _ := exec.Command("ldd", path).Output() // what links nothing fails
			for line := range strings.Lines(string(out)) {
				if library := needed.FindString(line[strings.Index(line, "=>")+1:]); library != "" && !strings.HasSuffix(library, ":") {
					files[library] = true
				}
			}
		}
	}
	for path := range files { // the C library opens it when a thread ends, and nothing links it
		if folder, is := strings.CutSuffix(path, "libc.so.6"); is {
			files[folder+"libgcc_s.so.1"] = true
		}
	}
	for path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return root, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return root, err
		}
		for _, folder := range []string{"/bin/", "/lib/", "/lib64/"} { // which are links
			if strings.HasPrefix(path, folder) {
				path = "/usr" + path
			}
		}
		if err := os.MkdirAll(filepath.Dir(root+path), 0o755); err != nil {
			return root, err
		}
		if err := os.WriteFile(root+path, content, 0o755); err != nil {
			return root, err
		}
		if err := os.Chtimes(root+path, time.Time{}, info.ModTime()); err != nil { // by which Python knows its caches
			return root, err
		}
	}
	for _, link := range [][2]string{{"usr/bin", "bin"}, {"usr/lib", "lib"}, {"/usr/lib64", "lib64"}, {filepath.Base(interpreter), "usr/bin/python3"}} {
		if err := os.Symlink(link[0], filepath.Join(root, link[1])); err != nil {
			return root, err
		}
	}
	for path, text := range map[string]string{"etc/passwd": "image:x:0:0:::\n", "etc/hostname": "image\n", "srv/x": "", "dev/sda": "", "tmp/x": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			return root, err
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			return root, err
		}
	}
	return root, nil
})

// rootWay is one with a root of its own; nil where there are no mount namespaces.
func rootWay(t *testing.T) way {
	t.Helper()
	root, err := ownRoot()
	fatal(t, err)
	return way{"with a root of its own", nil, isolation, func(ctx context.Context, p Program) (Result, error) {
		p.Root = root
		return Run(ctx, p)
	}}
}

// TestRoot: a program sees the files of its root and what it is granted, at any path, and
// nothing of this host's beside its users.
func TestRoot(t *testing.T) {
	t.Parallel()
	ways(t)
	if !Probe().Has(Paths) {
		t.Skip("this kernel does not give mount namespaces")
	}
	root, err := ownRoot()
	fatal(t, err)
	users, err := os.ReadFile("/etc/passwd")
	fatal(t, err)
	w := rootWay(t)
	for _, c := range []struct{ what, script, want string }{
		{"a setting of the image", "print(open('/etc/hostname').read())", "image"},
		{"what the image has not", "import os; print([p for p in ('/etc/ld.so.conf','/usr/share','/opt','/home','/run','/dev/sda','/tmp/x') if os.path.exists(p)])", "[]"},
		{"users", "print(open('/etc/passwd').read())", strings.TrimSpace(string(users))},
		{"links", "import os; print(os.path.realpath('/lib64'), os.readlink('/bin'))", "/usr/lib64 usr/bin"},
		{"a program", "import subprocess; print(subprocess.check_output('echo ok | cat',shell=True,text=True))", "ok"},
		{"writing in it", "import os\ntry: open('/srv/y','w')\nexcept OSError as e: print(e.strerror)", "Read-only file system"},
	} {
		r := w.do(t, w.program(t, c.script))
		if got := strings.TrimSpace(r.Stdout.String()); got != c.want || r.ExitCode != 0 {
			t.Errorf("%s: %q, want %q: %s", c.what, got, c.want, r.Stderr)
		}
	}
	p := w.program(t, "")
	p.Root, p.Require = root, nil
	for _, c := range []struct {
		change func(*Program)
		code   int
		says   string
	}{
		{func(p *Program) { p.Root = "image" }, exitcode.Usage, "absolute"},
		{func(p *Program) { p.Root = "/nowhere" }, exitcode.Unavailable, "/nowhere"},
		{func(p *Program) { p.protection = &Protection{Seccomp: true, Landlock: 6} }, exitcode.Unavailable, "mount namespace"},
	} {
		p := p
		c.change(&p)
		if _, err := Run(t.Context(), p); exitcode.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("root %q: %v, want code %d and %q", p.Root, err, c.code, c.says)
		}
	}
	fatal(t, startWarm())
	if _, err := warm.Run(t.Context(), p); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a warm interpreter with another root: %v", err)
	}
}

// TestRooted: a folder of a root in which something is granted is shown entry by entry,
// without what stands in the way.
func TestRooted(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, folder := range []string{"data/of/image", "data/task/old", "usr/bin", "tmp/x", "proc", "dev/shm", "sys"} {
		fatal(t, os.MkdirAll(filepath.Join(root, folder), 0o700))
	}
	fatal(t, os.Symlink("/usr/bin", filepath.Join(root, "bin")))
	fatal(t, os.Symlink("/data", filepath.Join(root, "home")))
	for _, c := range []struct {
		granted []string
		want    string
	}{
		{nil, "/bin /data /home /usr"},
		{[]string{"/tmp/work"}, "/bin /data /home /usr"},
		{[]string{"/data/task"}, "/bin /data/of /home /usr"},
		{[]string{"/data/task/new"}, "/bin /data/of /data/task/old /home /usr"},
		{[]string{"/data/task/old", "/home/me/task"}, "/bin /data/of /usr"},
	} {
		got, err := (&Program{Root: root, Read: c.granted}).rooted()
		if strings.Join(got, " ") != c.want || err != nil {
			t.Errorf("%q: %q, %v, want %s", c.granted, got, err, c.want)
		}
	}
}

// TestDriver: a program with a root and a GPU has the libraries of the host's driver.
func TestDriver(t *testing.T) {
	t.Parallel()
	host := gpus(t)
	for _, name := range []string{"usr/lib64/libcuda.so.1", "usr/lib64/libcuda.so.570.1", "usr/lib64/libcudart.so", "usr/lib/libcuda.so.1", "usr/lib/libnvidia-ml.so.1"} {
		fatal(t, os.MkdirAll(filepath.Dir(filepath.Join(host, name)), 0o700))
		fatal(t, os.WriteFile(filepath.Join(host, name), nil, 0o600))
	}
	libraries, environ := (&Program{Root: "/image", GPUs: []string{"0"}, Env: []string{"LD_LIBRARY_PATH=/opt/lib"}, devices: host}).driver()
	if got := strings.ReplaceAll(strings.Join(libraries, " "), host, ""); got != "/usr/lib64/libcuda.so.1 /usr/lib64/libcuda.so.570.1 /usr/lib/libnvidia-ml.so.1" {
		t.Errorf("the libraries are %s", got)
	}
	if len(environ) != 1 || environ[0] != "LD_LIBRARY_PATH=/.nvidia:/opt/lib" {
		t.Errorf("the environment has %q", environ)
	}
	for _, p := range []Program{{Root: "/image", devices: host}, {GPUs: []string{"0"}, devices: host}} {
		if libraries, environ := p.driver(); libraries != nil || environ != nil {
			t.Errorf("root %q, GPUs %q: %q, %q", p.Root, p.GPUs, libraries, environ)
		}
	}
}

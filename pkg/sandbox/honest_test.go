package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/sandbox/sandboxtest"
)

// TestSharedMemory: what honest programs do works where there are namespaces, and nothing
// of it is seen or left outside.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		if w.protection != nil && w.protection.Namespaces == nil {
			return // they have no /dev/shm
		}
		for _, honest := range sandboxtest.Honest {
			if honest.Needs != "" {
				continue // pkg/command runs them
			}
			what := honest.What
			p := w.program(t, honest.Script)
			p.Limits.Memory, p.Limits.Processes = 512<<20, 64
			r := w.do(t, p)
			if r.End != Exited || r.ExitCode != 0 || strings.TrimSpace(r.Stdout.String()) != "ok" {
				t.Errorf("%s: %s, exit code %d: %q %s", what, r.End, r.ExitCode, r.Stdout, r.Stderr)
			}
			left(t, what, p)
		}
		p := w.program(t, "import os; print(os.listdir('/dev/shm'))\nopen('/dev/shm/lathe-evil','w')\nfrom multiprocessing import shared_memory as s; s.SharedMemory('lathe-evil-2',True,4096)")
		empty := "[]"
		if inside, is := strings.CutPrefix(p.Dir, sharedFolder+"/"); is {
			first, _, _ := strings.Cut(inside, "/")
			empty = "['" + first + "']" // the way to its own folder
		}
		if r := w.do(t, p); strings.TrimSpace(r.Stdout.String()) != empty {
			t.Errorf("a program's /dev/shm is not empty at its start: %s %s", r.Stdout, r.Stderr)
		}
		for _, name := range []string{"/dev/shm/lathe-evil", "/dev/shm/lathe-evil-2"} {
			if _, err := os.Stat(name); err == nil {
				t.Errorf("%s is there", name)
			}
		}
		// Nor is what waits in sockets without a process that has them open: connections to
		// one that accepts none.
		waiting := w.program(t, "import socket,time\ns=socket.socket(socket.AF_UNIX); s.bind('\\0x'); s.listen(4096)\nfor i in range(900):\n c=socket.socket(socket.AF_UNIX); c.connect('\\0x'); c.close()\ntime.sleep(60)")
		waiting.Limits.Memory = 96 << 20
		if r := w.do(t, waiting); r.End != OverMemory {
			t.Errorf("900 connections that wait: %s, exit code %d, %d bytes at most: %s", r.End, r.ExitCode, r.PeakMemory, r.Stderr)
		}
		// What is there counts as memory, mapped or not, with and without a name; but see
		// the package comment for a warm interpreter of an ordinary user.
		if os.Getuid() != 0 && strings.HasPrefix(w.name, "warm") {
			return
		}
		for _, script := range []string{
			"for i in range(300): open('/dev/shm/%d'%i,'wb').write(b'x'*(1<<20))",
			"import os\nx=[]\nfor i in range(300):\n f=open('/dev/shm/x','wb'); f.write(b'x'*(1<<20)); f.flush(); os.remove('/dev/shm/x'); x.append(f)",
			"from multiprocessing import shared_memory as s\nx=[s.SharedMemory(create=True,size=1<<20) for i in range(300)]\nfor h in x: h.buf[:]=b'x'*(1<<20)",
		} {
			p := w.program(t, "import time\ntry: exec("+strconv.Quote(script)+")\nexcept OSError: pass\ntime.sleep(60)")
			p.Limits.Memory = 64 << 20
			// A mapped page that does not fit any more ends a program before a look does.
			if r := w.do(t, p); r.End != OverMemory && r.Signal != syscall.SIGBUS {
				t.Errorf("300 MB of shared memory: %s, exit code %d, signal %d, %d bytes at most: %s", r.End, r.ExitCode, r.Signal, r.PeakMemory, r.Stderr)
			}
		}
	})
}

// TestFolderInSharedMemory: a folder of a program may lie in the host's /dev/shm, where some
// clusters have the temporary files of jobs, and nothing else of it is seen or counted.
func TestFolderInSharedMemory(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(sharedFolder, "lathe-test")
	if err != nil {
		t.Skipf("there is no /dev/shm to write in: %v", err)
	}
	t.Cleanup(func() { fatal(t, os.RemoveAll(dir)) })
	own := filepath.Join(dir, "own")
	fatal(t, os.WriteFile(filepath.Join(dir, "others"), make([]byte, 48<<20), 0o600))
	each(t, func(t *testing.T, w way) {
		p := w.program(t, "import os; print(os.listdir('/dev/shm'),os.listdir('..')); open('kept','w').write('x'*9)")
		p.Dir = own + strings.ReplaceAll(w.name, " ", "-")
		fatal(t, os.Mkdir(p.Dir, 0o777))
		p.Write, p.Limits.Memory = []string{p.Dir}, 40<<20
		r := w.do(t, p)
		kept, err := os.ReadFile(filepath.Join(p.Dir, "kept"))
		want := "['" + filepath.Base(dir) + "'] ['" + filepath.Base(p.Dir) + "']"
		if w.protection != nil && w.protection.Namespaces == nil {
			want = "" // which may list neither
		}
		if strings.TrimSpace(r.Stdout.String()) != want || want != "" && (err != nil || len(kept) != 9) {
			t.Errorf("%s, exit code %d: %s%s, kept %q, %v", r.End, r.ExitCode, r.Stdout, r.Stderr, kept, err)
		}
	})
}

// TestSharedFolderOfTheHost: before a program's own is mounted it is that of the host, which
// does not count.
func TestSharedFolderOfTheHost(t *testing.T) {
	t.Parallel()
	outside := tree{first: os.Getpid(), nested: true}
	if bytes, files := outside.sharedMemory(); bytes != 0 || files != "" {
		t.Errorf("%d bytes of files %q count, which are the host's", bytes, files)
	}
}

// TestTemporary: the folder of temporary files has a short path, by which sockets have
// names, however long its own is; and /tmp is that folder where nothing granted is there.
func TestTemporary(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		if w.protection != nil && w.protection.Namespaces == nil {
			return // they have no files of their own
		}
		for _, c := range []struct{ within, folder, want string }{
			{"/tmp", "t", "DIR/t\nsockets\nno /tmp\n"},
			{"/tmp", strings.Repeat("t", 100), "/.tmp\nsockets\nno /tmp\n"},
			{"/var/tmp", "t", "DIR/t\nsockets\n/tmp\n"},
			{"/var/tmp", strings.Repeat("t", 100), "/tmp\nsockets\n/tmp\n"},
		} {
			dir, err := os.MkdirTemp(c.within, "lathe-test-")
			fatal(t, err)
			defer os.RemoveAll(dir)
			tmp := filepath.Join(dir, c.folder)
			fatal(t, os.Mkdir(tmp, 0o700))
			p := w.program(t, "import os, tempfile, multiprocessing as m\nprint(tempfile.gettempdir())\nwith m.Manager() as g: print('sockets' if g.list([1])[0] else '')\n"+
				"open(os.path.join(os.environ['TMPDIR'], 'left'), 'w')\ntry: open('/tmp/also', 'w'); print('/tmp')\nexcept OSError: print('no /tmp')")
			p.Dir, p.Write, p.Env = dir, []string{dir}, []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + tmp}
			r := w.do(t, p)
			if got := strings.ReplaceAll(r.Stdout.String(), dir, "DIR"); got != c.want {
				t.Errorf("in %s, %d bytes: %q, want %q: %s", c.within, len(tmp), got, c.want, r.Stderr)
			}
			if _, err := os.Stat(filepath.Join(tmp, "left")); err != nil {
				t.Errorf("what it wrote in TMPDIR: %v", err)
			}
		}
	})
}

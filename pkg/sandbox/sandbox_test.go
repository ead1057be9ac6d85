package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

func TestMain(m *testing.M) {
	if os.Args[0] == cageName && isFirstThreadFree() {
		panic("another goroutine runs on the first thread of a sandbox, and would restrict it")
	}
	Enter()
	code := m.Run()
	warm.Close()
	if root, _ := ownRoot(); root != "" {
		_ = os.RemoveAll(root)
	}
	os.Exit(code)
}

// isFirstThreadFree reports whether another goroutine gets the process's first thread while
// this one waits, as it may at any time on a busy machine.
func isFirstThreadFree() bool {
	free := make(chan bool)
	go func() { free <- unix.Gettid() == unix.Getpid() }()
	return <-free
}

// warm runs the programs of all tests that take a warm interpreter.
var (
	warm      Warm
	startWarm = sync.OnceValue(func() error { return warm.Start(context.Background(), python, []string{"json", "random", "decimal"}) })
)

const python = "/usr/bin/python3"

// way is one of those in which a program can be run, and what it gives.
type way struct {
	name       string
	protection *Protection // nil for what there is
	require    []string
	run        func(context.Context, Program) (Result, error)
}

// isolation is all that may be required but for control groups, which few users have.
var isolation = []string{Files, Network, Signals, Processes, Paths, IPC}

// ways lists those of this host, on a host that gives what the tests are about.
func ways(t *testing.T) []way {
	t.Helper()
	if _, err := os.Stat(python); err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	alone := []string{Files, Network, Signals, IPC}
	if missing := Probe().Missing(alone); len(missing) > 0 {
		t.Skipf("this kernel does not give %s", strings.Join(missing, ", "))
	}
	bare := Probe()
	bare.Namespaces = nil
	fatal(t, startWarm())
	all := []way{{"without namespaces", &bare, alone, Run}, {"warm, without namespaces", &bare, alone, warm.Run}}
	if len(Probe().Missing(isolation)) == 0 {
		old := Probe()
		old.Landlock = 0
		all = append(all, way{"with namespaces", nil, isolation, Run}, way{"warm, with namespaces", nil, isolation, warm.Run}, way{"with namespaces, without Landlock", &old, isolation, Run}, rootWay(t))
	} else {
		t.Logf("no test with namespaces: %s", Probe())
	}
	return all
}

// program is a script of Python's in a scratch folder of its own.
func (w way) program(t *testing.T, script string) Program {
	t.Helper()
	dir := shortDir(t)
	return Program{
		Args: []string{python, "-c", script}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir},
		Write: []string{dir}, Require: w.require, protection: w.protection,
		Limits: Limits{Wall: 2 * time.Minute, Memory: 512 << 20, Output: 8 << 10, FileBytes: 4 << 20},
	}
}

// shortDir is a temporary folder whose path leaves room for the names of sockets, which may
// have 107 bytes with it. It is in /tmp, which a program then has no other of.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "")
	fatal(t, err)
	t.Cleanup(func() { fatal(t, os.RemoveAll(dir)) })
	return dir
}

func (w way) do(t *testing.T, p Program) Result {
	t.Helper()
	r, err := w.run(t.Context(), p)
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	return r
}

// each runs a test in each way.
func each(t *testing.T, test func(*testing.T, way)) {
	for _, w := range ways(t) {
		t.Run(strings.ReplaceAll(w.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// nobody is a user who is not root.
const nobody = 65534

// TestAsUser runs the tests of programs as a user who is not root.
func TestAsUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("run this test as root: others run all tests as themselves")
	}
	dir := t.TempDir()
	fatal(t, os.Chmod(filepath.Dir(dir), 0o711))
	fatal(t, os.Chmod(dir, 0o777))
	cmd := exec.Command("/proc/self/exe", "-test.run", "^Test(Honest|Temporary|SharedMemory|Hostile|ModesStay|Namespaces|Limits|Ends|NoLateFiles|NothingIsLeft|RunErrors|Clean|Warm|Refused)", "-test.timeout", "1h")
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
}

// TestHonest: what programs of every day do works.
func TestHonest(t *testing.T) {
	t.Parallel()
	each(t, testHonest)
}

func testHonest(t *testing.T, w way) {
	for _, c := range []struct{ what, script, stdout string }{
		{"prints", "print('hi')", "hi\n"},
		{"files of its own", "import shutil; open('a','w').write('x'); shutil.copy2('a','b'); print(open('b').read())", "x\n"},
		{"temporary files", "import tempfile; f=tempfile.NamedTemporaryFile(); f.write(b'x'); print('ok')", "ok\n"},
		{"folders", "import os,shutil; os.makedirs('a/b'); os.rename('a/b','a/c'); print(os.listdir('a')); shutil.rmtree('a')", "['c']\n"},
		{"threads", "import threading; t=threading.Thread(target=print,args=('t',)); t.start(); t.join()", "t\n"},
		{"processes", "import subprocess; print(subprocess.run(['/bin/echo','x'],capture_output=True).stdout)", "b'x\\n'\n"},
		{"forks and pipes", "import os\nr,w=os.pipe()\nif os.fork()==0:\n os.write(w,b'c'); os._exit(0)\nos.wait(); print(os.read(r,1))", "b'c'\n"},
		{"pairs of sockets", "import socket; a,b=socket.socketpair(); a.send(b'x'); print(b.recv(1))", "b'x'\n"},
		{"clocks and random numbers", "import time,os,random; time.sleep(.01); print(len(os.urandom(4)), random.random()<1)", "4 True\n"},
		{"what the host is", "import os,platform; print(os.cpu_count()>0, platform.system())", "True Linux\n"},
		{"its environment, and no other", "import os; print(sorted(k for k in os.environ if not k.startswith('LATHE_CHILD_') and k!='LC_CTYPE'))", "['HOME', 'PATH', 'TMPDIR']\n"},
		{"its descriptors, and no other", "import os; print(os.listdir('/proc/self/fd'))", "['0', '1', '2', '3']\n"},
	} {
		r := w.do(t, w.program(t, c.script))
		if r.End != Exited || r.ExitCode != 0 || r.Stdout.String() != c.stdout {
			t.Errorf("%s: %s, exit code %d: %s%s", c.what, r.End, r.ExitCode, r.Stdout, r.Stderr)
		}
	}
}

// TestNothingIsLeft: what a program leaves running is gone when Run returns.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	each(t, testNothingIsLeft)
}

func testNothingIsLeft(t *testing.T, w way) {
	for what, script := range map[string]string{
		"children":      "os.fork()==0 and time.sleep(60)",
		"daemons":       "os.fork()==0 and (os.fork()>0 and os._exit(0), os.close(1), os.close(2), time.sleep(60))",
		"without marks": "os.fork()==0 and os.execve('/bin/sleep',['sleep','60'],{})",
		"deaf":          "import signal; [signal.signal(n,signal.SIG_IGN) for n in (1,2,3,15)]; os.fork()==0 and time.sleep(60)",
		"stopped":       "os.fork()==0 and os.kill(os.getpid(),19)",
	} {
		p := w.program(t, "import os,time\nfor _ in range(3): "+script+"\nprint('done')")
		r := w.do(t, p)
		if !strings.Contains(r.Stdout.String(), "done") {
			t.Errorf("%s: %s%s", what, r.Stdout, r.Stderr)
		}
		left(t, what, p)
	}
}

// left complains of processes that are in the folder of a program.
func left(t *testing.T, what string, p Program) {
	t.Helper()
	if isLeft(p) {
		t.Errorf("%s: a process is left", what)
	}
}

func isLeft(p Program) bool {
	for _, process := range child.Processes() {
		cwd, err := os.Readlink("/proc/" + strconv.Itoa(process.PID) + "/cwd")
		if err == nil && cwd == p.Dir {
			return true
		}
	}
	return false
}

// TestRunErrors: what is ours, or the host's, is an error.
func TestRunErrors(t *testing.T) {
	t.Parallel()
	each(t, testRunErrors)
}

func testRunErrors(t *testing.T, w way) {
	p := w.program(t, "")
	p.Args[0] = "/nowhere/python"
	if r, err := Run(t.Context(), p); err == nil || r.End != NotStarted || !strings.Contains(err.Error(), "/nowhere/python") {
		t.Errorf("a program that is not there: %s, %v", r.End, err)
	}
	p = w.program(t, "")
	p.Write = []string{"/nowhere"}
	if _, err := w.run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a folder that is not there: %v", err)
	}
	for _, change := range []func(*Program){
		func(p *Program) { p.Args = nil }, func(p *Program) { p.Args[0] = "python3" }, func(p *Program) { p.Dir = "here" }, func(p *Program) { p.Read = []string{"there"} },
	} {
		p := w.program(t, "")
		change(&p)
		if _, err := w.run(t.Context(), p); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%q in %q: %v", p.Args, p.Dir, err)
		}
	}
	p = w.program(t, "")
	p.Dir = "/nowhere"
	if _, err := w.run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a folder to be in that is not there: %v", err)
	}
	p = w.program(t, "")
	p.Require = []string{"gravity"}
	if _, err := w.run(t.Context(), p); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "gravity") {
		t.Errorf("a protection that nobody has: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := w.run(ctx, w.program(t, "import time; time.sleep(60)")); err == nil {
		t.Error("a run that is stopped has no error")
	}
}

// BenchmarkCage and BenchmarkBare are the same short program inside and outside.
func BenchmarkCage(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		p := Program{Args: []string{python, "-c", "pass"}, Dir: dir, Env: []string{"PATH=/usr/bin"}, Write: []string{dir}}
		if r, err := Run(b.Context(), p); err != nil || r.End != Exited || r.ExitCode != 0 {
			b.Fatal(r.End, err)
		}
	}
}

// BenchmarkBare is described at BenchmarkCage.
func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		if err := exec.Command(python, "-c", "pass").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

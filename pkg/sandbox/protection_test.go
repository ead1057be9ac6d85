package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TestProtections: what hosts of several kinds give, and what is said of it.
func TestProtections(t *testing.T) {
	t.Parallel()
	all := []string{"user", "mount", "pid", "ipc", "net", "uts"}
	for _, c := range []struct {
		what string
		host Protection
		has  string
	}{
		{"nothing", Protection{}, ""},
		{"RHEL 8 with namespaces", Protection{Seccomp: true, Namespaces: all}, "files network signals processes paths ipc"},
		{"RHEL 8 without", Protection{Seccomp: true}, "network ipc"},
		{"Debian 12 without", Protection{Seccomp: true, Landlock: 2}, "files network ipc"},
		{"Linux 6.12 without", Protection{Seccomp: true, Landlock: 6}, "files network signals ipc"},
		{"systemd's user session", Protection{Seccomp: true, Landlock: 6, MemoryBy: "cgroup v2"}, "files network signals ipc memory"},
		{"polling", Protection{Seccomp: true, MemoryBy: "polling"}, "network ipc"},
		{"no network namespaces, no seccomp", Protection{Namespaces: []string{"user", "mount", "pid"}}, "files signals processes paths"},
	} {
		var has []string
		for _, name := range Names() {
			err := c.host.Require([]string{name})
			if c.host.Has(name) {
				has = append(has, name)
			}
			if want := map[bool]int{true: exitcode.OK, false: exitcode.Unavailable}[c.host.Has(name)]; exitcode.Code(err) != want {
				t.Errorf("%s: of %s %v", c.what, name, err)
			}
		}
		if got := strings.Join(has, " "); got != c.has {
			t.Errorf("%s has %s, want %s", c.what, got, c.has)
		}
	}
	p := Protection{Seccomp: true, Reasons: map[string]string{"user": "Operation not permitted"}}
	if err := p.Require([]string{Files, IPC}); err == nil || !strings.Contains(err.Error(), "must have files, which") || !strings.Contains(err.Error(), "no user: Operation not permitted") {
		t.Errorf("the error is %v", err)
	}
	if err := p.Require([]string{"gravity"}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("what nobody has: %v", err)
	}
	if slices.ContainsFunc(Names(), func(name string) bool { return Meaning(name) == "" }) || Meaning("gravity") != "" {
		t.Error("a name has no meaning, or what is none has one")
	}
}

// TestRefused: what a kernel refuses is left out with its reason, and programs run
// with the rest. Limits of namespaces are those of a user namespace of the test's.
func TestRefused(t *testing.T) {
	t.Parallel()
	ways(t)
	if !slices.Contains(Probe().Namespaces, "user") {
		t.Skip("this kernel does not give user namespaces to be refused")
	}
	for refused, want := range map[string]string{
		"net":  "user mount pid ipc uts",
		"ipc":  "user mount pid net uts",
		"mnt":  "user ipc net uts",
		"pid":  "user ipc net uts",
		"user": "",
	} {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestRefusedChild$", "-test.v")
		cmd.Env = append(os.Environ(), "LATHE_TEST_REFUSED="+refused+"="+want)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestRefusedChild") {
			t.Errorf("without %s: %v\n%s", refused, err, out)
		}
	}
}

// TestRefusedChild is the process of TestRefused.
func TestRefusedChild(t *testing.T) {
	t.Parallel()
	refused, want, ok := strings.Cut(os.Getenv("LATHE_TEST_REFUSED"), "=")
	if !ok {
		t.Skip("a helper of TestRefused")
	}
	fatal(t, os.WriteFile("/proc/sys/user/max_"+refused+"_namespaces", []byte("0"), 0))
	p := Probe()
	if got := strings.Join(p.Namespaces, " "); got != want {
		t.Fatalf("the namespaces are %q, want %q: %s", got, want, p)
	}
	for _, n := range namespaces {
		if !p.namespace(n.name) && p.Reasons[n.name] == "" {
			t.Errorf("nobody says why there is no %s", n.name)
		}
	}
	w := way{require: []string{Files, Network, Signals, IPC}, run: Run}
	for _, c := range hostile[:20] {
		if r := w.do(t, w.program(t, c.script)); r.End != Exited || r.ExitCode != 1 {
			t.Errorf("%s: %s, exit code %d: %s", c.what, r.End, r.ExitCode, r.Stderr)
		}
	}
	var own Warm
	fatal(t, own.Start(t.Context(), python, nil))
	defer own.Close()
	for _, run := range []func(context.Context, Program) (Result, error){Run, own.Run} {
		w.run = run
		if r := w.do(t, w.program(t, "print('hi')")); r.End != Exited || r.Stdout.String() != "hi\n" {
			t.Errorf("%s, exit code %d: %s%s", r.End, r.ExitCode, r.Stdout, r.Stderr)
		}
	}
}

// TestUnderNice: who is started under nice, root or another user, has all that this
// host gives, and programs are as nice as their starter.
func TestUnderNice(t *testing.T) {
	t.Parallel()
	ways(t)
	dir := t.TempDir()
	fatal(t, os.Chmod(filepath.Dir(dir), 0o711))
	fatal(t, os.Chmod(dir, 0o777))
	users := []*syscall.SysProcAttr{nil}
	if os.Getuid() == 0 {
		users = append(users, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
	}
	for _, user := range users {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestUnderNiceChild$", "-test.v")
		cmd.Dir, cmd.SysProcAttr = dir, user
		cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "LATHE_TEST_NICE=" + strings.Join(Probe().Namespaces, " ")}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestUnderNiceChild") {
			t.Errorf("under nice, user %v: %v\n%s", user, err, out)
		}
	}
}

// TestUnderNiceChild is the process of TestUnderNice.
func TestUnderNiceChild(t *testing.T) {
	t.Parallel()
	want, ok := os.LookupEnv("LATHE_TEST_NICE")
	if !ok {
		t.Skip("a helper of TestUnderNice")
	}
	if raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || 20-raw < 7 {
		runtime.LockOSThread() // the process starts again from this thread, as nice(1) does
		fatal(t, unix.Setpriority(unix.PRIO_PROCESS, 0, 7))
		fatal(t, unix.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	if got := strings.Join(Probe().Namespaces, " "); got != want {
		t.Fatalf("the namespaces are %q, want %q: %s", got, want, Probe())
	}
	fatal(t, startWarm())
	w := way{"under nice", nil, []string{Files, Network, Signals, IPC}, nil}
	for _, run := range []func(context.Context, Program) (Result, error){Run, warm.Run} {
		w.run = run
		if r := w.do(t, w.program(t, "import os; print(os.getpriority(0,0))")); r.Stdout.String() != "7\n" {
			t.Errorf("it is as nice as %s%s", r.Stdout, r.Stderr)
		}
	}
	if os.Getuid() == 0 { // each of the two once
		w.run = Run
	}
	testHostile(t, w)
}

package command_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// somebody is a user of this machine.
type somebody struct{ uid, gid uint32 }

func whois(t *testing.T, name string) somebody {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Skipf("there is no user %s: %v", name, err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		t.Fatal(errUID, errGID)
	}
	return somebody{uint32(uid), uint32(gid)}
}

// What looks at a run starts nothing that the run names, whosever it is. What
// starts something is refused on a run that another user owns or may write,
// unless it is trusted. Two real users try it.
func TestTrustBoundary(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two other users: run this test as root")
	}
	const python = "/usr/bin/python3" // root's own may be in a folder of root's
	if _, err := os.Stat(python); err != nil {
		t.Skipf("there is no python3 for everybody: %v", err)
	}
	defer syscall.Umask(syscall.Umask(0o022)) // what is made here is for both
	owner, other := whois(t, "daemon"), whois(t, "nobody")
	top, err := os.MkdirTemp("/tmp", "lathe-trust-") // t.TempDir is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	marks, bin := filepath.Join(top, "marks"), filepath.Join(top, "bin")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []error{
		os.Chmod(top, 0o755), os.Mkdir(marks, 0o777), os.Chmod(marks, 0o777), os.Mkdir(bin, 0o755), os.WriteFile(filepath.Join(bin, "lathe"), program, 0o755),
		os.CopyFS(filepath.Join(top, "jobs"), os.DirFS(repository+"/jobs")), os.CopyFS(filepath.Join(top, "data"), os.DirFS(repository+"/data")),
		os.Mkdir(filepath.Join(top, "runs"), 0o777), os.Chmod(filepath.Join(top, "runs"), 0o777),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	for _, name := range []string{"rollout", "score", "buffer", "learn"} {
		if err := os.Symlink("lathe", filepath.Join(bin, "lathe-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	// The program of the functions leaves a mark before it does its work.
	tell := filepath.Join(top, "tell.sh")
	script := fmt.Sprintf("#!/bin/sh\n: > %s/$$\nexec %s \"$@\"\n", marks, python)
	if err := os.WriteFile(tell, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	as := func(who somebody, args ...string) (ended, bool) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(marks), os.Mkdir(marks, 0o777), os.Chmod(marks, 0o777)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(bin, "lathe"), args...)
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + top, "TMPDIR=/tmp"}
		cmd.Dir = "/tmp"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who.uid, Gid: who.gid}}
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(marks)
		if err != nil {
			t.Fatal(err)
		}
		return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}, len(entries) > 0
	}
	run := filepath.Join(top, "runs", "run")
	words := fmt.Sprintf("env.tooluse.command=[%s,%s]", tell, filepath.Join(top, "data", "tooluse", "own", "serve.py"))
	if e, started := as(owner, runArgs(run, filepath.Join(top, "jobs", "tooluse-own.yaml"), words, "schedule.iterations=1", "warm_start.steps=1", "warm_start.chunk=1", "warm_start.batch=2")...); e.code != exitcode.OK || !started {
		t.Fatalf("the run ends with %d, its program started: %v\n%s", e.code, started, e.stderr)
	}
	undo := func() { // so that there is something to do
		for _, name := range []string{"policy", "warm", "iter", "eval"} {
			if err := os.RemoveAll(filepath.Join(run, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	readable := func(group int, mode fs.FileMode) {
		if err := os.Chown(run, -1, group); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(run, mode); err != nil {
			t.Fatal(err)
		}
	}
	const refused = exitcode.Usage
	for _, c := range []struct {
		who    string
		by     somebody
		mode   fs.FileMode
		group  int
		starts int // exit code of what starts programs
	}{
		{"own run", owner, 0o755, int(owner.gid), exitcode.OK},
		{"run of another user", other, 0o755, int(owner.gid), refused},
		{"run in a group-writable folder", owner, 0o775, int(other.gid), refused},
	} {
		t.Run(c.who, func(t *testing.T) {
			readable(c.group, c.mode)
			for _, looks := range [][]string{{"status", run}, {"verify", run}, {"report", run}, {"prune", "--keep-every", "1", "--dry-run", run}, {"run", "--run", run, "--dry-run"}, {"explain", run, "--iter", "1", "--instance", "none"}} {
				e, started := as(c.by, looks...)
				t.Logf("lathe %s: exit code %d, a program of the run started: %v", looks[0], e.code, started)
				if started {
					t.Errorf("lathe %s starts a program of the run", strings.Join(looks, " "))
				}
			}
			for _, starts := range [][]string{{"replay", run, "--iter", "1", "--stage", "warm"}, {"run", "--run", run}} {
				again := func() {
					if starts[0] == "run" {
						undo()
					}
				}
				again()
				e, started := as(c.by, starts...)
				t.Logf("lathe %s: exit code %d, a program of the run started: %v", starts[0], e.code, started)
				if e.code != c.starts || started != (c.starts == exitcode.OK) {
					t.Errorf("lathe %s ends with %d and starts a program: %v\n%s", strings.Join(starts, " "), e.code, started, e.stderr)
				}
				if c.starts == refused && !strings.Contains(e.stderr, "--trust") {
					t.Errorf("the refusal does not name --trust:\n%s", e.stderr)
				}
				if c.by == owner {
					again()
					e, started = as(c.by, append(starts, "--trust")...)
					if e.code != exitcode.OK || !started {
						t.Errorf("lathe %s --trust ends with %d and starts a program: %v\n%s", strings.Join(starts, " "), e.code, started, e.stderr)
					}
				}
			}
			if c.by == other { // it has undone the run
				if e, _ := as(owner, "run", "--run", run); e.code != exitcode.OK {
					t.Fatalf("the owner's run ends with %d\n%s", e.code, e.stderr)
				}
			}
			e, started := as(c.by, "advance", "--run", run)
			if started || c.starts == refused && e.code != refused {
				t.Errorf("lathe advance ends with %d and starts a program: %v\n%s", e.code, started, e.stderr)
			}
		})
	}
}

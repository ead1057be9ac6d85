package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/await"
)

// What a child starts ends with it: also what has a session of its own, and what has
// lost its parent.
func TestDescendantsEnd(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skipf("there is no setsid: %v", err)
	}
	const script = `
		sleep 600 & echo $!
		setsid sleep 600 & echo $!
		setsid sh -c 'sleep 600 & echo $!' &
		%`
	for name, end := range map[string]string{"killed": "sleep 600", "at its end": "sleep 0.2"} {
		t.Run(name, func(t *testing.T) {
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", strings.ReplaceAll(script, "%", end))
			cmd.Stdout = in
			c, err := Start(cmd, syscall.SIGKILL)
			if err != nil {
				t.Fatal(err)
			}
			in.Close()
			var pids []int
			for lines := bufio.NewScanner(out); len(pids) < 3 && lines.Scan(); {
				pid, err := strconv.Atoi(lines.Text())
				if err != nil {
					t.Fatal(err)
				}
				pids = append(pids, pid)
			}
			if name == "killed" {
				c.Kill()
			}
			<-c.Gone()
			for _, pid := range append(pids, c.cmd.Process.Pid) {
				await.Until(t, fmt.Sprintf("process %d of %v has ended", pid, pids), func() bool { return syscall.Kill(pid, 0) != nil })
			}
			c.Signal(syscall.SIGTERM) // of who has ended does no harm
		})
	}
}

// Orphans that end by themselves leave no process id behind: neither those of a child nor
// those that its own children have left to it. Alone: the children of other tests
// leave orphans too.
func TestOrphansAreCollected(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skipf("there is no setsid: %v", err)
	}
	out, err := exec.Command("sh", "-c", "echo").Output() // a child of another kind, waited for by itself
	if err != nil || len(out) != 1 {
		t.Fatal(err)
	}
	for range 3 {
		// The shell between ends at once, so the other is adopted; it has no mark and ends
		// before the child does.
		c, err := Start(exec.Command("sh", "-c", `setsid sh -c 'env -i sh -c "exit 0" & exit 0'; sleep 0.1`), syscall.SIGKILL)
		if err != nil {
			t.Fatal(err)
		}
		<-c.Gone()
	}
	for _, p := range Processes() {
		if p.ended && p.Parent == os.Getpid() && p.Group != syscall.Getpgrp() {
			t.Errorf("process %d has ended, and nobody has collected it", p.PID)
		}
	}
}

// A program that is not ours sees nothing of our environment but the basics and
// what is named.
func TestEnvironment(t *testing.T) {
	t.Setenv("LATHE_TEST_SECRET", "hunter2")
	t.Setenv("LC_TIME", "C")
	t.Setenv("CUDA_VISIBLE_DEVICES", "3")
	has := func(environ []string, entry string) bool { return slices.Contains(environ, entry) }
	alone := Environment()
	if has(alone, "LATHE_TEST_SECRET=hunter2") || has(alone, "CUDA_VISIBLE_DEVICES=3") || !has(alone, "LC_TIME=C") || !has(alone, "PATH="+os.Getenv("PATH")) {
		t.Errorf("the minimal environment is %q", alone)
	}
	if with := Environment("CUDA_*", "LATHE_TEST_SECRET"); !has(with, "LATHE_TEST_SECRET=hunter2") || !has(with, "CUDA_VISIBLE_DEVICES=3") {
		t.Errorf("with what is named it is %q", with)
	}
}

func BenchmarkEnd(b *testing.B) {
	for b.Loop() {
		c, err := Start(exec.Command("true"), syscall.SIGKILL)
		if err != nil {
			b.Fatal(err)
		}
		<-c.Gone()
	}
}

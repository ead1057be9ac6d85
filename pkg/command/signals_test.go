package command_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// panics is a program with a bug.
func panics() *cli.App {
	return &cli.App{Name: "lathe-panics", Action: func(*cli.Context) error { panic("for the test") }}
}

// deaf is a program that is busy with something that no context ends.
func deaf() *cli.App {
	return &cli.App{Name: "lathe-deaf", Action: func(c *cli.Context) error {
		fmt.Println("ready")
		<-c.Context.Done()
		time.Sleep(time.Second / 2)
		fmt.Println("busy")
		time.Sleep(time.Second / 2)
		fmt.Println("still busy")
		time.Sleep(time.Minute)
		return nil
	}}
}

func TestPanicIsABug(t *testing.T) {
	e := execute(t, nil, "lathe-panics")
	line, stack, _ := strings.Cut(e.stderr, "\n")
	if e.code != exitcode.Bug || line != "lathe-panics: this is a bug in Lathe: for the test" {
		t.Errorf("exit code %d: %s", e.code, line)
	}
	if !strings.Contains(stack, "signals_test.go") {
		t.Errorf("the stack does not show the place:\n%s", stack)
	}
}

// A signal ends a command at once that waits for a line of standard input.
func TestSignalEndsReading(t *testing.T) {
	model := filepath.Join(t.TempDir(), "p")
	lathe(t, exitcode.OK, "policy", "init", "--recipe", smoke, "--out", model)
	for _, words := range [][]string{
		{"lathe", "policy", "generate", "--model", model},
		{"lathe", "policy", "generate", "--jsonl", "--model", model},
		{"lathe", "policy", "logprobs", "--model", model},
		{"lathe", "policy", "render", "--model", model},
		{"lathe", "policy", "tokenize", "--model", model},
		{"lathe-score", "check", "--env", "math"},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(strings.Join(words[:3], " ")+" "+signal.String(), func(t *testing.T) {
				t.Parallel()
				command := exec.Command(words[0], words[1:]...)
				var stderr bytes.Buffer
				command.Stderr = &stderr
				stdin, err := command.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				// More than a pipe holds: when it is written the program reads.
				if _, err := stdin.Write(bytes.Repeat([]byte("\n"), 1<<18)); err != nil {
					t.Fatal(err)
				}
				sent := time.Now()
				if err := command.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				stuck := time.AfterFunc(20*time.Second, func() { _ = command.Process.Kill() })
				defer stuck.Stop()
				_ = command.Wait() // its exit code says it
				if code := command.ProcessState.ExitCode(); code != exitcode.Stopped || !strings.Contains(stderr.String(), "stopped by a signal") {
					t.Errorf("exit code %d after %v: %s", code, time.Since(sent), stderr.String())
				}
			})
		}
	}
}

// What the first signal does not end, a second ctrl-C does. Two that come
// together are one; and whoever sends others again, as batch systems do, does
// not end what is about to leave.
func TestSecondSignalKills(t *testing.T) {
	for _, first := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR2} {
		command := exec.Command("lathe-deaf")
		stdout, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		stuck := time.AfterFunc(20*time.Second, func() { _ = command.Process.Kill() })
		words := bufio.NewScanner(stdout)
		send := func(signals ...syscall.Signal) {
			t.Helper()
			for _, signal := range signals {
				if err := command.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
		}
		words.Scan()
		send(first, first)
		if words.Scan(); words.Text() != "busy" {
			t.Errorf("%v: the first signal ended what it cannot end", first)
		}
		send(syscall.SIGTERM, syscall.SIGUSR2)
		if words.Scan(); words.Text() != "still busy" {
			t.Errorf("%v: signals that a batch system repeats ended it", first)
		}
		send(syscall.SIGINT)
		_ = command.Wait() // its state says it
		stuck.Stop()
		if status := command.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
			t.Errorf("%v: it ended with %v", first, command.ProcessState)
		}
	}
}

package command_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestScripts runs testdata/script: what a person types, what comes out on
// which stream, and the exit code.
func TestScripts(t *testing.T) {
	here := must.Get(filepath.Abs("."))(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("SMOKE", filepath.Join(here, smoke))
			env.Setenv("JOBS", filepath.Join(here, repository, "jobs"))
			env.Setenv("OLD", filepath.Join(here, "testdata", "old-run.tar.gz"))
			// The folder of the binaries alone, for what has to go without
			// the rest of the machine.
			program, err := exec.LookPath("lathe")
			env.Setenv("BIN", filepath.Dir(program))
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":       scriptExits,
			"json":        scriptJSON,
			"interrupted": scriptInterrupted,
			// `made FOLDER [SETTING...]`: a copy of a run of the smoke recipe that scripts share.
			"made": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.CopyFS(ts.MkAbs(args[0]), os.DirFS(made(t, ts.Getenv("SMOKE"), args[1:]...))))
			},
		},
	})
}

// scriptExits is `exits CODE PROGRAM ARGUMENTS...`: the program ends with
// this exit code. Its streams can be looked at afterwards.
func scriptExits(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT ...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func exitCode(err error) int {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.ExitCode()
	}
	return -1
}

// scriptJSON is `json FILE PATH [REGEXP]`: the JSON document FILE (stdout is
// one) has something at PATH, keys and indices joined by dots, and it matches
// when it is printed.
func scriptJSON(ts *testscript.TestScript, negated bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: json FILE PATH [REGEXP]")
	}
	var value any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &value); err != nil {
		ts.Fatalf("%s is not one JSON document: %v", args[0], err)
	}
	found := true
	for _, key := range strings.Split(args[1], ".") {
		switch v := value.(type) {
		case map[string]any:
			value, found = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if found = err == nil && i >= 0 && i < len(v); found {
				value = v[i]
			}
		default:
			found = false
		}
		if !found {
			break
		}
	}
	text, matched := fmt.Sprint(value), found
	if found && len(args) == 3 {
		matched = regexp.MustCompile("^(?:" + args[2] + ")$").MatchString(text)
	}
	if matched == negated {
		ts.Fatalf("%s at %s: found %v, value %s", args[0], args[1], found, text)
	}
}

// scriptInterrupted is `interrupted SIGNAL FILE PROGRAM ARGUMENTS...`: once
// FILE is there the signal is sent, and the program ends with exit code 75
// within the 20 seconds of the contract.
func scriptInterrupted(ts *testscript.TestScript, negated bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "USR2": syscall.SIGUSR2, "INT": syscall.SIGINT}
	if negated || len(args) < 3 || signals[args[0]] == 0 {
		ts.Fatalf("usage: interrupted TERM|USR2|INT FILE PROGRAM [ARGUMENT ...]")
	}
	program, err := exec.LookPath(args[2])
	ts.Check(err)
	var talk strings.Builder
	command := exec.Command(program, args[3:]...)
	command.Dir, command.Stderr = ts.MkAbs("."), &talk
	ts.Check(command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for begun := false; !begun; time.Sleep(5 * time.Millisecond) {
		_, err := os.Stat(ts.MkAbs(args[1]))
		begun = err == nil
		select {
		case err := <-ended:
			ts.Fatalf("it ended before %s was there: %v\n%s", args[1], err, talk.String())
		default:
		}
	}
	sent := time.Now()
	ts.Check(command.Process.Signal(signals[args[0]]))
	err = <-ended
	if code, took := exitCode(err), time.Since(sent); code != 75 || took > 20*time.Second {
		ts.Fatalf("exit code %d after %v, want 75 within 20 s\n%s", code, took, talk.String())
	}
	if !strings.Contains(talk.String(), "run the same command again") {
		ts.Fatalf("it does not say how to go on:\n%s", talk.String())
	}
}

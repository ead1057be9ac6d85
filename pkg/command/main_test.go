package command_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	monitorcommand "github.com/lathe-rl/lathe/pkg/command/monitor"
	"github.com/lathe-rl/lathe/pkg/command/task"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

// TestMain puts the binaries of Lathe on PATH, all of them this test binary
// under another name, so that tests start real processes: lathe finds the
// task binaries beside itself.
func TestMain(m *testing.M) {
	sandbox.Enter()
	testscript.Main(sharing{m}, map[string]func(){
		"lathe":         binary(command.Lathe),
		"lathe-rollout": binary(task.Rollout),
		"lathe-score":   binary(task.Score),
		"lathe-buffer":  binary(task.Buffer),
		"lathe-learn":   binary(task.Learn),
		"lathe-monitor": binary(func() *cli.App { return monitorcommand.App(noGPU) }),
		"policy-server": servePolicy,
		"lathe-panics":  binary(panics),
		"lathe-deaf":    binary(deaf),
	})
}

// shared is a folder of runs that several tests read, and none changes.
var (
	shared string
	runs   sync.Map // of func() ended, by recipe and settings
)

// made is such a run, made for the first test that asks.
func made(t *testing.T, recipe string, settings ...string) string {
	t.Helper()
	key := strings.Join(append([]string{recipe}, settings...), " ")
	dir := filepath.Join(shared, fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(key))))
	once, _ := runs.LoadOrStore(key, sync.OnceValue(func() ended { return execute(t, nil, "lathe", runArgs(dir, recipe, settings...)...) }))
	if e := once.(func() ended)(); e.code != exitcode.OK {
		t.Fatalf("%s: exit code %d\n%s", key, e.code, e.stderr)
	}
	return dir
}

// sharing runs tests that have a shared folder.
type sharing struct{ *testing.M }

func (s sharing) Run() int {
	var err error
	if shared, err = os.MkdirTemp("", "command-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(shared)
	return s.M.Run()
}

// binary runs an application as a process. An exit code that its help does not name (0
// is in each: TestHelp) becomes another one, which no test expects.
func binary(app func() *cli.App) func() {
	return func() {
		code := cmdline.Main(app(), os.Args)
		if code != exitcode.OK && !declares(app(), os.Args, code) {
			fmt.Fprintf(os.Stderr, "exit code %d is not among those of --help\n", code)
			code = undeclared
		}
		os.Exit(code)
	}
}

const undeclared = 99

const (
	repository = "../.."
	smoke      = "testdata/smoke.yaml"
	longSmoke  = repository + "/jobs/smoke.yaml" // what tests submit to Slurm
)

var (
	open    = commandtest.Open
	essence = commandtest.Essence
	clean   = commandtest.Clean
)

// ended is how a process ended.
type ended struct {
	code           int
	stdout, stderr string
}

// execute runs a program with more variables in its environment.
func execute(t *testing.T, env []string, name string, args ...string) ended {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// lathe runs the operator's command and checks its exit code.
func lathe(t *testing.T, code int, args ...string) ended {
	t.Helper()
	e := execute(t, nil, "lathe", args...)
	if e.code != code {
		t.Fatalf("lathe %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), e.code, code, e.stdout, e.stderr)
	}
	return e
}

// runArgs is the command line that makes a run.
func runArgs(dir, recipe string, settings ...string) []string {
	args := []string{"run", recipe, "--run", dir}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	return args
}

// copyRun copies a run folder.
func copyRun(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "run")
	must.Do(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

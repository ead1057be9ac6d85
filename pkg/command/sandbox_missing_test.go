package command_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// withoutMounts runs lathe where the kernel gives no mount namespaces.
func withoutMounts(t *testing.T, args ...string) ended {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `echo 0 >/proc/sys/user/max_mnt_namespaces && exec lathe "$@"`, "sh"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestProtectionMissing: a task whose sandbox must have what its node does not give ends
// with 69 and the reason, and is no failure of the reward. On a node that gives it the
// run is resumed, and what its programs ran under stands in status and report as lathe
// doctor names it.
func TestProtectionMissing(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3" // one on PATH may be a script with its files elsewhere
	if _, err := os.Stat(python); err != nil {
		t.Skipf("there is no python3 for everybody: %v", err)
	}
	here := sandbox.Probe()
	if !here.Has(sandbox.Paths) || !slices.Contains(here.Namespaces, "user") {
		t.Skip("this kernel does not give mount namespaces to be refused")
	}
	resolved, err := recipe.Load(repository+"/jobs/own-reward.yaml", []string{
		"env.program.command=[" + python + ", ../data/program/lathe_env.py, ../data/program/reverse.py]", "env.program.sandbox={require: [paths]}", "warm_start.steps=1", "schedule.iterations=1", "schedule.max_attempts=1",
		"rollout.prompts=1", "rollout.group=2", "rollout.shards=1", "evaluation.problems=1", "evaluation.samples=1", "evaluation.shards=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "run")
	opened, err := rundir.Create(t.Context(), graph.Dir(folder), resolved, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	const reason = "the sandbox must have paths, which this host does not provide"
	e := withoutMounts(t, "run", "--run", folder)
	if e.code != exitcode.Unavailable || !strings.Contains(e.stderr, reason) {
		t.Errorf("without mount namespaces: exit code %d\n%s%s", e.code, e.stdout, e.stderr)
	}
	records := rundir.ReadExitRecords(opened.Dir)
	if len(records) == 0 || slices.ContainsFunc(records, func(r rundir.ExitRecord) bool {
		return r.Code != exitcode.Unavailable || !strings.Contains(r.Message, reason) || !strings.Contains(r.Message, "no mount: ")
	}) {
		t.Errorf("the tasks left %+v", records)
	}
	if e := lathe(t, exitcode.OK, "status", folder); !strings.Contains(e.stdout, ": failed,") || !strings.Contains(e.stdout, reason) || strings.Contains(e.stdout, "ran under") {
		t.Errorf("status says\n%s", e.stdout)
	}
	lathe(t, exitcode.OK, "run", "--run", folder)
	under := here.String()
	for _, c := range []struct{ want, in string }{
		{"programs ran under: " + under + "\n", lathe(t, exitcode.OK, "status", folder).stdout},
		{under + " (2 responses)", lathe(t, exitcode.OK, "report", folder).stdout},
		{`"sandboxes": {` + "\n    \"" + under + `": 2`, lathe(t, exitcode.OK, "report", folder, "--json").stdout},
		{under + `"`, lathe(t, exitcode.OK, "doctor", "--local", "--folder", t.TempDir(), "--json").stdout},
		{`"found": "without processes, paths`, withoutMounts(t, "doctor", "--local", "--folder", t.TempDir(), "--json").stdout},
	} {
		if !strings.Contains(strings.Join(strings.Fields(c.in), " "), strings.Join(strings.Fields(c.want), " ")) {
			t.Errorf("%q is not in\n%s", c.want, c.in)
		}
	}
	page, err := os.ReadFile(filepath.Join(folder, "report", "index.html"))
	if err != nil || !strings.Contains(string(page), "programs ran under "+under) {
		t.Error(errors.Join(err, errors.New("the page does not say what programs ran under")))
	}
}

// TestProgramsRefused: before anything starts, a run on a machine that lacks a protection
// which its recipe requires is refused, and one that lacks another says so.
func TestProgramsRefused(t *testing.T) {
	t.Parallel()
	here := sandbox.Probe()
	if !here.Has(sandbox.Paths) || !slices.Contains(here.Namespaces, "user") {
		t.Skip("this kernel does not give mount namespaces to be refused")
	}
	folder, recipe := filepath.Join(t.TempDir(), "run"), repository+"/jobs/mle-smoke.yaml"
	const refused = "env.sandbox.require: the sandbox must have paths, which this host does not provide"
	e := withoutMounts(t, "run", recipe, "--run", folder, "--set", "env.sandbox.require=[paths]")
	if e.code != exitcode.Unavailable || !strings.Contains(e.stderr, refused) || len(rundir.ReadExitRecords(graph.Dir(folder))) > 0 {
		t.Errorf("exit code %d\n%s%s", e.code, e.stdout, e.stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "policy", "*")); len(left) > 0 {
		t.Errorf("it has made %q", left)
	}
	for require, note := range map[string]string{"paths": "this machine cannot run it: " + refused, "network": "programs of the policy run without processes, paths"} {
		e := withoutMounts(t, "run", recipe, "--run", folder+require, "--dry-run", "--set", "env.sandbox.require=["+require+"]")
		if e.code != exitcode.OK || strings.Count(e.stderr, note) != 1 {
			t.Errorf("dry run, require %s: exit code %d, want 0 and %q once\n%s", require, e.code, note, e.stderr)
		}
	}
}

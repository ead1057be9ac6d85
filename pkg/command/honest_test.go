package command_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/sandbox/sandboxtest"
)

// honestLines writes a task, and a line of lathe-score check for each honest program.
func honestLines(t *testing.T, top string) (lines string) {
	t.Helper()
	task := filepath.Join(top, "task")
	for name, text := range map[string]string{
		"task.yaml":      "title: Two\nmetric: accuracy\ndirection: maximize\nid_column: id\ntarget_columns: [kind]\nscore_range: {worst: 0, best: 1}\nlimits: {wall_seconds: 600, memory_mb: 1024, processes: 64}\n",
		"description.md": "Two rows.", "leaderboard.csv": "rank,score\n1,1\n", "private/answers.csv": "id,kind\n1,a\n", "public/sample_submission.csv": "id,kind\n1,a\n",
	} {
		path := filepath.Join(task, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	var b strings.Builder
	for _, p := range sandboxtest.Honest {
		must.Do(t, json.NewEncoder(&b).Encode(map[string]string{"id": p.What, "task": task, "program": p.Script}))
	}
	lines = filepath.Join(top, "lines.jsonl")
	must.Do(t, os.WriteFile(lines, []byte(b.String()), 0o644))
	return lines
}

// modules are those that programs need and /usr/bin/python3 has, between spaces.
var modules = sync.OnceValue(func() string {
	const ask = "import importlib.util as i, sys; print('', *(m for m in sys.argv[1:] if i.find_spec(m)), '')"
	args := []string{"-c", ask}
	for _, p := range sandboxtest.Honest {
		if p.Needs != "" {
			args = append(args, p.Needs)
		}
	}
	out, _ := exec.Command("/usr/bin/python3", args...).Output() // who cannot be asked has none
	return string(out)
})

// honest checks what lathe-score check printed of the programs.
func honest(t *testing.T, printed string) {
	t.Helper()
	said := map[string]string{}
	for line := range strings.Lines(printed) {
		var answer struct{ ID, Feedback, Error string }
		if json.Unmarshal([]byte(line), &answer) == nil {
			said[answer.ID] = answer.Feedback + answer.Error
		}
	}
	for _, p := range sandboxtest.Honest {
		t.Run(strings.ReplaceAll(p.What, " ", "-"), func(t *testing.T) {
			if p.Needs != "" && !strings.Contains(modules(), " "+p.Needs+" ") {
				t.Skipf("/usr/bin/python3 has no %s", p.Needs)
			}
			if !strings.HasPrefix(said[p.What], "ok\n") {
				t.Errorf("%q", said[p.What])
			}
		})
	}
}

// honestTop is a folder that everybody reads, on a machine that gives what the programs
// need.
func honestTop(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("there is no python3 for everybody")
	}
	if missing := sandbox.Probe().Missing([]string{sandbox.Paths, sandbox.Network}); len(missing) > 0 {
		t.Skipf("this kernel does not give %s", strings.Join(missing, ", "))
	}
	top := must.Get(os.MkdirTemp("/tmp", "honest"))(t) // t.TempDir is its owner's alone
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	must.Do(t, os.Chmod(top, 0o755))
	return top
}

// TestHonestPrograms: programs as people write them work in the sandbox of env.mle: as the
// user who runs the tests, and under nice(1) as a user who is nobody where that is root.
func TestHonestPrograms(t *testing.T) {
	t.Parallel()
	top := honestTop(t)
	lines := honestLines(t, top)
	score := must.Get(exec.LookPath("lathe-score"))(t)
	binary := filepath.Join(top, "lathe-score") // that of the tests is in a folder of their user's
	must.Do(t, os.WriteFile(binary, must.Get(os.ReadFile(score))(t), 0o755))
	must.Get(exec.Command("chmod", "-R", "a+rX", top).Output())(t) // whatever the umask took
	var other *syscall.SysProcAttr
	if os.Getuid() == 0 {
		other = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	for _, c := range []struct {
		name string
		argv []string
		user *syscall.SysProcAttr
	}{
		{"itself", nil, nil},
		{"nice", []string{"nice", "-n", "1"}, other},
	} {
		t.Run(c.name, func(t *testing.T) {
			argv := append(c.argv, binary, "check", "--env", "mle", "--interpreter", "/usr/bin/python3", "--require", "paths")
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.SysProcAttr, cmd.Env, cmd.Dir = c.user, []string{"PATH=/usr/bin:/bin", "TMPDIR=/tmp"}, "/"
			cmd.Stdin = must.Get(os.Open(lines))(t)
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, said.String())
			}
			honest(t, string(out))
		})
	}
}

// TestSlurmHonestPrograms: so do they in a job step of Slurm.
func TestSlurmHonestPrograms(t *testing.T) {
	t.Parallel()
	bin := commandtest.Build(t)
	top := honestTop(t)
	c := commandtest.StartCluster(t, bin)
	out, err := c.Command("sh", "-c", `srun --ntasks=1 "$0" check --env mle --interpreter /usr/bin/python3 --require paths <"$1"`, filepath.Join(bin, "lathe-score"), honestLines(t, top))
	if err != nil {
		t.Errorf("srun: %v\n%s", err, out)
	}
	honest(t, out)
}

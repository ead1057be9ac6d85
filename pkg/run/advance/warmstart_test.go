package advance

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TestAwaitWarmStart: a run that waits for the warm start of another takes it once it is
// made, makes none of its own while jobs of the other make it or will look at it, and
// makes its own where nobody does. Its buffer 0 and its plan of evaluations are done, so that
// nothing else is ready.
func TestAwaitWarmStart(t *testing.T) {
	settings := []string{"schedule.iterations=2", "rollout.prompts=4", "rollout.shards=4", "warm_start.chunk=300"}
	created, making := runtest.Create(t, runtest.Smoke(), settings...), runtest.Create(t, runtest.Smoke(), settings...)
	attempt := seal.AttemptFromEnv()
	if err := os.MkdirAll(created.Dir.Jobs(), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, stage := range []graph.Stage{graph.StageBuffer, graph.StageEvalPlan} {
		runtest.BoardOf(t, created.Graph).Seal(runtest.Node(stage, 0))
	}
	const dog = "sbatch gate --begin=now+600"
	comment := func(tasks string) string {
		return "scontrol update JobId=901 Comment=lathe RUN: 0 of 2 iterations learned, " + tasks + " under way"
	}
	own := []string{dog, "sbatch warm-000001", "sbatch gate --dependency=afterany:902", "log: submitted warm-000001 attempt 0: 1 task, job 902", comment("1 task")}
	awaits := func(jobs string) []string {
		return []string{dog, comment("0 tasks"), "sbatch gate --dependency=afterany:" + jobs}
	}
	gate := jobOf("103")
	submitted := func(d graph.Dir) error {
		other := Submission{Stage: graph.StageRollout, Iteration: 1, Jobs: []slurm.Job{{ID: "109", Array: true, Shards: slurm.Shards{0}}}}
		warm := Submission{Stage: graph.StageWarm, Iteration: 1, Jobs: []slurm.Job{{ID: "102", Array: true, Shards: slurm.Shards{0}}}, Gate: &gate}
		return errors.Join(writeSubmission(d, warm, attempt), writeSubmission(d, other, attempt))
	}
	for name, c := range map[string]struct {
		prepare func(of graph.Dir) error // the other run
		jobs    []string
		fail    string
		want    []string
		err     string
	}{
		"no run":          {func(of graph.Dir) error { return os.RemoveAll(string(of)) }, nil, "", own, ""},
		"never submitted": {func(graph.Dir) error { return nil }, nil, "", own, ""},
		"at it":           {submitted, []string{"102_0 RUNNING", "103 PENDING", "109_0 RUNNING"}, "", awaits("102:103"), ""},
		"its gate waits":  {submitted, []string{"102_0 FAILED", "103 PENDING"}, "", awaits("103"), ""},
		"failed":          {submitted, []string{"102_0 FAILED", "103 COMPLETED", "109_0 RUNNING"}, "", own, ""},
		"its last gate runs": {func(of graph.Dir) error {
			return seal.ReplaceJSON(lastGatePath(of), lastGate{Job: jobOf("104")}, attempt)
		}, []string{"104 RUNNING"}, "", awaits("104"), ""},
		"Slurm cannot be asked":    {submitted, nil, `squeue*" -j "*`, nil, "munge"},
		"a run that is damaged":    {func(of graph.Dir) error { return os.WriteFile(of.Identity(), []byte("{"), 0o666) }, nil, "", nil, "run.json"},
		"records cannot be listed": {func(of graph.Dir) error { return os.WriteFile(submissionsFolder(of), nil, 0o666) }, nil, "", nil, "submitted"},
	} {
		r := copied(t, created)
		other := graph.Dir(filepath.Join(t.TempDir(), "other"))
		if err := errors.Join(os.CopyFS(string(other), os.DirFS(string(making.Dir))), os.MkdirAll(other.Jobs(), 0o777), AwaitWarmStart(r.Dir, other, attempt), c.prepare(other)); err != nil {
			t.Fatal(err)
		}
		a, commands := noted(t, r, c.fail, "munge", nil, c.jobs...)
		_, err := a.Advance(t.Context())
		if diff := gocmp.Diff(c.want, commands()); diff != "" || (err == nil) != (c.err == "") {
			t.Errorf("%s: %v, want %q; commands (-want +got):\n%s", name, err, c.err, diff)
		}
	}

	// Once it is made, the run has a copy of it.
	r := copied(t, created)
	a, commands := noted(t, r, "", "", nil, "102_0 RUNNING")
	if err := errors.Join(AwaitWarmStart(r.Dir, making.Dir, attempt), os.MkdirAll(making.Dir.Jobs(), 0o777), submitted(making.Dir)); err != nil {
		t.Fatal(err)
	}
	folder, err := seal.CreateFolder(making.Dir.Policy(0), attempt)
	if err != nil {
		t.Fatal(err)
	}
	err = os.WriteFile(filepath.Join(folder.Path(), "weights"), []byte("w"), 0o666)
	if err == nil {
		_, err = folder.Commit(making.Graph.Expected(graph.Task{Node: making.Graph.LastLearn(0)}))
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{"log: the run begins with the warm start of " + string(making.Dir)}, nil} {
		jobs, err := a.takeWarmStart(t.Context(), slurm.Limits{})
		if diff := gocmp.Diff(want, commands()); jobs != nil || err != nil || diff != "" || runtest.Digest(t, r.Dir.Policy(0)) != runtest.Digest(t, making.Dir.Policy(0)) {
			t.Errorf("look %d: %v, %v (-want +got):\n%s", i, jobs, err, diff)
		}
	}
}

package advance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// history is a run of which so many iterations are done and the rollouts of the next
// are half done, all of it through Slurm: each node has the record of an array with a
// gate. jobs are the ids of the arrays and gates of each.
func history(t *testing.T, done int) (r *rundir.Run, jobs map[graph.Node][]string) {
	t.Helper()
	settings := []string{fmt.Sprintf("schedule.iterations=%d", done+2), "rollout.prompts=4", "rollout.shards=4", "warm_start.chunk=300"}
	r, err := rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), runtest.Load(t, settings...), seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	r.Recipe.Evaluation.Problems, r.Graph.Recipe.Evaluation.Problems = 0, 0
	b := runtest.BoardOf(t, r.Graph)
	jobs = map[graph.Node][]string{}
	submit := func(n graph.Node) {
		t.Helper()
		id := 100 + 2*len(jobs)
		jobs[n] = []string{fmt.Sprint(id), fmt.Sprint(id + 1)}
		at := time.Now().Add(-time.Hour).Add(time.Duration(id) * time.Second)
		array := slurm.Job{ID: jobs[n][0], Array: true, Submitted: at}
		for shard := range b.Shards(n) {
			array.Shards = append(array.Shards, shard)
		}
		gate := slurm.Job{ID: jobs[n][1], Shards: slurm.Shards{0}, Submitted: at}
		if err := writeSubmission(r.Dir, Submission{Stage: n.Stage, Iteration: n.Iteration, Jobs: []slurm.Job{array}, Gate: &gate, Submitted: at}, seal.AttemptFromEnv()); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []graph.Node{runtest.Node(graph.StageBuffer, 0), runtest.Node(graph.StageWarm, 1)} {
		submit(n)
		b.Seal(n)
	}
	for k := 1; k <= done; k++ {
		for _, stage := range []graph.Stage{graph.StageRollout, graph.StageScore, graph.StageBuffer, graph.StageLearn} {
			submit(runtest.Node(stage, k))
			if stage == graph.StageBuffer {
				b.Close()
			}
			b.Seal(runtest.Node(stage, k))
		}
	}
	submit(runtest.Node(graph.StageRollout, done+1))
	b.Seal(runtest.Node(graph.StageRollout, done+1), 0, 1)
	return r, jobs
}

// fakeQueue are scripts of a Slurm that takes everything and has jobs of some ids
// pending, and notes the ids that squeue is asked about.
func fakeQueue(asked string, pending ...string) map[string]string {
	queue := `case " $* " in
*" -j "*) echo "${!#}" >>` + asked + "\n"
	for _, id := range pending {
		queue += "echo '" + id + "|PENDING|0|0|N/A|N/A||None|'\n"
	}
	return map[string]string{
		"scontrol": `echo "MaxArraySize = 1001
MaxJobCount = 10000"`,
		"sbatch": `cat >/dev/null; echo 9999`, "scancel": "exit 1",
		"squeue": queue + ";;\nesac",
	}
}

// A gate reads the records of what is to be done still and of what was submitted last of
// each stage, asks Slurm about these alone, and opens no policy but the last and the
// reference: what it costs does not grow with the iterations that are done.
func TestGateLeavesHistoryAlone(t *testing.T) {
	const done = 6
	r, jobs := history(t, done)
	asked := filepath.Join(t.TempDir(), "asked")
	records, policies := submissionsFolder(r.Dir), filepath.Dir(r.Dir.Policy(0))
	rollouts := runtest.Node(graph.StageRollout, done+1)
	a := advancerOf(t, r, fakeQueue(asked, jobs[rollouts][0]+"_[2-3]", jobs[rollouts][1]))
	// What is done of the rollouts was submitted once more: Slurm is not asked about it.
	again := Submission{Stage: rollouts.Stage, Iteration: rollouts.Iteration, Attempt: 1, Jobs: []slurm.Job{{ID: "800", Array: true, Shards: slurm.Shards{0, 1}}}, Submitted: time.Now()}
	if err := writeSubmission(r.Dir, again, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	opens := runtest.CountOpens(t, records, policies)

	result, err := a.Advance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The scores of two shards are ready, and two rollouts wait.
	if result.Live != 4 || len(result.Submitted) != 1 || result.Submitted[0].Stage != graph.StageScore {
		t.Errorf("%d tasks live, submitted %+v; want 4, the scores", result.Live, result.Submitted)
	}
	want := []graph.Node{
		runtest.Node(graph.StageWarm, 1), rollouts,
		runtest.Node(graph.StageScore, done), runtest.Node(graph.StageBuffer, done), runtest.Node(graph.StageLearn, done),
	}
	reads := []string{submissionPath(r.Dir, rollouts, 1)}
	var ids []string
	for _, n := range want {
		reads = append(reads, submissionPath(r.Dir, n, 0))
		ids = append(ids, jobs[n][1])
	}
	ids = append(ids, jobs[rollouts][0]) // of what is done the gates alone
	slices.Sort(reads)
	slices.Sort(ids)
	var gotReads []string
	_, files := opens.Counts()
	for path, times := range files {
		name := filepath.Base(path)
		switch {
		case strings.HasPrefix(name, "."): // the new record
		case filepath.Dir(path) == records:
			gotReads = append(gotReads, path)
			if times != 1 {
				t.Errorf("%s was opened %d times", r.Dir.Rel(path), times)
			}
		case !strings.HasPrefix(name, filepath.Base(r.Dir.Policy(done))) && !strings.HasPrefix(name, filepath.Base(r.Graph.ReferencePath(done+1))):
			t.Errorf("%s was opened", r.Dir.Rel(path))
		}
	}
	slices.Sort(gotReads)
	if !slices.Equal(gotReads, reads) {
		t.Errorf("records %v were read, want %v", gotReads, reads)
	}
	content, err := os.ReadFile(asked)
	if got := strings.TrimSpace(string(content)); err != nil || got != strings.Join(ids, ",") {
		t.Errorf("squeue is asked about %s, %v; want %s", got, err, strings.Join(ids, ","))
	}
}

// The gate behind the last array that was done may wait for a place still: that is one
// that resumes the run.
func TestGateBehindWhatIsDoneCounts(t *testing.T) {
	const done = 2
	r, jobs := history(t, done)
	last := runtest.Node(graph.StageLearn, done)
	a := advancerOf(t, r, fakeQueue(filepath.Join(t.TempDir(), "asked"), jobs[last][1]))
	seen, err := SeeJobs(t.Context(), a)
	if err != nil || seen.Gates != 1 || len(seen.Unknown) != 4 {
		t.Errorf("%d gates wait, %d tasks are unknown, %v; want 1, 4", seen.Gates, len(seen.Unknown), err)
	}
}

// Of a run that is done Slurm is asked what of it is in the queue, and nothing of its
// records; what waits is cancelled, and what a job left that is not there is removed. Jobs
// of a copy of the run, whose names are the same, and of others stay.
func TestGateOfARunThatIsDone(t *testing.T) {
	r, _ := history(t, 1)
	b := runtest.BoardOf(t, r.Graph)
	for _, stage := range []graph.Stage{graph.StageRollout, graph.StageScore, graph.StageBuffer, graph.StageLearn} {
		if stage == graph.StageBuffer {
			b.Close()
		}
		b.Seal(runtest.Node(stage, 2))
	}
	b.Seal(runtest.Node(graph.StageRollout, 3))
	b.Seal(runtest.Node(graph.StageScore, 3))
	b.Close()
	b.Seal(runtest.Node(graph.StageBuffer, 3))
	b.Seal(runtest.Node(graph.StageLearn, 3))

	log := filepath.Join(t.TempDir(), "log")
	prefix := slurm.NamePrefix(r.Identity.RunID)
	scripts := fakeQueue(log)
	scripts["squeue"] = `echo "squeue $*" >>` + log + `
echo "500 PENDING ` + prefix + `gate"
echo "501 RUNNING ` + prefix + `evaluate-000002"
echo "502 PENDING another"
echo "503 PENDING ` + prefix + `gate ` + string(copied(t, r).Dir) + `"
echo "504 PENDING "`
	scripts["scancel"] = `echo "scancel $*" >>` + log
	a := advancerOf(t, r, scripts)
	opens := runtest.CountOpens(t, submissionsFolder(r.Dir))
	abandoned := func(job string) string {
		attempt := seal.AttemptFromEnv()
		attempt.JobID = job
		w, err := seal.Create(r.Dir.Join("iter", "left"), attempt)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write([]byte("half"))
		if err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(r.Dir.Join("iter", ".left."+job+"_*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("temporary files %v, %v", found, err)
		}
		return found[0]
	}
	gone, lives := abandoned("499"), []string{abandoned("501"), abandoned("502")}
	result, err := a.Advance(t.Context())
	if err != nil || !result.Done {
		t.Fatalf("done %v, %v", result.Done, err)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("what a job left that is gone is there still")
	}
	for _, live := range lives {
		if _, err := os.Stat(live); err != nil {
			t.Errorf("what a job writes that runs is removed: %v", err)
		}
	}
	if _, files := opens.Counts(); len(files) > 0 {
		t.Errorf("records are read: %v", files)
	}
	scripts["squeue"] = "echo munge >&2; exit 1" // who may still write is not known
	gone = abandoned("498")
	if err := advancerOf(t, r, scripts).leave(t.Context()); err == nil {
		t.Error("a queue that nobody can ask is no error")
	}
	if _, err := os.Stat(gone); err != nil {
		t.Errorf("what a job left is removed although nobody knows the queue: %v", err)
	}
	content, err := os.ReadFile(log)
	if said := string(content); err != nil || strings.Contains(said, " -j ") || strings.Count(said, "scancel --state=PENDING 500\n") != 1 || strings.Count(said, "scancel") != 1 {
		t.Errorf("Slurm is asked %s, %v", said, err)
	}
}

// Records that list each shard in a line of its own, as they were written before, are
// read as ever; what is written now takes a line for however many.
func TestRecordsAreShort(t *testing.T) {
	t.Parallel()
	d, n := graph.Dir(t.TempDir()), runtest.Node(graph.StageRollout, 3)
	path := submissionPath(d, n, 0)
	old := `{"stage": "rollout", "iteration": 3, "attempt": 0, "shards": [0, 1, 4],
"jobs": [{"id": "7", "array": true, "shards": [0,
1]}, {"id": "8", "array": true, "shards": [4]}], "gate": {"id": "9", "shards": [0]}, "submitted": "2026-01-02T03:04:05Z"}`
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(old), 0o666); err != nil {
		t.Fatal(err)
	}
	tasks, err := Submitted(d)
	want := map[string]graph.Task{"7_0": {Node: n}, "7_1": {Node: n, Shard: 1}, "8_0": {Node: n, Shard: 4}}
	if err != nil || len(tasks) != len(want) || tasks["7_0"] != want["7_0"] || tasks["7_1"] != want["7_1"] || tasks["8_0"] != want["8_0"] {
		t.Errorf("an old record is read as %v, %v; want %v", tasks, err, want)
	}
	job := slurm.Job{ID: "7", Array: true}
	for shard := range 10_000 {
		job.Shards = append(job.Shards, shard)
	}
	if err := writeSubmission(d, Submission{Stage: n.Stage, Iteration: 3, Jobs: []slurm.Job{job}, Submitted: time.Now()}, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 1000 {
		t.Errorf("a record of 10,000 shards has %d bytes, %v", info.Size(), err)
	}
	if s, ok := readSubmission(d, n, 0); !ok || s.tasks() != 10_000 {
		t.Errorf("it is read as %d tasks, %v", s.tasks(), ok)
	}
}

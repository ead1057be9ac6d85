package advance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TestNoteEnd: what keeps a run from going on is noted in the run and in the comments of
// the jobs that people look at; whatever resumes it removes the note.
func TestNoteEnd(t *testing.T) {
	for _, c := range []struct {
		job      string // of this process
		ended    error
		who      string // who is stuck; empty for nobody
		comments []string
	}{
		{"77", exitcode.WithHint(exitcode.Usagef("no such qos"), "see sinfo"), "controller job 77 could not submit what is ready: no such qos (see sinfo)", []string{"77", "500"}},
		{"", errors.New("sbatch is gone"), "the last lathe advance, on n3, could not submit what is ready: sbatch is gone", []string{"500"}},
		{"77", nil, "", nil},
		{"77", slurm.ErrQueueFull, "", nil},
		{"77", exitcode.LeftOutf("without 1 shard"), "", nil},
		{"77", &failedError{errors.New("attempts are used up")}, "", nil},
		{"77", exitcode.Stoppedf("a signal"), "before", nil},
	} {
		d := graph.Dir(t.TempDir())
		log := filepath.Join(t.TempDir(), "log")
		scripts := fakeQueue("/dev/null")
		scripts["scontrol"] = `echo "$*" >>` + log
		a := advancerOf(t, &rundir.Run{Dir: d}, scripts)
		t.Setenv("SLURM_JOB_ID", c.job)
		attempt := seal.Attempt{JobID: "77", Host: "n3"}
		if err := errors.Join(seal.ReplaceJSON(stuckPath(d), Stuck{Message: "before"}, attempt), seal.ReplaceJSON(watchdogPath(d), slurm.Job{ID: "500", Shards: slurm.Shards{0}}, attempt)); err != nil {
			t.Fatal(err)
		}
		NoteEnd(t.Context(), d, a.Cluster, attempt, c.ended)
		s, stuck := ReadStuck(d)
		if stuck != (c.who != "") || stuck && !strings.Contains(s.String(), c.who) || c.comments != nil && (s.Code != exitcode.Code(c.ended) || s.Time.IsZero() || s.Host != "n3") {
			t.Errorf("%v: %+v, %v; want %q", c.ended, s, stuck, c.who)
		}
		content, _ := os.ReadFile(log)
		for _, job := range []string{"77", "500"} {
			if said := strings.Contains(string(content), "JobId="+job) || strings.Contains(string(content), " "+job+" "); said != slices.Contains(c.comments, job) {
				t.Errorf("%v: Slurm is told %q", c.ended, content)
			}
		}
	}
	if _, stuck := ReadStuck(graph.Dir(t.TempDir())); stuck {
		t.Error("a run without a note is stuck")
	}
}

// TestStuckAdvance: why a run has failed, by what is known of its last tasks.
func TestStuckAdvance(t *testing.T) {
	t.Parallel()
	a := &Advancer{Run: &rundir.Run{Dir: "/run"}}
	n := runtest.Node(graph.StageScore, 1)
	found := survey.Result{Stuck: []survey.Stuck{{Node: n, Shards: []int{3}, Reason: "its attempts are used up"}}}
	for _, c := range []struct {
		evidence map[graph.Task]string
		want     string
		hints    int
	}{
		{nil, `run "/run" failed: score-000001, shard 3: its attempts are used up`, 1},
		{map[graph.Task]string{{Node: n, Shard: 3}: "exit code 1", {Node: n.Sampling(), Shard: 3}: "no"}, "used up; exit code 1", 1},
		{map[graph.Task]string{{Node: n.Sampling(), Shard: 3}: "disk quota exceeded"}, "used up; disk quota exceeded", 2},
	} {
		err := a.stuck(found, &jobsView{evidence: c.evidence})
		if !HasFailed(err) || !strings.HasSuffix(err.Error(), c.want) || len(exitcode.Hints(err)) != c.hints || IsStuck(err) {
			t.Errorf("%v with hints %q, want %q", err, exitcode.Hints(err), c.want)
		}
	}
	if err := a.stuck(survey.Result{}, &jobsView{}); exitcode.Code(err) != exitcode.Bug || HasFailed(err) {
		t.Errorf("nothing is stuck: %v", err)
	}
}

// TestRecords: what was submitted, when failures were forgiven, and the last gate.
func TestRecords(t *testing.T) {
	t.Parallel()
	d, attempt := graph.Dir(t.TempDir()), seal.AttemptFromEnv()
	if HasSubmissions(d) || !forgivenUntil(d).IsZero() {
		t.Error("a run that was never handed to Slurm")
	}
	if _, known := readLastGate(d); known {
		t.Error("a gate is known before any")
	}
	if path, there := SitePath(d); there || path != filepath.Join(d.Jobs(), "site.yaml") {
		t.Errorf("a site profile %s is there", path)
	}
	later := Submission{Stage: graph.StageScore, Iteration: 1, Attempt: 1, Jobs: []slurm.Job{{ID: "8", Array: true, Shards: slurm.Shards{4, 6}}, {ID: "9", Shards: slurm.Shards{7}}}, Submitted: time.Unix(20, 0).UTC()}
	first := Submission{Stage: graph.StageScore, Iteration: 1, Submitted: time.Unix(10, 0).UTC(), Minutes: 7}
	wave := Submission{Stage: graph.StageRollout, Iteration: 2, Wave: 1, Submitted: time.Unix(20, 0).UTC()}
	for _, s := range []Submission{later, wave, first} {
		if err := writeSubmission(d, s, attempt); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"score-000009.0.json": "{", "notes.json": "{}", "score-000001.7": "{}"} {
		if err := os.WriteFile(filepath.Join(submissionsFolder(d), name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	all, err := ReadSubmissions(d)
	if diff := cmp.Diff([]Submission{first, wave, later}, all); diff != "" || err != nil || !HasSubmissions(d) {
		t.Errorf("%v; submissions (-want +got):\n%s", err, diff)
	}
	if later.tasks() != 3 {
		t.Errorf("%d tasks", later.tasks())
	}
	listed, err := listSubmissions(d)
	if newest := listed.newest(); err != nil || newest[graph.StageScore] != 9 || newest[graph.StageRollout] != 2 {
		t.Errorf("newest %v, %v", newest, err)
	}
	before := time.Now().Add(-time.Second)
	if err := Forgive(d, attempt); err != nil || forgivenUntil(d).Before(before) {
		t.Errorf("forgiven until %v: %v", forgivenUntil(d), err)
	}
	a := &Advancer{Run: &rundir.Run{Dir: d}}
	a.Site.YAML = []byte("a: 1\n")
	for i, want := range []bool{true, false} {
		if changed, err := a.saveSite(); changed != want || err != nil {
			t.Errorf("saved for the %d. time: changed %v, %v", i+1, changed, err)
		}
	}
	a.Site.Path = sitePath(d)
	if changed, err := a.saveSite(); changed || err != nil {
		t.Errorf("the profile that is in the run: %v, %v", changed, err)
	}
	if _, there := SitePath(d); !there {
		t.Error("no site profile is there")
	}
}

// TestAttempts: of the tasks that are wanted, what Slurm and their own records say.
func TestAttempts(t *testing.T) {
	r, jobs := history(t, 1)
	rollouts := runtest.Node(graph.StageRollout, 2)
	id := jobs[rollouts][0]
	a := advancerOf(t, r, fakeQueue("/dev/null", id+"_[2-3]"))
	failed := graph.Task{Node: rollouts, Shard: 1}
	rundir.WriteExitRecord(r.Dir, failed, 0, 0, rundir.ExitRecord{Code: exitcode.Data, Message: "damaged"})
	attempts, err := Attempts(t.Context(), a, func(task graph.Task) bool { return task.Node == rollouts && task.Shard > 0 })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range attempts {
		got = append(got, fmt.Sprint(x.Task, " ", x.Number, " ", x.Job, " ", x.State.Phase, " ", x.Cause))
	}
	want := []string{
		fmt.Sprintf("rollout-000002-00001 0 %s_1 unknown %s", id, executor.CauseData),
		fmt.Sprintf("rollout-000002-00002 0 %s_2 pending ", id), fmt.Sprintf("rollout-000002-00003 0 %s_3 pending ", id),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if none, err := Attempts(t.Context(), a, func(graph.Task) bool { return false }); none != nil || err != nil {
		t.Errorf("of no task: %v, %v", none, err)
	}
}

// TestCancel: gates are taken out first, then what the pause stops, or what waits, until
// nothing of the run is left.
func TestCancel(t *testing.T) {
	lookAgain = time.Millisecond
	t.Cleanup(func() { lookAgain = time.Second })
	const run = "smoke-00ff00ff"
	prefix := slurm.NamePrefix(run)
	for _, c := range []struct {
		pause rundir.Pause
		now   bool
		said  string
		want  Cancelled
	}{
		{rundir.Pause{}, false, "--state=PENDING 1 3", Cancelled{1, 1}},
		{rundir.Pause{Stop: true}, false, "1 2 3 4", Cancelled{2, 2}},
		{rundir.Pause{Stop: true, Stage: graph.StageScore}, true, "1 2 4", Cancelled{2, 1}},
	} {
		folder := t.TempDir()
		scripts := fakeQueue("/dev/null")
		scripts["squeue"] = `[ -e ` + folder + `/scancel ] || printf '%s\n' "1 PENDING ` + prefix + `gate" "2 RUNNING ` + prefix + `gate" "3 PENDING ` + prefix + `rollout-000001" "4 RUNNING ` + prefix + `score-000001"`
		scripts["scancel"] = `echo "$*" >>` + folder + `/scancel`
		a := advancerOf(t, &rundir.Run{}, scripts)
		got, err := Cancel(t.Context(), a.Cluster, run, c.pause, c.now)
		said, _ := os.ReadFile(filepath.Join(folder, "scancel"))
		if err != nil || got != c.want || !strings.Contains(string(said), c.said) || strings.Contains(string(said), "KILL") != c.now {
			t.Errorf("%+v: %+v, want %+v; scancel %s (%v)", c.pause, got, c.want, said, err)
		}
	}
	stubborn := fakeQueue("/dev/null")
	stubborn["squeue"], stubborn["scancel"] = `echo "1 PENDING `+prefix+`gate"`, "exit 0"
	if _, err := Cancel(t.Context(), advancerOf(t, &rundir.Run{}, stubborn).Cluster, run, rundir.Pause{}, false); err == nil || !strings.Contains(err.Error(), "jobs 1 are still in the queue after 10 attempts") {
		t.Errorf("what stays in the queue: %v", err)
	}
	if got := unique([]string{"a", "b", "a", "c", "b"}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("unique %q", got)
	}
}

// TestTakeWarmStart: a run that waits for the warm start of another takes it once it is
// made, waits while jobs make it, and makes its own where nobody does.
func TestTakeWarmStart(t *testing.T) {
	r, _ := history(t, 0)
	own := func() *Advancer {
		a := advancerOf(t, r, fakeQueue("/dev/null", "102_0"))
		a.Run = runtest.Create(t, runtest.Smoke(), "schedule.iterations=2", "rollout.prompts=4", "rollout.shards=4", "warm_start.chunk=300", "seed=1")
		return a
	}
	a := own()
	if making, err := a.takeWarmStart(t.Context(), slurm.Limits{}); making != nil || err != nil {
		t.Errorf("it waits for none: %v, %v", making, err)
	}
	waiting := []string{"schedule.iterations=2", "rollout.prompts=4", "rollout.shards=4", "warm_start.chunk=300"}
	for _, other := range []graph.Dir{graph.Dir(t.TempDir()), runtest.Create(t, runtest.Smoke(), waiting...).Dir} { // no run, and one without jobs
		a := own()
		if err := AwaitWarmStart(a.Run.Dir, other, seal.AttemptFromEnv()); err != nil {
			t.Fatal(err)
		}
		if making, err := a.takeWarmStart(t.Context(), slurm.Limits{}); making != nil || err != nil {
			t.Errorf("of %s: %v, %v", other, making, err)
		}
	}
	// Submitted, and in the queue.
	a = own()
	other := runtest.Create(t, runtest.Smoke(), waiting...)
	gate := slurm.Job{ID: "103", Shards: slurm.Shards{0}}
	if err := errors.Join(AwaitWarmStart(a.Run.Dir, other.Dir, seal.AttemptFromEnv()),
		writeSubmission(other.Dir, Submission{Stage: graph.StageWarm, Iteration: 1, Jobs: []slurm.Job{{ID: "102", Array: true, Shards: slurm.Shards{0}}}, Gate: &gate}, seal.AttemptFromEnv())); err != nil {
		t.Fatal(err)
	}
	limits, err := a.Cluster.Limits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	making, err := a.takeWarmStart(t.Context(), limits)
	if err != nil || len(making) != 1 || making[0].ID != "102" {
		t.Errorf("one that makes it: %+v, %v", making, err)
	}
	ready := []graph.Task{{Node: runtest.Node(graph.StageWarm, 1)}, {Node: graph.Node{Stage: graph.StageBuffer}}}
	if got := unawaited(ready, making); len(got) != 1 || got[0].Stage != graph.StageBuffer || len(unawaited(ready, nil)) != 2 {
		t.Errorf("ready are %v", got)
	}
	runtest.BoardOf(t, a.Run.Graph).Seal(runtest.Node(graph.StageWarm, 1))
	if making, err := a.takeWarmStart(t.Context(), limits); making != nil || err != nil {
		t.Errorf("one that is made: %v, %v", making, err)
	}
}

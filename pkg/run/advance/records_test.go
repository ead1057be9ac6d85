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
		if strings.Contains(string(content), "JobId= ") || c.comments != nil && s.Job != c.job {
			t.Errorf("%v: of job %q Slurm is told %q", c.ended, s.Job, content)
		}
		for _, job := range []string{"77", "500"} {
			if said := strings.Contains(string(content), "JobId="+job) || strings.Contains(string(content), " "+job+" "); said != slices.Contains(c.comments, job) {
				t.Errorf("%v: Slurm is told %q", c.ended, content)
			}
		}
	}
	if _, stuck := ReadStuck(graph.Dir(t.TempDir())); stuck {
		t.Error("a run without a note is stuck")
	}
	d := graph.Dir(t.TempDir())
	if NoteEnd(t.Context(), d, nil, seal.Attempt{}, errors.New("no Slurm")); !strings.HasPrefix(func() string { s, _ := ReadStuck(d); return s.Message }(), "no Slurm") {
		t.Error("where Slurm cannot be asked, nothing is noted")
	}
}

// TestDamagedRecords: a record that is damaged, or not of one job, is as good as none.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	n := runtest.Node(graph.StageScore, 1)
	for content, want := range map[string]string{
		"":                                    "",
		"{":                                   "",
		"{}":                                  "submission",
		`{"id": "7", "shards": [0]}`:          "gate timed submission",
		`{"id": "7", "shards": [0, 1]}`:       "submission",
		`{"id": "7", "shards": []}`:           "submission",
		`{"message": "no qos", "shards": [0]`: "",
		`{"message": "no qos", "code": 64}`:   "stuck submission",
		"2026-01-02T03:04:05.5Z\n":            "forgiven",
	} {
		d := graph.Dir(t.TempDir())
		if err := os.MkdirAll(submissionsFolder(d), 0o777); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{stuckPath(d), lastGatePath(d), watchdogPath(d), forgivenPath(d), submissionPath(d, n, 0)} {
			if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		note := func(name string, is bool) {
			if is {
				got = append(got, name)
			}
		}
		_, stuck := ReadStuck(d)
		_, gate := readLastGate(d)
		_, timed := readTimed(watchdogPath(d))
		_, submission := readSubmission(d, n, 0)
		note("stuck", stuck)
		note("gate", gate)
		note("timed", timed)
		note("submission", submission)
		note("forgiven", forgivenUntil(d).Equal(time.Date(2026, 1, 2, 3, 4, 5, 5e8, time.UTC)))
		if got := strings.Join(got, " "); got != want || !HasSubmissions(d) || want != "forgiven" && !forgivenUntil(d).IsZero() {
			t.Errorf("%s is read as %q, want %q; forgiven until %v", content, got, want, forgivenUntil(d))
		}
	}
	file := graph.Dir(t.TempDir())
	if err := errors.Join(os.MkdirAll(file.Jobs(), 0o777), os.WriteFile(submissionsFolder(file), nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	_, err := ReadSubmissions(file)
	_, errTasks := Submitted(file)
	_, errAttempts := Attempts(t.Context(), &Advancer{Run: &rundir.Run{Dir: file}}, nil)
	if err == nil || errTasks == nil || errAttempts == nil || HasSubmissions(file) {
		t.Errorf("records that cannot be listed: %v, %v, %v", err, errTasks, errAttempts)
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
	if err := os.MkdirAll(submissionsFolder(d), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notes.json", "score-000001.7"} {
		if err := os.WriteFile(filepath.Join(submissionsFolder(d), name), []byte("{}"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if HasSubmissions(d) {
		t.Error("files that are no records are submissions")
	}
	for _, s := range []Submission{later, wave, first} {
		if err := writeSubmission(d, s, attempt); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(submissionPath(d, runtest.Node(graph.StageScore, 9), 0), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
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

// TestAttempts: of the tasks that are wanted, what Slurm and their own records say. Slurm
// is asked about no other job.
func TestAttempts(t *testing.T) {
	r, jobs := history(t, 1)
	rollouts := runtest.Node(graph.StageRollout, 2)
	id := jobs[rollouts][0]
	asked := filepath.Join(t.TempDir(), "asked")
	scripts := queueOf(id+"_1 FAILED", id+"_2 PENDING", id+"_3 RUNNING")
	scripts["squeue"] = `echo "${!#}" >>` + asked + "\n" + scripts["squeue"]
	a := advancerOf(t, r, scripts)
	for shard := range 4 { // of those that live, from an earlier start
		rundir.WriteExitRecord(r.Dir, graph.Task{Node: rollouts, Shard: shard}, 0, 0, rundir.ExitRecord{Code: exitcode.Data, Message: "damaged"})
	}
	attempts, err := Attempts(t.Context(), a, func(task graph.Task) bool { return task.Node == rollouts })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range attempts {
		got = append(got, fmt.Sprint(x.Task, " ", x.Number, " ", x.Job, " ", x.State.Phase, " ", x.Cause, ": ", x.Evidence))
	}
	want := []string{
		fmt.Sprintf("rollout-000002-00000 0 %s_0 unknown %s: damaged", id, executor.CauseData),
		fmt.Sprintf("rollout-000002-00001 0 %s_1 ended %s: damaged", id, executor.CauseData),
		fmt.Sprintf("rollout-000002-00002 0 %s_2 pending : squeue: PENDING, exit code 1:0, on n1", id),
		fmt.Sprintf("rollout-000002-00003 0 %s_3 running : squeue: RUNNING, exit code 1:0, on n1", id),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if content, err := os.ReadFile(asked); string(content) != id+"\n" {
		t.Errorf("squeue is asked about %s, %v; want %s", content, err, id)
	}
	for _, broken := range []string{"scontrol", "squeue", ""} {
		scripts := fakeQueue("/dev/null")
		if broken != "" {
			scripts[broken] = "echo munge >&2; exit 1"
		}
		all := func(graph.Task) bool { return broken != "" }
		attempts, err := Attempts(t.Context(), advancerOf(t, r, scripts), all)
		_, errSeen := SeeJobs(t.Context(), advancerOf(t, r, scripts))
		if attempts != nil || (err == nil) != (broken == "") || (errSeen == nil) != (broken == "") {
			t.Errorf("without %s, or of no task: %v, %v, %v", broken, attempts, err, errSeen)
		}
	}
}

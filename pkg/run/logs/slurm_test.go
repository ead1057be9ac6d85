package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/site"
)

// onSlurm is what asks a cluster whose squeue has these lines, and whose controller does
// not answer where there are none.
func onSlurm(t *testing.T, r *rundir.Run, lines ...string) *advance.Advancer {
	t.Helper()
	folder := t.TempDir()
	scripts := map[string]string{"sbatch": "exit 1", "scancel": "exit 1", "squeue": "cat <<'END'\n" + strings.Join(lines, "\n") + "\nEND", "scontrol": "echo MaxArraySize = 101; echo MaxJobCount = 100"}
	if lines == nil {
		scripts["scontrol"] = "echo nothing"
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	cluster, err := slurm.Open(site.Default())
	if err != nil {
		t.Fatal(err)
	}
	return &advance.Advancer{Run: r, Cluster: cluster, Site: site.Resolved{Site: site.Default()}, Log: t.Logf}
}

// TestCollectFromSlurm: what Slurm knows of attempts joins what they left, attempts without
// a log among them; of what is done it is asked only where somebody asks for it; and a
// controller job that ended badly comes first, with the log of the last one.
// Alone: Slurm's commands are on PATH.
func TestCollectFromSlurm(t *testing.T) {
	b := runtest.NewBoard(t, "schedule.iterations=1", "resources.stages.score.minutes=60")
	r := b.Run()
	b.Seal(runtest.Node(graph.StageRollout, 1))
	write := func(path, text string) {
		t.Helper()
		at := time.Unix(100, 0)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range []string{`"stage": "rollout"`, `"stage": "score"`} {
		write(filepath.Join(b.Dir.Jobs(), "submitted", []string{"rollout", "score"}[i]+"-000001.0.json"),
			fmt.Sprintf(`{%s, "iteration": 1, "jobs": [{"id": "%d", "array": true, "shards": [0, 1]}], "submitted": "2026-01-01T00:00:00Z"}`, s, 30+i))
	}
	write(b.Dir.Log(graph.Task{Node: runtest.Node(graph.StageRollout, 1)}, 0), "a")
	for attempt := range 9 {
		write(b.Dir.Log(graph.Task{Node: graph.Node{Stage: Gate}}, attempt), "gate")
	}
	list := func(a *advance.Advancer, f Filter) (all []string) {
		entries, err := Collect(t.Context(), r, a, false, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, fmt.Sprintf("%s %s.%d job %s node %s log %s: %s", e.State, e.Task, e.Attempt, e.Job, e.Node, e.Log, e.Evidence))
		}
		return all
	}
	queue := []string{
		"30_0|COMPLETED|0|0|1000|2000|n1|None|", "30_1|COMPLETED|0|0|1000|2000|n1|None|", "31_0|RUNNING|0|0|1000|2000|n2|None|", "31_1|PENDING|0|0|N/A|N/A||Priority|",
		"50|FAILED|256|0|1000|2000|n3|None|",
	}
	scores := []string{
		"running score-000001-00000.0 job 31_0 node n2 log : squeue: RUNNING, on n2",
		"waiting score-000001-00001.0 job 31_1 node  log : squeue: PENDING, reason Priority",
	}
	const rollout = "done rollout-000001-00000.0 job %s node %s log logs/rollout-000001-00000.0.log: "
	withoutController := append(append([]string{}, scores...), fmt.Sprintf(rollout, "", ""))
	a := onSlurm(t, r, queue...)
	if diff := cmp.Diff(withoutController, list(a, Filter{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	write(filepath.Join(b.Dir.Jobs(), "watchdog.json"), `{"id": "50", "shards": [0], "submitted": "2026-01-01T00:00:00Z"}`)
	const gate = "failed gate-000000-00000.8 job  node  log logs/gate-000000-00000.8.log: controller job 50 ended and submitted nothing: squeue: FAILED, exit code 1:0, on n3"
	one, zero := 1, 0
	for _, c := range []struct {
		filter Filter
		want   []string
	}{
		{Filter{}, append([]string{gate}, withoutController...)},
		{Filter{Stage: graph.StageScore}, scores},
		{Filter{Failed: true}, []string{gate}},
		{Filter{Stage: graph.StageRollout}, []string{fmt.Sprintf(rollout, "30_0", "n1"), "done rollout-000001-00001.0 job 30_1 node n1 log : "}},
		{Filter{Stage: graph.StageScore, Iteration: &one, Shard: &zero}, scores[:1]},
	} {
		if diff := cmp.Diff(c.want, list(a, c.filter)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.filter, diff)
		}
	}
	if all, err := Collect(t.Context(), r, a, false, Filter{Stage: Gate}); err != nil || len(all) != 9 || all[0].Attempt != 8 || !all[0].End.Equal(time.Unix(100, 0)) || all[0].Cause != executor.CauseFailed || all[1].State != Unknown {
		t.Errorf("controller jobs: %+v, %v", all, err)
	}

	// What a task left says more with the site's settings: it is told to stop three minutes
	// before the limit of 60, which Slurm may do one minute early: from 3360 s on.
	task := graph.Task{Node: runtest.Node(graph.StageScore, 1), Shard: 1}
	for seconds, cause := range map[float64]executor.Cause{3359: executor.CausePreempted, 3360: executor.CauseTimeout} {
		rundir.WriteExitRecord(b.Dir, task, 3, 0, rundir.ExitRecord{Code: exitcode.Stopped, Signal: "SIGUSR2", Message: "stopped by SIGUSR2", Seconds: seconds})
		e := Entry{task: task, Attempt: 3}
		if e.judge(b.Dir, a, false, true, false); e.State != Stopped && e.State != Failed || e.Cause != cause || !strings.HasPrefix(e.Evidence, "stopped by SIGUSR2") || e.Evidence == "stopped by SIGUSR2" {
			t.Errorf("after %v s: %+v", seconds, e)
		}
	}

	silent := onSlurm(t, r)
	for _, f := range []Filter{{}, {Stage: Gate}, {Stage: graph.StageScore}} {
		if all, err := Collect(t.Context(), r, silent, false, f); exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("%+v of a cluster that does not answer: %v, %v", f, all, err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.Dir.Logs(), "gate-000000.log"), []byte("edited"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Filter{{}, {Stage: Gate}} {
		if _, err := Collect(t.Context(), r, a, false, f); exitcode.Code(err) != exitcode.Data {
			t.Errorf("%+v with a damaged log of controller jobs: %v", f, err)
		}
	}
}

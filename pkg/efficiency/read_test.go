package efficiency

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// bare is a run of one iteration that has nothing yet.
func bare(t *testing.T) *rundir.Run {
	t.Helper()
	dir := graph.Dir(t.TempDir())
	r := &rundir.Run{Dir: dir, Identity: rundir.Identity{RunID: "r1"}, Recipe: recipe.Defaults()}
	r.Recipe.Schedule.Iterations, r.Recipe.Rollout.Shards, r.Recipe.Rollout.Prompts = 1, 2, 8
	r.Graph = graph.Graph{Dir: dir, Recipe: r.Recipe, RunID: "r1"}
	return r
}

// TestReadAttempts: the samples of attempts at two hosts, in the order of their starts. An
// attempt begins with its monitor, unless that began a minute before the first sample.
func TestReadAttempts(t *testing.T) {
	t.Parallel()
	r := bare(t)
	if attempts, err := readAttempts(t.Context(), r); attempts != nil || err != nil {
		t.Errorf("no samples: %v, %v", attempts, err)
	}
	segments := func(task, host string, number, from int, seconds ...int) {
		t.Helper()
		recorder := monitor.NewRecorder(string(r.Dir), "r1", task, seal.Attempt{Host: host, JobID: "7", TaskID: "0", Number: number}, began.Add(time.Duration(from)*time.Second))
		for _, s := range seconds {
			recorder.Add(began.Add(time.Duration(s)*time.Second), -1, []monitor.Reading{{Name: monitor.Cores, Value: float64(s)}})
			if err := recorder.Seal(); err != nil {
				t.Fatal(err)
			}
		}
	}
	segments("score-000001-00000", "n2", 0, 100, 102, 110, 120)
	segments("learn-000001-00000", "n1", 2, 41, 100, 105)    // 59 s before its first sample
	segments("rollout-000001-00000", "n1", 0, 140, 200, 205) // 60 s
	segments("score-000001-00001", "n1", 0, 300, 299, 305)   // a clock that was set
	root := r.Dir.Join(monitor.Folder)
	for _, name := range []string{"notes", "n1/.x-0000.parquet", "n1/x.parquet", "n1/-0000.parquet", "n1/x-0000.txt"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	first := filepath.Join(root, "n2", fmt.Sprintf("score-000001-00000.0.%d-0001.parquet", began.Add(100*time.Second).UnixMilli()))
	if err := os.Remove(seal.ManifestPath(first)); err != nil { // it is being sealed
		t.Fatal(err)
	}
	attempts, err := readAttempts(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range attempts {
		got = append(got, fmt.Sprintf("%s.%d %s on %s, job %s, from %v for %v s: %d samples, %v cores", a.Task, a.Number, a.Stage, a.Host, a.Job, a.Start.Sub(began).Seconds(), a.Seconds, a.parts.samples, a.Cores))
	}
	want := []string{
		"learn-000001-00000.2 learn on n1, job 7_0, from 41 for 64 s: 2 samples, 105 cores", "score-000001-00000.0 score on n2, job 7_0, from 100 for 20 s: 2 samples, 120 cores",
		"rollout-000001-00000.0 rollout on n1, job 7_0, from 200 for 5 s: 2 samples, 205 cores", "score-000001-00001.0 score on n1, job 7_0, from 299 for 6 s: 2 samples, 305 cores",
	}
	if diff := cmp.Diff(want, got); diff != "" || attempts[0].parts.bytes == 0 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.WriteFile(strings.Replace(first, "-0001", "-0000", 1), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, damaged := readAttempts(t.Context(), r)
	_, joules := JoulesByIteration(t.Context(), r)
	_, report := Read(t.Context(), r, nil)
	if damaged == nil || joules == nil || report == nil {
		t.Errorf("a damaged segment: %v, %v, %v", damaged, joules, report)
	}
	if err := errors.Join(os.RemoveAll(root), os.WriteFile(root, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	if _, err := readAttempts(t.Context(), r); err == nil || !strings.HasPrefix(err.Error(), "listing the samples: ") {
		t.Errorf("a file for the folder of samples: %v", err)
	}
}

// TestJoules: what was not sampled, or has no power, is not there; held out and warm starts
// are no iteration.
func TestJoules(t *testing.T) {
	t.Parallel()
	r := bare(t)
	for task, watts := range map[string][]float64{
		"rollout-000001-00000": {100, 100}, "learn-000001-00000": {10, 20}, "rollout-000002-00000": {50, 50}, "rollout-000002-00001": nil,
		"warm-000000-00000": {9, 9}, "evalrollout-000001-00000": {9, 9}, "evalplan-000001-00000": {9, 9}, "nothing-000001-00000": {9, 9}, "score-000003-00000": {},
	} {
		recorder := monitor.NewRecorder(string(r.Dir), "r1", task, seal.Attempt{Host: "n1"}, began)
		for i := range 2 {
			readings := []monitor.Reading{{Name: monitor.Cores, Value: 1}}
			if watts == nil || len(watts) > 0 {
				readings = append(readings, monitor.Reading{Device: "g", Name: monitor.DeviceName, Detail: "H100"})
			}
			if i < len(watts) {
				readings = append(readings, monitor.Reading{Device: "g", Name: monitor.PowerWatts, Value: watts[i]})
			}
			recorder.Add(began.Add(time.Duration(i)*time.Second), -1, readings)
		}
		if err := recorder.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	joules, err := JoulesByIteration(t.Context(), r)
	if diff := cmp.Diff(map[int]float64{1: 100 + 20}, joules); diff != "" || err != nil { // of one second
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestAsk: Slurm is asked for the jobs of what was lost, and for one of the others to know
// whose they are; its accounts where it keeps some, and the queue for what the run submitted.
// Alone: Slurm's commands are on PATH.
func TestAsk(t *testing.T) {
	r := bare(t)
	folder := t.TempDir()
	asked := filepath.Join(folder, "asked")
	script := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\necho "+name+" \"$@\" >>"+asked+"\n"+text+"\n"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	config := func(accounts string) {
		script("scontrol", "echo MaxArraySize = 101; echo MaxJobCount = 100; echo AccountingStorageType = "+accounts)
	}
	for _, name := range []string{"sbatch", "scancel", "sacctmgr"} {
		script(name, "")
	}
	script("squeue", fmt.Sprintf("echo '71_0|TIMEOUT|0|0|%d|%d|n1|None|'", second(200).Unix(), second(300).Unix()))
	script("sacct", "case \"$*\" in *User*) cat <<'END'\n"+accounts+"END\n;; esac") // of its other form, nothing
	config("accounting_storage/slurmdbd")
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	cluster, err := slurm.Open(site.Default())
	if err != nil {
		t.Fatal(err)
	}
	a := &advance.Advancer{Run: r, Cluster: cluster, Site: site.Resolved{Site: site.Default()}, Log: t.Logf}
	score := graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 1}}
	submitted := filepath.Join(r.Dir.Jobs(), "submitted", "score-000001.0.json")
	submit := func() {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(submitted), 0o777), os.WriteFile(submitted, []byte(`{"stage": "score", "iteration": 1, "jobs": [{"id": "71", "array": true, "shards": [0, 1]}]}`), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	submit()
	attempts := []Attempt{{Job: "70_4"}, {Job: "71_0"}, {Job: "local-n1-0a_0"}, {Job: "72_0"}, {Job: ""}, {Job: "70_5"}, {Job: "9_0"}}
	outputs := []output{{kept: true, known: true}, {known: true, task: score}, {}, {kept: true, known: true}, {}, {}, {}}
	calls := func() string {
		content, _ := os.ReadFile(asked) // none when nothing was asked
		_ = os.Remove(asked)
		return string(content)
	}
	got, err := ask(t.Context(), a, attempts, outputs)
	if err != nil || got.user != "alice" || len(got.starts["70_3"]) != 3 || got.cause == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if last := got.starts["71_0"]; len(last) != 2 || last[1].disposition != dispositionTimeout || !last[1].begin.Equal(second(200)) || !last[1].end.Equal(second(300)) {
		t.Errorf("%+v", last)
	}
	if asked := calls(); !strings.Contains(asked, "User -j 70,71,9\n") || !strings.Contains(asked, "-j 71\n") {
		t.Errorf("asked was %s", asked)
	}
	if _, err := ask(t.Context(), a, attempts[2:3], outputs[2:3]); err != nil || strings.Contains(calls(), "sacct -n") {
		t.Errorf("without a job of Slurm: %v", err)
	}
	config("accounting_storage/none")
	if got, err := ask(t.Context(), a, attempts, outputs); err != nil || got.user != "" || len(got.starts) != 1 || strings.Contains(calls(), "sacct -n") {
		t.Errorf("without accounts: %+v, %v", got, err)
	}
	// What cannot be asked is reported, and the rest holds.
	opened := 0
	open := func() (*advance.Advancer, error) {
		opened++
		return nil, errors.New("no sinfo")
	}
	report, err := Read(t.Context(), r, open)
	if err != nil || opened != 1 || report.Sampled || report.State == "" || report.Unasked != "" {
		t.Errorf("%+v, %v", report, err)
	}
	recorder := monitor.NewRecorder(string(r.Dir), "r1", "score-000001-00000", seal.Attempt{Host: "n1", JobID: "71", TaskID: "0"}, began)
	recorder.Add(began, -1, []monitor.Reading{{Name: monitor.Cores, Value: 1}})
	if err := recorder.Seal(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // for its submissions, and for its samples
		if report, err := Read(t.Context(), r, open); err != nil || report.Unasked != "no sinfo" || len(report.Each) != 1 || report.Stages[0].LimitSeconds != 60*float64(r.Graph.Request(graph.StageScore).Minutes) {
			t.Errorf("%+v, %v", report, err)
		}
		_ = os.Remove(submitted) // the second time there are none
	}
	if opened != 3 {
		t.Errorf("Slurm was opened %d times", opened)
	}
	config("accounting_storage/slurmdbd")
	if report, err := Read(t.Context(), r, func() (*advance.Advancer, error) { return a, nil }); err != nil || report.User != "alice" || report.Unasked != "" {
		t.Errorf("%+v, %v", report, err)
	}
	pause := rundir.Pause{By: "alice on n1", Since: began}
	if err := pause.Write(r.Dir, seal.Attempt{}); err != nil {
		t.Fatal(err)
	}
	if report, err := Read(t.Context(), r, nil); err != nil || !strings.Contains(report.State, ", paused by alice on n1") {
		t.Errorf("%q, %v", report.State, err)
	}
	submit()
	for _, name := range []string{"squeue", "sacct", "scontrol"} { // each before the one that failed already
		script(name, "echo slurm_load_jobs error: Access/permission denied >&2; exit 1")
		if _, err := ask(t.Context(), a, attempts, outputs); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not permitted: %v", name, err)
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(stopped, r, func() (*advance.Advancer, error) { return a, nil }); err == nil {
		t.Error("a command that was stopped reports")
	}
}

package logs

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
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TestTakes: which tasks a filter chooses.
func TestTakes(t *testing.T) {
	t.Parallel()
	two, one := 2, 1
	task := graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 2}, Shard: 1}
	gate := graph.Task{Node: graph.Node{Stage: Gate, Iteration: 2}, Shard: 1}
	for _, c := range []struct {
		filter           Filter
		task, gate, none bool
	}{
		{Filter{}, true, false, true},
		{Filter{Failed: true}, true, false, true},
		{Filter{Stage: graph.StageScore}, true, false, false},
		{Filter{Stage: Gate}, false, true, false},
		{Filter{Iteration: &two}, true, false, false},
		{Filter{Iteration: &one}, false, false, false},
		{Filter{Shard: &one}, true, false, false},
		{Filter{Shard: &two}, false, false, false},
		{Filter{Stage: graph.StageScore, Iteration: &two, Shard: &two}, false, false, false},
	} {
		if c.filter.Takes(task) != c.task || c.filter.Takes(gate) != c.gate || c.filter.All() != c.none {
			t.Errorf("%+v takes the task %v, the gate %v, all %v", c.filter, !c.task, !c.gate, !c.none)
		}
	}
}

// TestJudge: how an attempt ended, by the record that it left and by what is sealed.
func TestJudge(t *testing.T) {
	t.Parallel()
	d := graph.Dir(t.TempDir())
	task := graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 2}}
	at := time.Unix(50, 0).UTC()
	for number, code := range map[int]int{1: exitcode.Data, 2: exitcode.Stopped} {
		rundir.WriteExitRecord(d, task, number, 0, rundir.ExitRecord{Code: code, Message: "m", Host: "n1", Time: at})
	}
	for _, c := range []struct {
		task              graph.Task
		number            int // 0 left no record
		made, last, alive bool
		state             State
		cause             executor.Cause
		evidence, node    string
	}{
		{task, 0, true, true, true, Done, executor.CauseOK, "", ""},
		{task, 0, true, false, true, Mended, "", "it left no word; a later attempt did the work", ""},
		{task, 1, true, true, false, Mended, executor.CauseData, "m", "n1"},
		{task, 1, false, true, true, Failed, executor.CauseData, "m", "n1"},
		{task, 2, false, false, true, Stopped, executor.CauseStopped, "m", "n1"},
		{task, 0, false, true, true, Running, "", "", ""},
		{task, 0, false, false, true, Unknown, "", "it left no word: it was killed, or its node is gone", ""},
		{task, 0, false, true, false, Unknown, "", "it left no word: it was killed, or its node is gone", ""},
		{graph.Task{Node: graph.Node{Stage: Gate}}, 0, true, true, true, Unknown, "", "", ""},
	} {
		e := Entry{task: c.task, Attempt: c.number}
		e.judge(d, nil, c.made, c.last, c.alive)
		if e.State != c.state || e.Cause != c.cause || e.Evidence != c.evidence || e.Node != c.node || (c.number > 0) != e.End.Equal(at) {
			t.Errorf("%+v: %+v", c, e)
		}
	}
	for cause, want := range map[executor.Cause]State{executor.CauseUnknown: Unknown, executor.CausePreempted: Stopped, executor.CauseFailed: Failed} {
		if got := ended(cause, false); got != want {
			t.Errorf("%s: %s, want %s", cause, got, want)
		}
		if got := ended(cause, true); got != Mended {
			t.Errorf("%s, and made: %s", cause, got)
		}
	}
}

// TestSlurmSays: what Slurm knows of an attempt goes over what it left, but for its end.
func TestSlurmSays(t *testing.T) {
	t.Parallel()
	end := time.Unix(70, 0).UTC()
	for _, c := range []struct {
		what   string
		before Entry
		state  slurm.State
		cause  executor.Cause
		made   bool
		want   Entry
	}{
		{"it runs", Entry{State: Unknown, Cause: "x", Evidence: "y"}, slurm.State{Phase: slurm.PhaseRunning, Nodes: "n2"}, "", false, Entry{State: Running, Evidence: "slurm", Node: "n2"}},
		{"it waits", Entry{State: Unknown, Node: "n1"}, slurm.State{Phase: slurm.PhasePending}, "", false, Entry{State: Waiting, Evidence: "slurm", Node: "n1"}},
		{"it is done", Entry{State: Done, Cause: executor.CauseOK}, slurm.State{Phase: slurm.PhaseEnded}, executor.CauseFailed, true, Entry{State: Done, Cause: executor.CauseOK}},
		{"it ended well", Entry{State: Mended}, slurm.State{Phase: slurm.PhaseEnded}, executor.CauseOK, true, Entry{State: Mended}},
		{"nobody knows, and it left a word", Entry{State: Failed, Cause: executor.CauseData, Evidence: "m"}, slurm.State{Phase: slurm.PhaseUnknown}, executor.CauseUnknown, false, Entry{State: Failed, Cause: executor.CauseData, Evidence: "m"}},
		{"nobody knows", Entry{State: Unknown}, slurm.State{Phase: slurm.PhaseUnknown}, executor.CauseUnknown, false, Entry{State: Unknown, Cause: executor.CauseUnknown, Evidence: "slurm"}},
		{"it was preempted", Entry{State: Unknown}, slurm.State{Phase: slurm.PhaseEnded, End: end}, executor.CausePreempted, false, Entry{State: Stopped, Cause: executor.CausePreempted, Evidence: "slurm", End: end}},
		{"it failed, and was mended", Entry{State: Mended, End: end}, slurm.State{Phase: slurm.PhaseEnded}, executor.CauseTimeout, true, Entry{State: Mended, Cause: executor.CauseTimeout, Evidence: "slurm", End: end}},
		{"it was restarted", Entry{State: Done}, slurm.State{Phase: slurm.PhaseEnded, Restarts: 1, Evidence: "preempted"}, executor.CauseOK, true, Entry{State: Done, Evidence: "preempted"}},
		{"it was restarted, and said so", Entry{State: Done, Evidence: "m"}, slurm.State{Phase: slurm.PhaseEnded, Restarts: 1, Evidence: "preempted"}, executor.CauseOK, true, Entry{State: Done, Evidence: "m; preempted"}},
	} {
		e := c.before
		c.want.Job = "7_1"
		e.slurm(advance.Attempt{Job: "7_1", State: c.state, Cause: c.cause, Evidence: "slurm"}, c.made)
		if diff := cmp.Diff(c.want, e, cmp.AllowUnexported(Entry{}, part{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

// TestCollect: attempts in the order of their states, the newest first among them, by
// files alone; and what keeps a run from going on before all.
func TestCollect(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "77")
	b := runtest.NewBoard(t, "schedule.iterations=1")
	r := b.Run()
	b.Seal(runtest.Node(graph.StageRollout, 1))
	log := func(name string, seconds int64) {
		path := filepath.Join(b.Dir.Logs(), name)
		at := time.Unix(seconds, 0)
		if err := errors.Join(os.MkdirAll(b.Dir.Logs(), 0o777), os.WriteFile(path, []byte("first\nlast\n"), 0o666), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"rollout-000001-00000.0.log", "rollout-000001-00000.1.log", "score-000001-00000.0.log", "score-000001-00001.0.log", "score-000001-00001.1.log", "gate-000000-00000.0.log", "notes.txt", "x.log"} {
		log(name, int64(100+i))
	}
	scored := func(n int) graph.Task { return graph.Task{Node: runtest.Node(graph.StageScore, 1), Shard: n} }
	rundir.WriteExitRecord(b.Dir, scored(0), 0, 0, rundir.ExitRecord{Code: exitcode.Data, Time: time.Unix(300, 0)})
	rundir.WriteExitRecord(b.Dir, scored(1), 0, 0, rundir.ExitRecord{Code: exitcode.Data, Time: time.Unix(400, 0)})
	list := func(alive bool, f Filter) (all []string) {
		entries, err := Collect(t.Context(), r, nil, alive, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, fmt.Sprint(e.State, " ", e.Task, ".", e.Attempt, " ", e.Log))
		}
		return all
	}
	all := []string{
		"failed score-000001-00001.0 logs/score-000001-00001.0.log", "failed score-000001-00000.0 logs/score-000001-00000.0.log",
		"running score-000001-00001.1 logs/score-000001-00001.1.log",
		"mended rollout-000001-00000.0 logs/rollout-000001-00000.0.log", "done rollout-000001-00000.1 logs/rollout-000001-00000.1.log",
	}
	zero := 0
	for _, c := range []struct {
		filter Filter
		want   []string
	}{
		{Filter{}, all},
		{Filter{Failed: true}, []string{all[0], all[1], all[3]}},
		{Filter{Stage: graph.StageRollout}, all[3:]},
		{Filter{Shard: &zero}, []string{all[1], all[3], all[4]}},
	} {
		if diff := cmp.Diff(c.want, list(true, c.filter)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.filter, diff)
		}
	}
	if got := list(false, Filter{}); !slices.Contains(got, "unknown score-000001-00001.1 logs/score-000001-00001.1.log") {
		t.Errorf("without a driver: %q", got)
	}
	advance.NoteEnd(t.Context(), b.Dir, nil, seal.Attempt{JobID: "77", Host: "n3"}, exitcode.Usagef("refused"))
	const gate = "failed gate-000000-00000.0 logs/gate-000000-00000.0.log"
	if got := list(true, Filter{}); got[0] != gate || len(got) != 6 {
		t.Errorf("with a controller job that could not submit: %q", got)
	}
	if got := list(true, Filter{Stage: Gate}); !slices.Equal(got, []string{gate}) {
		t.Errorf("controller jobs alone: %q", got)
	}
	if got := list(true, Filter{Stage: graph.StageScore}); len(got) != 3 {
		t.Errorf("scores alone: %q", got)
	}
	stuck, err := Collect(t.Context(), r, nil, true, Filter{})
	if e := stuck[0]; err != nil || e.Job != "77" || e.Node != "n3" || !e.End.After(time.Unix(105, 0)) || e.Cause != executor.CauseUsage || !strings.Contains(e.Evidence, "refused") {
		t.Errorf("the controller job: %+v, %v", e, err)
	}
	if e := stuck[5]; !e.End.Equal(time.Unix(101, 0)) {
		t.Errorf("what last said something at 101 did at %v", e.End)
	}
	sizes, err := Sizes(b.Dir, Filter{Stage: graph.StageRollout})
	if err != nil || !slices.Equal(Sorted(sizes), []string{"rollout-000001-00000.0.log", "rollout-000001-00000.1.log"}) || sizes["rollout-000001-00000.1.log"] != 11 {
		t.Errorf("sizes %v, %v", sizes, err)
	}
	gates := []Entry{{Task: "b"}, {Task: "a", task: graph.Task{Node: graph.Node{Stage: Gate}}}}
	for _, c := range [][3]int{{0, 1, 1}, {1, 0, -1}, {0, 0, 0}, {1, 1, 0}} {
		if got := compareControls(gates[c[0]], gates[c[1]]); got != c[2] {
			t.Errorf("%q is compared with %q as %d", gates[c[0]].Task, gates[c[1]].Task, got)
		}
	}
	// Logs that are joined are listed with the others, and chosen as they are.
	loose, err := Loose(b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	n := runtest.Node(graph.StageRollout, 1)
	if _, err := Join(b.Dir, n, loose[n], false, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	log("rollout-000001-00000.0.log", 90) // a kill left it
	one, two := 1, 2
	joined := []string{"mended rollout-000001-00000.0 logs/rollout-000001-00000.0.log", "done rollout-000001-00000.1 logs/rollout-000001.log"}
	for _, c := range []struct {
		filter Filter
		want   []string
	}{{Filter{Stage: graph.StageRollout}, joined}, {Filter{Stage: graph.StageRollout, Iteration: &two}, nil}, {Filter{Stage: graph.StageRollout, Shard: &one}, nil}, {Filter{Stage: graph.StageRollout, Iteration: &one}, joined}} {
		if diff := cmp.Diff(c.want, list(true, c.filter)); diff != "" {
			t.Errorf("joined, %+v (-want +got):\n%s", c.filter, diff)
		}
	}
}

// TestTail: the last lines, whole ones where the file is long, without what a terminal
// would take for an order.
func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.log")
	long := strings.Repeat("x", tailBytes) + "\nlast\n"
	for _, c := range []struct {
		text  string
		lines int
		want  []string
	}{
		{"", 3, []string{}},
		{"\n\n", 3, []string{}},
		{"a\nb\nc\n", 2, []string{"b", "c"}},
		{"a\nb", 9, []string{"a", "b"}},
		{"a\n\n\n", 2, []string{"a"}},
		{"a", 0, []string{}},
		{"a", -1, []string{}},
		{"\x1b[2Ja\tb\x07\u00e9", 1, []string{"[2Ja\tb\u00e9"}},
		{long, 5, []string{"last"}},
		{"y" + long[1:], 5, []string{"last"}},
		{"y\n" + strings.Repeat("z", tailBytes-1), 5, []string{strings.Repeat("z", tailBytes-1)}}, // what is read begins with the line break
		{strings.Repeat("z", tailBytes), 1, []string{strings.Repeat("z", tailBytes)}},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		got, size, err := Tail(path, c.lines)
		if !slices.Equal(got, c.want) || got == nil || size != int64(len(c.text)) || err != nil {
			t.Errorf("%d lines of %.20q: %.50q, %d bytes, %v", c.lines, c.text, got, size, err)
		}
	}
	if err := os.WriteFile(path, []byte("one\n\x07two\nthree"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offset, most int64
		text         string
		next         int64
	}{{0, 99, "one\ntwo\nthree", 14}, {4, 99, "two\nthree", 14}, {0, 6, "one\nt", 6}, {14, 9, "", 14}, {15, 99, "one\ntwo\nthree", 14}} {
		if text, next, err := From(path, c.offset, c.most); text != c.text || next != c.next || err != nil {
			t.Errorf("from %d at most %d: %q, %d, %v", c.offset, c.most, text, next, err)
		}
	}
	closed, err := os.Open(path)
	if err != nil || closed.Close() != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"no log":             func() error { _, _, err := Tail(path+"x", 1); return err }(),
		"no log, followed":   func() error { _, _, err := From(path+"x", 0, 1); return err }(),
		"before the start":   func() error { _, _, err := From(path, -1, 1); return err }(),
		"a file that closed": func() error { _, err := tail(closed, 14, 1); return err }(),
		"no joined log":      func() error { _, err := Entry{Log: "x", part: part{name: "a"}}.Tail(graph.Dir(path), 1); return err }(),
	} {
		if err == nil {
			t.Errorf("%s is read", what)
		}
	}
	if got, err := tail(strings.NewReader("a\nb\n"), 9, 5); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("a log that became shorter: %q, %v", got, err)
	}
}

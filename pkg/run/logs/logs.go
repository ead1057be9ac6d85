// Package logs says what the attempts at tasks of a run left: how each ended, on
// which node, and the last lines of its log. Those that failed come first.
package logs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
)

// State is how far an attempt came.
type State string

// The states, in the order in which they are shown.
const (
	Failed  State = "failed"  // and the task is not done
	Stopped State = "stopped" // by whoever took its place or its node, and the task is not done
	Running State = "running" //
	Waiting State = "waiting" // in Slurm's queue
	Unknown State = "unknown" // it ended, or not, without a word
	Mended  State = "mended"  // it failed or was stopped, and a later attempt did the work
	Done    State = "done"
)

var order = []State{Failed, Stopped, Running, Waiting, Unknown, Mended, Done}

// Entry is one attempt at a task.
type Entry struct {
	Task     string         `json:"task"`
	Attempt  int            `json:"attempt"` // from 0
	State    State          `json:"state"`
	Cause    executor.Cause `json:"cause,omitempty"`
	Evidence string         `json:"evidence,omitempty"` // what the cause was read from
	Node     string         `json:"node,omitempty"`
	Job      string         `json:"job,omitempty"` // Slurm's
	End      time.Time      `json:"end,omitzero"`
	Log      string         `json:"log"`   // relative to the run; empty when there is none
	Lines    []string       `json:"lines"` // the last of the log

	task graph.Task
	part part // of the joined file Log, where it does not lie by itself
}

// Gate is the stage of controller jobs, which are no tasks.
const Gate = graph.Stage(slurm.GateStage)

// Filter chooses attempts.
type Filter struct {
	Stage     graph.Stage // empty for every stage, controller jobs that failed among them
	Iteration *int        // nil for every iteration
	Shard     *int        // nil for every shard
	Failed    bool        // those that failed alone
}

// All reports whether the filter names no task.
func (f Filter) All() bool { return f.Stage == "" && f.Iteration == nil && f.Shard == nil }

// Takes reports whether a task is chosen.
func (f Filter) Takes(t graph.Task) bool {
	if f.Stage == "" && t.Stage == Gate {
		return false
	}
	return (f.Stage == "" || f.Stage == t.Stage) && (f.Iteration == nil || *f.Iteration == t.Iteration) && (f.Shard == nil || *f.Shard == t.Shard)
}

// Collect lists the attempts that a filter chooses, those that failed first, the
// newest first among these. advancer asks Slurm about them, and is nil for a run that
// was never handed to it. alive says that a driver is at work in the foreground.
func Collect(ctx context.Context, r *rundir.Run, advancer *advance.Advancer, alive bool, f Filter) ([]Entry, error) {
	v := survey.NewInventory(r.Graph)
	made := func(t graph.Task) bool {
		done, err := v.Made(ctx, t)
		return err == nil && done
	}
	entries := map[string]*Entry{}
	if err := readFolder(r.Dir, f, entries); err != nil {
		return nil, err
	}
	var attempts []advance.Attempt
	if advancer != nil {
		// Of what is done Slurm is asked only when it is meant: there is much of it.
		var err error
		if attempts, err = advance.Attempts(ctx, advancer, func(t graph.Task) bool { return f.Takes(t) && (!f.All() || !made(t)) }); err != nil {
			return nil, err
		}
	}
	for _, a := range attempts { // some have no log
		if name := attemptName(a.Task, a.Number); entries[name] == nil {
			entries[name] = &Entry{Task: a.Task.String(), Attempt: a.Number, task: a.Task}
		}
	}
	last := map[graph.Task]int{}
	for _, e := range entries {
		last[e.task] = max(last[e.task], e.Attempt)
	}
	for _, e := range entries {
		e.judge(r.Dir, advancer, made(e.task), e.Attempt == last[e.task], alive)
	}
	for _, a := range attempts {
		entries[attemptName(a.Task, a.Number)].slurm(a, made(a.Task))
	}
	if f.Stage == Gate || f.All() {
		if err := addController(ctx, r, advancer, entries); err != nil {
			return nil, err
		}
	}
	var all []Entry
	for _, e := range entries {
		if !f.Failed || e.State == Failed || e.State == Stopped || e.State == Mended {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State)),
			compareControls(a, b), // why nothing more is submitted comes first
			b.End.Compare(a.End), cmp.Compare(a.Task, b.Task), cmp.Compare(b.Attempt, a.Attempt),
		)
	})
	return all, ctx.Err()
}

func attemptName(t graph.Task, attempt int) string {
	return strings.TrimSuffix(filepath.Base(graph.Dir("").Log(t, attempt)), ".log")
}

// readFolder lists the logs that a filter chooses.
func readFolder(d graph.Dir, f Filter, entries map[string]*Entry) error {
	files, err := os.ReadDir(d.Logs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var together []string
	for _, file := range files {
		if n, is := joinedNode(file.Name()); is {
			if (f.Stage == "" || f.Stage == n.Stage) && (f.Iteration == nil || *f.Iteration == n.Iteration) {
				together = append(together, file.Name())
			}
			continue
		}
		name, isLog := strings.CutSuffix(file.Name(), ".log")
		t, attempt, isTask := graph.ParseTask(name)
		if !isLog || !isTask || !f.Takes(t) {
			continue
		}
		e := &Entry{Task: t.String(), Attempt: attempt, Log: d.Rel(filepath.Join(d.Logs(), file.Name())), task: t}
		if info, err := file.Info(); err == nil {
			e.End = info.ModTime().UTC() // when it last said something
		}
		entries[name] = e
	}
	for _, file := range together {
		if err := readJoined(d, file, f, entries); err != nil {
			return err
		}
	}
	return nil
}

// judge says what the files of a run tell of an attempt.
func (e *Entry) judge(d graph.Dir, advancer *advance.Advancer, made, last, alive bool) {
	record, failed := rundir.ReadExitRecord(d, e.task, e.Attempt, 0)
	if failed {
		e.Cause, e.Evidence, e.Node, e.End = record.Cause(), record.Message, record.Host, record.Time
	}
	if failed && advancer != nil {
		e.Cause, e.Evidence = advancer.CauseOfRecord(e.task, record, 0, time.Duration(record.Seconds*float64(time.Second)))
	}
	switch {
	case e.task.Stage == Gate:
		e.State = Unknown
	case made && failed:
		e.State = Mended
	case made && last:
		e.State, e.Cause = Done, executor.CauseOK
	case made:
		e.State, e.Evidence = Mended, "it left no word; a later attempt did the work"
	case failed:
		e.State = ended(e.Cause, made)
	case last && alive:
		e.State = Running
	default:
		e.State, e.Evidence = Unknown, "it left no word: it was killed, or its node is gone"
	}
}

// slurm adds what Slurm knows of an attempt.
func (e *Entry) slurm(a advance.Attempt, made bool) {
	e.Job = a.Job
	if a.State.Nodes != "" {
		e.Node = a.State.Nodes
	}
	if a.State.Restarts > 0 { // what ended its earlier starts
		e.Evidence = strings.TrimPrefix(e.Evidence+"; "+a.State.Evidence, "; ")
	}
	switch {
	case a.State.Phase == slurm.PhaseRunning:
		e.State, e.Cause, e.Evidence = Running, "", a.Evidence
	case a.State.Phase == slurm.PhasePending:
		e.State, e.Cause, e.Evidence = Waiting, "", a.Evidence
	case a.Cause == executor.CauseOK || e.State == Done:
	case a.State.Phase == slurm.PhaseUnknown && e.Cause != "":
	default:
		e.Cause, e.Evidence = a.Cause, a.Evidence
		e.State = ended(a.Cause, made)
		if !a.State.End.IsZero() {
			e.End = a.State.End
		}
	}
}

// ended is the state of an attempt that has not done its work.
func ended(cause executor.Cause, made bool) State {
	switch {
	case made:
		return Mended
	case cause == executor.CauseUnknown:
		return Unknown
	case drive.Classify(cause) == drive.Again:
		return Stopped
	}
	return Failed
}

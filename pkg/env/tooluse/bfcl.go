package tooluse

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/bfcl"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// readBFCL reads BFCL's tasks with the functions of each, and lists the files
// that they are from.
func readBFCL(folder string) ([]problem, []string, error) {
	tasks, err := bfcl.ReadTasks(folder)
	if err != nil {
		return nil, nil, err
	}
	paths := []string{filepath.Join(folder, bfcl.TasksFile), filepath.Join(folder, bfcl.AnswersFolder, bfcl.TasksFile)}
	functions := map[string][]bfcl.Function{} // by class
	problems := make([]problem, len(tasks))
	for i, task := range tasks {
		p := &problems[i]
		for _, class := range task.Classes {
			if _, have := functions[class]; !have {
				if functions[class], err = bfcl.ReadFunctions(folder, class); err != nil {
					return nil, nil, err
				}
				path, err := bfcl.FunctionFile(folder, class)
				if err != nil {
					return nil, nil, err
				}
				paths = append(paths, path)
			}
			for _, f := range functions[class] {
				if !slices.Contains(task.Excluded, f.Name) {
					p.functions = append(p.functions, Function(f))
				}
			}
		}
		if err := p.fill(task); err != nil {
			return nil, nil, exitcode.Dataf("%s: task %s: %w", paths[0], task.ID, err)
		}
	}
	return problems, paths, nil
}

// fill takes everything but the functions from a task.
func (p *problem) fill(task bfcl.Task) error {
	classes := slices.Sorted(slices.Values(task.Classes))
	p.id, p.kind = task.ID, strings.Join(classes, shard.KindJoint)
	for number, turn := range task.Turns {
		var said []string
		for _, m := range turn {
			if m.Role != roleUser {
				return fmt.Errorf("turn %d has a message of the role %q: a turn is what the user says", number+1, m.Role)
			}
			said = append(said, m.Content)
		}
		p.turns = append(p.turns, strings.Join(said, "\n\n"))
	}
	for _, turn := range task.Truth {
		calls := []Call{}
		for _, reference := range turn {
			text, err := json.Marshal(reference)
			if err != nil {
				return err
			}
			var call Call
			if err := json.Unmarshal(text, &call); err != nil {
				return err
			}
			calls = append(calls, call)
		}
		p.truth = append(p.truth, calls)
	}
	if _, err := task.Simulator(); err != nil {
		return err
	}
	p.bfcl = &task.Source
	p.open = func(turns int) Backend { return &bfclBackend{task: task.FirstTurns(turns)} }
	return nil
}

// bfclBackend simulates the API classes of a task.
type bfclBackend struct {
	task      bfcl.Task
	simulator *bfcl.Simulator // made by the first call
}

// decode reads a call as BFCL's classes take it.
func (c Call) decode() (bfcl.Call, error) {
	text, err := plainjson.Line(c)
	if err != nil {
		return bfcl.Call{}, err
	}
	var call bfcl.Call
	err = json.Unmarshal(text, &call)
	return call, err
}

// Call runs a method. Values that are nested too deeply, and numbers that are
// too long, fail the call.
func (b *bfclBackend) Call(_ context.Context, c Call) (Result, error) {
	if b.simulator == nil {
		var err error
		if b.simulator, err = b.task.Simulator(); err != nil {
			return Result{}, err
		}
	}
	call, err := c.decode()
	if err != nil {
		return Result{Text: "Error during execution: the arguments cannot be read", Failed: true}, nil
	}
	result := b.simulator.Execute(call)
	return Result{Text: result.Text, Failed: result.Failed}, nil
}

// The milestones of an episode of BFCL.
const (
	milestoneState    = "state"          // the state at the end is that of the reference calls
	milestoneCalls    = "calls"          // in every turn the reference calls are among those that succeeded
	milestoneFirst    = "first_turn"     // state and calls after the user's first turn
	milestoneOfficial = "official_valid" // BFCL's own checker agrees
)

// Grade gives ExIt's reward.
func (b *bfclBackend) Grade(_ context.Context, executed [][]Executed) (Grade, error) {
	calls := make([][]bfcl.Call, len(executed))
	for i, turn := range executed {
		for _, m := range turn {
			if call, err := m.decode(); err == nil { // else it was never run
				calls[i] = append(calls[i], call)
			}
		}
	}
	verdict, err := bfcl.Check(b.task, calls)
	if err != nil {
		return Grade{}, err
	}
	first := verdict
	if len(b.task.Truth) > 1 {
		if first, err = bfcl.Check(b.task.FirstTurns(1), calls[:1]); err != nil {
			return Grade{}, err
		}
	}
	grade := Grade{Score: verdict.Reward}
	var missed []string
	for _, m := range []struct {
		name   string
		is     bool
		missed string
	}{
		{milestoneState, verdict.StateEqual, "the state is not that of the reference calls"},
		{milestoneCalls, verdict.CallsSubset, "reference calls are missing"},
		{milestoneFirst, first.Reward == 1, ""},
		{milestoneOfficial, verdict.Official, ""},
	} {
		switch {
		case m.is:
			grade.Milestones = append(grade.Milestones, m.name)
		case m.missed != "":
			missed = append(missed, m.missed)
		}
	}
	if grade.Why = "state and calls are right"; len(missed) > 0 {
		grade.Why = strings.Join(missed, "; ")
	}
	return grade, nil
}

// gradedAtAnyTime: the checker plays the calls in a simulator of its own.
func (b *bfclBackend) gradedAtAnyTime() {}

// Close does nothing.
func (b *bfclBackend) Close() error { return nil }

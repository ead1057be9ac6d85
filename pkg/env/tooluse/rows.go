package tooluse

import (
	"encoding/json"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/bfcl"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// source is what a row keeps of a problem besides its columns.
type source struct {
	Turns     []string         `json:"turns"`
	Functions []sourceFunction `json:"functions"`
	Truth     [][]Call         `json:"truth,omitempty"`
	State     json.RawMessage  `json:"state,omitempty"`
	BFCL      *bfcl.Source     `json:"bfcl,omitempty"`
}

// sourceFunction is a [Function]. Its parameters are kept as the text that they
// were, since the policy is shown parts of them.
type sourceFunction struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  string `json:"parameters"`
}

// Rows lists the tasks of all splits.
func (e *Env) Rows() ([]shard.TaskRow, error) {
	var rows []shard.TaskRow
	for _, split := range splits {
		for _, plain := range e.splits[split] {
			text, err := e.tasks[plain.ID].source()
			if err != nil {
				return nil, exitcode.Bugf("writing task %q: %w", plain.ID, err)
			}
			rows = append(rows, plain.Row(Name, split, text))
		}
	}
	return rows, nil
}

func (p *problem) source() (string, error) {
	kept := source{Turns: p.turns, State: p.state, BFCL: p.bfcl}
	for _, f := range p.functions {
		kept.Functions = append(kept.Functions, sourceFunction{f.Name, f.Description, string(f.Parameters)})
	}
	if p.bfcl == nil {
		kept.Truth = p.truth
	}
	text, err := plainjson.Line(kept)
	return string(text), err
}

// FromRows makes the environment that the rows are of. A relative name of a
// program starts at folder.
func FromRows(settings Settings, folder string, rows []shard.TaskRow) (*Env, error) {
	e := empty(settings)
	tools := &e.settings.ToolUse
	var own *program
	if tools.BFCL == "" {
		var err error
		if own, err = newProgram(tools, folder); err != nil {
			return nil, err
		}
		e.program = own
	}
	for _, row := range rows {
		p, err := readSource(row, own)
		if err != nil {
			return nil, exitcode.Dataf("task %q: %w", row.TaskID, err)
		}
		split := env.Split(row.Split)
		if err := e.add(split, p, tools.rules(split)); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// readSource makes the problem of a row, whose calls the program runs
// if it is not one of BFCL's.
func readSource(row shard.TaskRow, own *program) (problem, error) {
	var kept source
	if err := json.Unmarshal([]byte(row.Source), &kept); err != nil {
		return problem{}, fmt.Errorf("its source: %w", err)
	}
	p := problem{id: row.TaskID, kind: row.Kind, turns: kept.Turns, truth: kept.Truth, state: kept.State}
	for _, f := range kept.Functions {
		p.functions = append(p.functions, Function{f.Name, f.Description, json.RawMessage(f.Parameters)})
	}
	if own != nil {
		p.play(own)
		return p, nil
	}
	if kept.BFCL == nil {
		return problem{}, fmt.Errorf("its source is not a task of BFCL's")
	}
	task, err := bfcl.ParseTask(*kept.BFCL)
	if err != nil {
		return problem{}, err
	}
	p.turns, p.truth = nil, nil
	return p, p.fill(task)
}

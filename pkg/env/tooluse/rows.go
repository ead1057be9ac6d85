package tooluse

import (
	"encoding/json"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/bfcl"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/plainjson"
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

// source is the problem as a row keeps it.
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

// readSource makes the problem of a task, whose calls the program runs
// if it is not one of BFCL's.
func readSource(of env.Task, text string, own *program) (problem, error) {
	var kept source
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return problem{}, fmt.Errorf("its source: %w", err)
	}
	p := problem{id: of.ID, kind: of.Kind, turns: kept.Turns, truth: kept.Truth, state: kept.State}
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

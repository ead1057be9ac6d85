// Package explain says why an instance was sampled: the terms of the
// probability with which the curriculum drew it, and the chain of responses
// that it continues from, down to a base task.
package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/plan"
)

// Explanation is why an instance of a plan was sampled.
type Explanation struct {
	Iteration  int    `json:"iteration"`
	InstanceID string `json:"instance_id"`
	TaskID     string `json:"task_id"`
	Kind       string `json:"kind"`
	Origin     string `json:"origin"`
	SelectedBy string `json:"selected_by"`
	Depth      int    `json:"depth"`
	// Probability is that of the plan's row, or, where it states none, what the
	// curriculum comes to now. Terms are what it was made from.
	Probability float64           `json:"probability"`
	Terms       []curriculum.Term `json:"terms"`
	Entry       *Entry            `json:"entry,omitempty"`   // that was selected; absent for a base task
	Partner     *Entry            `json:"partner,omitempty"` // the other that was, where a prompt joins two
	// Ancestors are the responses that led to the instance, the one that it
	// iterates on first. Those of a partner are not followed.
	Ancestors []Ancestor `json:"ancestors"`
}

// Entry is what the curriculum knew of the selected entry when it drew.
type Entry struct {
	EntryID     string  `json:"entry_id"`
	Iteration   int     `json:"iteration"` // after which the state is that held it
	BaseScore   float64 `json:"base_score"`
	Potential   float64 `json:"potential"`
	LastSampled int     `json:"last_sampled"` // iteration; 0 when never
	Visits      int     `json:"visits"`
}

// Ancestor is a response that was iterated on.
type Ancestor struct {
	InstanceID string   `json:"instance_id"` // that it is a response to
	Iteration  int      `json:"iteration"`   // whose plan has that; 0 where the entry holds no response, -1 of a run that this one started from
	Sample     int      `json:"sample"`
	Kind       string   `json:"kind"` // of the instance
	Depth      int      `json:"depth"`
	BaseScore  float64  `json:"base_score"` // quality in [0, 1] of the response
	Said       []string `json:"said"`       // the policy's messages, up to the one that was iterated on
}

// Explain explains an instance of an iteration's plan. An iteration or an
// instance that the run does not have is wrong usage; a plan that is not made
// yet is an error of the data.
func Explain(ctx context.Context, r *rundir.Run, iteration int, instanceID string) (Explanation, error) {
	e := explainer{ctx: ctx, run: r, plans: map[int][]shard.Instance{}}
	if last := r.Recipe.Schedule.Iterations; iteration < 1 || iteration > last {
		return Explanation{}, exitcode.Usagef("iteration %d: the run has 1 to %d", iteration, last)
	}
	row, err := e.instance(iteration, instanceID)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{
		Iteration: iteration, InstanceID: row.InstanceID, TaskID: row.TaskID, Kind: row.Kind, Origin: row.Origin,
		SelectedBy: row.SelectedBy, Depth: int(row.Depth), Probability: row.Probability, Terms: []curriculum.Term{}, Ancestors: []Ancestor{},
	}
	if err := e.terms(&x, row); err != nil {
		return Explanation{}, err
	}
	for row.ParentID != "" {
		ancestor, parent, err := e.ancestor(row)
		if err != nil {
			return Explanation{}, err
		}
		x.Ancestors = append(x.Ancestors, ancestor)
		row = parent
	}
	return x, nil
}

type explainer struct {
	ctx   context.Context
	run   *rundir.Run
	plans map[int][]shard.Instance // those that were read
}

// instance finds a row of a plan.
func (e *explainer) instance(k int, id string) (shard.Instance, error) {
	plan, read := e.plans[k]
	if !read {
		var err error
		plan, _, err = shard.Read[shard.Instance](e.ctx, e.run.Dir.Plan(k), e.run.Graph.Reading(0))
		if errors.Is(err, seal.ErrNotSealed) {
			return shard.Instance{}, exitcode.WithHint(exitcode.Dataf("iteration %d is not planned yet: there is no %s", k, e.run.Dir.Rel(e.run.Dir.Plan(k))), "resume the run: lathe run --run %s", e.run.Dir)
		}
		if err != nil {
			return shard.Instance{}, err
		}
		e.plans[k] = plan
	}
	at := slices.IndexFunc(plan, func(row shard.Instance) bool { return row.InstanceID == id })
	if at < 0 {
		return shard.Instance{}, exitcode.Usagef("the plan of iteration %d has no instance %q: it has %s to %s", k, id, plan[0].InstanceID, plan[len(plan)-1].InstanceID)
	}
	return plan[at], nil
}

// planner is the iteration after which a row was drawn.
func (e *explainer) planner(row shard.Instance) int {
	return e.run.Graph.PlanMaker(graph.Node{Stage: graph.StageRollout, Iteration: int(row.Iteration)}).Iteration
}

// terms adds the entry and the terms of a row's probability, from the state
// that it was drawn from.
func (e *explainer) terms(x *Explanation, row shard.Instance) error {
	state := curriculum.State{Iteration: e.planner(row)}
	var err error
	if state.Entries, _, err = shard.Read[shard.Entry](e.ctx, e.run.Dir.State(state.Iteration), e.run.Graph.Reading(0)); err != nil {
		return err
	}
	if state.Stats, _, err = shard.Read[shard.Stat](e.ctx, e.run.Dir.Stats(state.Iteration), e.run.Graph.Reading(0)); err != nil {
		return err
	}
	x.Entry, x.Partner = entryOf(state, row.ParentID), entryOf(state, row.PartnerID)
	chosen, err := e.run.Recipe.NewCurriculum()
	if err != nil {
		return err
	}
	curriculumOf, ok := chosen.(curriculum.Explainer)
	if !ok {
		return nil // the curriculum states the probability alone
	}
	x.Terms, err = curriculumOf.Explain(state, int(row.Iteration), len(e.plans[int(row.Iteration)]), curriculum.Selection{
		TaskID: row.TaskID, Kind: shard.Kind(row.Kind), Origin: shard.Origin(row.Origin), ParentID: row.ParentID, Depth: int(row.Depth), Turn: int(row.Turn),
		BaseScore: row.BaseScore, Potential: row.Potential, Probability: row.Probability, SelectedBy: row.SelectedBy, PartnerID: row.PartnerID,
	})
	if err != nil {
		return fmt.Errorf("explaining instance %q: %w", row.InstanceID, err)
	}
	last := x.Terms[len(x.Terms)-1]
	if row.Probability == 0 { // too costly to state in every plan
		x.Probability = last.Value
		return nil
	}
	if last.Value != row.Probability {
		return exitcode.Dataf("instance %q was drawn with the probability %v; from the state of iteration %d it comes to %v: the plan was made by other binaries",
			row.InstanceID, row.Probability, state.Iteration, last.Value)
	}
	return nil
}

// entryOf is what a state knows of an entry; nil where it has none of that id.
func entryOf(state curriculum.State, id string) *Entry {
	at := slices.IndexFunc(state.Entries, func(entry shard.Entry) bool { return entry.EntryID == id })
	if id == "" || at < 0 {
		return nil
	}
	entry := state.Entries[at]
	return &Entry{
		EntryID: entry.EntryID, Iteration: state.Iteration, BaseScore: entry.BaseScore, Potential: entry.Potential,
		LastSampled: int(entry.LastSampled), Visits: int(entry.Visits),
	}
}

// ancestor finds the response that an instance iterates on, and the instance
// that it is a response to.
func (e *explainer) ancestor(row shard.Instance) (Ancestor, shard.Instance, error) {
	entry, err := e.entry(row)
	if err != nil {
		return Ancestor{}, shard.Instance{}, err
	}
	a := Ancestor{InstanceID: entry.ParentID, BaseScore: entry.BaseScore, Said: []string{}}
	if entry.Ref.IsZero() {
		return a, shard.Instance{}, nil // the entry is a task
	}
	k := int(entry.Ref.Iteration)
	a.Iteration, a.Sample = k, int(entry.Ref.Sample)
	if k == graph.InheritedIteration { // what came before is in the run that it is of
		a.Depth = int(entry.Depth) - 1
		a.Said, err = e.said(entry, plan.InstanceID(k, int(entry.Ref.Row)))
		return a, shard.Instance{}, err
	}
	parent, err := e.instance(k, entry.ParentID)
	if err != nil {
		return Ancestor{}, shard.Instance{}, err
	}
	a.Kind, a.Depth = parent.Kind, int(parent.Depth)
	a.Said, err = e.said(entry, entry.ParentID)
	return a, parent, err
}

// entry finds the entry that an instance was selected from.
func (e *explainer) entry(row shard.Instance) (shard.Entry, error) {
	path := e.run.Dir.State(e.planner(row))
	for entry, err := range shard.Rows[shard.Entry](e.ctx, path, e.run.Graph.Reading(0)) {
		if err != nil || entry.EntryID == row.ParentID {
			return entry, err
		}
	}
	return shard.Entry{}, exitcode.Dataf("instance %q continues from entry %q, which state %q does not have", row.InstanceID, row.ParentID, path)
}

// said lists what the policy said in the response that an entry refers to, to an instance.
func (e *explainer) said(entry shard.Entry, instanceID string) ([]string, error) {
	path, _ := e.run.Responses(entry.Ref)
	said, messages := []string{}, 0
	for row, err := range shard.Rows[shard.Rollout](e.ctx, path, e.run.Graph.Reading(0)) {
		if err != nil {
			return nil, err
		}
		if row.InstanceID != instanceID || row.Sample != entry.Ref.Sample || row.Step != entry.Ref.Step {
			continue
		}
		for i, message := range row.Messages {
			if messages < int(entry.Ref.Messages) && i >= int(row.PromptMessages) && message.Role == "assistant" {
				said = append(said, message.Content)
			}
			messages++
		}
	}
	if messages < int(entry.Ref.Messages) {
		return nil, exitcode.Dataf("rollout %q has %d messages of instance %q, sample %d; entry %q continues from message %d",
			path, messages, entry.ParentID, entry.Ref.Sample, entry.EntryID, entry.Ref.Messages)
	}
	return said, nil
}

package exit

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The draws of one prompt, by position in its stream.
const (
	positionSelect  = 0 // from the buffer, or a base task
	positionEntry   = 1 // which entry
	positionDiverge = 2 // self-diverge, or self-improve
)

// Next selects the n prompts of an iteration, counted from 1. Each comes from
// the buffer with probability p if the buffer holds at least the minimum
// number of entries, and is a base task otherwise (ExIt §4).
//
// Base tasks are those of the uniform curriculum: prompt i takes the task that
// it has there. The tasks of prompts that come from the buffer are passed over,
// so an epoch lasts as many iterations as without a buffer (1280 problems, 128
// prompts: ten, ExIt §5.1).
func (e *Exit) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	var entries softmax
	if e.fromBuffer(state.Entries) > 0 {
		entries = newSoftmax(state.Entries, e.spec.InverseTemperature)
	}
	return e.Select(state, iteration, n, taskIDs, func(_ int, u float64) (int, float64) {
		i := entries.pick(u)
		return i, entries.probability(state.Entries[i].Potential)
	}), nil
}

// Select is Next with a draw of the caller's: draw returns, for a prompt and a number u
// in [0, 1) drawn for it, the index of an entry and the share of it in all draws; 0 where
// that is not known.
func (e *Exit) Select(state curriculum.State, iteration, n int, taskIDs []string, draw func(prompt int, u float64) (entry int, share float64)) []curriculum.Selection {
	tasks := uniform.Tasks(e.spec.BaseTasks, e.seed, state, iteration, n, taskIDs)
	fromBuffer := e.fromBuffer(state.Entries)
	selections := make([]curriculum.Selection, n)
	for i := range selections {
		stream := rng.New(e.seed, rng.PurposeSelect, iteration, "exit prompt", i)
		if !stream.Bool(positionSelect, fromBuffer) {
			selections[i] = uniform.Selection(tasks[i], 1-fromBuffer)
			continue
		}
		drawn, share := draw(i, stream.Float64(positionEntry))
		entry := state.Entries[drawn]
		kind, ofKind := e.kind(entry, stream)
		selections[i] = curriculum.Selection{
			TaskID:      entry.TaskID,
			Kind:        kind,
			Origin:      shard.OriginBuffer,
			ParentID:    entry.EntryID,
			Depth:       int(entry.Depth),
			Turn:        int(entry.Turn),
			Ref:         entry.Ref,
			BaseScore:   entry.BaseScore,
			Potential:   entry.Potential,
			Probability: fromBuffer * share * ofKind,
			SelectedBy:  "buffer",
		}
	}
	return selections
}

// fromBuffer is the probability that a prompt comes from the buffer: p, or 0
// while the buffer is too small.
func (e *Exit) fromBuffer(entries []shard.Entry) float64 {
	if len(entries) == 0 || len(entries) < e.spec.MinBufferSize {
		return 0
	}
	return e.spec.SelectProbability
}

// kind draws what an entry is sampled as, and says how probable that was: a
// self-diverge step with probability p_div, else a self-improve step
// (ExIt §4.2); in the ablation without self-iteration what it is, again.
func (e *Exit) kind(entry shard.Entry, stream rng.Stream) (kind shard.Kind, probability float64) {
	kind = shard.Kind(entry.Kind)
	if e.spec.Improve {
		kind = shard.KindImprove
		if stream.Bool(positionDiverge, e.spec.DivergeProbability) {
			kind = shard.KindDiverge
		}
	}
	return kind, e.ofKind(kind)
}

// Kinds are those of self-iteration.
func (e *Exit) Kinds() []shard.Kind {
	if !e.spec.Improve || e.spec.SelectProbability == 0 {
		return nil
	}
	return slices.DeleteFunc([]shard.Kind{shard.KindImprove, shard.KindDiverge}, func(kind shard.Kind) bool { return e.ofKind(kind) == 0 })
}

// ofKind is the probability that an entry is sampled as a kind.
func (e *Exit) ofKind(kind shard.Kind) float64 {
	switch {
	case !e.spec.Improve:
		return 1
	case kind == shard.KindDiverge:
		return e.spec.DivergeProbability
	}
	return 1 - e.spec.DivergeProbability
}

// Explain gives the probability of a base task, 1 - p, or that of an entry of
// a kind: p, its share of the buffer, and that of the kind, multiplied. A
// selection of an entry that the state does not hold is an error of the data.
func (e *Exit) Explain(state curriculum.State, _, _ int, selected curriculum.Selection) ([]curriculum.Term, error) {
	return e.ExplainBy(state, selected, func(at int) ([]curriculum.Term, float64) {
		score, kappa := state.Entries[at].Potential, e.spec.InverseTemperature
		share := newSoftmax(state.Entries, kappa).probability(score)
		return []curriculum.Term{{Name: "S", Value: score}, {Name: "κ", Value: kappa}, {Name: "κ·S", Value: score * kappa}, {Name: "softmax share", Value: share}}, share
	})
}

// ExplainBy is Explain with the terms and the share of the drawn entry by the caller.
func (e *Exit) ExplainBy(state curriculum.State, selected curriculum.Selection, of func(entry int) ([]curriculum.Term, float64)) ([]curriculum.Term, error) {
	fromBuffer := e.fromBuffer(state.Entries)
	terms := []curriculum.Term{{Name: "entries", Value: float64(len(state.Entries))}, {Name: "p", Value: fromBuffer}}
	if selected.Origin != shard.OriginBuffer {
		return append(terms, curriculum.Term{Name: "probability", Value: 1 - fromBuffer}), nil
	}
	at := slices.IndexFunc(state.Entries, func(entry shard.Entry) bool { return entry.EntryID == selected.ParentID })
	if at < 0 {
		return nil, exitcode.Dataf("entry %q is not in the buffer that it was selected from", selected.ParentID)
	}
	own, share := of(at)
	ofKind := e.ofKind(selected.Kind)
	terms = append(terms, own...)
	if e.spec.Improve {
		terms = append(terms, curriculum.Term{Name: "p_div", Value: e.spec.DivergeProbability}, curriculum.Term{Name: "share of " + string(selected.Kind), Value: ofKind})
	}
	return append(terms, curriculum.Term{Name: "probability", Value: fromBuffer * share * ofKind}), nil
}

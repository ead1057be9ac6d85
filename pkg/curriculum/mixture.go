package curriculum

import (
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shares"
)

// Divisible is a curriculum that chooses among nothing but the entries and the tasks
// that Next is given, so that a plan can be drawn environment by environment.
type Divisible interface {
	Curriculum
	Divisible()
}

// Mixture is one curriculum of tasks of several environments, whose ids begin with the
// environment's name and a slash. One state holds the entries of all, which compete for
// room in it; each plan has exact shares of the environments, and the prompts of each are
// drawn from its own tasks and entries.
type Mixture struct {
	Curriculum
	parts []mixturePart
}

type mixturePart struct {
	prefix  string // of its tasks' ids
	weight  float64
	chooser Curriculum // with draws of its own
}

// NewMixture makes the mixture of environments with weights, for a run with a seed.
func NewMixture(names []string, weights []float64, seed uint64, of func(seed uint64) (Curriculum, error)) (*Mixture, error) {
	whole, err := of(seed)
	if err != nil {
		return nil, err
	}
	m := &Mixture{Curriculum: whole}
	for i, name := range names {
		chooser, err := of(rng.New(seed, rng.PurposeSelect, 0, "environment "+name, 0).Uint64(0))
		if err != nil {
			return nil, err
		}
		m.parts = append(m.parts, mixturePart{name + "/", weights[i], chooser})
	}
	return m, nil
}

// Next gives each environment with training tasks its share of the plans so far, and
// draws its prompts. The probability of a selection is that among its environment's.
func (m *Mixture) Next(state State, iteration, n int, taskIDs []string) ([]Selection, error) {
	var live []mixturePart
	var weights []float64
	var tasks [][]string
	for _, p := range m.parts {
		if own := ofPart(taskIDs, p.prefix, func(id string) string { return id }); len(own) > 0 {
			live, weights, tasks = append(live, p), append(weights, p.weight), append(tasks, own)
		}
	}
	if len(live) == 0 {
		return nil, exitcode.Bugf("no training task's id begins with the name of an environment: %q", taskIDs[0])
	}
	rows, before := shares.New(weights).Plan((iteration-1)*n, n)
	count := make([]int, len(live))
	for _, i := range rows {
		count[i]++
	}
	drawn := make([][]Selection, len(live))
	for i, p := range live {
		own := p.stateOf(state)
		own.Before = &before[i]
		var err error
		if drawn[i], err = p.chooser.Next(own, iteration, count[i], tasks[i]); err != nil {
			return nil, err
		}
	}
	selections := make([]Selection, n)
	for row, i := range rows {
		selections[row], drawn[i] = drawn[i][0], drawn[i][1:]
	}
	return selections, nil
}

// stateOf is what an environment's prompts are drawn from.
func (p mixturePart) stateOf(state State) State {
	state.Entries = ofPart(state.Entries, p.prefix, func(e shard.Entry) string { return e.TaskID })
	return state
}

func ofPart[T any](all []T, prefix string, id func(T) string) []T {
	var own []T
	for _, x := range all {
		if strings.HasPrefix(id(x), prefix) {
			own = append(own, x)
		}
	}
	return own
}

// Explain lists the terms of a selection among those of its environment.
func (m *Mixture) Explain(state State, iteration, n int, selected Selection) ([]Term, error) {
	for _, p := range m.parts {
		if explainer, ok := p.chooser.(Explainer); ok && strings.HasPrefix(selected.TaskID, p.prefix) {
			return explainer.Explain(p.stateOf(state), iteration, n, selected)
		}
	}
	return nil, exitcode.Dataf("task %q is of no environment of the recipe", selected.TaskID)
}

// Metrics are those of the whole state.
func (m *Mixture) Metrics(state State) map[string]float64 {
	if measurer, ok := m.Curriculum.(Measurer); ok {
		return measurer.Metrics(state)
	}
	return nil
}

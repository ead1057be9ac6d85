// Package parents is OpenMLE's choice of the programs that prompts start from (arXiv
// 2607.28568, §4.3 and App. C.1): a program p of a task is drawn with a probability that is
// proportional to
//
//	F(p) = norm(R_p) + norm(Var R_c of the children c of p) + norm(C_p),  C_p = 1 − n_p / max n,
//
// where R is a reward in [0, 1], the children are the programs that were sampled from p, n_p of
// them, and norm maps the least of the task's programs to 0 and the largest to 1. A prompt is a
// first attempt, improves on a program with a reward, or debugs one without.
//
// Open in the paper, or not done here:
//
//   - A program without children has no variance, and norm 1/2 (the paper's code). One child has
//     the variance 0. Where all programs have one value, norm is 1/2.
//   - R is the normalised score, which the paper clips to bounds of the task's history.
//   - Children count after they have left the pool, while their parent is in it.
//   - Prompts that join two programs are none that environments word: their share improves.
package parents

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name of this curriculum in recipes.
const Name = "parents"

// selectedByFitness is the rule that drew a program.
const selectedByFitness = "fitness"

// The statistics of a program's children, by its entry.
const (
	scopeChildren = "children"
	nameCount     = "count"
	nameMean      = "mean"
	nameSquares   = "squares" // sum of squared distances from the mean
)

// Parents is the curriculum. An entry of its state is a program, with its reward R for the
// base score and F for the potential.
type Parents struct {
	spec Settings
	seed uint64
}

var (
	_ curriculum.Curriculum = (*Parents)(nil)
	_ curriculum.Asking     = (*Parents)(nil)
	_ curriculum.Explainer  = (*Parents)(nil)
	_ curriculum.Measurer   = (*Parents)(nil)
)

// New makes it for a run with a seed. Recipes have checked the settings.
func New(spec Settings, seed uint64) *Parents { return &Parents{spec, seed} }

// Name is as recipes write it.
func (p *Parents) Name() string { return Name }

// Divisible says that prompts are drawn from the entries and tasks that Next is given alone.
func (p *Parents) Divisible() {}

// Kinds are those of prompts that start from a program.
func (p *Parents) Kinds() []shard.Kind { return []shard.Kind{shard.KindImprove, shard.KindDebug} }

// children are the rewards of what was made of a program.
type children struct{ n, mean, squares float64 }

// add is Welford's update.
func (c children) add(reward float64) children {
	n := c.n + 1
	mean := c.mean + (reward-c.mean)/n
	return children{n, mean, c.squares + (reward-c.mean)*(reward-mean)}
}

// read returns the children of the entries by their ids.
func read(state curriculum.State) (map[string]children, error) {
	known := map[string]children{}
	for _, s := range state.Stats {
		c := known[s.Key]
		switch {
		case s.Scope == scopeChildren && s.Name == nameCount:
			c.n = s.Value
		case s.Scope == scopeChildren && s.Name == nameMean:
			c.mean = s.Value
		case s.Scope == scopeChildren && s.Name == nameSquares:
			c.squares = s.Value
		default:
			return nil, exitcode.Dataf("statistic %q of %s %q is none of the curriculum %s: the state is another curriculum's", s.Name, s.Scope, s.Key, Name)
		}
		known[s.Key] = c
	}
	return known, nil
}

// Update adds the programs of an iteration, counts them with their parents, and keeps of each
// task those of the highest F, in the order in which they came.
func (p *Parents) Update(state curriculum.State, iteration int, groups []curriculum.Group, _ []string) (curriculum.State, error) {
	made, err := read(state)
	if err != nil {
		return curriculum.State{}, err
	}
	entries := slices.Clone(state.Entries)
	for _, g := range groups {
		for _, r := range g.Responses {
			if !r.Valid() {
				continue
			}
			if parent := g.Instance.ParentID; parent != "" {
				made[parent] = made[parent].add(r.Quality())
			}
			if shard.Outcome(r.Score.Outcome) == shard.OutcomeOK || r.Score.Extracted != "" {
				entries = append(entries, programOf(g.Instance, r))
			}
		}
	}
	next := curriculum.State{Iteration: iteration}
	for _, e := range p.kept(entries, made) {
		next.Entries = append(next.Entries, e)
		if c := made[e.EntryID]; c.n > 0 {
			for _, s := range []shard.Stat{{Name: nameCount, Value: c.n}, {Name: nameMean, Value: c.mean}, {Name: nameSquares, Value: c.squares}} {
				s.Scope, s.Key, s.Iteration = scopeChildren, e.EntryID, e.Ref.Iteration
				next.Stats = append(next.Stats, s)
			}
		}
	}
	return next, nil
}

// programOf is a response as an entry: to improve on if it has a reward, else to debug.
func programOf(from shard.Instance, r curriculum.Response) shard.Entry {
	kind := shard.KindDebug
	if r.Quality() > 0 {
		kind = shard.KindImprove
	}
	return shard.Entry{
		EntryID: fmt.Sprintf("%s/%d", from.InstanceID, r.Sample), TaskID: from.TaskID, Kind: string(kind), ParentID: from.InstanceID,
		Depth: from.Depth + 1, Turn: r.Said(), Ref: r.Ref, BaseScore: r.Quality(),
	}
}

// kept gives all entries their F and returns those that are held.
func (p *Parents) kept(entries []shard.Entry, made map[string]children) []shard.Entry {
	byTask := map[string][]int{}
	for i, e := range entries {
		byTask[e.TaskID] = append(byTask[e.TaskID], i)
	}
	gone := make([]bool, len(entries))
	for _, own := range byTask {
		for i, f := range p.fitness(entries, own, made) {
			entries[own[i]].Potential = f
		}
		slices.SortStableFunc(own, func(a, b int) int { return cmp.Compare(entries[b].Potential, entries[a].Potential) })
		for _, i := range own[min(len(own), p.spec.Capacity):] {
			gone[i] = true
		}
	}
	kept := make([]shard.Entry, 0, len(entries))
	for i, e := range entries {
		if !gone[i] {
			kept = append(kept, e)
		}
	}
	return kept
}

// fitness is F of the programs of one task, which are entries at some places.
func (p *Parents) fitness(entries []shard.Entry, own []int, made map[string]children) []float64 {
	most := 0.0
	for _, i := range own {
		most = max(most, made[entries[i].EntryID].n)
	}
	f := make([]float64, len(own))
	for _, term := range []struct {
		on bool
		of func(e shard.Entry, c children) (value float64, known bool)
	}{
		{p.spec.Reward, func(e shard.Entry, _ children) (float64, bool) { return e.BaseScore, true }},
		{p.spec.Variance, func(_ shard.Entry, c children) (float64, bool) { return c.squares / max(1, c.n), c.n > 0 }},
		{p.spec.Cooling, func(_ shard.Entry, c children) (float64, bool) { return 1 - c.n/max(1, most), true }},
	} {
		if !term.on {
			continue
		}
		values, known := make([]float64, len(own)), make([]bool, len(own))
		for at, i := range own {
			values[at], known[at] = term.of(entries[i], made[entries[i].EntryID])
		}
		for at, x := range normalised(values, known) {
			f[at] += x
		}
	}
	return f
}

// normalised maps the least of the known values to 0 and the largest to 1. What is not known,
// and all where these are equal, is 1/2.
func normalised(values []float64, known []bool) []float64 {
	var there []float64
	for i, x := range values {
		if known[i] {
			there = append(there, x)
		}
	}
	norm := make([]float64, len(values))
	for i, x := range values {
		norm[i] = 0.5
		if low, high := slices.Min(append(there, x)), slices.Max(append(there, x)); known[i] && high > low {
			norm[i] = (x - low) / (high - low)
		}
	}
	return norm
}

// shares are the probabilities of a first attempt, of improving and of debugging, where a task
// has programs to improve on, or to debug: a kind that it lacks leaves its share to the
// other, and where it has neither all are first attempts.
func (p *Parents) shares(improves, debugs bool) (draft, improve, debug float64) {
	draft, debug = p.spec.Draft, p.spec.Debug
	switch improve = 1 - draft - debug; {
	case improves && debugs:
		return draft, improve, debug
	case improves:
		return draft, improve + debug, 0
	case debugs:
		return draft, 0, improve + debug
	}
	return 1, 0, 0
}

// pool is the programs of a task of one kind, with the weights by which they are drawn.
type pool struct {
	entries []shard.Entry
	weights []float64
}

func (o *pool) add(e shard.Entry) {
	o.entries, o.weights = append(o.entries, e), append(o.weights, e.Potential)
}

// drawable makes all weights equal where none is above 0.
func (o *pool) drawable() {
	if slices.Max(o.weights) <= 0 {
		for i := range o.weights {
			o.weights[i] = 1
		}
	}
}

// pools are those of each task: to improve on, and to debug.
func pools(entries []shard.Entry) map[string]*[2]pool {
	of := map[string]*[2]pool{}
	for _, e := range entries {
		if of[e.TaskID] == nil {
			of[e.TaskID] = &[2]pool{}
		}
		at := 0
		if shard.Kind(e.Kind) == shard.KindDebug {
			at = 1
		}
		of[e.TaskID][at].add(e)
	}
	for _, both := range of {
		for i := range both {
			if len(both[i].entries) > 0 {
				both[i].drawable()
			}
		}
	}
	return of
}

// The draws of one prompt, by position in its stream.
const (
	positionKind   = 0 // a first attempt, to improve, or to debug
	positionParent = 1 // on which program
)

// Next draws, for the task of each prompt, what it asks for and which program it starts from.
func (p *Parents) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	tasks := uniform.Tasks(p.spec.BaseTasks, p.seed, state, iteration, n, taskIDs)
	of := pools(state.Entries)
	selections := make([]curriculum.Selection, n)
	for i, task := range tasks {
		own := of[task]
		if own == nil {
			own = &[2]pool{}
		}
		draft, improve, debug := p.shares(len(own[0].entries) > 0, len(own[1].entries) > 0)
		stream := rng.New(p.seed, rng.PurposeSelect, iteration, "parents prompt", i)
		u := stream.Float64(positionKind)
		chosen, share := &own[0], improve
		switch {
		case u < draft:
			selections[i] = uniform.Selection(task, draft)
			continue
		case u >= draft+improve && debug > 0:
			chosen, share = &own[1], debug
		}
		at := curriculum.Cumulate(chosen.weights).Draw(stream.Float64(positionParent))
		e := chosen.entries[at]
		selections[i] = curriculum.Selection{
			TaskID: task, Kind: shard.Kind(e.Kind), Origin: shard.OriginBuffer, ParentID: e.EntryID, Depth: int(e.Depth), Turn: int(e.Turn),
			Ref: e.Ref, BaseScore: e.BaseScore, Potential: e.Potential,
			Probability: share * chosen.share(at), SelectedBy: selectedByFitness,
		}
	}
	return selections, nil
}

// share is a program's part of the weights.
func (o *pool) share(at int) float64 {
	sum := 0.0
	for _, w := range o.weights {
		sum += w
	}
	return o.weights[at] / sum
}

// Explain lists what the probability is made of; it is that of the start, given the task.
func (p *Parents) Explain(state curriculum.State, _, _ int, selected curriculum.Selection) ([]curriculum.Term, error) {
	own := pools(state.Entries)[selected.TaskID]
	if own == nil {
		own = &[2]pool{}
	}
	draft, improve, debug := p.shares(len(own[0].entries) > 0, len(own[1].entries) > 0)
	if selected.Origin != shard.OriginBuffer {
		return []curriculum.Term{{Name: "probability", Value: draft}}, nil
	}
	for kind, share := range []float64{improve, debug} {
		at := slices.IndexFunc(own[kind].entries, func(e shard.Entry) bool { return e.EntryID == selected.ParentID })
		if at < 0 {
			continue
		}
		e := own[kind].entries[at]
		return []curriculum.Term{
			{Name: "programs of the kind", Value: float64(len(own[kind].entries))},
			{Name: "R", Value: e.BaseScore},
			{Name: "F", Value: e.Potential},
			{Name: "share of " + e.Kind, Value: share},
			{Name: "probability", Value: share * own[kind].share(at)},
		}, nil
	}
	return nil, exitcode.Dataf("program %q is none of those that it was selected from", selected.ParentID)
}

// Metrics are the number of programs that are held, by kind, of those that have children, and
// the mean of F and of the rewards.
func (p *Parents) Metrics(state curriculum.State) map[string]float64 {
	m := map[string]float64{"programs": float64(len(state.Entries)), "improve": 0, "debug": 0, "parents": 0}
	for _, e := range state.Entries {
		m[e.Kind]++
		m["fitness_mean"] += e.Potential / m["programs"]
		m["score_mean"] += e.BaseScore / m["programs"]
	}
	for _, s := range state.Stats {
		if s.Name == nameCount {
			m["parents"]++
		}
	}
	return m
}

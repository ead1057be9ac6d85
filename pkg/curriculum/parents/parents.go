// Package parents is OpenMLE's choice of the programs that prompts start from (arXiv
// 2607.28568, §4.3 and App. C.1): a program p of a task is drawn with a probability that is
// proportional to
//
//	F(p) = norm(R_p) + norm(Var R_c of the children c of p) + norm(C_p),  C_p = 1 − n_p / max n,
//
// where R is a reward in [0, 1], the children are the programs that were sampled from p, n_p of
// them, and norm maps the least of the task's programs to 0 and the largest to 1. A prompt is a
// first attempt, improves on a program with a reward, debugs one without, or joins two with a
// reward (crossover): p, and another q with a probability proportional to F(q).
//
// Open in the paper, or not done here:
//
//   - A program without children has no variance, and norm 1/2 (the paper's code). One child has
//     the variance 0. Where all programs have one value, norm is 1/2.
//   - R is the normalised score, which the paper clips to bounds of the task's history.
//   - Children count after they have left the pool, while their parent is in it. Of two parents
//     each has the child.
//   - What a joined program improves on is the better of both.
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
func (p *Parents) Kinds() []shard.Kind {
	kinds := []shard.Kind{shard.KindImprove, shard.KindDebug}
	if p.spec.Crossover > 0 {
		kinds = append(kinds, shard.KindCrossover)
	}
	return kinds
}

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
			for _, parent := range []string{g.Instance.ParentID, g.Instance.PartnerID} {
				if parent != "" {
					made[parent] = made[parent].add(r.Quality())
				}
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

// shares are the probabilities of what a prompt asks for.
type shares struct{ draft, improve, debug, crossover float64 }

// shares are those of a task with so many programs to improve on, and to debug. What it has
// no two programs for is to improve; a kind that it lacks leaves its share to the other, and
// where it has neither all are first attempts.
func (p *Parents) shares(improves, debugs int) shares {
	s := shares{draft: p.spec.Draft, debug: p.spec.Debug, crossover: p.spec.Crossover}
	s.improve = 1 - s.draft - s.debug - s.crossover
	if improves < 2 {
		s.improve, s.crossover = s.improve+s.crossover, 0
	}
	switch {
	case improves == 0 && debugs == 0:
		return shares{draft: 1}
	case improves == 0:
		s.improve, s.debug = 0, s.improve+s.debug
	case debugs == 0:
		s.improve, s.debug = s.improve+s.debug, 0
	}
	return s
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
	if len(o.weights) > 0 && slices.Max(o.weights) <= 0 {
		for i := range o.weights {
			o.weights[i] = 1
		}
	}
}

// without are the programs but for one.
func (o *pool) without(at int) *pool {
	rest := &pool{}
	for i, e := range o.entries {
		if i != at {
			rest.add(e)
		}
	}
	rest.drawable()
	return rest
}

// find is the place of a program; -1 for none.
func (o *pool) find(id string) int {
	return slices.IndexFunc(o.entries, func(e shard.Entry) bool { return e.EntryID == id })
}

// pools are the programs of a task.
type pools struct{ improve, debug pool }

// poolsOf are those of each task.
func poolsOf(entries []shard.Entry) map[string]*pools {
	of := map[string]*pools{}
	for _, e := range entries {
		own := of[e.TaskID]
		if own == nil {
			own = &pools{}
			of[e.TaskID] = own
		}
		if shard.Kind(e.Kind) == shard.KindDebug {
			own.debug.add(e)
		} else {
			own.improve.add(e)
		}
	}
	for _, own := range of {
		own.improve.drawable()
		own.debug.drawable()
	}
	return of
}

// ofTask are the programs of a task, and the shares of what can be asked with them.
func (p *Parents) ofTask(of map[string]*pools, task string) (*pools, shares) {
	own := of[task]
	if own == nil {
		own = &pools{}
	}
	return own, p.shares(len(own.improve.entries), len(own.debug.entries))
}

// The draws of one prompt, by position in its stream.
const (
	positionKind    = 0 // a first attempt, to improve, to debug, or to join
	positionParent  = 1 // on which program
	positionPartner = 2 // with which other one
)

// Next draws, for the task of each prompt, what it asks for and which programs it starts from.
func (p *Parents) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	tasks := uniform.Tasks(p.spec.BaseTasks, p.seed, state, iteration, n, taskIDs)
	of := poolsOf(state.Entries)
	selections := make([]curriculum.Selection, n)
	for i, task := range tasks {
		own, share := p.ofTask(of, task)
		stream := rng.New(p.seed, rng.PurposeSelect, iteration, "parents prompt", i)
		switch u := stream.Float64(positionKind); {
		case u < share.draft:
			selections[i] = uniform.Selection(task, share.draft)
		case u >= share.draft+share.improve+share.debug && share.crossover > 0:
			selections[i] = own.improve.join(share.crossover, stream)
		case u >= share.draft+share.improve && share.debug > 0:
			selections[i], _ = own.debug.draw(share.debug, stream)
		default:
			selections[i], _ = own.improve.draw(share.improve, stream)
		}
	}
	return selections, nil
}

// draw selects a program, of prompts that have a share of all, and says at which place it is.
func (o *pool) draw(share float64, stream rng.Stream) (curriculum.Selection, int) {
	at := curriculum.Cumulate(o.weights).Draw(stream.Float64(positionParent))
	e := o.entries[at]
	return curriculum.Selection{
		TaskID: e.TaskID, Kind: shard.Kind(e.Kind), Origin: shard.OriginBuffer, ParentID: e.EntryID, Depth: int(e.Depth), Turn: int(e.Turn),
		Ref: e.Ref, BaseScore: e.BaseScore, Potential: e.Potential,
		Probability: share * o.share(at), SelectedBy: selectedByFitness,
	}, at
}

// join selects two programs: a first, and one of the others.
func (o *pool) join(share float64, stream rng.Stream) curriculum.Selection {
	s, at := o.draw(share, stream)
	rest := o.without(at)
	other := curriculum.Cumulate(rest.weights).Draw(stream.Float64(positionPartner))
	e := rest.entries[other]
	s.Kind, s.PartnerID, s.PartnerRef = shard.KindCrossover, e.EntryID, e.Ref
	s.Depth, s.BaseScore = max(s.Depth, int(e.Depth)), max(s.BaseScore, e.BaseScore)
	s.Probability *= rest.share(other)
	return s
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
	own, share := p.ofTask(poolsOf(state.Entries), selected.TaskID)
	if selected.Origin != shard.OriginBuffer {
		return []curriculum.Term{{Name: "probability", Value: share.draft}}, nil
	}
	from, ofKind := &own.improve, share.improve
	switch selected.Kind {
	case shard.KindDebug:
		from, ofKind = &own.debug, share.debug
	case shard.KindCrossover:
		ofKind = share.crossover
	}
	at := from.find(selected.ParentID)
	if at < 0 {
		return nil, exitcode.Dataf("program %q is none of those that it was selected from", selected.ParentID)
	}
	probability := ofKind * from.share(at)
	terms := []curriculum.Term{
		{Name: "programs of the kind", Value: float64(len(from.entries))},
		{Name: "R", Value: from.entries[at].BaseScore},
		{Name: "F", Value: from.entries[at].Potential},
		{Name: "share of " + string(selected.Kind), Value: ofKind},
	}
	if selected.Kind == shard.KindCrossover {
		rest := from.without(at)
		other := rest.find(selected.PartnerID)
		if other < 0 {
			return nil, exitcode.Dataf("program %q is none of those that it was selected from", selected.PartnerID)
		}
		terms = append(terms, curriculum.Term{Name: "R of the other", Value: rest.entries[other].BaseScore}, curriculum.Term{Name: "F of the other", Value: rest.entries[other].Potential})
		probability *= rest.share(other)
	}
	return append(terms, curriculum.Term{Name: "probability", Value: probability}), nil
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

package tenant

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/scaffold"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func init() {
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: "tenant-worst", Summary: "the tasks whose last mean quality is lowest, in order of ids",
		Make: func(any) (curriculum.Maker, error) {
			return func(uint64) curriculum.Curriculum { return worst{} }, nil
		},
	})
	scaffold.Axis.Register(registry.Choice[scaffold.Maker]{
		Name: "tenant-afresh", Summary: "tries the task again from the start",
		Make: func(any) (scaffold.Maker, error) {
			return func(steps int) scaffold.Scaffold { return afresh(steps) }, nil
		},
	})
	credit.SegmentsAxis.Register(registry.Choice[credit.Segments]{
		Name: "tenant-halves", Summary: "the first turn, and all that follow",
		Make: func(any) (credit.Segments, error) { return halves{}, nil },
	})
	credit.RewardAxis.Register(registry.Choice[credit.Reward]{
		Name: "tenant-above", Summary: "1 for what is better than the mean of the iteration before",
		Make: func(any) (credit.Reward, error) { return above{}, nil },
	})
	credit.SelectAxis.Register(registry.Choice[credit.Select]{
		Name: "tenant-odd", Summary: "drops the segments of odd samples",
		Settings: func() any { return &odd{} },
		Validate: func(c *config.Checker, s any) { c.AtLeast("select.tenant-odd.from", s.(*odd).From, 0) },
		Make:     func(s any) (credit.Select, error) { return s.(*odd), nil },
	})
	credit.AdvantageAxis.Register(registry.Choice[credit.Advantage]{
		Name: "tenant-centred", Summary: "the reward less a number",
		Settings: func() any { return &centred{Baseline: 0.5} },
		Make:     func(s any) (credit.Advantage, error) { return s.(*centred), nil },
	})
	credit.FactorAxis.Register(registry.Choice[credit.Factor]{
		Name: "tenant-half", Summary: "one half",
		Make: func(any) (credit.Factor, error) { return half{}, nil },
	})
	credit.WeightAxis.Register(registry.Choice[credit.Weight]{
		Name: "tenant-turns", Summary: "the mean over turns of the mean over their tokens",
		Make: func(any) (credit.Weight, error) { return turns{}, nil },
	})
}

// worst keeps the mean quality of each task.
type worst struct{}

func (worst) Name() string { return "tenant-worst" }

func (worst) Update(state curriculum.State, iteration int, groups []curriculum.Group, _ []string) (curriculum.State, error) {
	next := curriculum.State{Iteration: iteration, Stats: slices.Clone(state.Stats)}
	for _, g := range groups {
		var sum float64
		for _, r := range g.Responses {
			sum += r.Quality()
		}
		stat := shard.Stat{Scope: "task", Key: g.Instance.TaskID, Name: "quality", Iteration: int32(iteration), Value: sum / float64(max(1, len(g.Responses)))}
		at := slices.IndexFunc(next.Stats, func(s shard.Stat) bool { return s.Key == stat.Key })
		if at < 0 {
			next.Stats = append(next.Stats, stat)
		} else {
			next.Stats[at] = stat
		}
	}
	return next, nil
}

func (worst) Next(state curriculum.State, _, n int, taskIDs []string) ([]curriculum.Selection, error) {
	quality := map[string]float64{}
	for _, s := range state.Stats {
		quality[s.Key] = s.Value
	}
	order := slices.Clone(taskIDs)
	slices.SortStableFunc(order, func(a, b string) int {
		switch {
		case quality[a] < quality[b]:
			return -1
		case quality[a] > quality[b]:
			return 1
		}
		return 0
	})
	selections := make([]curriculum.Selection, n)
	for i := range selections {
		selections[i] = curriculum.Selection{
			TaskID: order[i%len(order)], Kind: shard.KindInitial, Origin: shard.OriginBase, Probability: 1, SelectedBy: "worst",
		}
	}
	return selections, nil
}

// afresh is a scaffold of so many attempts after the first.
type afresh int

func (s afresh) Next(trace scaffold.Trace, _ env.Traits) scaffold.Next {
	return scaffold.Next{Done: len(trace.Attempts) > int(s), Kind: trace.Attempts[0].Kind, Parent: -1}
}

type halves struct{}

func (halves) Cut(t credit.Trace) [][2]int {
	if t.Turns() < 2 {
		return [][2]int{{0, t.Turns() - 1}}
	}
	return [][2]int{{0, 0}, {1, t.Turns() - 1}}
}

// above compares with the mean of the iteration before, which it keeps.
type above struct{}

func (above) Reward(iteration int, stats []shard.Stat, groups []credit.Group, segments [][]credit.Segment) ([]shard.Stat, error) {
	var bar, sum, n float64
	for _, s := range stats {
		bar = s.Value
	}
	for g, group := range groups {
		for i := range segments[g] {
			s := &segments[g][i]
			s.Raw = group.Traces[s.Trace].Turn(s.Last).NormalizedScore
			if s.Raw > bar {
				s.Reward = 1
			}
			sum, n = sum+s.Raw, n+1
		}
	}
	return []shard.Stat{{Scope: "iteration", Name: "mean", Iteration: int32(iteration), Value: sum / max(1, n)}}, nil
}

// odd drops samples with odd numbers from one on; 0 is off.
type odd struct {
	From int `yaml:"from"` // the first one
}

func (*odd) When() credit.When { return credit.After }

func (o *odd) Drop(g credit.Group, segments []credit.Segment, at int) string {
	if sample := int(g.Traces[segments[at].Trace].Score.Sample); sample >= o.From && sample%2 == 1 {
		return "tenant-odd"
	}
	return ""
}

type centred struct {
	Baseline float64 `yaml:"baseline"` // what is taken off
}

func (c *centred) Advantage(_ credit.Group, segments []credit.Segment) error {
	for i := range segments {
		if segments[i].Dropped == "" {
			segments[i].Advantage = segments[i].Reward - c.Baseline
		}
	}
	return nil
}

func (*centred) Critic() bool { return false }

type half struct{}

func (half) AfterWhitening() bool { return false }

func (half) Factor(groups []credit.Group, segments [][]credit.Segment) ([][]float64, error) {
	factors := make([][]float64, len(groups))
	for g := range segments {
		for range segments[g] {
			factors[g] = append(factors[g], .5)
		}
	}
	return factors, nil
}

type turns struct{}

func (turns) Weights(spans [][]int, _ int) ([][]float64, error) {
	var n float64
	for _, span := range spans {
		for _, tokens := range span {
			if tokens > 0 {
				n++
			}
		}
	}
	if n == 0 {
		return nil, nil
	}
	weights := make([][]float64, len(spans))
	for i, span := range spans {
		weights[i] = make([]float64, len(span))
		for turn, tokens := range span {
			if tokens > 0 {
				weights[i][turn] = 1 / n / float64(tokens)
			}
		}
	}
	return weights, nil
}

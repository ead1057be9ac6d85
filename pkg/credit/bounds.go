package credit

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed bounds.go
var boundsSource string

var _ = config.Docs[Bounds](boundsSource)

// Bounds is the reward of OpenMLE (arXiv 2607.28568, Eq. 1 and §4.3): where policies reach a
// small part of the range of scores, that part becomes the whole. For a valid submission with
// the normalised score s
//
//	r = clip((s − W) / (B − W), 0, 1)^α
//
// and 0 for what is none. Of the scores of the task's history and of the group B is the best
// and W the rank-th, or the worst of fewer, less margin·(B − W); neither is outside of [0, 1],
// and where that leaves no range they are 0 and 1.
type Bounds struct {
	Alpha  float64 `yaml:"alpha"`  // α
	Rank   int     `yaml:"rank"`   // of the score that is the lower bound
	Margin float64 `yaml:"margin"` // by which that lies below it, as a share of the range
}

// scopeBound is that of the best scores of a task, by rank from 1.
const scopeBound = "bound"

func init() {
	const name = "bounds"
	RewardAxis.Register(registry.Choice[Reward]{
		Name: name, Summary: "the normalised score between bounds of the task's history and the group; nothing without a valid submission (OpenMLE, arXiv 2607.28568)",
		Settings: func() any { return &Bounds{Alpha: 1, Rank: 16, Margin: 0.25} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*Bounds)
			const section = "reward." + name
			c.Positive(section+".alpha", s.Alpha)
			c.Between(section+".rank", s.Rank, 2, 999)
			c.NotNegative(section+".margin", s.Margin)
		},
		Make: func(settings any) (Reward, error) { return settings.(*Bounds), nil },
	})
}

// Reward compares each group with the history of its task, which the scores of the
// iteration enter once all groups are compared.
func (b *Bounds) Reward(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) ([]shard.Stat, error) {
	history := map[string][]float64{}
	var next []shard.Stat
	var tasks []string
	for _, s := range stats {
		if s.Scope != scopeBound {
			next = append(next, s)
			continue
		}
		if history[s.Key] == nil {
			tasks = append(tasks, s.Key)
		}
		history[s.Key] = append(history[s.Key], s.Value)
	}
	added := map[string][]float64{}
	for g, group := range groups {
		task := group.Instance.TaskID
		var own []float64
		for i := range segments[g] {
			s := &segments[g][i]
			last := group.Traces[s.Trace].verdict(*s)
			s.Raw = last.NormalizedScore
			if shard.Outcome(last.Outcome) == shard.OutcomeOK {
				own = append(own, s.Raw)
			}
		}
		worst, best := b.of(slices.Concat(history[task], own))
		for i := range segments[g] {
			s := &segments[g][i]
			if shard.Outcome(group.Traces[s.Trace].verdict(*s).Outcome) == shard.OutcomeOK {
				s.Reward = math.Pow(max(0, min(1, (s.Raw-worst)/(best-worst))), b.Alpha)
			}
		}
		if history[task] == nil && added[task] == nil && len(own) > 0 {
			tasks = append(tasks, task)
		}
		added[task] = append(added[task], own...)
	}
	for _, task := range tasks {
		for rank, score := range b.top(slices.Concat(history[task], added[task])) {
			next = append(next, shard.Stat{Scope: scopeBound, Key: task, Name: fmt.Sprintf("%03d", rank+1), Iteration: int32(iteration), Value: score})
		}
	}
	return next, nil
}

// top are the best scores, as many as bounds depend on.
func (b *Bounds) top(scores []float64) []float64 {
	slices.SortFunc(scores, func(x, y float64) int { return cmp.Compare(y, x) })
	return scores[:min(len(scores), b.Rank)]
}

// of are the bounds of scores.
func (b *Bounds) of(scores []float64) (worst, best float64) {
	top := b.top(scores)
	if len(top) == 0 {
		return 0, 1
	}
	best, worst = top[0], top[len(top)-1]
	worst = max(0, worst-b.Margin*(best-worst))
	if best = min(1, best); best <= worst {
		return 0, 1
	}
	return worst, best
}

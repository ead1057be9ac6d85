package credit

import (
	_ "embed"
	"math"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed runningmean.go
var runningMeanSource string

var _ = config.Docs[RunningMean](runningMeanSource)

// RunningMean is the reward of MLE-RL (section 4.1): a score r_i is compared with the
// mean of the window ℋ_i of the most recent scores of its task, of which those are left
// out that lie more than so many standard deviations below the window's mean μ:
//
//	r̄_i = r_i − 1/|ℋ'_i| Σ_{j ∈ ℋ'_i} r_j,    ℋ'_i = {j ∈ ℋ_i | r_j ≥ μ − 2σ}
//
// and the reward is 1 where r̄_i > τ_rm, else 0. σ is the population's. The window holds
// earlier scores alone; an empty one takes nothing away. Traces from scratch and those
// that go on from an earlier solution have windows of their own. Every valid submission
// enters its window once it is rewarded, whether or not it is trained on: by the places
// of instances, samples and turns. The score is the normalised one: in MLE-RL the
// HumanRank.
type RunningMean struct {
	Window     int     `yaml:"window"`     // W: scores of a window
	Deviations float64 `yaml:"deviations"` // scores further below the window's mean are left out of the mean; 0 leaves none out
	Threshold  float64 `yaml:"threshold"`  // τ_rm
	Signed     bool    `yaml:"signed"`     // the reward is r̄ − τ_rm itself, which may be negative (Table 5)
	OneWindow  bool    `yaml:"one_window"` // one window for traces of both kinds
}

// A window's statistics: the key is the task, the name the kind of trace; the rows of
// one window stand in the order of their scores.
const (
	scopeWindow     = "window"
	fromScratch     = "scratch"
	fromSolution    = "solution"
	fromBothOfThese = "both"
)

func init() {
	const name = "running_mean"
	RewardAxis.Register(registry.Choice[Reward]{
		Name: name, Summary: "1 where a valid submission exceeds the running mean of its task's recent scores, else 0 (MLE-RL, section 4.1)",
		Settings: func() any { return &RunningMean{Window: 64, Deviations: 2} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*RunningMean)
			const section = "credit." + name
			c.AtLeast(section+".window", s.Window, 1)
			c.NotNegative(section+".deviations", s.Deviations)
			if !(math.Abs(s.Threshold) <= 1) {
				c.Add(section+".threshold", s.Threshold, "must be from -1 to 1")
			}
		},
		Make: func(settings any) (Reward, error) { return settings.(*RunningMean), nil },
	})
}

// window is the most recent scores of a task, the oldest first.
type window struct {
	scores []shard.Stat
}

// mean is that of the scores that are not too far below it; 0 of none.
func (w window) mean(deviations float64) float64 {
	if len(w.scores) == 0 {
		return 0
	}
	n, sum, square := float64(len(w.scores)), 0.0, 0.0
	for _, s := range w.scores {
		sum += s.Value
	}
	mu := sum / n
	for _, s := range w.scores {
		square += (s.Value - mu) * (s.Value - mu)
	}
	bound := mu - deviations*math.Sqrt(square/n)
	if deviations == 0 {
		bound = math.Inf(-1)
	}
	// Rounding alone puts no score below a bound that it stands on.
	bound -= 1e-12 * (1 + math.Abs(mu))
	n, sum = 0, 0
	for _, s := range w.scores {
		if s.Value >= bound {
			n, sum = n+1, sum+s.Value
		}
	}
	return sum / n
}

// Reward compares each valid submission with its window, and then lets it in.
func (r *RunningMean) Reward(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) ([]shard.Stat, error) {
	type key struct{ task, kind string }
	windows := map[key]*window{}
	var order []key // of their first scores
	of := func(k key) *window {
		if windows[k] == nil {
			windows[k], order = &window{}, append(order, k)
		}
		return windows[k]
	}
	var next []shard.Stat
	for _, s := range stats {
		if s.Scope != scopeWindow {
			next = append(next, s)
			continue
		}
		w := of(key{s.Key, s.Name})
		w.scores = append(w.scores, s)
	}
	for g, group := range groups {
		for i := range segments[g] {
			s := &segments[g][i]
			trace := group.Traces[s.Trace]
			last := trace.verdict(*s)
			s.Raw = last.NormalizedScore
			if !trace.Valid() || !submitted(last) {
				continue
			}
			k := key{group.Instance.TaskID, r.kind(group.Instance)}
			w := of(k)
			s.Reward = s.Raw - w.mean(r.Deviations) - r.Threshold
			if !r.Signed {
				s.Reward = oneIf(s.Reward > 0)
			}
			w.scores = append(w.scores, shard.Stat{Scope: scopeWindow, Key: k.task, Name: k.kind, Iteration: int32(iteration), Value: s.Raw})
			w.scores = w.scores[max(0, len(w.scores)-r.Window):]
		}
	}
	for _, k := range order {
		next = append(next, windows[k].scores...)
	}
	return next, nil
}

func (r *RunningMean) kind(instance shard.Instance) string {
	switch {
	case r.OneWindow:
		return fromBothOfThese
	case shard.Kind(instance.Kind) == shard.KindInitial:
		return fromScratch
	}
	return fromSolution
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

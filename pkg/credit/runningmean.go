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

// RunningMean is the reward of MLE-RL §4.1: a score r_i is compared with the
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
// HumanRank (readings mlerl-window, mlerl-pruning and mlerl-binary).
type RunningMean struct {
	Window     int     `yaml:"window"`     // W: scores of a window
	Deviations float64 `yaml:"deviations"` // scores further below the window's mean are left out of the mean; 0 leaves none out
	Threshold  float64 `yaml:"threshold"`  // τ_rm
	Signed     bool    `yaml:"signed"`     // the reward is r̄ − τ_rm itself, which may be negative (MLE-RL Tab. 5)
	OneWindow  bool    `yaml:"one_window"` // one window for traces of both kinds
	Retained   bool    `yaml:"retained"`   // only what is trained on enters a window, once it is chosen: scores are then compared with those of earlier iterations alone
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
		Name: name, Summary: "1 where a valid submission exceeds the running mean of its task's recent scores, else 0 (MLE-RL §4.1)",
		Settings: func() any { return &RunningMean{Window: 64, Deviations: 2} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*RunningMean)
			const section = "reward." + name
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
	n := float64(len(w.scores))
	var sum, square float64
	for _, s := range w.scores {
		sum += s.Value
	}
	mu := sum / n
	for _, s := range w.scores {
		off := s.Value - mu
		square += off * off
	}
	bound := mu - deviations*math.Sqrt(square/n)
	if deviations == 0 {
		bound = math.Inf(-1)
	}
	bound -= 1e-12 * (1 + math.Abs(mu)) // rounding alone puts no score below a bound that it stands on
	n, sum = 0, 0
	for _, s := range w.scores {
		if s.Value >= bound {
			n, sum = n+1, sum+s.Value
		}
	}
	return sum / n
}

// windows are all of them, and the other statistics.
type windows struct {
	by    map[windowKey]*window
	order []windowKey // of their first scores
	rest  []shard.Stat
}

type windowKey struct{ task, kind string }

func readWindows(stats []shard.Stat) *windows {
	all := &windows{by: map[windowKey]*window{}}
	for _, s := range stats {
		if s.Scope != scopeWindow {
			all.rest = append(all.rest, s)
			continue
		}
		w := all.of(windowKey{s.Key, s.Name})
		w.scores = append(w.scores, s)
	}
	return all
}

func (all *windows) of(k windowKey) *window {
	if all.by[k] == nil {
		all.by[k], all.order = &window{}, append(all.order, k)
	}
	return all.by[k]
}

// add lets a score into its window, out of which the oldest then falls.
func (all *windows) add(k windowKey, score float64, iteration, longest int) {
	w := all.of(k)
	w.scores = append(w.scores, shard.Stat{Scope: scopeWindow, Key: k.task, Name: k.kind, Iteration: int32(iteration), Value: score})
	w.scores = w.scores[max(0, len(w.scores)-longest):]
}

func (all *windows) stats() []shard.Stat {
	next := all.rest
	for _, k := range all.order {
		next = append(next, all.by[k].scores...)
	}
	return next
}

// Reward compares each valid submission with its window, and then lets it in.
func (r *RunningMean) Reward(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) ([]shard.Stat, error) {
	all := readWindows(stats)
	for g, group := range groups {
		for i := range segments[g] {
			s := &segments[g][i]
			trace := group.Traces[s.Trace]
			last := trace.verdict(*s)
			s.Raw = last.NormalizedScore
			if !trace.Valid() || !submitted(last) {
				continue
			}
			k := windowKey{group.Instance.TaskID, r.kind(group.Instance)}
			s.Reward = s.Raw - all.of(k).mean(r.Deviations) - r.Threshold
			if !r.Signed {
				s.Reward = oneIf(s.Reward > 0)
			}
			if !r.Retained {
				all.add(k, s.Raw, iteration, r.Window)
			}
		}
	}
	return all.stats(), nil
}

// Retain lets in what is trained on, where nothing else is.
func (r *RunningMean) Retain(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) []shard.Stat {
	if !r.Retained {
		return stats
	}
	all := readWindows(stats)
	for g, group := range groups {
		for _, s := range segments[g] {
			trace := group.Traces[s.Trace]
			if s.Dropped == "" && s.Masked == "" && trace.Valid() && submitted(trace.verdict(s)) {
				all.add(windowKey{group.Instance.TaskID, r.kind(group.Instance)}, s.Raw, iteration, r.Window)
			}
		}
	}
	return all.stats()
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

package ace

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The statistics that are seconds: for each task the sum over its responses of what their
// programs took, and how many responses these were.
const (
	scopeSeconds  = "seconds"
	nameSum       = "sum"
	nameResponses = "responses"
)

// forget is the discount of a task's earlier seconds when it is sampled again: programs
// become longer as the policy learns.
const forget = 0.9

// leastSeconds bounds what a task is expected to take from below.
const leastSeconds = 1e-3

// seconds are the discounted sums of a task.
type seconds struct {
	task           string
	sum, responses float64
}

// secondsOf reads those of a state, in their order.
func secondsOf(stats []shard.Stat) []seconds {
	var all []seconds
	for _, s := range stats {
		switch {
		case s.Scope == scopeSeconds && s.Name == nameSum:
			all = append(all, seconds{task: s.Key, sum: s.Value})
		case s.Scope == scopeSeconds:
			all[len(all)-1].responses = s.Value // follows its sum
		}
	}
	return all
}

// after are the seconds once groups are known: those of a task are discounted by each of
// its groups.
func after(all []seconds, groups []curriculum.Group) []seconds {
	for _, g := range groups {
		took := g.Values(func(r curriculum.Response) float64 { return r.Score.ExecuteSeconds })
		if len(took) == 0 {
			continue
		}
		at := slices.IndexFunc(all, func(s seconds) bool { return s.task == g.Instance.TaskID })
		if at < 0 {
			at, all = len(all), append(all, seconds{task: g.Instance.TaskID})
		}
		own := &all[at]
		own.sum, own.responses = forget*own.sum, forget*own.responses+float64(len(took))
		for _, t := range took {
			own.sum += t
		}
	}
	return all
}

// secondsStats is the inverse of secondsOf.
func secondsStats(all []seconds, iteration int) []shard.Stat {
	var stats []shard.Stat
	for _, s := range all {
		stats = append(stats,
			shard.Stat{Scope: scopeSeconds, Key: s.task, Name: nameSum, Iteration: int32(iteration), Value: s.sum},
			shard.Stat{Scope: scopeSeconds, Key: s.task, Name: nameResponses, Iteration: int32(iteration), Value: s.responses})
	}
	return stats
}

// worth is what states are ranked by: their potentials, or under per_second
//
//	𝒫(x) / E[Δt | x],
//
// E[Δt | x] being the mean seconds of the programs of the state's task so far, and for a task
// of which nothing is known the mean over the tasks that are.
func (a *Ace) worth(state curriculum.State, states []shard.Entry) []float64 {
	worth := make([]float64, len(states))
	for i, e := range states {
		worth[i] = e.Potential
	}
	if !a.spec.PerSecond {
		return worth
	}
	all := secondsOf(state.Stats)
	expected, mean := map[string]float64{}, 0.0
	for _, s := range all {
		expected[s.task] = max(s.sum/s.responses, leastSeconds)
		mean += expected[s.task] / float64(len(all))
	}
	for i, e := range states {
		if t, known := expected[e.TaskID]; known {
			worth[i] /= t
		} else if mean > 0 {
			worth[i] /= mean
		}
	}
	return worth
}

// Package plr is prioritized level replay (Jiang, Grefenstette, Rocktäschel 2021,
// "Prioritized Level Replay"), with training tasks for levels: a prompt takes a
// task that has not been sampled, or replays one by its score and its staleness.
//
// The paper scores a level by the L1 value loss, the mean magnitude of the
// advantages of its last episode. Without a critic the mean reward of a group is the
// estimate of the value, and the mean absolute deviation from it is that magnitude:
// 0 for a task that the policy always or never solves.
//
// The paper leaves some things open for batches of groups. They are settled here so:
//
//   - Episodes are counted in iterations: the staleness of a task is the number of
//     iterations since it was last sampled.
//   - Equal scores, which are common with rewards of few values, share their mean rank.
//   - The replays of an iteration are drawn independently, with replacement. New tasks
//     come in the order of a permutation, so none comes twice while there are enough.
//   - A task counts as seen from its first score. A group with fewer than two
//     valid responses has none, and leaves an earlier score as it is.
package plr

import (
	"cmp"
	_ "embed"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name is the name of this curriculum in recipes.
const Name = "plr"

//go:embed plr.go
var source string

var _ = config.Docs[Settings](source)

// Settings are those of Jiang, Grefenstette, Rocktäschel 2021, section 3.
type Settings struct {
	Replay    float64 `yaml:"replay"`    // probability that a prompt replays a task, while there are both seen and new ones
	Beta      float64 `yaml:"beta"`      // β, temperature of the scores' ranks: a task of rank r has the weight r^(-1/β)
	Staleness float64 `yaml:"staleness"` // ρ, share of the replays that is drawn by staleness instead of score
}

// DefaultSettings are those of the paper on Procgen, and the replay rate of its
// published code.
func DefaultSettings() *Settings { return &Settings{Replay: 0.5, Beta: 0.1, Staleness: 0.1} }

func init() {
	const section = "curriculum." + Name
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "new tasks, and replays of those with the largest advantages and the longest rest (prioritized level replay)",
		Settings: func() any { return DefaultSettings() },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*Settings)
			c.Share(section+".replay", s.Replay)
			c.Positive(section+".beta", s.Beta)
			c.Share(section+".staleness", s.Staleness)
			if group, _ := config.Find[int](c.Settings(), "rollout.group"); group == 1 {
				c.Add("rollout.group", group, "must be 2 or more for curriculum.name %s: one reward has no deviation, so no task gets a score", Name)
			}
		},
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}

// PLR is the curriculum. Its state is the number of training tasks, and after it a
// statistic per task that has a score: the score S_i, and the iteration C_i in which
// the task was last sampled.
type PLR struct {
	spec Settings
	seed uint64
}

var (
	_ curriculum.Curriculum = (*PLR)(nil)
	_ curriculum.Explainer  = (*PLR)(nil)
	_ curriculum.Measurer   = (*PLR)(nil)
)

const (
	scopeTasks = "tasks"
	nameCount  = "count"
	scopeTask  = "task"
	nameScore  = "score"
)

// The rules that select a task.
const (
	selectedNew    = "new"
	selectedReplay = "replay"
)

// New returns the curriculum of a run with the given seed. Recipes have checked
// the settings.
func New(spec Settings, seed uint64) *PLR { return &PLR{spec, seed} }

// Name returns "plr".
func (p *PLR) Name() string { return Name }

// Update gives the tasks of an iteration's groups their scores. Of two groups of a
// task the later in the plan counts.
func (p *PLR) Update(state curriculum.State, iteration int, groups []curriculum.Group, taskIDs []string) (curriculum.State, error) {
	seen := slices.Clone(p.seen(state))
	at := places(seen)
	for _, g := range groups {
		score, ok := score(g)
		i, known := at[g.Instance.TaskID]
		if !known && !ok {
			continue
		}
		if !known {
			i = len(seen)
			at[g.Instance.TaskID] = i
			seen = append(seen, shard.Stat{Scope: scopeTask, Key: g.Instance.TaskID, Name: nameScore})
		}
		s := &seen[i]
		s.Iteration = max(s.Iteration, g.Instance.Iteration)
		if ok {
			s.Value = score
		}
	}
	count := shard.Stat{Scope: scopeTasks, Name: nameCount, Value: float64(len(taskIDs))}
	return curriculum.State{Iteration: iteration, Stats: slices.Concat([]shard.Stat{count}, seen)}, nil
}

// seen are the statistics of tasks.
func (p *PLR) seen(state curriculum.State) []shard.Stat {
	return state.Stats[min(1, len(state.Stats)):]
}

// places are those of the statistics of tasks.
func places(stats []shard.Stat) map[string]int {
	at := make(map[string]int, len(stats))
	for i, s := range stats {
		at[s.Key] = i
	}
	return at
}

// score is the mean absolute deviation of a group's rewards. ok is false for fewer
// than two valid responses.
func score(g curriculum.Group) (score float64, ok bool) {
	rewards := g.Values(curriculum.RewardOf)
	if len(rewards) < 2 {
		return 0, false
	}
	mean, _ := curriculum.MeanVariance(rewards)
	for _, r := range rewards {
		score += math.Abs(r - mean)
	}
	return score / float64(len(rewards)), true
}

// distribution is P_replay with its terms, by task that was seen.
type distribution struct {
	rank, byScore, byStaleness, replay []float64
}

// distribution is
//
//	P_replay = (1 − ρ) P_S + ρ P_C,  P_S ∝ rank(S_i)^(−1/β),  P_C ∝ c − C_i.
func (p *PLR) distribution(seen []shard.Stat, iteration int) distribution {
	n := len(seen)
	d := distribution{ranks(seen), make([]float64, n), make([]float64, n), make([]float64, n)}
	if n == 0 {
		return d
	}
	best, weights, stale := slices.Min(d.rank), 0.0, 0.0
	for i, s := range seen {
		d.byScore[i] = math.Pow(d.rank[i]/best, -1/p.spec.Beta) // the best has 1, so that not all are 0
		d.byStaleness[i] = float64(iteration) - float64(s.Iteration)
		weights, stale = weights+d.byScore[i], stale+d.byStaleness[i]
	}
	for i := range seen {
		d.byScore[i] /= weights
		d.byStaleness[i] /= stale
		d.replay[i] = (1-p.spec.Staleness)*d.byScore[i] + p.spec.Staleness*d.byStaleness[i]
	}
	return d
}

// ranks are 1 for the highest score; equal scores share their mean rank.
func ranks(seen []shard.Stat) []float64 {
	order := make([]int, len(seen))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(seen[b].Value, seen[a].Value) })
	rank := make([]float64, len(seen))
	for first := 0; first < len(order); {
		last := first
		for last+1 < len(order) && seen[order[last+1]].Value == seen[order[first]].Value {
			last++
		}
		for _, i := range order[first : last+1] {
			rank[i] = 1 + float64(first+last)/2
		}
		first = last + 1
	}
	return rank
}

// replays is the probability that a prompt replays a task.
func (p *PLR) replays(state curriculum.State) float64 {
	switch seen := len(p.seen(state)); {
	case seen == 0:
		return 0
	case float64(seen) >= state.Stats[0].Value:
		return 1
	}
	return p.spec.Replay
}

// The draws of one prompt, by position in its stream.
const (
	positionReplay = 0 // a replay, or a new task
	positionTask   = 1 // which task is replayed
)

// Next draws for each prompt whether it replays a task, and which. Prompt i takes
// the new task that a permutation of them has there; those of prompts that replay are
// passed over.
func (p *PLR) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	seen := p.seen(state)
	at := places(seen)
	unseen := slices.DeleteFunc(slices.Clone(taskIDs), func(id string) bool { _, known := at[id]; return known })
	order := rng.New(p.seed, rng.PurposeSelect, iteration, "plr new tasks", 0).Permutation(0, len(unseen))
	replays := p.replays(state)
	replay := p.distribution(seen, iteration).replay
	cumulated := curriculum.Cumulate(replay)
	selections := make([]curriculum.Selection, n)
	for i := range selections {
		stream := rng.New(p.seed, rng.PurposeSelect, iteration, "plr prompt", i)
		s := curriculum.Selection{Kind: shard.KindInitial, Origin: shard.OriginBase}
		if stream.Bool(positionReplay, replays) {
			chosen := cumulated.Draw(stream.Float64(positionTask))
			s.TaskID, s.Potential, s.SelectedBy = seen[chosen].Key, seen[chosen].Value, selectedReplay
			s.Probability = replays * replay[chosen]
		} else {
			s.TaskID, s.SelectedBy, s.Probability = unseen[order[i%len(order)]], selectedNew, 1-replays
		}
		selections[i] = s
	}
	return selections, nil
}

// Explain lists the terms of P_replay, or the probability of a new task.
func (p *PLR) Explain(state curriculum.State, iteration, _ int, selected curriculum.Selection) ([]curriculum.Term, error) {
	seen, replays := p.seen(state), p.replays(state)
	terms := []curriculum.Term{{Name: "tasks seen", Value: float64(len(seen))}, {Name: "p", Value: replays}}
	if selected.SelectedBy == selectedNew {
		return append(terms, curriculum.Term{Name: "probability", Value: 1 - replays}), nil
	}
	i, there := places(seen)[selected.TaskID]
	if !there {
		return nil, exitcode.Dataf("task %q has no score in the state that it was selected from", selected.TaskID)
	}
	d := p.distribution(seen, iteration)
	return append(terms, []curriculum.Term{
		{Name: "S", Value: seen[i].Value},
		{Name: "rank", Value: d.rank[i]},
		{Name: "P_S", Value: d.byScore[i]},
		{Name: "c − C", Value: float64(iteration) - float64(seen[i].Iteration)},
		{Name: "P_C", Value: d.byStaleness[i]},
		{Name: "ρ", Value: p.spec.Staleness},
		{Name: "P_replay", Value: d.replay[i]},
		{Name: "probability", Value: replays * d.replay[i]},
	}...), nil
}

// Metrics are the number of tasks with a score, of those whose score is 0, and the
// scores' mean.
func (p *PLR) Metrics(state curriculum.State) map[string]float64 {
	seen := p.seen(state)
	m := map[string]float64{"seen": float64(len(seen)), "score_zero": 0}
	sum := 0.0
	for _, s := range seen {
		sum += s.Value
		if s.Value == 0 {
			m["score_zero"]++
		}
	}
	if len(seen) > 0 {
		m["score_mean"] = sum / m["seen"]
	}
	return m
}

// Package rounds is a curriculum for training tasks that are listed from easy to hard: a run
// begins with the first of them, and each round of some iterations adds the next, at once or
// when the newest have been learned. A policy that learns from its own answers is so asked a
// little more than it has learned, as in self-improvement from easy to hard (Lee et al.,
// arXiv 2502.01612).
package rounds

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name of this curriculum in recipes.
const Name = "rounds"

//go:embed rounds.go
var source string

var _ = config.Docs[Settings](source)

// Settings say how the tasks become more. Round r, from 0, has the first first + r·add
// tasks in their order, up to all.
type Settings struct {
	First     int     `yaml:"first"`                                // tasks of the first round
	Add       int     `yaml:"add"`                                  // tasks that each later round adds
	Every     int     `yaml:"every"`                                // iterations of a round; with learned the fewest
	Newest    float64 `yaml:"newest"`                               // share of the prompts that are of the tasks that the latest round has added; the others are of those before, each task as likely as another
	Learned   float64 `yaml:"learned"`                              // a round goes on until its newest tasks have been learned: until answers to them come to this in an iteration, from 0 to 1; in the first round, answers to all. 0: a round is over after its iterations
	LearnedBy string  `yaml:"learned_by" choices:"score,agreement"` // what answers come to. score: their mean normalised score, which needs right answers to the training tasks; agreement: the mean share of the answers to a prompt that are its most frequent one, which needs none, and several answers to each prompt
}

// What answers come to.
const (
	byScore     = "score"
	byAgreement = "agreement"
)

func init() {
	const section = "curriculum." + Name
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "training tasks in their order, some more each round of iterations (self-improvement from easy to hard, arXiv 2502.01612)",
		Settings: func() any { return &Settings{First: 1000, Add: 100, Every: 10, Newest: 0.5, LearnedBy: byScore} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*Settings)
			c.AtLeast(section+".first", s.First, 1)
			c.AtLeast(section+".add", s.Add, 1)
			c.AtLeast(section+".every", s.Every, 1)
			c.Share(section+".newest", s.Newest)
			if c.Share(section+".learned", s.Learned) && s.Learned > 0 && s.Newest == 0 {
				c.Add(section+".newest", s.Newest, "must be above 0 with learned: no prompt would be of the tasks that are to be learned")
			}
			c.Choice(section+".learned_by", s.LearnedBy)
			if group, _ := config.Find[int](c.Settings(), "rollout.group"); s.Learned > 0 && s.LearnedBy == byAgreement && group == 1 {
				c.Add("rollout.group", group, "must be 2 or more with %s.learned_by agreement: one answer always agrees", section)
			}
		},
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}

// Rounds is the curriculum. Its state is what the answers to the newest tasks came to, in the
// last iteration that had any, and, where rounds wait for that, which round it is.
type Rounds struct {
	spec Settings
	seed uint64
}

var (
	_ curriculum.Curriculum = (*Rounds)(nil)
	_ curriculum.Measurer   = (*Rounds)(nil)
)

// The rules that select a task.
const (
	selectedNewest  = "newest"
	selectedFirst   = "first" // of the first round
	selectedEarlier = "earlier"
)

// The statistics. That of the round has the iteration after which it began.
const (
	scopeNewest = "newest tasks"
	nameScore   = "score"
	scopeRun    = "run"
	nameRound   = "round"
)

// New returns the curriculum of a run with the given seed. Recipes have checked the
// settings.
func New(spec Settings, seed uint64) *Rounds { return &Rounds{spec, seed} }

// Name returns "rounds".
func (r *Rounds) Name() string { return Name }

// round is that of an iteration, from 0, and the iteration after which it began, by what is
// known before.
func (r *Rounds) round(state curriculum.State, iteration int) (round, after int) {
	if r.spec.Learned == 0 {
		round = (iteration - 1) / r.spec.Every
		return round, round * r.spec.Every
	}
	if s, there := find(state.Stats, scopeRun); there {
		return int(s.Value), int(s.Iteration)
	}
	return 0, 0
}

func find(stats []shard.Stat, scope string) (s shard.Stat, there bool) {
	at := slices.IndexFunc(stats, func(s shard.Stat) bool { return s.Scope == scope })
	if at < 0 {
		return s, false
	}
	return stats[at], true
}

// known are the numbers of tasks, of all that there are, before a round's newest and with
// them. A first round, and one to which no task is left to add, has none that are newest.
func (r *Rounds) known(round, tasks int) (earlier, all int) {
	all = min(tasks, r.spec.First+round*r.spec.Add)
	if round == 0 {
		return all, all
	}
	return min(tasks, r.spec.First+(round-1)*r.spec.Add), all
}

// Update measures the answers to the newest tasks, and ends a round that has learned them.
func (r *Rounds) Update(state curriculum.State, iteration int, groups []curriculum.Group, taskIDs []string) (curriculum.State, error) {
	next := curriculum.State{Iteration: iteration}
	round, after := r.round(state, iteration)
	newest, there := find(state.Stats, scopeNewest)
	if value, measured := r.measure(groups, r.asked(round, taskIDs)); measured {
		newest, there = shard.Stat{Scope: scopeNewest, Name: nameScore, Iteration: int32(iteration), Value: value}, true
	}
	if there {
		next.Stats = append(next.Stats, newest)
	}
	if r.spec.Learned == 0 {
		return next, nil
	}
	// What an earlier round came to says nothing of this one.
	ofRound := there && int(newest.Iteration) > after
	if _, all := r.known(round, len(taskIDs)); ofRound && newest.Value >= r.spec.Learned && iteration-after >= r.spec.Every && all < len(taskIDs) {
		next.Notes = append(next.Notes, fmt.Sprintf("round %d has learned its tasks (%s %.3f); round %d begins", round, r.spec.LearnedBy, newest.Value, round+1))
		round, after = round+1, iteration
	}
	next.Stats = append(next.Stats, shard.Stat{Scope: scopeRun, Name: nameRound, Iteration: int32(after), Value: float64(round)})
	return next, nil
}

// asked are the tasks to which a round's answers are measured: its newest; of a first round
// that is to be learned, all.
func (r *Rounds) asked(round int, taskIDs []string) map[string]bool {
	earlier, all := r.known(round, len(taskIDs))
	if round == 0 && r.spec.Learned > 0 {
		earlier = 0
	}
	asked := map[string]bool{}
	for _, id := range taskIDs[earlier:all] {
		asked[id] = true
	}
	return asked
}

// measure is what the answers to some tasks come to. It is not measured where none could be
// scored.
func (r *Rounds) measure(groups []curriculum.Group, asked map[string]bool) (value float64, measured bool) {
	var values []float64
	for _, g := range groups {
		switch {
		case !asked[g.Instance.TaskID]:
		case r.spec.LearnedBy == byAgreement:
			if share, known := agreement(g); known {
				values = append(values, share)
			}
		default:
			values = append(values, g.Values(curriculum.Response.Quality)...)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	value, _ = curriculum.MeanVariance(values)
	return value, true
}

// agreement is the share of a group's answers that are its most frequent one. What is no
// answer agrees with nothing. It is not known of fewer than two.
func agreement(g curriculum.Group) (share float64, known bool) {
	count, most, n := map[string]int{}, 0, 0
	for _, answer := range g.Responses {
		if !answer.Valid() {
			continue
		}
		n++
		if said := answer.Score.Extracted; said != "" {
			count[said]++
			most = max(most, count[said])
		}
	}
	return float64(most) / float64(max(1, n)), n >= 2
}

// The draws of one prompt, by position in its stream.
const (
	positionNewest = 0 // of the newest tasks, or of those before
	positionTask   = 1 // which
)

// Next draws the task of each prompt.
func (r *Rounds) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	round, _ := r.round(state, iteration)
	earlier, all := r.known(round, len(taskIDs))
	newest := r.spec.Newest
	if all == earlier {
		newest = 0
	}
	selections := make([]curriculum.Selection, n)
	for i := range selections {
		stream := rng.New(r.seed, rng.PurposeSelect, iteration, "rounds prompt", i)
		s := curriculum.Selection{Kind: shard.KindInitial, Origin: shard.OriginBase}
		if stream.Bool(positionNewest, newest) {
			s.SelectedBy, s.Probability = selectedNewest, newest/float64(all-earlier)
			s.TaskID = taskIDs[earlier+stream.IntN(positionTask, all-earlier)]
		} else {
			at := stream.IntN(positionTask, earlier)
			s.TaskID, s.SelectedBy, s.Probability = taskIDs[at], selectedEarlier, (1-newest)/float64(earlier)
			if at < r.spec.First {
				s.SelectedBy = selectedFirst
			}
		}
		selections[i] = s
	}
	return selections, nil
}

// Metrics are the round of the last iteration, and what the answers to its newest tasks came
// to.
func (r *Rounds) Metrics(state curriculum.State) map[string]float64 {
	round, after := r.round(state, max(1, state.Iteration))
	if after == state.Iteration && round > 0 { // the next iteration is the first of the round
		round--
	}
	m := map[string]float64{"round": float64(round)}
	if newest, there := find(state.Stats, scopeNewest); there {
		m["newest_score"] = newest.Value
	}
	return m
}

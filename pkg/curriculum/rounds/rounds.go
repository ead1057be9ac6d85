// Package rounds is a curriculum for training tasks that are listed from easy to hard: a run
// begins with the first of them, and each round of some iterations adds the next. A policy
// that learns from its own answers is so asked a little more than it has learned, as in
// self-improvement from easy to hard (Lee et al., arXiv 2502.01612).
package rounds

import (
	_ "embed"

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
	First  int     `yaml:"first"`  // tasks of the first round
	Add    int     `yaml:"add"`    // tasks that each later round adds
	Every  int     `yaml:"every"`  // iterations of a round
	Newest float64 `yaml:"newest"` // share of the prompts that are of the tasks that the latest round has added; the others are of those before, each task as likely as another
}

func init() {
	const section = "curriculum." + Name
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "training tasks in their order, some more each round of iterations (self-improvement from easy to hard, arXiv 2502.01612)",
		Settings: func() any { return &Settings{First: 1000, Add: 100, Every: 10, Newest: 0.5} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*Settings)
			c.AtLeast(section+".first", s.First, 1)
			c.AtLeast(section+".add", s.Add, 1)
			c.AtLeast(section+".every", s.Every, 1)
			c.Share(section+".newest", s.Newest)
		},
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}

// Rounds is the curriculum. Its state is the mean quality of the answers to the newest
// tasks, of the last iteration that had any.
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

const (
	scopeNewest = "newest tasks"
	nameScore   = "score"
)

// New returns the curriculum of a run with the given seed. Recipes have checked the
// settings.
func New(spec Settings, seed uint64) *Rounds { return &Rounds{spec, seed} }

// Name returns "rounds".
func (r *Rounds) Name() string { return Name }

// round is that of an iteration, from 0.
func (r *Rounds) round(iteration int) int { return (iteration - 1) / r.spec.Every }

// known are the numbers of tasks, of all that there are, before a round's newest and with
// them. A first round, and one to which no task is left to add, has none that are newest.
func (r *Rounds) known(round, tasks int) (earlier, all int) {
	all = min(tasks, r.spec.First+round*r.spec.Add)
	if round == 0 {
		return all, all
	}
	return min(tasks, r.spec.First+(round-1)*r.spec.Add), all
}

// Update measures the answers to the newest tasks.
func (r *Rounds) Update(state curriculum.State, iteration int, groups []curriculum.Group, _ []string) (curriculum.State, error) {
	next := curriculum.State{Iteration: iteration, Stats: state.Stats}
	var qualities []float64
	for _, g := range groups {
		if g.Instance.SelectedBy == selectedNewest {
			qualities = append(qualities, g.Values(curriculum.Response.Quality)...)
		}
	}
	if len(qualities) > 0 {
		mean, _ := curriculum.MeanVariance(qualities)
		next.Stats = []shard.Stat{{Scope: scopeNewest, Name: nameScore, Iteration: int32(iteration), Value: mean}}
	}
	return next, nil
}

// The draws of one prompt, by position in its stream.
const (
	positionNewest = 0 // of the newest tasks, or of those before
	positionTask   = 1 // which
)

// Next draws the task of each prompt.
func (r *Rounds) Next(_ curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	earlier, all := r.known(r.round(iteration), len(taskIDs))
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

// Metrics are the round of the last iteration, and the mean quality of the answers to its
// newest tasks.
func (r *Rounds) Metrics(state curriculum.State) map[string]float64 {
	m := map[string]float64{"round": float64(r.round(max(1, state.Iteration)))}
	for _, s := range state.Stats {
		m["newest_score"] = s.Value
	}
	return m
}

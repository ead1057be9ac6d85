// Package beliefs is ExIt's buffer with FlipTS's beliefs: how often an entry is solved is
// a Beta distribution that forgets, in place of the variance of its last group. What enters
// the buffer, and as what an entry is sampled, is ExIt's ([exit.Exit]).
//
// A group of an entry has s = Σ r successes and f = Σ (1 − r) failures, r being the
// qualities of its valid responses, in [0, 1]. The entry's belief Beta(α, β) becomes
//
//	α ← s + λα,  β ← f + λβ                                  (FlipTS Eq. 3)
//
// and begins, where a response becomes an entry, with the group of that response and the
// prior Beta(1, 1). Of entries the one of the least expected learnability is replaced,
//
//	S = E[p(1 − p)] = αβ / ((α + β)(α + β + 1)),
//
// which is the variance of ExIt §4.1 where the belief is sure. A prompt takes the entry of
// the largest p̃(1 − p̃) among draws p̃ ~ Beta(α, β) of its own, one for each entry. That is
// the draw nearest to one half: FlipTS Eq. 4 with its target at 0.5, for single prompts.
//
// One group says little: eight responses of which none is right have the variance 0, and
// ExIt does not come back to them. Their belief, Beta(1, 9), still has S = 0.082.
package beliefs

import (
	_ "embed"
	"math"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/exit"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name is the name of this curriculum in recipes.
const Name = "beliefs"

//go:embed beliefs.go
var source string

var _ = config.Docs[Settings](source)

// Settings are those of ExIt Tab. 4, and the discount of FlipTS.
type Settings struct {
	BufferSize         int     `yaml:"buffer_size"`         // N
	MinBufferSize      int     `yaml:"min_buffer_size"`     // select only from a buffer of at least this size
	SelectProbability  float64 `yaml:"select_probability"`  // p, self-iteration probability
	DivergeProbability float64 `yaml:"diverge_probability"` // p_div
	Decay              float64 `yaml:"decay"`               // λ, discount of an entry's earlier counts when it is sampled again
}

// DefaultSettings are the defaults of both methods.
func DefaultSettings() *Settings {
	return &Settings{BufferSize: 512, MinBufferSize: 128, SelectProbability: 0.5, DivergeProbability: 0.2, Decay: 0.9}
}

func init() {
	const section = "curriculum." + Name
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "ExIt's buffer, drawn from by Thompson sampling of how much can be learned, with beliefs that forget (ExIt and FlipTS)",
		Settings: func() any { return DefaultSettings() },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*Settings)
			exit.CheckSizes(c, section, s.BufferSize, s.MinBufferSize)
			c.Share(section+".select_probability", s.SelectProbability)
			c.Share(section+".diverge_probability", s.DivergeProbability)
			c.Share(section+".decay", s.Decay)
		},
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}

// Beliefs is the curriculum. Its state is ExIt's buffer, with S for the potential of an
// entry, and α and β of each entry as statistics, in the order of the entries.
type Beliefs struct {
	decay float64
	seed  uint64
	exit  *exit.Exit
}

var (
	_ curriculum.Curriculum = (*Beliefs)(nil)
	_ curriculum.Asking     = (*Beliefs)(nil)
	_ curriculum.Explainer  = (*Beliefs)(nil)
	_ curriculum.Measurer   = (*Beliefs)(nil)
)

// New returns the curriculum of a run with the given seed. Recipes have checked the
// settings.
func New(s Settings, seed uint64) *Beliefs {
	return &Beliefs{s.Decay, seed, exit.New(exit.Settings{
		BufferSize: s.BufferSize, MinBufferSize: s.MinBufferSize, SelectProbability: s.SelectProbability,
		DivergeProbability: s.DivergeProbability, Improve: true, Expand: exit.ExpandOne, BaseTasks: uniform.Epochs,
	}, seed)}
}

// Name returns "beliefs".
func (b *Beliefs) Name() string { return Name }

// Divisible says that prompts are drawn from the entries and tasks that Next is given alone.
func (b *Beliefs) Divisible() {}

// Kinds are ExIt's.
func (b *Beliefs) Kinds() []shard.Kind { return b.exit.Kinds() }

// belief is that an entry is solved. A group has two values at least, so α + β is 2 or more.
type belief curriculum.Beta

// prior is that of an entry of which nothing is known.
var prior = belief{Alpha: 1, Beta: 1}

// after is the belief once a group is known.
func (b belief) after(g curriculum.Group, decay float64) belief {
	next := belief{Alpha: decay * b.Alpha, Beta: decay * b.Beta}
	for _, quality := range g.Values(curriculum.Response.Quality) {
		next.Alpha += quality
		next.Beta += 1 - quality
	}
	return next
}

// learnability is E[p(1 − p)].
func (b belief) learnability() float64 {
	n := b.Alpha + b.Beta
	return b.Alpha * b.Beta / (n * (n + 1))
}

const (
	scopeEntry = "entry"
	nameAlpha  = "alpha"
	nameBeta   = "beta"
)

// read returns the beliefs of a state's entries by their ids.
func read(state curriculum.State) (map[string]belief, error) {
	known := make(map[string]belief, len(state.Entries))
	for _, s := range state.Stats {
		b := known[s.Key]
		switch {
		case s.Scope == scopeEntry && s.Name == nameAlpha:
			b.Alpha = s.Value
		case s.Scope == scopeEntry && s.Name == nameBeta:
			b.Beta = s.Value
		default:
			return nil, exitcode.Dataf("statistic %q of %s %q is none of the beliefs curriculum's: the state is another curriculum's", s.Name, s.Scope, s.Key)
		}
		known[s.Key] = b
	}
	for _, entry := range state.Entries {
		if _, there := known[entry.EntryID]; !there {
			return nil, exitcode.Dataf("entry %q has no belief: the state is another curriculum's", entry.EntryID)
		}
	}
	return known, nil
}

// Update folds the groups of an iteration into the beliefs of the entries that they were
// selected from, and lets their responses enter the buffer as ExIt does. A group with fewer
// than two valid responses changes no belief and enters nothing.
func (b *Beliefs) Update(state curriculum.State, iteration int, groups []curriculum.Group, _ []string) (curriculum.State, error) {
	known, err := read(state)
	if err != nil {
		return curriculum.State{}, err
	}
	fresh := map[string]belief{} // of what a group's responses become, by its instance
	next, err := b.exit.Fold(state, iteration, groups, func(entry *shard.Entry, g curriculum.Group) (float64, bool) {
		if len(g.Values(curriculum.Response.Quality)) < 2 {
			return 0, false
		}
		if entry == nil {
			made := prior.after(g, b.decay)
			fresh[g.Instance.InstanceID] = made
			return made.learnability(), true
		}
		known[entry.EntryID] = known[entry.EntryID].after(g, b.decay)
		return known[entry.EntryID].learnability(), true
	})
	if err != nil {
		return curriculum.State{}, err
	}
	next.Stats = make([]shard.Stat, 0, 2*len(next.Entries))
	for _, entry := range next.Entries {
		of, there := known[entry.EntryID]
		if !there {
			of = fresh[entry.ParentID]
		}
		at := max(entry.Ref.Iteration, entry.LastSampled) // when it was last sampled, or made
		next.Stats = append(next.Stats,
			shard.Stat{Scope: scopeEntry, Key: entry.EntryID, Name: nameAlpha, Iteration: at, Value: of.Alpha},
			shard.Stat{Scope: scopeEntry, Key: entry.EntryID, Name: nameBeta, Iteration: at, Value: of.Beta})
	}
	return next, nil
}

// Next draws, for each prompt that ExIt takes from the buffer, the entry whose draw is
// nearest to one half; of equal draws the older.
func (b *Beliefs) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	known, err := read(state)
	if err != nil {
		return nil, err
	}
	return b.exit.Select(state, iteration, n, taskIDs, func(prompt int, _ float64) (nearest int, share float64) {
		miss := math.Inf(1)
		for i, entry := range state.Entries {
			of := known[entry.EntryID]
			stream := rng.New(b.seed, rng.PurposeSelect, iteration, "beliefs "+entry.EntryID, prompt)
			if m := math.Abs(curriculum.Beta(of).Draw(stream) - 0.5); m < miss {
				nearest, miss = i, m
			}
		}
		return nearest, 0
	}), nil
}

// Explain lists ExIt's terms with the belief of an entry and its share of the draws.
func (b *Beliefs) Explain(state curriculum.State, _, _ int, selected curriculum.Selection) ([]curriculum.Term, error) {
	known, err := read(state)
	if err != nil {
		return nil, err
	}
	return b.exit.ExplainBy(state, selected, func(at int) ([]curriculum.Term, float64) {
		own := known[state.Entries[at].EntryID]
		var others []curriculum.Beta
		for i, entry := range state.Entries {
			if i != at {
				others = append(others, curriculum.Beta(known[entry.EntryID]))
			}
		}
		share := curriculum.AmongNearest(1, 0.5, curriculum.Beta(own), others)
		return []curriculum.Term{{Name: "α", Value: own.Alpha}, {Name: "β", Value: own.Beta}, {Name: "S", Value: own.learnability()}, {Name: "share of draws", Value: share}}, share
	})
}

// Metrics are the mean belief that an entry is solved, the mean of the weights α + β, and
// the mean S.
func (b *Beliefs) Metrics(state curriculum.State) map[string]float64 {
	known, err := read(state)
	if err != nil || len(state.Entries) == 0 {
		return nil
	}
	var mean, weight, learnability float64
	for _, entry := range state.Entries {
		of := known[entry.EntryID]
		weight += of.Alpha + of.Beta
		learnability += of.learnability()
		mean += of.Alpha / (of.Alpha + of.Beta)
	}
	n := float64(len(state.Entries))
	return map[string]float64{"mean": mean / n, "weight": weight / n, "score_mean": learnability / n}
}

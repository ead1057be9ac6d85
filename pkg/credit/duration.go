package credit

import (
	_ "embed"
	"math"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed duration.go
var durationSource string

var _ = config.Docs[Duration](durationSource)

// Duration are the settings of the factor duration, which weighs each action by how
// long it ran (RL-MLE Eq. 3): by Δt_k over the mean ("we rescale Δt_k by the average execution time
// in the batch").
//
// An action is a message of the policy, and Δt_k the wall-clock seconds for which
// its program ran, however that ended: programs that failed or were stopped count
// with what they had run. Seconds of generation do not. A program of 0 seconds
// weighs 0, as the equation has it (readings rlmle-mean, rlmle-no-program, rlmle-all-zero
// and rlmle-weight).
//
// The weights undo a bias that a schedule must have first: that actions are observed
// in proportion to π/Δt (RL-MLE App. A.2). Where an action that has begun is observed
// sooner or later, as by schedule.oversample, which carries what is late into a later
// iteration, the shares come near π, and the weights favour slow actions.
// TestFrequencyBias and TestCarriedActionsAreObserved have the numbers (readings rlmle-late
// and rlmle-constant).
//
// The equation is about the policy gradient alone. As a factor on the advantage it
// multiplies the clipped surrogate after whitening, and neither the value loss nor
// the KL and entropy terms; as a factor on weights (multiplies: weight) it multiplies all
// four.
type Duration struct {
	Mean            string  `yaml:"mean" choices:"batch,trajectory"` // whose mean divides an action's seconds: that of all actions of the batch in which a program ran, or of those of its own trace
	AllZero         float64 `yaml:"all_zero"`                        // weight of the actions where that mean is 0, in [0, 1]: 1 leaves them as they are
	NoProgram       float64 `yaml:"no_program"`                      // weight of a message in which no program ran, which has no duration, in [0, 1]: 1, as much as the mean action, or it would be taught nothing
	BeforeWhitening bool    `yaml:"before_whitening"`                // multiply the advantages before they are whitened, and not the surrogate; a segment of several actions by the mean of their weights
}

func init() {
	const name = "duration"
	FactorAxis.Register(registry.Choice[Factor]{
		Name: name, Summary: "the seconds that each action ran, over their mean (RL-MLE Eq. 3)",
		Settings: func() any { return &Duration{Mean: meanOfBatch, AllZero: 1, NoProgram: 1} },
		Validate: func(c *config.Checker, settings any) {
			d := settings.(*Duration)
			c.Choice("factors.duration.mean", d.Mean)
			c.Share("factors.duration.all_zero", d.AllZero)
			c.Share("factors.duration.no_program", d.NoProgram)
			kind, _ := config.Find[string](c.Settings(), "loss.kind")
			if multipliesAdvantage(c, name) && !loss.LooksAtAdvantage(kind) {
				c.Add("factors", name, "changes nothing with loss.kind %s, which looks at no advantage; set factors.%s.multiplies to weight", kind, name)
			}
		},
		Make: func(settings any) (Factor, error) { return duration{*settings.(*Duration)}, nil },
	})
}

// The values of Duration.Mean.
const (
	meanOfBatch      = "batch"
	meanOfTrajectory = "trajectory"
)

type duration struct{ Duration }

func (d duration) AfterWhitening() bool { return !d.BeforeWhitening }

// Factor is the mean of the weights of each segment's actions.
func (d duration) Factor(groups []Group, segments [][]Segment) ([][]float64, error) {
	turns, err := d.OfTurns(groups, segments)
	if err != nil {
		return nil, err
	}
	factors := make([][]float64, len(turns))
	for g := range turns {
		factors[g] = make([]float64, len(turns[g]))
		for i, weights := range turns[g] {
			factors[g][i] = 1
			if len(weights) > 0 {
				factors[g][i] = mean(weights)
			}
		}
	}
	return factors, nil
}

// run is the sum and the number of some actions' seconds.
type run struct{ seconds, actions float64 }

// OfTurns is the weight of each action (RL-MLE Eq. 3). Actions of traces that we failed to score,
// or that count as not sampled, enter no mean and weigh 1.
func (d duration) OfTurns(groups []Group, segments [][]Segment) ([][][]float64, error) {
	counts := func(g int, s Segment) bool { return groups[g].counts(s) }
	type trace struct{ group, trace int }
	runs := map[trace]run{}
	of := func(g int, s Segment) trace { // whose mean it is
		if d.Mean == meanOfTrajectory {
			return trace{g, s.Trace}
		}
		return trace{}
	}
	for g := range segments {
		for _, s := range segments[g] {
			for turn := s.First; turn <= s.Last && counts(g, s); turn++ {
				seconds, ran := executed(groups[g].Traces[s.Trace].Turn(turn))
				if !(seconds >= 0 && seconds <= math.MaxFloat64) {
					return nil, exitcode.Dataf("instance %q sample %d, message %d: its program ran for %v seconds", groups[g].Instance.InstanceID, groups[g].Traces[s.Trace].Score.Sample, turn, seconds)
				}
				if ran {
					r := runs[of(g, s)]
					runs[of(g, s)] = run{r.seconds + seconds, r.actions + 1}
				}
			}
		}
	}
	weights := make([][][]float64, len(segments))
	for g := range segments {
		weights[g] = make([][]float64, len(segments[g]))
		for i, s := range segments[g] {
			for turn := s.First; turn <= s.Last; turn++ {
				w := 1.0
				if counts(g, s) {
					w = d.weight(groups[g].Traces[s.Trace].Turn(turn), runs[of(g, s)])
				}
				weights[g][i] = append(weights[g][i], w)
			}
		}
	}
	return weights, nil
}

// weight is that of an action beside others: Δt_k over its mean (RL-MLE Eq. 3).
func (d duration) weight(verdict shard.TurnScore, all run) float64 {
	seconds, ran := executed(verdict)
	switch {
	case !ran:
		return d.NoProgram
	case all.seconds == 0:
		return d.AllZero
	}
	return seconds / (all.seconds / all.actions)
}

// executed is how long a message's program ran, and whether there was any: what
// was run is also what was extracted.
func executed(verdict shard.TurnScore) (seconds float64, ran bool) {
	return verdict.ExecuteSeconds, verdict.ExecuteSeconds != 0 || verdict.Extracted != ""
}

// Package scaffold decides what the next attempt of a trace starts from.
//
// A trace is what one sample of an instance comes to: an attempt, or several,
// each of which may iterate on an earlier one. A scaffold is a pure function of
// the attempts so far; it knows neither the environment nor the engine.
package scaffold

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Attempt is a finished attempt of a trace.
type Attempt struct {
	Kind  shard.Kind
	Spoke bool // the policy has said something: a prompt may leave it no room
	// Verdict is that on the attempt's last message; nil while it is not known.
	Verdict *env.TurnVerdict
	Seconds float64 // that its scored turns have taken: programs and, under a budget, generation
	Turns   int     // that have been scored
}

// Failed says that there is a score, and that it is not a success.
func (a Attempt) Failed() bool { return a.Verdict != nil && a.Verdict.Outcome != shard.OutcomeOK }

// Trace is what a scaffold sees: the attempts so far, one or more, and where its
// random numbers come from: number i of the choice of attempt n is draw 16n + i.
type Trace struct {
	Attempts []Attempt
	Stream   rng.Stream
	// Known is every message of the policy that has been scored, in all samples of
	// the instance, by attempt, sample and turn. It is that of the wave before, so
	// it does not depend on who was quicker.
	Known []Known
}

// Known is a message with its score.
type Known struct {
	Sample, Attempt, Turn int
	Verdict               env.TurnVerdict
}

// last is the latest attempt.
func (t Trace) last() Attempt { return t.Attempts[len(t.Attempts)-1] }

// before is the trace as it was when attempt n was chosen.
func (t Trace) before(n int) Trace { return Trace{t.Attempts[:n], t.Stream, t.Known} }

// draw is random number i of the choice of the next attempt, in [0, 1).
func (t Trace) draw(i int) float64 { return t.Stream.Float64(uint64(16*len(t.Attempts) + i)) }

// Next is what a scaffold wants after the attempts so far.
type Next struct {
	Done bool // the trace has ended
	// Wait says that the score of the last attempt is needed first. A trace
	// that waits goes on in the next wave.
	Wait bool

	Kind   shard.Kind // of the next attempt
	Parent int        // attempt that it iterates on; -1 for none
	From   *Known     // message that it goes on from, of whichever sample; nil for Parent
	// Drafts is how often each message of the attempt is improved on before the
	// environment sees it.
	Drafts int
}

// Scaffold chooses the attempts of a trace after the first, which is the
// instance's own prompt.
type Scaffold interface {
	// Next says what comes after one attempt or more. Traits are the
	// environment's. An attempt of which it has known the score once it knows
	// again, so what it has chosen before it would choose again.
	Next(trace Trace, traits env.Traits) Next
}

// Maker makes a scaffold of at most so many attempts after the first.
type Maker func(steps int) Scaffold

// Axis holds the scaffolds.
var Axis = registry.New[Maker]("scaffold")

// ForEvaluation names the scaffold that evaluations take unless a recipe says
// otherwise.
const ForEvaluation = "chain"

//go:embed scaffold.go
var source string

var _ = config.Docs[ChainSettings](source)

func init() {
	Axis.Register(registry.Choice[Maker]{
		Name: "single", Default: true, Summary: "one attempt",
		Make: func(any) (Maker, error) { return func(int) Scaffold { return Single{} }, nil },
	})
	Axis.Register(registry.Choice[Maker]{
		Name: ForEvaluation, Summary: "each attempt improves on the one before (ExIt §2.1 and §5.3)",
		Settings: func() any { return &ChainSettings{Kind: string(shard.KindImprove)} },
		Make: func(settings any) (Maker, error) {
			kind := shard.Kind(settings.(*ChainSettings).Kind)
			return func(steps int) Scaffold { return Chain{Steps: steps, Kind: kind} }, nil
		},
	})
}

// Waves bounds the waves that a trace of at most so many attempts takes: one,
// one more for each turn that waits for its score, and one more for each
// attempt that does. A scaffold that has needed one score needs all that
// follow.
func Waves(s Scaffold, attempts int, traits env.Traits) int {
	trace := Trace{Attempts: []Attempt{{Kind: shard.KindInitial, Spoke: true}}}
	next := s.Next(trace, traits)
	for ; len(trace.Attempts) < attempts && !next.Done && !next.Wait; next = s.Next(trace, traits) {
		trace.Attempts = append(trace.Attempts, trace.Attempts[0])
	}
	waves := len(trace.Attempts)*(traits.Waves-1) + 1
	if next.Wait {
		waves += (attempts - len(trace.Attempts)) * traits.Waves
	}
	if _, budget := s.(Budget); budget {
		waves = min(waves, MostTurns)
	}
	return waves
}

// Single ends a trace after its first attempt.
type Single struct{}

// Next is done.
func (Single) Next(Trace, env.Traits) Next { return Next{Done: true} }

// ChainSettings are what a recipe says of a chain.
type ChainSettings struct {
	Kind string `yaml:"kind" json:"kind" choices:"improve,diverge"` // of attempts after the first: improve (better the answer before) or diverge (differ from it)
}

// Chain improves K times, each time on the attempt before (ExIt §2.1 and
// §5.3). Where an attempt is many messages, attempt k is one of its own in
// which each message has been improved on k times before the environment saw
// it (ExIt §2.1: y_t^0 … y_t^K of every turn t, beneath the last iterates of
// the turns before).
type Chain struct {
	Steps int        // K, 0 or more
	Kind  shard.Kind // of attempts 1 to K
}

// Next iterates on the last attempt in which the policy has said something
// (ExIt Eq. 1); where there is none it tries the task again. Where attempts say how good they
// are it waits for that, and debugs what has failed.
func (c Chain) Next(trace Trace, traits env.Traits) Next {
	attempts := trace.Attempts
	if len(attempts) > c.Steps {
		return Next{Done: true}
	}
	if traits.Validated && !trace.known() {
		return Next{Wait: true}
	}
	if traits.ByMessage {
		return Next{Kind: attempts[0].Kind, Parent: -1, Drafts: len(attempts)}
	}
	next := Next{Kind: c.Kind, Parent: len(attempts) - 1}
	for next.Parent >= 0 && !attempts[next.Parent].Spoke {
		next.Parent--
	}
	if next.Parent < 0 {
		next.Kind = attempts[0].Kind
	} else if traits.Validated && attempts[next.Parent].Failed() {
		next.Kind = shard.KindDebug
	}
	return next
}

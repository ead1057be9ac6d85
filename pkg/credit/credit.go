// Package credit decides what of the scored traces of an iteration is learned
// from, and how much. Five axes act in turn, each a choice of its own:
//
//	segments   what gets one credit: runs of a trace's turns
//	reward     what a segment is worth
//	select     what is trained on
//	advantage  against what a segment is compared, and what that is multiplied by
//	weight     how much a token counts (see [Weights])
//
// Everything here is a pure function over groups of traces, in float64.
package credit

import (
	"fmt"
	"math"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// Trace is one sample of an instance with its score.
type Trace struct {
	Contexts []Context // in order
	Score    shard.Score
}

// Context is one context of a trace without its text and tokens, which nothing
// here reads: an iteration may have more of them than fit into memory.
type Context struct {
	Tokens       int    // all, the prompt's too
	TurnTokens   []int  // that the policy wrote in each of its messages
	FinishReason string // of the last of them
}

// Valid reports whether the trace's outcome is the policy's own: others enter
// no statistic.
func (t Trace) Valid() bool { return shard.Outcome(t.Score.Outcome).Policys() }

// Turns is the number of the policy's messages in the trace.
func (t Trace) Turns() int {
	n := 0
	for _, c := range t.Contexts {
		n += len(c.TurnTokens)
	}
	return n
}

// Turn is the score of a turn. A trace that was not scored turn by turn has
// the score of all of it.
func (t Trace) Turn(turn int) shard.TurnScore {
	if turn < len(t.Score.Turns) {
		return t.Score.Turns[turn]
	}
	s := t.Score
	return shard.TurnScore{
		Outcome: s.Outcome, RawScore: s.RawScore, NormalizedScore: s.NormalizedScore, Reward: s.Reward,
		RewardParts: s.RewardParts, Milestones: s.Milestones, ExecuteSeconds: s.ExecuteSeconds, Feedback: s.Feedback, Extracted: s.Extracted,
	}
}

// Tokens is the number of tokens of each turn that the policy wrote.
func (t Trace) Tokens() []int {
	var tokens []int
	for _, c := range t.Contexts {
		tokens = append(tokens, c.TurnTokens...)
	}
	return tokens
}

// TokenTurns says which of a context's messages of the policy, from 0, wrote
// each token of a loss mask; -1 for those that the policy only read. Between two
// messages of the policy there is always a token that it read.
func TokenTurns(mask []bool, messages int) []int {
	turns := make([]int, len(mask))
	turn := -1
	for i, own := range mask {
		if own && (i == 0 || !mask[i-1]) {
			turn++
		}
		turns[i] = -1
		if own {
			turns[i] = min(turn, max(0, messages-1))
		}
	}
	return turns
}

// Group is the traces of one instance, which are compared with each other.
type Group struct {
	Instance shard.Instance
	Traces   []Trace
	// From is the entry of the curriculum that the instance continues; zero for none, and
	// where the advantage does not ask for it.
	From shard.Entry
}

// counts reports whether a segment is compared with the others: its trace is valid, and
// nothing has dropped it.
func (g Group) counts(s Segment) bool { return g.Traces[s.Trace].Valid() && s.Dropped == "" }

// Segment is a run of a trace's turns that gets one credit.
type Segment struct {
	Trace       int // index into the group's
	First, Last int // turns of the trace, from 0, Last inclusive; Last < First where the policy has said nothing

	Raw       float64 // what the environment says of it
	Reward    float64 // what is learned from
	Earned    float64 // of it, without the punishment of reward.overlong
	Advantage float64 // before whitening; 0 where a critic makes it
	Factor    float64 // on the advantage after whitening; 1 for none
	Weight    float64 // on what the aggregation gives its turns; 1 for none
	// TurnFactors and TurnWeights multiply both for each of its turns; nil where
	// nothing tells these apart.
	TurnFactors, TurnWeights []float64
	// Dropped is the reason why the segment is left out of the batch; empty if it
	// is not.
	Dropped string
	// Masked is the reason why it has no gradient, although it counts in the
	// denominators of the loss; empty if it has one.
	Masked string
	// MaskedTurns says so of each of its turns; nil where none is.
	MaskedTurns []bool
}

// HasGradient reports whether a turn of the segment, by its number in the trace, is
// learned from.
func (s Segment) HasGradient(turn int) bool {
	return s.Dropped == "" && s.Masked == "" && (s.MaskedTurns == nil || !s.MaskedTurns[turn-s.First])
}

// FactorOf is the factor of a turn of the segment, by its number in the trace.
func (s Segment) FactorOf(turn int) float64 { return s.Factor * ofTurn(s.TurnFactors, turn-s.First) }

// WeightOf is the weight of a turn of the segment, by its number in the trace.
func (s Segment) WeightOf(turn int) float64 { return s.Weight * ofTurn(s.TurnWeights, turn-s.First) }

func ofTurn(factors []float64, turn int) float64 {
	if factors == nil {
		return 1
	}
	return factors[turn]
}

// Segments cuts a trace.
type Segments interface {
	// Cut lists the first and last turn of each segment, in order. A trace in
	// which the policy has said nothing is one segment without turns.
	Cut(t Trace) [][2]int
}

// Reward says what segments are worth.
type Reward interface {
	// Reward fills Raw and Reward of the segments of one iteration, those of
	// invalid traces too, and returns the statistics that the next iteration
	// starts from. segments[g] are those of groups[g], by trace and turn.
	Reward(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) ([]shard.Stat, error)
}

// When says at which point a choice of select acts.
type When int

const (
	// Before takes segments out before the statistics of their group: as if
	// they had not been sampled.
	Before When = iota
	// After takes them out once the advantages are known; they keep their part
	// in the group's statistics.
	After
	// Mask leaves them in without a gradient: they count in the denominators of
	// the loss.
	Mask
)

// Select decides what is trained on.
type Select interface {
	When() When
	// Drop gives the reason why a segment of a group is left out; empty keeps it.
	Drop(g Group, segments []Segment, at int) string
}

// TurnMask is a choice of select that leaves single turns without a gradient.
type TurnMask interface {
	Select
	MaskTurn(t Trace, turn int) bool
}

// RetainingReward is a reward whose statistics may depend on what is trained on.
type RetainingReward interface {
	// Retain is called once all is chosen, with the statistics so far.
	Retain(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) []shard.Stat
}

// StatefulSelect is a choice of select that looks at whole iterations.
type StatefulSelect interface {
	Select
	// Prepare returns what chooses in an iteration, once its rewards are known, and
	// the statistics that the next iteration starts from. Those of other scopes are
	// passed on as they are, which a reward does, too.
	Prepare(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) (Select, []shard.Stat, error)
}

// Advantage compares a segment with others.
type Advantage interface {
	// Advantage sets the advantages of a group's segments. Those that are
	// dropped already, or of invalid traces, take no part and get 0.
	Advantage(g Group, segments []Segment) error
	// Critic reports whether the learner makes the advantages, token by token,
	// from the rewards and the values of a critic.
	Critic() bool
}

// WholeAdvantage is an advantage that compares the segments of an iteration too, once those
// of each group are compared.
type WholeAdvantage interface {
	Advantage
	Whole(groups []Group, segments [][]Segment) error
}

// Hindsight is an advantage that gives turns of earlier iterations credit too, by what the
// groups of an iteration show.
type Hindsight interface {
	Advantage
	// Earlier returns it once the segments have their rewards, by trace and turn, and the
	// statistics that the next iteration starts from. Those of other scopes are passed on.
	Earlier(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) ([]Earlier, []shard.Stat)
}

// Earlier is the credit of turns of a trace that an entry of the curriculum continues:
// those after so many messages of its conversation, 0 for all, and within the entry's.
type Earlier struct {
	Entry            shard.Entry
	After            int32
	Value, Advantage float64
}

// Factor is what advantages are multiplied by.
type Factor interface {
	// Factor returns a factor for each segment: by group, and by segment of the
	// group.
	Factor(groups []Group, segments [][]Segment) ([][]float64, error)
	// AfterWhitening reports whether it acts after advantages are whitened.
	AfterWhitening() bool
}

// TurnFactor is a factor that tells the turns of a segment apart. Where it acts
// before whitening, on the one advantage of a segment, Factor is asked all the same.
type TurnFactor interface {
	Factor
	// OfTurns returns a factor for each turn of each segment: by group, by segment
	// of the group, and by turn of the segment.
	OfTurns(groups []Group, segments [][]Segment) ([][][]float64, error)
}

// Composition is a choice on each axis but the weight's.
type Composition struct {
	Segments  Segments
	Reward    Reward
	Overlong  *Overlong           // added to rewards; nil for nothing
	Select    []Select            // in order: of several reasons the first counts
	SelectOf  map[string][]Select // by environment, in the place of Select
	Advantage Advantage
	Factors   []Factor
	Weights   []Factor // on the weights, by segment
	Clip      float64  // bound on |advantage| after the factors; 0 for none
}

// The reasons of every composition, as they stand in the ledger.
const (
	ReasonInfra     = "infra"     // we failed
	ReasonPreempted = "preempted" // the scheduler stopped it
)

// Assign gives every segment of an iteration its credit. The result is by group
// and then by trace and turn. The statistics are those that the reward keeps.
func (c Composition) Assign(iteration int, stats []shard.Stat, groups []Group) ([][]Segment, []shard.Stat, error) {
	segments := make([][]Segment, len(groups))
	for g, group := range groups {
		for i, trace := range group.Traces {
			for _, turns := range c.Segments.Cut(trace) {
				segments[g] = append(segments[g], Segment{Trace: i, First: turns[0], Last: turns[1], Factor: 1, Weight: 1})
			}
		}
	}
	stats, err := c.Reward.Reward(iteration, stats, groups, segments)
	if err != nil {
		return nil, nil, fmt.Errorf("rewards: %w", err)
	}
	c.Overlong.punish(groups, segments)
	for g := range segments {
		dropUnlearnable(segments[g], learnedReward)
	}
	if stats, err = c.prepare(iteration, stats, groups, segments); err != nil {
		return nil, nil, err
	}
	for g, group := range groups {
		c.choose(group, segments[g], Before)
		if err := c.Advantage.Advantage(group, segments[g]); err != nil {
			return nil, nil, fmt.Errorf("advantages of group %q: %w", group.Instance.GroupID, err)
		}
	}
	if whole, ok := c.Advantage.(WholeAdvantage); ok {
		if err := whole.Whole(groups, segments); err != nil {
			return nil, nil, fmt.Errorf("advantages: %w", err)
		}
	}
	if err := c.multiply(groups, segments); err != nil {
		return nil, nil, err
	}
	for g, group := range groups {
		dropUnlearnable(segments[g], learnedCredit)
		c.choose(group, segments[g], After, Mask)
		c.maskTurns(group, segments[g])
	}
	if retaining, ok := c.Reward.(RetainingReward); ok {
		stats = retaining.Retain(iteration, stats, groups, segments)
	}
	return segments, stats, nil
}

// MasksTurn reports whether a turn of a trace has no gradient, whatever becomes of
// its segment. environment is that of the trace.
func (c Composition) MasksTurn(environment string, t Trace, turn int) bool {
	for _, choice := range c.selectOf(environment) {
		if mask, ok := unmasked(choice).(TurnMask); ok && mask.MaskTurn(t, turn) {
			return true
		}
	}
	return false
}

// maskTurns takes the gradient of single turns.
func (c Composition) maskTurns(group Group, segments []Segment) {
	for i := range segments {
		s := &segments[i]
		for turn := s.First; turn <= s.Last; turn++ {
			if !c.MasksTurn(group.Instance.Env, group.Traces[s.Trace], turn) {
				continue
			}
			if s.MaskedTurns == nil {
				s.MaskedTurns = make([]bool, s.Last-s.First+1)
			}
			s.MaskedTurns[turn-s.First] = true
		}
	}
}

// multiply applies the factors on advantages and weights, and then the bound.
func (c Composition) multiply(groups []Group, segments [][]Segment) error {
	for _, factor := range c.Factors {
		on := onAdvantage
		if factor.AfterWhitening() {
			on = onFactor
		}
		if err := on.multiply(factor, groups, segments); err != nil {
			return fmt.Errorf("factors: %w", err)
		}
	}
	for _, weight := range c.Weights {
		if err := onWeight.multiply(weight, groups, segments); err != nil {
			return fmt.Errorf("factors on weights: %w", err)
		}
	}
	if c.Clip <= 0 {
		return nil
	}
	for g := range segments {
		for i := range segments[g] {
			s := &segments[g][i]
			s.Advantage = math.Max(-c.Clip, math.Min(c.Clip, s.Advantage))
		}
	}
	return nil
}

// multiplied is what of a segment a factor multiplies: of all of it, and of each of
// its turns; nil where it has one number for all of them.
type multiplied struct {
	whole func(*Segment) *float64
	turns func(*Segment) *[]float64
}

var (
	onAdvantage = multiplied{whole: func(s *Segment) *float64 { return &s.Advantage }}
	onFactor    = multiplied{func(s *Segment) *float64 { return &s.Factor }, func(s *Segment) *[]float64 { return &s.TurnFactors }}
	onWeight    = multiplied{func(s *Segment) *float64 { return &s.Weight }, func(s *Segment) *[]float64 { return &s.TurnWeights }}
)

func (m multiplied) multiply(factor Factor, groups []Group, segments [][]Segment) error {
	if byTurn, ok := factor.(TurnFactor); ok && m.turns != nil {
		factors, err := byTurn.OfTurns(groups, segments)
		if err != nil {
			return err
		}
		for g := range segments {
			for i := range segments[g] {
				s := &segments[g][i]
				own := make([]float64, len(factors[g][i]))
				for turn, x := range factors[g][i] {
					own[turn] = x * ofTurn(*m.turns(s), turn)
				}
				*m.turns(s) = own
			}
		}
		return nil
	}
	factors, err := factor.Factor(groups, segments)
	if err != nil {
		return err
	}
	for g := range segments {
		for i := range segments[g] {
			*m.whole(&segments[g][i]) *= factors[g][i]
		}
	}
	return nil
}

// choose lets the choices of select that act at these points leave segments out.
func (c Composition) choose(group Group, segments []Segment, points ...When) {
	reasons := make([][]string, len(points)) // none sees what another drops here
	for p, when := range points {
		for i := range segments {
			reasons[p] = append(reasons[p], c.reason(group, segments, i, when))
		}
	}
	for p, when := range points {
		for i, reason := range reasons[p] {
			switch {
			case reason == "" || segments[i].Dropped != "":
			case when == Mask:
				segments[i].Masked = reason
			default:
				segments[i].Dropped = reason
			}
		}
	}
}

func (c Composition) reason(group Group, segments []Segment, at int, when When) string {
	trace := group.Traces[segments[at].Trace]
	switch outcome := shard.Outcome(trace.Score.Outcome); {
	case outcome == shard.OutcomePreempted:
		return ReasonPreempted
	case !outcome.Policys():
		return ReasonInfra
	}
	for _, choice := range c.selectOf(group.Instance.Env) {
		if choice.When() != when {
			continue
		}
		if reason := choice.Drop(group, segments, at); reason != "" {
			return reason
		}
	}
	return ""
}

// Tokens is the number of tokens of a segment that the policy wrote.
func Tokens(t Trace, s Segment) int {
	n := 0
	for turn, tokens := range t.Tokens() {
		if turn >= s.First && turn <= s.Last {
			n += tokens
		}
	}
	return n
}

// Package memory holds the best solutions of one competition, so that a trace may
// start from one of them (MLE-RL §4.2).
//
// A pool is a value: what pushes make of it depends on the pool, the settings and
// the solutions alone, in an order that is the plan's and not that in which they
// were done; what is got from it, on the pool and a counter-based stream.
package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/pysource"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Settings of a pool.
type Settings struct {
	Capacity  int     `yaml:"capacity" json:"capacity"`   // solutions that are held at most; 1 or more
	Threshold float64 `yaml:"threshold" json:"threshold"` // T_ast: of solutions more similar than this one is held; in [0, 1]
	// ResetRatio is p, the probability that a trace starts from scratch; in [0, 1].
	ResetRatio float64 `yaml:"reset_ratio" json:"reset_ratio"`
	// AboveMinimum refuses what does not exceed the lowest score while there is room
	// too. The paper's sentence can be read so (readings mlerl-push and mlerl-reset); then the
	// first solution is a bound on all that follow.
	AboveMinimum bool `yaml:"above_minimum" json:"above_minimum"`
}

// Training are the paper's settings of training (MLE-RL §5.1).
func Training() Settings { return Settings{Capacity: 5, Threshold: 0.9, ResetRatio: 0.7} }

// Evaluation are the paper's settings of evaluation (MLE-RL §5.1).
func Evaluation() Settings { return Settings{Capacity: 3, Threshold: 0.9, ResetRatio: 0.5} }

// Check says which setting is out of its range, or nil.
func (s Settings) Check() error {
	switch {
	case s.Capacity < 1:
		return exitcode.Usagef("memory capacity: got %d solutions, want 1 or more", s.Capacity)
	case !(s.Threshold >= 0 && s.Threshold <= 1):
		return exitcode.Usagef("memory similarity threshold: got %v, want 0 to 1", s.Threshold)
	case !(s.ResetRatio >= 0 && s.ResetRatio <= 1):
		return exitcode.Usagef("memory reset ratio: got %v, want 0 to 1", s.ResetRatio)
	}
	return nil
}

// Solution is a valid submission.
type Solution struct {
	// Ref is the conversation up to the message that holds the program, that message
	// included; with Turn it names the solution and its trace.
	Ref   shard.Ref `json:"ref"`
	Turn  int32     `json:"turn"`  // message of the policy in the trace, from 0
	Score float64   `json:"score"` // higher is better; by the test set in training, by a validation set in evaluation
	// Fingerprint is the program's. One that does not parse is never held.
	Fingerprint pysource.Fingerprint `json:"fingerprint"`
}

// order is that of pushes: by iteration, instance, sample and turn.
func order(a, b Solution) int {
	return cmp.Or(
		cmp.Compare(a.Ref.Iteration, b.Ref.Iteration), cmp.Compare(a.Ref.Row, b.Ref.Row), cmp.Compare(a.Ref.Sample, b.Ref.Sample),
		cmp.Compare(a.Ref.Step, b.Ref.Step), cmp.Compare(a.Turn, b.Turn),
	)
}

// Pool is the solutions that are held, those that were pushed first before others.
type Pool struct {
	Solutions []Solution `json:"solutions"`
}

// Outcome says what became of a solution that was pushed.
type Outcome string

// The outcomes of a push.
const (
	Inserted   Outcome = "inserted"   // there was room
	Replaced   Outcome = "replaced"   // the lowest left for it
	Improved   Outcome = "improved"   // all that were like it left for it
	Similar    Outcome = "similar"    // refused: one like it has its score or more
	TooLow     Outcome = "too_low"    // refused: the lowest has its score or more
	Unreadable Outcome = "unreadable" // refused: the program does not parse
)

// Pushed is a solution with what became of it when it was pushed; what is pushed
// later may still take its place.
type Pushed struct {
	Solution
	Outcome Outcome
}

// Push returns the pool after the solutions of an iteration have been pushed one
// by one, and what became of each. They are pushed in the order of their instance
// in the plan, sample, attempt and turn, in whatever order they are given; two of
// one place are an error, and so is a score that is no number. The pool itself is
// not changed.
//
// Similarity counts first: of a solution and the members that are more similar to
// it than the threshold, the one with the highest score stays and the others leave;
// a tie keeps the member, the oldest of several. A solution that is like no member
// is inserted while there is room. In a full pool it replaces the lowest, the oldest
// of several, if it exceeds it.
func (p Pool) Push(s Settings, solutions []Solution) (Pool, []Pushed, error) {
	sorted := slices.SortedStableFunc(slices.Values(solutions), order)
	next := Pool{Solutions: slices.Clone(p.Solutions)}
	pushed := make([]Pushed, len(sorted))
	for i, c := range sorted {
		if i > 0 && order(sorted[i-1], c) == 0 {
			return p, nil, exitcode.Dataf("two solutions of one turn: iteration %d, row %d, sample %d, turn %d", c.Ref.Iteration, c.Ref.Row, c.Ref.Sample, c.Turn)
		}
		if math.IsNaN(c.Score) || math.IsInf(c.Score, 0) {
			return p, nil, exitcode.Dataf("a solution with the score %v: row %d, sample %d, turn %d", c.Score, c.Ref.Row, c.Ref.Sample, c.Turn)
		}
		pushed[i] = Pushed{c, next.push(s, c)}
	}
	return next, pushed, nil
}

func (p *Pool) push(s Settings, c Solution) Outcome {
	if len(c.Fingerprint) == 0 {
		return Unreadable
	}
	var like []int // places of the members like it
	lowest := -1   // place of the oldest member with the lowest score
	for i, m := range p.Solutions {
		if pysource.Similarity(c.Fingerprint, m.Fingerprint) > s.Threshold {
			like = append(like, i)
		}
		if lowest < 0 || m.Score < p.Solutions[lowest].Score {
			lowest = i
		}
	}
	if len(like) > 0 {
		best := slices.MaxFunc(like, func(a, b int) int { return cmp.Compare(p.Solutions[a].Score, p.Solutions[b].Score) })
		improves := c.Score > p.Solutions[best].Score
		if !improves {
			like = slices.DeleteFunc(like, func(i int) bool { return i == best })
		}
		p.remove(like)
		if !improves {
			return Similar
		}
		p.Solutions = append(p.Solutions, c)
		return Improved
	}
	full := len(p.Solutions) >= s.Capacity
	if lowest >= 0 && (full || s.AboveMinimum) && c.Score <= p.Solutions[lowest].Score {
		return TooLow
	}
	if full {
		p.remove([]int{lowest})
	}
	p.Solutions = append(p.Solutions, c)
	if full {
		return Replaced
	}
	return Inserted
}

// remove takes members out by their places, which ascend.
func (p *Pool) remove(places []int) {
	for _, i := range slices.Backward(places) {
		p.Solutions = slices.Delete(p.Solutions, i, i+1)
	}
}

// Get returns the solution that a trace starts from, uniformly of those that are
// held; false is a trace that starts from scratch, as it does with the probability
// of the reset ratio, and always while nothing is held. The draws are those at a
// position of the stream and the next.
func (p Pool) Get(s Settings, stream rng.Stream, position uint64) (Solution, bool) {
	if len(p.Solutions) == 0 || stream.Bool(position, s.ResetRatio) {
		return Solution{}, false
	}
	return p.Solutions[stream.IntN(position+1, len(p.Solutions))], true
}

// Marshal writes a pool as JSON, the same bytes for the same pool.
func (p Pool) Marshal() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, exitcode.Bugf("writing a memory: %w", err)
	}
	return text, nil
}

// Unmarshal reads what Marshal has written. What cannot have come of pushes with
// the settings is a data error.
func Unmarshal(text []byte, s Settings) (Pool, error) {
	var p Pool
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return Pool{}, exitcode.Dataf("reading a memory: %w", err)
	}
	if decoder.More() {
		return Pool{}, exitcode.Dataf("reading a memory: unexpected bytes after its end")
	}
	if err := p.check(s); err != nil {
		return Pool{}, exitcode.Dataf("reading a memory: %w", err)
	}
	return p, nil
}

// check refuses a pool that pushes never make.
func (p Pool) check(s Settings) error {
	if len(p.Solutions) > s.Capacity {
		return fmt.Errorf("%d solutions in a memory of %d", len(p.Solutions), s.Capacity)
	}
	for i, m := range p.Solutions {
		if len(m.Fingerprint) == 0 {
			return fmt.Errorf("solution %d has no fingerprint", i)
		}
		for j, other := range p.Solutions[:i] {
			if similarity := pysource.Similarity(m.Fingerprint, other.Fingerprint); similarity > s.Threshold {
				return fmt.Errorf("solutions %d and %d are similar: %v", j, i, similarity)
			}
		}
	}
	return nil
}

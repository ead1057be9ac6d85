package scaffold

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/pysource"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/scaffold/memory"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed memory.go
var memorySource string

var _ = config.Docs[MemorySettings](memorySource)

// MemorySettings are what a recipe says of the memory.
type MemorySettings struct {
	Capacity     int     `yaml:"capacity"`      // solutions that are held
	Threshold    float64 `yaml:"threshold"`     // T_ast: of programs whose syntax trees are more alike than this the best one is held
	ResetRatio   float64 `yaml:"reset_ratio"`   // probability that an attempt starts from scratch
	AboveMinimum bool    `yaml:"above_minimum"` // refuse what does not exceed the lowest held while there is room too
}

func init() {
	paper := memory.Evaluation()
	Axis.Register(registry.Choice[Maker]{
		Name: "memory_pool", Summary: "each attempt starts from one of the best programs so far, or from scratch (MLE-RL §4.2)",
		Settings: func() any {
			return &MemorySettings{Capacity: paper.Capacity, Threshold: paper.Threshold, ResetRatio: paper.ResetRatio}
		},
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*MemorySettings)
			c.AtLeast("scaffold.memory_pool.capacity", s.Capacity, 1)
			c.Share("scaffold.memory_pool.threshold", s.Threshold)
			c.Share("scaffold.memory_pool.reset_ratio", s.ResetRatio)
			if on, _ := config.Find[bool](c.Settings(), "env.fingerprint"); !on {
				c.Add("scaffold.memory_pool", nil, "compares programs: set env.fingerprint, in an environment that has it")
			}
		},
		Make: func(settings any) (Maker, error) {
			s := memory.Settings(*settings.(*MemorySettings))
			return func(steps int) Scaffold { return Memory{Steps: steps, Settings: s} }, s.Check()
		},
	})
}

// Memory starts each attempt from a solution of a pool, or from scratch. The pool
// holds the valid submissions of all samples of the instance, and in an evaluation those
// of the one sample; those of attempt 0 are pushed first, sample by sample, then those of
// attempt 1, and so on.
//
// A solution counts by its test score while a policy is trained and by its
// validation score in an evaluation, whose scores show no other
// (MLE-RL §5.1). One that says no validation score is not held then.
type Memory struct {
	Steps int // attempts after the first
	memory.Settings
}

// Next needs the scores of the last attempt.
func (m Memory) Next(t Trace, _ env.Traits) Next {
	switch {
	case len(t.Attempts) > m.Steps:
		return Next{Done: true}
	case !t.known():
		return Next{Wait: true}
	}
	from, ok := m.pool(t.Known).Get(m.Settings, t.Stream, uint64(16*len(t.Attempts)))
	if !ok {
		return t.newDraft()
	}
	for i, k := range t.Known {
		if k.place() == from.Ref && int32(k.Turn) == from.Turn {
			return Next{Kind: shard.KindImprove, Parent: -1, From: &t.Known[i]}
		}
	}
	return t.newDraft()
}

// place names a message as the pool does.
func (k Known) place() shard.Ref {
	return shard.Ref{Iteration: 1, Sample: int32(k.Sample), Step: int32(k.Attempt)}
}

// pool is what the pushes of all attempts so far have made.
func (m Memory) pool(known []Known) memory.Pool {
	var pool memory.Pool
	for attempt := 0; len(known) > 0; attempt++ {
		var round []memory.Solution
		for ; len(known) > 0 && known[0].Attempt == attempt; known = known[1:] {
			if s, ok := solutionOf(known[0]); ok {
				round = append(round, s)
			}
		}
		if next, _, err := pool.Push(m.Settings, round); err == nil {
			pool = next
		}
	}
	return pool
}

// solutionOf is what a scored message is to the pool.
func solutionOf(k Known) (memory.Solution, bool) {
	s := memory.Solution{Ref: k.place(), Turn: int32(k.Turn)}
	var scored bool
	if s.Score, scored = k.Verdict.Part("score"); !scored {
		s.Score, scored = k.Verdict.Validation()
	}
	var print pysource.Fingerprint
	if k.Verdict.Outcome != shard.OutcomeOK || !scored || print.UnmarshalText([]byte(k.Verdict.Fingerprint)) != nil {
		return s, false
	}
	s.Fingerprint = print
	return s, true
}

package shard

import "github.com/lathe-rl/lathe/pkg/seal"

// Ref names a sealed response, or its first messages: which conversation is
// meant, wherever its iteration was cut into shards. The zero value names none.
//
// The conversation is that of one attempt (step) of a trace, its contexts one
// after the other, as the rows of the wave have it.
type Ref struct {
	Iteration int32 `parquet:"iteration,delta"` // in whose plan the instance is, from 1; 0 for no response
	Row       int32 `parquet:"row,delta"`       // of that plan, from 0
	Sample    int32 `parquet:"sample,delta"`    // of that row, from 0
	Step      int32 `parquet:"step,delta"`      // attempt of the trace, from 0
	Wave      int32 `parquet:"wave,delta"`      // whose rows are whole
	Messages  int32 `parquet:"messages,delta"`  // of the conversation, from its start
}

// IsZero reports whether the reference names no response.
func (r Ref) IsZero() bool { return r.Iteration == 0 }

// Entry is a row of state.parquet: something that a curriculum may select, with
// what it knows of it. The conversation that it goes on from is in the rollout
// that Ref names, and nowhere else.
type Entry struct {
	EntryID     string  `parquet:"entry_id,delta"`
	TaskID      string  `parquet:"task_id,dict"`
	Kind        string  `parquet:"kind,dict"`
	ParentID    string  `parquet:"parent_id,delta"`    // instance of a plan that the entry is from
	Depth       int32   `parquet:"depth,delta"`        // self-iterations, the one that the entry asks for included
	Turn        int32   `parquet:"turn,delta"`         // messages of the policy in the conversation
	Ref         Ref     `parquet:"ref"`                // the conversation; of a task without one, zero
	BaseScore   float64 `parquet:"base_score,dict"`    // quality in [0, 1] of the response that is iterated on
	Potential   float64 `parquet:"potential,dict"`     // the curriculum's score; for ExIt the learnability var(r)
	LastSampled int32   `parquet:"last_sampled,delta"` // iteration; 0 when never
	Visits      int32   `parquet:"visits,delta"`
}

// Schema names the table of a curriculum's entries.
func (Entry) Schema() seal.Schema { return seal.Schema{Name: "entry", Major: 1} }

// Stat is a row of stats.parquet: one number that goes from one iteration to the
// next beside a curriculum's entries, such as a posterior, a window or a
// history, in long format.
type Stat struct {
	Axis      string  `parquet:"axis,dict"`  // whose it is: StatCurriculum or StatReward
	Scope     string  `parquet:"scope,dict"` // what it is a number of: task, window …
	Key       string  `parquet:"key,delta"`  // which of these
	Name      string  `parquet:"name,dict"`  // of the number
	Iteration int32   `parquet:"iteration,delta"`
	Value     float64 `parquet:"value"`
}

// The axes of a recipe that keep statistics.
const (
	StatCurriculum = "curriculum"
	StatReward     = "reward"
)

// Schema names the table of statistics.
func (Stat) Schema() seal.Schema { return seal.Schema{Name: "stat", Major: 1} }

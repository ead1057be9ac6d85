package shard

import "github.com/lathe-rl/lathe/pkg/seal"

// Waiting is a row of waiting.parquet: a segment that has its credit and waits
// for the batch that it is learned from (schedule.batch_segments). Rows are in
// the order in which they were sampled, those of a trace one after the other.
//
// The trace itself is in the rollout that IterationSampled, Row, Sample and Wave
// name, and nowhere else.
type Waiting struct {
	IterationSampled int32     `parquet:"iteration_sampled"` // in whose plan the instance is
	Row              int32     `parquet:"row"`               // of that plan, from 0
	InstanceID       string    `parquet:"instance_id"`
	GroupID          string    `parquet:"group_id"`
	Sample           int32     `parquet:"sample"`
	Wave             int32     `parquet:"wave"`                // in whose rows the trace is whole
	RolloutSHA256    string    `parquet:"rollout_sha256,dict"` // content of the file that holds these
	Segment          int32     `parquet:"segment"`             // of the trace, from 0
	FirstTurn        int32     `parquet:"first_turn"`          // of the trace, from 0
	LastTurn         int32     `parquet:"last_turn"`           // inclusive; below first_turn where the policy has said nothing
	Reward           float64   `parquet:"reward"`
	Advantage        float64   `parquet:"advantage"`         // before whitening
	Factor           float64   `parquet:"factor"`            // on the advantage after whitening
	Weight           float64   `parquet:"weight"`            // on what the aggregation gives its turns
	TurnFactors      []float64 `parquet:"turn_factors,list"` // by turn of the segment; empty where all are 1
	TurnWeights      []float64 `parquet:"turn_weights,list"` // likewise
	Masked           string    `parquet:"masked,dict"`       // why it has no gradient; empty if it has one
	MaskedTurns      []bool    `parquet:"masked_turns,list"` // by turn of the segment; empty where none is
}

// Schema names the table of segments that wait.
func (Waiting) Schema() seal.Schema { return seal.Schema{Name: "waiting", Major: 1} }

// LedgerRow is what the ledger will say of the segment, but for its disposition.
func (w Waiting) LedgerRow() LedgerRow {
	return LedgerRow{
		InstanceID: w.InstanceID, GroupID: w.GroupID, Sample: w.Sample, Segment: w.Segment, IterationSampled: w.IterationSampled,
		Reward: w.Reward,
	}
}

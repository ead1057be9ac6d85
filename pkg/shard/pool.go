package shard

import "github.com/lathe-rl/lathe/pkg/seal"

// PoolRow is a row of a pool: what the policy of a run said in one context of a
// segment, to be learned from by supervision (MLE-RL §5.4:
// self-distillation). Rows are in the order in which the runs were named, and of one run
// in the order of the next seven columns.
//
// TokenIDs and LossMask have one length: the context up to the last token that
// is learned from, and which tokens these are.
type PoolRow struct {
	RunID            string    `parquet:"run_id,dict"`
	Iteration        int32     `parquet:"iteration"`         // that decided the segment's disposition
	IterationSampled int32     `parquet:"iteration_sampled"` // whose plan has the instance
	InstanceID       string    `parquet:"instance_id"`
	Sample           int32     `parquet:"sample"`
	Segment          int32     `parquet:"segment"` // of the trace, from 0
	Step             int32     `parquet:"step"`    // attempt of the trace, from 0
	Part             int32     `parquet:"part"`    // context of the trace, from 0
	TaskID           string    `parquet:"task_id,dict"`
	Kind             string    `parquet:"kind,dict"` // what the attempt was asked to do
	PolicyVersion    int32     `parquet:"policy_version"`
	Fate             string    `parquet:"fate,dict"`
	Reason           string    `parquet:"reason,dict"`      // why it has no gradient in its run; empty where it has
	Outcome          string    `parquet:"outcome,dict"`     // of the segment's last turn
	RawScore         float64   `parquet:"raw_score"`        // of that turn, in the task's own unit
	NormalizedScore  float64   `parquet:"normalized_score"` // of that turn, in [0, 1]
	Messages         []Message `parquet:"messages,list"`    // of the context, up to the last that is learned from
	TokenIDs         []int32   `parquet:"token_ids,list" parquet-element:",delta"`
	LossMask         []bool    `parquet:"loss_mask,list"`
}

// Schema names the table of pools.
func (PoolRow) Schema() seal.Schema { return seal.Schema{Name: PoolSchema, Major: 1} }

// PoolSchema is the name of the schema of pools.
const PoolSchema = "pool"

// The keys of a pool's metadata.
const (
	PoolTokenizer = "tokenizer_sha256" // of the tokenizer.json whose tokens TokenIDs are
	PoolSelect    = "select"           // which segments were gathered
)

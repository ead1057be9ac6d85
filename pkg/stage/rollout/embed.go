package rollout

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// embedTokens bounds the tokens of one pass.
const embedTokens = 16 << 10

// embed gives the last row of each trace that has ended the policy's embedding of
// the last attempt: the mean of its last states over all that it wrote there, in
// whatever contexts. rows are whole traces.
func (s *Sampler) embed(ctx context.Context, rows []shard.Rollout) error {
	if s.engine == nil || s.engine.Embedder == nil {
		return exitcode.WithHint(exitcode.Usagef("score.embedding is policy, and what samples does not show the policy's states"),
			"a policy on CPUs does (policy.backend cpu); else use score.embedding ngrams or endpoint")
	}
	means := make([][]float32, len(rows))
	for from := 0; from < len(rows); {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch, own := policy.Batch{Offsets: []int32{0}}, []bool(nil)
		to := from
		for ; to < len(rows) && (to == from || len(own)+len(rows[to].TokenIDs) <= embedTokens); to++ {
			batch.TokenIDs, own = append(batch.TokenIDs, rows[to].TokenIDs...), append(own, rows[to].LossMask...)
			batch.Offsets = append(batch.Offsets, int32(len(own)))
		}
		embeddings, err := s.engine.Embedder.Embed(batch, own)
		if err != nil {
			return err
		}
		copy(means[from:to], embeddings)
		from = to
	}
	at := 0
	for _, trace := range shard.Traces(rows) {
		last := at + len(trace) - 1
		if end := rows[last]; end.Waits == "" && shard.Outcome(end.Outcome).Policys() {
			rows[last].Embedding = meanOf(trace, means[at:last+1])
		}
		at = last + 1
	}
	return nil
}

// meanOf is the mean over the tokens of the last attempt, given that over each
// context's.
func meanOf(trace []shard.Rollout, means [][]float32) []float32 {
	sum := make([]float64, len(means[0]))
	count := 0
	for i, row := range trace {
		if row.Step != trace[len(trace)-1].Step {
			continue
		}
		own := 0
		for _, wrote := range row.LossMask {
			if wrote {
				own++
			}
		}
		for k, x := range means[i] {
			sum[k] += float64(x) * float64(own)
		}
		count += own
	}
	mean := make([]float32, len(sum))
	for k := range sum {
		mean[k] = float32(sum[k] / float64(max(1, count)))
	}
	return mean
}

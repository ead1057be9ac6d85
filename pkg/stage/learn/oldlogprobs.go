package learn

import (
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// recompute gives the sequences that are wanted the learner's own
// log-probabilities under the policy version that sampled them, unless our
// engine sampled them: then they are what the batch holds, to the last bit.
// It must come before the first optimizer step.
func (l *learner) recompute(ctx context.Context, wanted func(shard.Sequence) bool) error {
	byVersion := map[int][]int{} // indices into the batch
	for i := range l.batch {
		s := &l.batch[i]
		switch s.LogProbSource {
		case shard.LogProbsEngine:
			continue
		case shard.LogProbsServer, shard.LogProbsNone:
		default:
			return exitcode.Dataf("batch %q row %d: logprob_source is %q; engine, server and none are known", l.in.Batch, i, s.LogProbSource)
		}
		if wanted(s.Sequence) {
			byVersion[int(s.PolicyVersion)] = append(byVersion[int(s.PolicyVersion)], i)
		}
	}
	versions := make([]int, 0, len(byVersion))
	for version := range byVersion {
		versions = append(versions, version)
	}
	slices.Sort(versions)
	for _, version := range versions {
		if err := l.recomputeUnder(ctx, version, byVersion[version]); err != nil {
			return fmt.Errorf("log-probabilities under policy version %d: %w", version, err)
		}
	}
	return nil
}

// recomputeUnder does so for the sequences of one policy version.
func (l *learner) recomputeUnder(ctx context.Context, version int, indices []int) (err error) {
	folder := l.in.Policy
	if l.in.PolicyOf != nil {
		folder = l.in.PolicyOf(version)
	}
	engine := l.engine
	if folder != l.in.Policy {
		if engine, err = l.openPolicy(ctx, folder); err != nil {
			return err
		}
		defer engine.Close()
	}
	chosen := make([]trainer.Sequence, len(indices))
	for i, at := range indices {
		chosen[i] = l.batch[at]
	}
	at := 0
	for _, micro := range l.microBatches(engine, chosen) {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := trainer.Pack(micro)
		logProbs, entropy := make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
		if err := engine.Forward(batch.Batch, l.sampling(), logProbs, entropy); err != nil {
			return err
		}
		for i := range batch.Sequences {
			l.batch[indices[at]].ReplaceOld(batch.Of(i, logProbs))
			at++
		}
	}
	return nil
}

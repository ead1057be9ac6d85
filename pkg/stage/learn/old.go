package learn

import (
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// sequence is a record of the batch as it is learned from.
type sequence struct {
	shard.Sequence
	// sampler is what a server said of its own log-probabilities, once
	// OldLogProbs are the learner's; nil where the two are one.
	sampler []float32
	// values are the critic's before the first optimizer step, and returns what
	// it should have foretold, where the mask is true; nil without a critic.
	values, returns []float64
	// advantages are those of each token, whitened and with their factors; 0
	// where the mask is false.
	advantages []float32
}

// spread gives each token the advantage of its turn.
func (s *sequence) spread() {
	s.advantages = make([]float32, len(s.TokenIDs))
	for t, learned := range s.LossMask {
		if learned {
			s.advantages[t] = s.TurnAdvantages[s.Turns[t]]
		}
	}
}

// multiply applies the factors that come after whitening.
func (s *sequence) multiply() {
	for t, learned := range s.LossMask {
		if learned {
			s.advantages[t] = float32(float64(s.advantages[t]) * s.TurnFactors[s.Turns[t]])
		}
	}
}

// weights are those of each token; 0 where the mask is false.
func (s *sequence) weights() []float64 {
	weights := make([]float64, len(s.TokenIDs))
	for t, learned := range s.LossMask {
		if learned {
			weights[t] = s.TurnWeights[s.Turns[t]]
		}
	}
	return weights
}

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
	chosen := make([]sequence, len(indices))
	for i, at := range indices {
		chosen[i] = l.batch[at]
	}
	at := 0
	for _, micro := range l.microBatches(engine, chosen) {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := pack(micro)
		logProbs, entropy := make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
		if err := engine.Forward(batch.Batch, l.sampling(), logProbs, entropy); err != nil {
			return err
		}
		for i := range batch.sequences {
			l.batch[indices[at]].takeOld(batch.of(i, logProbs))
			at++
		}
	}
	return nil
}

// takeOld puts the learner's log-probabilities in the place of the sampler's,
// which are kept where they are known.
func (s *sequence) takeOld(logProbs []float32) {
	if s.LogProbSource == shard.LogProbsServer {
		s.sampler = s.OldLogProbs
	}
	s.OldLogProbs = logProbs
}

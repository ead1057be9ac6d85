package learn

import (
	"context"
	"math"
	"os"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// A server in bfloat16, or with other kernels, says log-probabilities that are some 0.02
// nats from ours; one of a quantized policy, some tenths. So where they are further from
// ours than suspectNats, over servedTokens tokens or more, other versions are asked
// whether they explain them better.
const (
	suspectNats  = 0.05
	servedTokens = 32
)

// checkServed refuses what a server has sampled with the weights of another version than
// the one whose name it gave: the version before it, which a server that missed an update
// still holds, or the first, which one that was started anew does. own are our
// log-probabilities of the sequences under the version that was asked for.
func (l *learner) checkServed(ctx context.Context, version int, sequences []trainer.Sequence, own map[int32][]float32) error {
	asked, tokens := gap(sequences, own)
	if l.Pinned || l.in.PolicyOf == nil || tokens < servedTokens || asked <= suspectNats {
		return nil
	}
	for _, other := range []int{version - 1, 0} {
		if other < 0 || other == version {
			continue
		}
		folder := l.in.PolicyOf(other)
		if _, err := os.Stat(folder); err != nil {
			continue // it has been pruned
		}
		engine, err := backend.Open(folder, trainer.EngineOptions(l.Policy, l.process, l.Optimizer, false, l.Workload(l.batch.Longest())))
		if err != nil {
			return err
		}
		theirs, err := l.logProbs(ctx, engine, sequences)
		engine.Close()
		if err != nil {
			return err
		}
		if nats, _ := gap(sequences, theirs); nats < asked/2 {
			return exitcode.WithHint(exitcode.Unavailablef("the server was asked for version %d of the policy and sampled with version %d: its log-probabilities of %d tokens are %.3f nats from ours under %d, and %.3f under %d",
				version, other, tokens, asked, version, nats, other),
				"restart the server, remove iter/%06d/rollout and what depends on it, and run again; rollout.remote.model accepts stale responses", l.in.Iteration)
		}
	}
	return nil
}

// gap is the mean distance in nats of the log-probabilities that a server gave from ours,
// and of how many tokens.
func gap(sequences []trainer.Sequence, ours map[int32][]float32) (nats float64, tokens int) {
	for _, s := range sequences {
		if s.LogProbSource != shard.LogProbsServer {
			continue
		}
		for t, sampled := range s.LossMask {
			if sampled {
				nats += math.Abs(float64(s.OldLogProbs[t] - ours[s.Place][t]))
				tokens++
			}
		}
	}
	return nats / float64(max(tokens, 1)), tokens
}

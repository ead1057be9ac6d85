package learn

import (
	"context"
	"errors"
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
// still holds, or the first, which one that was started anew does. The sequences are those
// of units that are chosen, whose log-probabilities under the version that was asked for
// have been computed.
func (l *learner) checkServed(ctx context.Context, version int, units []unit, choose func(shard.Sequence) (bool, error)) error {
	if l.Pinned || l.in.PolicyOf == nil {
		return nil
	}
	asked, tokens, err := l.gap(units, choose, func(s *trainer.Sequence) []float32 { return s.OldLogProbs })
	if err != nil || tokens < servedTokens || asked <= suspectNats {
		return err
	}
	for _, other := range []int{version - 1, 0} {
		if other < 0 || other == version {
			continue
		}
		folder := l.in.PolicyOf(other)
		if _, err := os.Stat(folder); err != nil {
			continue // it has been pruned
		}
		nats, err := l.gapUnder(ctx, folder, units, choose)
		if err != nil {
			return err
		}
		if nats < asked/2 {
			return exitcode.WithHint(exitcode.Unavailablef("the server was asked for version %d of the policy and sampled with version %d: its log-probabilities of %d tokens are %.3f nats from ours under %d, and %.3f under %d",
				version, other, tokens, asked, version, nats, other),
				"restart the server, remove iter/%06d/rollout and what depends on it, and run again; rollout.remote.model accepts stale responses", l.in.Iteration)
		}
	}
	return nil
}

// gapUnder is the gap under the policy in a folder.
func (l *learner) gapUnder(ctx context.Context, folder string, units []unit, choose func(shard.Sequence) (bool, error)) (nats float64, err error) {
	engine, err := backend.Open(folder, trainer.EngineOptions(l.Policy, l.process, l.Optimizer, false, l.Workload(l.longest())))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	ours := map[*trainer.Sequence][]float32{}
	if err := l.logProbs(ctx, engine, units, choose, func(s *trainer.Sequence, logProbs []float32) { ours[s] = logProbs }); err != nil {
		return 0, err
	}
	nats, _, err = l.gap(units, choose, func(s *trainer.Sequence) []float32 { return ours[s] })
	return nats, err
}

// gap is the mean distance in nats of the log-probabilities that a server gave from ours,
// and of how many tokens.
func (l *learner) gap(units []unit, choose func(shard.Sequence) (bool, error), ours func(*trainer.Sequence) []float32) (nats float64, tokens int, err error) {
	for _, u := range units {
		sequences, err := l.rows(u)
		if err != nil {
			return 0, 0, err
		}
		for _, s := range sequences {
			if is, err := choose(s); err != nil || !is || s.LogProbSource != shard.LogProbsServer {
				continue // an error has been told of
			}
			own := ours(l.computed(s.Place))
			for t, sampled := range s.LossMask {
				if sampled {
					nats += math.Abs(float64(s.OldLogProbs[t] - own[t]))
					tokens++
				}
			}
		}
	}
	return nats / float64(max(tokens, 1)), tokens, nil
}

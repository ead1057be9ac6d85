package learn

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// recompute computes the learner's own log-probabilities of sequences under the
// policy version that sampled them, unless our engine sampled them: then they are
// what the batch holds, to the last bit. It must come before the first optimizer
// step.
func (l *learner) recompute(ctx context.Context, wanted func(unit) bool) error {
	units := map[int][]unit{} // by version
	for _, r := range l.batch.Layout {
		u := unit{int(r.OptimizerStep), int(r.Unit)}
		if !wanted(u) {
			continue
		}
		for _, version := range r.Versions {
			if own := units[int(version)]; !slices.Contains(own, u) {
				units[int(version)] = append(own, u)
			}
		}
	}
	for _, version := range slices.Sorted(maps.Keys(units)) {
		if err := l.recomputeUnder(ctx, version, units[version]); err != nil {
			return fmt.Errorf("log-probabilities under policy version %d: %w", version, err)
		}
	}
	return nil
}

// recomputeUnder does so for what one policy version sampled of some units.
func (l *learner) recomputeUnder(ctx context.Context, version int, units []unit) (err error) {
	folder := l.in.Policy
	if l.in.PolicyOf != nil {
		folder = l.in.PolicyOf(version)
	}
	engine := l.engine
	if folder != l.in.Policy {
		if engine, err = l.openPolicy(ctx, folder, l.Policy); err != nil {
			return err
		}
		defer engine.Close()
	}
	for i, u := range units {
		sequences, err := l.batch.Unit(u.step, u.number)
		if err != nil {
			return err
		}
		var chosen []trainer.Sequence
		for _, s := range sequences {
			switch s.LogProbSource {
			case shard.LogProbsEngine:
				continue
			case shard.LogProbsServer, shard.LogProbsNone:
			default:
				return exitcode.Dataf("batch %q, instance %q sample %d: logprob_source is %q; engine, server and none are known", l.in.Batch, s.InstanceID, s.Sample, s.LogProbSource)
			}
			if int(s.PolicyVersion) == version {
				chosen = append(chosen, trainer.Sequence{Sequence: s})
			}
		}
		own, err := l.logProbs(ctx, engine, chosen)
		if err != nil {
			return err
		}
		if i == 0 { // one unit shows which weights the server has
			if err := l.checkServed(ctx, version, chosen, own); err != nil {
				return err
			}
		}
		for place, logProbs := range own {
			l.computed(place).OldLogProbs = logProbs
		}
	}
	return nil
}

// logProbs are those of sequences under the policy of an engine, by their places.
func (l *learner) logProbs(ctx context.Context, engine *policy.Engine, sequences []trainer.Sequence) (map[int32][]float32, error) {
	own := map[int32][]float32{}
	for _, micro := range l.microBatches(engine, sequences) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch := trainer.Pack(micro)
		logProbs, entropy := make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
		if err := engine.Forward(batch.Batch, l.Sampling, logProbs, entropy); err != nil {
			return nil, err
		}
		for i, s := range batch.Sequences {
			own[s.Place] = batch.Of(i, logProbs)
		}
	}
	return own, nil
}

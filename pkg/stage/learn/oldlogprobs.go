package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// look is a pass over sequences under one policy, before the first optimizer step.
type look struct {
	name   string // for errors
	folder string
	as     recipe.Policy
	own    **policy.Engine                                   // the engine of what is trained, if that is the policy; else nil
	open   func(ctx context.Context) (*policy.Engine, error) // nil for one of this run
	pass   func(engine *policy.Engine) error
}

// looks lists what must be known of the units that are wanted before the first
// optimizer step: the learner's log-probabilities of what our engine did not sample,
// those under the reference policy and the teacher, and a critic's values.
func (l *learner) looks(ctx context.Context, batch seal.Manifest, wanted func(unit) bool) ([]look, error) {
	l.before = map[int32]*trainer.Sequence{}
	units := l.unitsOf(wanted)
	if len(units) == 0 {
		return nil, nil
	}
	if err := l.compareEngines(batch); err != nil {
		return nil, err
	}
	all, err := l.oldLooks(ctx, units)
	if err != nil {
		return nil, err
	}
	if l.Loss.KL.Coef != 0 && (l.Policy.LoRA != nil || l.in.Reference != "") {
		all = append(all, l.referenceLook(ctx, units))
	}
	if l.Advantage.Teacher.Active() {
		all = append(all, l.teacherLook(ctx, units))
	}
	if !l.Advantage.Critic() {
		return all, nil
	}
	values := look{name: "values", folder: cmp.Or(l.in.Start, l.in.Policy), as: l.Policy}
	of, engine := l.in.Policy, &l.engine
	if l.in.Critic != "" {
		values.folder, values.as = cmp.Or(l.in.StartCritic, l.in.Critic), l.Policy.OfCritic()
		of, engine = l.in.Critic, &l.critic
	}
	if values.folder == of {
		values.own = engine
	}
	values.pass = func(engine *policy.Engine) error { return l.estimateAdvantages(ctx, engine, wanted) }
	return append(all, values), nil
}

// lookBefore takes the looks under policies that are not trained, each open alone.
func (l *learner) lookBefore(ctx context.Context, looks []look) error {
	for _, look := range looks {
		if look.own != nil {
			continue
		}
		open := look.open
		if open == nil {
			open = func(ctx context.Context) (*policy.Engine, error) { return l.openPolicy(ctx, look.folder, look.as) }
		}
		engine, err := open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", look.name, err)
		}
		err = errors.Join(look.pass(engine), engine.Close())
		debug.FreeOSMemory() // before the next policy takes as much
		if err != nil {
			return fmt.Errorf("%s: %w", look.name, err)
		}
	}
	return nil
}

// lookWithTrained takes the looks under what is trained.
func (l *learner) lookWithTrained(looks []look) error {
	for _, look := range looks {
		if look.own == nil {
			continue
		}
		if err := look.pass(*look.own); err != nil {
			return fmt.Errorf("%s: %w", look.name, err)
		}
	}
	return nil
}

// referenceLook computes the log-probabilities under the reference policy, which is,
// under policy.lora, what is adapted.
func (l *learner) referenceLook(ctx context.Context, units []unit) look {
	at := look{name: "reference policy", folder: l.in.Reference, as: l.Policy}
	if l.Policy.LoRA != nil {
		at.own = &l.engine
	}
	at.pass = func(engine *policy.Engine) error {
		engine.SetAdapter(false)
		defer engine.SetAdapter(true)
		all := func(shard.Sequence) (bool, error) { return true, nil }
		return l.logProbs(ctx, engine, units, all, func(s *trainer.Sequence, logProbs []float32) { s.Reference = logProbs })
	}
	return at
}

// oldLooks compute the learner's own log-probabilities of sequences under the
// policy version that sampled them, unless our engine sampled them: then they are
// what the batch holds, to the last bit.
func (l *learner) oldLooks(ctx context.Context, wanted []unit) ([]look, error) {
	units, err := l.versions(wanted)
	if err != nil {
		return nil, err
	}
	var all []look
	for _, version := range slices.Sorted(maps.Keys(units)) {
		at := look{name: fmt.Sprintf("log-probabilities under policy version %d", version), folder: l.in.Policy, as: l.Policy}
		if l.in.PolicyOf != nil {
			at.folder = l.in.PolicyOf(version)
		}
		if at.folder == l.in.Policy {
			at.own = &l.engine
		}
		at.pass = func(engine *policy.Engine) error {
			chosen := func(s shard.Sequence) (bool, error) {
				switch s.LogProbSource {
				case shard.LogProbsEngine:
					return false, nil
				case shard.LogProbsServer, shard.LogProbsNone:
					return int(s.PolicyVersion) == version, nil
				}
				return false, exitcode.Dataf("batch %q, instance %q sample %d: logprob_source is %q; engine, server and none are known", l.in.Batch, s.InstanceID, s.Sample, s.LogProbSource)
			}
			err := l.logProbs(ctx, engine, units[version], chosen, func(s *trainer.Sequence, logProbs []float32) { s.OldLogProbs = logProbs })
			if err != nil {
				return err
			}
			if l.elsewhere {
				return nil
			}
			return l.checkServed(ctx, version, units[version][:1], chosen)
		}
		all = append(all, at)
	}
	return all, nil
}

// versions lists the units with sequences that our engine did not sample, by the policy
// version that did.
func (l *learner) versions(wanted []unit) (map[int][]unit, error) {
	units := map[int][]unit{}
	add := func(version int, u unit) {
		if own := units[version]; !slices.Contains(own, u) {
			units[version] = append(own, u)
		}
	}
	is := map[unit]bool{}
	for _, u := range wanted {
		is[u] = true
	}
	for _, r := range l.batch.Layout {
		if u := (unit{int(r.OptimizerStep), int(r.Unit)}); is[u] {
			for _, version := range r.Versions {
				add(int(version), u)
			}
		}
	}
	if !l.elsewhere {
		return units, nil
	}
	for _, u := range wanted { // the layout has no versions of what an engine sampled
		rows, err := l.rows(u)
		if err != nil {
			return nil, err
		}
		for _, s := range rows {
			if s.LogProbSource == shard.LogProbsServer {
				add(int(s.PolicyVersion), u)
			}
		}
	}
	return units, nil
}

// compareEngines compares what sampled the batch with what learns from it.
func (l *learner) compareEngines(batch seal.Manifest) error {
	samplers, err := stage.Samplers(batch)
	if err != nil || len(samplers) == 0 {
		return err
	}
	options := trainer.EngineOptions(l.Policy, l.process, l.Optimizer, true, policy.Workload{})
	options.Base = l.in.Base
	own, err := backend.Arithmetic(l.in.Policy, options)
	switch {
	case errors.Is(err, fs.ErrNotExist): // what opens the policy says that it is not there
		return nil
	case err != nil:
		return err
	}
	for _, sampler := range samplers {
		if sampler == own {
			continue
		}
		l.elsewhere = true
		if l.process.Log != nil {
			l.process.Log("%s sampled responses that %s learns from: their old log-probabilities are computed again", sampler, own)
		}
	}
	return nil
}

// logProbs computes the log-probabilities of the sequences of units that are chosen,
// and keeps them.
func (l *learner) logProbs(ctx context.Context, engine *policy.Engine, units []unit, choose func(shard.Sequence) (bool, error), keep func(s *trainer.Sequence, logProbs []float32)) error {
	for _, u := range units {
		sequences, err := l.rows(u)
		if err != nil {
			return err
		}
		var chosen []trainer.Sequence
		for _, s := range sequences {
			wanted, err := choose(s)
			if err != nil {
				return err
			}
			if wanted {
				chosen = append(chosen, trainer.Sequence{Sequence: s})
			}
		}
		for _, micro := range l.microBatches(engine, chosen) {
			if err := ctx.Err(); err != nil {
				return err
			}
			batch := trainer.Pack(micro)
			logProbs, entropy := make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
			if err := engine.Forward(batch.Batch, l.Sampling, logProbs, entropy); err != nil {
				return err
			}
			for i, s := range batch.Sequences {
				keep(l.computed(s.Place), batch.Of(i, logProbs))
			}
		}
	}
	return nil
}

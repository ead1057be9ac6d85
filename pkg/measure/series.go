package measure

import (
	"context"
	"errors"
	"strings"

	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// trace makes the series over iterations.
func (f *findings) trace(ctx context.Context) error {
	for k := 1; k <= f.Iterations; k++ {
		tasks := f.iterations[k]
		if len(tasks) == 0 {
			continue
		}
		it := Iteration{Iteration: k}
		it.sampled(tasks)
		for _, t := range tasks {
			switch {
			case t.Stage == graph.StageBuffer:
				it.buffered(t.metrics)
			case t.Stage == graph.StageLearn && t.whole && isLast(f.Graph, t):
				it.learned(learnMetrics(tasks), f.Recipe.Loss.KL.Coef != 0)
			}
		}
		it.ReferenceReplaced = f.Graph.RefreshesReference(it.Iteration)
		if err := it.decided(ctx, f.Graph); err != nil {
			return err
		}
		if it.LeftOutShards != nil {
			f.LeftOutShards += *it.LeftOutShards
		}
		f.Series = append(f.Series, it)
	}
	return nil
}

// sampled takes what the rollouts say.
func (it *Iteration) sampled(tasks []finishedTask) {
	var responses, tokens, cut float64
	for _, t := range tasks {
		if t.Stage == graph.StageRollout {
			if t.Wave == 0 { // later ones resume them
				responses += t.metrics["responses"]
			}
			tokens += t.metrics["response_tokens"]
			cut += t.metrics["cut_off"]
		}
	}
	if responses > 0 {
		length, share := tokens/responses, cut/responses
		it.ResponseTokensMean, it.CutOffShare = &length, &share
	}
}

// buffered takes what the buffer stage says.
func (it *Iteration) buffered(m map[string]float64) {
	it.RewardMean, it.ScoreMean = find(m, "reward_mean"), find(m, "score_mean")
	it.DepthMean = find(m, "depth_mean")
	if size := find(m, "curriculum_instances"); size != nil {
		n := int(*size)
		it.BufferSize = &n
	}
	it.Kinds, it.Origins = withPrefix(m, "kind_"), withPrefix(m, "origin_")
	if it.Transitions = withPrefix(m, "transition_"); it.Transitions != nil {
		it.Transitions["effective_f2s"] = int(m["effective_f2s"])
	}
	if n := find(m, "nonzero_advantage"); n != nil {
		moving := int(*n)
		it.NonzeroAdvantage = &moving
	}
	for name, value := range m {
		if environment, ok := strings.CutPrefix(name, "reward_sum_environment_"); ok {
			if it.Rewards == nil {
				it.Rewards = map[string]float64{}
			}
			it.Rewards[environment] = value / m["responses_environment_"+environment]
		}
		if own, ok := strings.CutPrefix(name, "curriculum_"); ok && own != "instances" {
			if it.Curriculum == nil {
				it.Curriculum = map[string]float64{}
			}
			it.Curriculum[own] = value
		}
	}
}

// learned takes what the learner says. Without a token to learn from its
// means are not numbers of this iteration.
func (it *Iteration) learned(m map[string]float64, reference bool) {
	if m["tokens"] == 0 {
		return
	}
	it.Loss, it.Entropy, it.GradNorm = find(m, "loss"), find(m, "entropy"), find(m, "grad_norm")
	it.OldKL, it.ClipShare = find(m, "old_kl_k3"), find(m, "clip_share")
	it.RatioDeviationMax = find(m, "ratio_deviation_max")
	it.FirstStepRatioDeviationMax = find(m, "first_step_ratio_deviation_max")
	it.TeacherKL = find(m, "teacher_kl")
	if reference {
		it.ReferenceKL = find(m, "reference_kl")
	}
}

// isLast reports whether a learn task makes the policy version of its
// iteration.
func isLast(g graph.Graph, t finishedTask) bool {
	return !g.Sharded() || t.Step == g.OptimizerSteps()-1
}

// learnMetrics joins the metrics of an iteration's learn tasks, of which
// there are several when gradients are computed in shards: maxima and first
// values as such, all others as means over tokens, or over steps for the
// gradient norm and the loss.
func learnMetrics(tasks []finishedTask) map[string]float64 {
	joined := map[string]float64{}
	var tokens, steps float64
	for _, t := range tasks {
		if t.Stage != graph.StageLearn {
			continue
		}
		n, s := t.metrics["trained_tokens"], t.metrics["optimizer_steps"]
		for name, value := range t.metrics {
			switch {
			case name == "first_step_ratio_deviation_max":
				if t.Step == 0 {
					joined[name] = value
				}
			case strings.HasSuffix(name, "_max"):
				joined[name] = max(joined[name], value)
			case name == "tokens":
				joined[name] += value
			case name == "grad_norm", name == "loss": // a mean over steps already
				joined[name] += value * s
			default:
				joined[name] += value * n
			}
		}
		tokens += n
		steps += s
	}
	for name := range joined {
		switch {
		case strings.HasSuffix(name, "_max"), name == "tokens":
		case name == "grad_norm", name == "loss":
			joined[name] /= max(1, steps)
		default:
			joined[name] /= max(1, tokens)
		}
	}
	return joined
}

// decided takes the dispositions of the iteration's responses and how its shards
// were closed.
func (it *Iteration) decided(ctx context.Context, g graph.Graph) error {
	rows, _, err := shard.Read[shard.LedgerRow](ctx, g.Dir.Ledger(it.Iteration), g.Reading(0))
	if err == nil {
		trained := 0
		it.Dropped = map[string]int{}
		for _, row := range rows {
			if row.Fate == string(shard.FateTrained) {
				trained++
			} else {
				it.Dropped[row.Untrained()]++
			}
		}
		it.Trained = &trained
	} else if !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	closing, err := closing.Read(ctx, g.Dir, it.Iteration, g.Reading(0))
	if err == nil {
		late, carried, leftOut := len(closing.Late), len(closing.Carried), len(closing.LeftOut)
		it.LateShards, it.CarriedShards, it.LeftOutShards = &late, &carried, &leftOut
	} else if !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	return nil
}

func find(m map[string]float64, name string) *float64 {
	if value, ok := m[name]; ok {
		return &value
	}
	return nil
}

// withPrefix returns the counts whose names begin with a prefix, without it.
func withPrefix(m map[string]float64, prefix string) map[string]int {
	counts := map[string]int{}
	for name, value := range m {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			counts[rest] = int(value)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	return counts
}

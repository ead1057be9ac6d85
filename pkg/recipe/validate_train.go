package recipe

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/stopstring"
)

func (r *Recipe) checkCurriculum(c *config.Checker) {
	c.Choice("curriculum.name", r.Curriculum.Name)
	e := r.Curriculum.Exit
	size := c.AtLeast("curriculum.exit.buffer_size", e.BufferSize, 1)
	if c.AtLeast("curriculum.exit.min_buffer_size", e.MinBufferSize, 1) && size && e.MinBufferSize > e.BufferSize {
		c.Add("curriculum.exit.min_buffer_size", e.MinBufferSize,
			"must not be above curriculum.exit.buffer_size %d, or nothing is ever selected", e.BufferSize)
	}
	c.Share("curriculum.exit.select_probability", e.SelectProbability)
	c.NotNegative("curriculum.exit.inverse_temperature", e.InverseTemperature)
	c.Share("curriculum.exit.diverge_probability", e.DivergeProbability)
	c.Choice("curriculum.exit.expand", e.Expand)
	if e.DiversityBonus && r.Score.Embedding == "none" {
		c.Add("curriculum.exit.diversity_bonus", true, "needs score.embedding")
	}
}

// minTemperature is the least temperature that engines sample at
// (policy.MinTemperature); temperature 0 is asked for in other ways.
const minTemperature = 1e-4

func (r *Recipe) checkRollout(c *config.Checker) {
	o := r.Rollout
	prompts := c.AtLeast("rollout.prompts", o.Prompts, 1)
	if c.AtLeast("rollout.group", o.Group, 1) {
		a := r.Advantage
		switch {
		case o.Group == 1 && a.Baseline != "none" && a.GroupOfOne != "reward":
			c.Add("rollout.group", o.Group, "must be 2 or more for advantage.baseline %s: one response has nothing to be compared with", a.Baseline)
		case o.Group == 2 && a.Scale == "leave_one_out_std" && a.DDof == 1:
			c.Add("rollout.group", o.Group, "must be 3 or more for advantage.scale leave_one_out_std: one other response has no deviation")
		case o.Group == 1 && r.Filters.ConstantGroup:
			c.Add("rollout.group", o.Group, "must be 2 or more for filters.constant_group: one reward is always constant, so every response would be dropped")
		case o.Group == 1 && r.Curriculum.Name == "exit":
			c.Add("rollout.group", o.Group, "must be 2 or more for curriculum.name exit: the rewards of one response have no variance, so nothing would enter the buffer")
		}
	}
	if c.AtLeast("rollout.max_new_tokens", o.MaxNewTokens, 1) && r.Policy.New != nil && o.MaxNewTokens >= r.Policy.New.MaxPositionEmbeddings {
		c.Add("rollout.max_new_tokens", o.MaxNewTokens,
			"must be below policy.new.max_position_embeddings %d", r.Policy.New.MaxPositionEmbeddings)
	}
	for i, n := range o.MaxNewTokensByTurn {
		c.Between(fmt.Sprintf("rollout.max_new_tokens_by_turn[%d]", i), n, 1, o.MaxNewTokens)
	}
	if _, err := stopstring.New(o.Stop); err != nil {
		c.Add("rollout.stop", nil, "%v", err)
	}
	if !(o.Temperature >= minTemperature) {
		c.Add("rollout.temperature", o.Temperature, "must be %g or more: at 0 all responses of a group are the same", minTemperature)
	}
	c.AtLeast("rollout.top_k", o.TopK, 0)
	if !(float32(o.TopP) > 0 && o.TopP <= 1) { // engines take a float32, of which 0 keeps all
		c.Add("rollout.top_p", o.TopP, "must be above 0 and at most 1, which keeps all")
	}
	if c.AtLeast("rollout.shards", o.Shards, 1) && prompts && o.Shards > o.Prompts {
		c.Add("rollout.shards", o.Shards, "must not be above rollout.prompts %d", o.Prompts)
	}
	if o.Remote != nil {
		r.checkRemote(c, o.Remote)
	}
}

func (r *Recipe) checkScore(c *config.Checker) {
	c.Choice("score.embedding", r.Score.Embedding)
}

func (r *Recipe) checkAdvantage(c *config.Checker) {
	a := r.Advantage
	if c.Choice("advantage.kind", a.Kind) {
		r.checkCritic(c)
	}
	c.Share("advantage.gamma", a.Gamma)
	c.Share("advantage.lambda", a.Lambda)
	c.Choice("advantage.baseline", a.Baseline)
	scale := c.Choice("advantage.scale", a.Scale)
	c.Between("advantage.ddof", a.DDof, 0, 1)
	c.NotNegative("advantage.epsilon", a.Epsilon)
	zero := c.Choice("advantage.zero_scale", a.ZeroScale)
	if scale && zero && a.ZeroScale == "divide" {
		switch deviation := a.Scale == "std" || a.Scale == "leave_one_out_std"; {
		case a.Epsilon == 0 && a.Scale == "leave_one_out_std":
			c.Add("advantage.zero_scale", a.ZeroScale, "divides by 0 when the others of a group agree; set advantage.epsilon, or keep")
		case deviation && a.Baseline == "none" && a.Kind == "group":
			c.Add("advantage.zero_scale", a.ZeroScale, "divides rewards that are not 0 by next to nothing when those of a group agree, which advantage.baseline none leaves as they are; set keep")
		case a.Scale == "mean" && a.Baseline == "none" && a.Epsilon == 0:
			c.Add("advantage.zero_scale", a.ZeroScale, "divides by 0 when all rewards of a group are 0; set advantage.epsilon, or keep")
		}
	}
	c.Choice("advantage.group_of_one", a.GroupOfOne)
	c.NotNegative("advantage.clip", a.Clip)
	c.Between("advantage.whitening_ddof", a.WhiteningDDof, 0, 1)
}

// checkCritic checks what goes with a critic, whose advantages are made of
// rewards as they are.
func (r *Recipe) checkCritic(c *config.Checker) {
	a := r.Advantage
	if a.Kind != "gae" {
		if r.Policy.ValueHead {
			c.Add("policy.value_head", true, "needs advantage.kind gae, or nothing trains it")
		}
		return
	}
	if !r.Policy.ValueHead {
		c.Add("advantage.kind", a.Kind, "needs policy.value_head")
	}
	if a.Baseline != "none" {
		c.Add("advantage.baseline", a.Baseline, "must be none for advantage.kind gae: the critic is the baseline")
	}
	if a.Scale != "none" {
		c.Add("advantage.scale", a.Scale, "must be none for advantage.kind gae")
	}
	if a.Clip != 0 {
		c.Add("advantage.clip", a.Clip, "must be 0 for advantage.kind gae")
	}
	if r.Filters.MinAdvantage != 0 {
		c.Add("filters.min_advantage", r.Filters.MinAdvantage, "must be 0 for advantage.kind gae, whose advantages are not known before the learner's")
	}
	if r.Curriculum.Name == "exit" && r.Curriculum.Exit.DiversityBonus {
		c.Add("curriculum.exit.diversity_bonus", true, "must be false for advantage.kind gae")
	}
}

func (r *Recipe) checkFilters(c *config.Checker) {
	if c.AtLeast("filters.min_group", r.Filters.MinGroup, 1) && r.Rollout.Group >= 1 && r.Filters.MinGroup > r.Rollout.Group {
		c.Add("filters.min_group", r.Filters.MinGroup, "must not be above rollout.group %d, or every group is dropped", r.Rollout.Group)
	}
	c.NotNegative("filters.min_advantage", r.Filters.MinAdvantage)
}

func (r *Recipe) checkLoss(c *config.Checker) {
	l := r.Loss
	kind := c.Choice("loss.kind", l.Kind)
	c.Choice("loss.aggregation", l.Aggregation)
	c.AtLeast("loss.norm_tokens", l.NormTokens, 0)
	if l.NormPadded && l.NormTokens > 0 {
		c.Add("loss.norm_padded", true, "must be false when loss.norm_tokens is given")
	}
	c.Share("loss.clip_low", l.ClipLow)
	c.NotNegative("loss.clip_high", l.ClipHigh)
	if kind && l.ClipHigh == 0 && slices.Contains([]string{"clip", "cispo", "gspo", "dppo"}, l.Kind) {
		c.Add("loss.clip_high", l.ClipHigh, "must be above 0 for loss.kind %s", l.Kind)
	}
	if kind && l.ClipAbsolute && l.Kind != "cispo" {
		c.Add("loss.clip_absolute", true, "is for loss.kind cispo only, not %s", l.Kind)
	}
	if l.DualClip != 0 && !(l.DualClip > 1) {
		c.Add("loss.dual_clip", l.DualClip, "must be above 1, or 0 for none")
	}
	c.NotNegative("loss.ratio_clamp", l.RatioClamp)
	c.NotNegative("loss.kl.coef", l.KL.Coef)
	c.Choice("loss.kl.estimator", l.KL.Estimator)
	c.Choice("loss.kl.gradient", l.KL.Gradient)
	c.NotNegative("loss.kl.input_clamp", l.KL.InputClamp)
	c.NotNegative("loss.kl.output_clamp", l.KL.OutputClamp)
	c.AtLeast("loss.kl.ref_every", l.KL.RefEvery, 0)
	if c.Share("loss.kl.ref_alpha", l.KL.RefAlpha) && l.KL.RefAlpha == 0 && l.KL.RefEvery > 0 {
		c.Add("loss.kl.ref_alpha", l.KL.RefAlpha, "must be above 0 when loss.kl.ref_every is %d, or the refresh changes nothing", l.KL.RefEvery)
	}
	if l.KL.Coef > 0 && l.KL.RefEvery > 0 && r.Policy.LoRA != nil {
		c.Add("loss.kl.ref_every", l.KL.RefEvery, "must be 0 with policy.lora: the reference is the policy without the adapter, which is never refreshed")
	}
	c.NotNegative("loss.value.coef", l.Value.Coef)
	c.NotNegative("loss.value.clip", l.Value.Clip)
	c.NotNegative("loss.sampler_kl", l.SamplerKL)
	c.NotNegative("loss.entropy_coef", l.EntropyCoef)
	c.NotNegative("loss.truncated_is", l.TruncatedIS)
	c.AtLeast("loss.epochs", l.Epochs, 1)
	if c.AtLeast("loss.mini_batches", l.MiniBatches, 1) && r.Rollout.Prompts >= 1 && l.MiniBatches > r.Rollout.Prompts {
		c.Add("loss.mini_batches", l.MiniBatches, "must not be above rollout.prompts %d", r.Rollout.Prompts)
	}
}

func checkOptimizer(c *config.Checker, field string, o Optimizer) {
	c.NotNegative(field+".learning_rate", o.LearningRate)
	for _, beta := range []struct {
		name  string
		value float64
	}{{".beta1", o.Beta1}, {".beta2", o.Beta2}} {
		if !(beta.value >= 0 && beta.value < 1) {
			c.Add(field+beta.name, beta.value, "must be at least 0 and below 1")
		}
	}
	c.Positive(field+".epsilon", o.Epsilon)
	c.NotNegative(field+".weight_decay", o.WeightDecay)
	c.NotNegative(field+".max_grad_norm", o.MaxGradNorm)
	c.AtLeast(field+".warmup_steps", o.WarmupSteps, 0)
	c.Choice(field+".decay", o.Decay)
	c.Share(field+".min_ratio", o.MinRatio)
	c.Choice(field+".state", o.State)
}

func (r *Recipe) checkSchedule(c *config.Checker) {
	s := r.Schedule
	c.AtLeast("schedule.iterations", s.Iterations, 1)
	c.AtLeast("schedule.staleness", s.Staleness, 0)
	if !(s.Oversample >= 1 && s.Oversample <= 16) {
		c.Add("schedule.oversample", s.Oversample, "must be from 1 to 16")
	}
	if !(s.Quorum > 0 && s.Quorum <= 1) {
		c.Add("schedule.quorum", s.Quorum, "must be above 0 and at most 1")
	}
	units := c.Between("schedule.gradient_units", s.GradientUnits, 1, 1<<16)
	if c.AtLeast("schedule.gradient_shards", s.GradientShards, 1) && units && s.GradientShards > s.GradientUnits {
		c.Add("schedule.gradient_shards", s.GradientShards, "must not be above schedule.gradient_units %d", s.GradientUnits)
	}
	micro := c.AtLeast("schedule.micro_batch_tokens", s.MicroBatchTokens, 0)
	if c.AtLeast("schedule.shared_prompt_tokens", s.SharedPromptTokens, 0) && micro && s.MicroBatchTokens > 0 && s.SharedPromptTokens > s.MicroBatchTokens {
		c.Add("schedule.shared_prompt_tokens", s.SharedPromptTokens, "must not be above schedule.micro_batch_tokens %d", s.MicroBatchTokens)
	}
	c.AtLeast("schedule.keep_every", s.KeepEvery, 0)
	c.AtLeast("schedule.max_attempts", s.MaxAttempts, 1)
}

func (r *Recipe) checkEvaluation(c *config.Checker) {
	e := r.Evaluation
	problems := c.AtLeast("evaluation.problems", e.Problems, 1)
	if test := r.Data.Test.Generate; problems && test != nil && len(r.Data.Test.Files) == 0 && e.Problems > test.Count {
		c.Add("evaluation.problems", e.Problems, "must not be above data.test.generate.count %d", test.Count)
	}
	if limit := r.Data.Test.Limit; problems && limit > 0 && e.Problems > limit {
		c.Add("evaluation.problems", e.Problems, "must not be above data.test.limit %d", limit)
	}
	c.AtLeast("evaluation.samples", e.Samples, 1)
	if !(e.Temperature >= minTemperature) {
		c.Add("evaluation.temperature", e.Temperature, "must be %g or more: evaluation.greedy adds a greedy chain", minTemperature)
	}
	c.AtLeast("evaluation.steps", e.Steps, 0)
	c.AtLeast("evaluation.every", e.Every, 0)
	if c.AtLeast("evaluation.max_new_tokens", e.MaxNewTokens, 0) && r.Policy.New != nil && e.MaxNewTokens >= r.Policy.New.MaxPositionEmbeddings {
		c.Add("evaluation.max_new_tokens", e.MaxNewTokens,
			"must be below policy.new.max_position_embeddings %d", r.Policy.New.MaxPositionEmbeddings)
	}
	if c.AtLeast("evaluation.shards", e.Shards, 1) && problems && e.Shards > e.Problems {
		c.Add("evaluation.shards", e.Shards, "must not be above evaluation.problems %d", e.Problems)
	}
}

func (r *Recipe) checkResources(c *config.Checker) {
	c.AtLeast("resources.threads", r.Resources.Threads, 0)
	s := r.Resources.Stages
	for _, stage := range []struct {
		name   string
		engine bool // runs the policy
		Request
	}{
		{"warm", true, s.Warm},
		{"rollout", true, s.Rollout},
		{"score", false, s.Score},
		{"buffer", false, s.Buffer},
		{"learn", true, s.Learn},
		{"gradient", true, s.Gradient},
		{"evaluate", true, s.Evaluate},
		{"gate", false, s.Gate},
	} {
		field := "resources.stages." + stage.name
		c.AtLeast(field+".cpus", stage.CPUs, 1)
		c.Positive(field+".memory_gb", stage.MemoryGB)
		if c.AtLeast(field+".gpus", stage.GPUs, 0) && stage.engine && r.Policy.Backend == "cuda" && stage.GPUs == 0 {
			c.Add(field+".gpus", stage.GPUs, "must be 1 or more for policy.backend cuda")
		}
		c.AtLeast(field+".minutes", stage.Minutes, 1)
	}
}

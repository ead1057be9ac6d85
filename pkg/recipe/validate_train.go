package recipe

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/stopstring"
)

func (r *Recipe) checkCurriculum(c *checker) {
	c.choice("curriculum.name", r.Curriculum.Name)
	e := r.Curriculum.Exit
	size := c.atLeast("curriculum.exit.buffer_size", e.BufferSize, 1)
	if c.atLeast("curriculum.exit.min_buffer_size", e.MinBufferSize, 1) && size && e.MinBufferSize > e.BufferSize {
		c.add("curriculum.exit.min_buffer_size", e.MinBufferSize,
			"must not be above curriculum.exit.buffer_size %d, or nothing is ever selected", e.BufferSize)
	}
	c.share("curriculum.exit.select_probability", e.SelectProbability)
	c.notNegative("curriculum.exit.inverse_temperature", e.InverseTemperature)
	c.share("curriculum.exit.diverge_probability", e.DivergeProbability)
	c.choice("curriculum.exit.expand", e.Expand)
	if e.DiversityBonus && r.Score.Embedding == "none" {
		c.add("curriculum.exit.diversity_bonus", true, "needs score.embedding")
	}
}

// minTemperature is the least temperature that engines sample at
// (policy.MinTemperature); temperature 0 is asked for in other ways.
const minTemperature = 1e-4

func (r *Recipe) checkRollout(c *checker) {
	o := r.Rollout
	prompts := c.atLeast("rollout.prompts", o.Prompts, 1)
	if c.atLeast("rollout.group", o.Group, 1) {
		a := r.Advantage
		switch {
		case o.Group == 1 && a.Baseline != "none" && a.GroupOfOne != "reward":
			c.add("rollout.group", o.Group, "must be 2 or more for advantage.baseline %s: one response has nothing to be compared with", a.Baseline)
		case o.Group == 2 && a.Scale == "leave_one_out_std" && a.DDof == 1:
			c.add("rollout.group", o.Group, "must be 3 or more for advantage.scale leave_one_out_std: one other response has no deviation")
		case o.Group == 1 && r.Filters.ConstantGroup:
			c.add("rollout.group", o.Group, "must be 2 or more for filters.constant_group: one reward is always constant, so every response would be dropped")
		case o.Group == 1 && r.Curriculum.Name == "exit":
			c.add("rollout.group", o.Group, "must be 2 or more for curriculum.name exit: the rewards of one response have no variance, so nothing would enter the buffer")
		}
	}
	if c.atLeast("rollout.max_new_tokens", o.MaxNewTokens, 1) && r.Policy.New != nil && o.MaxNewTokens >= r.Policy.New.MaxPositionEmbeddings {
		c.add("rollout.max_new_tokens", o.MaxNewTokens,
			"must be below policy.new.max_position_embeddings %d", r.Policy.New.MaxPositionEmbeddings)
	}
	for i, n := range o.MaxNewTokensByTurn {
		c.between(fmt.Sprintf("rollout.max_new_tokens_by_turn[%d]", i), n, 1, o.MaxNewTokens)
	}
	if _, err := stopstring.New(o.Stop); err != nil {
		c.add("rollout.stop", nil, "%v", err)
	}
	if !(o.Temperature >= minTemperature) {
		c.add("rollout.temperature", o.Temperature, "must be %g or more: at 0 all responses of a group are the same", minTemperature)
	}
	c.atLeast("rollout.top_k", o.TopK, 0)
	if !(float32(o.TopP) > 0 && o.TopP <= 1) { // engines take a float32, of which 0 keeps all
		c.add("rollout.top_p", o.TopP, "must be above 0 and at most 1, which keeps all")
	}
	if c.atLeast("rollout.shards", o.Shards, 1) && prompts && o.Shards > o.Prompts {
		c.add("rollout.shards", o.Shards, "must not be above rollout.prompts %d", o.Prompts)
	}
	if o.Remote != nil {
		r.checkRemote(c, o.Remote)
	}
}

func (r *Recipe) checkScore(c *checker) {
	c.choice("score.embedding", r.Score.Embedding)
}

func (r *Recipe) checkAdvantage(c *checker) {
	a := r.Advantage
	if c.choice("advantage.kind", a.Kind) {
		r.checkCritic(c)
	}
	c.share("advantage.gamma", a.Gamma)
	c.share("advantage.lambda", a.Lambda)
	c.choice("advantage.baseline", a.Baseline)
	scale := c.choice("advantage.scale", a.Scale)
	c.between("advantage.ddof", a.DDof, 0, 1)
	c.notNegative("advantage.epsilon", a.Epsilon)
	zero := c.choice("advantage.zero_scale", a.ZeroScale)
	if scale && zero && a.ZeroScale == "divide" {
		switch deviation := a.Scale == "std" || a.Scale == "leave_one_out_std"; {
		case a.Epsilon == 0 && a.Scale == "leave_one_out_std":
			c.add("advantage.zero_scale", a.ZeroScale, "divides by 0 when the others of a group agree; set advantage.epsilon, or keep")
		case deviation && a.Baseline == "none" && a.Kind == "group":
			c.add("advantage.zero_scale", a.ZeroScale, "divides rewards that are not 0 by next to nothing when those of a group agree, which advantage.baseline none leaves as they are; set keep")
		case a.Scale == "mean" && a.Baseline == "none" && a.Epsilon == 0:
			c.add("advantage.zero_scale", a.ZeroScale, "divides by 0 when all rewards of a group are 0; set advantage.epsilon, or keep")
		}
	}
	c.choice("advantage.group_of_one", a.GroupOfOne)
	c.notNegative("advantage.clip", a.Clip)
	c.between("advantage.whitening_ddof", a.WhiteningDDof, 0, 1)
}

// checkCritic checks what goes with a critic, whose advantages are made of
// rewards as they are.
func (r *Recipe) checkCritic(c *checker) {
	a := r.Advantage
	if a.Kind != "gae" {
		if r.Policy.ValueHead {
			c.add("policy.value_head", true, "needs advantage.kind gae, or nothing trains it")
		}
		return
	}
	if !r.Policy.ValueHead {
		c.add("advantage.kind", a.Kind, "needs policy.value_head")
	}
	if a.Baseline != "none" {
		c.add("advantage.baseline", a.Baseline, "must be none for advantage.kind gae: the critic is the baseline")
	}
	if a.Scale != "none" {
		c.add("advantage.scale", a.Scale, "must be none for advantage.kind gae")
	}
	if a.Clip != 0 {
		c.add("advantage.clip", a.Clip, "must be 0 for advantage.kind gae")
	}
	if r.Filters.MinAdvantage != 0 {
		c.add("filters.min_advantage", r.Filters.MinAdvantage, "must be 0 for advantage.kind gae, whose advantages are not known before the learner's")
	}
	if r.Curriculum.Name == "exit" && r.Curriculum.Exit.DiversityBonus {
		c.add("curriculum.exit.diversity_bonus", true, "must be false for advantage.kind gae")
	}
}

func (r *Recipe) checkFilters(c *checker) {
	if c.atLeast("filters.min_group", r.Filters.MinGroup, 1) && r.Rollout.Group >= 1 && r.Filters.MinGroup > r.Rollout.Group {
		c.add("filters.min_group", r.Filters.MinGroup, "must not be above rollout.group %d, or every group is dropped", r.Rollout.Group)
	}
	c.notNegative("filters.min_advantage", r.Filters.MinAdvantage)
}

func (r *Recipe) checkLoss(c *checker) {
	l := r.Loss
	kind := c.choice("loss.kind", l.Kind)
	c.choice("loss.aggregation", l.Aggregation)
	c.atLeast("loss.norm_tokens", l.NormTokens, 0)
	if l.NormPadded && l.NormTokens > 0 {
		c.add("loss.norm_padded", true, "must be false when loss.norm_tokens is given")
	}
	c.share("loss.clip_low", l.ClipLow)
	c.notNegative("loss.clip_high", l.ClipHigh)
	if kind && l.ClipHigh == 0 && slices.Contains([]string{"clip", "cispo", "gspo", "dppo"}, l.Kind) {
		c.add("loss.clip_high", l.ClipHigh, "must be above 0 for loss.kind %s", l.Kind)
	}
	if kind && l.ClipAbsolute && l.Kind != "cispo" {
		c.add("loss.clip_absolute", true, "is for loss.kind cispo only, not %s", l.Kind)
	}
	if l.DualClip != 0 && !(l.DualClip > 1) {
		c.add("loss.dual_clip", l.DualClip, "must be above 1, or 0 for none")
	}
	c.notNegative("loss.ratio_clamp", l.RatioClamp)
	c.notNegative("loss.kl.coef", l.KL.Coef)
	c.choice("loss.kl.estimator", l.KL.Estimator)
	c.choice("loss.kl.gradient", l.KL.Gradient)
	c.notNegative("loss.kl.input_clamp", l.KL.InputClamp)
	c.notNegative("loss.kl.output_clamp", l.KL.OutputClamp)
	c.atLeast("loss.kl.ref_every", l.KL.RefEvery, 0)
	if c.share("loss.kl.ref_alpha", l.KL.RefAlpha) && l.KL.RefAlpha == 0 && l.KL.RefEvery > 0 {
		c.add("loss.kl.ref_alpha", l.KL.RefAlpha, "must be above 0 when loss.kl.ref_every is %d, or the refresh changes nothing", l.KL.RefEvery)
	}
	if l.KL.Coef > 0 && l.KL.RefEvery > 0 && r.Policy.LoRA != nil {
		c.add("loss.kl.ref_every", l.KL.RefEvery, "must be 0 with policy.lora: the reference is the policy without the adapter, which is never refreshed")
	}
	c.notNegative("loss.value.coef", l.Value.Coef)
	c.notNegative("loss.value.clip", l.Value.Clip)
	c.notNegative("loss.sampler_kl", l.SamplerKL)
	c.notNegative("loss.entropy_coef", l.EntropyCoef)
	c.notNegative("loss.truncated_is", l.TruncatedIS)
	c.atLeast("loss.epochs", l.Epochs, 1)
	if c.atLeast("loss.mini_batches", l.MiniBatches, 1) && r.Rollout.Prompts >= 1 && l.MiniBatches > r.Rollout.Prompts {
		c.add("loss.mini_batches", l.MiniBatches, "must not be above rollout.prompts %d", r.Rollout.Prompts)
	}
}

func checkOptimizer(c *checker, field string, o Optimizer) {
	c.notNegative(field+".learning_rate", o.LearningRate)
	for _, beta := range []struct {
		name  string
		value float64
	}{{".beta1", o.Beta1}, {".beta2", o.Beta2}} {
		if !(beta.value >= 0 && beta.value < 1) {
			c.add(field+beta.name, beta.value, "must be at least 0 and below 1")
		}
	}
	c.positive(field+".epsilon", o.Epsilon)
	c.notNegative(field+".weight_decay", o.WeightDecay)
	c.notNegative(field+".max_grad_norm", o.MaxGradNorm)
	c.atLeast(field+".warmup_steps", o.WarmupSteps, 0)
	c.choice(field+".decay", o.Decay)
	c.share(field+".min_ratio", o.MinRatio)
	c.choice(field+".state", o.State)
}

func (r *Recipe) checkSchedule(c *checker) {
	s := r.Schedule
	c.atLeast("schedule.iterations", s.Iterations, 1)
	c.atLeast("schedule.staleness", s.Staleness, 0)
	if !(s.Oversample >= 1 && s.Oversample <= 16) {
		c.add("schedule.oversample", s.Oversample, "must be from 1 to 16")
	}
	if !(s.Quorum > 0 && s.Quorum <= 1) {
		c.add("schedule.quorum", s.Quorum, "must be above 0 and at most 1")
	}
	units := c.between("schedule.gradient_units", s.GradientUnits, 1, 1<<16)
	if c.atLeast("schedule.gradient_shards", s.GradientShards, 1) && units && s.GradientShards > s.GradientUnits {
		c.add("schedule.gradient_shards", s.GradientShards, "must not be above schedule.gradient_units %d", s.GradientUnits)
	}
	micro := c.atLeast("schedule.micro_batch_tokens", s.MicroBatchTokens, 0)
	if c.atLeast("schedule.shared_prompt_tokens", s.SharedPromptTokens, 0) && micro && s.MicroBatchTokens > 0 && s.SharedPromptTokens > s.MicroBatchTokens {
		c.add("schedule.shared_prompt_tokens", s.SharedPromptTokens, "must not be above schedule.micro_batch_tokens %d", s.MicroBatchTokens)
	}
	c.atLeast("schedule.keep_every", s.KeepEvery, 0)
	c.atLeast("schedule.max_attempts", s.MaxAttempts, 1)
}

func (r *Recipe) checkEvaluation(c *checker) {
	e := r.Evaluation
	problems := c.atLeast("evaluation.problems", e.Problems, 1)
	if test := r.Data.Test.Generate; problems && test != nil && len(r.Data.Test.Files) == 0 && e.Problems > test.Count {
		c.add("evaluation.problems", e.Problems, "must not be above data.test.generate.count %d", test.Count)
	}
	if limit := r.Data.Test.Limit; problems && limit > 0 && e.Problems > limit {
		c.add("evaluation.problems", e.Problems, "must not be above data.test.limit %d", limit)
	}
	c.atLeast("evaluation.samples", e.Samples, 1)
	if !(e.Temperature >= minTemperature) {
		c.add("evaluation.temperature", e.Temperature, "must be %g or more: evaluation.greedy adds a greedy chain", minTemperature)
	}
	c.atLeast("evaluation.steps", e.Steps, 0)
	c.atLeast("evaluation.every", e.Every, 0)
	if c.atLeast("evaluation.max_new_tokens", e.MaxNewTokens, 0) && r.Policy.New != nil && e.MaxNewTokens >= r.Policy.New.MaxPositionEmbeddings {
		c.add("evaluation.max_new_tokens", e.MaxNewTokens,
			"must be below policy.new.max_position_embeddings %d", r.Policy.New.MaxPositionEmbeddings)
	}
	if c.atLeast("evaluation.shards", e.Shards, 1) && problems && e.Shards > e.Problems {
		c.add("evaluation.shards", e.Shards, "must not be above evaluation.problems %d", e.Problems)
	}
}

func (r *Recipe) checkResources(c *checker) {
	c.atLeast("resources.threads", r.Resources.Threads, 0)
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
		c.atLeast(field+".cpus", stage.CPUs, 1)
		c.positive(field+".memory_gb", stage.MemoryGB)
		if c.atLeast(field+".gpus", stage.GPUs, 0) && stage.engine && r.Policy.Backend == "cuda" && stage.GPUs == 0 {
			c.add(field+".gpus", stage.GPUs, "must be 1 or more for policy.backend cuda")
		}
		c.atLeast(field+".minutes", stage.Minutes, 1)
	}
}

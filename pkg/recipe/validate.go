package recipe

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/scaffold"
)

// Validate checks every value and what values have to do with each other. It
// returns one usage error with a line "field: problem (value)" for each
// problem, in the order of the fields.
func (r *Recipe) Validate() error { return r.validate("recipe") }

var namePattern = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (r *Recipe) validate(what string) error {
	c := config.NewChecker(r)
	if !c.Finite() {
		return c.Err(what) // comparisons with NaN would say nothing useful
	}
	if !namePattern().MatchString(r.Name) {
		c.Add("name", r.Name, "must be 1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit")
	}
	c.Choice("preset", r.Preset)
	r.checkPolicy(c)
	r.checkStart(c)
	r.checkWarmStart(c)
	r.checkEnv(c)
	curriculum.Axis.Validate(c, "curriculum.name", r.Curriculum.Name, r.Curriculum.Variants)
	r.checkRollout(c)
	r.checkScore(c)
	r.Advantage.Validate(c, r.Policy.Critic, r.Rollout.Group)
	r.Loss.Validate(c, loss.Around{Prompts: r.Rollout.Prompts, Adapter: r.Policy.LoRA != nil})
	r.checkTeacher(c)
	r.checkChoices(c)
	r.Optimizer.Validate(c, "optimizer")
	r.checkSchedule(c)
	r.checkEvaluation(c)
	r.checkResources(c)
	return c.Err(what)
}

func (r *Recipe) checkPolicy(c *config.Checker) {
	c.Choice("policy.backend", r.Policy.Backend)
	c.Choice("policy.dtype", r.Policy.DType)
	c.Choice("policy.compute", r.Policy.Compute)
	if r.Policy.Compute == "bfloat16" && r.Policy.Backend == "cuda" {
		c.Add("policy.compute", r.Policy.Compute, "is an order of sums on CPUs; with policy.backend cuda it must be float32")
	}
	n := r.Policy.New
	switch {
	case n == nil && r.Policy.Path == "":
		c.Add("policy", nil, "names no policy: give policy.path or policy.new")
	case n != nil && r.Policy.Path != "":
		c.Add("policy.path", r.Policy.Path, "and policy.new exclude each other: to start from this folder set policy.new: null, to make a new policy leave policy.path empty")
	case n != nil && (len(r.Policy.Template) > 0 || r.Policy.TemplateDate != ""):
		c.Add("policy.template", nil, "is for the chat template of a policy that is there: with policy.new, leave out policy.template and policy.template_date")
	}
	r.checkLoRA(c)
	if n == nil {
		return
	}
	const most = 1 << 20
	hidden := c.Between("policy.new.hidden_size", n.HiddenSize, 1, most)
	c.Between("policy.new.intermediate_size", n.IntermediateSize, 1, most)
	c.Between("policy.new.num_hidden_layers", n.NumHiddenLayers, 1, 1024)
	heads := c.Between("policy.new.num_attention_heads", n.NumAttentionHeads, 1, 1024)
	if heads && hidden {
		switch width := n.HiddenSize / n.NumAttentionHeads; {
		case n.HiddenSize%n.NumAttentionHeads != 0:
			c.Add("policy.new.num_attention_heads", n.NumAttentionHeads, "must divide policy.new.hidden_size %d", n.HiddenSize)
		case width%2 != 0:
			c.Add("policy.new.num_attention_heads", n.NumAttentionHeads,
				"gives heads of %d numbers; rotary positions need an even number", width)
		}
	}
	if c.Between("policy.new.num_key_value_heads", n.NumKeyValueHeads, 1, 1024) && heads && n.NumAttentionHeads%n.NumKeyValueHeads != 0 {
		c.Add("policy.new.num_key_value_heads", n.NumKeyValueHeads,
			"must divide policy.new.num_attention_heads %d", n.NumAttentionHeads)
	}
	c.Between("policy.new.max_position_embeddings", n.MaxPositionEmbeddings, 2, most)
	c.Choice("policy.new.rope", n.Rope)
	c.Positive("policy.new.rope_theta", n.RopeTheta)
	c.Positive("policy.new.rms_norm_eps", n.RMSNormEps)
	c.Positive("policy.new.initializer_range", n.InitializerRange)
	if n.InitializerRange > 1 {
		c.Add("policy.new.initializer_range", n.InitializerRange, "must be at most 1")
	}
	if c.Choice("policy.new.tokenizer", n.Tokenizer) && n.Tokenizer != "bytes" {
		fewest := 257 // bytes, and the end of a response
		if n.Tokenizer == "numbers" {
			fewest += 100 + 1000 // groups of two and of three digits
		}
		c.Between("policy.new.vocab_size", n.VocabSize, fewest, most)
	}
	if _, err := r.Policy.Date(); err != nil {
		c.Add("policy.template_date", r.Policy.TemplateDate, "must be a date such as 2026-11-21")
	}
	if r.Policy.Chat.AssistantSuffix == "" {
		c.Add("policy.chat.assistant_suffix", nil, "must hold the token at which a response stops")
	}
}

func (r *Recipe) checkLoRA(c *config.Checker) {
	l := r.Policy.LoRA
	if l == nil {
		return
	}
	c.Between("policy.lora.rank", l.Rank, 1, 1<<14)
	c.Positive("policy.lora.alpha", l.Alpha)
	if len(l.Targets) == 0 {
		c.Add("policy.lora.targets", nil, "must name at least one projection")
	}
	for i, target := range l.Targets {
		if c.Choice("policy.lora.targets", target) && slices.Contains(l.Targets[:i], target) {
			c.Add("policy.lora.targets", target, "is named twice")
		}
	}
}

func (r *Recipe) checkWarmStart(c *config.Checker) {
	w := r.WarmStart
	steps := c.AtLeast("warm_start.steps", w.Steps, 0)
	if c.AtLeast("warm_start.chunk", w.Chunk, 1) && steps && w.Steps/w.Chunk > maxNodes {
		c.Add("warm_start.chunk", w.Chunk, "cuts %d steps into more than %d chunks", w.Steps, maxNodes)
	}
	c.NotNegative("warm_start.stop_loss", w.StopLoss)
	c.AtLeast("warm_start.batch", w.Batch, 1)
	improve := c.Share("warm_start.improve", w.Improve)
	if c.Share("warm_start.diverge", w.Diverge) && improve && w.Improve+w.Diverge > 1 {
		c.Add("warm_start.diverge", w.Diverge, "and warm_start.improve %v are more than 1 together", w.Improve)
	}
	w.Optimizer.Validate(c, "warm_start.optimizer")
	if w.Data != nil {
		w.Data.Validate(c, "warm_start.data")
		if w.Steps == 0 {
			c.Add("warm_start.data", nil, "is learned from in no step: set warm_start.steps, or leave it out")
		}
		if w.Pool != "" || len(w.Kinds) > 0 || w.Improve > 0 || w.Diverge > 0 {
			c.Add("warm_start.data", nil, "takes the place of demonstrations: leave warm_start.pool, kinds, improve and diverge out")
		}
	}
	if w.Pool == "" {
		return
	}
	if w.Steps == 0 {
		c.Add("warm_start.pool", w.Pool, "is learned from in no step: set warm_start.steps, or leave it empty")
	}
	if r.Policy.Path == "" {
		c.Add("warm_start.pool", w.Pool, "holds tokens of a policy that is there: it needs policy.path")
	}
	if len(w.Kinds) > 0 || w.Improve > 0 || w.Diverge > 0 {
		c.Add("warm_start.pool", w.Pool, "takes the place of demonstrations: leave warm_start.kinds, improve and diverge out")
	}
}

var braced = lazyregexp.New(`\{([a-z_]+)\}`)

func (r *Recipe) checkEnv(c *config.Checker) {
	if !c.Choice("env.name", r.Env.Name) {
		return
	}
	if mix := r.Env.Mix(); mix != nil {
		r.checkMix(c, mix)
		return
	}
	if setup, err := env.Axis.Make(r.Env.Name, r.Env.Settings); err == nil && setup.Validate != nil {
		setup.Validate(c, r.Data.Settings)
	}
}

// checkChoices checks the names on the axes and the settings of what they name.
func (r *Recipe) checkChoices(c *config.Checker) {
	scaffold.Axis.Validate(c, "scaffold.name", r.Scaffold.Name, r.Scaffold.Variants)
	c.AtLeast("scaffold.steps", r.Scaffold.Steps, 0)
	c.NotNegative("scaffold.seconds", r.Scaffold.Seconds)
	c.NotNegative("evaluation.seconds", r.Evaluation.Seconds)
	if r.Evaluation.Scaffold == r.Scaffold.Name {
		c.Choice("evaluation.scaffold", r.Evaluation.Scaffold)
	} else {
		scaffold.Axis.Validate(c, "evaluation.scaffold", r.Evaluation.Scaffold, r.Scaffold.Variants)
	}
	r.Segments.Validate(c)
	credit.RewardAxis.Validate(c, "reward.name", r.Reward.Name, r.Reward.Variants)
	r.Reward.Overlong.Validate(c, r.Rollout.MaxNewTokens)
	r.Select.Validate(c)
	credit.AdvantageAxis.Validate(c, "advantage.name", r.Advantage.Name, r.Advantage.Variants)
	r.Factors.Validate(c)
	r.Weight.Validate(c)
	if !r.Advantage.Critic() {
		return
	}
	for _, chosen := range r.Factors.On(credit.MultipliesAdvantage) {
		if factor, err := credit.FactorAxis.Make(chosen.Name, chosen.Settings); err == nil && !factor.AfterWhitening() {
			c.Add("factors", chosen.Name, "cannot act where a critic makes the advantages, which are not known before the learner's")
		}
	}
}

package recipe

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/objective"
)

// Validate checks every value and what values have to do with each other. It
// returns one usage error with a line "field: problem (value)" for each
// problem, in the order of the fields.
func (r *Recipe) Validate() error { return r.validate("recipe") }

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (r *Recipe) validate(what string) error {
	c := config.NewChecker(r)
	if !c.Finite() {
		return c.Err(what) // comparisons with NaN would say nothing useful
	}
	if !namePattern.MatchString(r.Name) {
		c.Add("name", r.Name, "must be 1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit")
	}
	c.Choice("preset", r.Preset)
	r.checkPolicy(c)
	r.checkWarmStart(c)
	r.checkEnv(c)
	r.checkData(c)
	r.checkCurriculum(c)
	r.checkRollout(c)
	r.checkScore(c)
	objective.Validate(c, r.Advantage, r.Filters, r.Loss, objective.Around{
		Group: r.Rollout.Group, Prompts: r.Rollout.Prompts, ValueHead: r.Policy.ValueHead, Adapter: r.Policy.LoRA != nil,
	})
	r.Optimizer.Validate(c, "optimizer")
	r.checkSchedule(c)
	r.checkEvaluation(c)
	r.checkResources(c)
	return c.Err(what)
}

func (r *Recipe) checkPolicy(c *config.Checker) {
	c.Choice("policy.backend", r.Policy.Backend)
	c.Choice("policy.dtype", r.Policy.DType)
	n := r.Policy.New
	switch {
	case n == nil && r.Policy.Path == "":
		c.Add("policy", nil, "names no policy: give policy.path or policy.new")
	case n != nil && r.Policy.Path != "":
		c.Add("policy.path", r.Policy.Path, "must be empty when policy.new is given")
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
	c.AtLeast("warm_start.steps", w.Steps, 0)
	c.AtLeast("warm_start.chunk", w.Chunk, 1)
	c.NotNegative("warm_start.stop_loss", w.StopLoss)
	c.AtLeast("warm_start.batch", w.Batch, 1)
	improve := c.Share("warm_start.improve", w.Improve)
	if c.Share("warm_start.diverge", w.Diverge) && improve && w.Improve+w.Diverge > 1 {
		c.Add("warm_start.diverge", w.Diverge, "and warm_start.improve %v are more than 1 together", w.Improve)
	}
	w.Optimizer.Validate(c, "warm_start.optimizer")
}

var braced = regexp.MustCompile(`\{([a-z_]+)\}`)

var placeholders = []string{"instruction", "question", "previous_response"}

func (r *Recipe) checkEnv(c *config.Checker) {
	if c.Choice("env.name", r.Env.Name) {
		r.checkToolUse(c)
	}
	turns := c.AtLeast("env.max_turns", r.Env.MaxTurns, 1)
	p := r.Env.Prompts
	template := func(name, text string, needs ...[]string) {
		field := "env.prompts." + name
		for _, alternatives := range needs {
			if !slices.ContainsFunc(alternatives, func(s string) bool { return strings.Contains(text, s) }) {
				c.Add(field, text, "must contain %s", strings.Join(alternatives, " or "))
			}
		}
		for _, match := range braced.FindAllStringSubmatch(text, -1) {
			// Braces may mean something else, as in \boxed{answer}; only what
			// looks like a slip is refused.
			if near, ok := config.Nearest(match[1], placeholders); ok && near != match[1] {
				c.Add(field, text, "has %s; did you mean {%s}?", match[0], near)
			}
		}
	}
	previous := []string{"{previous_response}"}
	task := []string{"{instruction}", "{question}"}
	template("system", p.System)
	template("initial", p.Initial, []string{"{question}"})
	template("refine", p.Refine)
	if turns && r.Env.MaxTurns > 1 && strings.TrimSpace(p.Refine) == "" {
		c.Add("env.prompts.refine", p.Refine, "must not be empty when env.max_turns is %d", r.Env.MaxTurns)
	}
	template("improve", p.Improve, task, previous)
	template("diverge", p.Diverge, task, previous)
	a := r.Env.Answer
	checkVerifier(c, a)
	if c.Choice("env.answer.extract", a.Extract) && a.Extract == "marked" && a.Marker == "" {
		c.Add("env.answer.marker", a.Marker, "must not be empty when env.answer.extract is marked")
	}
	if len(a.Worked) > 0 && a.Extract != "marked" && a.Extract != "boxed" {
		c.Add("env.answer.worked", a.Worked, "needs env.answer.extract marked or boxed, or the steps would be read as a part of the answer")
	}
	c.Between("env.answer.decimal_places", a.DecimalPlaces, 0, 30)
	if !(a.FormatReward >= 0 && a.FormatReward < 1) {
		c.Add("env.answer.format_reward", a.FormatReward, "must be at least 0 and below 1, the reward of a correct answer")
	}
}

func (r *Recipe) checkData(c *config.Checker) {
	if r.Data.Train.SkipRepeated {
		c.Add("data.train.skip_repeated", true, "is for data.test")
	}
	if r.Env.Name == "tooluse" {
		return // checkToolUse has
	}
	checkSource(c, "data.train", r.Data.Train)
	checkSource(c, "data.test", r.Data.Test)
	train, test := r.Data.Train.Generate, r.Data.Test.Generate
	if train != nil && test != nil && train.TestShare != test.TestShare {
		c.Add("data.test.generate.test_share", test.TestShare,
			"must equal data.train.generate.test_share %v, or the splits overlap", train.TestShare)
	}
}

func checkSource(c *config.Checker, field string, s Source) {
	if s.Generate == nil && len(s.Files) == 0 {
		c.Add(field, nil, "is empty: give %s.generate or %s.files, or both", field, field)
	}
	if g := s.Generate; g != nil {
		checkGenerate(c, field+".generate", g)
	}
	for i, file := range s.Files {
		if strings.TrimSpace(file) == "" {
			c.Add(fmt.Sprintf("%s.files.%d", field, i), file, "must not be empty")
		}
	}
	if len(s.Files) > 0 {
		checkFields(c, field+".fields", s.Fields)
	}
	for i, f := range s.Filter {
		place := fmt.Sprintf("%s.filter.%d", field, i)
		if f.Field == "" {
			c.Add(place+".field", nil, "must not be empty")
		}
		if len(f.In) == 0 {
			c.Add(place+".in", nil, "must name at least one value, or no line is kept")
		}
	}
	c.AtLeast(field+".limit", s.Limit, 0)
	c.AtLeast(field+".max_bad", s.MaxBad, 0)
}

func checkGenerate(c *config.Checker, field string, g *Generate) {
	if len(g.Kinds) == 0 {
		c.Add(field+".kinds", nil, "must name at least one kind")
	}
	for i, kind := range g.Kinds {
		if c.Choice(field+".kinds", kind) && slices.Contains(g.Kinds[:i], kind) {
			c.Add(field+".kinds", kind, "is named twice")
		}
	}
	if len(g.Levels) == 0 {
		c.Add(field+".levels", nil, "must name at least one level")
	}
	for i, level := range g.Levels {
		if c.Between(field+".levels", level, 1, 9) && slices.Contains(g.Levels[:i], level) {
			c.Add(field+".levels", level, "is named twice")
		}
	}
	c.AtLeast(field+".count", g.Count, 1)
	if !(g.TestShare > 0 && g.TestShare < 1) {
		c.Add(field+".test_share", g.TestShare, "must be above 0 and below 1")
	}
}

package recipe

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// choices are the values of the fields that name one of several things.
var choices = map[string][]string{
	"policy.backend":                {"auto", "cpu", "cuda"},
	"policy.dtype":                  {"auto", "float32", "bfloat16"},
	"policy.new.tokenizer":          {"bytes", "bpe", "words", "numbers"},
	"policy.lora.targets":           {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
	"env.name":                      {"math", "tooluse"},
	"env.tooluse.docs":              {"schema", "signature"},
	"env.tooluse.result_role":       {"system", "user", "tool"},
	"env.answer.verifier":           {"math", "exact"},
	"env.answer.extract":            {"whole", "last", "marked", "boxed"},
	"env.answer.preset":             {"lathe", "math-verify-0.8", "math-verify-0.7", "math-verify-0.6", "math-verify-loose", "boxed"},
	"env.answer.targets":            {"latex", "expression", "words"},
	"env.answer.boxed":              {"preset", "first", "among", "off"},
	"env.answer.match":              {"preset", "last", "first", "any"},
	"curriculum.name":               {"uniform", "exit"},
	"curriculum.exit.expand":        {"one", "all"},
	"rollout.remote.server":         {"vllm", "sglang", "llama.cpp", "openai"},
	"rollout.remote.api":            {"completions", "chat"},
	"rollout.remote.logprobs":       {"raw", "processed", "none"},
	"score.embedding":               {"none", "ngrams"},
	"advantage.kind":                {"group", "gae"},
	"advantage.baseline":            {"mean", "leave_one_out", "length_weighted", "none"},
	"advantage.scale":               {"std", "leave_one_out_std", "mean", "none"},
	"advantage.zero_scale":          {"divide", "keep"},
	"advantage.group_of_one":        {"zero", "reward"},
	"loss.kind":                     {"clip", "cispo", "gspo", "dppo", "reinforce", "nll"},
	"loss.aggregation":              {"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm", "token_sum"},
	"loss.kl.estimator":             {"k1", "k2", "k3", "abs"},
	"loss.kl.gradient":              {"estimator", "k2"},
	"optimizer.decay":               {"constant", "linear", "cosine"},
	"optimizer.state":               {"float32", "bfloat16"},
	"data.train.fields.answer_from": {"text", "boxed", "letter", "position", "number", "option_text"},
	"data.train.generate.kinds": {
		"add", "sub", "mul", "div", "compare", "mod", "chain", "linear", "fraction", "decimal",
		"arithmetic__add_or_sub", "arithmetic__add_or_sub_in_base", "arithmetic__add_sub_multiple", "arithmetic__div",
		"arithmetic__mixed", "arithmetic__mul", "arithmetic__mul_div_multiple", "arithmetic__nearest_integer_root",
		"arithmetic__simplify_surd", "comparison__closest", "comparison__closest_composed", "comparison__kth_biggest",
		"comparison__kth_biggest_composed", "comparison__pair", "comparison__pair_composed", "comparison__sort",
		"comparison__sort_composed",
	},
}

// Choices lists the values of a field that names one of several things, by
// its dotted path; nil for any other field.
func Choices(path string) []string {
	path = strings.Replace(path, "data.test.", "data.train.", 1)
	path = strings.Replace(path, "warm_start.optimizer.", "optimizer.", 1)
	if path == "preset" {
		return PresetNames()
	}
	return slices.Clone(choices[path])
}

// checker collects what is wrong, one line for each field. The checks run in
// the order of the fields.
type checker struct{ problems []string }

// add reports a field's problem and, unless it is nil, the value at fault.
func (c *checker) add(field string, value any, format string, args ...any) {
	line := field + ": " + fmt.Sprintf(format, args...)
	switch v := value.(type) {
	case nil:
	case string:
		line += " (" + strconv.Quote(shorten(v)) + ")"
	default:
		line += fmt.Sprintf(" (%v)", v)
	}
	c.problems = append(c.problems, line)
}

// err is a usage error with every problem on its own line, or nil.
func (c *checker) err(what string) error {
	switch len(c.problems) {
	case 0:
		return nil
	case 1:
		return exitcode.Usagef("%s: %s", what, c.problems[0])
	}
	return exitcode.Usagef("%s: %d values are wrong\n  %s", what, len(c.problems), strings.Join(c.problems, "\n  "))
}

func (c *checker) choice(field, value string) bool {
	return c.choiceOf(field, value, Choices(field))
}

func (c *checker) choiceOf(field, value string, allowed []string) bool {
	if !slices.Contains(allowed, value) {
		c.add(field, value, "must be one of %s", strings.Join(allowed, ", "))
		return false
	}
	return true
}

func (c *checker) atLeast(field string, value, low int) bool {
	if value < low {
		c.add(field, value, "must be %d or more", low)
		return false
	}
	return true
}

func (c *checker) between(field string, value, low, high int) bool {
	if value < low || value > high {
		c.add(field, value, "must be from %d to %d", low, high)
		return false
	}
	return true
}

// share checks that a value is in [0, 1].
func (c *checker) share(field string, value float64) bool {
	if !(value >= 0 && value <= 1) {
		c.add(field, value, "must be from 0 to 1")
		return false
	}
	return true
}

func (c *checker) positive(field string, value float64) {
	if !(value > 0) {
		c.add(field, value, "must be above 0")
	}
}

func (c *checker) notNegative(field string, value float64) {
	if !(value >= 0) {
		c.add(field, value, "must be 0 or more")
	}
}

// finite reports the numbers that no file can hold but a program can.
func (c *checker) finite(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.finite(v.Elem(), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			c.finite(v.Field(i), joinPath(path, yamlName(v.Type().Field(i))))
		}
	case reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			c.add(path, x, "must be finite")
		}
	}
}

// Validate checks every value and what values have to do with each other. It
// returns one usage error with a line "field: problem (value)" for each
// problem, in the order of the fields.
func (r *Recipe) Validate() error { return r.validate("recipe") }

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (r *Recipe) validate(what string) error {
	c := &checker{}
	if c.finite(reflect.ValueOf(r).Elem(), ""); len(c.problems) > 0 {
		return c.err(what) // comparisons with NaN would say nothing useful
	}
	if !namePattern.MatchString(r.Name) {
		c.add("name", r.Name, "must be 1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit")
	}
	c.choice("preset", r.Preset)
	r.checkPolicy(c)
	r.checkWarmStart(c)
	r.checkEnv(c)
	r.checkData(c)
	r.checkCurriculum(c)
	r.checkRollout(c)
	r.checkScore(c)
	r.checkAdvantage(c)
	r.checkFilters(c)
	r.checkLoss(c)
	checkOptimizer(c, "optimizer", r.Optimizer)
	r.checkSchedule(c)
	r.checkEvaluation(c)
	r.checkResources(c)
	return c.err(what)
}

func (r *Recipe) checkPolicy(c *checker) {
	c.choice("policy.backend", r.Policy.Backend)
	c.choice("policy.dtype", r.Policy.DType)
	n := r.Policy.New
	switch {
	case n == nil && r.Policy.Path == "":
		c.add("policy", nil, "names no policy: give policy.path or policy.new")
	case n != nil && r.Policy.Path != "":
		c.add("policy.path", r.Policy.Path, "must be empty when policy.new is given")
	}
	r.checkLoRA(c)
	if n == nil {
		return
	}
	const most = 1 << 20
	hidden := c.between("policy.new.hidden_size", n.HiddenSize, 1, most)
	c.between("policy.new.intermediate_size", n.IntermediateSize, 1, most)
	c.between("policy.new.num_hidden_layers", n.NumHiddenLayers, 1, 1024)
	heads := c.between("policy.new.num_attention_heads", n.NumAttentionHeads, 1, 1024)
	if heads && hidden {
		switch width := n.HiddenSize / n.NumAttentionHeads; {
		case n.HiddenSize%n.NumAttentionHeads != 0:
			c.add("policy.new.num_attention_heads", n.NumAttentionHeads, "must divide policy.new.hidden_size %d", n.HiddenSize)
		case width%2 != 0:
			c.add("policy.new.num_attention_heads", n.NumAttentionHeads,
				"gives heads of %d numbers; rotary positions need an even number", width)
		}
	}
	if c.between("policy.new.num_key_value_heads", n.NumKeyValueHeads, 1, 1024) && heads && n.NumAttentionHeads%n.NumKeyValueHeads != 0 {
		c.add("policy.new.num_key_value_heads", n.NumKeyValueHeads,
			"must divide policy.new.num_attention_heads %d", n.NumAttentionHeads)
	}
	c.between("policy.new.max_position_embeddings", n.MaxPositionEmbeddings, 2, most)
	c.positive("policy.new.rope_theta", n.RopeTheta)
	c.positive("policy.new.rms_norm_eps", n.RMSNormEps)
	c.positive("policy.new.initializer_range", n.InitializerRange)
	if n.InitializerRange > 1 {
		c.add("policy.new.initializer_range", n.InitializerRange, "must be at most 1")
	}
	if c.choice("policy.new.tokenizer", n.Tokenizer) && n.Tokenizer != "bytes" {
		fewest := 257 // bytes, and the end of a response
		if n.Tokenizer == "numbers" {
			fewest += 100 + 1000 // groups of two and of three digits
		}
		c.between("policy.new.vocab_size", n.VocabSize, fewest, most)
	}
	if r.Policy.Chat.AssistantSuffix == "" {
		c.add("policy.chat.assistant_suffix", nil, "must hold the token at which a response stops")
	}
}

func (r *Recipe) checkLoRA(c *checker) {
	l := r.Policy.LoRA
	if l == nil {
		return
	}
	c.between("policy.lora.rank", l.Rank, 1, 1<<14)
	c.positive("policy.lora.alpha", l.Alpha)
	if len(l.Targets) == 0 {
		c.add("policy.lora.targets", nil, "must name at least one projection")
	}
	for i, target := range l.Targets {
		if c.choice("policy.lora.targets", target) && slices.Contains(l.Targets[:i], target) {
			c.add("policy.lora.targets", target, "is named twice")
		}
	}
}

func (r *Recipe) checkWarmStart(c *checker) {
	w := r.WarmStart
	c.atLeast("warm_start.steps", w.Steps, 0)
	c.atLeast("warm_start.chunk", w.Chunk, 1)
	c.notNegative("warm_start.stop_loss", w.StopLoss)
	c.atLeast("warm_start.batch", w.Batch, 1)
	improve := c.share("warm_start.improve", w.Improve)
	if c.share("warm_start.diverge", w.Diverge) && improve && w.Improve+w.Diverge > 1 {
		c.add("warm_start.diverge", w.Diverge, "and warm_start.improve %v are more than 1 together", w.Improve)
	}
	checkOptimizer(c, "warm_start.optimizer", w.Optimizer)
}

var braced = regexp.MustCompile(`\{([a-z_]+)\}`)

var placeholders = []string{"instruction", "question", "previous_response"}

func (r *Recipe) checkEnv(c *checker) {
	if c.choice("env.name", r.Env.Name) {
		r.checkToolUse(c)
	}
	turns := c.atLeast("env.max_turns", r.Env.MaxTurns, 1)
	p := r.Env.Prompts
	template := func(name, text string, needs ...[]string) {
		field := "env.prompts." + name
		for _, alternatives := range needs {
			if !slices.ContainsFunc(alternatives, func(s string) bool { return strings.Contains(text, s) }) {
				c.add(field, text, "must contain %s", strings.Join(alternatives, " or "))
			}
		}
		for _, match := range braced.FindAllStringSubmatch(text, -1) {
			// Braces may mean something else, as in \boxed{answer}; only what
			// looks like a slip is refused.
			if near, ok := nearest(match[1], placeholders); ok && near != match[1] {
				c.add(field, text, "has %s; did you mean {%s}?", match[0], near)
			}
		}
	}
	previous := []string{"{previous_response}"}
	task := []string{"{instruction}", "{question}"}
	template("system", p.System)
	template("initial", p.Initial, []string{"{question}"})
	template("refine", p.Refine)
	if turns && r.Env.MaxTurns > 1 && strings.TrimSpace(p.Refine) == "" {
		c.add("env.prompts.refine", p.Refine, "must not be empty when env.max_turns is %d", r.Env.MaxTurns)
	}
	template("improve", p.Improve, task, previous)
	template("diverge", p.Diverge, task, previous)
	a := r.Env.Answer
	checkVerifier(c, a)
	if c.choice("env.answer.extract", a.Extract) && a.Extract == "marked" && a.Marker == "" {
		c.add("env.answer.marker", a.Marker, "must not be empty when env.answer.extract is marked")
	}
	if len(a.Worked) > 0 && a.Extract != "marked" && a.Extract != "boxed" {
		c.add("env.answer.worked", a.Worked, "needs env.answer.extract marked or boxed, or the steps would be read as a part of the answer")
	}
	c.between("env.answer.decimal_places", a.DecimalPlaces, 0, 30)
	if !(a.FormatReward >= 0 && a.FormatReward < 1) {
		c.add("env.answer.format_reward", a.FormatReward, "must be at least 0 and below 1, the reward of a correct answer")
	}
}

func (r *Recipe) checkData(c *checker) {
	if r.Data.Train.SkipRepeated {
		c.add("data.train.skip_repeated", true, "is for data.test")
	}
	if r.Env.Name == "tooluse" {
		return // checkToolUse has
	}
	checkSource(c, "data.train", r.Data.Train)
	checkSource(c, "data.test", r.Data.Test)
	train, test := r.Data.Train.Generate, r.Data.Test.Generate
	if train != nil && test != nil && train.TestShare != test.TestShare {
		c.add("data.test.generate.test_share", test.TestShare,
			"must equal data.train.generate.test_share %v, or the splits overlap", train.TestShare)
	}
}

func checkSource(c *checker, field string, s Source) {
	if s.Generate == nil && len(s.Files) == 0 {
		c.add(field, nil, "is empty: give %s.generate or %s.files, or both", field, field)
	}
	if g := s.Generate; g != nil {
		checkGenerate(c, field+".generate", g)
	}
	for i, file := range s.Files {
		if strings.TrimSpace(file) == "" {
			c.add(fmt.Sprintf("%s.files.%d", field, i), file, "must not be empty")
		}
	}
	if len(s.Files) > 0 {
		checkFields(c, field+".fields", s.Fields)
	}
	for i, f := range s.Filter {
		place := fmt.Sprintf("%s.filter.%d", field, i)
		if f.Field == "" {
			c.add(place+".field", nil, "must not be empty")
		}
		if len(f.In) == 0 {
			c.add(place+".in", nil, "must name at least one value, or no line is kept")
		}
	}
	c.atLeast(field+".limit", s.Limit, 0)
	c.atLeast(field+".max_bad", s.MaxBad, 0)
}

func checkGenerate(c *checker, field string, g *Generate) {
	if len(g.Kinds) == 0 {
		c.add(field+".kinds", nil, "must name at least one kind")
	}
	for i, kind := range g.Kinds {
		if c.choice(field+".kinds", kind) && slices.Contains(g.Kinds[:i], kind) {
			c.add(field+".kinds", kind, "is named twice")
		}
	}
	if len(g.Levels) == 0 {
		c.add(field+".levels", nil, "must name at least one level")
	}
	for i, level := range g.Levels {
		if c.between(field+".levels", level, 1, 9) && slices.Contains(g.Levels[:i], level) {
			c.add(field+".levels", level, "is named twice")
		}
	}
	c.atLeast(field+".count", g.Count, 1)
	if !(g.TestShare > 0 && g.TestShare < 1) {
		c.add(field+".test_share", g.TestShare, "must be above 0 and below 1")
	}
}

package warm

import (
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// specialToken is how a chat format names a token of its own.
var specialToken = lazyregexp.New(`<\|[^|>]+\|>`)

// InitPolicy writes a policy with random weights, as the recipe describes it,
// into a folder. A byte-pair tokenizer is trained on the training problems.
func InitPolicy(s Settings, environment env.Env, folder string) error {
	n := s.Policy.New
	made, tok, err := newChat(s.Policy, environment)
	if err != nil {
		return err
	}
	if err := tok.Save(folder, tokenizer.ChatFormat(s.Policy.Chat), n.MaxPositionEmbeddings); err != nil {
		return err
	}
	config := shape(*n, tok.Size())
	config.EOSTokenIDs = []int32{made.StopToken()}
	if err := config.Validate(); err != nil {
		return err
	}
	weights, err := policy.Init(config, s.Seed)
	if err != nil {
		return err
	}
	if s.Policy.DType == "bfloat16" {
		for i := range weights {
			weights[i].DType = safetensors.BF16
		}
	}
	return checkpoint.Save(folder, config, weights)
}

// Chat is the chat format of the policy that a run starts from, in a folder, or for an
// empty one made by the run itself, and the tokens of its longest sequence. It is nil where
// neither is known.
func Chat(p recipe.Policy, environment env.Env, folder string) (format chat.Chat, positions int, err error) {
	switch {
	case folder != "":
		config, err := checkpoint.LoadConfig(folder)
		if err != nil {
			return nil, 0, err
		}
		format, err = stage.LoadChat(p, folder)
		return format, config.MaxPositionEmbeddings, err
	case p.New != nil:
		c, _, err := newChat(p, environment)
		if err != nil {
			return nil, 0, err
		}
		return chat.House(c), p.New.MaxPositionEmbeddings, nil
	}
	return nil, 0, nil
}

// newChat makes the tokenizer and the chat format of a new policy.
func newChat(p recipe.Policy, environment env.Env) (*tokenizer.Chat, *tokenizer.Tokenizer, error) {
	format := tokenizer.ChatFormat(p.Chat)
	tok, err := newTokenizer(p, environment, format)
	if err != nil {
		return nil, nil, err
	}
	c, err := tokenizer.NewChat(tok, format)
	return c, tok, err
}

// Shape is that of the policy that a run makes for itself, with as large a vocabulary
// as its tokenizer may have: less where the training problems have too few words for it.
func Shape(p recipe.Policy) policy.Config {
	vocabulary := p.New.VocabSize
	if p.New.Tokenizer == "bytes" {
		vocabulary = 256 + len(specialTokens(tokenizer.ChatFormat(p.Chat)))
	}
	return shape(*p.New, vocabulary)
}

func shape(n recipe.NewPolicy, vocabulary int) policy.Config {
	c := policy.Config{
		Architecture: policy.Llama, VocabSize: vocabulary, HiddenSize: n.HiddenSize, IntermediateSize: n.IntermediateSize,
		NumHiddenLayers: n.NumHiddenLayers, NumAttentionHeads: n.NumAttentionHeads, NumKeyValueHeads: n.NumKeyValueHeads,
		HeadDim: n.HiddenSize / n.NumAttentionHeads, MaxPositionEmbeddings: n.MaxPositionEmbeddings,
		RMSNormEps: n.RMSNormEps, RopeTheta: n.RopeTheta, TieWordEmbeddings: n.TieWordEmbeddings,
		InitializerRange: n.InitializerRange, BOSTokenID: -1, QKVBias: n.QKVBias,
	}
	switch {
	case n.Rope == "none": // the one architecture that says so
		c.Architecture, c.OutputBias = policy.SmolLM3, n.QKVBias
		for range n.NumHiddenLayers {
			c.Layers = append(c.Layers, policy.Layer{Rope: policy.RopeNone})
		}
	case n.QKVBias:
		c.Architecture = policy.Qwen2
	}
	return c
}

// newTokenizer makes the tokenizer with the special tokens that the chat
// format names.
func newTokenizer(p recipe.Policy, environment env.Env, f tokenizer.ChatFormat) (*tokenizer.Tokenizer, error) {
	specials := specialTokens(f)
	roles := tokenizer.Roles{}
	if stops := specialToken().FindAllString(f.AssistantSuffix, -1); len(stops) > 0 {
		roles.EOS, roles.Pad = stops[0], stops[0]
	}
	switch p.New.Tokenizer {
	case "bytes":
		return tokenizer.NewBytes(specials, roles)
	case "bpe":
		return tokenizer.Train(trainingTexts(environment), p.New.VocabSize, specials, roles)
	case "numbers":
		return tokenizer.TrainNumbers(trainingTexts(environment), p.New.VocabSize, specials, roles)
	case "words":
		// What was never seen beside a digit is never merged with one.
		var texts []string
		digit := func(r rune) bool { return r >= '0' && r <= '9' }
		for _, task := range environment.Set().Tasks(env.Train) {
			texts = append(texts, strings.FieldsFunc(task.Question+"\n"+task.Answer, digit)...)
		}
		return tokenizer.Train(texts, p.New.VocabSize, specials, roles)
	}
	return nil, exitcode.Usagef("policy.new.tokenizer: %q is not bytes, bpe, words or numbers", p.New.Tokenizer)
}

// specialTokens are those that a chat format names, in order.
func specialTokens(f tokenizer.ChatFormat) []string {
	var names []string
	for _, text := range []string{f.SystemPrefix, f.SystemSuffix, f.UserPrefix, f.UserSuffix, f.AssistantPrefix, f.AssistantSuffix} {
		for _, name := range specialToken().FindAllString(text, -1) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// trainingTexts are what a tokenizer is trained on: what the environment says is
// like what the policy will write, else the problems.
func trainingTexts(environment env.Env) (texts []string) {
	if own := environment.Set().Texts; own != nil {
		if texts = own(); len(texts) > 0 {
			return texts
		}
	}
	for _, task := range environment.Set().Tasks(env.Train) {
		texts = append(texts, task.Question, task.Answer)
	}
	return texts
}

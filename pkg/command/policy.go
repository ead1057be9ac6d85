package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/env/choose"
	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

func policyCommand() *cli.Command {
	model := &cli.StringFlag{Name: "model", Usage: "policy `FOLDER` in Hugging Face layout"}
	threads := &cli.IntFlag{Name: "threads", Usage: "engine `THREADS`; 0 takes all"}
	return &cli.Command{
		Name: "policy", Usage: "make, inspect and question policy folders",
		Subcommands: []*cli.Command{
			{
				Name: "init", Usage: "write a policy with random weights, as a recipe describes it",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "recipe", Usage: "`RECIPE` with policy.new"},
					&cli.StringSliceFlag{Name: "set", Usage: "recipe setting `FIELD=VALUE`; may be repeated"},
					&cli.StringFlag{Name: "out", Usage: "`FOLDER` to write; it must not be there"},
				},
				Action: policyInit,
			},
			{
				Name: "inspect", Usage: "print the shape, size and digest of a policy",
				Flags:  []cli.Flag{model, &cli.BoolFlag{Name: "json", Usage: "print JSON"}},
				Action: policyInspect,
			},
			{
				Name: "generate", Usage: "answer prompts: lines on standard input, or --prompt",
				Flags: []cli.Flag{
					model, threads,
					&cli.StringFlag{Name: "prompt", Usage: "`TEXT` of one user message"},
					&cli.IntFlag{Name: "max-new-tokens", Value: 256},
					&cli.Float64Flag{Name: "temperature", Usage: "0 is greedy"},
					&cli.IntFlag{Name: "top-k"}, &cli.Float64Flag{Name: "top-p", Value: 1},
					&cli.Uint64Flag{Name: "seed", Value: 1}, &cli.IntFlag{Name: "samples", Value: 1},
					&cli.BoolFlag{Name: "json", Usage: "print one JSON object per response"},
				},
				Action: policyGenerate,
			},
			{
				Name: "logprobs", Usage: `log-probabilities: {"id","text"} or {"id","token_ids"} per line in, {"id","token_ids","logprobs","entropy"} out`,
				Flags:  []cli.Flag{model, threads},
				Action: policyLogprobs,
			},
		},
	}
}

func policyInit(c *cli.Context) error {
	values, err := need(c, "recipe", "out")
	if err != nil {
		return err
	}
	resolved, err := recipe.Load(values["recipe"], c.StringSlice("set"))
	if err != nil {
		return err
	}
	if resolved.Recipe.Policy.New == nil {
		return exit.Usagef("recipe %q names a policy folder: there is nothing to make", values["recipe"])
	}
	world, err := choose.New(&resolved.Recipe, filepath.Dir(resolved.Path))
	if err != nil {
		return err
	}
	if err := os.Mkdir(values["out"], 0o777); err != nil {
		if errors.Is(err, os.ErrExist) {
			return exit.Usagef("--out %q is there already", values["out"])
		}
		return err
	}
	if err := learn.InitPolicy(resolved.Recipe, world, values["out"]); err != nil {
		return err
	}
	digest, err := policy.Digest(values["out"])
	if err == nil {
		fmt.Fprintln(stdout, values["out"], digest)
	}
	return err
}

// inspection is what lathe policy inspect prints.
type inspection struct {
	Folder        string  `json:"folder"`
	Architecture  string  `json:"architecture"`
	Parameters    int     `json:"parameters"`
	VocabSize     int     `json:"vocab_size"`
	HiddenSize    int     `json:"hidden_size"`
	Layers        int     `json:"num_hidden_layers"`
	Heads         int     `json:"num_attention_heads"`
	KeyValueHeads int     `json:"num_key_value_heads"`
	MaxTokens     int     `json:"max_position_embeddings"`
	Tied          bool    `json:"tie_word_embeddings"`
	FLOPsPerToken float64 `json:"training_flops_per_token"` // at sequences of 1024 tokens
	WeightBytes   int     `json:"weight_bytes"`             // float32
	TrainBytes    int     `json:"train_bytes"`              // weights, gradients and both moments
	SHA256        string  `json:"model_sha256"`
}

// flopsAtTokens is the sequence length that inspect quotes FLOPs for.
const flopsAtTokens = 1024

func policyInspect(c *cli.Context) error {
	values, err := need(c, "model")
	if err != nil {
		return err
	}
	if err := checkPolicy(values["model"]); err != nil {
		return err
	}
	config, err := policy.LoadConfig(values["model"])
	if err != nil {
		return err
	}
	digest, err := policy.Digest(values["model"])
	if err != nil {
		return err
	}
	n := policy.ParameterCount(config)
	found := inspection{
		Folder: values["model"], Architecture: string(config.Architecture), Parameters: n, VocabSize: config.VocabSize,
		HiddenSize: config.HiddenSize, Layers: config.NumHiddenLayers, Heads: config.NumAttentionHeads,
		KeyValueHeads: config.NumKeyValueHeads, MaxTokens: config.MaxPositionEmbeddings, Tied: config.TieWordEmbeddings,
		FLOPsPerToken: policy.FLOPsPerToken(config, min(flopsAtTokens, config.MaxPositionEmbeddings)),
		WeightBytes:   4 * n, TrainBytes: 16 * n, SHA256: digest,
	}
	if c.Bool("json") {
		return writeJSON(stdout, found)
	}
	fmt.Fprintf(stdout, "%s: %s, %d parameters\n", found.Folder, found.Architecture, found.Parameters)
	fmt.Fprintf(stdout, "  %d layers, hidden %d, %d heads over %d, vocabulary %d, up to %d tokens, tied head: %v\n",
		found.Layers, found.HiddenSize, found.Heads, found.KeyValueHeads, found.VocabSize, found.MaxTokens, found.Tied)
	fmt.Fprintf(stdout, "  %.1f MB of weights in float32, %.1f MB to train, %.2f MFLOP per trained token\n",
		float64(found.WeightBytes)/1e6, float64(found.TrainBytes)/1e6, found.FLOPsPerToken/1e6)
	fmt.Fprintf(stdout, "  sha256 of model.safetensors %s\n", found.SHA256)
	return nil
}

// checkPolicy reports a folder that is not a policy at all.
func checkPolicy(folder string) error {
	for _, name := range []string{"config.json", "tokenizer.json"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return exit.WithHint(exit.Dataf("%q is not a policy folder: %w", folder, err),
				"a policy folder is in Hugging Face layout: config.json, model.safetensors, tokenizer.json")
		}
	}
	return nil
}

func openModel(c *cli.Context) (policy.Engine, *tokenizer.Chat, error) {
	values, err := need(c, "model")
	if err != nil {
		return nil, nil, err
	}
	if err := checkPolicy(values["model"]); err != nil {
		return nil, nil, err
	}
	chat, err := tokenizer.LoadChat(values["model"])
	if err != nil {
		return nil, nil, err
	}
	threads := c.Int("threads")
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	engine, err := backend.Open(values["model"], backend.Options{Backend: backend.Auto, Threads: threads})
	return engine, chat, err
}

// generated is one response as lathe policy generate prints it.
type generated struct {
	Prompt       string    `json:"prompt"`
	Sample       int       `json:"sample"`
	Response     string    `json:"response"`
	FinishReason string    `json:"finish_reason"`
	TokenIDs     []int32   `json:"token_ids"`
	LogProbs     []float32 `json:"logprobs"`
}

func policyGenerate(c *cli.Context) error {
	engine, chat, err := openModel(c)
	if err != nil {
		return err
	}
	defer engine.Close()
	prompts := []string{c.String("prompt")}
	if !c.IsSet("prompt") {
		if prompts, err = lines(os.Stdin); err != nil {
			return err
		}
	}
	var requests []policy.Request
	samples := max(1, c.Int("samples"))
	for i, prompt := range prompts {
		ids, _, err := chat.Render([]shard.Message{{Role: "user", Content: prompt}}, true)
		if err != nil {
			return err
		}
		for sample := range samples {
			requests = append(requests, policy.Request{
				Prompt: ids, MaxNewTokens: c.Int("max-new-tokens"), StopTokens: []int32{chat.StopToken()},
				Stream: rng.New(c.Uint64("seed"), rng.PurposeSample, 0, fmt.Sprintf("prompt-%d", i), sample),
				Sampling: policy.Sampling{
					Temperature: float32(c.Float64("temperature")), TopK: c.Int("top-k"), TopP: float32(c.Float64("top-p")),
				},
			})
		}
	}
	completions, err := engine.Generate(c.Context, requests)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(stdout)
	for i, completion := range completions {
		content := completion.TokenIDs
		if completion.FinishReason == policy.FinishStop && len(content) > 0 {
			content = content[:len(content)-1]
		}
		response := chat.Tokenizer().Decode(content)
		if !c.Bool("json") {
			fmt.Fprintln(stdout, response)
			continue
		}
		if err := encoder.Encode(generated{
			Prompt: prompts[i/samples], Sample: i % samples, Response: response, FinishReason: string(completion.FinishReason),
			TokenIDs: completion.TokenIDs, LogProbs: completion.LogProbs,
		}); err != nil {
			return err
		}
	}
	return nil
}

// maxLineBytes bounds a line of standard input.
const maxLineBytes = 16 << 20

func lines(r io.Reader) ([]string, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLineBytes)
	var out []string
	for scanner.Scan() {
		out = append(out, scanner.Text())
	}
	return out, scanner.Err()
}

// question is a line of lathe policy logprobs.
type question struct {
	ID       json.RawMessage `json:"id"`
	Text     *string         `json:"text"`
	TokenIDs []int32         `json:"token_ids"`
}

// answer is a line that it prints. The first token has no predecessor: null.
type answer struct {
	ID       json.RawMessage `json:"id"`
	TokenIDs []int32         `json:"token_ids"`
	LogProbs []*float32      `json:"logprobs"`
	Entropy  []*float32      `json:"entropy"`
}

func policyLogprobs(c *cli.Context) error {
	engine, chat, err := openModel(c)
	if err != nil {
		return err
	}
	defer engine.Close()
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(nil, maxLineBytes)
	encoder := json.NewEncoder(stdout)
	for number := 1; scanner.Scan(); number++ {
		var q question
		if err := json.Unmarshal(scanner.Bytes(), &q); err != nil {
			return exit.Dataf("standard input, line %d: %w", number, err)
		}
		ids := q.TokenIDs
		if q.Text != nil {
			ids = chat.Tokenizer().EncodeText(*q.Text)
		}
		if len(ids) == 0 || len(ids) > engine.Config().MaxPositionEmbeddings {
			return exit.Dataf("standard input, line %d: %d tokens; the policy takes 1 to %d", number, len(ids), engine.Config().MaxPositionEmbeddings)
		}
		a, err := logprobs(engine, ids)
		if err != nil {
			return fmt.Errorf("standard input, line %d: %w", number, err)
		}
		a.ID = q.ID
		if err := encoder.Encode(a); err != nil {
			return err
		}
	}
	return scanner.Err()
}

func logprobs(engine policy.Engine, ids []int32) (answer, error) {
	n := len(ids)
	batch := policy.Batch{TokenIDs: ids, Offsets: []int32{0, int32(n)}, Targets: make([]bool, n)}
	for i := 1; i < n; i++ {
		batch.Targets[i] = true
	}
	values, entropy := make([]float32, n), make([]float32, n)
	if err := engine.Forward(batch, policy.Sampling{Temperature: 1}, values, entropy); err != nil {
		return answer{}, err
	}
	a := answer{TokenIDs: ids, LogProbs: make([]*float32, n), Entropy: make([]*float32, n)}
	for i := 1; i < n; i++ {
		a.LogProbs[i], a.Entropy[i] = &values[i], &entropy[i]
	}
	return a, nil
}

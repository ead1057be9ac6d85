package command

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

func policyCommand() *cli.Command {
	model := &cli.StringFlag{Name: "model", Usage: "policy `FOLDER` in Hugging Face layout"}
	threads := &cli.IntFlag{Name: "threads", Usage: "engine `THREADS`; 0 takes all"}
	date := &cli.StringFlag{Name: "date", Usage: "`DATE` (2026-11-21) that the chat template's strftime_now tells; undefined otherwise"}
	out := &cli.StringFlag{Name: "out", Usage: "`FOLDER` to write; it must not be there"}
	dtype := &cli.StringFlag{Name: "dtype", Usage: "type of the weights, `float32|float16|bfloat16`; none keeps what they are"}
	return &cli.Command{
		Name: "policy", Usage: "make, inspect and question policy folders",
		Subcommands: []*cli.Command{
			{
				Name: "init", Usage: "write a policy with random weights, as a recipe or a config.json describes it",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "recipe", Usage: "`RECIPE` with policy.new"},
					&cli.StringSliceFlag{Name: "set", Usage: "recipe setting `FIELD=VALUE`; may be repeated"},
					&cli.StringFlag{Name: "config", Usage: "config.json `FILE`, or the folder that it is in, whose tokenizer files are copied"},
					&cli.Uint64Flag{Name: "seed", Usage: "of the weights; with --recipe the recipe's when left out", Value: 1},
					dtype, out,
				},
				Action: policyInit,
			},
			{
				Name: "inspect", Usage: "print the shape, size, memory, work and digest of a policy",
				Flags: []cli.Flag{
					model, &cli.BoolFlag{Name: "json", Usage: "print JSON"},
					&cli.StringFlag{Name: "gpu", Usage: "plan the memory of a GPU with so much free: `BYTES|auto`, as 80e9, 80GB or 75GiB; auto asks the GPU of this host"},
					&cli.StringFlag{Name: "recipe", Usage: "`RECIPE` whose settings --gpu plans for; none plans for full training in the policy's own type"},
					&cli.StringSliceFlag{Name: "set", Usage: "recipe setting `FIELD=VALUE`; may be repeated"},
					&cli.IntFlag{Name: "tokens", Usage: "`TOKENS` of the longest sequence that is learned from; 0 for as many as the policy takes"},
				},
				Action: policyInspect,
			},
			{
				Name: "convert", Usage: "write a policy's weights in another type, or in other files",
				Flags: []cli.Flag{
					model, dtype, out,
					&cli.Int64Flag{Name: "max-file-mb", Usage: "cut the weights into files of at most so many `MB`; 0 for one file"},
				},
				Action: policyConvert,
			},
			{
				Name: "merge", Usage: "write a whole policy: an adapter's base with the adapter in its matrices",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "model", Usage: "adapter `FOLDER` as PEFT's"},
					&cli.StringFlag{Name: "base", Usage: "policy `FOLDER` that it adapts; none takes the one that it names"},
					out,
				},
				Action: policyMerge,
			},
			{
				Name: "diff", Usage: "compare the weights of two policies", ArgsUsage: "FOLDER FOLDER",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "json", Usage: "print JSON"},
					&cli.BoolFlag{Name: "exit-code", Usage: "exit with 1 when they differ"},
				},
				Action: policyDiff,
			},
			generateCommand(model, threads, date),
			{
				Name: "render", Usage: `apply the chat template: {"id","messages","tools"} per line in, {"id","text","token_ids","assistant_mask"} out`,
				Flags: []cli.Flag{
					model, date,
					&cli.BoolFlag{Name: "add-generation-prompt", Usage: "open the assistant's next message"},
					&cli.BoolFlag{Name: "spell-out", Usage: "encode the names of special tokens in messages as text, as training does"},
				},
				Action: policyRender,
			},
			{
				Name: "logprobs", Usage: `log-probabilities: {"id","text"} or {"id","token_ids"} per line in, {"id","token_ids","logprobs","entropy"} out`,
				Flags:  append([]cli.Flag{model, threads}, textFlags()...),
				Action: policyLogprobs,
			},
			tokenizeCommand(model),
		},
	}
}

// model is the folder that --model names.
func model(c *cli.Context) (string, error) {
	values, err := need(c, "model")
	if err != nil {
		return "", err
	}
	return values["model"], checkPolicy(values["model"])
}

func openEngine(c *cli.Context, folder string, workload policy.Workload) (policy.Engine, error) {
	threads, err := threadsOf(c)
	if err != nil {
		return nil, err
	}
	return backend.Open(folder, backend.Options{Backend: backend.Auto, Threads: threads, Workload: workload, Log: talk("lathe")})
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
	folder, err := model(c)
	if err != nil {
		return err
	}
	text, err := tokenizer.Load(folder)
	if err != nil {
		return err
	}
	engine, err := openEngine(c, folder, policy.Workload{})
	if err != nil {
		return err
	}
	defer engine.Close()
	encode := textEncoder(c, text)
	return answerer{answer: func(line []byte) (any, error) {
		var q question
		if err := decode(line, &q, false); err != nil {
			return nil, err
		}
		// Tokens count before the text beside them, which need not encode to
		// them: a sampled response, or a line of lathe policy render.
		ids := q.TokenIDs
		if ids == nil && q.Text != nil {
			ids = encode(*q.Text)
		}
		if most := engine.Config().MaxPositionEmbeddings; len(ids) == 0 || len(ids) > most {
			return nil, fmt.Errorf("%d tokens; the policy takes 1 to %d", len(ids), most)
		}
		a, err := logprobs(engine, ids)
		a.ID = q.ID
		return a, err
	}}.run(standardInput(c), stdout)
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

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/jsonlines"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// PolicyLogprobsOptions are those of lathe policy logprobs.
type PolicyLogprobsOptions struct {
	Model   string // folder
	Threads int    // of the engine; 0 is all
	TextOptions
}

func policyLogprobsCommand() *cli.Command {
	var o PolicyLogprobsOptions
	return cmdline.Help{
		Example: `echo '{"id": 1, "text": "hqcaxtbnze=hcaqtbnxez"}' | lathe policy logprobs --model runs/quickstart/policy/v000000`,
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "logprobs", Usage: `compute log-probabilities: reads lines of {"id","text"} or {"id","token_ids"}, prints {"id","token_ids","logprobs","entropy"}`,
		Flags:  append([]cli.Flag{modelFlag(&o.Model), cmdline.ThreadsFlag(&o.Threads)}, o.TextOptions.flags()...),
		Action: cmdline.NoArguments(func(c *cli.Context) error { return PolicyLogprobs(c.Context, c.App.Reader, c.App.Writer, o) }),
	})
}

// question is a line of lathe policy logprobs. One of lathe policy render may be
// piped in, whose mask is not used.
type question struct {
	ID       json.RawMessage `json:"id"`
	Text     *string         `json:"text"`
	TokenIDs []int32         `json:"token_ids"`
	Mask     json.RawMessage `json:"assistant_mask"`
}

// answer is a line that it prints. The first token has no predecessor: null.
type answer struct {
	ID       json.RawMessage `json:"id"`
	TokenIDs []int32         `json:"token_ids"`
	LogProbs []*float32      `json:"logprobs"`
	Entropy  []*float32      `json:"entropy"`
}

// PolicyLogprobs computes the log-probabilities of the tokens of each line of
// the input.
func PolicyLogprobs(ctx context.Context, in io.Reader, out io.Writer, o PolicyLogprobsOptions) error {
	if err := checkModel(o.Model); err != nil {
		return err
	}
	text, err := tokenizer.Load(o.Model)
	if err != nil {
		return err
	}
	engine, err := openEngine(o.Model, o.Threads, policy.Workload{})
	if err != nil {
		return err
	}
	defer engine.Close()
	encode := o.encoder(text)
	return jsonlines.Answerer{Answer: func(line []byte) (any, error) {
		var q question
		if err := plainjson.Strict(line, &q); err != nil {
			return nil, err
		}
		// Tokens count before the text beside them, which need not encode to
		// them: a sampled response, or a line of lathe policy render.
		ids := q.TokenIDs
		if ids == nil && q.Text != nil {
			ids = encode(*q.Text)
		}
		if most := engine.Config().MaxPositionEmbeddings; len(ids) == 0 || len(ids) > most {
			return nil, fmt.Errorf("got %d tokens, want 1 to %d", len(ids), most)
		}
		a, err := logprobs(engine, ids)
		a.ID = q.ID
		return a, err
	}}.Run(jsonlines.NewReader(ctx, in), out)
}

func logprobs(engine policy.Scorer, ids []int32) (answer, error) {
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

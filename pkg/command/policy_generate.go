package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/jsonlines"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stopstring"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// PolicyGenerateOptions are those of lathe policy generate.
type PolicyGenerateOptions struct {
	Model        string   // folder
	Threads      int      // of the engine; 0 is all
	Date         string   // that the chat template tells, as 2026-11-21; empty is none
	Prompts      []string // none reads them from the input
	JSONLines    bool     // a line of the input is a JSON object
	System       string   // message before each prompt; empty is none
	Chat, Text   bool     // prompts are messages, or beginnings of texts; neither: as the policy has a chat format
	MaxNewTokens int
	Stop         []string // texts that end a response
	IncludeStop  bool     // a response ends with its stop text
	Temperature  float64  // 0 is greedy
	TopK         int      // 0 keeps all tokens
	TopP         float64  // in (0, 1]; 1 keeps all tokens
	Seed         uint64
	Samples      int  // responses to each prompt
	Stream       bool // print text as it is sampled
	JSON         bool // a JSON object for each response
}

func policyGenerateCommand() *cli.Command {
	var o PolicyGenerateOptions
	return cmdline.Help{
		Example: "echo 'hqcaxtbnze=' | lathe policy generate --model runs/quickstart/policy/v000000 --temperature 1 --samples 4",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name:  "generate",
		Usage: "sample responses to prompts from --prompt or standard input, one per line",
		Flags: []cli.Flag{
			modelFlag(&o.Model), cmdline.ThreadsFlag(&o.Threads), dateFlag(&o.Date),
			cmdline.ListFlag("prompt", "prompt `TEXT`; may be repeated", &o.Prompts),
			&cli.StringFlag{Name: "system", Usage: "put a system message `TEXT` before each prompt", Destination: &o.System},
			&cli.BoolFlag{Name: "chat", Usage: "treat prompts as user messages; default if the policy has a chat format", Destination: &o.Chat},
			&cli.BoolFlag{Name: "text", Usage: "treat prompts as the beginnings of texts", Destination: &o.Text},
			&cli.BoolFlag{Name: "jsonl", Usage: `read lines of {"id","text"} or {"id","messages","tools","chat_template_kwargs"}; a final assistant message is continued; implies --json`, Destination: &o.JSONLines},
			&cli.IntFlag{Name: "max-new-tokens", Value: 256, Usage: "maximum number of tokens per response", Destination: &o.MaxNewTokens},
			cmdline.ListFlag("stop", "end a response at `TEXT`; may be repeated", &o.Stop),
			&cli.BoolFlag{Name: "include-stop", Usage: "keep the stop text at the end of the response", Destination: &o.IncludeStop},
			&cli.Float64Flag{Name: "temperature", Usage: "sampling temperature; 0 is greedy", Destination: &o.Temperature},
			&cli.IntFlag{Name: "top-k", Usage: "sample from the `K` most probable tokens; 0 keeps all", Destination: &o.TopK},
			&cli.Float64Flag{Name: "top-p", Value: 1, Usage: "sample from the most probable tokens with total probability `P`; 1 keeps all", Destination: &o.TopP},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "random seed; a response depends on the seed, the prompt's position and the sample's number", Destination: &o.Seed},
			&cli.IntFlag{Name: "samples", Value: 1, Usage: "responses per prompt", Destination: &o.Samples},
			&cli.BoolFlag{Name: "stream", Usage: "print text as it is sampled, one response after the other; default for one response in a terminal", Destination: &o.Stream},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object per response", Destination: &o.JSON},
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error { return PolicyGenerate(c.Context, c.App.Reader, c.App.Writer, o) }),
	})
}

// generated is one response as lathe policy generate prints it.
type generated struct {
	ID           json.RawMessage `json:"id,omitempty"` // with --jsonl
	Prompt       string          `json:"prompt,omitempty"`
	Sample       int             `json:"sample"`
	Response     string          `json:"response"`
	FinishReason string          `json:"finish_reason"`
	StopString   string          `json:"stop_string,omitempty"`
	TokenIDs     []int32         `json:"token_ids"`
	LogProbs     []float32       `json:"logprobs"`
}

// prompt is what is answered.
type prompt struct {
	ID   json.RawMessage `json:"id"`
	Text *string         `json:"text"`
	templated
	conversation chat.Conversation // that is templated; of no message for a text
	place        string            // where it was given; empty for the one prompt of a command line
}

// fault says which prompt an error is about.
func (p prompt) fault(err error) error {
	if p.place == "" {
		return err
	}
	return jsonlines.FaultAt(p.place, err)
}

// faultOfRequest says which prompt an error of a call is about, whose requests
// are those from first on: whoever gave the prompts knows of no requests.
func faultOfRequest(prompts []prompt, samples, first int, err error) error {
	var fault *policy.RequestError
	if errors.As(err, &fault) {
		return prompts[(first+fault.Index)/samples].fault(fault.Err)
	}
	return err
}

// PolicyGenerate samples responses to prompts.
func PolicyGenerate(ctx context.Context, in io.Reader, out io.Writer, o PolicyGenerateOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := checkModel(o.Model); err != nil {
		return err
	}
	format, err := o.openFormat()
	if err != nil {
		return err
	}
	prompts, err := o.readPrompts(jsonlines.NewReader(ctx, in))
	if err != nil {
		return err
	}
	engine, err := openEngine(o.Model, o.Threads, policy.Workload{Generate: true})
	if err != nil {
		return err
	}
	defer engine.Close()
	if format.chat == nil {
		format.stopTokens = engine.Config().EOSTokenIDs
	}
	requests, err := o.requests(format, prompts)
	if err != nil {
		return err
	}
	asJSON := o.JSON || o.JSONLines
	if o.Stream || !asJSON && len(requests) == 1 && cmdline.IsTerminal(out) {
		for i := range requests {
			if _, _, err := format.answer(ctx, engine, requests[i:i+1], out); err != nil {
				return faultOfRequest(prompts, o.Samples, i, err)
			}
			fmt.Fprintln(out)
		}
		return nil
	}
	completions, texts, err := format.answer(ctx, engine, requests, io.Discard)
	if err != nil {
		return faultOfRequest(prompts, o.Samples, 0, err)
	}
	encoder := json.NewEncoder(out)
	for i, completion := range completions {
		p, text := prompts[i/o.Samples], texts[i]
		if !asJSON {
			fmt.Fprintln(out, text.response())
			continue
		}
		line := generated{
			ID: p.ID, Sample: i % o.Samples, Response: text.response(), FinishReason: string(completion.FinishReason),
			StopString: text.match.Stop, TokenIDs: completion.TokenIDs, LogProbs: completion.LogProbs,
		}
		if p.Text != nil {
			line.Prompt = *p.Text
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// check refuses invalid options, before any prompt is read.
func (o PolicyGenerateOptions) check() error {
	for _, pair := range []struct {
		a, b string
		both bool
	}{
		{"chat", "text", o.Chat && o.Text},
		{"text", "system", o.Text && o.System != ""},
		{"stream", "json", o.Stream && o.JSON},
		{"stream", "jsonl", o.Stream && o.JSONLines},
		{"jsonl", "prompt", o.JSONLines && len(o.Prompts) > 0},
	} {
		if pair.both {
			return cmdline.Misusef("--%s and --%s exclude each other", pair.a, pair.b)
		}
	}
	if p := o.TopP; !(float32(p) > 0 && p <= 1) {
		return exitcode.Usagef("--top-p: got %g, want above 0 and at most 1 (1 keeps all)", p)
	}
	if err := o.sampling().Validate(); err != nil {
		return err
	}
	return cmp.Or(
		cmdline.AtLeast(1, "samples", o.Samples), cmdline.AtLeast(1, "max-new-tokens", o.MaxNewTokens),
		cmdline.AtLeast(0, "top-k", o.TopK), cmdline.AtLeast(0, "threads", o.Threads),
	)
}

func (o PolicyGenerateOptions) sampling() policy.Sampling {
	return policy.Sampling{Temperature: float32(o.Temperature), TopK: o.TopK, TopP: float32(o.TopP)}
}

// requests are those of the prompts' samples, prompt by prompt.
func (o PolicyGenerateOptions) requests(format *textFormat, prompts []prompt) ([]policy.Request, error) {
	var requests []policy.Request
	for i, p := range prompts {
		ids, err := format.tokens(p)
		if err != nil {
			return nil, p.fault(err)
		}
		request := policy.Request{Prompt: ids, MaxNewTokens: o.MaxNewTokens, StopTokens: format.stopTokens, Sampling: o.sampling()}
		for sample := range o.Samples {
			request.Stream = rng.New(o.Seed, rng.PurposeSample, 0, fmt.Sprintf("prompt-%d", i), sample)
			requests = append(requests, request)
		}
	}
	return requests, nil
}

// readPrompts lists the prompts of the options or of the input.
func (o PolicyGenerateOptions) readPrompts(in *jsonlines.Reader) ([]prompt, error) {
	var prompts []prompt
	if len(o.Prompts) > 0 {
		for i, text := range o.Prompts {
			prompts = append(prompts, prompt{Text: &text, place: fmt.Sprintf("--prompt %d", i+1)})
		}
		if len(prompts) == 1 {
			prompts[0].place = ""
		}
		return prompts, nil
	}
	read := readTextPrompt
	if o.JSONLines {
		read = readJSONPrompt
	}
	for {
		p, err := read(in)
		switch {
		case err == io.EOF:
			return prompts, nil
		case errors.Is(err, jsonlines.ErrLong):
			return nil, in.Fault(err)
		case err != nil:
			return nil, err
		}
		p.place = in.Place()
		prompts = append(prompts, p)
	}
}

// readTextPrompt reads a prompt that is a line; an empty one, too.
func readTextPrompt(in *jsonlines.Reader) (prompt, error) {
	line, err := in.Line()
	text := string(line)
	return prompt{Text: &text}, err
}

// readJSONPrompt reads a prompt that is written in JSON.
func readJSONPrompt(in *jsonlines.Reader) (prompt, error) {
	var p prompt
	line, err := in.Next()
	if err != nil {
		return p, err
	}
	if err := plainjson.Strict(line, &p); err != nil {
		return p, in.Fault(aboutVariables(err))
	}
	if p.Text == nil && len(p.Messages) > 0 {
		if p.conversation, err = p.read(); err != nil {
			return p, in.Fault(err)
		}
	}
	if (p.Text == nil) == (len(p.conversation.Messages) == 0) {
		return p, in.Fault(errors.New(`want either "text" or "messages"`))
	}
	if p.Text != nil && (len(p.Messages) > 0 || len(p.Tools) > 0 || len(p.Variables) > 0) {
		return p, in.Fault(errors.New(`"messages", "tools" and "chat_template_kwargs" do not go with "text"`))
	}
	return p, nil
}

// textFormat turns prompts into tokens, and tokens into responses.
type textFormat struct {
	tokenizer   *tokenizer.Tokenizer
	chat        chat.Chat // nil for texts
	system      string
	stopTokens  []int32
	stops       *stopstring.Set
	includeStop bool
}

// openFormat reads what a policy's folder says about text.
func (o PolicyGenerateOptions) openFormat() (*textFormat, error) {
	date, err := parseDate(o.Date)
	if err != nil {
		return nil, err
	}
	stops, err := stopstring.New(o.Stop)
	if err != nil {
		return nil, exitcode.Usagef("--stop: %w", err)
	}
	f := &textFormat{system: o.System, stops: stops, includeStop: o.IncludeStop}
	if !o.Text {
		f.chat, err = chat.Load(o.Model, date)
		switch {
		case err == nil:
			f.tokenizer, f.stopTokens = f.chat.Tokenizer(), f.chat.StopTokens()
			return f, nil
		case o.System != "" || o.Chat || !errors.Is(err, chat.ErrNone):
			return nil, err
		}
		f.chat = nil
	}
	f.tokenizer, err = tokenizer.Load(o.Model)
	return f, err
}

// tokens returns a prompt's tokens.
func (f *textFormat) tokens(p prompt) ([]int32, error) {
	if f.chat == nil {
		if p.Text == nil {
			return nil, exitcode.Dataf("\"messages\" need a policy with a chat format, and no --text")
		}
		return f.tokenizer.WithSpecial(f.tokenizer.Encode(*p.Text)), nil
	}
	c := p.conversation
	if p.Text != nil {
		c = chat.FromMessages([]shard.Message{{Role: "user", Content: *p.Text}})
	}
	if err := f.chat.Check(c); err != nil {
		return nil, err
	}
	if f.system != "" {
		c.Messages = append(chat.FromMessages([]shard.Message{{Role: "system", Content: f.system}}).Messages, c.Messages...)
	}
	// What the assistant has begun to say is gone on with.
	role, _ := c.Messages[len(c.Messages)-1].Get("role")
	begun := role == "assistant"
	r, err := f.chat.Render(c, chat.RenderOptions{GenerationPrompt: !begun, ContinueFinal: begun, SpellOut: true})
	return r.TokenIDs, err
}

// answer samples, and writes what of the text is certain as it comes.
func (f *textFormat) answer(ctx context.Context, engine policy.Sampler, requests []policy.Request, out io.Writer) ([]policy.Completion, []*detokenizer, error) {
	texts := make([]*detokenizer, len(requests))
	for i := range requests {
		d := &detokenizer{decoder: f.tokenizer.NewDecoder(), matcher: f.stops.Matcher(), include: f.includeStop, out: out}
		texts[i], requests[i].Watch = d, d.watch
	}
	completions, err := engine.Generate(ctx, requests)
	for _, d := range texts {
		d.close()
	}
	return completions, texts, err
}

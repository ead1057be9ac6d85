package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stopstring"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

func generateCommand(model, threads, date cli.Flag) *cli.Command {
	return &cli.Command{
		Name:  "generate",
		Usage: "answer prompts: --prompt, or standard input, a prompt per line",
		Flags: []cli.Flag{
			model, threads, date,
			&cli.StringSliceFlag{Name: "prompt", Usage: "`TEXT` to answer; may be repeated"},
			&cli.StringFlag{Name: "system", Usage: "`TEXT` of a system message before each prompt"},
			&cli.BoolFlag{Name: "chat", Usage: "prompts are user messages: so it is where the policy has a chat format"},
			&cli.BoolFlag{Name: "text", Usage: "prompts are the beginnings of texts"},
			&cli.BoolFlag{Name: "jsonl", Usage: `lines are {"id","text"} or {"id","messages"}; implies --json`},
			&cli.IntFlag{Name: "max-new-tokens", Value: 256, Usage: "bound on the tokens of a response"},
			&cli.StringSliceFlag{Name: "stop", Usage: "end a response at `TEXT`; may be repeated"},
			&cli.BoolFlag{Name: "include-stop", Usage: "leave the stop text at the end of the response"},
			&cli.Float64Flag{Name: "temperature", Usage: "0 is greedy"},
			&cli.IntFlag{Name: "top-k", Usage: "sample from the `K` most probable tokens; 0 keeps all"},
			&cli.Float64Flag{Name: "top-p", Value: 1, Usage: "sample from the most probable tokens with the mass `P`; 1 keeps all"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the samples: a prompt's place, the sample's number and the seed make a response"},
			&cli.IntFlag{Name: "samples", Value: 1, Usage: "responses to each prompt"},
			&cli.BoolFlag{Name: "stream", Usage: "print text as it is sampled, one response after the other; so it is for one response in a terminal"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object per response"},
		},
		Action: policyGenerate,
	}
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

// asked is one prompt.
type asked struct {
	ID       json.RawMessage `json:"id"`
	Text     *string         `json:"text"`
	Messages []shard.Message `json:"messages"`
	place    string          // where it was asked; empty for the one prompt of a command line
}

// fault says which prompt an error is about.
func (p asked) fault(err error) error {
	if p.place == "" {
		return err
	}
	return faultAt(p.place, err)
}

// faultOfRequest says which prompt an error of a call is about, whose requests
// are those from first on: whoever asked knows of no requests.
func faultOfRequest(prompts []asked, samples, first int, err error) error {
	var fault *policy.RequestError
	if errors.As(err, &fault) {
		return prompts[(first+fault.Index)/samples].fault(fault.Err)
	}
	return err
}

// speaker turns prompts into tokens, and tokens into responses.
type speaker struct {
	tokenizer   *tokenizer.Tokenizer
	chat        chat.Chat // nil for texts
	system      string
	stopTokens  []int32
	stops       *stopstring.Set
	includeStop bool
}

func policyGenerate(c *cli.Context) error {
	if err := generateFlags(c); err != nil {
		return err
	}
	folder, err := model(c)
	if err != nil {
		return err
	}
	s, err := openSpeaker(c, folder)
	if err != nil {
		return err
	}
	prompts, err := readPrompts(c)
	if err != nil {
		return err
	}
	engine, err := openEngine(c, folder, policy.Workload{Generate: true})
	if err != nil {
		return err
	}
	defer engine.Close()
	if s.chat == nil {
		s.stopTokens = engine.Config().EOSTokenIDs
	}
	sampling := policy.Sampling{
		Temperature: float32(c.Float64("temperature")), TopK: c.Int("top-k"), TopP: float32(c.Float64("top-p")),
	}
	if err := sampling.Validate(); err != nil {
		return err
	}
	var requests []policy.Request
	samples := c.Int("samples")
	for i, prompt := range prompts {
		ids, err := s.prompt(prompt)
		if err != nil {
			return prompt.fault(err)
		}
		request := policy.Request{Prompt: ids, MaxNewTokens: c.Int("max-new-tokens"), StopTokens: s.stopTokens, Sampling: sampling}
		for sample := range samples {
			request.Stream = rng.New(c.Uint64("seed"), rng.PurposeSample, 0, fmt.Sprintf("prompt-%d", i), sample)
			requests = append(requests, request)
		}
	}
	asJSON := c.Bool("json") || c.Bool("jsonl")
	if c.Bool("stream") || !asJSON && len(requests) == 1 && isTerminal(os.Stdout) {
		for i := range requests {
			if _, _, err := s.answer(c, engine, requests[i:i+1], stdout); err != nil {
				return faultOfRequest(prompts, samples, i, err)
			}
			fmt.Fprintln(stdout)
		}
		return nil
	}
	completions, listeners, err := s.answer(c, engine, requests, io.Discard)
	if err != nil {
		return faultOfRequest(prompts, samples, 0, err)
	}
	encoder := json.NewEncoder(stdout)
	for i, completion := range completions {
		prompt, listener := prompts[i/samples], listeners[i]
		if !asJSON {
			fmt.Fprintln(stdout, listener.response())
			continue
		}
		line := generated{
			ID: prompt.ID, Sample: i % samples, Response: listener.response(), FinishReason: string(completion.FinishReason),
			StopString: listener.match.Stop, TokenIDs: completion.TokenIDs, LogProbs: completion.LogProbs,
		}
		if prompt.Text != nil {
			line.Prompt = *prompt.Text
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// generateFlags refuses what cannot be meant, before any prompt is read.
func generateFlags(c *cli.Context) error {
	err := exclusive(c, [2]string{"chat", "text"}, [2]string{"text", "system"}, [2]string{"stream", "json"},
		[2]string{"stream", "jsonl"}, [2]string{"jsonl", "prompt"})
	if err != nil {
		return err
	}
	if err := atLeast(c, 1, "samples", "max-new-tokens"); err != nil {
		return err
	}
	if p := c.Float64("top-p"); !(float32(p) > 0 && p <= 1) {
		return exitcode.Usagef("--top-p is %g; it must be above 0 and at most 1, which keeps all", p)
	}
	return atLeast(c, 0, "top-k", "threads")
}

// openSpeaker reads what a policy's folder says about text.
func openSpeaker(c *cli.Context, folder string) (*speaker, error) {
	date, err := dateFlag(c)
	if err != nil {
		return nil, err
	}
	stops, err := stopstring.New(c.StringSlice("stop"))
	if err != nil {
		return nil, exitcode.Usagef("--stop: %w", err)
	}
	s := &speaker{system: c.String("system"), stops: stops, includeStop: c.Bool("include-stop")}
	if !c.Bool("text") {
		s.chat, err = chat.Load(folder, date)
		switch {
		case err == nil:
			s.tokenizer, s.stopTokens = s.chat.Tokenizer(), s.chat.StopTokens()
			return s, nil
		case c.IsSet("system") || c.Bool("chat") || !errors.Is(err, chat.ErrNone):
			return nil, err
		}
		s.chat = nil
	}
	s.tokenizer, err = tokenizer.Load(folder)
	return s, err
}

// readPrompts lists the prompts of the command line or of standard input.
func readPrompts(c *cli.Context) ([]asked, error) {
	var prompts []asked
	if c.IsSet("prompt") {
		for i, text := range c.StringSlice("prompt") {
			prompts = append(prompts, asked{Text: &text, place: fmt.Sprintf("--prompt %d", i+1)})
		}
		if len(prompts) == 1 {
			prompts[0].place = ""
		}
		return prompts, nil
	}
	in := standardInput(c)
	read := readPrompt
	if c.Bool("jsonl") {
		read = readAsked
	}
	for {
		p, err := read(in)
		switch {
		case err == io.EOF:
			return prompts, nil
		case errors.Is(err, errLongLine):
			return nil, in.fault(err)
		case err != nil:
			return nil, err
		}
		p.place = in.place()
		prompts = append(prompts, p)
	}
}

// readPrompt reads a prompt that is a line; an empty one, too.
func readPrompt(in *lineInput) (asked, error) {
	line, err := in.line()
	text := string(line)
	return asked{Text: &text}, err
}

// readAsked reads a prompt that is written in JSON.
func readAsked(in *lineInput) (asked, error) {
	var p asked
	line, err := in.next()
	if err != nil {
		return p, err
	}
	if err := decode(line, &p, true); err != nil {
		return p, in.fault(err)
	}
	if (p.Text == nil) == (len(p.Messages) == 0) {
		return p, in.fault(errors.New(`want either "text" or "messages"`))
	}
	return p, nil
}

// prompt returns a prompt's tokens.
func (s *speaker) prompt(p asked) ([]int32, error) {
	if s.chat == nil {
		if p.Text == nil {
			return nil, exitcode.Dataf("messages are asked about, but the policy has no chat format, or --text is set")
		}
		return s.tokenizer.WithSpecial(s.tokenizer.Encode(*p.Text)), nil
	}
	messages := p.Messages
	if p.Text != nil {
		messages = []shard.Message{{Role: "user", Content: *p.Text}}
	}
	if s.system != "" {
		messages = append([]shard.Message{{Role: "system", Content: s.system}}, messages...)
	}
	return s.chat.Prompt(messages)
}

// answer samples, and writes what of the text is certain as it comes.
func (s *speaker) answer(c *cli.Context, engine policy.Engine, requests []policy.Request, out io.Writer) ([]policy.Completion, []*listener, error) {
	listeners := make([]*listener, len(requests))
	for i := range requests {
		l := &listener{decoder: s.tokenizer.NewDecoder(), matcher: s.stops.Matcher(), include: s.includeStop, out: out}
		listeners[i], requests[i].Watch = l, l.watch
	}
	completions, err := engine.Generate(c.Context, requests)
	for _, l := range listeners {
		l.close()
	}
	return completions, listeners, err
}

// listener puts the text of one response together, token by token. The stop
// token that ends a response does not come to its ears.
type listener struct {
	decoder *tokenizer.Decoder
	matcher *stopstring.Matcher
	include bool
	out     io.Writer

	text    strings.Builder
	shown   int // bytes of the text that were written
	match   stopstring.Match
	stopped bool
}

func (l *listener) watch(response []int32) (stop bool) {
	l.hear(l.decoder.Write(response[len(response)-1]))
	return l.stopped
}

func (l *listener) hear(part string) {
	l.text.WriteString(part)
	if l.match, l.stopped = l.matcher.Write(part); !l.stopped {
		l.show(l.text.Len() - l.matcher.Held())
	}
}

// close ends the text.
func (l *listener) close() {
	if !l.stopped {
		l.hear(l.decoder.Flush())
	}
	l.show(len(l.response()))
}

// response is the text up to the stop string, or with it.
func (l *listener) response() string {
	switch {
	case !l.stopped:
		return l.text.String()
	case l.include:
		return l.text.String()[:l.match.End]
	}
	return l.text.String()[:l.match.Start]
}

// show writes the text up to a byte.
func (l *listener) show(end int) {
	if end > l.shown {
		fmt.Fprint(l.out, l.text.String()[l.shown:end])
		l.shown = end
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

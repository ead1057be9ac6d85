package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The servers whose extensions of the interface are known.
const (
	VLLM     = "vllm"
	SGLang   = "sglang"
	LlamaCpp = "llama.cpp"
	OpenAI   = "openai" // none: standard fields only
)

// The interfaces of a server.
const (
	Completions = "completions" // token ids go in
	Chat        = "chat"        // messages go in, the server renders them
)

// The distributions whose log-probabilities a server may report.
const (
	LogProbsRaw       = "raw"       // of the logits, before temperature, top-k and top-p
	LogProbsProcessed = "processed" // of the distribution that was sampled from
	LogProbsNone      = "none"      // not to be looked at
)

// Text is the part of a tokenizer that answers without token ids need.
type Text interface {
	Encode(text string) []int32 // names of special tokens mean the tokens
	Decode(ids []int32) string
}

// Options say which server is asked and how patiently.
type Options struct {
	URL    string // http://host:port; a /v1 at its end is left out
	Server string // VLLM, SGLang, LlamaCpp or OpenAI
	API    string // Completions or Chat
	Key    string // sent as a bearer token; empty for none

	Section string // of the recipe, for messages; empty for rollout.remote

	PassEnvironment []string // names of variables that a server that is started gets, beside the usual ones

	// Model is the name to ask for. Empty asks the server which of its models
	// is Folder, and refuses a server that serves none such.
	Model  string
	Folder string // of the policy

	Concurrency int           // requests under way at a time
	Timeout     time.Duration // of one try
	Deadline    time.Duration // of everything from Open on; 0 for none
	Retries     int           // tries after the first
	Backoff     time.Duration // before the first retry; doubles up to longestBackoff
	Ready       time.Duration // how long the server may take until it serves
	LogProbs    string        // LogProbsRaw, LogProbsProcessed or LogProbsNone

	Config    policy.Config // of the policy
	Tokenizer Text
	Log       func(format string, args ...any)
	Transport http.RoundTripper // nil for our own
}

// Turn asks for one continuation. Stop tokens, Stream and Sampling mean what
// they mean to an engine, except that a server draws with a seed of its own
// made from the stream: the same server, started the same way, may give the
// same answer again, and nothing depends on it.
type Turn struct {
	policy.Request
	Messages []shard.Message // for Chat; the prompt's tokens are what they render to
	// StopStrings end a response after the token that completes one of them. A
	// server that cannot keep that token (see the package's comment) is not told
	// and samples on; Watch finds the end then.
	StopStrings []string
}

// Reply is the answer to a turn.
type Reply struct {
	policy.Completion // LogProbs is nil when the server gave none that can be used
	// Retokenized says that the server gave text alone: the token ids are
	// those of our tokenizer, which need not be those that were sampled.
	Retokenized bool
	Tries       int
	// Failed says why there is no answer although every try was made; the
	// completion is then empty. It is the server's failure, not the policy's.
	Failed error
}

// Client asks one server. It is safe for one Generate at a time.
type Client struct {
	o       Options
	http    *http.Client
	base    string
	model   string // the name that the server knows the policy by
	longest int    // tokens of prompt and response together
	until   time.Time
}

// Open waits until the server is ready and serves the policy. alive, unless
// nil, says why a server that this process started has ended.
func Open(ctx context.Context, o Options, alive func() error) (*Client, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	c.longest = o.Config.MaxPositionEmbeddings
	if o.Deadline > 0 {
		c.until = time.Now().Add(o.Deadline)
	}
	if alive == nil {
		alive = func() error { return nil }
	}
	if err := c.waitUntilReady(ctx, alive); err != nil {
		c.http.CloseIdleConnections()
		return nil, err
	}
	return c, nil
}

// newClient asks nothing yet.
func newClient(o Options) (*Client, error) {
	c := &Client{o: o}
	var err error
	if c.base, err = baseURL(o.URL, c.section()); err != nil {
		return nil, err
	}
	transport := o.Transport
	if transport == nil {
		transport = newTransport(o.Concurrency)
	}
	c.http = &http.Client{
		Transport: transport,
		// A POST that is redirected arrives as a GET, or at a server that
		// nobody named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// section is where the settings of the server stand in a recipe.
func (c *Client) section() string { return cmp.Or(c.o.Section, "rollout.remote") }

// Longest is the number of tokens that a prompt and its response may have
// together: the policy's own bound, or the server's if that is lower.
func (c *Client) Longest() int { return c.longest }

// Close gives the connections back.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Generate asks for every turn and returns the replies in their order. An
// error means that no reply can be had: the server refuses what it is asked,
// or ctx is over.
func (c *Client) Generate(ctx context.Context, turns []Turn) ([]Reply, error) {
	if !c.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, c.until, errDeadline)
		defer cancel()
	}
	replies := make([]Reply, len(turns))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, c.o.Concurrency))
	for i := range turns {
		group.Go(func() (err error) {
			replies[i], err = c.ask(ctx, turns[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("sampling from %s: %w", c.base, err)
	}
	return replies, nil
}

// baseURL checks a URL and leaves its end out.
func baseURL(url, section string) (string, error) {
	base := strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(url), "/"), "/v1")
	scheme, rest, ok := strings.Cut(base, "://")
	if config.HasUserinfo(base) {
		// Not repeated: a password is in it.
		return "", exitcode.WithHint(exitcode.Usagef("the server's address contains a user or a password"), "put the key into an environment variable and name the variable in %s.api_key_env", section)
	}
	if !ok || (scheme != "http" && scheme != "https") || rest == "" || strings.ContainsAny(rest, " \t\n?#") {
		return "", exitcode.Usagef("the server's address %q is not of the form http://HOST:PORT", url)
	}
	return base, nil
}

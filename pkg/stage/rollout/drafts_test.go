package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stopstring"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// plainChat is a conversation's texts, one character each token, with a stop token of its own.
type plainChat struct {
	chat.Chat
	of *tokenizer.Tokenizer
}

const stopToken = 256

func (c plainChat) Tokenizer() *tokenizer.Tokenizer { return c.of }
func (c plainChat) StopTokens() []int32             { return []int32{stopToken} }
func (c plainChat) Prompt(conversation []shard.Message) ([]int32, error) {
	return c.of.Encode(texts(conversation)), nil
}

// scribe answers each prompt with its last letter's successor, and fails where that is f. It
// notes what it was asked, one line for each call.
type scribe struct {
	of    *tokenizer.Tokenizer
	asked []string
}

func (s *scribe) Longest() int { return 8 }
func (s *scribe) Close() error { return nil }

func (s *scribe) Generate(_ context.Context, turns []remote.Turn) ([]remote.Reply, error) {
	var prompts []string
	replies := make([]remote.Reply, len(turns))
	for i, turn := range turns {
		prompt := s.of.Decode(turn.Request.Prompt)
		prompts = append(prompts, prompt)
		next := prompt[len(prompt)-1] + 1
		if replies[i].Tries = 1; next == 'f' {
			replies[i].Failed = errors.New("down")
			continue
		}
		ids := append(s.of.Encode(string(next)), stopToken)
		replies[i].Completion = policy.Completion{TokenIDs: ids, LogProbs: make([]float32, len(ids)), FinishReason: policy.FinishStop}
	}
	s.asked = append(s.asked, strings.Join(prompts, "|"))
	return replies, nil
}

// improver shows a draft behind what was asked.
type improver struct{ *scriptedSide }

func (improver) Prompt(_ env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	if kind != shard.KindImprove || parent.Messages[0].Content == "bad" {
		return nil, errors.New("no such prompt")
	}
	return []shard.Message{asks(texts(parent.Messages))}, nil
}

// TestDrafts: each trace is shown its draft as often as its attempt asks, beside others that ask
// for more. A draft stays where the improvement has no room, and a failure where it failed.
// The policy says the successor of the last letter, so "a" is answered by b, and "a b" by c.
// A prompt of 8 tokens has no room.
func TestDrafts(t *testing.T) {
	t.Parallel()
	of := must.Get(tokenizer.NewBytes([]string{"<stop>"}, tokenizer.Roles{}))(t)
	none := must.Get(stopstring.New(nil))(t)
	for name, c := range map[string]struct {
		prompts string // of the traces
		drafts  []int
		asked   string // calls by /
		said    string // in the end, by |
		drafted []int  // tokens
		fails   string
	}{
		"one":                 {"a", []int{1}, "a/a b", "a c", []int{4}, ""},
		"two":                 {"a", []int{2}, "a/a b/a b c", "a d", []int{6}, ""},
		"a shorter in front":  {"a|a", []int{1, 2}, "a|a/a b|a b/a b c", "a c|a d", []int{4, 6}, ""},
		"no room at last":     {"a", []int{3}, "a/a b/a b c/a b c d", "a e", []int{8}, ""},
		"no room for another": {"12a", []int{3}, "12a/12a b/12a b c", "12a d", []int{6}, ""},
		"no room at all":      {"1234567a|a", []int{1, 1}, "a/a b", "1234567a|a c", []int{0, 4}, ""},
		"fails at once":       {"e|a", []int{1, 1}, "e|a/a b", "e|a c", []int{0, 4}, "down"},
		"fails later":         {"d|a", []int{2, 2}, "d|a/d e|a b/a b c", "d|a d", []int{2, 6}, "down"},
		"no prompt":           {"bad", []int{1}, "bad", "bad", []int{2}, "no such prompt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			generator := &scribe{of: of}
			s := &Sampler{Chat: plainChat{of: of}, generator: generator, own: shard.LogProbsEngine, stops: none, turns: 9, context: func(longest int) int { return longest }}
			stream := func(int, int) rng.Stream { return rng.Stream{} }
			var traces []*Trace
			for i, prompt := range strings.Split(c.prompts, "|") {
				trace := &Trace{Stream: stream, DraftStream: func(int, int, int) rng.Stream { return rng.Stream{} }, MaxNewTokens: []int{2}, drafts: c.drafts[i]}
				trace.begin(shard.KindInitial, []shard.Message{asks(prompt)})
				traces = append(traces, trace)
			}
			err := s.generateMessages(t.Context(), improver{&scriptedSide{}}, traces)
			var said []string
			for i, trace := range traces {
				said = append(said, texts(trace.last().messages))
				if trace.last().drafted != c.drafted[i] && err == nil {
					t.Errorf("trace %d has %d tokens of drafts, want %d", i, trace.last().drafted, c.drafted[i])
				}
				if err == nil {
					err = trace.last().failed
				}
			}
			failure := ""
			if err != nil {
				failure = err.Error()
			}
			if asked := strings.Join(generator.asked, "/"); asked != c.asked || strings.Join(said, "|") != c.said || failure != c.fails {
				t.Errorf("asked %q, said %q, error %q; want %q, %q, %q", asked, said, failure, c.asked, c.said, c.fails)
			}
		})
	}
}

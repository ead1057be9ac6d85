package remote

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

func emptyCompletion() policy.Completion { return policy.Completion{FinishReason: policy.FinishLength} }

// read makes a reply of an answer, if it is one to this turn. What the server
// says twice must agree, and what it says of lengths must be so.
func (c *Client) read(turn Turn, body []byte) (Reply, *fault) {
	wrong := func(format string, args ...any) *fault {
		return &fault{err: fmt.Errorf("unusable answer: "+format, args...)}
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return Reply{}, wrong("it is incomplete or has an unexpected form: %w", err)
	}
	switch {
	case a.Choices.n < 1:
		return Reply{}, wrong("got 0 responses, want 1")
	case a.Choices.n > 1:
		return Reply{}, wrong("got 2 responses or more, want 1")
	}
	chosen := a.Choices.first
	if failed := c.checkPrompt(turn, a); failed != nil {
		return Reply{}, failed
	}
	ids, values, err := c.tokens(a)
	if err != nil {
		return Reply{}, wrong("%w", err)
	}
	reply := Reply{}
	if ids == nil {
		if reply.TokenIDs, err = c.retokenize(turn, chosen); err != nil {
			return Reply{}, &fault{err: err, permanent: exitcode.Code(err) != exitcode.Failed}
		}
		reply.Retokenized = true
	} else if reply.TokenIDs, err = narrowIDs(ids, c.o.Config.VocabSize); err != nil {
		return Reply{}, wrong("%w", err)
	}
	if !reply.Retokenized && values != nil {
		if reply.LogProbs, err = narrow(values); err != nil {
			return Reply{}, wrong("%w", err)
		}
	}
	if !c.comparable(turn.Sampling) {
		reply.LogProbs = nil
	}
	if err := c.finish(turn, chosen, &reply); err != nil {
		return Reply{}, wrong("%w", err)
	}
	return reply, nil
}

// checkPrompt makes sure that the server continued our prompt. A server that
// renders messages to other tokens does so every time.
func (c *Client) checkPrompt(turn Turn, a answer) *fault {
	echoed := a.Choices.first.PromptTokenIDs
	if echoed == nil {
		echoed = a.PromptTokenIDs
	}
	other := func(format string, args ...any) *fault {
		err := exitcode.Dataf("%s continued a different prompt than the one sent: "+format, append([]any{c.base}, args...)...)
		return &fault{err: exitcode.WithHint(err, "with rollout.remote.api completions, Lathe sends token ids and the server applies no template"), permanent: true}
	}
	if echoed != nil {
		for i := range min(len(echoed), len(turn.Prompt)) {
			if echoed[i] != int64(turn.Prompt[i]) {
				return other("token %d is %d, want %d", i, echoed[i], turn.Prompt[i])
			}
		}
		if len(echoed) != len(turn.Prompt) {
			return other("it has %d tokens, want %d", len(echoed), len(turn.Prompt))
		}
	}
	if a.Usage != nil && a.Usage.PromptTokens != nil && *a.Usage.PromptTokens != len(turn.Prompt) {
		return other("it counts %d tokens, want %d", *a.Usage.PromptTokens, len(turn.Prompt))
	}
	return nil
}

// tokens finds the ids of the response, nil when the server does not say
// them, and their log-probabilities, nil when it does not say those.
func (c *Client) tokens(a answer) (ids []int64, values []*float64, err error) {
	chosen := a.Choices.first
	tokens, ids, values, err := chosen.LogProbs.unpack()
	if err != nil {
		return nil, nil, err
	}
	if ids == nil {
		ids, _ = spelledIDs(tokens)
	}
	claimed := -1
	if a.Usage != nil && a.Usage.CompletionTokens != nil {
		claimed = *a.Usage.CompletionTokens
	}
	if chosen.TokenIDs == nil {
		if ids != nil && c.o.Server == LlamaCpp && len(ids) < claimed {
			return nil, nil, nil // it leaves tokens out that end inside a character
		}
	} else {
		if ids != nil && !slices.Equal(ids, chosen.TokenIDs) {
			return nil, nil, fmt.Errorf("its tokens %v differ from those beside the log-probabilities, %v", chosen.TokenIDs, ids)
		}
		ids = chosen.TokenIDs
	}
	if ids == nil {
		return nil, nil, nil
	}
	if values != nil && len(values) != len(ids) {
		return nil, nil, fmt.Errorf("it has %d tokens but %d log-probabilities", len(ids), len(values))
	}
	if claimed >= 0 && claimed != len(ids) {
		return nil, nil, fmt.Errorf("it has %d tokens but counts %d", len(ids), claimed)
	}
	return ids, values, nil
}

// retokenize gives the tokens of a response that came as text alone.
func (c *Client) retokenize(turn Turn, chosen choice) ([]int32, error) {
	var text string
	switch m := chosen.Message; {
	case m != nil && (m.Reasoning != "" || m.ReasoningContent != ""):
		return nil, exitcode.WithHint(exitcode.Unavailablef("%s removes the reasoning from the response and returns no token ids, so the sampled tokens are unknown", c.base),
			"start the server without a reasoning parser")
	case m != nil && bool(m.ToolCalls):
		return nil, exitcode.WithHint(exitcode.Unavailablef("%s removes tool calls from the response and returns no token ids, so the sampled tokens are unknown", c.base),
			"start the server without a tool-call parser")
	case m != nil && m.Content != nil:
		text = *m.Content
	case chosen.Text != nil:
		text = *chosen.Text
	default:
		return nil, fmt.Errorf("unusable answer: it has neither token ids nor text")
	}
	// A server may or may not repeat the name of the stop token.
	for _, stop := range turn.StopTokens {
		text = strings.TrimSuffix(text, c.o.Tokenizer.Decode([]int32{stop}))
	}
	ids := c.o.Tokenizer.Encode(text)
	if chosen.FinishReason == string(policy.FinishStop) && !atStopString(turn, chosen) {
		if len(turn.StopTokens) == 0 {
			return nil, fmt.Errorf("unusable answer: it was stopped, but the request has no stop condition")
		}
		ids = append(ids, turn.StopTokens[0])
	}
	if room := c.maxTokens(turn.Request); len(ids) > room {
		// Our tokens are more than those that were sampled: the rest is cut
		// off, as it would have been had they been sampled.
		ids = ids[:room]
	}
	return ids, nil
}

// finish settles how the response ended.
func (c *Client) finish(turn Turn, chosen choice, reply *Reply) error {
	room := c.maxTokens(turn.Request)
	if len(reply.TokenIDs) > room {
		return fmt.Errorf("it has %d tokens, want at most %d", len(reply.TokenIDs), room)
	}
	ends := func(id int32) bool { return slices.Contains(turn.StopTokens, id) }
	if at := slices.IndexFunc(reply.TokenIDs, ends); at >= 0 && at < len(reply.TokenIDs)-1 {
		return fmt.Errorf("token %d is a stop token, but %d more follow", at, len(reply.TokenIDs)-1-at)
	}
	stopped := len(reply.TokenIDs) > 0 && ends(reply.TokenIDs[len(reply.TokenIDs)-1])
	switch chosen.FinishReason {
	case "stop":
		if stopped {
			break
		}
		if atStopString(turn, chosen) {
			stopped = true
			break
		}
		if reply.Retokenized { // the stop token fell to the cut
			break
		}
		id, named := stopToken(chosen)
		switch {
		case named && ends(id) && len(reply.TokenIDs) < room:
			// It stopped at one of ours and left it out, with what it knew of it.
			reply.TokenIDs, reply.LogProbs, stopped = append(reply.TokenIDs, id), nil, true
		case len(reply.TokenIDs) > 0 && slices.Contains(c.o.Config.EOSTokenIDs, reply.TokenIDs[len(reply.TokenIDs)-1]):
			stopped = true // the policy's own end of text
		default:
			return fmt.Errorf("it was stopped, but its last token is not a stop token of the chat format")
		}
	case "length":
		if len(reply.TokenIDs) == 0 {
			return fmt.Errorf("it was cut off after 0 tokens")
		}
		if !stopped && !reply.Retokenized && len(reply.TokenIDs) < room {
			return fmt.Errorf("it was cut off after %d of %d tokens: the server's own limit is lower", len(reply.TokenIDs), room)
		}
	default:
		return fmt.Errorf("it ended with the reason %q", chosen.FinishReason)
	}
	reply.FinishReason = policy.FinishLength
	if stopped {
		reply.FinishReason = policy.FinishStop
	}
	watch(turn, reply)
	return nil
}

// watch ends the response where the request's watcher would have: a server
// cannot ask it, and samples on.
func watch(turn Turn, reply *Reply) {
	if turn.Watch == nil {
		return
	}
	for n := 1; n <= len(reply.TokenIDs); n++ {
		if !turn.Watch(reply.TokenIDs[:n:n]) {
			continue
		}
		reply.TokenIDs, reply.FinishReason = reply.TokenIDs[:n], policy.FinishStop
		if reply.LogProbs != nil {
			reply.LogProbs = reply.LogProbs[:n]
		}
		return
	}
}

// atStopString reports whether a server says that it stopped at a stop string
// that it was told of. Whether the response holds one is for those to see who
// look for it, as they do in every response.
func atStopString(turn Turn, chosen choice) bool {
	var stop string
	for _, raw := range []json.RawMessage{chosen.StopReason, chosen.MatchedStop} {
		if json.Unmarshal(raw, &stop) == nil && slices.Contains(turn.StopStrings, stop) {
			return true
		}
	}
	return false
}

// stopToken is the token that a server says it stopped at.
func stopToken(chosen choice) (id int32, named bool) {
	for _, raw := range []json.RawMessage{chosen.StopReason, chosen.MatchedStop} {
		if json.Unmarshal(raw, &id) == nil && len(raw) > 0 && string(raw) != "null" {
			return id, true
		}
	}
	return 0, false
}

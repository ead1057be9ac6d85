package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// answer is what the servers say, in all their dialects.
type answer struct {
	Choices        choices `json:"choices"`
	Usage          *usage  `json:"usage"`
	PromptTokenIDs []int64 `json:"prompt_token_ids"` // vLLM, chat
}

// choices is a list of which the first is read: one was asked for. A choice takes
// a hundred times the memory of an empty one's text.
type choices struct {
	first choice
	n     int // in the list; 2 also for more
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *choices) UnmarshalJSON(text []byte) error {
	list := json.NewDecoder(bytes.NewReader(text))
	opening, err := list.Token()
	if err != nil || opening == nil { // null is none
		return err
	}
	if opening != json.Delim('[') {
		return errors.New("choices: want a list")
	}
	if !list.More() {
		return nil
	}
	c.n = 1
	if err := list.Decode(&c.first); err != nil {
		return err
	}
	if list.More() {
		c.n = 2
	}
	return nil
}

type usage struct {
	PromptTokens     *int `json:"prompt_tokens"`
	CompletionTokens *int `json:"completion_tokens"`
}

type choice struct {
	Text           *string         `json:"text"`    // completions
	Message        *chatMessage    `json:"message"` // chat
	FinishReason   string          `json:"finish_reason"`
	StopReason     json.RawMessage `json:"stop_reason"`  // vLLM: a stop token's id or a stop string
	MatchedStop    json.RawMessage `json:"matched_stop"` // SGLang: the same
	TokenIDs       []int64         `json:"token_ids"`
	PromptTokenIDs []int64         `json:"prompt_token_ids"`
	LogProbs       *logProbs       `json:"logprobs"`
}

type chatMessage struct {
	Content          *string `json:"content"`
	Reasoning        string  `json:"reasoning"`         // vLLM
	ReasoningContent string  `json:"reasoning_content"` // SGLang, llama.cpp, older vLLM
	ToolCalls        some    `json:"tool_calls"`
}

// some reports whether a list has anything in it.
type some bool

// UnmarshalJSON implements [json.Unmarshaler].
func (s *some) UnmarshalJSON(text []byte) error {
	list := json.NewDecoder(bytes.NewReader(text))
	opening, err := list.Token()
	*s = opening == json.Delim('[') && some(list.More())
	return err
}

// logProbs is in the form of completions (two lists) or of chat (a list of
// records), which llama.cpp uses for both.
type logProbs struct {
	Tokens        []string   `json:"tokens"`
	TokenLogProbs []*float64 `json:"token_logprobs"`
	Content       []struct {
		ID      *int64   `json:"id"` // llama.cpp
		Token   string   `json:"token"`
		LogProb *float64 `json:"logprob"`
	} `json:"content"`
}

// unpack gives tokens and log-probabilities in one form.
func (l *logProbs) unpack() (tokens []string, ids []int64, values []*float64, err error) {
	if l == nil {
		return nil, nil, nil, nil
	}
	if len(l.Content) == 0 {
		if len(l.Tokens) != len(l.TokenLogProbs) {
			return nil, nil, nil, fmt.Errorf("it has %d tokens with %d log-probabilities", len(l.Tokens), len(l.TokenLogProbs))
		}
		return l.Tokens, nil, l.TokenLogProbs, nil
	}
	for _, item := range l.Content {
		tokens, values = append(tokens, item.Token), append(values, item.LogProb)
		if item.ID != nil {
			ids = append(ids, *item.ID)
		}
	}
	if len(ids) != 0 && len(ids) != len(tokens) {
		return nil, nil, nil, fmt.Errorf("it has %d tokens but ids of only %d", len(tokens), len(ids))
	}
	return tokens, ids, values, nil
}

// tokenIDPrefix starts a token that vLLM gives as its id because it was asked
// to (return_tokens_as_token_ids).
const tokenIDPrefix = "token_id:"

// spelledIDs reads tokens of the form token_id:N. ok is false when any is of
// another form.
func spelledIDs(tokens []string) (ids []int64, ok bool) {
	for _, token := range tokens {
		digits, is := strings.CutPrefix(token, tokenIDPrefix)
		id, err := strconv.ParseInt(digits, 10, 64)
		if !is || err != nil {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, len(ids) > 0
}

// The bounds of a log-probability that can be used. It may be above 0 by
// rounding, ours included, more so in half precision; vLLM says -9999 and llama.cpp
// the lowest float32 for a probability of 0, which no sampled token has.
const (
	highestLogProb = 1e-3
	lowestLogProb  = -9998
)

// narrow checks log-probabilities. It returns nil, and no error, when any is
// unknown to the server.
func narrow(values []*float64) ([]float32, error) {
	out := make([]float32, len(values))
	for i, v := range values {
		switch {
		case v == nil || *v < lowestLogProb:
			return nil, nil
		case math.IsNaN(*v) || *v > highestLogProb:
			return nil, fmt.Errorf("the log-probability of token %d is %g", i, *v)
		}
		out[i] = float32(*v)
	}
	return out, nil
}

// narrowIDs checks that ids are in a vocabulary.
func narrowIDs(ids []int64, vocabulary int) ([]int32, error) {
	out := make([]int32, len(ids))
	for i, id := range ids {
		if id < 0 || id >= int64(vocabulary) {
			return nil, fmt.Errorf("token %d has the id %d; the policy has ids up to %d", i, id, vocabulary-1)
		}
		out[i] = int32(id)
	}
	return out, nil
}

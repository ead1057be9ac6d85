package remote

import (
	"maps"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// An engine draws the token at position p with the number p of a request's
// stream, and no sequence has 2^62 tokens: what lies beyond is free.
const (
	seedPosition  = uint64(1) << 62 // plus the length of the prompt
	retryPosition = uint64(1) << 63 // plus the number of the try
)

// seedOf is the seed of a request: 31 bits, which every server takes, and not
// llama.cpp's 0xFFFFFFFF, which means a random one.
func seedOf(stream rng.Stream, promptTokens int) int64 {
	return int64(stream.Uint64(seedPosition+uint64(promptTokens)) >> 33)
}

// message is a message of the chat interface.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func messagesOf(conversation []shard.Message) []message {
	messages := make([]message, len(conversation))
	for i, m := range conversation {
		messages[i] = message{m.Role, m.Content}
	}
	return messages
}

// body is what is posted for a turn.
func (c *Client) body(turn Turn) map[string]any {
	sampling := turn.Sampling
	body := map[string]any{
		"model": c.model, "n": 1, "stream": false, "max_tokens": c.maxTokens(turn.Request),
		"temperature": sampling.Temperature, "top_p": topP(sampling), "seed": seedOf(turn.Stream, len(turn.Prompt)),
		"presence_penalty": 0, "frequency_penalty": 0,
	}
	if c.o.API == Chat {
		body["messages"] = messagesOf(turn.Messages)
	} else {
		body["prompt"] = turn.Prompt
	}
	c.askForLogProbs(body)
	switch c.o.Server {
	case VLLM:
		maps.Copy(body, map[string]any{
			"top_k": topK(sampling, -1), "min_p": 0, "repetition_penalty": 1,
			"stop_token_ids": turn.StopTokens, "skip_special_tokens": false, "spaces_between_special_tokens": false,
			"return_token_ids": true, "return_tokens_as_token_ids": true,
		})
		if len(turn.StopStrings) > 0 {
			maps.Copy(body, map[string]any{"stop": turn.StopStrings, "include_stop_str_in_output": true})
		}
	case SGLang:
		maps.Copy(body, map[string]any{
			"top_k": topK(sampling, -1), "min_p": 0, "repetition_penalty": 1,
			"stop_token_ids": turn.StopTokens, "skip_special_tokens": false, "no_stop_trim": true,
			"return_token_ids": true,
		})
		if len(turn.StopStrings) > 0 {
			maps.Copy(body, map[string]any{"stop": turn.StopStrings})
		}
	case LlamaCpp:
		maps.Copy(body, map[string]any{
			"top_k": topK(sampling, 0), "min_p": 0, "repeat_penalty": 1,
			// By default top-p comes before the temperature, and more besides.
			"samplers": []string{"temperature", "top_k", "top_p"},
		})
	}
	return body
}

// askForLogProbs asks for the log-probability of each sampled token. llama.cpp
// says the token ids in the same place.
func (c *Client) askForLogProbs(body map[string]any) {
	switch {
	case c.o.LogProbs == LogProbsNone && c.o.Server != LlamaCpp:
	case c.o.API == Chat:
		body["logprobs"] = true
		if c.o.Server == LlamaCpp {
			body["top_logprobs"] = 1
		}
	case c.o.Server == VLLM || c.o.Server == SGLang:
		body["logprobs"] = 0
	default:
		body["logprobs"] = 1
	}
}

// maxTokens bounds a response as an engine would: by the request, and by the
// longest sequence.
func (c *Client) maxTokens(r policy.Request) int {
	return min(r.MaxNewTokens, c.longest-len(r.Prompt))
}

func topP(s policy.Sampling) float32 {
	if s.TopP <= 0 || s.TopP > 1 {
		return 1
	}
	return s.TopP
}

// topK is the number of tokens kept; all is what a server calls all of them.
func topK(s policy.Sampling, all int) int {
	if s.TopK <= 0 {
		return all
	}
	return s.TopK
}

// comparable reports whether log-probabilities of the server are of the
// distribution that an engine would have sampled from.
func (c *Client) comparable(s policy.Sampling) bool {
	switch c.o.LogProbs {
	case LogProbsProcessed:
		return true
	case LogProbsRaw:
		// Greedy sampling reports log-probabilities at temperature 1.
		plain := s.TopK <= 0 && topP(s) == 1
		return s.Temperature == 0 || s.Temperature == 1 && plain
	}
	return false
}

package remote

import (
	"math"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
)

// byteText is a tokenizer whose ids are bytes.
type byteText struct{}

func (byteText) Encode(text string) []int32 {
	ids := make([]int32, len(text))
	for i := range len(text) {
		ids[i] = int32(text[i])
	}
	return ids
}

func (byteText) Decode(ids []int32) string {
	text := make([]byte, len(ids))
	for i, id := range ids {
		text[i] = byte(id)
	}
	return string(text)
}

// FuzzAnswer: whatever a server says, what is taken from it keeps the contract
// of a completion.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"index":0,"text":"ab","finish_reason":"stop","stop_reason":10,"token_ids":[97,98,10],"prompt_token_ids":[1,2],"logprobs":{"tokens":["token_id:97","token_id:98","token_id:10"],"token_logprobs":[-1,-2,-0.5],"text_offset":[0,1,2],"top_logprobs":[]}}],"usage":{"prompt_tokens":2,"completion_tokens":3}}`,
		`{"choices":[{"index":0,"text":"ab","finish_reason":"length","matched_stop":null,"token_ids":[97,98,99,100],"logprobs":{"tokens":["a","b","c","d"],"token_logprobs":[-1,null,-3,-4]}}],"usage":{"prompt_tokens":2,"completion_tokens":4}}`,
		`{"choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"finish_reason":"stop","logprobs":{"content":[{"id":97,"token":"a","logprob":-1},{"id":10,"token":"","logprob":-2}]}}],"usage":{"prompt_tokens":2,"completion_tokens":2}}`,
		`{"choices":[{"text":"héllo","finish_reason":"length"}],"usage":null}`,
		`{"prompt_token_ids":[1,2],"choices":[{"message":{"content":null,"reasoning_content":"x"},"finish_reason":"tool_calls"}]}`,
	} {
		f.Add([]byte(seed))
	}
	turn := Turn{Request: policy.Request{Prompt: []int32{1, 2}, MaxNewTokens: 4, StopTokens: []int32{10}, Sampling: policy.Sampling{Temperature: 1}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, server := range []string{VLLM, LlamaCpp} {
			c := &Client{
				o:       Options{Server: server, LogProbs: LogProbsRaw, Tokenizer: byteText{}, Config: policy.Config{VocabSize: 256, EOSTokenIDs: []int32{11}}},
				longest: 100,
			}
			reply, failed := c.read(turn, body)
			if failed != nil {
				continue
			}
			if n := len(reply.TokenIDs); n > 4 || n == 0 && !reply.Retokenized || reply.LogProbs != nil && len(reply.LogProbs) != n {
				t.Fatalf("%+v", reply)
			}
			for i, id := range reply.TokenIDs {
				if id < 0 || id > 255 || id == 10 && i < len(reply.TokenIDs)-1 {
					t.Fatalf("token %d of %+v", i, reply)
				}
			}
			for _, p := range reply.LogProbs {
				if math.IsNaN(float64(p)) || p > highestLogProb || p < lowestLogProb {
					t.Fatalf("log-probability %g of %+v", p, reply)
				}
			}
			if reply.FinishReason == policy.FinishStop && !slices.Contains([]int32{10, 11}, reply.TokenIDs[len(reply.TokenIDs)-1]) {
				t.Fatalf("%+v is stopped", reply)
			}
		}
	})
}

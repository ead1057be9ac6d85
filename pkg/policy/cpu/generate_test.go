package cpu

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
)

func generate(t testing.TB, e *Engine, requests []policy.Request) []policy.Completion {
	t.Helper()
	completions, err := e.Generate(context.Background(), requests)
	if err != nil {
		t.Fatal(err)
	}
	return completions
}

// More requests than slots: one prompt with 600 samples, and prompts that fill
// a prefill.
func TestGenerateRefillsSlots(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	weights := policytest.LoudWeights(t, c)
	var requests []policy.Request
	for i := range 600 {
		requests = append(requests, policy.Request{
			Prompt: []int32{5, 6, 7}, MaxNewTokens: 1 + i%5, Stream: rng.New(1, rng.PurposeSample, 0, "", i), Sampling: policy.Sampling{Temperature: 1},
		})
	}
	requests = append(requests, policytest.Requests(c, 8, 300, 80, policy.Sampling{Temperature: 1})...)
	e := newEngine(t, c, weights, 1)
	completions := generate(t, e, requests)
	for i, r := range requests {
		if got := completions[i]; len(got.TokenIDs) == 0 || len(got.TokenIDs) > r.MaxNewTokens || len(got.TokenIDs) != len(got.LogProbs) {
			t.Fatalf("request %d got %d tokens and %d log-probabilities; at most %d were asked for", i, len(got.TokenIDs), len(got.LogProbs), r.MaxNewTokens)
		}
	}
	for _, i := range []int{0, 333, 599, 700, 899} {
		if diff := cmp.Diff(completions[i:i+1], generate(t, e, requests[i:i+1])); diff != "" {
			t.Errorf("request %d alone: %s", i, diff)
		}
	}
	checkNoUsers(t, e)
}

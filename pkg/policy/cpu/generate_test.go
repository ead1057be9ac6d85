package cpu

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// randomRequests asks for continuations of a few prompts, several of each,
// long enough to fill more than one page.
func randomRequests(c policy.Config, seed uint64, n int, s policy.Sampling) []policy.Request {
	stream := rng.New(seed, rng.PurposeTest, 0, "requests", 0)
	requests := make([]policy.Request, n)
	for i := range requests {
		which := stream.IntN(uint64(4*i), 1+n/3)
		prompt := make([]int32, 1+stream.IntN(uint64(1e6+which), 90))
		for j := range prompt {
			prompt[j] = int32(stream.IntN(uint64(2e6+1000*which+j), c.VocabSize))
		}
		requests[i] = policy.Request{
			Prompt: prompt, MaxNewTokens: 1 + stream.IntN(uint64(4*i+1), 80), StopTokens: []int32{3},
			Stream: rng.New(seed, rng.PurposeSample, 1, "x", i), Sampling: s,
		}
	}
	return requests
}

func generate(t testing.TB, e *Engine, requests []policy.Request) []policy.Completion {
	t.Helper()
	completions, err := e.Generate(context.Background(), requests)
	if err != nil {
		t.Fatal(err)
	}
	return completions
}

// asBatch packs prompts and responses, with the responses' tokens as targets.
func asBatch(requests []policy.Request, completions []policy.Completion) policy.Batch {
	batch := policy.Batch{Offsets: []int32{0}}
	for i, r := range requests {
		batch.TokenIDs = append(append(batch.TokenIDs, r.Prompt...), completions[i].TokenIDs...)
		for range r.Prompt {
			batch.Targets = append(batch.Targets, false)
		}
		for range completions[i].TokenIDs {
			batch.Targets = append(batch.Targets, true)
		}
		batch.Offsets = append(batch.Offsets, int32(len(batch.TokenIDs)))
	}
	return batch
}

// The contract of one log-probability: the sampler's are the learner's, bit
// for bit, so that the importance ratio is exactly 1.
func TestSamplerAndLearnerAgree(t *testing.T) {
	for _, s := range []policy.Sampling{
		{Temperature: 1}, {Temperature: 0.7}, {}, {Temperature: 1, TopK: 4}, {Temperature: 1.2, TopP: 0.7}, {Temperature: 1, TopK: 20, TopP: 0.9},
	} {
		for _, c := range []policy.Config{tinyConfig(), evenConfig(), normedConfig()} {
			e := newEngine(t, c, policytest.LoudWeights(t, c), 2)
			requests := randomRequests(c, 5, 40, s)
			completions := generate(t, e, requests)
			batch := asBatch(requests, completions)
			logProbs, _ := forward(t, e, batch, s)
			compared := 0
			for i, r := range requests {
				for j, got := range completions[i].LogProbs {
					want := logProbs[int(batch.Offsets[i])+len(r.Prompt)+j]
					if math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("%+v: token %d of response %d has log-probability %v when sampled and %v when learned", s, j, i, got, want)
					}
					compared++
				}
			}
			if compared < 500 {
				t.Errorf("only %d tokens compared", compared)
			}
		}
	}
}

// A completion depends on its request alone.
func TestGenerateIgnoresCompany(t *testing.T) {
	c := tinyConfig()
	weights := policytest.LoudWeights(t, c)
	requests := randomRequests(c, 6, 30, policy.Sampling{Temperature: 1})
	want := generate(t, newEngine(t, c, weights, 1), requests)
	for _, threads := range []int{2, 3} {
		if diff := cmp.Diff(want, generate(t, newEngine(t, c, weights, threads), requests)); diff != "" {
			t.Errorf("%d threads: %s", threads, diff)
		}
	}
	e := newEngine(t, c, weights, 1)
	for i := range requests {
		if diff := cmp.Diff(want[i:i+1], generate(t, e, requests[i:i+1])); diff != "" {
			t.Fatalf("request %d alone: %s", i, diff)
		}
	}
	reversed := make([]policy.Request, len(requests))
	for i, r := range requests {
		reversed[len(requests)-1-i] = r
	}
	for i, got := range generate(t, e, reversed) {
		if diff := cmp.Diff(want[len(requests)-1-i], got); diff != "" {
			t.Fatalf("request %d in reverse order: %s", len(requests)-1-i, diff)
		}
	}
}

// More requests than slots: one prompt with 600 samples, and prompts that fill
// a prefill.
func TestGenerateRefillsSlots(t *testing.T) {
	c := tinyConfig()
	weights := policytest.LoudWeights(t, c)
	var requests []policy.Request
	for i := range 600 {
		requests = append(requests, policy.Request{
			Prompt: []int32{5, 6, 7}, MaxNewTokens: 1 + i%5, Stream: rng.New(1, rng.PurposeSample, 0, "", i), Sampling: policy.Sampling{Temperature: 1},
		})
	}
	requests = append(requests, randomRequests(c, 8, 300, policy.Sampling{Temperature: 1})...)
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

func TestFinishReasons(t *testing.T) {
	c := tinyConfig()
	e := newEngine(t, c, policytest.LoudWeights(t, c), 1)
	greedy := policy.Request{Prompt: []int32{1, 2, 3}, MaxNewTokens: 10}
	base := generate(t, e, []policy.Request{greedy})[0]
	if len(base.TokenIDs) != 10 || base.FinishReason != policy.FinishLength {
		t.Fatalf("got %+v", base)
	}
	stopped := greedy
	stopped.StopTokens = []int32{9, base.TokenIDs[4]}
	got := generate(t, e, []policy.Request{stopped})[0]
	first := 0
	for base.TokenIDs[first] != base.TokenIDs[4] && base.TokenIDs[first] != 9 {
		first++
	}
	if !cmp.Equal(got.TokenIDs, base.TokenIDs[:first+1]) || got.FinishReason != policy.FinishStop {
		t.Errorf("with a stop token: got %+v, want the first %d of %v", got, first+1, base.TokenIDs)
	}
	var seen [][]int32
	watched := greedy
	watched.Watch = func(response []int32) bool {
		seen = append(seen, slices.Clone(response))
		return len(response) == 4
	}
	got = generate(t, e, []policy.Request{watched})[0]
	if !cmp.Equal(got.TokenIDs, base.TokenIDs[:4]) || got.FinishReason != policy.FinishStop {
		t.Errorf("watched: got %+v, want the first 4 of %v", got, base.TokenIDs)
	}
	for i, response := range seen {
		if !cmp.Equal(response, base.TokenIDs[:i+1]) {
			t.Errorf("call %d of Watch saw %v", i, response)
		}
	}
	if len(seen) != 4 {
		t.Errorf("Watch was called %d times", len(seen))
	}
	long := policy.Request{Prompt: make([]int32, c.MaxPositionEmbeddings-2), MaxNewTokens: 10}
	if got := generate(t, e, []policy.Request{long})[0]; len(got.TokenIDs) != 2 || got.FinishReason != policy.FinishLength {
		t.Errorf("two tokens below the maximum length: got %+v", got)
	}
	for name, r := range map[string]policy.Request{
		"no tokens asked for": {Prompt: []int32{1}},
		"prompt of full length": {
			Prompt: make([]int32, c.MaxPositionEmbeddings), MaxNewTokens: 3,
		},
	} {
		if got := generate(t, e, []policy.Request{r})[0]; len(got.TokenIDs) != 0 || got.FinishReason != policy.FinishLength {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := generate(t, e, nil); len(got) != 0 {
		t.Errorf("no requests: got %v", got)
	}
}

func TestGenerateFaults(t *testing.T) {
	c := tinyConfig()
	weights := policytest.LoudWeights(t, c)
	e := newEngine(t, c, weights, 2)
	for name, test := range map[string]struct {
		request policy.Request
		code    int
	}{
		"empty prompt":         {policy.Request{MaxNewTokens: 1}, exitcode.Data},
		"long prompt":          {policy.Request{Prompt: make([]int32, 201), MaxNewTokens: 1}, exitcode.Data},
		"foreign token":        {policy.Request{Prompt: []int32{37}, MaxNewTokens: 1}, exitcode.Data},
		"negative token":       {policy.Request{Prompt: []int32{-1}, MaxNewTokens: 1}, exitcode.Data},
		"negative temperature": {policy.Request{Prompt: []int32{1}, MaxNewTokens: 1, Sampling: policy.Sampling{Temperature: -1}}, exitcode.Usage},
		"lost temperature":     {policy.Request{Prompt: []int32{1}, MaxNewTokens: 1, Sampling: policy.Sampling{Temperature: 1e-8}}, exitcode.Usage},
		"top_p over 1":         {policy.Request{Prompt: []int32{1}, MaxNewTokens: 1, Sampling: policy.Sampling{TopP: 1.5}}, exitcode.Usage},
	} {
		if _, err := e.Generate(context.Background(), []policy.Request{test.request}); exitcode.Code(err) != test.code {
			t.Errorf("%s: code %d (%v), want %d", name, exitcode.Code(err), err, test.code)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Generate(ctx, randomRequests(c, 1, 3, policy.Sampling{})); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	diverge(e)
	_, err := e.Generate(context.Background(), []policy.Request{{Prompt: []int32{0}, MaxNewTokens: 2, Sampling: policy.Sampling{Temperature: 1}}})
	if exitcode.Code(err) != exitcode.Data {
		t.Errorf("weights that are not numbers: code %d (%v)", exitcode.Code(err), err)
	}
}

// A bound that is as good as none ends where the policy's positions do.
func TestGenerateWithoutBound(t *testing.T) {
	c := tinyConfig()
	e := newEngine(t, c, policytest.LoudWeights(t, c), 2)
	got := generate(t, e, []policy.Request{{Prompt: []int32{1, 2}, MaxNewTokens: math.MaxInt}})
	if n := len(got[0].TokenIDs); n != c.MaxPositionEmbeddings-2 || got[0].FinishReason != policy.FinishLength {
		t.Errorf("%d tokens, %s; want %d", n, got[0].FinishReason, c.MaxPositionEmbeddings-2)
	}
}

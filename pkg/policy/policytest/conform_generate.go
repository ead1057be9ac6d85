package policytest

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// Stop tokens, Watch, the bound and the policy's length end a response.
func testFinishReasons(t *testing.T, b Backend) {
	c := Tiny()
	e := b.plain(t, c, LoudWeights(t, c), Options{})
	greedy := policy.Request{Prompt: []int32{1, 2, 3}, MaxNewTokens: 10}
	base := generate(t, e, greedy)[0]
	if len(base.TokenIDs) != 10 || len(base.LogProbs) != 10 || base.FinishReason != policy.FinishLength {
		t.Fatalf("got %+v", base)
	}
	stopped := greedy
	stopped.StopTokens = []int32{9, base.TokenIDs[4]}
	first := slices.IndexFunc(base.TokenIDs, func(id int32) bool { return slices.Contains(stopped.StopTokens, id) })
	if got := generate(t, e, stopped)[0]; !cmp.Equal(got.TokenIDs, base.TokenIDs[:first+1]) || got.FinishReason != policy.FinishStop {
		t.Errorf("with a stop token: got %+v, want the first %d of %v", got, first+1, base.TokenIDs)
	}
	var seen [][]int32
	watched := greedy
	watched.Watch = func(response []int32) bool {
		seen = append(seen, slices.Clone(response))
		return len(response) == 4
	}
	if got := generate(t, e, watched)[0]; !cmp.Equal(got.TokenIDs, base.TokenIDs[:4]) || got.FinishReason != policy.FinishStop {
		t.Errorf("watched: got %+v, want the first 4 of %v", got, base.TokenIDs)
	}
	if len(seen) != 4 {
		t.Errorf("Watch was called %d times", len(seen))
	}
	for i, response := range seen {
		if !cmp.Equal(response, base.TokenIDs[:i+1]) {
			t.Errorf("call %d of Watch saw %v", i, response)
		}
	}
	for name, test := range map[string]struct {
		prompt, most, want int
	}{
		"two tokens below the length": {c.MaxPositionEmbeddings - 2, 10, 2},
		"no tokens asked for":         {1, 0, 0},
		"prompt of full length":       {c.MaxPositionEmbeddings, 3, 0},
		"no bound":                    {2, math.MaxInt, c.MaxPositionEmbeddings - 2},
	} {
		got := generate(t, e, policy.Request{Prompt: make([]int32, test.prompt), MaxNewTokens: test.most})[0]
		if len(got.TokenIDs) != test.want || got.FinishReason != policy.FinishLength {
			t.Errorf("%s: %d tokens, %s; want %d", name, len(got.TokenIDs), got.FinishReason, test.want)
		}
	}
	if got := generate(t, e); len(got) != 0 {
		t.Errorf("no requests: got %v", got)
	}
}

// A request that cannot be answered is an error that names it.
func testWrongRequests(t *testing.T, b Backend) {
	c := Tiny()
	e := b.plain(t, c, LoudWeights(t, c), Options{})
	good := policy.Request{Prompt: []int32{1}, MaxNewTokens: 2}
	with := func(change func(r *policy.Request)) policy.Request {
		r := good
		change(&r)
		return r
	}
	for name, test := range map[string]struct {
		request policy.Request
		code    int
	}{
		"empty prompt":         {with(func(r *policy.Request) { r.Prompt = nil }), exitcode.Data},
		"long prompt":          {with(func(r *policy.Request) { r.Prompt = make([]int32, c.MaxPositionEmbeddings+1) }), exitcode.Data},
		"unknown token":        {with(func(r *policy.Request) { r.Prompt = []int32{int32(c.VocabSize)} }), exitcode.Data},
		"negative token":       {with(func(r *policy.Request) { r.Prompt = []int32{-1} }), exitcode.Data},
		"negative temperature": {with(func(r *policy.Request) { r.Sampling.Temperature = -1 }), exitcode.Usage},
		"lost temperature":     {with(func(r *policy.Request) { r.Sampling.Temperature = 1e-8 }), exitcode.Usage},
		"top_p over 1":         {with(func(r *policy.Request) { r.Sampling.TopP = 1.5 }), exitcode.Usage},
	} {
		_, err := e.Generate(context.Background(), []policy.Request{good, test.request})
		if exitcode.Code(err) != test.code {
			t.Errorf("%s: code %d (%v), want %d", name, exitcode.Code(err), err, test.code)
		}
		wantRequest(t, name, err, 1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Generate(ctx, []policy.Request{good}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if got := generate(t, e, good)[0]; len(got.TokenIDs) != 2 {
		t.Errorf("after errors: %+v", got)
	}
}

// wantRequest wants an error to name a request of the call.
func wantRequest(t *testing.T, name string, err error, index int) {
	t.Helper()
	var of *policy.RequestError
	if !errors.As(err, &of) || of.Index != index {
		t.Errorf("%s: %v does not name request %d", name, err, index)
	}
}

// Weights that have diverged give log-probabilities that are not numbers, a
// step that is skipped, and no response but an error.
func testDiverged(t *testing.T, b Backend) {
	c := Tiny()
	e := b.plain(t, c, LoudWeights(t, c), Options{Train: true})
	for i, w := range e.Trained() {
		if w.Name != "model.norm.weight" {
			continue
		}
		ones := slices.Repeat([]float32{1}, w.Elements())
		must(t, e.WriteGradient(i, 0, ones))
	}
	if stats, err := e.Step(policy.AdamW{LearningRate: 3e38, Epsilon: 1e-8}); err != nil || stats.Skipped {
		t.Fatalf("%+v, %v", stats, err)
	}
	batch := Batch(c, 1, 30)
	logProbs, _ := forward(t, e, batch, policy.Sampling{Temperature: 1, TopK: 3})
	if last := slices.Index(batch.Targets, true); !math.IsNaN(float64(logProbs[last])) {
		t.Errorf("log-probability %v", logProbs[last])
	}
	e.ZeroGradients()
	backward(t, e, policy.Coefficients{LogProb: Coefficients(batch, 1)})
	if stats, err := e.Step(optimizer); err != nil || !stats.Skipped {
		t.Errorf("%+v, %v", stats, err)
	}
	_, err := e.Generate(context.Background(), []policy.Request{{Prompt: []int32{0}, MaxNewTokens: 2, Sampling: policy.Sampling{Temperature: 1}}})
	if exitcode.Code(err) != exitcode.Data {
		t.Errorf("generating: code %d (%v), want %d", exitcode.Code(err), err, exitcode.Data)
	}
	wantRequest(t, "generating", err, 0)
}

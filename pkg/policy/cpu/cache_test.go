package cpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// longConfig is tinyConfig for sequences of several pages.
func longConfig() policy.Config {
	c := tinyConfig()
	c.MaxPositionEmbeddings = 600
	return c
}

// checkNoUsers reports pages that are still in use, or lost.
func checkNoUsers(t testing.TB, e *Engine) {
	t.Helper()
	if err := e.cache.CheckUnused(); err != nil {
		t.Error(err)
	}
}

// Results do not depend on the memory for keys and values, on how prompts are
// cut, on threads, on what is kept from earlier calls, or on the company: any
// mix of requests gives each of them what it gets alone.
func TestGenerateIsIndependentOfEverything(t *testing.T) {
	t.Parallel()
	c := longConfig()
	weights := policytest.LoudWeights(t, c)
	stream := rng.New(3, rng.PurposeTest, 0, "mix", 0)
	// Prompts that have much in common from their start, at and around the
	// borders of pages.
	text := make([]int32, 400)
	for i := range text {
		text[i] = int32(stream.IntN(uint64(i), c.VocabSize))
	}
	var requests []policy.Request
	for i, n := range []int{1, 2, 63, 64, 65, 127, 128, 129, 130, 200, 256, 257, 300, 399, 400, 64, 128, 1} {
		prompt := slices.Clone(text[:n])
		if i%3 == 2 {
			prompt[n/2] ^= 1
		}
		for sample := range 3 {
			r := policy.Request{
				Prompt: prompt, MaxNewTokens: 1 + stream.IntN(uint64(1000+10*i+sample), 150), StopTokens: []int32{3},
				Stream: rng.New(9, rng.PurposeSample, 1, fmt.Sprint(i), sample), Sampling: policy.Sampling{Temperature: 1},
			}
			if sample == 1 {
				r.Sampling = policy.Sampling{Temperature: 0.9, TopK: 20, TopP: 0.9}
			}
			requests = append(requests, r)
		}
	}
	type precision struct{ dtype, compute safetensors.DType }
	open := func(p precision, threads int) *Engine {
		e, err := New(policy.InMemory(c, weights), Options{DType: p.dtype, Compute: p.compute, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	precisions := []precision{{safetensors.F32, safetensors.F32}, {safetensors.BF16, safetensors.F32}, {safetensors.F32, safetensors.BF16}}
	alone := map[precision][]policy.Completion{}
	for i, p := range precisions {
		for _, r := range requests {
			alone[p] = append(alone[p], generate(t, open(p, 1), []policy.Request{r})[0])
		}
		for _, other := range precisions[:i] {
			if cmp.Equal(alone[p], alone[other]) {
				t.Errorf("%v and %v do not differ", p, other)
			}
		}
	}
	type kind struct {
		precision
		threads int
	}
	engines := map[kind]*Engine{}
	rapid.Check(t, func(rt *rapid.T) {
		k := kind{rapid.SampledFrom(precisions).Draw(rt, "precision"), rapid.IntRange(1, 3).Draw(rt, "threads")}
		if engines[k] == nil {
			engines[k] = open(k.precision, k.threads)
		}
		e, want := engines[k], alone[k.precision]
		e.limits.prefillTokens = pageTokens * rapid.IntRange(1, 8).Draw(rt, "prefill pages")
		e.limits.ownWeights = rapid.SampledFrom([]int{0, 1 << 30}).Draw(rt, "own weights")
		e.limits.sampledLogits = c.VocabSize * rapid.IntRange(1, 20).Draw(rt, "sampled rows")
		e.cacheBytes = int64(rapid.IntRange(0, 40).Draw(rt, "cache pages") * newPool(c, false).bytes())
		chosen := rapid.SliceOfN(rapid.IntRange(0, len(requests)-1), 1, 40).Draw(rt, "requests")
		keep := rapid.SliceOfN(rapid.Bool(), len(chosen), len(chosen)).Draw(rt, "keep")
		mix := make([]policy.Request, len(chosen))
		for i, which := range chosen {
			mix[i] = requests[which]
			mix[i].Keep = keep[i]
		}
		got, err := e.Generate(context.Background(), mix)
		if err != nil {
			rt.Fatal(err)
		}
		for i, which := range chosen {
			if diff := cmp.Diff(want[which], got[i]); diff != "" {
				rt.Fatalf("request %d of the mix (-alone +in company):\n%s", i, diff)
			}
		}
		checkNoUsers(t, e)
	})
}

// Decoders that find no pages leave their requests to the others, and what no
// one had pages for is done at last.
func TestDecodersThatStarve(t *testing.T) {
	t.Parallel()
	c := longConfig()
	weights := policytest.LoudWeights(t, c)
	requests := make([]policy.Request, 12)
	for i := range requests {
		prompt := slices.Repeat([]int32{int32(i), 7, 9, 30}, 60+i)
		requests[i] = policy.Request{
			Prompt: prompt, MaxNewTokens: 200, Stream: rng.New(4, rng.PurposeSample, 0, "", i), Sampling: policy.Sampling{Temperature: 1},
		}
	}
	want := generate(t, newEngine(t, c, weights, 1), requests)
	for range 5 {
		e := newEngine(t, c, weights, 4)
		e.cacheBytes = 1 // room for the longest sequence alone
		if diff := cmp.Diff(want, generate(t, e, requests)); diff != "" {
			t.Errorf("(-room for all +room for one):\n%s", diff)
		}
		checkNoUsers(t, e)
	}
}

// A conversation computes its earlier turns once: what the next turn's prompt
// begins with is found, and the tokens are the same as without.
func TestTurnsReuseTheirPast(t *testing.T) {
	t.Parallel()
	c := longConfig()
	weights := policytest.LoudWeights(t, c)
	play := func(keep bool) (ids []int32, computed int) {
		e := newEngine(t, c, weights, 1)
		ids = []int32{1, 2, 3}
		for turn := range 5 {
			for i := range 40 {
				ids = append(ids, int32((turn*31+i*7)%c.VocabSize))
			}
			computed += len(ids)
			if e.cache != nil {
				p := prompt{IDs: ids}
				p.Attach(e.cache.Pool)
				computed -= p.Done
				p.Drop(e.cache.Pool)
			}
			r := policy.Request{Prompt: ids, MaxNewTokens: 37, Stream: rng.New(1, rng.PurposeSample, turn, "", 0), Sampling: policy.Sampling{Temperature: 1}, Keep: keep}
			ids = append(ids, generate(t, e, []policy.Request{r})[0].TokenIDs...)
		}
		return ids, computed
	}
	kept, few := play(true)
	fresh, all := play(false)
	if diff := cmp.Diff(fresh, kept); diff != "" {
		t.Errorf("with what is kept (-without +with):\n%s", diff)
	}
	if want := 43 + 120 + 197 + 274 + 351; all != want {
		t.Errorf("%d tokens computed without keeping, want %d", all, want)
	}
	// Turn by turn 43, 120-64, 197-128, 274-192 and 351-256... minus whole
	// pages of the sequence before, whose last token was never fed.
	if want := 43 + (120 - 64) + (197 - 64*2) + (274 - 64*3) + (351 - 64*4); few != want {
		t.Errorf("%d tokens computed, want %d", few, want)
	}
}

// What was kept is forgotten when the weights change.
func TestNewWeightsForgetTheCache(t *testing.T) {
	t.Parallel()
	c := longConfig()
	e := newEngine(t, c, policytest.LoudWeights(t, c), 1)
	r := policy.Request{Prompt: make([]int32, 200), MaxNewTokens: 9, Sampling: policy.Sampling{Temperature: 1}, Keep: true}
	before := generate(t, e, []policy.Request{r})[0]
	batch := policytest.Batch(c, 1, 50)
	forward(t, e, batch, policy.Sampling{Temperature: 1})
	if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(policy.AdamW{LearningRate: 0.1, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8}); err != nil {
		t.Fatal(err)
	}
	after := generate(t, e, []policy.Request{r})[0]
	fresh := newEngine(t, c, e.Weights(), 1)
	if diff := cmp.Diff(generate(t, fresh, []policy.Request{r})[0], after); diff != "" {
		t.Errorf("(-fresh engine +changed one):\n%s", diff)
	}
	if cmp.Equal(before, after) {
		t.Error("the weights' change did not show: the test proves nothing")
	}
}

// Nor is it used for the base of an adapter.
func TestTheBaseHasAnotherCache(t *testing.T) {
	t.Parallel()
	c := longConfig()
	r := policy.Request{Prompt: make([]int32, 200), MaxNewTokens: 9, Sampling: policy.Sampling{Temperature: 1}, Keep: true}
	e := adaptedEngine(t, c, policytest.LoudAdapter(t, c, policytest.Everywhere()), 1)
	var got [3]policy.Completion
	for i, on := range []bool{true, false, true} {
		e.SetAdapter(on)
		got[i] = generate(t, e, []policy.Request{r})[0]
	}
	fresh := adaptedEngine(t, c, policytest.LoudAdapter(t, c, policytest.Everywhere()), 1)
	fresh.SetAdapter(false)
	if diff := cmp.Diff(generate(t, fresh, []policy.Request{r})[0], got[1]); diff != "" {
		t.Errorf("(-fresh base +base after adapter):\n%s", diff)
	}
	if !cmp.Equal(got[0], got[2]) || cmp.Equal(got[0], got[1]) {
		t.Error("switching the adapter on again gives other tokens, or the adapter does not show")
	}
}

// A prompt of 8,192 tokens is computed in pieces: neither activations nor
// scores grow with its square.
func TestLongPrompt(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	c.MaxPositionEmbeddings = 1<<13 + 20
	e := newEngine(t, c, policytest.LoudWeights(t, c), 2)
	prompt := make([]int32, 1<<13)
	for i := range prompt {
		prompt[i] = int32(i * i % c.VocabSize)
	}
	requests := make([]policy.Request, 3)
	for i := range requests {
		requests[i] = policy.Request{Prompt: prompt, MaxNewTokens: 4, Stream: rng.New(1, rng.PurposeSample, 0, "", i), Sampling: policy.Sampling{Temperature: 1}}
	}
	completions := generate(t, e, requests)
	batch := policytest.AsBatch(requests[:1], completions[:1])
	logProbs, _ := forward(t, e, batch, requests[0].Sampling)
	if !policytest.SameBits(logProbs[len(prompt):], completions[0].LogProbs) {
		t.Errorf("sampled with log-probabilities %v, scored with %v", completions[0].LogProbs, logProbs[len(prompt):])
	}
	checkNoUsers(t, e)
}

// An engine that is stopped in the middle gives its pages back.
func TestGenerateCanBeStopped(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	for _, threads := range []int{1, 3} {
		e := newEngine(t, c, policytest.LoudWeights(t, c), threads)
		requests := policytest.Requests(c, 8, 100, 80, policy.Sampling{Temperature: 1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var tokens atomic.Int64
		for i := range requests {
			requests[i].Watch = func([]int32) bool {
				if tokens.Add(1) == 500 {
					cancel()
				}
				return false
			}
		}
		if _, err := e.Generate(ctx, requests); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled generation ends with %v", err)
		}
		checkNoUsers(t, e)
	}
}

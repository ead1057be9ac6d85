package cuda

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
)

func fakeConfig() policy.Config {
	return policy.Config{
		Architecture: policy.Llama, VocabSize: 97, HiddenSize: 8, IntermediateSize: 8, NumHiddenLayers: 1,
		NumAttentionHeads: 2, NumKeyValueHeads: 1, HeadDim: 4, MaxPositionEmbeddings: 600,
		RMSNormEps: 1e-6, RopeTheta: 1e4, BOSTokenID: -1,
	}
}

// checkNoUsers wants every page back after a call.
func checkNoUsers(t rapid.TB, e *Engine) {
	t.Helper()
	if got := e.pool.Available(); got != e.budgets.CachePages {
		t.Fatalf("%d of %d pages are free", got, e.budgets.CachePages)
	}
	for slot, r := range e.slots {
		if r != nil {
			t.Fatalf("slot %d is in use", slot)
		}
	}
}

// drawRequests draws requests of which some share prompts and some share the
// starts of prompts.
func drawRequests(t *rapid.T, c policy.Config) []policy.Request {
	stream := rng.New(rapid.Uint64().Draw(t, "seed"), rng.PurposeTest, 0, "requests", 0)
	var requests []policy.Request
	for group := range rapid.IntRange(1, 5).Draw(t, "groups") {
		length := rapid.IntRange(1, 300).Draw(t, "prompt")
		common := rapid.IntRange(0, length).Draw(t, "common")
		ids := make([]int32, length)
		for i := range ids {
			at := uint64(i)
			if i >= common {
				at += uint64(1000 * (group + 1))
			}
			ids[i] = int32(stream.IntN(at, c.VocabSize))
		}
		keep := rapid.Bool().Draw(t, "keep")
		for sample := range rapid.IntRange(1, 6).Draw(t, "samples") {
			r := policy.Request{
				Prompt: ids, MaxNewTokens: rapid.IntRange(0, 330).Draw(t, "new tokens"), Keep: keep,
				Stream: rng.New(1, rng.PurposeSample, group, "x", sample),
			}
			switch rapid.IntRange(0, 3).Draw(t, "end") {
			case 0:
				r.StopTokens = []int32{3, 5}
			case 1:
				for id := range int32(maxStops + 1) { // more than the device takes
					r.StopTokens = append(r.StopTokens, id)
				}
			case 2:
				n := rapid.IntRange(1, 100).Draw(t, "watched")
				r.Watch = func(response []int32) bool { return len(response) == n }
			}
			requests = append(requests, r)
		}
	}
	return requests
}

// Whatever the slots, the pages, the prefill and the company, each request gets
// what it would get alone, and all pages come back; so it is when what was kept
// is used again.
func TestSchedule(t *testing.T) {
	c := fakeConfig()
	rapid.Check(t, func(t *rapid.T) {
		requests := drawRequests(t, c)
		longest := 0
		for _, r := range requests {
			longest = max(longest, min(len(r.Prompt)+max(0, r.MaxNewTokens)-1, c.MaxPositionEmbeddings-1))
		}
		pages := max(1, pagesOf(longest)) + rapid.SampledFrom([]int{0, 1, 2, 5, 40}).Draw(t, "more pages")
		e, _ := newFakeEngine(c, rapid.IntRange(1, 9).Draw(t, "slots"), pages, rapid.SampledFrom([]int{16, 48, 64, 144, 4096}).Draw(t, "prefill"))
		for round := range 2 {
			got, err := e.Generate(context.Background(), requests)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range requests {
				if diff := cmp.Diff(fakeAnswer(c, r), got[i]); diff != "" {
					t.Fatalf("round %d, request %d of prompt %d: %s", round, i, len(r.Prompt), diff)
				}
			}
			checkNoUsers(t, e)
		}
	})
}

// A prompt is computed once for its group, and what is kept is not computed
// again.
func TestPromptsAreComputedOnce(t *testing.T) {
	c := fakeConfig()
	e, d := newFakeEngine(c, 16, 100, 4096)
	prompt := make([]int32, 200)
	var requests []policy.Request
	for i := range 16 {
		requests = append(requests, policy.Request{Prompt: prompt, MaxNewTokens: 20, Keep: true, Stream: rng.New(1, rng.PurposeSample, 0, "x", i)})
	}
	first, err := e.Generate(context.Background(), requests)
	if err != nil {
		t.Fatal(err)
	}
	if d.prefilled != 199 {
		t.Errorf("%d tokens computed for 16 requests of one prompt of 200, want 199: all but the last", d.prefilled)
	}
	d.prefilled = 0
	longer := policy.Request{Prompt: slices.Concat(prompt, first[3].TokenIDs, []int32{1, 2}), MaxNewTokens: 5}
	if _, err := e.Generate(context.Background(), []policy.Request{longer}); err != nil {
		t.Fatal(err)
	}
	// 222 tokens, of which three pages of 64 were kept.
	if d.prefilled != 221-192 {
		t.Errorf("%d tokens computed of a second turn, want %d", d.prefilled, 221-192)
	}
	e.forget()
	d.prefilled = 0
	if _, err := e.Generate(context.Background(), []policy.Request{longer}); err != nil {
		t.Fatal(err)
	}
	if d.prefilled != 221 {
		t.Errorf("%d tokens computed with new weights, want all 221", d.prefilled)
	}
}

// Watch sees every response grow token by token, and nothing after it said
// stop.
func TestWatchSeesEachToken(t *testing.T) {
	c := fakeConfig()
	e, _ := newFakeEngine(c, 2, 40, 256)
	var lengths []int
	r := policy.Request{Prompt: []int32{1}, MaxNewTokens: 50, Watch: func(response []int32) bool {
		lengths = append(lengths, len(response))
		return len(response) == 13
	}}
	got, err := e.Generate(context.Background(), []policy.Request{r})
	if err != nil {
		t.Fatal(err)
	}
	if len(got[0].TokenIDs) != 13 || got[0].FinishReason != policy.FinishStop || !slices.Equal(lengths, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}) {
		t.Errorf("%d tokens, %s; Watch saw %v", len(got[0].TokenIDs), got[0].FinishReason, lengths)
	}
}

func TestGenerateFaults(t *testing.T) {
	c := fakeConfig()
	e, d := newFakeEngine(c, 4, 10, 256)
	for name, test := range map[string]struct {
		request policy.Request
		code    int
	}{
		"empty prompt":         {policy.Request{MaxNewTokens: 1}, exitcode.Data},
		"long prompt":          {policy.Request{Prompt: make([]int32, 601), MaxNewTokens: 1}, exitcode.Data},
		"unknown token":        {policy.Request{Prompt: []int32{97}, MaxNewTokens: 1}, exitcode.Data},
		"negative temperature": {policy.Request{Prompt: []int32{1}, MaxNewTokens: 1, Sampling: policy.Sampling{Temperature: -1}}, exitcode.Usage},
	} {
		if _, err := e.Generate(context.Background(), []policy.Request{test.request}); exitcode.Code(err) != test.code {
			t.Errorf("%s: code %d (%v), want %d", name, exitcode.Code(err), err, test.code)
		}
	}
	ok := []policy.Request{{Prompt: make([]int32, 70), MaxNewTokens: 100, Keep: true}, {Prompt: []int32{5}, MaxNewTokens: 100}}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Generate(ctx, ok); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	checkNoUsers(t, e)

	e.native = &brokenDevice{d, 1}
	if _, err := e.Generate(context.Background(), ok); exitcode.Code(err) != exitcode.Failed {
		t.Errorf("a device that breaks down: code %d (%v), want %d", exitcode.Code(err), err, exitcode.Failed)
	}
	checkNoUsers(t, e)
	e.native = nanDevice{d}
	if _, err := e.Generate(context.Background(), ok); exitcode.Code(err) != exitcode.Data {
		t.Errorf("weights that are not numbers: code %d (%v), want %d", exitcode.Code(err), err, exitcode.Data)
	}
	checkNoUsers(t, e)

	small, _ := newFakeEngine(c, 4, 2, 256)
	if _, err := small.Generate(context.Background(), []policy.Request{{Prompt: []int32{1}, MaxNewTokens: 200}}); exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("a sequence that the cache has no room for: code %d (%v), want %d", exitcode.Code(err), err, exitcode.Unavailable)
	}
	none, _ := newFakeEngine(c, 0, 0, 0)
	if _, err := none.Generate(context.Background(), ok); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("an engine that does not generate: code %d (%v), want %d", exitcode.Code(err), err, exitcode.Bug)
	}
	if got, err := none.Generate(context.Background(), nil); err != nil || len(got) != 0 {
		t.Errorf("no requests: %v, %v", got, err)
	}
}

package rollout

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// firstTokens is an engine whose state of a token is the token and 1.
type firstTokens struct {
	passes []int // tokens of each
}

func (e *firstTokens) Embed(batch policy.Batch, own []bool) ([][]float32, error) {
	e.passes = append(e.passes, len(batch.TokenIDs))
	var all [][]float32
	for s := range len(batch.Offsets) - 1 {
		var sum, count float32
		for i := batch.Offsets[s]; i < batch.Offsets[s+1]; i++ {
			if own[i] {
				sum, count = sum+float32(batch.TokenIDs[i]), count+1
			}
		}
		all = append(all, []float32{sum / max(1, count), min(1, count)})
	}
	return all, nil
}

// TestEmbed: the embedding of a trace is the mean over what the policy wrote in
// its last attempt, over the contexts of it as over one: (2+3+8)/3. One that waits
// for a score, or that we failed, has none, and one in which nothing was said has
// zeros.
func TestEmbed(t *testing.T) {
	t.Parallel()
	row := func(instance string, step, part int32, tokens []int32, mask ...bool) shard.Rollout {
		return shard.Rollout{InstanceID: instance, Step: step, Part: part, TokenIDs: tokens, LossMask: mask, Outcome: string(shard.OutcomeOK)}
	}
	waiting, failed := row("c", 0, 0, []int32{5}, true), row("d", 0, 0, []int32{5}, true)
	waiting.Waits, failed.Outcome = "turn", string(shard.OutcomeInfra)
	long := row("f", 0, 0, slices.Repeat([]int32{7}, embedTokens), slices.Repeat([]bool{true}, embedTokens)...)
	rows := []shard.Rollout{
		row("a", 0, 0, []int32{9, 9}, false, true),
		row("a", 1, 1, []int32{1, 2, 3}, false, true, true), row("a", 1, 2, []int32{4, 8}, false, true),
		row("b", 0, 0, []int32{6}, true), waiting, failed, row("e", 0, 0, []int32{1}, false), long,
	}
	engine := &firstTokens{}
	s := &Sampler{engine: &policy.Engine{Embedder: engine}}
	if err := s.embed(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	var got [][]float32
	for _, r := range rows {
		got = append(got, r.Embedding)
	}
	want := [][]float32{nil, nil, {float32(13. / 3), 1}, {6, 1}, nil, nil, {0, 0}, {7, 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("embeddings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{11, embedTokens}, engine.passes); diff != "" {
		t.Errorf("tokens of the passes (-want +got):\n%s", diff)
	}
}

// TestEmbedNeedsAnEngine that shows its states.
func TestEmbedNeedsAnEngine(t *testing.T) {
	t.Parallel()
	for name, engine := range map[string]*policy.Engine{"a server": nil, "an engine that does not": {}} {
		if err := (&Sampler{engine: engine}).embed(t.Context(), nil); exitcode.Code(err) != exitcode.Usage || len(exitcode.Hints(err)) == 0 {
			t.Errorf("%s: %v, want a usage error with a hint", name, err)
		}
	}
}

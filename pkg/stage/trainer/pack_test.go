package trainer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// response is a sequence of a group: a prompt, and a response that is learned.
func response(group string, prompt, answer []int32) Sequence {
	s := Sequence{Sequence: shard.Sequence{GroupID: group, TokenIDs: append(append([]int32(nil), prompt...), answer...)}}
	s.LossMask = make([]bool, len(s.TokenIDs))
	for i := range answer {
		s.LossMask[len(prompt)+i] = true
	}
	return s
}

func TestBundles(t *testing.T) {
	t.Parallel()
	prompt, other := []int32{1, 2, 3, 4}, []int32{5, 6, 7}
	sequences := []Sequence{
		response("a", prompt, []int32{9, 9}),
		response("a", prompt, []int32{9}), // begins as the one before; what is learned is never shared
		response("a", prompt, []int32{8, 8, 8}),
		response("b", prompt, []int32{9}), // the same prompt, of another group
		response("c", other, []int32{9}),
		response("d", []int32{1}, []int32{2}), // nothing to share
		response("d", []int32{1}, []int32{3}),
		response("c", other, []int32{8}),
		response("c", other, []int32{7}),
	}
	type piece struct{ Sequences, Shared, Tokens int }
	for _, test := range []struct {
		limit int
		want  []piece
	}{
		{0, []piece{{1, 0, 6}, {1, 0, 5}, {1, 0, 7}, {1, 0, 5}, {1, 0, 4}, {1, 0, 2}, {1, 0, 2}, {1, 0, 4}, {1, 0, 4}}},
		{100, []piece{{3, 3, 12}, {1, 0, 5}, {1, 0, 4}, {1, 0, 2}, {1, 0, 2}, {2, 2, 6}}},
		{64, []piece{{3, 3, 12}, {1, 0, 5}, {1, 0, 4}, {1, 0, 2}, {1, 0, 2}, {2, 2, 6}}}, // each counts as 16
		{63, []piece{{2, 3, 8}, {1, 0, 7}, {1, 0, 5}, {1, 0, 4}, {1, 0, 2}, {1, 0, 2}, {2, 2, 6}}},
		{47, []piece{{1, 0, 6}, {1, 0, 5}, {1, 0, 7}, {1, 0, 5}, {1, 0, 4}, {1, 0, 2}, {1, 0, 2}, {1, 0, 4}, {1, 0, 4}}},
	} {
		var got []piece
		for _, b := range Bundles(sequences, test.limit) {
			got = append(got, piece{len(b.Sequences), b.shared, b.tokens()})
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", test.limit, diff)
		}
	}
}

func TestPack(t *testing.T) {
	t.Parallel()
	prompt := []int32{1, 2, 3}
	p := Pack(Bundles([]Sequence{
		response("a", prompt, []int32{10, 11}), response("a", prompt, []int32{20}), response("b", []int32{4, 5}, []int32{30}),
	}, 100))
	if diff := cmp.Diff([]int32{1, 2, 3, 10, 11, 3, 20, 4, 5, 30}, p.TokenIDs); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int32{0, 2, 5, 7, 10}, p.Offsets); diff != "" {
		t.Errorf("offsets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int32{-1, 0, 0, -1}, p.Prefixes); diff != "" {
		t.Errorf("prefixes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]bool{false, false, false, true, true, false, true, false, false, true}, p.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	computed := []float32{100, 101, 102, 103, 104, 105, 106, 107, 108, 109}
	for i, want := range [][]float32{{0, 0, 102, 103, 104}, {0, 0, 105, 106}, {107, 108, 109}} {
		if diff := cmp.Diff(want, p.Of(i, computed)); diff != "" {
			t.Errorf("sequence %d (-want +got):\n%s", i, diff)
		}
	}
	batch := make([]float32, 10)
	p.Set(1, batch, []float64{1, 2, 3, 4})
	if diff := cmp.Diff([]float32{0, 0, 0, 0, 0, 3, 4, 0, 0, 0}, batch); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	if plain := Pack(Bundles(p.Sequences, 0)); plain.Prefixes != nil {
		t.Errorf("nothing is shared, and the prefixes are %v", plain.Prefixes)
	}
}

// TestMicroBatches: in order, up to the limit and as the engine has room, never
// empty; a sequence that is longer than the limit is alone.
func TestMicroBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lengths []int
		limit   int
		room    int // sequences
		want    [][]int
	}{
		{nil, 10, 9, nil},
		{[]int{3, 4, 5}, 100, 9, [][]int{{3, 4, 5}}},
		{[]int{3, 4, 5}, 0, 9, [][]int{{3, 4, 5}}},
		{[]int{3, 4, 5}, 7, 9, [][]int{{3, 4}, {5}}},
		{[]int{3, 4, 5}, 6, 9, [][]int{{3}, {4}, {5}}},
		{[]int{20, 1, 1, 20, 1}, 6, 9, [][]int{{20}, {1, 1}, {20}, {1}}},
		{[]int{6, 6}, 6, 9, [][]int{{6}, {6}}},
		{[]int{3, 4, 5, 6, 7}, 0, 2, [][]int{{3, 4}, {5, 6}, {7}}},
		{[]int{3, 4, 5, 6, 7}, 12, 2, [][]int{{3, 4}, {5, 6}, {7}}},
		{[]int{3, 4, 5, 6, 7}, 7, 2, [][]int{{3, 4}, {5}, {6}, {7}}},
	} {
		var sequences []Sequence
		for _, n := range c.lengths {
			sequences = append(sequences, Sequence{Sequence: shard.Sequence{TokenIDs: make([]int32, n)}})
		}
		var got [][]int
		for _, run := range MicroBatches(Bundles(sequences, 0), c.limit, func(groups [][]int) int { return min(len(groups), c.room) }) {
			var lengths []int
			for _, b := range run {
				lengths = append(lengths, b.tokens())
			}
			got = append(got, lengths)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v at %d tokens (-want +got):\n%s", c.lengths, c.limit, diff)
		}
	}
}

// Between two turns of each of two responses that share a prompt: what is masked
// there is computed, and neither the prompt nor what comes after.
func TestWantMasked(t *testing.T) {
	t.Parallel()
	turns := func(result ...int32) Sequence {
		s := response("a", []int32{1, 2, 3}, append(append([]int32{10}, result...), 11, 12))
		for i := range result {
			s.LossMask[4+i] = false
		}
		s.LossMask[len(s.LossMask)-1] = false
		return s
	}
	p := Pack(Bundles([]Sequence{turns(20), turns(21, 22)}, 1000))
	if diff := cmp.Diff([]int32{1, 2, 3, 10, 20, 11, 12, 3, 10, 21, 22, 11, 12}, p.TokenIDs); diff != "" {
		t.Fatalf("tokens (-want +got):\n%s", diff)
	}
	p.WantMasked()
	want := []bool{false, false, false, true, true, true, false, false, true, true, true, true, false}
	if diff := cmp.Diff(want, p.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

package learn

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func leaf(unit int, values ...float32) block {
	return block{start: unit, sum: []policy.Tensor{{Name: "w", Shape: []int{len(values)}, Data: append([]float32(nil), values...)}}}
}

func sumOf(t interface{ Fatal(...any) }, values []float32) float32 {
	tr := newTree(len(values))
	for unit, v := range values {
		if err := tr.add(leaf(unit, v)); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := tr.finish()
	if err != nil {
		t.Fatal(err)
	}
	return sum[0].Data[0]
}

// TestTreeOrder works the order of additions by hand. In float32, 1e8 + 1 is
// 1e8: the spacing of numbers there is 8. So each order shows in its sum.
func TestTreeOrder(t *testing.T) {
	const big = 1e8
	for _, c := range []struct {
		values []float32
		want   float32
		order  string
	}{
		{[]float32{3}, 3, "u0"},
		{[]float32{big, 1, -big}, 0, "(u0+u1)+u2 = 1e8 - 1e8"},
		{[]float32{big, -big, 1}, 1, "(u0+u1)+u2 = 0 + 1"},
		{[]float32{1, big, 1, -big}, 0, "(u0+u1)+(u2+u3) = 1e8 - 1e8"},
		{[]float32{big, 1, -big, 1, 3}, 3, "((u0+u1)+(u2+u3))+u4 = (1e8-1e8)+3; from left to right it is 4"},
		{[]float32{big, 0, 0, 0, 1, -big, 5}, 8, "((u0+u1)+(u2+u3))+((u4+u5)+u6) = 1e8 + ((1-1e8)+5), where -1e8+5 rounds to -99999992; from left to right it is 5"},
	} {
		if got := sumOf(t, c.values); got != c.want {
			t.Errorf("%v: sum %g, want %g: %s", c.values, got, c.want, c.order)
		}
	}
}

// TestTreeDoesNotDependOnShards: any cut of the units into gradient shards
// gives the same bits.
func TestTreeDoesNotDependOnShards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float32Range(-1e6, 1e6), 1, 33).Draw(t, "units")
		shards := rapid.IntRange(1, len(values)).Draw(t, "shards")
		want := sumOf(t, values)
		whole := newTree(len(values))
		for n := range shards {
			first, last := len(values)*n/shards, len(values)*(n+1)/shards
			part := &tree{units: len(values), next: first}
			for unit := first; unit < last; unit++ {
				if err := part.add(leaf(unit, values[unit])); err != nil {
					t.Fatal(err)
				}
			}
			for _, b := range part.blocks() {
				if b.start%(1<<b.level) != 0 || b.start < first || b.start+1<<b.level > last {
					t.Fatalf("shard [%d, %d) hands on a block of level %d at %d", first, last, b.level, b.start)
				}
				if err := whole.add(b); err != nil {
					t.Fatal(err)
				}
			}
		}
		sum, err := whole.finish()
		if err != nil {
			t.Fatal(err)
		}
		if got := sum[0].Data[0]; math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("%d shards of %v: %v, one task: %v", shards, values, got, want)
		}
	})
}

func TestTreeRefuses(t *testing.T) {
	tr := newTree(3)
	if err := tr.add(leaf(1, 1)); exit.Code(err) != exit.Bug {
		t.Errorf("a block out of turn: %v", err)
	}
	if err := tr.add(leaf(0, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.finish(); exit.Code(err) != exit.Data {
		t.Errorf("one unit of three: %v", err)
	}
	if err := tr.add(leaf(1, 1, 2)); exit.Code(err) != exit.Data {
		t.Errorf("a tensor of another size: %v", err)
	}
	other := leaf(1, 1)
	other.sum = append(other.sum, other.sum[0])
	tr = newTree(2)
	if err := tr.add(leaf(0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := tr.add(other); exit.Code(err) != exit.Data {
		t.Errorf("another number of tensors: %v", err)
	}
}

// TestBlockName: what a gradient shard calls its tensors.
func TestBlockName(t *testing.T) {
	start, level, name, ok := blockName("6/1/model.layers.0.mlp/up")
	if start != 6 || level != 1 || name != "model.layers.0.mlp/up" || !ok {
		t.Errorf("got %d, %d, %q, %v", start, level, name, ok)
	}
	for _, bad := range []string{"", "6", "6/1", "x/1/w", "6/x/w", "6/-1/w", "6/31/w"} {
		if _, _, _, ok := blockName(bad); ok {
			t.Errorf("%q is taken for a block", bad)
		}
	}
}

// TestMicroBatches: in order, up to the limit, never empty; a sequence that
// is longer than the limit is alone.
func TestMicroBatches(t *testing.T) {
	for _, c := range []struct {
		lengths []int
		limit   int
		want    [][]int
	}{
		{nil, 10, nil},
		{[]int{3, 4, 5}, 100, [][]int{{3, 4, 5}}},
		{[]int{3, 4, 5}, 7, [][]int{{3, 4}, {5}}},
		{[]int{3, 4, 5}, 6, [][]int{{3}, {4}, {5}}},
		{[]int{20, 1, 1, 20, 1}, 6, [][]int{{20}, {1, 1}, {20}, {1}}},
		{[]int{6, 6}, 6, [][]int{{6}, {6}}},
	} {
		var sequences []sequence
		for _, n := range c.lengths {
			sequences = append(sequences, sequence{Sequence: shard.Sequence{TokenIDs: make([]int32, n)}})
		}
		var got [][]int
		for _, run := range microBatches(sequences, c.limit) {
			var lengths []int
			for _, s := range run {
				lengths = append(lengths, len(s.TokenIDs))
			}
			got = append(got, lengths)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v at %d tokens (-want +got):\n%s", c.lengths, c.limit, diff)
		}
	}
}

package learn

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// scalar is an engine with one gradient. Sums that were never held, or are held
// again before they were added, fail.
type scalar struct {
	gradient float32
	held     map[int]float32
	most     int // sums at once
}

func (s *scalar) HoldGradients(sum int) error {
	if _, taken := s.held[sum]; taken {
		return fmt.Errorf("sum %d is held over another", sum)
	}
	if s.held == nil {
		s.held = map[int]float32{}
	}
	s.held[sum], s.gradient = s.gradient, 0
	s.most = max(s.most, sum+1)
	return nil
}

func (s *scalar) AddGradients(sum int) error {
	x, ok := s.held[sum]
	if !ok {
		return fmt.Errorf("sum %d holds nothing", sum)
	}
	delete(s.held, sum)
	s.gradient += x
	return nil
}

// addAll adds up units of a tree.
func addAll(t interface{ Fatal(...any) }, e *scalar, tr *tree, values []float32) {
	for unit := tr.first; unit < tr.last; unit++ {
		e.gradient += values[unit]
		if err := tr.add(unit, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.finish(); err != nil {
		t.Fatal(err)
	}
}

func sumOf(t interface{ Fatal(...any) }, values []float32) float32 {
	var e scalar
	addAll(t, &e, newTree(&e, len(values)), values)
	if e.most > sumsOfStep(len(values)) {
		t.Fatal("more partial sums than planned:", e.most)
	}
	return e.gradient
}

// TestTreeOrder works the order of additions by hand. In float32, 1e8 + 1 is
// 1e8: the spacing of numbers there is 8. So each order shows in its sum.
func TestTreeOrder(t *testing.T) {
	t.Parallel()
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
// gives the same bits, and so does any of these into tasks that add them up first.
func TestTreeDoesNotDependOnShards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float32Range(-1e6, 1e6), 1, 33).Draw(t, "units")
		shards := rapid.IntRange(1, len(values)).Draw(t, "shards")
		tasks := rapid.IntRange(1, shards).Draw(t, "tasks")
		want := sumOf(t, values)
		var sum scalar
		whole := newTree(&sum, len(values))
		for n := range tasks {
			first, end := shards*n/tasks, shards*(n+1)/tasks
			var e scalar
			part := newPart(&e, len(values), first, end, shards)
			for shard := first; shard < end; shard++ {
				var of scalar
				computed := newPart(&of, len(values), shard, shard+1, shards)
				addAll(t, &of, computed, values)
				if of.most > sumsOfShard(len(values), shards, shards) {
					t.Fatalf("%d partial sums, %d were planned", of.most, sumsOfShard(len(values), shards, shards))
				}
				for _, b := range computed.done {
					e.gradient += of.held[b.sum]
					if err := part.add(b.start, b.level); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := part.finish(); err != nil {
				t.Fatal(err)
			}
			if e.most > sumsOfShard(len(values), shards, tasks) {
				t.Fatalf("%d partial sums, %d were planned", e.most, sumsOfShard(len(values), shards, tasks))
			}
			if len(e.held) != len(part.done) || len(part.waiting) > 0 {
				t.Fatalf("task %d is left with %d sums of %d blocks, and %d that wait", n, len(e.held), len(part.done), len(part.waiting))
			}
			for _, b := range part.done {
				if b.start%(1<<b.level) != 0 || b.start < part.first || b.start+1<<b.level > part.last {
					t.Fatalf("task [%d, %d) hands on a block of level %d at %d", part.first, part.last, b.level, b.start)
				}
				sum.gradient += e.held[b.sum]
				if err := whole.add(b.start, b.level); err != nil {
					t.Fatal(err)
				}
			}
		}
		if most := sumsOfBlocks(len(values), shards); sum.most > most {
			t.Fatalf("%d partial sums of blocks, %d were planned", sum.most, most)
		}
		if err := whole.finish(); err != nil {
			t.Fatal(err)
		}
		if got := sum.gradient; math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("%d shards of %v, added up by %d tasks: %v, one task: %v", shards, values, tasks, got, want)
		}
	})
}

// TestSums: while unit u is computed, the blocks that wait are the ones of u in binary;
// the last unit is merged with them and held no more. Blocks take the numbers of those
// that were merged.
func TestSums(t *testing.T) {
	t.Parallel()
	for units, want := range map[int]int{1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 8: 3, 9: 3, 16: 4} {
		if got := sumsOfStep(units); got != want {
			t.Errorf("%d units need %d partial sums, want %d", units, got, want)
		}
	}
	// [0,4) is one block: [0,2) and unit 2 wait while unit 3 is computed, and it takes the
	// number of [0,2). [0,3), [3,6) and [6,9) are two blocks each. A task that adds up two
	// shards of [0,8) each has what one shard of its units has.
	for _, c := range []struct{ units, shards, tasks, want int }{{4, 1, 1, 2}, {8, 2, 2, 2}, {9, 3, 3, 2}, {5, 5, 5, 1}, {8, 4, 2, 2}} {
		if got := sumsOfShard(c.units, c.shards, c.tasks); got != c.want {
			t.Errorf("%d units of %d shards in %d tasks need %d partial sums, want %d", c.units, c.shards, c.tasks, got, c.want)
		}
	}
}

func TestTreeRefuses(t *testing.T) {
	t.Parallel()
	var e scalar
	tr := newTree(&e, 3)
	for _, b := range []block{{start: 1}, {start: 0, level: 2}} {
		if err := tr.add(b.start, b.level); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("block %+v, out of turn or range: %v", b, err)
		}
	}
	if err := tr.add(0, 0); err != nil {
		t.Fatal(err)
	}
	if err := tr.finish(); exitcode.Code(err) != exitcode.Data {
		t.Errorf("one unit of three: %v", err)
	}
	if err := tr.add(1, 1); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("two units from an odd one on: %v", err)
	}
}

// TestBlockName: what a gradient shard calls its tensors.
func TestBlockName(t *testing.T) {
	t.Parallel()
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

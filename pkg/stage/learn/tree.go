package learn

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// tree sums the gradients of units 0..n-1 in one fixed order, whoever
// computed them. Floating-point addition is not associative, so the order is
// part of the result: units are the leaves of binary trees over aligned
// blocks of 2^level units, blocks are merged as soon as both halves are
// there, and what is left of an unaligned end is folded from the right.
//
// A gradient shard that holds units [a, b) hands on the maximal aligned
// blocks inside it, which are whole subtrees of the same tree: that is why
// any number of gradient shards gives the same bytes.
type tree struct {
	units int
	next  int // units taken so far
	stack []block
}

// block is the sum of the gradients of units [start, start + 2^level).
type block struct {
	start, level int
	sum          []policy.Tensor
}

func newTree(units int) *tree { return &tree{units: units} }

// add takes the next block in unit order, whose sum it keeps, and merges.
func (t *tree) add(b block) error {
	if b.start != t.next || b.start%(1<<b.level) != 0 {
		return exit.Bugf("gradient block of level %d starts at unit %d, unit %d is next", b.level, b.start, t.next)
	}
	t.next += 1 << b.level
	t.stack = append(t.stack, b)
	for len(t.stack) >= 2 {
		left, right := t.stack[len(t.stack)-2], t.stack[len(t.stack)-1]
		if left.level != right.level || left.start%(1<<(left.level+1)) != 0 {
			break
		}
		if err := addTo(left.sum, right.sum); err != nil {
			return err
		}
		left.level++
		t.stack = append(t.stack[:len(t.stack)-2], left)
	}
	return nil
}

// blocks returns the maximal aligned blocks that are left, in unit order.
func (t *tree) blocks() []block { return t.stack }

// finish folds the remaining blocks from the right and returns the sum.
func (t *tree) finish() ([]policy.Tensor, error) {
	if t.next != t.units {
		return nil, exit.Dataf("gradients cover %d of %d units", t.next, t.units)
	}
	for len(t.stack) >= 2 {
		left, right := t.stack[len(t.stack)-2], t.stack[len(t.stack)-1]
		if err := addTo(left.sum, right.sum); err != nil {
			return nil, err
		}
		t.stack = t.stack[:len(t.stack)-1]
	}
	return t.stack[0].sum, nil
}

func addTo(sum, other []policy.Tensor) error {
	if len(sum) != len(other) {
		return exit.Dataf("gradients of %d and of %d tensors cannot be summed", len(sum), len(other))
	}
	for i := range sum {
		if len(sum[i].Data) != len(other[i].Data) {
			return fmt.Errorf("gradient of %q: %w", sum[i].Name,
				exit.Dataf("%d and %d values cannot be summed", len(sum[i].Data), len(other[i].Data)))
		}
		vec.Add(sum[i].Data, sum[i].Data, other[i].Data)
	}
	return nil
}

package learn

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// adder is what of an engine adds up gradients ([policy.Sums]).
type adder interface {
	HoldGradients(sum int) error
	AddGradients(sum int) error
}

// tree sums the gradients of units in one fixed order, whoever computed them.
// Floating-point addition is not associative, so the order is part of the
// result: units are the leaves of binary trees over aligned blocks of 2^level
// units, blocks are merged as soon as both halves are there, and what is left of
// an unaligned end is folded from the right.
//
// A gradient shard that holds units [a, b) hands on the maximal aligned blocks
// inside it, which are whole subtrees of the same tree: that is why any number
// of gradient shards gives the same bytes.
//
// No sum is outside the engine. The newest block is what the engine has
// accumulated, and the blocks that wait to be merged are its partial sums.
type tree struct {
	engine      adder
	first, last int  // the units that are added up here
	part        bool // there are others, elsewhere
	next        int  // the unit that comes next
	waiting     []block
	done        []block // of a part: those whose other half is elsewhere
}

// block is the sum of the gradients of units [start, start + 2^level), and the
// number of the partial sum that holds it.
type block struct{ start, level, sum int }

// newTree is a tree of all units. The engine's accumulated gradients must be zero.
func newTree(engine adder, units int) *tree { return &tree{engine: engine, last: units} }

// unitsOfShards are the units [first, last) that shards [n, end) of so many have.
func unitsOfShards(units, n, end, shards int) (first, last int) {
	return units * n / shards, units * end / shards
}

// newPart is what a tree has of the units that shards [n, end) of so many have.
func newPart(engine adder, units, n, end, shards int) *tree {
	first, last := unitsOfShards(units, n, end, shards)
	return &tree{engine: engine, first: first, last: last, next: first, part: true}
}

// add takes the block that comes next in unit order, which the engine has
// accumulated, merges it with those that wait for it, and leaves gradients of
// zero unless it was the last of all.
func (t *tree) add(start, level int) error {
	if start != t.next || start%(1<<level) != 0 || start+1<<level > t.last {
		return exitcode.Bugf("gradient block of level %d starts at unit %d, unit %d of %d is next", level, start, t.next, t.last)
	}
	t.next += 1 << level
	for n := len(t.waiting); n > 0 && t.waiting[n-1].level == level && t.waiting[n-1].start%(1<<(level+1)) == 0; n-- {
		start, level = t.waiting[n-1].start, level+1
		if err := t.merge(); err != nil {
			return err
		}
	}
	b := block{start: start, level: level, sum: t.unused()}
	switch parent := start &^ (1 << level); {
	case !t.part && t.next == t.last:
		return t.mergeAll()
	case !t.part, t.first <= parent && parent+2<<level <= t.last:
		t.waiting = append(t.waiting, b)
	default:
		t.done = append(t.done, b)
	}
	return t.engine.HoldGradients(b.sum)
}

// unused is the lowest number of a partial sum that holds no block: a sum takes as much
// memory as the policy's gradients.
func (t *tree) unused() int {
	for sum := 0; ; sum++ {
		holds := func(b block) bool { return b.sum == sum }
		if !slices.ContainsFunc(t.waiting, holds) && !slices.ContainsFunc(t.done, holds) {
			return sum
		}
	}
}

// merge adds the last block that waits to what the engine has accumulated.
func (t *tree) merge() error {
	last := len(t.waiting) - 1
	err := t.engine.AddGradients(t.waiting[last].sum)
	t.waiting = t.waiting[:last]
	return err
}

// mergeAll merges all blocks that wait, from the right.
func (t *tree) mergeAll() error {
	for len(t.waiting) > 0 {
		if err := t.merge(); err != nil {
			return err
		}
	}
	return nil
}

// finish wants all units to be there: the engine has accumulated their sum, or,
// for a part of the units, done lists the blocks, in unit order.
func (t *tree) finish() error {
	if t.next != t.last {
		return exitcode.Dataf("gradients cover %d of %d units", t.next-t.first, t.last-t.first)
	}
	return nil
}

// counter counts the partial sums that a tree wants.
type counter struct{ sums int }

func (c *counter) AddGradients(int) error { return nil }
func (c *counter) HoldGradients(sum int) error {
	c.sums = max(c.sums, sum+1)
	return nil
}

// count adds one unit after the other to a tree.
func (c *counter) count(t *tree) {
	for unit := t.first; unit < t.last; unit++ {
		if err := t.add(unit, 0); err != nil {
			panic(err) // nothing fails that only counts
		}
	}
}

// sumsOfStep is the number of partial sums of a step in one task.
func sumsOfStep(units int) int {
	var c counter
	c.count(newTree(&c, units))
	return c.sums
}

// sumsOfBlocks is the number of partial sums where the blocks of so many gradient shards
// are added up.
func sumsOfBlocks(units, shards int) int {
	var c, within counter
	whole := newTree(&c, units)
	for n := range shards {
		part := newPart(&within, units, n, n+1, shards)
		within.count(part)
		for _, b := range part.done {
			if err := whole.add(b.start, b.level); err != nil {
				panic(err) // they are in the order of the units
			}
		}
	}
	return c.sums
}

// sumsOfShard is the number of partial sums of one of so many tasks that each have some
// of the gradient shards, whichever of them it is.
func sumsOfShard(units, shards, tasks int) int {
	var c counter
	for n := range tasks {
		c.count(newPart(&c, units, shards*n/tasks, shards*(n+1)/tasks, shards))
	}
	return c.sums
}

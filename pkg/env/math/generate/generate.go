// Package generate makes problems from a seed: counted families of arithmetic
// by levels, and the modules of DeepMind's Mathematics Dataset (package
// deepmind).
package generate

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/generate/deepmind"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
)

const (
	maxLevel = 9
	// enumerateAlways is the size of a problem space that is always listed
	// rather than drawn from.
	enumerateAlways = 1 << 16
	// drawMost bounds the draws that a kind at a level is expected to take.
	drawMost = 1 << 22
)

// cell is one kind at one level, of one split.
type cell struct {
	kind  kind
	level int
	spans []span
	quota int
	tasks []env.Task
}

// Tasks makes problems for a split: g.Count of them, spread evenly over
// kinds and levels, in turn, no two equal. They are a function of the
// arguments. A question belongs to the test split when a hash of its text
// falls below g.TestShare, so the splits are disjoint whatever counts, kinds,
// levels and seeds they are made with.
func Tasks(g Settings, split env.Split, seed uint64) ([]env.Task, error) {
	where := "data." + string(split) + ".generate"
	cells, err := cellsOf(g, split, where)
	if err != nil {
		return nil, err
	}
	share := g.TestShare
	if split == env.Train {
		share = 1 - share
	}
	var short []string
	// Problems in words come last, and ask nothing that stands already: some
	// of them are no more than 4+2.
	phrased := map[string]bool{}
	order := make([]*cell, len(cells))
	for i := range cells {
		order[i] = &cells[i]
	}
	slices.SortStableFunc(order, func(a, b *cell) int {
		return cmp.Compare(min(len(b.spans), 1), min(len(a.spans), 1))
	})
	for _, c := range order {
		exist, err := c.fill(g.TestShare, share, split, seed, where, phrased)
		if err != nil {
			return nil, err
		}
		for _, task := range c.tasks {
			phrased[task.Question] = true
		}
		if len(c.tasks) < c.quota {
			short = append(short, fmt.Sprintf("%s level %d has %d", c.kind.name, c.level, exist))
		}
	}
	if len(short) > 0 {
		return nil, exitcode.Usagef("%s: count %d asks for up to %d %s problems of each kind and level, but %s: lower the count, or add levels or kinds",
			where, g.Count, cells[0].quota, split, strings.Join(short, ", "))
	}
	tasks := make([]env.Task, 0, g.Count)
	for round := 0; len(tasks) < g.Count; round++ {
		for _, c := range cells {
			if round < len(c.tasks) {
				tasks = append(tasks, c.tasks[round])
			}
		}
	}
	return tasks, nil
}

func cellsOf(g Settings, split env.Split, where string) ([]cell, error) {
	if len(g.Kinds) == 0 || len(g.Levels) == 0 {
		return nil, exitcode.Usagef("%s needs kinds and levels: the kinds are %s", where, strings.Join(Kinds(), ", "))
	}
	if g.Count < 1 {
		return nil, exitcode.Usagef("%s.count is %d: it must be 1 or more", where, g.Count)
	}
	if !(g.TestShare >= 0 && g.TestShare <= 1) {
		return nil, exitcode.Usagef("%s.test_share is %v: it must be in [0, 1]", where, g.TestShare)
	}
	if split == env.Test && g.TestShare == 0 || split == env.Train && g.TestShare == 1 {
		return nil, exitcode.Usagef("%s.test_share is %v: it leaves no %s problems", where, g.TestShare, split)
	}
	var cells []cell
	for i, name := range g.Kinds {
		named, ok := kindNamed(name)
		if !ok {
			return nil, exitcode.Usagef("%s.kinds has %q: the kinds are %s", where, name, strings.Join(Kinds(), ", "))
		}
		if slices.Contains(g.Kinds[:i], name) {
			return nil, exitcode.Usagef("%s.kinds has %q twice", where, name)
		}
		for j, level := range g.Levels {
			if level < 1 || level > maxLevel {
				return nil, exitcode.Usagef("%s.levels has %d: levels are 1 to %d", where, level, maxLevel)
			}
			if slices.Contains(g.Levels[:j], level) {
				return nil, exitcode.Usagef("%s.levels has %d twice", where, level)
			}
			c := cell{kind: named, level: level}
			if named.spans != nil {
				c.spans = named.spans(level)
			}
			cells = append(cells, c)
		}
	}
	for i := range cells {
		cells[i].quota = g.Count / len(cells)
		if i < g.Count%len(cells) {
			cells[i].quota++
		}
	}
	return cells, nil
}

// fill makes the cell's problems and, when there are too few, returns how
// many exist.
func (c *cell) fill(testShare, share float64, split env.Split, seed uint64, where string, phrased map[string]bool) (exist int, err error) {
	if c.quota == 0 {
		return 0, nil
	}
	draws := float64(c.quota+16) / share
	if draws > drawMost {
		return 0, exitcode.Usagef("%s: count %d with test_share %v is too large for %s level %d: change the share or lower the count", where, c.quota, testShare, c.kind.name, c.level)
	}
	stream := rng.New(seed, rng.PurposeData, 0, fmt.Sprintf("generate/%s/%s/%d", split, c.kind.name, c.level), 0)
	if c.spans == nil {
		return c.phrase(int(16*draws)+enumerateAlways, testShare, split, stream, phrased), nil
	}
	// Drawing is cheap while at most a quarter of the problems is wanted, and
	// ends for sure: with 64 of them expected, none is out of the question.
	if size := c.size(); float64(size) <= max(enumerateAlways, 4*draws) {
		return c.enumerate(size, testShare, split, stream), nil
	}
	c.draw(testShare, split, stream)
	return len(c.tasks), nil
}

// size is the number of problems of both splits, at most 2^64-1.
func (c *cell) size() uint64 {
	size := uint64(1)
	for _, s := range c.spans {
		hi, lo := bits.Mul64(size, uint64(s.high-s.low)+1)
		if hi > 0 {
			return 1<<64 - 1
		}
		size = lo
	}
	return size
}

// enumerate lists the split's problems and keeps a random choice of them.
func (c *cell) enumerate(size uint64, testShare float64, split env.Split, stream rng.Stream) (exist int) {
	var members []uint64
	values := make([]int64, len(c.spans))
	decode := func(index uint64) {
		for i, s := range c.spans {
			n := uint64(s.high-s.low) + 1
			values[i] = s.low + int64(index%n)
			index /= n
		}
	}
	for index := range size {
		decode(index)
		if question, _ := c.kind.build(c.level, values); splitOf(question, testShare) == split {
			members = append(members, index)
		}
	}
	if len(members) < c.quota {
		return len(members)
	}
	for _, at := range stream.Permutation(0, len(members))[:c.quota] {
		decode(members[at])
		c.add(c.kind.build(c.level, values))
	}
	return len(members)
}

// draw keeps distinct problems of the split as they come. The space is at
// least four times what is wanted, so it ends soon.
func (c *cell) draw(testShare float64, split env.Split, stream rng.Stream) {
	seen := make(map[string]bool, c.quota)
	values := make([]int64, len(c.spans))
	for position := uint64(0); len(c.tasks) < c.quota; {
		for i, s := range c.spans {
			values[i] = s.low + int64(stream.IntN(position, int(s.high-s.low+1)))
			position++
		}
		question, answer := c.kind.build(c.level, values)
		if seen[question] || splitOf(question, testShare) != split {
			continue
		}
		seen[question] = true
		c.add(question, answer)
	}
}

// phrase keeps distinct problems of the split in words as they come, each from
// its own stream, and gives up after so many draws: nobody counted how many
// there are. It returns how many it found. Levels and kinds in words overlap,
// so a question that any of them asked, in phrased, is not asked again.
//
// Each task of a run makes the problems anew, so they are drawn on all cores,
// as many at a time as are still wanted, and taken in order.
func (c *cell) phrase(draws int, testShare float64, split env.Split, stream rng.Stream, phrased map[string]bool) (found int) {
	drawn := make([]deepmind.Problem, c.quota)
	for sample := 0; sample < draws && len(c.tasks) < c.quota; {
		wanted := drawn[:min(c.quota-len(c.tasks), draws-sample)]
		workers := min(runtime.GOMAXPROCS(0), len(wanted)/64+1)
		var group sync.WaitGroup
		for worker := range workers {
			group.Go(func() {
				own := stream
				for i := worker; i < len(wanted); i += workers {
					own.Sample = uint32(sample + i)
					wanted[i] = deepmind.Make(c.kind.name, c.level, own)
				}
			})
		}
		group.Wait()
		sample += len(wanted)
		for _, p := range wanted {
			if phrased[p.Question] || splitOf(p.Question, testShare) != split {
				continue
			}
			phrased[p.Question] = true
			c.add(p.Question, p.Answer)
		}
	}
	return len(c.tasks)
}

func (c *cell) add(question, answer string) {
	c.tasks = append(c.tasks, env.Task{
		ID:       fmt.Sprintf("%s/%d/%s", c.kind.name, c.level, question),
		Kind:     c.kind.name,
		Level:    c.level,
		Question: question,
		Answer:   answer,
	})
}

// splitOf is the split that a generated question belongs to.
func splitOf(question string, testShare float64) env.Split {
	sum := sha256.Sum256([]byte("lathe/math/split\n" + question))
	if float64(binary.LittleEndian.Uint64(sum[:])>>11)*0x1p-53 < testShare {
		return env.Test
	}
	return env.Train
}

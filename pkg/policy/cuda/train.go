package cuda

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// lastForward is what Backward needs of the last Forward.
type lastForward struct {
	valid    bool
	batch    policy.Batch // shares memory with the caller
	sampling policy.Sampling
	passes   []pass
	kept     bool      // the device has the activations of the only pass
	values   []float32 // (N) of the value head, 0 where there is no target
}

// pass is a run of prefix groups that the device computes together: the tokens
// [from, to) of a batch. There is at least one target.
type pass struct {
	from, to int
	offsets  []int32 // of the sequences that are not empty, from 0
	prefixes []int32 // of those, as in policy.Batch
}

// content is what a pass holds.
type content struct{ rows, sequences int }

// contentOf is what a prefix group, by the lengths of its sequences, takes of a pass.
func contentOf(group []int) content {
	var c content
	for _, tokens := range group {
		if tokens > 0 {
			c.rows, c.sequences = c.rows+policy.RowsOf(tokens), c.sequences+1
		}
	}
	return c
}

// add takes one more prefix group into a pass that has room for it; an empty pass
// takes any.
func (b Budgets) add(c *content, group content) bool {
	if c.sequences > 0 && group.sequences > 0 && !b.holds(content{c.rows + group.rows, c.sequences + group.sequences}) {
		return false
	}
	c.rows, c.sequences = c.rows+group.rows, c.sequences+group.sequences
	return true
}

// holds reports whether there is room for so much in a pass.
func (b Budgets) holds(c content) bool {
	return c.rows <= b.PassTokens && c.sequences <= b.PassSequences
}

// Room implements [policy.Scorer]: what makes one pass.
func (e *Engine) Room(groups [][]int) int {
	var c content
	for i, group := range groups {
		if !e.budgets.add(&c, contentOf(group)) {
			return i
		}
	}
	return len(groups)
}

// divide cuts a batch into passes that the device has room for, none within a
// prefix group, and leaves out those without targets, of which nothing is wanted.
func (e *Engine) divide(batch policy.Batch) ([]pass, error) {
	var passes []pass
	var current pass
	var filled content
	finish := func() {
		if slices.Contains(batch.Targets[current.from:current.to], true) {
			passes = append(passes, current)
		}
	}
	sequences := max(0, len(batch.Offsets)-1)
	for s, end := 0, 0; s < sequences; s = end {
		end = batch.PrefixGroupEnd(s)
		var lengths []int
		for i := s; i < end; i++ {
			lengths = append(lengths, int(batch.Offsets[i+1]-batch.Offsets[i]))
		}
		group := contentOf(lengths)
		if group.sequences == 0 {
			continue
		}
		if !e.budgets.holds(group) {
			return nil, exitcode.WithHint(exitcode.Unavailablef("one pass of %d rows in %d sequences exceeds the engine's room for %d rows in %d sequences",
				group.rows, group.sequences, e.budgets.PassTokens, e.budgets.PassSequences),
				"lathe policy inspect --gpu shows what longer sequences need")
		}
		if !e.budgets.add(&filled, group) {
			finish()
			filled = content{}
			e.budgets.add(&filled, group) // an empty pass takes any
		}
		if filled.sequences == group.sequences {
			current = pass{from: int(batch.Offsets[s]), offsets: []int32{0}}
		}
		current.add(batch, s, end)
	}
	finish()
	return passes, nil
}

// add appends the sequences [s, end) of a batch, which are a prefix group.
func (p *pass) add(batch policy.Batch, s, end int) {
	prefix := int32(-1)
	for ; s < end; s++ {
		to := int(batch.Offsets[s+1])
		if to == int(batch.Offsets[s]) {
			continue // nothing goes on from a shared prefix that is empty
		}
		if batch.Prefix(s) < 0 {
			p.prefixes = append(p.prefixes, -1)
			prefix = int32(len(p.prefixes) - 1)
		} else {
			p.prefixes = append(p.prefixes, prefix)
		}
		p.to = to
		p.offsets = append(p.offsets, int32(to-p.from))
	}
}

// run computes one pass. The results have the length of the whole batch; values
// may be nil.
func (e *Engine) run(p pass, keep bool, logProbs, entropy, values []float32) error {
	if values != nil {
		values = values[p.from:p.to]
	}
	return e.native.forward(p.offsets, p.prefixes, e.last.batch.TokenIDs[p.from:p.to], e.last.batch.Targets[p.from:p.to], e.last.sampling, keep,
		logProbs[p.from:p.to], entropy[p.from:p.to], values)
}

// Forward implements [policy.Scorer]. Of a batch of several passes nothing is
// kept: Backward computes them again.
func (e *Engine) Forward(batch policy.Batch, sampling policy.Sampling, logProbs, entropy []float32) error {
	defer phase.Enter(phase.Forward)()
	e.last = lastForward{}
	if e.failed != nil {
		return e.failed
	}
	if err := policy.CheckForward(e.config, batch, sampling, logProbs, entropy); err != nil {
		return err
	}
	passes, err := e.divide(batch)
	if err != nil {
		return err
	}
	clear(logProbs)
	clear(entropy)
	e.last = lastForward{batch: batch, sampling: sampling, passes: passes, kept: e.train && len(passes) == 1}
	if e.value {
		e.last.values = make([]float32, len(batch.TokenIDs))
	}
	for _, p := range passes {
		if err := e.run(p, e.last.kept, logProbs, entropy, e.last.values); err != nil {
			return err
		}
	}
	e.last.valid = true
	return nil
}

// Values implements [policy.Scorer].
func (e *Engine) Values(dst []float32) error {
	switch {
	case !e.value:
		return exitcode.Bugf("values: the policy has no value head")
	case !e.last.valid:
		return exitcode.Bugf("values: Values called before Forward")
	case len(dst) != len(e.last.values):
		return exitcode.Bugf("values: room for %d, the batch has %d tokens", len(dst), len(e.last.values))
	}
	copy(dst, e.last.values)
	return nil
}

// Backward implements [policy.Trainer].
func (e *Engine) Backward(coefficients policy.Coefficients) error {
	defer phase.Enter(phase.Backward)()
	last := e.last
	switch {
	case e.failed != nil:
		return e.failed
	case !e.train:
		return exitcode.Bugf("backward pass: the engine was opened without Train")
	case e.bare:
		return exitcode.Bugf("backward pass: the trained adapter is switched off")
	case !last.valid:
		return exitcode.Bugf("backward pass: Backward called before Forward")
	}
	n := len(last.batch.TokenIDs)
	if err := coefficients.Validate(n, e.value); err != nil {
		return err
	}
	var logProbs, entropy []float32
	if !last.kept {
		logProbs, entropy = make([]float32, n), make([]float32, n)
	}
	for _, p := range last.passes {
		if !last.kept {
			if err := e.run(p, true, logProbs, entropy, nil); err != nil {
				return err
			}
		}
		part := func(x []float32) []float32 {
			if x == nil {
				return nil
			}
			return x[p.from:p.to]
		}
		if err := e.native.backward(part(coefficients.LogProb), part(coefficients.Entropy), part(coefficients.Value)); err != nil {
			return err
		}
	}
	e.last = lastForward{}
	return nil
}

// ZeroGradients implements [policy.Trainer].
func (e *Engine) ZeroGradients() {
	if e.train {
		e.fail(e.native.zeroGradients())
	}
}

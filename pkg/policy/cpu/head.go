package cpu

import (
	"cmp"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// rowGrain is the number of rows that are worth another goroutine.
const rowGrain = 32

// head computes logits at target positions alone, in chunks.
type head struct {
	rows     []int32   // (M) index of the token that predicts the target
	targets  []int32   // (M) the target's id
	index    []int32   // (M) index of the target in the caller's batch
	normed   []float32 // (M, h)
	rstd     []float32 // (M) of the last norm
	entropy  []float32 // (M)
	logits   []float32 // (M, V) or one chunk
	kept     bool      // logits holds all targets
	gradient []float32 // (M, h)
	dists    []distribution
}

// setTargets lists the targets among tokens from to to-1 of the batch.
func (h *head) setTargets(batch policy.Batch, from, to int) {
	h.rows, h.targets, h.index = h.rows[:0], h.targets[:0], h.index[:0]
	for i := from; i < to; i++ {
		if batch.Targets[i] {
			h.rows = append(h.rows, int32(i-from-1))
			h.targets = append(h.targets, batch.TokenIDs[i])
			h.index = append(h.index, int32(i))
		}
	}
}

// chunks calls f for consecutive ranges of targets with their logits (to-from,
// V).
func (h *head) chunks(p *pass, recompute bool, f func(from, to int, logits []float32)) {
	c := p.e.config
	size, m := p.e.limits.chunkRows(c), len(h.targets)
	for from := 0; from < m; from += size {
		to := min(m, from+size)
		logits := h.logits
		if h.kept {
			logits = h.logits[from*c.VocabSize:]
		}
		logits = logits[:(to-from)*c.VocabSize]
		if recompute {
			p.e.model.head.apply(logits, h.normed[from*c.HiddenSize:], to-from, p.threads, nil)
			p.e.finish(logits, p.threads)
		}
		f(from, to, logits)
	}
}

// forward computes log-probability and entropy of every target; both slices
// have the length of the caller's batch.
func (h *head) forward(p *pass, s policy.Sampling, logProbs, entropy []float32) {
	c := p.e.config
	m, hidden := len(h.targets), c.HiddenSize
	h.normed = grow(h.normed, m*hidden)
	h.rstd = grow(h.rstd, m)
	h.entropy = grow(h.entropy, m)
	h.kept = p.train && m*c.VocabSize <= p.e.limits.keptLogits
	room := min(m, p.e.limits.chunkRows(c))
	if h.kept {
		room = m
	}
	h.logits = grow(h.logits, room*c.VocabSize)
	if len(h.dists) < p.threads {
		h.dists = make([]distribution, p.threads)
	}
	parallel(p.threads, m, rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			h.rstd[i] = vec.RMSNorm(h.normed[i*hidden:(i+1)*hidden], p.final[i*hidden:(i+1)*hidden], p.e.model.norm.multiplier, float32(c.RMSNormEps))
		}
	})
	h.chunks(p, true, func(first, end int, logits []float32) {
		parallel(p.threads, end-first, 1+4096/c.VocabSize, func(worker, from, to int) {
			d := &h.dists[worker]
			for i := from; i < to; i++ {
				row, target := logits[i*c.VocabSize:(i+1)*c.VocabSize], h.targets[first+i]
				d.set(row, s, target)
				h.entropy[first+i] = d.entropy(row)
				logProbs[h.index[first+i]] = d.logProb(row, target)
				entropy[h.index[first+i]] = h.entropy[first+i]
			}
		})
	})
}

// backward adds to the gradients of the head and the last norm, and sets
// stream (M, h) to the gradient of the residual stream after the last block.
func (h *head) backward(p *pass, s policy.Sampling, coefficients policy.Coefficients, stream []float32) {
	c, e := p.e.config, p.e
	m, hidden := len(h.targets), c.HiddenSize
	h.gradient = grow(h.gradient, m*hidden)
	h.chunks(p, !h.kept, func(first, end int, logits []float32) {
		parallel(p.threads, end-first, 1+4096/c.VocabSize, func(worker, from, to int) {
			d := &h.dists[worker]
			for i := from; i < to; i++ {
				row, target, index := logits[i*c.VocabSize:(i+1)*c.VocabSize], h.targets[first+i], h.index[first+i]
				d.set(row, s, target)
				ofLogProb, ofEntropy := at(coefficients.LogProb, index), at(coefficients.Entropy, index)
				if e.finished() {
					d.finished = grow(d.finished, len(row))
					copy(d.finished, row)
				}
				d.gradient(row, target, ofLogProb, ofEntropy, h.entropy[first+i])
				if e.finished() {
					e.finishGrad(row, d.finished)
				}
			}
		})
		e.model.head.inputGradByParts(h.gradient[first*hidden:], logits, end-first, p.threads)
		e.model.head.weightGrad(p, logits, h.normed[first*hidden:], end-first)
	})
	if coefficients.Value != nil {
		h.valuesGrad(p, coefficients.Value)
	}
	normGrad(p, e.model.norm, h.gradient, p.final, h.rstd, m)
	parallel(p.threads, m, rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			row := func(x []float32) []float32 { return x[i*hidden : (i+1)*hidden] }
			vec.RMSNormGrad(row(stream), nil, row(h.gradient), row(p.final), e.model.norm.multiplier, h.rstd[i], false)
		}
	})
}

// finished reports whether logits are more than the head's product.
func (e *Engine) finished() bool { return e.config.LogitScale != 0 || e.config.LogitCap != 0 }

// logitScale is what the head's product is multiplied by.
func (e *Engine) logitScale() float32 { return float32(1 / cmp.Or(e.config.LogitScale, 1)) }

// finish makes logits of the head's product, in place: scaled, and then capped.
func (e *Engine) finish(logits []float32, threads int) {
	if !e.finished() {
		return
	}
	parallel(threads, len(logits), 4096, func(_, from, to int) {
		part := logits[from:to]
		if e.config.LogitCap != 0 {
			vec.SoftCap(part, part, e.logitScale(), float32(e.config.LogitCap))
		} else {
			vec.Scale(part, e.logitScale(), part)
		}
	})
}

// finishGrad takes the gradient of logits to that of the head's product, in place.
func (e *Engine) finishGrad(grad, logits []float32) {
	if e.config.LogitCap != 0 {
		vec.SoftCapGrad(grad, grad, logits, e.logitScale(), float32(e.config.LogitCap))
	} else {
		vec.Scale(grad, e.logitScale(), grad)
	}
}

// at is x[i], or 0 of a slice that is nil.
func at(x []float32, i int32) float32 {
	if x == nil {
		return 0
	}
	return x[i]
}

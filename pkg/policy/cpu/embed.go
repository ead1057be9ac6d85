package cpu

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// Embed implements [policy.Embedder].
func (e *Engine) Embed(batch policy.Batch, own []bool) ([][]float32, error) {
	n, sequences := len(batch.TokenIDs), max(0, len(batch.Offsets)-1)
	if len(own) != n {
		return nil, exitcode.Bugf("embedding: %d marks for %d tokens", len(own), n)
	}
	batch.Targets, batch.Prefixes = make([]bool, n), nil
	if err := batch.Validate(e.config); err != nil {
		return nil, err
	}
	e.last = lastForward{}
	hidden, eps := e.config.HiddenSize, float32(e.config.RMSNormEps)
	all := make([][]float32, sequences)
	for _, c := range e.divide(batch) {
		e.runTokens(batch, c, nil)
		first := int(batch.Offsets[c.from])
		parallel(e.pass.threads, c.to-c.from, 1, func(_, from, to int) {
			state, sum := make([]float32, hidden), make([]float64, hidden)
			for s := c.from + from; s < c.from+to; s++ {
				clear(sum)
				count := 0
				for i := int(batch.Offsets[s]); i < int(batch.Offsets[s+1]); i++ {
					if !own[i] {
						continue
					}
					vec.RMSNorm(state, e.pass.final[(i-first)*hidden:(i-first+1)*hidden], e.model.norm.multiplier, eps)
					for k, x := range state {
						sum[k] += float64(x)
					}
					count++
				}
				all[s] = make([]float32, hidden)
				for k := range sum {
					all[s][k] = float32(sum[k] / float64(max(1, count)))
				}
			}
		})
	}
	return all, nil
}

//go:build cgo && linux

package cuda_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
)

func TestConformance(t *testing.T) {
	ways := map[string]func(b *cuda.Budgets){
		"one pass":     func(b *cuda.Budgets) { b.PassTokens, b.PassSequences = 2000, 40 },
		"small passes": func(b *cuda.Budgets) { b.PassTokens, b.PassSequences, b.Slots, b.PrefillTokens = 208, 4, 1, 32 },
		"small chunks": func(b *cuda.Budgets) { b.HeadTokens = cuda.RowAlign },
		"norms again":  func(b *cuda.Budgets) { b.Recompute = cuda.RecomputeMLP },
		"blocks again": func(b *cuda.Budgets) { b.Recompute = cuda.RecomputeBlock },
		"offloaded":    func(b *cuda.Budgets) { b.Recompute, b.MLPTokens = cuda.Offload, 2*cuda.RowAlign },
	}
	policytest.Conform(t, policytest.Backend{
		Ways: []string{"one pass", "small passes", "small chunks", "norms again", "blocks again", "offloaded"},
		Open: func(t testing.TB, way string, source policy.Source, o policytest.Options) (*policy.Engine, error) {
			options := cuda.Options{
				Library: policytest.Library(t), Train: o.Train, DType: o.DType, State: o.State, Adapter: o.Adapter, ValueHead: o.ValueHead,
			}
			e, err := cuda.OpenWith(source, options, budgets(func(b *cuda.Budgets) {
				if b.GradientSums = 0; o.Train {
					b.GradientSums = 2
				}
				ways[way](b)
			}))
			if err != nil {
				return nil, err
			}
			return e.Roles(), nil
		},
		Slow: policytest.Emulated(), Takes: cuda.Takes,
	})
}

package cpu

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, "", "one thread", "three threads", "chunks")
}

func TestConformanceInBFloat16(t *testing.T) {
	t.Parallel()
	conform(t, safetensors.BF16, "one thread", "three threads")
}

func conform(t *testing.T, compute safetensors.DType, ways ...string) {
	policytest.Conform(t, policytest.Backend{
		Ways: ways, Rounds: compute == safetensors.BF16,
		Open: func(_ testing.TB, way string, source policy.Source, o policytest.Options) (*policy.Engine, error) {
			options := Options{Threads: 1, Train: o.Train, DType: o.DType, State: o.State, Compute: compute, Adapter: o.Adapter, ValueHead: o.ValueHead}
			if way != "one thread" {
				options.Threads = 3
			}
			e, err := New(source, options)
			if err != nil {
				return nil, err
			}
			e.stretchKeys = pageTokens // sequences here have up to four
			if way == "chunks" {
				e.limits.chunkTokens, e.limits.sparseTokens, e.limits.logits, e.limits.keptLogits = 50, 0, 1, 1
			}
			return e.Roles(), nil
		},
	})
}

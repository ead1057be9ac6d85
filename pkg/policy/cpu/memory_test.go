package cpu

import (
	"reflect"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// The bytes of activations that policy.MemoryOf says are those that a pass
// allocates.
func TestActivationBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]policy.Config{
		"Qwen2": tinyConfig(), "Qwen3": normedConfig(), "Qwen3-MoE": policytest.Composed()["qwen3-moe"],
	} {
		e := newEngine(t, c, policytest.LoudWeights(t, c), 1)
		m := policy.MemoryOf(c, safetensors.F32)
		for sparse, want := range map[bool]int64{false: m.KeptBytes, true: m.RecomputeBytes} {
			p := newPass(e, 1, true)
			p.sparse = sparse
			const tokens = 1000
			p.allocate(tokens)
			first := map[*float32]bool{} // buffers that layers share count once
			total := int64(len(p.final))
			for i := range p.layers {
				l := &p.layers[i]
				l.routing.starts = nil // of no token
				fields, of := reflect.ValueOf(*l), reflect.ValueOf(l.routing)
				for j := range fields.NumField() + of.NumField() {
					buffer := fields.Field(min(j, fields.NumField()-1))
					if j >= fields.NumField() {
						buffer = of.Field(j - fields.NumField())
					}
					if buffer.Kind() == reflect.Slice && buffer.Len() > 0 {
						at := (*float32)(buffer.UnsafePointer())
						if !first[at] {
							total += int64(buffer.Len())
						}
						first[at] = true
					}
				}
			}
			if 4*total != want*tokens {
				t.Errorf("%s, sparse %v: %d bytes for a token; MemoryOf says %d", name, sparse, 4*total/tokens, want)
			}
		}
	}
}

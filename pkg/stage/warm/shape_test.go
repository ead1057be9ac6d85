package warm

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// A new policy without rotary embedding is saved and read again as one.
func TestPolicyWithoutRope(t *testing.T) {
	t.Parallel()
	n := recipe.NewPolicy{
		HiddenSize: 8, IntermediateSize: 8, NumHiddenLayers: 2, NumAttentionHeads: 2, NumKeyValueHeads: 1, MaxPositionEmbeddings: 16,
		RopeTheta: 1e4, RMSNormEps: 1e-6, InitializerRange: 0.02, QKVBias: true, TieWordEmbeddings: true, Rope: "none",
	}
	c := shape(n, 11)
	weights, err := policy.Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := checkpoint.Save(folder, c, weights); err != nil {
		t.Fatal(err)
	}
	got, err := checkpoint.LoadConfig(folder)
	if err != nil || got.Layer(0).Rope != policy.RopeNone || got.Layer(1).Rope != policy.RopeNone || !got.OutputBias || !got.QKVBias {
		t.Errorf("%+v, %v", got, err)
	}
	n.Rope = "rotary"
	if c := shape(n, 11); c.Architecture != policy.Qwen2 || len(c.Layers) != 0 || !c.QKVBias || c.OutputBias {
		t.Errorf("with rotary embedding: %+v", c)
	}
}

package measure

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// The digest that a manifest gives is that of the folder, in one file or in
// several.
func TestWeightsDigest(t *testing.T) {
	t.Parallel()
	config := policy.Config{
		Architecture: policy.Llama, VocabSize: 300, HiddenSize: 16, IntermediateSize: 24, NumHiddenLayers: 2, NumAttentionHeads: 2,
		NumKeyValueHeads: 1, HeadDim: 8, MaxPositionEmbeddings: 64, RMSNormEps: 1e-5, RopeTheta: 1e4, BOSTokenID: -1,
	}
	tensors, err := policy.Init(config, 1)
	if err != nil {
		t.Fatal(err)
	}
	whole := t.TempDir()
	if err := checkpoint.Save(whole, config, tensors); err != nil {
		t.Fatal(err)
	}
	for _, maxFileBytes := range []int64{0, 8000} {
		folder, err := seal.CreateFolder(t.TempDir()+"/policy", seal.Attempt{})
		if err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.Convert(whole, folder.Path(), safetensors.F32, maxFileBytes); err != nil {
			t.Fatal(err)
		}
		want, err := checkpoint.Digest(folder.Path())
		if err != nil {
			t.Fatal(err)
		}
		m, err := folder.Commit(seal.Manifest{})
		if err != nil {
			t.Fatal(err)
		}
		got := weightsDigest(m.Files)
		if got == nil || *got != want {
			t.Errorf("files of %d bytes: digest %v, want %s", maxFileBytes, got, want)
		}
	}
	if got := weightsDigest([]seal.File{{Name: "config.json"}}); got != nil {
		t.Errorf("a folder without weights has the digest %s", *got)
	}
}

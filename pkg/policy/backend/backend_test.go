package backend

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/policy"
)

func TestOpen(t *testing.T) {
	config := policy.Config{
		Architecture: policy.Llama, VocabSize: 10, HiddenSize: 8, IntermediateSize: 8, NumHiddenLayers: 1,
		NumAttentionHeads: 2, NumKeyValueHeads: 1, HeadDim: 4, MaxPositionEmbeddings: 8,
		RMSNormEps: 1e-6, RopeTheta: 1e4, TieWordEmbeddings: true, BOSTokenID: -1,
	}
	weights, err := policy.Init(config, 1)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := policy.Save(folder, config, weights); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", Auto, CPU} {
		engine, err := Open(folder, Options{Backend: name, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := engine.Config(); got.VocabSize != 10 || got.Architecture != policy.Llama {
			t.Errorf("%q: config %+v", name, got)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, test := range []struct {
		options Options
		code    int
	}{
		{Options{Backend: CUDA}, exit.Unavailable},
		{Options{Backend: "tpu"}, exit.Usage},
		{Options{Threads: -1}, exit.Usage},
	} {
		if _, err := Open(folder, test.options); exit.Code(err) != test.code {
			t.Errorf("%+v: code %d (%v), want %d", test.options, exit.Code(err), err, test.code)
		}
	}
}

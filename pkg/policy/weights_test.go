package policy

import (
	"math"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

func testConfig() Config {
	return Config{
		Architecture: Qwen2, QKVBias: true, VocabSize: 11, HiddenSize: 8, IntermediateSize: 12, NumHiddenLayers: 2,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 2, MaxPositionEmbeddings: 16,
		RMSNormEps: 1e-6, InitializerRange: 0.02, RopeTheta: 1e4, TieWordEmbeddings: true, BOSTokenID: 3, EOSTokenIDs: []int32{1, 2},
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	c := testConfig()
	c.HiddenSize, c.HeadDim, c.NumHiddenLayers, c.VocabSize = 128, 32, 2, 300
	weights, err := Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, w := range weights {
		total += len(w.Data)
		mean, square := 0.0, 0.0
		for _, x := range w.Data {
			mean += float64(x) / float64(len(w.Data))
			square += float64(x) * float64(x) / float64(len(w.Data))
		}
		// 0.02² and, for the two that add to the stream of two layers, 0.01².
		wantMean, wantSquare, slack := 0.0, 4e-4, 0.1
		switch {
		case strings.HasSuffix(w.Name, "norm.weight"):
			wantMean, wantSquare = 1, 1
		case strings.HasSuffix(w.Name, ".bias"):
			wantSquare = 0
		case strings.HasSuffix(w.Name, "o_proj.weight"), strings.HasSuffix(w.Name, "down_proj.weight"):
			wantSquare = 1e-4
		}
		if mean < wantMean-2e-3 || mean > wantMean+2e-3 || square < wantSquare*(1-slack) || square > wantSquare*(1+slack) {
			t.Errorf("%s has mean %g and mean square %g, want %g and %g", w.Name, mean, square, wantMean, wantSquare)
		}
	}
	if got := ParameterCount(c); got != total {
		t.Errorf("ParameterCount is %d, want %d", got, total)
	}
}

// Four times the range is the same draw, four times as wide.
func TestInitializerRange(t *testing.T) {
	t.Parallel()
	c := testConfig()
	usual, err := Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.InitializerRange = 0.08
	wide, err := Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range wide {
		for j, x := range w.Data {
			want := usual[i].Data[j]
			if w.Decayed() {
				want *= 4
			}
			if math.Abs(float64(x-want)) > 1e-6 {
				t.Fatalf("%s has %g, want %g", w.Name, x, want)
			}
		}
	}
	for _, wrong := range []float64{-0.02, 1.5, math.Inf(1), math.NaN()} {
		c.InitializerRange = wrong
		if _, err := Init(c, 1); exitcode.Code(err) != exitcode.Data {
			t.Errorf("initializer_range %g: %v", wrong, err)
		}
	}
}

// Qwen2.5-0.5B has 0.49 B parameters and takes 3.10 and
// 3.49 GFLOP for a token of sequences of 1,024 and 4,096 tokens.
func TestFLOPsPerToken(t *testing.T) {
	t.Parallel()
	c := Config{
		Architecture: Qwen2, QKVBias: true, VocabSize: 151936, HiddenSize: 896, IntermediateSize: 4864, NumHiddenLayers: 24,
		NumAttentionHeads: 14, NumKeyValueHeads: 2, HeadDim: 64, TieWordEmbeddings: true,
	}
	if n := ParameterCount(c); n != 494032768 {
		t.Errorf("%d parameters, want 494032768", n)
	}
	for tokens, want := range map[int]float64{1024: 3.10e9, 4096: 3.49e9} {
		if got := FLOPsPerToken(c, tokens); got < want*0.995 || got > want*1.005 {
			t.Errorf("%.4g FLOP at %d tokens, want %.3g", got, tokens, want)
		}
	}
}

// Parameters in units of 10^9, bytes of keys and
// values per token in half precision, GFLOP per trained token at 1,024 and
// 4,096 tokens, gigabytes of weights, gradients and moments in float32.
func TestMemoryOfKnownModels(t *testing.T) {
	t.Parallel()
	shape := func(a Architecture, vocab, hidden, inner, layers, heads, kv, dim int) Config {
		return Config{
			Architecture: a, VocabSize: vocab, HiddenSize: hidden, IntermediateSize: inner, NumHiddenLayers: layers,
			NumAttentionHeads: heads, NumKeyValueHeads: kv, HeadDim: dim, TieWordEmbeddings: true,
		}
	}
	near := func(name, what string, got, want, slack float64) {
		if got < want-slack || got > want+slack {
			t.Errorf("%s: %s is %.6g, want %g", name, what, got, want)
		}
	}
	for _, test := range []struct {
		name                             string
		config                           Config
		billions                         float64
		kvBytes                          int64
		train1024, train4096, trainBytes float64
	}{
		{"Qwen2.5-0.5B", shape(Qwen2, 151936, 896, 4864, 24, 14, 2, 64), 0.49, 12288, 3.10, 3.49, 7.9},
		{"Llama-3.2-1B", shape(Llama, 128256, 2048, 8192, 16, 32, 8, 64), 1.24, 32768, 7.62, 8.22, 19.8},
		{"Qwen3-0.6B", shape(Qwen3, 151936, 1024, 3072, 28, 16, 8, 128), 0.60, 114688, 3.93, 4.99, 9.5},
	} {
		c := test.config
		elements := 0
		for _, tensor := range Layout(c) {
			elements += tensor.Elements()
		}
		if n := ParameterCount(c); n != elements {
			t.Errorf("%s: %d parameters, but the layout has %d", test.name, n, elements)
		}
		near(test.name, "parameters", float64(elements)/1e9, test.billions, 0.005)
		near(test.name, "FLOPs at 1024", FLOPsPerToken(c, 1024)/1e9, test.train1024, 0.005)
		near(test.name, "FLOPs at 4096", FLOPsPerToken(c, 4096)/1e9, test.train4096, 0.005)
		half, full := MemoryOf(c, safetensors.BF16), MemoryOf(c, safetensors.F32)
		if half.KVBytes != test.kvBytes || full.KVBytes != 2*test.kvBytes {
			t.Errorf("%s: %d and %d bytes of keys and values, want %d and twice that", test.name, half.KVBytes, full.KVBytes, test.kvBytes)
		}
		near(test.name, "bytes to train", float64(full.TrainBytes)/1e9, test.trainBytes, 0.06)
		if full.TrainBytes != 16*int64(elements) || half.TrainBytes != 18*int64(elements) || half.WeightBytes != 2*int64(elements) {
			t.Errorf("%s: %+v, %+v", test.name, full, half)
		}
		// Decoding at context c: 2·N_mat + 4·L·Hq·dh·c, a third of training at
		// sequences of 2c tokens.
		near(test.name, "decoding", DecodeFLOPsPerToken(c, 512)/1e9, FLOPsPerToken(c, 1024)/3e9, 1e-9)
	}
}

package remote_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
)

// TestLlamaServer samples from the llama-server that LATHE_LLAMA_SERVER names:
// the tokens and log-probabilities of llama.cpp's engine are those of ours, as
// near as two orders of summation come.
//
// Alone: the server takes every core.
func TestLlamaServer(t *testing.T) {
	program := os.Getenv("LATHE_LLAMA_SERVER")
	if program == "" {
		t.Skip("LATHE_LLAMA_SERVER names no llama-server")
	}
	// It answers bytes that are no text with an error, and gives none of their
	// ids: a policy that says few.
	f := fixtureOf(t, remote.LlamaCpp, makePolicy(t, filepath.Join(t.TempDir(), "v000003"), 1000))
	model := filepath.Join(t.TempDir(), filepath.Base(f.folder)+".gguf")
	if err := os.WriteFile(model, gguf(t, f.folder), 0o666); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "server.log")
	for _, api := range []string{remote.Completions, remote.Chat} {
		o := f.options()
		o.API, o.Ready, o.Timeout = api, 2*time.Minute, time.Minute
		o.Config.EOSTokenIDs = []int32{258}
		client, err := remote.Start(t.Context(), o, []string{
			program, "-m", model, "--alias", "{version}", "--port", "{port}", "-c", "512", "-np", "4", "-ctk", "f32", "-ctv", "f32", "-t", "1",
			"--jinja", "--chat-template", "{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}<|assistant|>", "--no-webui",
		}, log)
		if err != nil {
			t.Fatal(err)
		}
		for _, sampling := range []policy.Sampling{{}, {Temperature: 1}} {
			turns := f.turns(12, sampling)
			for i := range turns {
				turns[i].StopTokens = []int32{258}
			}
			want := f.local(turns)
			got, err := client.Generate(t.Context(), turns)
			if err != nil {
				t.Fatal(err)
			}
			compared, same, largest := 0, 0, 0.0
			for i, reply := range got {
				if reply.Failed != nil && !strings.Contains(reply.Failed.Error(), "does not match the expected") {
					t.Fatalf("%s: turn %d: %v", api, i, reply.Failed)
				}
				if reply.Failed != nil || reply.Retokenized {
					continue
				}
				compared++
				if sampling.Temperature == 0 && slices.Equal(reply.TokenIDs, want[i].TokenIDs) {
					same++
				}
				largest = max(largest, f.gap(turns[i], reply))
			}
			t.Logf("%s at temperature %g: %d of %d responses with ids, %d those of our engine, largest gap of a log-probability %.2g",
				api, sampling.Temperature, compared, len(got), same, largest)
			if compared < len(got)/2 || largest > 1e-3 || sampling.Temperature == 0 && same != compared {
				t.Errorf("%s at temperature %g: our engine says otherwise", api, sampling.Temperature)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// gap is the largest distance of a reply's log-probabilities from those that
// our engine computes for its tokens.
func (f *fixture) gap(turn remote.Turn, reply remote.Reply) float64 {
	f.Helper()
	ids := append(slices.Clone(turn.Prompt), reply.TokenIDs...)
	targets := make([]bool, len(ids))
	for i := len(turn.Prompt); i < len(ids); i++ {
		targets[i] = true
	}
	logProbs, entropy := make([]float32, len(ids)), make([]float32, len(ids))
	batch := policy.Batch{TokenIDs: ids, Offsets: []int32{0, int32(len(ids))}, Targets: targets}
	if err := f.engine.Forward(batch, policy.Sampling{Temperature: 1}, logProbs, entropy); err != nil {
		f.Fatal(err)
	}
	if len(reply.LogProbs) != len(reply.TokenIDs) {
		f.Fatalf("%d tokens with %d log-probabilities", len(reply.TokenIDs), len(reply.LogProbs))
	}
	largest := 0.0
	for i, theirs := range reply.LogProbs {
		largest = max(largest, math.Abs(float64(theirs-logProbs[len(turn.Prompt)+i])))
	}
	return largest
}

// ggufWriter writes the GGUF format, version 3.
type ggufWriter struct {
	bytes.Buffer
	pairs int
}

func (w *ggufWriter) number(v any) { _ = binary.Write(&w.Buffer, binary.LittleEndian, v) }

func (w *ggufWriter) text(s string) {
	w.number(uint64(len(s)))
	w.WriteString(s)
}

// pair writes a key with its value.
func (w *ggufWriter) pair(key string, value any) {
	w.pairs++
	w.text(key)
	switch v := value.(type) {
	case uint32:
		w.number(uint32(4))
		w.number(v)
	case float32:
		w.number(uint32(6))
		w.number(v)
	case bool:
		w.number(uint32(7))
		w.number(v)
	case string:
		w.number(uint32(8))
		w.text(v)
	case []int32:
		w.number([]uint32{9, 5})
		w.number(uint64(len(v)))
		w.number(v)
	case []string:
		w.number([]uint32{9, 8})
		w.number(uint64(len(v)))
		for _, s := range v {
			w.text(s)
		}
	default:
		panic(value)
	}
}

// gguf is a policy folder of the fixture's kind as a GGUF file in float32.
func gguf(t *testing.T, folder string) []byte {
	t.Helper()
	config, weights, err := checkpoint.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	var pairs ggufWriter
	pairs.pair("general.architecture", "llama")
	pairs.pair("general.file_type", uint32(0))
	for key, value := range map[string]int{
		"context_length": config.MaxPositionEmbeddings, "embedding_length": config.HiddenSize, "block_count": config.NumHiddenLayers,
		"feed_forward_length": config.IntermediateSize, "attention.head_count": config.NumAttentionHeads,
		"attention.head_count_kv": config.NumKeyValueHeads, "rope.dimension_count": config.HeadDim, "vocab_size": config.VocabSize,
	} {
		pairs.pair("llama."+key, uint32(value))
	}
	pairs.pair("llama.attention.layer_norm_rms_epsilon", float32(config.RMSNormEps))
	pairs.pair("llama.rope.freq_base", float32(config.RopeTheta))
	tokens, kinds := ggufTokens(config.VocabSize)
	pairs.pair("tokenizer.ggml.model", "gpt2")
	pairs.pair("tokenizer.ggml.pre", "gpt-2")
	pairs.pair("tokenizer.ggml.tokens", tokens)
	pairs.pair("tokenizer.ggml.token_type", kinds)
	pairs.pair("tokenizer.ggml.merges", []string{})
	pairs.pair("tokenizer.ggml.eos_token_id", uint32(258))
	pairs.pair("tokenizer.ggml.add_bos_token", false)

	var list, data ggufWriter
	for _, w := range weights {
		list.text(ggufName(w.Name))
		list.number(uint32(len(w.Shape)))
		for _, n := range slices.Backward(w.Shape) {
			list.number(uint64(n))
		}
		list.number(uint32(0)) // float32
		list.number(uint64(data.Len()))
		heads := map[bool]int{true: config.NumAttentionHeads, false: config.NumKeyValueHeads}[strings.Contains(w.Name, "q_proj")]
		values := w.Data
		if strings.Contains(w.Name, "q_proj") || strings.Contains(w.Name, "k_proj") {
			values = interleave(values, heads, config.HeadDim, config.HiddenSize)
		}
		data.number(values)
		data.Write(make([]byte, -data.Len()&31))
	}
	var out ggufWriter
	out.WriteString("GGUF")
	out.number(uint32(3))
	out.number(uint64(len(weights)))
	out.number(uint64(pairs.pairs))
	out.Write(pairs.Bytes())
	out.Write(list.Bytes())
	out.Write(make([]byte, -out.Len()&31))
	out.Write(data.Bytes())
	return out.Bytes()
}

// ggufTokens are the bytes in GPT-2's printable alphabet, and the three
// special tokens of the fixture.
func ggufTokens(size int) (tokens []string, kinds []int32) {
	shifted := 0
	for b := range 256 {
		r := rune(b)
		if b < 33 || b > 126 && b < 161 || b == 173 {
			r = rune(256 + shifted)
			shifted++
		}
		tokens, kinds = append(tokens, string(r)), append(kinds, 1)
	}
	for i, name := range []string{"<|user|>", "<|assistant|>", "<|end|>"} {
		if 256+i < size {
			tokens, kinds = append(tokens, name), append(kinds, 3)
		}
	}
	return tokens, kinds
}

func ggufName(name string) string {
	name = strings.TrimPrefix(name, "model.")
	if rest, ok := strings.CutPrefix(name, "layers."); ok {
		layer, part, _ := strings.Cut(rest, ".")
		if _, err := strconv.Atoi(layer); err == nil {
			return "blk." + layer + "." + strings.NewReplacer(
				"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
				"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
				"post_attention_layernorm", "ffn_norm", "input_layernorm", "attn_norm").Replace(part)
		}
	}
	return strings.NewReplacer("embed_tokens", "token_embd", "lm_head", "output", "norm.weight", "output_norm.weight").Replace(name)
}

// interleave turns the rows of a head from halves to pairs, which is how
// llama.cpp rotates this architecture.
func interleave(values []float32, heads, width, columns int) []float32 {
	out := make([]float32, len(values))
	for head := range heads {
		for i := range width {
			from := head*width + i
			to := head*width + 2*(i%(width/2)) + i/(width/2)
			copy(out[to*columns:(to+1)*columns], values[from*columns:(from+1)*columns])
		}
	}
	return out
}

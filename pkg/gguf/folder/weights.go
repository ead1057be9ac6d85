package folder

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gguf"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// tensor is a tensor of the folder and the one of the file that it is made of.
type tensor struct {
	from, to string
	shape    []int
	heads    int  // of permuted rows; 0 for rows in their order
	plusOne  bool // 1 is subtracted
}

const (
	embedding = "token_embd.weight"
	head      = "output.weight"
	ropeTable = "rope_freqs.weight"
)

// tensors lists those of the model, in the order in which they are written.
func (m *model) tensors() []tensor {
	queries, keyValues := m.heads*m.headWidth, m.kvHeads*m.headWidth
	all := []tensor{{from: embedding, to: "model.embed_tokens.weight", shape: []int{m.vocabulary, m.hidden}}}
	for i := range m.layers {
		matrix := func(from, to string, rows, columns, permutedHeads int) {
			t := tensor{from: fmt.Sprintf("blk.%d.%s.weight", i, from), to: fmt.Sprintf("model.layers.%d.%s.weight", i, to), shape: []int{rows, columns}}
			if m.permuted {
				t.heads = permutedHeads
			}
			all = append(all, t)
		}
		vector := func(from, to, what string, n int, plusOne bool) {
			all = append(all, tensor{
				from: fmt.Sprintf("blk.%d.%s.%s", i, from, what), to: fmt.Sprintf("model.layers.%d.%s.%s", i, to, what),
				shape: []int{n}, plusOne: plusOne,
			})
		}
		norm := func(from, to string, n int) { vector(from, to, "weight", n, m.normsPlusOne) }
		norm("attn_norm", "input_layernorm", m.hidden)
		matrix("attn_q", "self_attn.q_proj", queries, m.hidden, m.heads)
		matrix("attn_k", "self_attn.k_proj", keyValues, m.hidden, m.kvHeads)
		matrix("attn_v", "self_attn.v_proj", keyValues, m.hidden, 0)
		if m.biases {
			vector("attn_q", "self_attn.q_proj", "bias", queries, false)
			vector("attn_k", "self_attn.k_proj", "bias", keyValues, false)
			vector("attn_v", "self_attn.v_proj", "bias", keyValues, false)
		}
		if m.headNorms {
			norm("attn_q_norm", "self_attn.q_norm", m.headWidth)
			norm("attn_k_norm", "self_attn.k_norm", m.headWidth)
		}
		matrix("attn_output", "self_attn.o_proj", m.hidden, queries, 0)
		if m.postNorms {
			norm("post_attention_norm", "post_attention_layernorm", m.hidden)
			norm("ffn_norm", "pre_feedforward_layernorm", m.hidden)
			norm("post_ffw_norm", "post_feedforward_layernorm", m.hidden)
		} else {
			norm("ffn_norm", "post_attention_layernorm", m.hidden)
		}
		matrix("ffn_gate", "mlp.gate_proj", m.inner, m.hidden, 0)
		matrix("ffn_up", "mlp.up_proj", m.inner, m.hidden, 0)
		matrix("ffn_down", "mlp.down_proj", m.hidden, m.inner, 0)
	}
	all = append(all, tensor{from: "output_norm.weight", to: "model.norm.weight", shape: []int{m.hidden}, plusOne: m.normsPlusOne})
	if !m.tied {
		all = append(all, tensor{from: head, to: "lm_head.weight", shape: []int{m.vocabulary, m.hidden}})
	}
	return all
}

// readTensors takes the size of the vocabulary from the embedding, and checks that the
// file has the tensors of the model and no others.
func (m *model) readTensors(f *gguf.File) error {
	table, there := f.Lookup(embedding)
	if !there || len(table.Shape) != 2 {
		return fmt.Errorf("there is no tensor %q, or it has not two dimensions", embedding)
	}
	m.vocabulary = table.Shape[0]
	if _, there := f.Lookup(head); !there {
		m.tied = true
	}
	// A layer has nine tensors at least, so a wrong number of layers costs no memory.
	if m.layers > len(f.Tensors()) {
		return fmt.Errorf("metadata: \"%s.block_count\" is %d, and the file has %d tensors", m.name, m.layers, len(f.Tensors()))
	}
	wanted := map[string]bool{}
	for _, t := range m.tensors() {
		wanted[t.from] = true
		info, there := f.Lookup(t.from)
		if !there {
			return fmt.Errorf("there is no tensor %q, which models of %s have", t.from, m.name)
		}
		if !slices.Equal(info.Shape, t.shape) {
			return fmt.Errorf("tensor %q has the shape %v, want %v", t.from, info.Shape, t.shape)
		}
		if elements, _ := info.Type.Block(); elements == 0 {
			return f.Float32At(nil, info, 0) // says which types are implemented
		}
	}
	for _, info := range f.Tensors() {
		switch {
		case info.Name == ropeTable && m.ropeScaling == nil:
			if err := m.readRopeTable(f, info); err != nil {
				return err
			}
		case !wanted[info.Name] && !strings.HasSuffix(info.Name, ".attn_rot_embd"): // frequencies of old files, which follow from the rest
			return fmt.Errorf("tensor %q belongs to no part of a model of %s that is implemented", info.Name, m.name)
		}
	}
	return nil
}

// readRopeTable finds the scaling of Llama 3 that gives the factors of a file. The file has
// the factors only, config.json the settings that they are made of. All models have 1 and
// 4 for low_freq_factor and high_freq_factor; the original length is a power of two.
func (m *model) readRopeTable(f *gguf.File, info gguf.Info) error {
	if info.Type != gguf.F32 || !slices.Equal(info.Shape, []int{m.headWidth / 2}) {
		return fmt.Errorf("tensor %q is %s of shape %v, want F32 of [%d]", info.Name, info.Type, info.Shape, m.headWidth/2)
	}
	factors := make([]float32, m.headWidth/2)
	if err := f.Float32At(factors, info, 0); err != nil {
		return err
	}
	factor := float64(slices.Max(factors))
	if factor == 1 && slices.Min(factors) == 1 {
		return nil
	}
	for _, original := range []int{8192, 4096, 16384, 2048, 32768, 1024, 65536, 512, 256, 131072} {
		if m.scaledAs(factors, factor, original) {
			m.ropeScaling = map[string]any{
				"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": original,
			}
			return nil
		}
	}
	return fmt.Errorf("tensor %q holds no scaling of rotary embedding as of Llama 3: %v", info.Name, factors)
}

// scaledAs reports whether factors are those of Llama 3's scaling.
func (m *model) scaledAs(factors []float32, factor float64, original int) bool {
	const low, high = 1, 4
	for i, got := range factors {
		wavelength := 2 * math.Pi * math.Pow(m.ropeTheta, float64(2*i)/float64(m.headWidth))
		smooth := min(max((float64(original)/wavelength-low)/(high-low), 0), 1)
		if want := 1 / ((1-smooth)/factor + smooth); math.Abs(float64(got)/want-1) > 1e-4 {
			return false
		}
	}
	return true
}

// read fills dst with the elements from.. of a tensor of the folder.
func (t tensor) read(f *gguf.File, info gguf.Info, dst []float32, from int) error {
	whole, at := dst, from
	if t.heads == 0 {
		if err := f.Float32At(dst, info, from); err != nil {
			return err
		}
	} else {
		rows, columns := t.shape[0], t.shape[1]
		for len(dst) > 0 {
			row, column := from/columns, from%columns
			n := min(len(dst), columns-column)
			if err := f.Float32At(dst[:n], info, permutedRow(row, rows/t.heads)*columns+column); err != nil {
				return err
			}
			dst, from = dst[n:], from+n
		}
	}
	if t.plusOne {
		for i := range whole {
			whole[i]--
		}
	}
	return policy.CheckFinite(whole, t.from, at)
}

// permutedRow is where llama.cpp has a row of a head: it rotates neighbours, and Hugging
// Face's layout the two halves.
func permutedRow(row, width int) int {
	start, i := row/width*width, row%width
	return start + i%(width/2)*2 + i/(width/2)
}

// defaultFileBytes is where transformers starts another file.
const defaultFileBytes = 5_000_000_000

// writeWeights writes one file, or several and their index.
func (m *model) writeWeights(f *gguf.File, to string, o Options) error {
	limit := o.MaxFileBytes
	if limit == 0 {
		limit = defaultFileBytes
	}
	var files [][]tensor
	var filled, total int64
	for _, t := range m.tensors() {
		bytes := int64(o.DType.Bytes())
		for _, d := range t.shape {
			bytes *= int64(d)
		}
		if len(files) == 0 || filled+bytes > limit {
			files, filled = append(files, nil), 0
		}
		files[len(files)-1] = append(files[len(files)-1], t)
		filled, total = filled+bytes, total+bytes
	}
	weightMap := map[string]string{}
	for i, tensors := range files {
		name := "model.safetensors"
		if len(files) > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(files))
		}
		infos, sources := make([]safetensors.Info, len(tensors)), make([]gguf.Info, len(tensors))
		for j, t := range tensors {
			weightMap[t.to] = name
			infos[j] = safetensors.Info{Name: t.to, Shape: t.shape, DType: o.DType}
			sources[j], _ = f.Lookup(t.from) // readTensors found it
		}
		err := checkpoint.WriteFile(filepath.Join(to, name), func(w io.Writer) error {
			return safetensors.WriteFrom(w, infos, map[string]string{"format": "pt"}, func(dst []float32, j, from int) error {
				return tensors[j].read(f, sources[j], dst, from)
			})
		})
		if err != nil {
			return err
		}
	}
	if len(files) == 1 {
		return nil
	}
	return checkpoint.WriteFile(filepath.Join(to, "model.safetensors.index.json"), func(w io.Writer) error {
		index, err := plainjson.Document(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": weightMap})
		if err != nil {
			return exitcode.Bugf("the index of weights: %w", err)
		}
		_, err = w.Write(index)
		return err
	})
}

package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// place is where the engine has a tensor.
type place struct {
	role  role
	layer int // 0 for tensors of no layer
}

// roles are those of a layer's tensors, by their names within the layer.
var roles = map[string]role{
	"input_layernorm.weight":          roleInputNorm,
	"self_attn.q_proj.weight":         roleQ,
	"self_attn.k_proj.weight":         roleK,
	"self_attn.v_proj.weight":         roleV,
	"self_attn.o_proj.weight":         roleO,
	"self_attn.q_proj.bias":           roleQBias,
	"self_attn.k_proj.bias":           roleKBias,
	"self_attn.v_proj.bias":           roleVBias,
	"self_attn.q_norm.weight":         roleQNorm,
	"self_attn.k_norm.weight":         roleKNorm,
	"post_attention_layernorm.weight": rolePostNorm,
	"mlp.gate_proj.weight":            roleGate,
	"mlp.up_proj.weight":              roleUp,
	"mlp.down_proj.weight":            roleDown,
}

// wholeRoles are those of the tensors of no layer.
var wholeRoles = map[string]role{
	"model.embed_tokens.weight": roleEmbedding,
	"lm_head.weight":            roleHead,
	"model.norm.weight":         roleFinalNorm,
	policy.ValueHeadName:        roleValueHead,
}

// placeOf finds a tensor by its name in Hugging Face's or PEFT's layout.
func placeOf(name string) (place, error) {
	if r, ok := wholeRoles[name]; ok {
		return place{role: r}, nil
	}
	rest, adapter := strings.CutPrefix(name, "base_model.model.")
	rest, ok := strings.CutPrefix(rest, "model.layers.")
	number, rest, cut := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(number)
	if !ok || !cut || err != nil {
		return place{}, exitcode.Bugf("the CUDA engine has no place for tensor %q", name)
	}
	offset := role(0)
	if adapter {
		for matrix, first := range map[string]role{".lora_A.weight": roleLoRAA, ".lora_B.weight": roleLoRAB} {
			if projection, ok := strings.CutSuffix(rest, matrix); ok {
				rest, offset = projection+".weight", first
			}
		}
	}
	r, ok := roles[rest]
	if !ok || adapter == (offset == 0) {
		return place{}, exitcode.Bugf("the CUDA engine has no place for tensor %q", name)
	}
	return place{role: offset + r, layer: layer}, nil
}

// held is a tensor that the engine holds.
type held struct {
	policy.Tensor // without data
	place
}

// hold finds the places of a layout.
func hold(layout []policy.Tensor) ([]held, error) {
	all := make([]held, len(layout))
	for i, t := range layout {
		at, err := placeOf(t.Name)
		if err != nil {
			return nil, err
		}
		t.Data = nil
		all[i] = held{t, at}
	}
	return all, nil
}

// copyElements is what is copied at a time between a source and the device.
const copyElements = 4 << 20

// load copies tensors from a source that lists the same to the device. While a
// piece goes to the device, the next is read.
func (e *Engine) load(tensors []held, source policy.Source) error {
	type chunk struct {
		tensor, from int
		values       []float32
		err          error
	}
	filled, empty := make(chan chunk, 1), make(chan []float32, 2)
	stop := make(chan struct{})
	defer func() { // the source may be closed once this function has returned
		close(stop)
		for range filled {
		}
	}()
	for range 2 {
		empty <- make([]float32, copyElements)
	}
	go func() {
		defer close(filled)
		for i, t := range tensors {
			for from := 0; from < t.Elements(); from += copyElements {
				var room []float32
				select {
				case room = <-empty:
				case <-stop:
					return
				}
				c := chunk{tensor: i, from: from, values: room[:min(copyElements, t.Elements()-from)]}
				c.err = source.Float32To(c.values, i, from)
				select {
				case filled <- c:
				case <-stop:
					return
				}
				if c.err != nil {
					return
				}
			}
		}
	}()
	for c := range filled {
		if c.err != nil {
			return c.err
		}
		t := &tensors[c.tensor]
		if err := e.native.put(t.role, t.layer, kindWeight, c.from, c.values); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		empty <- c.values[:cap(c.values)]
	}
	return nil
}

// read copies one kind of tensors from the device into data, which has them in
// order, flat, one after the other.
func (e *Engine) read(tensors []held, k kind, data []float32) error {
	for i := range tensors {
		t := &tensors[i]
		n := t.Elements()
		if err := e.native.get(t.role, t.layer, k, 0, data[:n]); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		data = data[n:]
	}
	return nil
}

// elements is the number of elements of tensors.
func elements(tensors []held) int {
	n := 0
	for i := range tensors {
		n += tensors[i].Elements()
	}
	return n
}

// listed makes tensors of data that has them in order.
func listed(tensors []held, prefix string, data []float32) []policy.Tensor {
	all := make([]policy.Tensor, len(tensors))
	for i, t := range tensors {
		n := t.Elements()
		all[i] = t.Tensor
		all[i].Name, all[i].Data = prefix+t.Name, data[:n:n]
		data = data[n:]
	}
	return all
}

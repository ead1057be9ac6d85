//go:build cgo && linux

package cuda

/*
#cgo CFLAGS: -std=c11
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// The numbers of native.go are those of engine.h: each line fails to compile
// where they differ.
var (
	_ = [1]struct{}{}[pageTokens-C.ENG_PAGE_TOKENS]
	_ = [1]struct{}{}[rowAlign-C.ENG_ROW_ALIGN]
	_ = [1]struct{}{}[maxStops-C.ENG_MAX_STOPS]
	_ = [1]struct{}{}[reservedBytes-C.ENG_RESERVE_BYTES]
	_ = [1]struct{}{}[int(statusDevice)-C.ENG_DEVICE]
	_ = [1]struct{}{}[int(bfloat16Type)-C.ENG_BF16]
	_ = [1]struct{}{}[int(RecomputeBlock)-C.ENG_RECOMPUTE_BLOCK]
	_ = [1]struct{}{}[int(Offload)-C.ENG_OFFLOAD]
	_ = [1]struct{}{}[int(roleDown)-C.ENG_DOWN]
	_ = [1]struct{}{}[int(roleLoRAA)-C.ENG_LORA_A]
	_ = [1]struct{}{}[int(roleLoRAB)-C.ENG_LORA_B]
	_ = [1]struct{}{}[int(kindExpAvgSq)-C.ENG_EXP_AVG_SQ]
	_ = [1]struct{}{}[int(kindSum)-C.ENG_SUM]
	_ = [1]struct{}{}[int(slotLength)-C.ENG_LENGTH]
)

// loaded is a library behind the table of shim.c.
type loaded struct{ table *C.lathe_library }

// usable says that this binary can load a library.
func usable() error { return nil }

// load opens the library in a file.
func load(path string) (library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var table *C.lathe_library
	var found C.int32_t
	var text C.lathe_text
	switch C.lathe_load(name, &table, &found, &text) {
	case C.LATHE_LOADED:
		return loaded{table}, nil
	case C.LATHE_NO_SYMBOL:
		return nil, exitcode.WithHint(exitcode.Unavailablef("%q is not Lathe's CUDA engine: it has no function %s", path, words(&text)), hintBuild)
	case C.LATHE_OTHER_ABI:
		return nil, exitcode.WithHint(exitcode.Unavailablef("%q has version %d of the engine's interface, this binary needs version %d", path, int(found), C.ENG_ABI),
			"build both from one commit: make build, and make -C cuda")
	}
	return nil, exitcode.WithHint(exitcode.Unavailablef("loading %q: %s", path, words(&text)), hintBuild)
}

// words are what C said about a failure.
func words(text *C.lathe_text) string { return C.GoString(&text.words[0]) }

func (l loaded) describe(device int) (Device, error) {
	var d C.eng_device
	var text C.lathe_text
	if s := C.lathe_describe(l.table, C.int32_t(device), &d, &text); s != C.ENG_OK {
		return Device{}, statusError("looking for a GPU", status(s), words(&text))
	}
	return Device{
		Name: C.GoString(&d.name[0]), MemoryBytes: int64(d.memory_bytes), FreeBytes: int64(d.free_bytes),
		Multiprocessors: int(d.multiprocessors), ComputeCapability: int(d.compute_capability),
		Driver: int(d.driver), Runtime: int(d.runtime),
	}, nil
}

// loraBits are the bits of eng_config.lora_targets, in the order of
// policy.LoRATargets.
var loraBits = []C.uint32_t{
	C.ENG_LORA_Q, C.ENG_LORA_K, C.ENG_LORA_V, C.ENG_LORA_O, C.ENG_LORA_GATE, C.ENG_LORA_UP, C.ENG_LORA_DOWN,
}

func (l loaded) open(device int, s settings) (native, error) {
	c := s.config
	flag := func(on bool) C.int32_t {
		if on {
			return 1
		}
		return 0
	}
	config := C.eng_config{
		vocabulary: C.int32_t(c.VocabSize), hidden: C.int32_t(c.HiddenSize), intermediate: C.int32_t(c.IntermediateSize),
		layers: C.int32_t(c.NumHiddenLayers), heads: C.int32_t(c.NumAttentionHeads), kv_heads: C.int32_t(c.NumKeyValueHeads),
		head_dim: C.int32_t(c.HeadDim), max_positions: C.int32_t(c.MaxPositionEmbeddings),
		qkv_bias: flag(c.QKVBias), qk_norm: flag(c.QKNorm != policy.QKNormNone), tied: flag(c.TieWordEmbeddings), rms_eps: C.float(c.RMSNormEps),

		dtype: C.eng_dtype(s.dtype), state_dtype: C.eng_dtype(s.state), train: flag(s.train), value_head: flag(s.valueHead),

		pass_tokens: C.int32_t(s.PassTokens), pass_sequences: C.int32_t(s.PassSequences), recompute: C.eng_recompute(s.Recompute), mlp_tokens: C.int32_t(s.MLPTokens),
		head_tokens: C.int32_t(s.HeadTokens), slots: C.int32_t(s.Slots), cache_pages: C.int32_t(s.CachePages),
		prefill_tokens: C.int32_t(s.PrefillTokens), gradient_sums: C.int32_t(s.GradientSums), spilled_sums: C.int32_t(s.SpilledSums),
		host_state: flag(s.HostState),
	}
	if s.train && s.stateless {
		config.train = C.ENG_GRADIENTS
	}
	if s.lora != nil {
		config.lora_rank, config.lora_scale = C.int32_t(s.lora.Rank), C.float(s.lora.Scale())
		for i, target := range policy.LoRATargets() {
			if s.lora.Adapts(target) {
				config.lora_targets |= loraBits[i]
			}
		}
	}
	o := opened{table: l.table}
	var text C.lathe_text
	if s := C.lathe_open(l.table, C.int32_t(device), &config, floats(s.frequencies), &o.engine, &text); s != C.ENG_OK {
		return nil, statusError(fmt.Sprintf("opening an engine on GPU %d", device), status(s), words(&text))
	}
	return o, nil
}

// opened is an engine of a library.
type opened struct {
	table  *C.lathe_library
	engine *C.eng
}

// The first element of a slice as C takes it; nil of an empty one.
func floats(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }
func ints(x []int32) *C.int32_t   { return (*C.int32_t)(unsafe.SliceData(x)) }

func flags[T bool | slotState](x []T) *C.uint8_t {
	return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(x)))
}

func samplingOf(s policy.Sampling) C.eng_sampling {
	return C.eng_sampling{temperature: C.float(s.Temperature), top_k: C.int32_t(max(0, s.TopK)), top_p: C.float(s.TopP)}
}

func (o opened) close() { C.lathe_close(o.table, o.engine) }

func (o opened) put(r role, layer int, k kind, offset int, values []float32) error {
	var text C.lathe_text
	s := C.lathe_put(o.table, o.engine, C.int32_t(r), C.int32_t(layer), C.int32_t(k), C.int64_t(offset), C.int64_t(len(values)), floats(values), &text)
	return failure("writing a tensor", s, &text)
}

func (o opened) get(r role, layer int, k kind, offset int, values []float32) error {
	var text C.lathe_text
	s := C.lathe_get(o.table, o.engine, C.int32_t(r), C.int32_t(layer), C.int32_t(k), C.int64_t(offset), C.int64_t(len(values)), floats(values), &text)
	return failure("reading a tensor", s, &text)
}

// failure is nil where there is none.
func failure(doing string, s C.int32_t, text *C.lathe_text) error {
	if s == C.ENG_OK {
		return nil
	}
	return statusError(doing, status(s), words(text))
}

func (o opened) forward(offsets, prefixes, tokens []int32, targets []bool, s policy.Sampling, keep bool, logProbs, entropy, values []float32) error {
	var text C.lathe_text
	sampling, kept := samplingOf(s), C.int32_t(0)
	if keep {
		kept = 1
	}
	got := C.lathe_forward(o.table, o.engine, C.int32_t(len(offsets)-1), ints(offsets), ints(prefixes), ints(tokens), flags(targets), &sampling,
		kept, floats(logProbs), floats(entropy), floats(values), &text)
	return failure("forward pass", got, &text)
}

func (o opened) backward(logProb, entropy, value []float32) error {
	var text C.lathe_text
	return failure("backward pass", C.lathe_backward(o.table, o.engine, floats(logProb), floats(entropy), floats(value), &text), &text)
}

func (o opened) zeroGradients() error {
	var text C.lathe_text
	return failure("setting gradients to zero", C.lathe_zero_gradients(o.table, o.engine, &text), &text)
}

func (o opened) holdGradients(sum int) error {
	var text C.lathe_text
	return failure("holding gradients", C.lathe_hold_gradients(o.table, o.engine, C.int32_t(sum), &text), &text)
}

func (o opened) addGradients(sum int) error {
	var text C.lathe_text
	return failure("adding gradients", C.lathe_add_gradients(o.table, o.engine, C.int32_t(sum), &text), &text)
}

func (o opened) step(a adamW) (policy.StepStats, error) {
	var text C.lathe_text
	given := C.eng_adamw{
		learning_rate: C.double(a.LearningRate), beta1: C.double(a.Beta1), beta2: C.double(a.Beta2), epsilon: C.double(a.Epsilon),
		weight_decay: C.double(a.WeightDecay), max_grad_norm: C.double(a.MaxGradNorm), step: C.int64_t(a.step),
		rounding_key:    [2]C.uint32_t{C.uint32_t(a.Rounding.Key[0]), C.uint32_t(a.Rounding.Key[1])},
		rounding_sample: C.uint32_t(a.Rounding.Sample),

		head_learning_rate: C.double(a.ValueHead.LearningRate), head_max_grad_norm: C.double(a.ValueHead.MaxGradNorm),
	}
	var stats C.eng_step_stats
	if err := failure("optimizer step", C.lathe_step(o.table, o.engine, &given, &stats, &text), &text); err != nil {
		return policy.StepStats{}, err
	}
	return policy.StepStats{
		GradNorm: float64(stats.grad_norm), Scale: float64(stats.scale), Skipped: stats.skipped != 0,
		HeadNorm: float64(stats.head_norm), HeadScale: float64(stats.head_scale),
	}, nil
}

func (o opened) adapter(on bool) error {
	var text C.lathe_text
	value := C.int32_t(0)
	if on {
		value = 1
	}
	return failure("switching the adapter", C.lathe_adapter(o.table, o.engine, value, &text), &text)
}

func (o opened) prefill(pieces []piece) error {
	var counts, positions, tokens, pageCounts, pages []int32
	for _, p := range pieces {
		counts, positions = append(counts, int32(len(p.tokens))), append(positions, int32(p.position))
		pageCounts = append(pageCounts, int32(len(p.pages)))
		tokens, pages = append(tokens, p.tokens...), append(pages, p.pages...)
	}
	var text C.lathe_text
	s := C.lathe_prefill(o.table, o.engine, C.int32_t(len(pieces)), ints(counts), ints(positions), ints(tokens), ints(pageCounts), ints(pages), &text)
	return failure("computing prompts", s, &text)
}

func (o opened) copyPage(from, to int32) error {
	var text C.lathe_text
	return failure("copying a page", C.lathe_copy_page(o.table, o.engine, C.int32_t(from), C.int32_t(to), &text), &text)
}

func (o opened) pages(slot, first int, pages []int32) error {
	var text C.lathe_text
	s := C.lathe_pages(o.table, o.engine, C.int32_t(slot), C.int32_t(first), C.int32_t(len(pages)), ints(pages), &text)
	return failure("setting a page table", s, &text)
}

func (o opened) start(requests []start) error {
	given := make([]C.eng_request, len(requests))
	for i, r := range requests {
		given[i] = C.eng_request{
			slot: C.int32_t(r.slot), token: C.int32_t(r.token), position: C.int32_t(r.position), remaining: C.int32_t(r.remaining),
			stops: C.int32_t(len(r.stops)), key: [2]C.uint32_t{C.uint32_t(r.stream.Key[0]), C.uint32_t(r.stream.Key[1])},
			sample: C.uint32_t(r.stream.Sample), sampling: samplingOf(r.sampling),
		}
		for j, id := range r.stops {
			given[i].stop[j] = C.int32_t(id)
		}
	}
	var text C.lathe_text
	return failure("starting responses", C.lathe_start(o.table, o.engine, C.int32_t(len(given)), unsafe.SliceData(given), &text), &text)
}

func (o opened) stop(slot int) error {
	var text C.lathe_text
	return failure("freeing a slot", C.lathe_stop(o.table, o.engine, C.int32_t(slot), &text), &text)
}

func (o opened) decode(steps int, tokens []int32, logProbs []float32, counts []int32, states []slotState) error {
	var text C.lathe_text
	s := C.lathe_decode(o.table, o.engine, C.int32_t(steps), ints(tokens), floats(logProbs), ints(counts), flags(states), &text)
	return failure("decoding", s, &text)
}

func (o opened) stats() (Stats, error) {
	var text C.lathe_text
	var s C.eng_stats
	if err := failure("reading statistics", C.lathe_stats(o.table, o.engine, &s, &text), &text); err != nil {
		return Stats{}, err
	}
	return Stats{
		Footprint: Footprint{
			WeightBytes: int64(s.weight_bytes), GradientBytes: int64(s.gradient_bytes), SumBytes: int64(s.sum_bytes),
			StateBytes: int64(s.state_bytes), ActivationBytes: int64(s.activation_bytes), HeadBytes: int64(s.head_bytes),
			CacheBytes: int64(s.cache_bytes), OtherBytes: int64(s.other_bytes), SpilledBytes: int64(s.spilled_bytes),
		},
		FLOPs: int64(s.flops), ToDeviceBytes: int64(s.to_device_bytes), ToHostBytes: int64(s.to_host_bytes),
		DeviceSeconds: float64(s.device_seconds), CuBLASLt: int(s.cublaslt),
	}, nil
}

package cuda

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/kvcache"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// The numbers of engine.h that are needed in builds without it too; those with
// it check them (native_cgo.go).
const (
	pageTokens = kvcache.Tokens   // ENG_PAGE_TOKENS
	rowAlign   = policy.RowTokens // ENG_ROW_ALIGN
	maxStops   = 16               // ENG_MAX_STOPS
	// reservedBytes of the device are left free: ENG_RESERVE_BYTES.
	reservedBytes = 512 << 20
)

// status is an eng_status.
type status int32

const (
	statusOK       status = 0
	statusArgument status = 1
	statusNoDriver status = 2
	statusNoDevice status = 3
	statusMemory   status = 4
	statusDevice   status = 5
)

// statusError makes an error of a status and the engine's words about it.
func statusError(doing string, s status, words string) error {
	switch s {
	case statusOK:
		return nil
	case statusNoDriver, statusNoDevice, statusMemory, statusDevice:
		return &policy.DeviceError{Err: deviceError(doing, s, words)}
	}
	return exitcode.Bugf("%s: the engine refused its arguments: %s", doing, words)
}

// deviceError is statusError for what depends on the node and on the moment.
func deviceError(doing string, s status, words string) error {
	switch s {
	case statusNoDriver:
		return exitcode.WithHint(exitcode.Unavailablef("%s: no usable NVIDIA driver: %s", doing, words),
			"run on a node with a GPU and a driver of this CUDA version or newer (nvidia-smi names it), or use policy.backend cpu")
	case statusNoDevice:
		return exitcode.WithHint(exitcode.Unavailablef("%s: no usable GPU: %s", doing, words),
			"request a GPU from Slurm (resources.*.gpus) and check CUDA_VISIBLE_DEVICES, or use policy.backend cpu")
	case statusMemory:
		return exitcode.WithHint(exitcode.Unavailablef("%s: too little memory for the GPU's engine: %s", doing, words),
			"lathe policy inspect --gpu shows what a recipe needs; another process may be using the GPU (nvidia-smi)")
	}
	return fmt.Errorf("%s: the GPU failed: %s", doing, words)
}

// dtype is an eng_dtype.
type dtype int32

const (
	float32Type  dtype = 0
	bfloat16Type dtype = 1
)

// bytes is the size of an element.
func (d dtype) bytes() int64 { return 4 - 2*int64(d) }

// Recompute says what activations a pass keeps for its backward pass.
type Recompute int32

// What can be kept: eng_recompute.
const (
	KeepAll        Recompute = 0 // everything
	RecomputeMLP   Recompute = 1 // norms and SwiGLU are computed again
	RecomputeBlock Recompute = 2 // only the inputs of blocks are kept
	Offload        Recompute = 3 // and those in page-locked memory of the host
)

// MarshalText names the mode as eng_recompute does.
func (r Recompute) MarshalText() ([]byte, error) {
	return []byte([...]string{"keep", "recompute_mlp", "recompute_block", "offload"}[r]), nil
}

// String says what is computed again.
func (r Recompute) String() string {
	return [...]string{"nothing", "norms and SwiGLU", "whole blocks", "whole blocks, from inputs in the host's memory"}[r]
}

// settings are an eng_config.
type settings struct {
	shape
	frequencies []float32 // (layers, head_dim/2 + 1), as eng_config has them
	Budgets
}

// Budgets are what of an engine's memory is a matter of choice.
type Budgets struct {
	PassTokens    int       `json:"pass_tokens"`    // rows of one pass: each sequence's tokens rounded up to 16
	PassSequences int       `json:"pass_sequences"` // sequences of one pass
	Recompute     Recompute `json:"recompute"`      // what a backward pass computes again
	MLPTokens     int       `json:"mlp_tokens"`     // rows of the MLP at a time where it is not kept; 0 for all
	HeadTokens    int       `json:"head_tokens"`    // rows of logits at a time
	Slots         int       `json:"slots"`          // responses that are under way at once
	CachePages    int       `json:"cache_pages"`    // of 64 tokens, for keys and values
	PrefillTokens int       `json:"prefill_tokens"` // rows of prompts at a time
	GradientSums  int       `json:"gradient_sums"`  // partial sums of gradients on the device
	SpilledSums   int       `json:"spilled_sums"`   // and those in page-locked memory of the host
	HostState     bool      `json:"host_state"`     // the optimizer's state is there too, and goes through the device in each step

	group int // sequences of the largest prefix group, for which PassSequences has room
}

// Device is one GPU, as CUDA sees it.
type Device struct {
	Name              string `json:"name"`
	MemoryBytes       int64  `json:"memory_bytes"`
	FreeBytes         int64  `json:"free_bytes"`
	Multiprocessors   int    `json:"multiprocessors"`
	ComputeCapability int    `json:"compute_capability"` // 90 for 9.0
	Driver            int    `json:"driver"`             // 12040 for 12.4
	Runtime           int    `json:"runtime"`            // likewise, of the library
}

// role is an eng_role: one tensor of a layer, or of none.
type role int32

const (
	roleEmbedding role = 0
	roleHead      role = 1
	roleFinalNorm role = 2
	roleValueHead role = 3
	roleInputNorm role = 4
	roleQ         role = 5
	roleK         role = 6
	roleV         role = 7
	roleO         role = 8
	roleQBias     role = 9
	roleKBias     role = 10
	roleVBias     role = 11
	roleQNorm     role = 12
	roleKNorm     role = 13
	rolePostNorm  role = 14
	roleGate      role = 15
	roleUp        role = 16
	roleDown      role = 17
	roleLoRAA     role = 32 // plus the projection's
	roleLoRAB     role = 64 // plus the projection's
)

// kind is an eng_kind: what of a tensor is meant.
type kind int32

const (
	kindWeight   kind = 0
	kindGradient kind = 1
	kindMaster   kind = 2
	kindExpAvg   kind = 3
	kindExpAvgSq kind = 4
	kindSum      kind = 16 // plus the number of a partial sum of gradients
)

// adamW is an eng_adamw.
type adamW struct {
	policy.AdamW
	step int
}

// piece is an eng_prompt: tokens of a sequence whose keys and values go to the
// cache.
type piece struct {
	position int     // of the first token
	tokens   []int32 // at least one
	pages    []int32 // of the sequence from position 0 on
}

// start is an eng_request: what a slot is to continue.
type start struct {
	slot      int
	token     int32 // the sequence's last, not in the cache yet
	position  int   // of that token
	remaining int   // most new tokens
	stops     []int32
	stream    rng.Stream
	sampling  policy.Sampling
}

// slotState is an eng_slot_state.
type slotState uint8

const (
	slotRunning slotState = 0
	slotStopped slotState = 1
	slotLength  slotState = 2
)

// Stats are what an engine says of itself: an eng_stats.
type Stats struct {
	Footprint
	FLOPs         int64   `json:"flops"`           // of products and attention since the last call
	ToDeviceBytes int64   `json:"to_device_bytes"` // copied since then from the host's memory to the device's,
	ToHostBytes   int64   `json:"to_host_bytes"`   // and back
	DeviceSeconds float64 `json:"device_seconds"`  // of the calls since then
	CuBLASLt      int     `json:"cublaslt"`        // its version; 0 when our own products run alone
}

// library is a loaded engine library.
type library interface {
	describe(device int) (Device, error)
	open(device int, s settings) (native, error)
}

// native is an open engine: the functions of engine.h on it. Slices are only
// read or filled within a call.
type native interface {
	close()
	// put and get copy elements offset..offset+len(values)-1 of one tensor's
	// weights, gradient or moments, flat and row-major.
	put(r role, layer int, k kind, offset int, values []float32) error
	get(r role, layer int, k kind, offset int, values []float32) error
	// forward's tokens and targets are (N), offsets (S+1) and prefixes (S) or nil,
	// as in [policy.Batch]; the results are (N), and values may be nil.
	forward(offsets, prefixes, tokens []int32, targets []bool, s policy.Sampling, keep bool, logProbs, entropy, values []float32) error
	// backward's derivatives are (N), or nil for zero.
	backward(logProb, entropy, value []float32) error
	zeroGradients() error
	holdGradients(sum int) error
	addGradients(sum int) error
	step(a adamW) (policy.StepStats, error)
	adapter(on bool) error
	prefill(pieces []piece) error
	copyPage(from, to int32) error
	pages(slot, first int, pages []int32) error
	start(requests []start) error
	stop(slot int) error
	// decode's tokens and logProbs are (slots, steps), counts and states (slots).
	decode(steps int, tokens []int32, logProbs []float32, counts []int32, states []slotState) error
	stats() (Stats, error)
}

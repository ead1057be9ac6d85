// Package cpu is the policy engine on the CPU. It computes in float32; weights
// may be stored in half precision, and the inputs of products with weights may be
// rounded to bfloat16.
//
// # Same bits everywhere
//
// A token's log-probability, and the state it leaves in the key-value cache,
// depend on its sequence and the weights alone. Products are chains of fused
// multiply-adds in a fixed order (package gemm), reductions are striped in a
// fixed way (package vec), and attention sums over keys in ascending order with
// exact zeros where the causal mask is, in chains of 4,096 from a sequence's first
// key on, so that prefill, decoding and training agree in every bit, whatever else
// is in the batch, however many threads there are and whichever instruction set
// runs. A gradient is a chain over the batch's tokens in ascending order; threads
// share it out by rows or columns of a weight, never by tokens. It does not depend
// on how a batch is divided among passes at the ends of sequences.
//
// With products in bfloat16 the order of their sums is that of AMX's instruction. A
// token's numbers depend on its sequence and the weights alone as before. A gradient's
// tokens are summed by 32 from the start of each pass, so there it depends on how a
// batch is divided among passes, which the batch and the model's shape decide.
// Attention's weighted sum of values goes by blocks of 32 keys from the start of a
// sequence, its shared prefix before it. Norms, softmax, losses and the optimizer stay in float32.
//
// # Shapes
//
// Matrices are flat slices, row after row; (rows, columns) in a comment is such
// a slice. N is the tokens of a pass, M its targets, S its sequences; V is the
// vocabulary, h the hidden size, inner that of the MLP, d the width of a head,
// q the width of all query heads, kv that of all key heads and of all value
// heads.
//
// # Memory
//
// Weights are held once, packed as the forward pass multiplies by them: 4 bytes
// each, or 2 in bfloat16. That is all that an engine has which does not train,
// and it is loaded piece by piece. Training adds 4 bytes for the gradient, 8 for
// the moments (4 in bfloat16) and, for half-precision weights, 4 for the float32
// master (none with bfloat16 state). What a backward pass multiplies by is made
// of the packed weights, layer by layer. Activations, and logits, are bounded
// whatever the batch (limits).
package cpu

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// Options are the settings of an engine. Threads and Train change no result.
type Options struct {
	Threads int  // 0: as many as the process may use
	Train   bool // whether Backward and Step will be called
	// Gradients says that Step will not be: there are no moments and no masters.
	Gradients bool

	// DType is what weights are rounded to, whatever the source has them in;
	// empty for what it has.
	DType safetensors.DType
	// State is what the optimizer's moments are held in, F32 (also if empty) or
	// BF16. Weights of half precision are rounded at each step from float32
	// masters; with BF16 state, bfloat16 weights have none and are rounded
	// randomly, as the moments are.
	State safetensors.DType
	// Compute is what the inputs of products are rounded to, those of attention too: F32
	// (also if empty) or BF16. With BF16 weights that are not in bfloat16 have a float32
	// master when they are trained, and are read rounded otherwise.
	Compute safetensors.DType

	// Adapter is trained instead of the weights; nil for none. Its tensors are
	// copied.
	Adapter *policy.Adapter
	// ValueHead (h) is trained too; nil for none. It is copied.
	ValueHead []float32

	// CacheBytes bounds the keys and values that Generate keeps, as far as the
	// longest sequence fits; 0 is a gibibyte.
	CacheBytes int64
}

// defaultCacheBytes is the bound when Options has none.
const defaultCacheBytes = 1 << 30

// Engine is an engine on the CPU.
type Engine struct {
	config    policy.Config
	threads   int
	train     bool
	stateless bool              // trains, and takes no step
	state     safetensors.DType // of the optimizer: F32 or BF16
	products

	base    holdings     // the policy's tensors
	adapter holdings     // those of the adapter
	lora    *policy.LoRA // nil without an adapter
	bare    bool         // the adapter is switched off
	model   *model       // what the passes go through
	value   *parameter   // (h) the value head, nil for none

	trained  *holdings   // the adapter if there is one, else the base
	grads    parameters  // of what is trained; empty unless train
	lookups  lookups     // the embedding's gradient by its use as a table
	sums     [][]float32 // partial sums of gradients, laid out as grads.data; nil where nothing was held
	moments  moments     // first moments; empty before the first step
	moments2 moments     // second moments
	steps    int         // optimizer steps taken

	rope, localRope ropeTable

	limits limits

	// stretchKeys is the number of keys whose weighted values are summed in one chain, in
	// whole pages; the sums of such stretches are added up. A chain rounds at each key,
	// so that one of 65,536 is off by ten times as much as the rest of a forward pass.
	// It is part of the result of longer sequences, except in bfloat16.
	stretchKeys int
	pass        *pass // activations of the last Forward
	head        head
	last        lastForward

	decoders   []*decoder // of Generate; kept for their memory
	cache      *pool      // their keys and values
	cacheBytes int64
}

// Roles is the engine by what can be done with it.
func (e *Engine) Roles() *policy.Engine {
	return &policy.Engine{Model: e, Sampler: e, Scorer: e, Trainer: e, Sums: e, Embedder: e}
}

// New makes an engine of the weights of a source, which it needs no longer
// then.
func New(source policy.Source, options Options) (*Engine, error) {
	if err := vec.StartError(); err != nil {
		return nil, exitcode.Usagef("%w", err)
	}
	config := source.Config()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{config: config, threads: options.Threads, train: options.Train, stateless: options.Gradients, state: cmp.Or(options.State, safetensors.F32), products: newProducts(options.Compute == safetensors.BF16)}
	if e.threads <= 0 {
		e.threads = runtime.GOMAXPROCS(0)
	}
	if options.ValueHead != nil && len(options.ValueHead) != config.HiddenSize {
		return nil, exitcode.Bugf("a value head of %d numbers for a policy of width %d", len(options.ValueHead), config.HiddenSize)
	}
	if err := e.build(source, options); err != nil {
		return nil, fmt.Errorf("loading weights into the engine: %w", err)
	}
	if options.Adapter != nil {
		if err := e.adapt(*options.Adapter, options.ValueHead); err != nil {
			return nil, fmt.Errorf("loading an adapter into the engine: %w", err)
		}
	}
	e.ZeroGradients()
	e.rope, e.localRope = newRopeTable(config, policy.RopeGlobal), newRopeTable(config, policy.RopeLocal)
	e.cacheBytes = cmp.Or(options.CacheBytes, defaultCacheBytes)
	e.pass = newPass(e, e.threads, e.train)
	e.head.rows = []int32{} // nil would be all tokens
	e.stretchKeys = 64 * pageTokens
	e.limits = limitsOf(config, e.train, len(e.grads.data), e.model.head.weight.packed.Bytes())
	return e, nil
}

// builder starts the holdings of a layout, which are trained or not.
func (e *Engine) builder(layout []policy.Tensor, trained bool) *builder {
	b := &builder{holdings: holdings{tensors: layout}, masters: e.state != safetensors.BF16, stateless: e.stateless, pairs: e.pairs}
	if trained {
		e.grads = newParameters(layout)
		b.grads = e.grads.data
	}
	return b
}

// build makes the model of a source's weights.
func (e *Engine) build(source policy.Source, options Options) error {
	layout := policy.Layout(e.config)
	for i, t := range source.Tensors() {
		if i < len(layout) {
			layout[i].DType = cmp.Or(options.DType, t.DType, safetensors.F32)
		}
	}
	if err := policy.Match(source.Tensors(), layout); err != nil {
		return exitcode.Bugf("%w", err)
	}
	own := options.Adapter == nil
	if own {
		layout, source = e.addValueHead(layout, source, options.ValueHead)
	}
	b := e.builder(layout, e.train && own)
	e.model = newModel(e.config, b)
	if own && options.ValueHead != nil {
		e.value = b.parameter(1)
	}
	e.base = b.holdings
	e.trained = &e.base
	return e.base.load(source, e.threads)
}

// addValueHead adds a value head to a layout and its source.
func (e *Engine) addValueHead(layout []policy.Tensor, source policy.Source, head []float32) ([]policy.Tensor, policy.Source) {
	if head == nil {
		return layout, source
	}
	t := policy.ValueHeadLayout(e.config)
	layout = append(layout, t)
	t.Data = head
	return layout, withValueHead{source, t}
}

// adapt gives the model an adapter, which is then what is trained, beside the
// value head.
func (e *Engine) adapt(a policy.Adapter, valueHead []float32) error {
	if err := a.Validate(); err != nil {
		return err
	}
	layout := policy.LoRALayout(e.config, a.LoRA)
	for i := range layout {
		layout[i].DType = safetensors.F32
	}
	source := policy.InMemory(e.config, a.Tensors)
	if err := policy.Match(source.Tensors(), layout); err != nil {
		return exitcode.Bugf("%w", err)
	}
	layout, source = e.addValueHead(layout, source, valueHead)
	b := e.builder(layout, e.train)
	e.model.adapt(e.config, a.LoRA, b)
	if valueHead != nil {
		e.value = b.parameter(1)
	}
	e.adapter, e.lora = b.holdings, &a.LoRA
	e.trained = &e.adapter
	return e.adapter.load(source, e.threads)
}

// Config returns the policy's shape.
func (e *Engine) Config() policy.Config { return e.config }

// Arithmetic implements [policy.Model].
func (e *Engine) Arithmetic() policy.Arithmetic {
	if e.pairs {
		return Arithmetic(safetensors.BF16)
	}
	return Arithmetic(safetensors.F32)
}

// Unit implements [policy.Model].
func (e *Engine) Unit() string { return gemm.Unit(e.pairs) }

// Arithmetic is that of an engine whose products round their inputs to a type.
func Arithmetic(compute safetensors.DType) policy.Arithmetic {
	a := policy.Arithmetic{Backend: "cpu"}
	if compute == safetensors.BF16 {
		a.Products = "bfloat16"
	}
	return a
}

// Adapter returns the shape of the engine's adapter, nil for none.
func (e *Engine) Adapter() *policy.LoRA { return e.lora }

// SetAdapter implements [policy.Scorer].
func (e *Engine) SetAdapter(on bool) {
	e.bare = !on
	e.model.linears(func(l *linear) { l.bare = e.bare })
	e.forget()
}

// Weights implements [policy.Trainer].
func (e *Engine) Weights() []policy.Tensor { return e.trained.read(e.threads) }

// Gradients implements [policy.Trainer]; there are none for an engine that does
// not train.
func (e *Engine) Gradients() []policy.Tensor {
	e.settleGradients()
	return e.grads.tensors
}

// ZeroGradients implements [policy.Trainer]. The gradients of matrices are not
// written to before the next backward pass is.
func (e *Engine) ZeroGradients() {
	for _, w := range e.trained.weights {
		w.blank = len(w.grad) > 0
	}
	for _, p := range e.trained.parameters {
		clear(p.grad)
	}
	e.lookups.reset()
}

// settleGradients makes the gradients what they are in memory.
func (e *Engine) settleGradients() {
	for _, w := range e.trained.weights {
		w.settle(e.threads)
	}
	e.lookups.addTo(e.model.embed, e.threads)
}

// forget drops what was computed with other weights.
func (e *Engine) forget() {
	e.last = lastForward{}
	if e.cache != nil {
		e.cache.Clear()
	}
}

// Err implements [policy.Trainer]: nothing here can fail without saying so.
func (e *Engine) Err() error { return nil }

// Close drops the engine's memory.
func (e *Engine) Close() error {
	*e = Engine{}
	return nil
}

// Package cpu is the policy engine on the CPU, in float32.
//
// # Same bits everywhere
//
// A token's log-probability, and the state it leaves in the key-value cache,
// depend on its sequence and the weights alone. Products are chains of fused
// multiply-adds in a fixed order (package gemm), reductions are striped in a
// fixed way (package vec), and attention sums over keys in ascending order
// with exact zeros where the causal mask is, so that prefill, decoding and
// training agree in every bit, whatever else is in the batch, however many
// threads there are and whichever instruction set runs. A gradient is a chain
// over the batch's tokens in ascending order; threads share it out by rows or
// columns of a weight, never by tokens.
package cpu

import (
	"fmt"
	"runtime"

	"github.com/lathe-rl/lathe/pkg/policy"
)

// Options are the settings of an engine that change no result.
type Options struct {
	Threads int  // 0: as many as the process may use
	Train   bool // whether Backward and Step will be called

	// Adapter is trained instead of the weights; nil for none. Its tensors are
	// copied.
	Adapter *policy.Adapter
}

// Engine implements [policy.Engine].
type Engine struct {
	config  policy.Config
	threads int
	train   bool

	weights  parameters
	lora     *policy.LoRA // nil without an adapter
	adapter  parameters
	bare     bool        // the adapter is switched off
	trained  *parameters // the adapter if there is one, else the weights
	grads    parameters  // of what is trained; empty unless train
	moments  parameters  // first moments; empty before the first step
	moments2 parameters  // second moments
	steps    int         // optimizer steps taken

	model model // views of weights and gradients
	rope  ropeTable

	limits limits
	pass   *pass // activations of the last Forward
	head   head
	last   lastForward

	decoders []*decoder // of Generate, one for each thread; kept for their memory
}

var _ policy.Engine = (*Engine)(nil)

// New makes an engine of the weights of a source, which it needs no longer
// then.
func New(source policy.Source, options Options) (*Engine, error) {
	config := source.Config()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{config: config, threads: options.Threads, train: options.Train}
	if e.threads <= 0 {
		e.threads = runtime.GOMAXPROCS(0)
	}
	e.weights = newParameters(policy.Layout(config), "")
	if err := e.weights.load(source); err != nil {
		return nil, fmt.Errorf("loading weights into the engine: %w", err)
	}
	e.trained = &e.weights
	if options.Adapter != nil {
		if err := e.openAdapter(*options.Adapter); err != nil {
			return nil, err
		}
	}
	if e.train {
		e.grads = newParameters(e.trained.tensors, "")
	}
	e.makeModel()
	e.rope = newRopeTable(config)
	e.pass = newPass(e, e.threads, e.train)
	e.limits = e.defaultLimits()
	return e, nil
}

// Config returns the policy's shape.
func (e *Engine) Config() policy.Config { return e.config }

// openAdapter copies an adapter, which is then what is trained.
func (e *Engine) openAdapter(a policy.Adapter) error {
	if err := a.Validate(); err != nil {
		return err
	}
	e.adapter = newParameters(policy.LoRALayout(e.config, a.LoRA), "")
	if err := e.adapter.set(a.Tensors); err != nil {
		return fmt.Errorf("loading an adapter into the engine: %w", err)
	}
	e.lora, e.trained = &a.LoRA, &e.adapter
	return nil
}

// makeModel makes the views of weights, adapter and gradients.
func (e *Engine) makeModel() {
	if e.lora == nil {
		e.model = newModel(e.config, e.weights.data, e.grads.data)
		return
	}
	e.model = newModel(e.config, e.weights.data, nil)
	rest := e.adapter.data
	e.model.adapt(e.config, *e.lora, taker(&rest, e.grads.data))
	if len(rest) != 0 {
		panic("cpu: the engine's adapters do not follow policy.LoRALayout")
	}
}

// Adapter returns the shape of the engine's adapter, nil for none.
func (e *Engine) Adapter() *policy.LoRA { return e.lora }

// SetAdapter implements [policy.Engine].
func (e *Engine) SetAdapter(on bool) {
	e.bare = !on
	e.model.linears(func(l *linear) { l.bare = e.bare })
	e.last = lastForward{}
}

// Weights lists what is trained, which may be written if WeightsChanged is
// called afterwards.
func (e *Engine) Weights() []policy.Tensor { return e.trained.tensors }

// Gradients lists the accumulated gradients; none for an engine that does not
// train.
func (e *Engine) Gradients() []policy.Tensor { return e.grads.tensors }

// ZeroGradients sets all gradients to zero.
func (e *Engine) ZeroGradients() { clear(e.grads.data) }

// WeightsChanged makes the next call pack the weights anew. The activations
// of the last Forward no longer fit them and are dropped.
func (e *Engine) WeightsChanged() {
	e.model.linears((*linear).changed)
	e.last = lastForward{}
}

// Close drops the engine's memory.
func (e *Engine) Close() error {
	*e = Engine{}
	return nil
}

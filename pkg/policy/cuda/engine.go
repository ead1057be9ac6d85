// Package cuda is the policy engine on an NVIDIA GPU: Lathe's own kernels
// behind the C interface of cuda/engine.h, in a library that is loaded at run
// time. One binary starts with and without it.
//
// # What is here
//
// The library computes; everything else is Go: which sequences form a pass,
// which prompts are computed together, the page tables of the cache, and how
// the device's memory is divided (Plan). The engine never asks for memory once
// it is open, so that nothing fails for want of it later.
//
// # Same bits
//
// A token's log-probability depends on its sequence and the weights alone, bit
// for bit, when it is sampled as when it is learned from, and a gradient does
// not depend on how a batch is divided among passes at the ends of sequences.
// Bits are those of one library on one kind of GPU; they are not those of the
// CPU engine.
package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Options are the settings of an engine.
type Options struct {
	Library string // file of the engine's library; empty searches for it
	Device  int    // as CUDA counts the devices that are visible

	// Train, DType, State, Adapter and ValueHead are as for package cpu, but
	// that all weights have one type, F32 or BF16. The optimizer of bfloat16
	// weights has float32 masters with F32 state alone.
	Train     bool
	DType     safetensors.DType
	State     safetensors.DType
	Adapter   *policy.Adapter
	ValueHead []float32

	policy.Workload
}

// Engine is an engine on a GPU.
type Engine struct {
	config policy.Config
	train  bool
	state  dtype
	lora   *policy.LoRA
	value  bool // whether there is a value head
	bare   bool // the adapter is switched off

	native     native
	arithmetic policy.Arithmetic
	budgets    Budgets
	plan       Plan

	trained []held
	steps   int

	last lastForward
	rollout
	failed error // of a method that returns no error
}

// Roles is the engine by what can be done with it.
func (e *Engine) Roles() *policy.Engine {
	return &policy.Engine{Model: e, Sampler: e, Scorer: e, Trainer: e, Sums: e, Meter: e}
}

// New makes an engine of the weights of a source, which it needs no longer
// then. Without a library, a driver, a device or the memory that is needed,
// the error is one of exitcode.Unavailable.
func New(source policy.Source, options Options) (*Engine, error) {
	return open(source, options, newPlan)
}

// productsVariable names the environment variable by which the library chooses
// the instructions of an engine's products (engine.h, eng_open).
const productsVariable = "LATHE_GEMM"

// products are the instructions of an engine's products.
func products() (string, error) {
	chosen := cmp.Or(os.Getenv(productsVariable), "mma")
	if chosen != "mma" && chosen != "wgmma" {
		return "", exitcode.Usagef("%s is %q; it may be mma or wgmma", productsVariable, chosen)
	}
	return chosen, nil
}

// Arithmetic is that of an engine that [New] would make of any policy. Its errors are those
// of [Find].
func Arithmetic() (policy.Arithmetic, error) {
	products, err := products()
	if err != nil {
		return policy.Arithmetic{}, err
	}
	library, device, err := findDevice("", 0)
	return policy.Arithmetic{Backend: "cuda", Device: device.Name, Products: products, Library: library.digest}, err
}

// open makes an engine under a plan.
func open(source policy.Source, options Options, planFor func(shape, policy.Workload, int64) (Plan, error)) (*Engine, error) {
	config := source.Config()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if options.ValueHead != nil && len(options.ValueHead) != config.HiddenSize {
		return nil, exitcode.Bugf("a value head of %d numbers for a policy of width %d", len(options.ValueHead), config.HiddenSize)
	}
	products, err := products()
	if err != nil {
		return nil, err
	}
	shape, err := newShape(source, options)
	if err != nil {
		return nil, err
	}
	library, device, err := findDevice(options.Library, options.Device)
	if err != nil {
		return nil, err
	}
	plan, err := planFor(shape, options.Workload, device.FreeBytes)
	if err != nil {
		return nil, fmt.Errorf("GPU %d (%s): %w", options.Device, device.Name, err)
	}
	native, err := library.open(options.Device, settings{shape: shape, frequencies: frequencies(config), Budgets: plan.Budgets})
	if err != nil {
		return nil, err
	}
	e := newEngine(native, shape, plan)
	e.arithmetic = policy.Arithmetic{Backend: "cuda", Device: device.Name, Products: products, Library: library.digest}
	if err := e.fill(source, options); err != nil {
		return nil, errors.Join(fmt.Errorf("loading weights onto the GPU: %w", err), e.Close())
	}
	return e, nil
}

// newEngine makes an engine of an open one that is still without weights.
func newEngine(native native, s shape, plan Plan) *Engine {
	e := &Engine{
		config: s.config, train: s.train, state: s.state, lora: s.lora, value: s.valueHead,
		native: native, budgets: plan.Budgets, plan: plan,
	}
	e.rollout = newRollout(plan.CachePages, plan.Slots)
	return e
}

// findDevice loads a library and finds a device among those that it sees.
func findDevice(file string, index int) (libraryFile, Device, error) {
	l, err := openLibrary(file)
	if err != nil {
		return libraryFile{}, Device{}, err
	}
	device, err := l.describe(index)
	if err != nil {
		return libraryFile{}, Device{}, fmt.Errorf("%q: %w", l.path, err)
	}
	return l, device, nil
}

// Find describes a device; without a library, a driver or a device the error
// says so. An empty file is searched for.
func Find(file string, index int) (Device, error) {
	_, device, err := findDevice(file, index)
	return device, err
}

// shape is what an engine is of, whatever its budgets.
type shape struct {
	config       policy.Config
	dtype, state dtype
	train        bool
	stateless    bool // trains, and takes no step: there is no optimizer state
	valueHead    bool
	lora         *policy.LoRA
}

// newShape is that of a source's weights under options.
func newShape(source policy.Source, options Options) (shape, error) {
	k := Case{DType: options.DType, State: options.State, Train: options.Train, ValueHead: options.ValueHead != nil}
	if options.Adapter != nil {
		if err := options.Adapter.Validate(); err != nil {
			return shape{}, err
		}
		lora := options.Adapter.LoRA
		k.LoRA = &lora
	}
	for _, t := range source.Tensors() {
		k.Stored = append(k.Stored, t.StoredAs())
	}
	return shapeOf(source.Config(), k)
}

// typeOf is the one type of all weights: what is wanted, or, if that is empty,
// what they are stored in.
func typeOf(wanted safetensors.DType, stored []safetensors.DType) (dtype, error) {
	if wanted == "" {
		for i, own := range stored {
			if i == 0 {
				wanted = own
			} else if own != wanted {
				return 0, exitcode.WithHint(exitcode.Usagef("the policy has weights of type %s and of type %s; on the GPU all have one", wanted, own),
					"set policy.dtype to float32 or bfloat16")
			}
		}
	}
	switch wanted {
	case safetensors.F32:
		return float32Type, nil
	case safetensors.BF16:
		return bfloat16Type, nil
	}
	return 0, exitcode.WithHint(exitcode.Usagef("the policy has weights of type %s; on the GPU they are F32 or BF16", wanted),
		"set policy.dtype to float32 or bfloat16")
}

// fill gives the engine its weights.
func (e *Engine) fill(source policy.Source, options Options) error {
	layout := policy.Layout(e.config)
	if err := policy.Match(source.Tensors(), layout); err != nil {
		return exitcode.Bugf("%w", err)
	}
	base, err := hold(layout)
	if err != nil {
		return err
	}
	if err := e.load(base, source); err != nil {
		return err
	}
	e.trained = base
	if options.Adapter != nil {
		layout := policy.LoRALayout(e.config, options.Adapter.LoRA)
		own := policy.InMemory(e.config, options.Adapter.Tensors)
		if err := policy.Match(own.Tensors(), layout); err != nil {
			return exitcode.Bugf("%w", err)
		}
		if e.trained, err = hold(layout); err != nil {
			return err
		}
		if err := e.load(e.trained, own); err != nil {
			return err
		}
	}
	weights := safetensors.F32
	if e.plan.shape.dtype == bfloat16Type {
		weights = safetensors.BF16
	}
	for i := range e.trained {
		e.trained[i].DType = weights
	}
	if options.ValueHead == nil {
		return nil
	}
	head := policy.ValueHeadLayout(e.config)
	held, err := hold([]policy.Tensor{head})
	if err != nil {
		return err
	}
	e.trained = append(e.trained, held...)
	head.Data = options.ValueHead
	return e.load(held, policy.InMemory(e.config, []policy.Tensor{head}))
}

// Config returns the policy's shape.
func (e *Engine) Config() policy.Config { return e.config }

// Arithmetic implements [policy.Model].
func (e *Engine) Arithmetic() policy.Arithmetic { return e.arithmetic }

// Unit implements [policy.Model].
func (e *Engine) Unit() string { return "" }

// Adapter returns the shape of the engine's adapter, nil for none.
func (e *Engine) Adapter() *policy.LoRA { return e.lora }

// SetAdapter implements [policy.Scorer].
func (e *Engine) SetAdapter(on bool) {
	if e.lora == nil {
		return
	}
	e.bare = !on
	e.forget()
	e.fail(e.native.adapter(on))
}

// Plan is how the device's memory is divided.
func (e *Engine) Plan() Plan { return e.plan }

// Stats are the engine's own.
func (e *Engine) Stats() (Stats, error) { return e.native.stats() }

// DeviceUse implements [policy.DeviceMeter]: it is a part of Stats, and begins
// anew with either.
func (e *Engine) DeviceUse() (policy.DeviceUse, error) {
	s, err := e.native.stats()
	return policy.DeviceUse{Seconds: s.DeviceSeconds, ToDeviceBytes: s.ToDeviceBytes, ToHostBytes: s.ToHostBytes}, err
}

// Err implements [policy.Trainer].
func (e *Engine) Err() error { return e.failed }

// fail keeps the first failure of what returns no error.
func (e *Engine) fail(err error) {
	if e.failed == nil {
		e.failed = err
	}
}

// forget drops what was computed with other weights.
func (e *Engine) forget() {
	e.last = lastForward{}
	e.rollout.pool.Clear()
}

// Close gives the device's memory back.
func (e *Engine) Close() error {
	if e.native != nil {
		e.native.close()
	}
	*e = Engine{}
	return nil
}

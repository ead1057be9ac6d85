// Package backend opens a policy on the backend that the caller or the
// machine chooses. It stands above package policy, which the backends import.
package backend

import (
	"cmp"
	"errors"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cpu"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// The names of the backends.
const (
	Auto = "auto" // the best that this machine and binary have
	CPU  = "cpu"
	CUDA = "cuda"
)

// Options say how to open a policy. Threads and Train change no result.
type Options struct {
	Backend string // auto, cpu or cuda; empty is auto
	Threads int    // 0: as many as the process may use
	Train   bool   // whether Backward and Step will be called

	// DType is what the weights are rounded to: auto (also if empty), which is
	// what the folder has, float32 or bfloat16.
	DType string
	// State is what the optimizer keeps its moments in: float32 (also if empty)
	// or bfloat16. Bfloat16 weights have float32 masters with float32 state
	// only; with the other they are rounded randomly at each step.
	State string
	// Compute is what products round their inputs to on the CPU, which
	// alone has it: float32 (also if empty), bfloat16, or auto, which is bfloat16
	// for a policy with bfloat16 weights.
	Compute string

	// Base is the folder of the policy that an adapter's folder adapts; empty
	// for the one that the adapter's folder names.
	Base string
	// Adapter is what is trained instead of the weights; nil for none, or for
	// the one of an adapter's folder. It is copied.
	Adapter *policy.Adapter
	// ValueHead gives the policy the value head of its folder or, if there is
	// none, a new one.
	ValueHead bool

	// Workload is for backends that divide a device's memory before they start;
	// Generate must be set for a policy that generates.
	Workload policy.Workload
	// Log is told why auto passes over a GPU engine that is there, and how a GPU's
	// memory is divided for training; nil for nobody.
	Log func(format string, args ...any)
}

// Open loads a policy's folder, or an adapter's and the policy that it adapts.
// The engine must be closed.
func Open(folder string, options Options) (*policy.Engine, error) {
	if err := check(options); err != nil {
		return nil, err
	}
	adapted, err := checkpoint.IsAdapter(folder)
	if err != nil {
		return nil, err
	}
	if !adapted {
		return open(folder, folder, options)
	}
	if options.Adapter != nil {
		return nil, exitcode.Bugf("opening %q: it is an adapter and cannot be adapted again", folder)
	}
	base, config, err := checkpoint.AdaptedConfig(folder, options.Base)
	if err != nil {
		return nil, err
	}
	adapter, err := checkpoint.LoadAdapter(folder, config, options.Train)
	if err != nil {
		return nil, err
	}
	options.Adapter = &adapter
	return open(base, folder, options)
}

// open opens a whole policy, with the value head of a version's folder.
func open(folder, version string, options Options) (*policy.Engine, error) {
	source, err := checkpoint.Open(folder)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	var head []float32
	if options.ValueHead {
		if head, err = checkpoint.LoadValueHead(version, source.Config()); err != nil {
			return nil, err
		}
		if head == nil {
			head = policy.NewValueHead(source.Config())
		}
	}
	if options.Backend != CPU && options.Compute != "bfloat16" {
		engine, err := cuda.New(source, cuda.Options{
			Train: options.Train, Adapter: options.Adapter, ValueHead: head, DType: DTypes[options.DType], State: DTypes[options.State],
			Workload: options.Workload,
		})
		switch code := exitcode.Code(err); {
		case err == nil:
			if options.Train && options.Log != nil {
				options.Log("on the GPU: %s", engine.Plan())
			}
			return engine.Roles(), nil
		case options.Backend == CUDA, code != exitcode.Unavailable && code != exitcode.Usage:
			return nil, err
		case options.Log != nil && !errors.Is(err, cuda.ErrNoLibrary):
			options.Log("the policy runs on the CPU: %v", err)
		}
	}
	engine, err := cpu.New(source, cpu.Options{
		Threads: options.Threads, Train: options.Train, Gradients: options.Workload.Gradients, Adapter: options.Adapter, ValueHead: head,
		DType: DTypes[options.DType], State: DTypes[options.State], Compute: options.compute(source),
	})
	if err != nil {
		return nil, err
	}
	return engine.Roles(), nil
}

// Arithmetic is that of the engine that [Open] would open, as far as it is known before
// the weights are loaded.
func Arithmetic(folder string, options Options) (policy.Arithmetic, error) {
	if options.Backend != CPU && options.Compute != "bfloat16" {
		a, err := cuda.Arithmetic()
		if err == nil || options.Backend == CUDA {
			return a, err
		}
	}
	adapted, err := checkpoint.IsAdapter(folder)
	if err == nil && adapted {
		folder, _, err = checkpoint.AdaptedConfig(folder, options.Base)
	}
	if err != nil {
		return policy.Arithmetic{}, err
	}
	source, err := checkpoint.Open(folder)
	if err != nil {
		return policy.Arithmetic{}, err
	}
	return cpu.Arithmetic(options.compute(source)), source.Close()
}

// compute is the type that products round to, which depends on nothing but the
// options and the policy: its embedding stands for its weights.
func (o Options) compute(source policy.Source) safetensors.DType {
	if o.Compute == Auto {
		return cmp.Or(DTypes[o.DType], source.Tensors()[0].DType)
	}
	return DTypes[o.Compute]
}

// DTypes are the types by their names in Options.
var DTypes = map[string]safetensors.DType{"": "", "auto": "", "float32": safetensors.F32, "bfloat16": safetensors.BF16}

func check(options Options) error {
	if _, ok := DTypes[options.DType]; !ok {
		return exitcode.Usagef("dtype is %q; it must be auto, float32 or bfloat16", options.DType)
	}
	if _, ok := DTypes[options.State]; !ok || options.State == "auto" {
		return exitcode.Usagef("the optimizer's state is %q; it must be float32 or bfloat16", options.State)
	}
	switch options.Compute {
	case "", Auto, "float32":
	case "bfloat16":
		if options.Backend == CUDA {
			return exitcode.Usagef("compute: got bfloat16 with backend cuda, but it applies only to the cpu backend")
		}
	default:
		return exitcode.Usagef("compute is %q; it must be auto, float32 or bfloat16", options.Compute)
	}
	if options.Threads < 0 {
		return exitcode.Usagef("threads is %d; it must not be negative", options.Threads)
	}
	switch options.Backend {
	case "", Auto, CPU, CUDA:
		return nil
	}
	return exitcode.Usagef("backend is %q; it must be auto, cpu or cuda", options.Backend)
}

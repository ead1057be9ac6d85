// Package backend opens a policy on the backend that the caller or the
// machine chooses. It stands above package policy, which the backends import.
package backend

import (
	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cpu"
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
}

// Open loads a policy's folder. The engine must be closed.
func Open(folder string, options Options) (policy.Engine, error) {
	if err := check(options); err != nil {
		return nil, err
	}
	source, err := policy.OpenFolder(folder)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	return New(source, options)
}

// New makes an engine of the weights of a source, which it needs no longer
// then. The engine must be closed.
func New(source policy.Source, options Options) (policy.Engine, error) {
	if err := check(options); err != nil {
		return nil, err
	}
	return cpu.New(source, cpu.Options{Threads: options.Threads, Train: options.Train})
}

func check(options Options) error {
	if options.Threads < 0 {
		return exit.Usagef("threads is %d; it must not be negative", options.Threads)
	}
	switch options.Backend {
	case "", Auto, CPU:
		return nil
	case CUDA:
		return exit.WithHint(exit.Unavailablef("the cuda backend is not in this build"), "use backend cpu or auto")
	}
	return exit.Usagef("backend is %q; it must be auto, cpu or cuda", options.Backend)
}

package doctor

import (
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
)

// Engine is what the library of Lathe's engine for GPUs found on a host.
type Engine struct {
	Device  *backend.GPU `json:"device,omitempty"`
	Problem string       `json:"problem,omitempty"` // why it finds none, with what to do
}

// lookAtEngine opens the engine's library as a task would, where a host has GPU software;
// nil where it has none. find is [backend.FindGPU].
func (h Host) lookAtEngine(find func() (backend.GPU, error)) *Engine {
	if h.Driver == "" && h.CUDA == "" {
		return nil
	}
	device, err := find()
	if err != nil {
		return &Engine{Problem: strings.Join(append([]string{err.Error()}, exitcode.Hints(err)...), "; ")}
	}
	return &Engine{Device: &device}
}

// reportEngine says what the engine's library found.
func (h Host) reportEngine(r *Report, about string) {
	about += ", engine for GPUs"
	const from = "the engine's library, opened on the node as a task opens it"
	switch e := h.Engine; {
	case e == nil:
	case e.Device == nil:
		r.add(about, Note, "policy.backend cuda fails here, and auto takes the CPU: "+e.Problem, from)
	default:
		d := e.Device
		version := func(n int) string { return fmt.Sprintf("%d.%d", n/1000, n%1000/10) }
		r.add(about, OK, fmt.Sprintf("%s, compute capability %d.%d, %.1f of %.1f GiB free, driver for CUDA %s, library of CUDA %s", d.Name,
			d.ComputeCapability/10, d.ComputeCapability%10, float64(d.FreeBytes)/(1<<30), float64(d.MemoryBytes)/(1<<30), version(d.Driver), version(d.Runtime)), from)
	}
}

package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Monitor is what lathe-monitor, which alone can ask NVML, says of a host.
type Monitor struct {
	Devices []string `json:"devices"`          // names of the GPUs, or instances of one, that may be opened
	GPM     int      `json:"gpm"`              // how many of them have GPM's counters
	Faults  []string `json:"faults,omitempty"` // why there is none
	Failure string   `json:"failure,omitempty"`
}

// givenVariables say which GPUs a task was given: without them all are looked at.
var givenVariables = []string{"CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_JOB_ID"}

// bindNow forbids to look for a library only when it is wanted.
const bindNow = "LD_BIND_NOW"

// lookAtMonitor runs the lathe-monitor of a folder, or of PATH where that is empty. It
// looks twice, since GPM's counters are what was between two looks.
func lookAtMonitor(ctx context.Context, binaries string) Monitor {
	program := filepath.Join(binaries, "lathe-monitor")
	out, complaints, err := ask(ctx, append([]string{bindNow}, givenVariables...), program, "watch", "--json", "--count", "2", "--every", "250ms")
	if err != nil {
		return Monitor{Failure: strings.TrimSpace(fmt.Sprintf("running %q: %v; %s", program, err, complaints))}
	}
	m, err := parseWatch(out)
	if err != nil {
		return Monitor{Failure: fmt.Sprintf("running %q: its output is invalid: %v", program, err)}
	}
	return m
}

// parseWatch reads the looks of lathe-monitor watch, a line each. What does not change
// stands in the first one alone.
func parseWatch(out string) (m Monitor, err error) {
	known, counted := map[string]bool{}, map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		var look struct {
			GPUs []struct {
				UUID, Name string
				SMActive   *float64 `json:"sm_active_share"`
			}
			Faults []string
		}
		if err := json.Unmarshal([]byte(line), &look); err != nil {
			return Monitor{}, err
		}
		m.Faults = look.Faults
		for _, gpu := range look.GPUs {
			if !known[gpu.UUID] {
				known[gpu.UUID] = true
				m.Devices = append(m.Devices, cmp.Or(gpu.Name, gpu.UUID))
			}
			if gpu.SMActive != nil && !counted[gpu.UUID] {
				counted[gpu.UUID] = true
				m.GPM++
			}
		}
	}
	return m, nil
}

// reportGPUs says which GPUs a host shows and what can be sampled of them.
func (h Host) reportGPUs(r *Report, about string) {
	about += ", GPU samples"
	const from = "lathe-monitor watch on that node, on all visible GPUs"
	m := h.Monitor
	switch {
	case m.Failure != "":
		r.add(about, Unknown, m.Failure, from)
		return
	case len(m.Devices) == 0:
		why := "no GPU is visible"
		if len(m.Faults) > 0 {
			why = strings.Join(m.Faults, "; ")
		}
		level := OK
		if h.Driver != "" {
			level = Note
		}
		r.add(about, level, "no device: "+why, from)
		return
	}
	names := slices.Compact(slices.Sorted(slices.Values(m.Devices)))
	columns, level := "GPM's columns (SM activity and occupancy, tensor, DRAM, NVLink) on all GPUs", OK
	switch {
	case m.GPM == 0:
		columns, level = "no column of GPM, which needs Hopper or later", Note
	case m.GPM < len(m.Devices):
		columns = fmt.Sprintf("GPM's columns on %d", m.GPM)
	}
	r.add(about, level, fmt.Sprintf("%d of %s; %s", len(m.Devices), strings.Join(names, ", "), columns), from)
}

// libraryVersion is the version in the name of the file of the driver's library.
func libraryVersion(path string) string {
	_, version, found := strings.Cut(filepath.Base(path), ".so.")
	if !found || !strings.Contains(version, ".") {
		return ""
	}
	return version
}

// LookAtEnvironment says what of this process's environment keeps programs from running.
func LookAtEnvironment(r *Report) {
	if os.Getenv(bindNow) != "" {
		r.add(bindNow, Note, "set: to start lathe-monitor by hand, use env -u LD_BIND_NOW lathe-monitor; tasks do so themselves", "the environment of this process")
	}
}

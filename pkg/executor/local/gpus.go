package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/devices"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// visibleDevices names to CUDA the devices that a process may use; empty is none.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// GPUs are devices that tasks may use.
type GPUs struct {
	Names []string // as CUDA_VISIBLE_DEVICES takes them: indices, or UUIDs of GPUs or of instances under MIG
	From  string   // how they were found, for people
}

// FindGPUs finds the GPUs that this process may use: those that its environment names, else
// all that NVML shows, else, where there is no NVML, as many as the site profile has. A site's
// number, which is not 0, bounds them. program is the lathe-monitor, which alone can ask NVML;
// with its answer, what CUDA_VISIBLE_DEVICES names and this machine does not have is left out.
func FindGPUs(ctx context.Context, program string, site int) GPUs {
	given := monitor.DevicesGiven(os.LookupEnv)
	if !given.All && len(given.Tokens) == 0 {
		return GPUs{From: given.Given}
	}
	seen := askNVML(ctx, program)
	found := GPUs{Names: seen, From: "NVML"}
	switch {
	case !given.All:
		found = GPUs{From: given.Given}
		for _, token := range given.Tokens {
			if name := token.String(); !slices.Contains(found.Names, name) {
				found.Names = append(found.Names, name)
			}
		}
		if len(seen) > 0 {
			found.Names = found.Names[:min(len(found.Names), len(seen))]
		}
	case len(seen) == 0:
		found.From = "NVML shows none, and the site profile's gpus is " + strconv.Itoa(site)
		for i := range site {
			found.Names = append(found.Names, strconv.Itoa(i))
		}
	}
	if site > 0 && len(found.Names) > site {
		found = GPUs{found.Names[:site], found.From + ", of which the site profile's gpus allows " + strconv.Itoa(site)}
	}
	return found
}

// nvmlPatience is how long NVML may take to start: minutes where no process keeps the driver
// loaded.
const nvmlPatience = 2 * time.Minute

// askNVML returns the UUIDs of the devices that NVML shows among those that this process may
// use; none where it cannot be asked.
func askNVML(ctx context.Context, program string) (uuids []string) {
	ctx, cancel := context.WithTimeout(ctx, nvmlPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "watch", "--json", "--count", "1")
	// go-nvml binds what it finds when it calls it.
	cmd.Env = executor.Environ(func(name string) bool { return name == "LD_BIND_NOW" }, nil)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	var look struct {
		GPUs []struct {
			UUID string `json:"uuid"`
		} `json:"gpus"`
	}
	if json.Unmarshal(bytes.TrimSpace(out), &look) != nil {
		return nil
	}
	for _, gpu := range look.GPUs {
		if gpu.UUID != "" && !slices.Contains(uuids, gpu.UUID) {
			uuids = append(uuids, gpu.UUID)
		}
	}
	return uuids
}

// counted are the devices of a pool, and how they were found.
type counted struct {
	*devices.Pool
	from string
}

// gpus are the pool's devices, found when they are first wanted; nil where they are not counted.
func (p *Pool) gpus() *counted {
	p.finding.Do(func() {
		if p.FindGPUs == nil || !p.Spare() {
			return
		}
		if found := p.FindGPUs(); found != nil {
			p.found = &counted{devices.NewPool(found.Names), found.From}
		}
	})
	return p.found
}

// GPUs is how many GPUs the tasks may use together. Where they are not counted, as in an
// allocation whose srun counts them, there is no bound.
func (p *Pool) GPUs() int {
	if g := p.gpus(); g != nil {
		return g.Len()
	}
	return math.MaxInt
}

// CheckGPUs refuses tasks of a stage that ask for more GPUs than there are.
func (p *Pool) CheckGPUs(stage string, asked int) error {
	if asked == 0 || asked <= p.GPUs() {
		return nil
	}
	g := p.gpus()
	return exitcode.WithHint(
		exitcode.Unavailablef("a task of %s requests %s; this machine has %d that may be used (%s)", stage, plural.Count(asked, "GPU"), g.Len(), g.from),
		"set resources.stages.%s.gpus to %d in the recipe (with 0 its tasks see no GPU), or name more devices in %s", stage, g.Len(), visibleDevices)
}

// withGPUs is an array whose task sees the devices that it was given, and no others.
func (p *Pool) withGPUs(array executor.Array, names []string) executor.Array {
	if p.FindGPUs == nil || !p.Spare() {
		return array
	}
	array.Env = maps.Clone(array.Env)
	if array.Env == nil {
		array.Env = map[string]string{}
	}
	array.Env[visibleDevices] = strings.Join(names, ",")
	return array
}

// place waits for GPUs, a process slot and cores, in this order: a task that waits for a
// device keeps no cores from others.
func (p *Pool) place(ctx context.Context, array executor.Array) (names []string, release func(), err error) {
	var held []func()
	giveBack := func() {
		for _, give := range slices.Backward(held) {
			give()
		}
	}
	defer func() {
		if err != nil {
			giveBack()
		}
	}()
	if array.GPUs > 0 && p.gpus() != nil {
		taken, give, err := p.gpus().Take(ctx, array.GPUs)
		if err != nil {
			return nil, nil, fmt.Errorf("waiting for %s: %w", plural.Count(array.GPUs, "GPU"), err)
		}
		names, held = taken, append(held, give)
	}
	for _, want := range []struct {
		of *semaphore.Weighted
		n  int64
	}{{p.slots, 1}, {p.free, int64(array.CPUs)}} {
		if err := want.of.Acquire(ctx, want.n); err != nil {
			return nil, nil, err
		}
		held = append(held, func() { want.of.Release(want.n) })
	}
	return names, giveBack, ctx.Err() // a free place is given even to a context that has ended
}

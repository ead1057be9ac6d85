package local

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// withDevices is a pool of so many cores and of devices with these names.
func withDevices(cores int, names ...string) *Pool {
	p := New(cores)
	p.FindGPUs = func() *GPUs { return &GPUs{names, "a test"} }
	return p
}

// devicesOf is what the log of a task says that it saw.
func devicesOf(t *testing.T, r executor.Result) string {
	t.Helper()
	_, seen, found := strings.Cut(read(t, r.Log), visibleDevices+"=\"")
	if !found {
		t.Fatalf("the log of shard %d does not say what the task saw", r.Shard)
	}
	seen, _, _ = strings.Cut(seen, "\"")
	return seen
}

// However tasks end, no two are on one device at a time, and each device is given back.
func TestGPUsAreNotShared(t *testing.T) {
	t.Parallel()
	names := []string{"0", "GPU-b", "MIG-c"}
	p := withDevices(16, names...)
	logs := t.TempDir()
	var mu sync.Mutex
	var onDevices []executor.Result
	var all sync.WaitGroup
	for i, end := range []string{"exit=0", "exit=1", "kill=9", "exit=69", "exit=75"} {
		for attempt := range 2 { // a retry
			array := testArray(logs, "env="+visibleDevices+",sleep=10ms,"+end, 0, 1, 2, 3)
			array.Iteration, array.Attempt, array.GPUs = i, attempt, 1
			all.Add(len(array.Shards))
			if err := p.Launch(t.Context(), array, func(r executor.Result) {
				defer all.Done()
				mu.Lock()
				defer mu.Unlock()
				onDevices = append(onDevices, r)
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	array := testArray(logs, "env="+visibleDevices, 0, 1)
	array.Stage = "score"
	all.Add(len(array.Shards))
	if err := p.Launch(t.Context(), array, func(r executor.Result) {
		defer all.Done()
		if seen := devicesOf(t, r); seen != "" {
			t.Errorf("a task that asks for no GPU sees %q", seen)
		}
	}); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for i, a := range onDevices {
		if !slices.Contains(names, devicesOf(t, a)) {
			t.Errorf("a task sees %q, of the devices %q", devicesOf(t, a), names)
		}
		for _, b := range onDevices[:i] {
			if devicesOf(t, a) == devicesOf(t, b) && a.Start.Before(b.End) && b.Start.Before(a.End) {
				t.Errorf("%s and %s were on %s together", a.Log, b.Log, devicesOf(t, a))
			}
		}
	}
	if at := most(onDevices); at > len(names) {
		t.Errorf("%d tasks ran at once on %d devices", at, len(names))
	}
	whole := testArray(logs, "env="+visibleDevices, 0)
	whole.Stage, whole.GPUs = "learn", 3
	if seen := devicesOf(t, launch(t.Context(), t, p, whole)[0]); seen != "0,GPU-b,MIG-c" {
		t.Errorf("after all tasks have ended, a task of three GPUs sees %q", seen)
	}
}

// A task that waits for a device ends with its context and keeps no cores from others; the
// device of a task that is stopped, or killed after the grace time, is given back.
func TestWaitingForAGPU(t *testing.T) {
	t.Parallel()
	for _, task := range []string{"await", "ignore"} {
		p := withDevices(2, "7")
		p.Grace /= 100
		ctx, cancel := context.WithCancel(t.Context())
		array := testArray(t.TempDir(), task, 0, 1)
		array.GPUs = 1
		results := make(chan executor.Result, 2)
		if err := p.Launch(ctx, array, func(r executor.Result) { results <- r }); err != nil {
			t.Fatal(err)
		}
		ready := make(chan struct{})
		afterReady(t, array.Log(0), func() { close(ready) })
		<-ready
		free := make(chan executor.Result)
		other := testArray(t.TempDir(), "exit=0", 0)
		if err := p.Launch(t.Context(), other, func(r executor.Result) { free <- r }); err != nil {
			t.Fatal(err)
		}
		if r := <-free; r.Cause != executor.CauseOK { // beside the task that waits for the device
			t.Errorf("a task without GPUs: %+v", r)
		}
		cancel()
		for range array.Shards {
			r := <-results
			if r.Cause != executor.CauseStopped || r.Shard == 1 && !strings.Contains(r.Evidence, "not started: waiting for 1 GPU") {
				t.Errorf("%s: result is %+v", task, r)
			}
		}
		next := testArray(t.TempDir(), "env="+visibleDevices, 0)
		next.GPUs = 1
		if seen := devicesOf(t, launch(t.Context(), t, p, next)[0]); seen != "7" {
			t.Errorf("%s: the next task sees %q", task, seen)
		}
	}
}

func TestMoreGPUsThanThereAre(t *testing.T) {
	t.Parallel()
	asked := 0
	p := New(4)
	p.FindGPUs = func() *GPUs {
		asked++
		return &GPUs{[]string{"0", "1"}, "NVML"}
	}
	array := testArray(filepath.Join(t.TempDir(), "logs"), "exit=0", 0)
	array.GPUs = 3
	err := p.Launch(t.Context(), array, func(executor.Result) { t.Error("a task that could not be launched has a result") })
	if want := "a task of rollout requests 3 GPUs; this machine has 2 that may be used (NVML)"; exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("error is %v, want %q with code %d", err, want, exitcode.Unavailable)
	}
	if hints := strings.Join(exitcode.Hints(err), ""); !strings.Contains(hints, "set resources.stages.rollout.gpus to 2 in the recipe") {
		t.Errorf("hints are %q", hints)
	}
	if _, err := os.Stat(array.LogDir); err == nil {
		t.Error("something was begun")
	}
	if err := p.CheckGPUs("rollout", 2); err != nil || p.GPUs() != 2 || asked != 1 {
		t.Errorf("two of %d GPUs: %v; they were found %d times", p.GPUs(), err, asked)
	}
	p = New(1)
	if err := p.CheckGPUs("rollout", 9); err != nil || p.GPUs() != math.MaxInt {
		t.Errorf("GPUs that are not counted: %d, %v", p.GPUs(), err)
	}
	without := withDevices(1)
	if err := without.CheckGPUs("learn", 1); exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("one GPU of none: %v", err)
	}
	without = New(1)
	without.FindGPUs = func() *GPUs { return nil }
	asking := testArray(t.TempDir(), "env="+visibleDevices, 0)
	asking.GPUs = 3
	if seen := devicesOf(t, launch(t.Context(), t, without, asking)[0]); seen != "" {
		t.Errorf("where there is no GPU, a task that runs without sees %q", seen)
	}
	idle := New(1)
	idle.FindGPUs = func() *GPUs {
		t.Error("GPUs are looked for, which no task wants")
		return nil
	}
	launch(t.Context(), t, idle, testArray(t.TempDir(), "exit=0", 0))
}

// What the environment names, what NVML shows, and what the site profile says.
func TestFindGPUs(t *testing.T) {
	monitor := filepath.Join(t.TempDir(), "lathe-monitor")
	shows := func(uuids ...string) string {
		gpus := []string{}
		for i, uuid := range uuids {
			gpus = append(gpus, fmt.Sprintf(`{"index":%d,"uuid":%q,"name":"NVIDIA A"}`, i, uuid))
		}
		return `[ "$*" = "watch --json --count 1" ] && [ -z "$LD_BIND_NOW" ] && echo '{"host":{"cores":2},"gpus":[` + strings.Join(gpus, ",") + `]}'`
	}
	const unset = "unset"
	t.Setenv("LD_BIND_NOW", "1")
	for _, name := range []string{"SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_JOB_ID", visibleDevices} {
		t.Setenv(name, "") // given back at the end
		os.Unsetenv(name)
	}
	for _, c := range []struct {
		name, variable, monitor string
		site                    int
		want                    string
	}{
		{"two of NVML's", unset, shows("GPU-a", "GPU-b"), 0, "GPU-a GPU-b"},
		{"instances", unset, shows("MIG-1", "MIG-2", "MIG-1"), 0, "MIG-1 MIG-2"},
		{"a site's bound", unset, shows("GPU-a", "GPU-b"), 1, "GPU-a"},
		{"no NVML, a site", unset, "exit 69", 3, "0 1 2"},
		{"no NVML, no site", unset, "exit 69", 0, ""},
		{"not JSON", unset, "echo no", 0, ""},
		{"none, so that NVML is not asked", "", "sleep 1000", 8, ""},
		{"a list's end", "0,-1,2", "exit 69", 0, "0"},
		{"indices", "3, 1", "exit 69", 0, "3 1"},
		{"twice the same", "1,1,0", "exit 69", 0, "1 0"},
		{"UUIDs and an instance", "GPU-a,MIG-b,MIG-GPU-c/1/0", "exit 69", 0, "GPU-a MIG-b MIG-GPU-c/1/0"},
		{"more than there are", "0,1,2,3", shows("GPU-a", "GPU-b"), 0, "0 1"},
		{"indices and a site's bound", "4,5", shows("GPU-a", "GPU-b"), 1, "4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(monitor, []byte("#!/bin/sh\n"+c.monitor+"\n"), 0o777); err != nil {
				t.Fatal(err)
			}
			if c.variable != unset {
				t.Setenv(visibleDevices, c.variable)
			}
			got := FindGPUs(t.Context(), monitor, c.site)
			if strings.Join(got.Names, " ") != c.want || got.From == "" {
				t.Errorf("found %q (%s), want %q", got.Names, got.From, c.want)
			}
		})
	}
	if got := FindGPUs(t.Context(), monitor+"-missing", 0); len(got.Names) > 0 {
		t.Errorf("without lathe-monitor: %+v", got)
	}
}

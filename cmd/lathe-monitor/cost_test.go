//go:build cgo

package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/monitor/monitortest"
	"github.com/lathe-rl/lathe/pkg/monitor/nvidia"
	"github.com/lathe-rl/lathe/pkg/monitor/nvmltest"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// What a monitor that looks once a second may cost.
const (
	mostCore     = 0.005 // of one
	mostMemory   = 20e6  // bytes
	mostOfHost   = 0.4e6 // bytes of files an hour,
	mostOfDevice = 0.6e6 // and for each GPU
)

// busyScript is a host of Hopper GPUs whose numbers, but for those that stand still on
// a healthy GPU, are other ones at each look: what does not change takes no room in a
// file.
func busyScript(gpus int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	fmt.Fprintln(&b, "* driver 570.86.15")
	for i := range gpus {
		fmt.Fprintf(&b, "%d uuid GPU-%08d-aaaa-bbbb-cccc-000000000000\n%d name NVIDIA H100 80GB HBM3\n%d energy +612511\n%d memory_total 85520809984\n", i, i, i, i, i)
		for _, key := range []struct {
			name      string
			low, span float64
		}{
			{"utilization", 80, 20},
			{"memory_busy", 30, 30},
			{"memory", 6e10, 1e10},
			{"memory_reserved", 6e8, 0},
			{"power", 3e5, 4e5},
			{"power_limit", 7e5, 0},
			{"temperature", 50, 20},
			{"clock", 1200, 780},
			{"clock_max", 1980, 0},
			{"memory_clock", 2619, 0},
			{"throttle", 0, 6},
			{"throttled_power", 0, 1e12},
			{"throttled_thermal", 0, 1e12},
			{"replays", 0, 0},
			{"ecc_corrected", 0, 0},
			{"ecc_uncorrected", 0, 0},
			{"remapped", 0, 0},
			{"processes", 1, 0},
			{"pid", float64(os.Getpid()), 0},
			{"process_memory", 6e10, 1e10},
			{"samples", 80, 20},
			{"process_sm", 80, 20},
			{"life_utilization", 90, 0},
			{"life_memory", 7e10, 0},
			{"sm_active", 60, 40},
			{"sm_occupancy", 20, 40},
			{"tensor", 0, 60},
			{"dram", 0, 90},
			{"fp64", 0, 1},
			{"fp32", 0, 20},
			{"fp16", 0, 20},
			{"gpm_pcie_tx", 0, 9e3},
			{"gpm_pcie_rx", 0, 9e3},
			{"nvlink_tx", 0, 9e4},
			{"nvlink_rx", 0, 9e4},
		} {
			fmt.Fprintf(&b, "%d %s", i, key.name)
			for range 512 {
				fmt.Fprintf(&b, " %f", key.low+key.span*random.Float64())
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}

// TestHour takes the samples of an hour, one after the other, and seals them: what
// they take on disk is what an hour takes, and the CPU time of a look is what a look
// a second takes of a core. The time has the library of tests in it, and has not that
// of a real driver, nor what it costs to wake up once a second with cold caches.
// Alone: the CPU time is that of the process, and the script is its environment's.
func TestHour(t *testing.T) {
	library := nvmltest.Build(t, false)
	// As the command has it.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(12 << 20))
	cpu := func() time.Duration {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	for gpus, looks := range map[int]int{1: 3600, 8: 900} { // of eight a quarter of an hour
		t.Run(fmt.Sprintf("%d GPUs", gpus), func(t *testing.T) {
			t.Setenv(nvmltest.Script, nvmltest.WriteScript(t, busyScript(gpus)))
			run, start := t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			record := monitor.NewRecorder(run, "id", "rollout-000001-00003", seal.Attempt{Host: "n1"}, start)
			samplers := []monitor.Sampler{monitor.NewHost(os.Getpid(), 0), nvidia.New(library, monitor.Devices{All: true, Task: os.Getpid()})}
			before := cpu()
			for i := range looks {
				now, during := start.Add(time.Duration(i)*time.Second), phase.Phase(i/20%5)
				readings := []monitor.Reading{{Name: monitor.PhaseSeconds, Value: 1, Detail: during.String()}}
				for _, s := range samplers {
					s.Read(now, func(r monitor.Reading) { readings = append(readings, r) })
				}
				if record.Add(now, int(during), readings); record.Due(now) || i == looks-1 {
					if err := record.Seal(); err != nil {
						t.Fatal(err)
					}
				}
			}
			core := (cpu() - before).Seconds() / float64(looks)
			for _, s := range samplers {
				s.Close()
			}
			bytes, files, hours := 0.0, 0, float64(looks)/3600
			err := filepath.WalkDir(run, func(_ string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				info, err := entry.Info()
				if err == nil {
					bytes, files = bytes+float64(info.Size()), files+1
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("a look a second takes %.2f %% of a core, an hour %.2f MB, of which %d files are here", 100*core, bytes/hours/1e6, files)
			if core > mostCore {
				t.Errorf("a look a second takes %.2f %% of a core", 100*core)
			}
			if bytes/hours > mostOfHost+mostOfDevice*float64(gpus) || bytes/hours < 1e5 {
				t.Errorf("an hour takes %.0f bytes", bytes/hours)
			}
		})
	}
}

// TestOwnMemory has the program look ten times a second, since what it needs grows with
// its looks until it collects its garbage.
func TestOwnMemory(t *testing.T) {
	t.Parallel()
	library, program := nvmltest.Build(t, false), buildMonitor(t)
	for _, gpus := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d GPUs", gpus), func(t *testing.T) {
			t.Parallel()
			run := monitortest.Run(t)
			task := exec.Command("sleep", "8")
			if err := task.Start(); err != nil {
				t.Fatal(err)
			}
			go func() { _ = task.Wait() }()
			command := exec.Command(program, "--run", run, "--pid", strconv.Itoa(task.Process.Pid), "--every", "100ms")
			command.Env = append(os.Environ(), nvmltest.Script+"="+nvmltest.WriteScript(t, busyScript(gpus)), "LD_LIBRARY_PATH="+filepath.Dir(library),
				"CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7"[:len("CUDA_VISIBLE_DEVICES=")+2*gpus-1])
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := monitortest.Samples(t, run)
			most := 0.0
			for _, row := range got[monitor.MonitorMemoryBytes] {
				most = max(most, row.Value)
			}
			cpu := got[monitor.MonitorCPUSeconds]
			if len(cpu) < 6 || len(got[monitor.SMActiveShare]) < 30*gpus {
				t.Fatalf("there are %d samples of its CPU time and %d of SMs", len(cpu), len(got[monitor.SMActiveShare]))
			}
			first, last := cpu[0], cpu[len(cpu)-1]
			core := (last.Value - first.Value) / float64(5*(len(cpu)-1)) // it looks at itself at each fifth look
			t.Logf("it has %.1f MB of its own, and a look a second takes %.2f %% of a core", most/1e6, 100*core)
			if core > mostCore {
				t.Errorf("a look a second takes %.2f %% of a core", 100*core)
			}
			if most > mostMemory || most < 1e6 {
				t.Errorf("it has %.0f bytes of memory of its own", most)
			}
		})
	}
}

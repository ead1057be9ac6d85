package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

// Host is what a machine says about itself.
type Host struct {
	Name         string   `json:"name"`
	Kernel       string   `json:"kernel"`
	Cores        int      `json:"cores"` // that this process may use
	MemoryBytes  int64    `json:"memory_bytes"`
	NUMACores    []int    `json:"numa_cores"`        // of each node of memory; none where the kernel does not say
	Levels       []string `json:"levels"`            // instruction sets that the kernels of Lathe know
	NoUnits      string   `json:"no_matrix_units"`   // why products in bfloat16 do not use the CPU's matrix units; empty where they do
	LockedBytes  uint64   `json:"locked_bytes"`      // memory that a process may lock; the largest number for no bound
	Driver       string   `json:"driver"`            // version of the NVIDIA kernel module; empty without
	CUDA         string   `json:"cuda_library"`      // where libcuda.so.1 leads; empty without
	NVML         string   `json:"nvml_library"`      // where libnvidia-ml.so.1 leads; empty without
	Devices      string   `json:"visible_devices"`   // CUDA_VISIBLE_DEVICES
	Programs     []string `json:"programs"`          // of those that some environments need
	Protections  []string `json:"cage,omitempty"`    // protections of programs that a policy wrote
	NoProtection []string `json:"no_cage,omitempty"` // those that this host does not give
	Sandbox      string   `json:"sandbox"`           // what is in force, and why not more, as a run's status and report name it
	Monitor      Monitor  `json:"monitor"`

	GPUProgram *GPUProgram `json:"gpu_program,omitempty"` // nil where there is no GPU
	Engine     *Engine     `json:"engine,omitempty"`      // nil where there is no GPU software
}

// LookAtHost asks this machine. Its lathe-monitor is that of the folder of binaries, or
// of PATH where that is empty.
func LookAtHost(ctx context.Context, binaries string) Host {
	h := Host{Cores: runtime.NumCPU(), Devices: os.Getenv("CUDA_VISIBLE_DEVICES"), Levels: []string{}, Programs: []string{}}
	h.Name, _ = os.Hostname() // empty shows as empty
	var names unix.Utsname
	if unix.Uname(&names) == nil {
		h.Kernel = unix.ByteSliceToString(names.Release[:])
	}
	h.MemoryBytes = memoryTotal(read("/proc/meminfo"))
	lists, _ := filepath.Glob("/sys/devices/system/node/node*/cpulist") // fails for patterns alone
	for _, list := range lists {
		if cores := coresOf(string(read(list))); cores > 0 {
			h.NUMACores = append(h.NUMACores, cores)
		}
	}
	h.Levels = instructionSets(read("/proc/cpuinfo"))
	_, h.NoUnits = gemm.MatrixUnits()
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		h.LockedBytes = limit.Cur
	}
	h.Driver = driverVersion(read("/proc/driver/nvidia/version"))
	h.CUDA, h.NVML = library("libcuda.so.1"), library("libnvidia-ml.so.1")
	for _, program := range []string{"/usr/bin/python3", "/usr/bin/gcc", "/usr/bin/g++", "/usr/bin/nvidia-smi"} {
		if _, err := os.Stat(program); err == nil {
			h.Programs = append(h.Programs, filepath.Base(program))
		}
	}
	given := sandbox.Probe()
	h.Sandbox = given.String()
	for _, name := range sandbox.Names() {
		if given.Has(name) {
			h.Protections = append(h.Protections, name)
		} else {
			h.NoProtection = append(h.NoProtection, name)
		}
	}
	h.Monitor = lookAtMonitor(ctx, binaries)
	h.GPUProgram = lookAtGPUProgram(ctx, "", sandbox.Run)
	h.Engine = h.lookAtEngine(backend.FindGPU)
	return h
}

// read is a file of the kernel's, as far as there is one.
func read(path string) []byte {
	content, _ := os.ReadFile(path)
	return content
}

// coresOf counts the cores of a list as the kernel writes it, such as 0-31,64-95; 0 for
// what is none.
func coresOf(list string) int {
	cores := 0
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if errFrom != nil || errTo != nil || to < from {
			return 0
		}
		cores += to - from + 1
	}
	return cores
}

// memoryTotal reads MemTotal of /proc/meminfo, in bytes.
func memoryTotal(meminfo []byte) int64 {
	for line := range strings.Lines(string(meminfo)) {
		if rest, found := strings.CutPrefix(line, "MemTotal:"); found {
			kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 52)
			if err != nil {
				return 0
			}
			return kibibytes << 10
		}
	}
	return 0
}

// instructionSets reads the flags of /proc/cpuinfo that decide which kernels run.
func instructionSets(cpuinfo []byte) []string {
	levels := []string{}
	lines := bufio.NewScanner(bytes.NewReader(cpuinfo))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, flags, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(name) != "flags" {
			continue
		}
		has := strings.Fields(flags)
		for _, level := range []string{"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "amx_bf16"} {
			if slices.Contains(has, level) {
				levels = append(levels, level)
			}
		}
		break // every core has the same
	}
	return levels
}

// driverVersion reads /proc/driver/nvidia/version: the number behind the words
// "Kernel Module".
func driverVersion(text []byte) string {
	_, rest, found := strings.Cut(string(text), "Kernel Module")
	if !found {
		return ""
	}
	for _, word := range strings.Fields(rest) {
		if word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return word
		}
	}
	return ""
}

// library is the file that a shared library's name leads to.
func library(name string) string {
	folders := append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/usr/local/nvidia/lib64")
	for _, folder := range folders {
		if path, err := filepath.EvalSymlinks(filepath.Join(folder, name)); folder != "" && err == nil {
			return path
		}
	}
	return ""
}

// reportOn adds what a host is to a report.
func (h Host) reportOn(r *Report) {
	about := "node " + h.Name
	sets, level := strings.Join(h.Levels, " "), OK
	if !slices.Contains(h.Levels, "avx2") || !slices.Contains(h.Levels, "fma") {
		sets, level = "no AVX2 and FMA: plain Go kernels are used, with the same bits and many times slower", Note
	}
	units := "products in bfloat16 on matrix units"
	if h.NoUnits != "" {
		units = "no matrix units for bfloat16: " + h.NoUnits
	}
	r.add(about+", processor", level, fmt.Sprintf("%s, %s; %s", plural.Count(h.Cores, "core"), sets, units), "/proc/cpuinfo of the node, and the affinity of the process")
	memory := fmt.Sprintf("%.1f GiB", float64(h.MemoryBytes)/(1<<30))
	if len(h.NUMACores) > 1 {
		memory += fmt.Sprintf(" in %d NUMA nodes of %s: tasks of at most %[2]s use NUMA-local memory",
			len(h.NUMACores), plural.Count(slices.Min(h.NUMACores), "core"))
	}
	r.add(about+", memory", OK, memory, "/proc/meminfo and /sys/devices/system/node of the node")
	locked, level := "no limit", OK
	if h.LockedBytes < 1<<62 {
		locked, level = fmt.Sprintf("%d MiB", h.LockedBytes>>20), Note
	}
	r.add(about+", locked memory", level, locked, "getrlimit on the node; pinned GPU buffers need it")
	gpu, level := "none", OK
	if h.Driver != "" || h.CUDA != "" || h.NVML != "" {
		nvml, library := cmp.Or(h.NVML, "none"), libraryVersion(h.NVML)
		if h.NVML != "" {
			nvml += ", version " + cmp.Or(library, "unknown")
		}
		gpu = fmt.Sprintf("driver %s, CUDA %s, NVML %s, CUDA_VISIBLE_DEVICES %q", cmp.Or(h.Driver, "none"), cmp.Or(h.CUDA, "none"), nvml, h.Devices)
		if h.Driver == "" || h.CUDA == "" || h.NVML == "" || library != "" && library != h.Driver {
			level = Note
		}
	}
	r.add(about+", GPU software", level, gpu, "/proc/driver/nvidia/version and the library folders of the node")
	h.reportGPUs(r, about)
	h.reportGPUProgram(r, about)
	h.reportEngine(r, about)
	gives, level := h.Sandbox, OK
	if len(h.NoProtection) > 0 {
		gives, level = "without "+strings.Join(h.NoProtection, ", ")+", see lathe-score sandbox; available: "+h.Sandbox, Note
	}
	r.add(about+", sandbox", level, gives, "sandboxes built on the node with this process's priority; env.mle and env.program.sandbox need them")
	if !slices.Contains(h.Programs, "python3") {
		r.add(about+", Python", Note, "no /usr/bin/python3: env.mle cannot run programs", "the file system of the node")
	}
}

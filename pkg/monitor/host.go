package monitor

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/internal/slurmenv"
)

// Host samples a task, its control group and the host, from /proc and the files
// of control groups.
type Host struct {
	root   string // /proc
	task   *tree  // nil where no task is watched
	group  cgroup
	cores  float64 // that the task was given
	memory float64 // bytes; 0 where nobody says
	self   int
	reads  int
	lost   bool
}

// NewHost samples the process pid with all that it has started, this process
// aside; 0 samples the host alone. cores is how many it was given; 0 asks its
// affinity and its control group.
func NewHost(pid int, cores float64) *Host { return newHost("/proc", pid, cores) }

func newHost(root string, pid int, cores float64) *Host {
	h := &Host{root: root, self: os.Getpid(), cores: cores}
	folder := filepath.Join(h.root, strconv.Itoa(cmp.Or(pid, h.self)))
	h.group = cgroupOf(string(contentOf(folder, "mountinfo")), string(contentOf(folder, "cgroup")))
	if pid == 0 {
		return h
	}
	h.task = &tree{root: h.root, pid: pid, without: h.self}
	if h.cores == 0 {
		h.cores = coresOf(pid, h.group)
	}
	h.memory = memoryGiven(h.group)
	return h
}

// coresOf is how many cores a process may use at once.
func coresOf(pid int, group cgroup) float64 {
	var set unix.CPUSet
	var cores float64
	if unix.SchedGetaffinity(pid, &set) == nil {
		cores = float64(set.Count())
	}
	if quota, ok := group.cores(); ok && (cores == 0 || quota < cores) {
		cores = quota
	}
	return cores
}

// memoryGiven is the memory that Slurm or the control group bounds this process
// by; 0 where neither does.
func memoryGiven(group cgroup) float64 {
	if bytes := slurmenv.MemoryBytes(); bytes > 0 {
		return float64(bytes)
	}
	bytes, _ := group.memoryLimit()
	return bytes
}

// Kind implements [Sampler].
func (h *Host) Kind() string { return "host" }

// Close implements [Sampler].
func (h *Host) Close() {}

// Read implements [Sampler]. What changes slowly, or is dear on a large host, is
// read less often.
func (h *Host) Read(_ time.Time, add func(Reading)) {
	give := func(name string, value float64) { add(Reading{Name: name, Value: value}) }
	if h.task != nil {
		h.readTask(add, give)
	}
	if h.reads%lookEvery == 0 {
		h.readHost(give)
	}
	h.reads++
}

func (h *Host) readTask(add func(Reading), give func(string, float64)) {
	cpu, resident, storage, processes, alive := h.task.totals()
	if !alive {
		if !h.lost {
			add(Reading{Name: Fault, Value: 1, Detail: "the task has ended"})
		}
		h.lost = true
		return
	}
	give(CPUSeconds, cpu)
	give(MemoryBytes, resident)
	give(ReadBytes, storage[0])
	give(WriteBytes, storage[1])
	give(Processes, float64(processes))
	if h.cores > 0 {
		give(Cores, h.cores)
	}
	if h.memory > 0 {
		give(MemoryLimitBytes, h.memory)
	}
	h.group.numbers(give)
}

func (h *Host) readHost(give func(string, float64)) {
	if busy, cores, ok := parseHostStat(contentOf(h.root, "stat")); ok {
		give(HostCPUSeconds, busy)
		give(HostCores, float64(cores))
	}
	memory := contentOf(h.root, "meminfo")
	total, okTotal := keyedNumber(memory, "MemTotal:")
	if available, ok := keyedNumber(memory, "MemAvailable:"); ok && okTotal {
		const kibi = 1 << 10
		give(HostMemoryTotalBytes, kibi*total)
		give(HostMemoryBytes, kibi*(total-available))
	}
	for _, p := range []struct{ name, file string }{{HostCPUStallSeconds, "cpu"}, {HostMemoryStallSeconds, "memory"}, {HostIOStallSeconds, "io"}} {
		if seconds, ok := stallSeconds(contentOf(h.root, "pressure", p.file)); ok {
			give(p.name, seconds)
		}
	}
	if own, ok := readProcess(h.root, h.self); ok {
		give(MonitorCPUSeconds, own.cpuSeconds)
	}
	if own, ok := ownBytes(contentOf(h.root, strconv.Itoa(h.self), "statm")); ok {
		give(MonitorMemoryBytes, own)
	}
}

// parseHostStat reads the seconds that all cores were not idle, and how many
// there are, from proc_stat(5).
func parseHostStat(content []byte) (busySeconds float64, cores int, ok bool) {
	for line := range bytes.Lines(content) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu") {
			break // the cores come first
		}
		if fields[0] != "cpu" {
			cores++
			continue
		}
		if len(fields) < 9 {
			return busySeconds, cores, false
		}
		// user nice system idle iowait irq softirq steal; guests are in user.
		for i, field := range fields[1:9] {
			ticks, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				return busySeconds, cores, false
			}
			if i != 3 && i != 4 {
				busySeconds += float64(ticks) / clockTicks
			}
		}
		ok = true
	}
	return busySeconds, cores, ok
}

// Alive reports whether a process runs that started when this one did. It is made
// by [Watch].
type Alive func() bool

// Watch returns a function that says whether the process pid, as it is now, still
// runs: another one that gets its id later does not count.
func Watch(pid int) Alive {
	first, there := readProcess("/proc", pid)
	return func() bool {
		now, _ := readProcess("/proc", pid) // started at 0 where there is none
		return there && now.startedTicks == first.startedTicks
	}
}

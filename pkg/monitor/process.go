package monitor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// clockTicks is USER_HZ, which is 100 on every architecture that Go has on Linux.
const clockTicks = 100

// process is what /proc says of one.
type process struct {
	cpuSeconds    float64 // its own, and of children whose end it has collected
	residentBytes float64
	startedTicks  uint64 // since the machine started: the same process, not one that has its id now
}

// readProcess reads one process; ok is false when it has ended.
func readProcess(root string, pid int) (p process, ok bool) {
	return parseStat(contentOf(root, strconv.Itoa(pid), "stat"))
}

// parseStat reads proc_pid_stat(5): PID (COMMAND) STATE …, and the command may hold
// anything.
func parseStat(stat []byte) (p process, ok bool) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 22 || fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return process{}, false
		}
		p.cpuSeconds += float64(ticks) / clockTicks
	}
	pages, err := strconv.ParseInt(fields[21], 10, 64)
	if err != nil {
		return process{}, false
	}
	p.residentBytes = float64(pages) * float64(os.Getpagesize())
	p.startedTicks, err = strconv.ParseUint(fields[19], 10, 64)
	return p, err == nil
}

// Descends reports whether a process is another one, or was started by it or by
// what it has started, as far as those have not ended.
func Descends(pid, from int) bool {
	for pid > 0 && pid != from {
		stat := contentOf("/proc", strconv.Itoa(pid), "stat")
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // STATE PARENT …
		if len(fields) < 2 {
			return false
		}
		var err error
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			return false
		}
	}
	return pid > 0
}

// ownBytes reads of proc_pid_statm(5) what a process has in memory of its own. The
// pages of its program and libraries are the kernel's cache of those files: all
// monitors of a node share them, and the kernel takes them back when it wants.
func ownBytes(statm []byte) (bytes float64, ok bool) {
	fields := strings.Fields(string(statm))
	if len(fields) < 3 {
		return 0, false
	}
	resident, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, false
	}
	shared, err := strconv.ParseInt(fields[2], 10, 64)
	return float64(resident-shared) * float64(os.Getpagesize()), err == nil
}

// descendants lists a process and all that descend from it, but for one of them
// and its own. It asks the threads of each for their children, which is a few
// files where a search through all processes of a node would be thousands.
func descendants(root string, pid, without int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		tasks := filepath.Join(root, strconv.Itoa(all[i]), "task")
		threads, err := os.ReadDir(tasks)
		if err != nil {
			continue // it has ended
		}
		for _, thread := range threads {
			children, err := os.ReadFile(filepath.Join(tasks, thread.Name(), "children"))
			if err != nil {
				continue
			}
			for _, field := range strings.Fields(string(children)) {
				if child, err := strconv.Atoi(field); err == nil && child != without {
					all = append(all, child)
				}
			}
		}
	}
	return all
}

// tree is a task with all that it has started. What a process has used is kept
// when it ends, unless its parent has collected it and has it in its own sum.
type tree struct {
	root         string // /proc
	pid, without int
	pids         []int
	age          int // reads since the processes were looked for
	io           map[int][2]float64
	cpuSeconds   float64 // never goes back
	storage      [2]float64
}

// lookEvery is how many reads go by between looks for new processes.
const lookEvery = 5

// totals are those of the tree; ok is false when the task has ended.
func (t *tree) totals() (cpuSeconds, residentBytes float64, storage [2]float64, processes int, ok bool) {
	if t.age%lookEvery == 0 {
		t.pids = descendants(t.root, t.pid, t.without)
	}
	t.age++
	if t.io == nil {
		t.io = map[int][2]float64{}
	}
	var cpu float64
	for _, pid := range t.pids {
		p, alive := readProcess(t.root, pid)
		if !alive {
			continue
		}
		processes++
		cpu += p.cpuSeconds
		residentBytes += p.residentBytes
		if io := contentOf(t.root, strconv.Itoa(pid), "io"); io != nil { // proc_pid_io(5)
			read, _ := keyedNumber(io, "read_bytes:")
			written, _ := keyedNumber(io, "write_bytes:")
			t.io[pid] = [2]float64{read, written}
		}
	}
	t.cpuSeconds = max(t.cpuSeconds, cpu)
	var sum [2]float64
	for _, own := range t.io {
		sum[0] += own[0]
		sum[1] += own[1]
	}
	t.storage = [2]float64{max(t.storage[0], sum[0]), max(t.storage[1], sum[1])}
	return t.cpuSeconds, residentBytes, t.storage, processes, processes > 0
}

package monitor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroup is where the numbers of a control group lie; each path is empty where
// there is none.
type cgroup struct {
	unified string            // its folder under version 2
	legacy  map[string]string // its folders under version 1, by controller
}

// cgroupOf finds the control group of a process. mounts is proc_pid_mountinfo(5)
// and membership proc_pid_cgroup(5) of it. The root group is that of the whole
// host, and no group of a task: there is none then.
func cgroupOf(mounts, membership string) cgroup {
	g := cgroup{legacy: map[string]string{}}
	type mount struct{ root, at string }
	unified, legacy := mount{}, map[string]mount{}
	for line := range strings.Lines(mounts) {
		// ID PARENT DEVICE ROOT AT … - TYPE SOURCE OPTIONS
		place, kind, _ := strings.Cut(line, " - ")
		fields, system := strings.Fields(place), strings.Fields(kind)
		if len(fields) < 5 || len(system) < 3 {
			continue
		}
		m := mount{unescape(fields[3]), unescape(fields[4])}
		switch system[0] {
		case "cgroup2":
			unified = m
		case "cgroup":
			for option := range strings.SplitSeq(system[2], ",") {
				legacy[option] = m
			}
		}
	}
	below := func(m mount, path string) string {
		if m.at == "" || path == "/" {
			return ""
		}
		// In a container the mount shows a part of the tree.
		return filepath.Join(m.at, strings.TrimPrefix(path, strings.TrimSuffix(m.root, "/")))
	}
	for line := range strings.Lines(membership) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // ID:CONTROLLERS:PATH
		switch {
		case len(fields) < 3:
		case fields[1] == "":
			g.unified = below(unified, fields[2])
		default:
			for controller := range strings.SplitSeq(fields[1], ",") {
				if folder := below(legacy[controller], fields[2]); folder != "" {
					g.legacy[controller] = folder
				}
			}
		}
	}
	return g
}

// unescape undoes the octal escapes of a path in mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// numbers are those of a control group; what is not there is not known.
func (g cgroup) numbers(add func(name string, value float64)) {
	number := func(name string, scale float64, folder, file string) bool {
		value, ok := readNumber(folder, file)
		if ok {
			add(name, value*scale)
		}
		return ok
	}
	keyed := func(name string, scale float64, folder, file, key string) bool {
		value, ok := keyedNumber(contentOf(folder, file), key)
		if ok {
			add(name, value*scale)
		}
		return ok
	}
	_ = keyed(CgroupCPUSeconds, 1e-6, g.unified, "cpu.stat", "usage_usec") || number(CgroupCPUSeconds, 1e-9, g.legacy["cpuacct"], "cpuacct.usage")
	_ = number(CgroupMemoryBytes, 1, g.unified, "memory.current") || number(CgroupMemoryBytes, 1, g.legacy["memory"], "memory.usage_in_bytes")
	_ = keyed(CgroupOOMKills, 1, g.unified, "memory.events", "oom_kill") || keyed(CgroupOOMKills, 1, g.legacy["memory"], "memory.oom_control", "oom_kill")
	for name, file := range map[string]string{CPUStallSeconds: "cpu.pressure", MemoryStallSeconds: "memory.pressure", IOStallSeconds: "io.pressure"} {
		if seconds, ok := stallSeconds(contentOf(g.unified, file)); ok {
			add(name, seconds)
		}
	}
}

// memoryLimit is the least bound on the memory of a control group and of those
// above it; ok is false where there is none.
func (g cgroup) memoryLimit() (bytes float64, ok bool) {
	try := func(folder, file string) {
		for folder != "" && folder != "/" && folder != "/sys/fs" {
			if limit, known := readNumber(folder, file); known && limit < 1<<60 && (!ok || limit < bytes) {
				bytes, ok = limit, true
			}
			folder = filepath.Dir(folder)
		}
	}
	try(g.unified, "memory.max")
	try(g.legacy["memory"], "memory.limit_in_bytes")
	return bytes, ok
}

// cores is the bound on the cores of a control group; ok is false where there is
// none.
func (g cgroup) cores() (cores float64, ok bool) {
	if g.unified != "" {
		quota, period, _ := strings.Cut(strings.TrimSpace(string(contentOf(g.unified, "cpu.max"))), " ")
		q, known := parse(quota)
		p, also := parse(period)
		return q / p, known && also && q > 0 && p > 0
	}
	q, known := readNumber(g.legacy["cpu"], "cpu.cfs_quota_us")
	p, also := readNumber(g.legacy["cpu"], "cpu.cfs_period_us")
	return q / p, known && also && q > 0 && p > 0
}

// contentOf is what a file of a folder holds; nil where there is no such folder or file.
func contentOf(folder string, file ...string) []byte {
	if folder == "" {
		return nil
	}
	content, _ := os.ReadFile(filepath.Join(append([]string{folder}, file...)...))
	return content
}

// readNumber reads a file that holds one number.
func readNumber(folder, file string) (value float64, ok bool) {
	return parse(strings.TrimSpace(string(contentOf(folder, file))))
}

func parse(text string) (value float64, ok bool) {
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil
}

// keyedNumber reads the number behind a key at the start of a line.
func keyedNumber(content []byte, key string) (value float64, ok bool) {
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			return parse(fields[1])
		}
	}
	return value, false
}

// stallSeconds reads the total of the line "some" of pressure stall information:
// the time in which something waited.
func stallSeconds(content []byte) (seconds float64, ok bool) {
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "some ") {
			continue
		}
		_, total, found := strings.Cut(line, "total=")
		micros, err := strconv.ParseUint(strings.TrimSpace(total), 10, 64)
		return float64(micros) / 1e6, found && err == nil
	}
	return seconds, false
}

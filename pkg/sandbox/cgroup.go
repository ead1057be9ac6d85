package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// group are the control groups of a program: none where none was delegated to this
// user, one of cgroups v2, or one for each controller of v1 (cgroups(7),
// "Cgroup delegation"). Slurm's of a step is not delegated, and bounds us with the
// program.
type group struct {
	name    string
	folders []string
	memory  string // the folder that bounds memory, or ""
	second  bool   // that is of cgroups v2
}

// What the first process of a namespace, which is ours, may take of a group.
const (
	ownMemory    = 32 << 20
	ownProcesses = 32
)

// groups numbers those of this process.
var groups atomic.Int64

// place is a control group that this process is in.
type place struct {
	folder string
	top    bool // of all
	second bool
}

// newGroup makes groups in those that this process is in, or in the ones above.
func newGroup(limits Limits) *group {
	own, _ := os.ReadFile("/proc/self/cgroup") // without either there are no groups
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	g := &group{name: fmt.Sprintf("lathe-%d-%d", os.Getpid(), groups.Add(1))}
	for controller, most := range map[string]int64{"memory": limits.Memory, "pids": int64(limits.Processes)} {
		if most == 0 {
			continue
		}
		for _, p := range places(controller, string(own), string(mounts)) {
			if g.make(p, controller, most) {
				break
			}
		}
	}
	return g
}

// places lists the groups of a process that may have a controller, by its cgroup
// and mountinfo files of /proc (cgroups(7), proc(5)).
func places(controller, own, mounts string) []place {
	var all []place
	for line := range strings.Lines(own) { // ID:CONTROLLERS:PATH
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[1] != "" && !slices.Contains(strings.Split(parts[1], ","), controller) {
			continue
		}
		for mount := range strings.Lines(mounts) { // ID PARENT DEVICE ROOT POINT OPTIONS … - TYPE SOURCE OPTIONS
			before, after, _ := strings.Cut(mount, " - ")
			where, kind := strings.Fields(before), strings.Fields(after)
			if len(where) < 5 || len(kind) < 3 {
				continue
			}
			second := kind[0] == "cgroup2"
			if second != (parts[1] == "") || !second && (kind[0] != "cgroup" || !slices.Contains(strings.Split(kind[2], ","), controller)) {
				continue
			}
			if below, ok := strings.CutPrefix(parts[2], strings.TrimSuffix(where[3], "/")); ok && (below == "" || below[0] == '/') {
				all = append(all, place{filepath.Join(where[4], below), below == "/" || below == "", second})
			}
		}
	}
	return all
}

// delegated reports whether groups may be made in one: it is a user's own, or
// this is root in the one above all. Others of root's have somebody who made them.
func (p place) delegated() bool {
	var stat syscall.Stat_t
	return syscall.Stat(p.folder, &stat) == nil && int(stat.Uid) == os.Getuid() && (p.top || os.Getuid() != 0)
}

// make makes a group with a limit in a place or beside it, or leaves nothing.
func (g *group) make(p place, controller string, most int64) bool {
	for _, parent := range []place{p, {filepath.Dir(p.folder), false, p.second}} {
		if !parent.delegated() {
			continue
		}
		sweep(parent.folder)
		folder := filepath.Join(parent.folder, g.name)
		if !slices.Contains(g.folders, folder) && os.Mkdir(folder, 0o700) != nil {
			continue
		}
		if limit(folder, controller, most, p.second) != nil {
			if !slices.Contains(g.folders, folder) {
				os.Remove(folder)
			}
			continue
		}
		if !slices.Contains(g.folders, folder) {
			g.folders = append(g.folders, folder)
		}
		if controller == "memory" {
			g.memory, g.second = folder, p.second
		}
		return true
	}
	return false
}

// sweep removes the groups of supervisors that were killed, and had no time to.
func sweep(folder string) {
	names, _ := filepath.Glob(filepath.Join(folder, "lathe-*-*")) // the pattern is right
	for _, name := range names {
		var pid, n int
		if _, err := fmt.Sscanf(filepath.Base(name), "lathe-%d-%d", &pid, &n); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = os.Remove(name) // one in which processes are stays
		}
	}
}

// limit sets the bound of a controller.
func limit(folder, controller string, most int64, second bool) error {
	if controller == "pids" {
		return set(folder, "pids.max", most+ownProcesses)
	}
	if second {
		_ = set(folder, "memory.swap.max", 0) // a kernel that does not count swap has no such file
		return set(folder, "memory.max", most+ownMemory)
	}
	err := set(folder, "memory.limit_in_bytes", most+ownMemory)
	_ = set(folder, "memory.memsw.limit_in_bytes", most+ownMemory)
	return err
}

func set(folder, name string, value int64) error {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(strconv.FormatInt(value, 10))
	return err
}

// add puts a process into the groups, with all that it starts.
func (g *group) add(pid int) error {
	for _, folder := range g.folders {
		if err := set(folder, "cgroup.procs", int64(pid)); err != nil {
			return fmt.Errorf("putting a program into its control group: %w", err)
		}
	}
	return nil
}

// end is OverMemory if the kernel has ended a process of the group for it.
func (g *group) end() End {
	if g.memory == "" {
		return ""
	}
	name := "memory.oom_control"
	if g.second {
		name = "memory.events"
	}
	text, _ := os.ReadFile(filepath.Join(g.memory, name)) // without it nobody knows
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 2 && string(fields[0]) == "oom_kill" && number(fields[1]) > 0 {
			return OverMemory
		}
	}
	return ""
}

// memoryBy says who bounds memory.
func (g *group) memoryBy() string {
	switch {
	case g.memory == "":
		return "polling"
	case g.second:
		return "cgroup v2"
	}
	return "cgroup v1"
}

// remove removes the groups, of which all processes have ended.
func (g *group) remove() {
	for _, folder := range g.folders {
		for range 100 { // the last may still be on its way out
			if err := os.Remove(folder); err == nil || os.IsNotExist(err) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

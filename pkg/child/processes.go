package child

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sweeps bounds how often processes are looked for: each time the ones that were
// found are killed, and only one that starts others faster than that is left.
const sweeps = 1000

// killLeft kills all processes of a group, those that have a mark in their
// environment, and all that descend from either, and waits until they are gone.
// What has cleared its environment and outlived its parents is not found: a cage
// or a batch system ends that.
func killLeft(group int, mark string) {
	killed := map[int]bool{}
	for range sweeps {
		for _, pid := range left(group, mark) {
			killed[pid] = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for pid := range killed {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // an orphan, whose end nobody else collects
			if syscall.Kill(pid, 0) != nil {
				delete(killed, pid)
			}
		}
		if len(killed) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// collectOrphans collects the ends of orphans that this process has adopted: without it
// each would keep its process id until this process ends. Orphans are in groups other than
// ours, as all that children start is, and are not children themselves.
func collectOrphans() {
	children.Lock() // none is started between the look and the end
	defer children.Unlock()
	for _, p := range Processes() {
		if p.ended && p.Parent == os.Getpid() && p.Group != syscall.Getpgrp() && !children.running[p.PID] {
			_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil)
		}
	}
}

// Process is a process of this machine, by its id, its parent's and its group's.
// It may have ended, and nobody has collected its end.
type Process struct {
	PID, Parent, Group int
	ended              bool
}

// left lists the processes of a group, those that have a mark in their
// environment, and those that descend from either. Of some the end has not been
// collected yet.
func left(group int, mark string) []int {
	all := Processes()
	ours := map[int]bool{}
	for _, p := range all {
		if p.Group == group {
			ours[p.PID] = true
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ"))
		if err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+mark+"\x00")) {
			ours[p.PID] = true
		}
	}
	addDescendants(ours, all)
	return slices.Collect(maps.Keys(ours))
}

// addDescendants adds to a set of processes those that descend from one of it.
func addDescendants(ours map[int]bool, all []Process) {
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if ours[p.Parent] && !ours[p.PID] {
				ours[p.PID], grown = true, true
			}
		}
	}
}

// Processes lists what runs on this machine, as far as it may be seen.
func Processes() []Process {
	entries, _ := os.ReadDir("/proc") // without it there is nothing to find
	var all []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// PID (COMMAND) STATE PPID PGRP …; the command may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 3 {
			continue
		}
		parent, errParent := strconv.Atoi(fields[1])
		group, errGroup := strconv.Atoi(fields[2])
		if errParent == nil && errGroup == nil {
			all = append(all, Process{pid, parent, group, fields[0] == "Z"})
		}
	}
	return all
}

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
// environment, and all that descend from either, and waits until they are gone. What has cleared its
// environment and outlived its parents is not found: a cage or a batch system
// ends that.
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

type process struct{ pid, parent, group int }

// left lists the processes of a group, those that have a mark in their
// environment, and those that descend from either. Of some the end has not been
// collected yet.
func left(group int, mark string) []int {
	all := processes()
	ours := map[int]bool{}
	for _, p := range all {
		if p.group == group {
			ours[p.pid] = true
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "environ"))
		if err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+mark+"\x00")) {
			ours[p.pid] = true
		}
	}
	if len(ours) == 0 {
		return nil
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if ours[p.parent] && !ours[p.pid] {
				ours[p.pid], grown = true, true
			}
		}
	}
	return slices.Collect(maps.Keys(ours))
}

// processes lists what runs on this machine under this user, or may be read.
func processes() []process {
	entries, _ := os.ReadDir("/proc") // without it there is nothing to find
	var all []process
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
			all = append(all, process{pid, parent, group})
		}
	}
	return all
}

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// plan is all that is done to start a program, as it is worked out by whoever
// starts it. The sandbox and a warm interpreter both apply it.
type plan struct {
	Args  []string `json:"args"` // nobody's: the sandbox is built and left, to see whether it can be
	Env   []string `json:"env"`
	Dir   string   `json:"dir"`
	Write []string `json:"write"`

	Limits  Limits    `json:"limits"`
	Rlimits []rlimit  `json:"rlimits"`
	Files   ruleset   `json:"files"`
	Filters [][]byte  `json:"filters"` // instructions of seccomp, as the kernel takes them
	Clone   uintptr   `json:"clone"`   // flags of the namespaces
	View    []step    `json:"view"`    // none without a mount namespace
	Own     *identity `json:"own"`     // of a user namespace
	Nice    int       `json:"nice"`
	Seed    *uint32   `json:"seed"`
}

// rlimit is what setrlimit takes.
type rlimit struct {
	Name     string `json:"name"`
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// identity is who we are, inside a user namespace as outside.
type identity struct {
	User  int `json:"user"`
	Group int `json:"group"`
}

// openFiles bounds descriptors of one process, and of this user those that wait in
// sockets.
const openFiles = 1024

// newPlan works out how a program is started under a protection.
func newPlan(p *Program, protection Protection) (*plan, error) {
	own := protection.namespace("mount")
	devices, environ, err := p.gpus()
	if err != nil {
		return nil, err
	}
	shown, drivers := system.shown(), []string(nil)
	if p.Root != "" {
		if shown, err = p.rooted(); err != nil {
			return nil, err
		}
		var where []string
		drivers, where = p.driver()
		environ = append(environ, where...)
	}
	pl := &plan{
		Args: p.Args, Env: append(slices.Clone(p.Env), environ...), Dir: p.Dir, Seed: p.Seed, Write: p.Write, Limits: p.Limits, Rlimits: p.Limits.rlimits(),
		Files: newRuleset(protection.Landlock, p.rules(shown, devices, protection)), Clone: protection.clone(),
	}
	if protection.Seccomp {
		if pl.Filters, err = filters(protection.ownSockets()); err != nil {
			return nil, fmt.Errorf("making filters of system calls: %w", err)
		}
	}
	if pl.Clone != 0 {
		pl.Own = &identity{os.Getuid(), os.Getgid()}
	}
	if raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		pl.Nice = 20 - raw // as the system call has it
	}
	if own {
		if _, short := p.temporary(); short != "" {
			pl.Env = slices.DeleteFunc(pl.Env, func(entry string) bool { return strings.HasPrefix(entry, temporaryVariable) })
			pl.Env = append(pl.Env, temporaryVariable+short)
		}
		pl.View = p.view(shown, devices, drivers)
	}
	return pl, nil
}

// rlimits are the limits that a kernel keeps for each process.
func (l Limits) rlimits() []rlimit {
	seconds := uint64((l.CPU + time.Second - 1) / time.Second)
	all := []rlimit{
		// 1 and not 0: of 0 a program that takes core files is told all the same (core(5)).
		{"core files", unix.RLIMIT_CORE, 1, 1},
		{"open files", unix.RLIMIT_NOFILE, openFiles, openFiles},
	}
	if l.CPU > 0 {
		all = append(all, rlimit{"CPU seconds", unix.RLIMIT_CPU, seconds, seconds + 1}) // its end comes with a signal of its own a second before
	}
	if l.FileBytes > 0 {
		all = append(all, rlimit{"bytes of a file", unix.RLIMIT_FSIZE, uint64(l.FileBytes), uint64(l.FileBytes)})
	}
	if l.Processes > 0 {
		// It counts all of this user's, and holds between two looks of the supervisor's.
		most := uint64(l.Processes + running())
		all = append(all, rlimit{"processes", unix.RLIMIT_NPROC, most, most})
	}
	return all
}

// running is how many threads this host has.
func running() int {
	text, _ := os.ReadFile("/proc/loadavg") // 0.1 0.1 0.1 RUNNING/ALL LAST
	if fields := bytes.Fields(text); len(fields) > 3 {
		_, all, _ := bytes.Cut(fields[3], []byte("/"))
		n, _ := strconv.Atoi(string(all)) // the kernel's own number
		return n
	}
	return 0
}

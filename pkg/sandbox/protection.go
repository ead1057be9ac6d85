package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Protection is what a host gives.
type Protection struct {
	Landlock   int      `json:"landlock"` // version of its interface; 0 for none
	Seccomp    bool     `json:"seccomp"`
	Namespaces []string `json:"namespaces"` // of "user", "mount", "pid", "ipc", "net", "uts"
	// MemoryBy says who keeps memory bounded, as a [Report] says it.
	MemoryBy string `json:"memory_by"`
	// Reasons say why what is missing is.
	Reasons map[string]string `json:"reasons,omitempty"`
}

// What may be required.
const (
	Files     = "files"
	Network   = "network"
	Signals   = "signals"
	Processes = "processes"
	Paths     = "paths"
	IPC       = "ipc"
	Memory    = "memory"
)

type required struct {
	name, meaning string
	by            func(Protection) bool
}

// protections are what may be required: what it means, and by what of a host it is had.
var protections = []required{
	{Files, "only granted files can be opened (Landlock, or a mount namespace)", func(p Protection) bool { return p.Landlock >= 1 || p.namespace("mount") }},
	{Network, "no network, and no socket of another program (seccomp, or a network namespace)", func(p Protection) bool { return p.Seccomp || p.namespace("net") }},
	{Signals, "no signal to processes outside (Landlock 6, or a PID namespace)", func(p Protection) bool { return p.Landlock >= 6 || p.namespace("pid") }},
	{Processes, "no process outside can be seen (a PID namespace)", func(p Protection) bool { return p.namespace("pid") }},
	{Paths, "files that are not granted are invisible, including their names and sizes (a mount namespace)", func(p Protection) bool { return p.namespace("mount") }},
	{IPC, "no queue, semaphore or memory shared with other processes (seccomp, or an IPC namespace)", func(p Protection) bool { return p.Seccomp || p.namespace("ipc") }},
	{Memory, "memory is bounded at each moment, not at looks every few milliseconds (a control group that is delegated to this user)", func(p Protection) bool { return strings.HasPrefix(p.MemoryBy, "cgroup") }},
}

// Names lists what may be required.
func Names() []string {
	var names []string
	for _, p := range protections {
		names = append(names, p.name)
	}
	return names
}

// Meaning says what one of the names means, and by what it is had; "" for another name.
func Meaning(name string) string {
	for _, p := range protections {
		if p.name == name {
			return p.meaning
		}
	}
	return ""
}

// namespaces are those that a program gets, by the flags of clone. The first needs
// no rights, and gives those that the others need. Mounts and processes go
// together: a /proc of one's own takes both.
var namespaces = []struct {
	name  string
	flag  uintptr
	needs []string
}{
	{"user", unix.CLONE_NEWUSER, nil},
	{"mount", unix.CLONE_NEWNS, []string{"user", "pid"}},
	{"pid", unix.CLONE_NEWPID, []string{"user", "mount"}},
	{"ipc", unix.CLONE_NEWIPC, []string{"user"}},
	{"net", unix.CLONE_NEWNET, []string{"user"}},
	{"uts", unix.CLONE_NEWUTS, []string{"user"}},
}

// Probe looks at this host, by really building sandboxes of plans such as those of
// programs.
var Probe = sync.OnceValue(func() Protection {
	p := Protection{Seccomp: seccomp.Supported(), Reasons: map[string]string{}}
	if version, err := landlockVersion(); err != nil {
		p.Reasons["landlock"] = err.Error()
	} else {
		p.Landlock = version
	}
	if !p.Seccomp {
		p.Reasons["seccomp"] = "this kernel has none"
	}
	if p.Landlock > 0 && p.Landlock < 6 {
		p.Reasons["landlock 6"] = fmt.Sprintf("this kernel has version %d, without scopes", p.Landlock)
	}
	g := newGroup(Limits{Memory: 1 << 30})
	if p.MemoryBy = g.memoryBy(); !p.Has(Memory) {
		p.Reasons[Memory] = "no control group is delegated to this user"
	}
	g.remove()
	var all []string
	for _, n := range namespaces {
		all = append(all, n.name)
	}
	with := func(names ...string) error {
		tried := p
		tried.Namespaces = names
		return try(tried)
	}
	err := with(all...)
	if err == nil {
		p.Namespaces = all
		return p
	}
	var some []string
	for _, n := range namespaces {
		if one := with(append([]string{n.name}, n.needs...)...); one == nil {
			some = append(some, n.name)
		} else {
			p.Reasons[n.name] = one.Error()
		}
	}
	if len(some) > 0 {
		if err := with(some...); err == nil {
			p.Namespaces = some
		} else {
			p.Reasons["user"] = err.Error()
		}
	}
	return p
})

// tried is what the sandbox of a probe is limited to: all that programs can be.
var tried = Limits{Wall: time.Minute, CPU: time.Minute, Memory: 1 << 30, Processes: 64, FileBytes: 1 << 20, Disk: 1 << 20, Files: 100}

// try builds a sandbox, in which nothing runs, as it is built for programs of this
// process: with its user, as nice as it is and with limits.
func try(protection Protection) error {
	if !entered.Load() {
		return errors.New("this program runs no sandboxes")
	}
	p, err := newPlan(&Program{Args: []string{"/"}, Dir: "/", Limits: tried}, protection)
	if err != nil {
		return err
	}
	p.Args = nil
	l, err := newLines(p)
	if err != nil {
		return err
	}
	defer l.close()
	cmd := p.sandboxCommand()
	cmd.Env, cmd.ExtraFiles = []string{}, l.theirs()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the sandbox: %w", err)
	}
	go l.order()
	fault := l.fault()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(fault)))
	}
	return nil
}

// namespace reports whether one is in force.
func (p Protection) namespace(name string) bool { return slices.Contains(p.Namespaces, name) }

// ownSockets reports whether UNIX sockets lead nowhere but to the program itself: those
// with a name in the network, and those with a name among files.
func (p Protection) ownSockets() bool { return p.namespace("net") && p.namespace("mount") }

// clone are the flags of the namespaces.
func (p Protection) clone() uintptr {
	var flags uintptr
	for _, n := range namespaces {
		if p.namespace(n.name) {
			flags |= n.flag
		}
	}
	return flags
}

// Has reports whether a protection is in force.
func (p Protection) Has(name string) bool {
	return slices.ContainsFunc(protections, func(r required) bool { return r.name == name && r.by(p) })
}

// Missing lists what of the names is not in force.
func (p Protection) Missing(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), p.Has)
}

// Require is an error unless all of the names are in force: of usage for what is no
// name, and that something is unavailable on this host else.
func (p Protection) Require(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return exitcode.Usagef("unknown protection %q; the protections are %s", name, strings.Join(Names(), ", "))
		}
	}
	if missing := p.Missing(names); len(missing) > 0 {
		return exitcode.Unavailablef("the sandbox must have %s, which this host does not provide: it has %s", strings.Join(missing, ", "), p)
	}
	return nil
}

// String names what is in force, and why not more.
func (p Protection) String() string {
	var has []string
	for _, name := range Names() {
		if p.Has(name) {
			has = append(has, name)
		}
	}
	text := "nothing but resource limits"
	if len(has) > 0 {
		text = fmt.Sprintf("%s (Landlock %d, namespaces: %s)", strings.Join(has, ", "), p.Landlock, cmp.Or(strings.Join(p.Namespaces, " "), "none"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Reasons)) {
		text += fmt.Sprintf("; no %s: %s", name, p.Reasons[name])
	}
	return text
}

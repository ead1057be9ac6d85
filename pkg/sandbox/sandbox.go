package sandbox

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Limits bound a program with all that it starts. 0 is no bound.
type Limits struct {
	Wall      time.Duration `json:"wall"`
	CPU       time.Duration `json:"cpu"`       // of one process
	Memory    int64         `json:"memory"`    // bytes that are resident, of all processes together
	Processes int           `json:"processes"` // at once, threads included; those of the sandbox, up to 8, count until it has become the program
	FileBytes int64         `json:"file_bytes"`
	Disk      int64         `json:"disk"`   // bytes that all files in the writable folders take together, those that were there included
	Files     int           `json:"files"`  // files and folders in the writable folders
	Output    int           `json:"output"` // bytes of each of standard output and error that are kept: the first and the last
}

// Program is what is run.
type Program struct {
	Args  []string `json:"args"` // the first is a path
	Dir   string   `json:"dir"`
	Env   []string `json:"env"`   // all of it
	Read  []string `json:"read"`  // files and folders that may be read, and run, beside the system's own
	Write []string `json:"write"` // folders in which files may be made, changed and removed

	// Root is a folder whose files take the place of the system's own: programs,
	// libraries and settings. The first of Args is a path in it. Empty for this host's;
	// else a mount namespace is needed.
	Root string `json:"root"`

	// GPUs are those that may be used, by UUID or by index in the order of the bus.
	// CUDA_VISIBLE_DEVICES names them to the program.
	GPUs []string `json:"gpus"`

	// Seed is that of the random numbers of Python's random and NumPy's numpy.random
	// in a warm interpreter; nil for new ones each time. [Run] does not look at it.
	Seed *uint32 `json:"seed"`

	Limits Limits    `json:"limits"`
	Stdin  io.Reader `json:"-"`
	// Stdout and Stderr take standard output and error as they come, beside what [Result]
	// keeps of them. One that fails gets no more.
	Stdout io.Writer `json:"-"`
	Stderr io.Writer `json:"-"`
	// Require names what must be in force ([Names]); that a host does not give it is
	// an error ([Protection.Require]).
	Require []string `json:"-"`

	protection *Protection // nil for what this host gives
	devices    string      // folder in the place of / in which GPUs are looked for
}

// End says how a program ended.
type End string

// The ends of a program.
const (
	Exited     End = "exited"
	Killed     End = "killed" // by a signal that is not ours
	OverTime   End = "time"   // wall clock or CPU
	OverMemory End = "memory"
	OverDisk   End = "disk" // bytes, or files; or folders nested deeper than 256 where these are bounded
	// OverProcesses is by the supervisor; of a fork that the kernel refused before,
	// a program may make what it wants.
	OverProcesses End = "processes"
	NotStarted    End = "not_started" // the sandbox could not be built
)

// Report is how a program ended and what it took, with all that it started; the
// building of the sandbox is in it, and no queueing.
type Report struct {
	End        End            `json:"end"`
	ExitCode   int            `json:"exit_code"` // of a program that exited
	Signal     syscall.Signal `json:"signal"`    // of one that was killed
	Wall       time.Duration  `json:"wall"`
	CPU        time.Duration  `json:"cpu"`
	PeakMemory int64          `json:"peak_memory"` // bytes, as it was seen every few milliseconds; what processes share counts for each, but for shared memory
	// MemoryBy says who keeps memory bounded beside the supervisor, which looks
	// every few milliseconds: "cgroup v2" or "cgroup v1" where this user has been
	// delegated one, and "polling" for nobody.
	MemoryBy      string `json:"memory_by"`
	PeakProcesses int    `json:"peak_processes"` // and threads, as they were seen
}

// Result is what came of a program.
type Result struct {
	Report
	Stdout, Stderr Output
	Protection     Protection
}

// patience is how long a supervisor may take to end all processes of a program,
// beyond which they are ended from outside, as far as they can be found there.
const patience = 5 * time.Second

// Run runs a program in a sandbox and returns when it and all that it has started
// are gone. An error is ours or the host's, never the program's. Several may run at
// once.
func Run(ctx context.Context, p Program) (Result, error) {
	r, pl, err := prepare(&p)
	if err != nil {
		return r, err
	}
	s, err := resident.get()
	if err != nil {
		return r, err
	}
	return r, s.run(ctx, &p, pl, &r)
}

// prepare checks a program and works out how it is started.
func prepare(p *Program) (Result, *plan, error) {
	r := Result{Protection: Probe()}
	if p.protection != nil {
		r.Protection = *p.protection
	}
	if err := r.Protection.Require(p.Require); err != nil {
		return r, nil, err
	}
	if len(p.Args) == 0 {
		return r, nil, exitcode.Usagef("the sandbox has no program")
	}
	p.Dir = cmp.Or(p.Dir, "/")
	for _, paths := range [][]string{{p.Dir}, p.Args[:1], p.Read, p.Write} {
		for _, path := range paths {
			if !filepath.IsAbs(path) {
				return r, nil, exitcode.Usagef("the sandbox is granted %q, want an absolute path", path)
			}
		}
	}
	if err := p.checkRoot(r.Protection); err != nil {
		return r, nil, err
	}
	pl, err := newPlan(p, r.Protection)
	return r, pl, err
}

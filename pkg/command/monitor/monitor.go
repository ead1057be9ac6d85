// Package monitor holds the command of lathe-monitor. It stands apart from the
// other commands because a process beside every task has to be small: it links
// nothing that trains.
package monitor

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Open makes the sampler of the GPUs that a task was given.
type Open func(given monitor.Devices) monitor.Sampler

// Options are those of lathe-monitor.
type Options struct {
	Run      string        // folder to seal samples in; empty shows what is now
	Task     string        // that is watched, as its samples carry it
	PID      int           // process that is watched, with all that it has started; 0 for none
	Cores    float64       // that the task was given; 0 asks its affinity
	Every    time.Duration // between samples
	Attached bool          // standard input ends with the task, and descriptor 3 is its phases
	JSON     bool
	Count    int // looks, of watch; 0 for no end
	Open     Open
}

// The least and the longest time between samples. GPM's counters need 100 ms.
const (
	leastEvery   = 100 * time.Millisecond
	longestEvery = time.Hour
)

// App is lathe-monitor. It is handed what reads the GPUs, because NVML needs cgo
// and no other binary may.
func App(open Open) *cli.App {
	o := Options{Open: open}
	app := cmdline.NewApp("lathe-monitor", "sample a task's use of GPUs, cores and memory into its run, or print it")
	every := &cli.DurationFlag{Name: "every", Usage: "`DURATION` between samples", Value: time.Second, Destination: &o.Every}
	cmdline.Group(app, watchCommand(&o))
	app.Description = "If LD_BIND_NOW is set, the loader fails: start it as env -u LD_BIND_NOW lathe-monitor.\n" +
		"The tasks of runs do so."
	app.Flags = []cli.Flag{
		&cli.StringFlag{Name: "run", Usage: "seal samples under gpu/HOST of `RUN` until the process --pid ends", Destination: &o.Run},
		&cli.IntFlag{Name: "pid", Usage: "sample `PROCESS` and all its descendants", Destination: &o.PID},
		&cli.StringFlag{Name: "task", Usage: "task `NAME` to store with the samples", Destination: &o.Task},
		&cli.Float64Flag{Name: "cores", Usage: "number of `CORES` allocated to the task; 0 reads its affinity and control group", Destination: &o.Cores},
		every,
		cmdline.JSONFlag(&o.JSON),
		&cli.BoolFlag{Name: "attached", Hidden: true, Destination: &o.Attached},
	}
	app.Action = cmdline.NoArguments(func(c *cli.Context) error {
		if o.Run != "" {
			return Record(c.Context, o)
		}
		return Show(c.App.Writer, o)
	})
	return cmdline.Help{
		Example: "lathe-monitor --json\n" +
			"lathe-monitor --run runs/first --pid 4711",
		Exits: map[int]string{exitcode.Unavailable: "no GPU or no GPU driver", exitcode.Data: "--run is not a run"},
	}.App(app)
}

func watchCommand(o *Options) *cli.Command {
	return cmdline.Help{
		Example: "lathe-monitor watch --every 2s",
		Exits:   cmdline.Exits(exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "watch", Usage: "print the use of GPUs, cores and memory of this host repeatedly",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "every", Usage: "`DURATION` between readings", Value: time.Second, Destination: &o.Every},
			&cli.IntFlag{Name: "count", Usage: "stop after `N` readings; 0 never stops", Destination: &o.Count},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON line per reading", Destination: &o.JSON},
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error { return Watch(c.Context, c.App.Writer, *o) }),
	})
}

func (o Options) check() error {
	switch {
	case o.Every < leastEvery || o.Every > longestEvery:
		return exitcode.Usagef("--every: got %v, want %v to %v", o.Every, leastEvery, longestEvery)
	case o.PID < 0:
		return exitcode.Usagef("--pid: got %d, want a process id", o.PID)
	case o.Cores < 0:
		return exitcode.Usagef("--cores: got %g, want 0 or more", o.Cores)
	case o.Count < 0:
		return exitcode.Usagef("--count: got %d, want 0 or more", o.Count)
	}
	return nil
}

// A monitor stands beside every task: its heap may grow to memoryBound, and no
// garbage is collected before it is there. It makes half a megabyte a second with
// eight GPUs, since go-nvml copies what GPM fills. The driver's library takes another
// 12 MB, its zeroed variables; together they are under 20. Beside them stand the pages of
// the binary and of libraries, which all monitors of a node share and the kernel takes
// back when it wants.
const memoryBound = 12 << 20

// Record seals samples in a run until the process that is watched has ended, or,
// where none is, until a signal comes.
func Record(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	debug.SetMemoryLimit(memoryBound)
	debug.SetGCPercent(-1)
	run, err := filepath.Abs(o.Run)
	if err != nil {
		return err
	}
	var identity struct {
		RunID string `json:"run_id"`
	}
	if _, err := seal.ReadJSON(ctx, filepath.Join(run, "run.json"), seal.Options{}, &identity); err != nil {
		if errors.Is(err, seal.ErrNotSealed) {
			err = exitcode.Dataf("%q is not a run: its run.json is %w", o.Run, seal.ErrNotSealed)
		}
		return err
	}
	alive, ended := func() bool { return true }, ctx.Done()
	signals := make(chan os.Signal, 1)
	if o.PID != 0 {
		if alive = monitor.Watch(o.PID); !alive() {
			return exitcode.Usagef("process %d is not running", o.PID)
		}
		// A signal that warns the task comes to us too: we stay as long as it does.
		ended = nil
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGUSR2)
	}
	given := monitor.DevicesGiven(os.LookupEnv)
	given.Task = o.PID
	options := monitor.Options{
		Every: o.Every, Alive: alive, SealNow: signals, Log: cmdline.Log("lathe-monitor"),
		Samplers: []monitor.Sampler{monitor.NewHost(o.PID, o.Cores), o.Open(given)},
		Record:   monitor.NewRecorder(run, identity.RunID, o.Task, seal.AttemptFromEnv(), time.Now()),
	}
	if o.Attached {
		left := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(left)
		}()
		ended = left
		options.Phases = os.NewFile(monitor.PhaseDescriptor, "phases")
	}
	options.Ended = ended
	monitor.Run(options)
	return nil
}

package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/prune"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// PruneOptions are those of lathe prune: it either removes versions or has
// them made again.
type PruneOptions struct {
	Run       string   // folder
	KeepEvery *int     // keep every N-th version
	DryRun    bool     // only say what would be removed
	Deltas    bool     // leave the difference of each removed policy
	Restore   []string // versions, such as 3 or v000003
	JSON      bool
}

func pruneCommand() *cli.Command {
	var o PruneOptions
	return cmdline.Help{
		Example: "lathe prune runs/quickstart --keep-every 50 --dry-run",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "prune", Usage: "delete checkpoints that no remaining task needs", ArgsUsage: "RUN",
		Description: "Keeps versions 0, N, 2N … and the last. Deletes all others, their optimizer states, warm-start\n" +
			"checkpoints and gradients. Their manifests stay as NAME.pruned.json; if the run needs a version\n" +
			"again, it computes the same bytes. schedule.keep_every does the same during a run. It is safe to\n" +
			"prune a run that is in progress. With --deltas each deleted policy leaves NAME.delta, its difference\n" +
			"from the previous kept version, from which --restore rebuilds it at once, to the byte.",
		Flags: []cli.Flag{
			cmdline.NumberFlag("keep-every", "keep every `N`-th policy version", &o.KeepEvery),
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be deleted, delete nothing", Destination: &o.DryRun},
			&cli.BoolFlag{Name: "deltas", Usage: "leave each deleted policy's difference from the previous kept version", Destination: &o.Deltas},
			cmdline.ListFlag("restore", "rebuild policy `VERSION`, such as 3 or v000003, from its delta, or queue it for the next lathe run; may be repeated", &o.Restore),
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Prune(c.Context, c.App.Writer, o) }),
	})
}

// Prune removes policies and optimizer states of a run, or has them made again.
func Prune(ctx context.Context, out io.Writer, o PruneOptions) error {
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	switch {
	case (o.KeepEvery == nil) == (len(o.Restore) == 0):
		return exitcode.Usagef("give either --keep-every or --restore")
	case o.KeepEvery == nil && o.Deltas:
		return exitcode.Usagef("--deltas requires --keep-every")
	case o.KeepEvery == nil:
		return o.restore(ctx, out, opened)
	}
	surveyor := survey.New(opened.Graph)
	found, err := surveyor.Survey(ctx)
	if err != nil {
		return err
	}
	pruned, err := prune.Prune(ctx, surveyor.Inventory, found, prune.Options{KeepEvery: *o.KeepEvery, Dry: o.DryRun, Deltas: o.Deltas, Attempt: seal.AttemptFromEnv()})
	if err != nil {
		return err
	}
	if o.JSON {
		return cmdline.WriteJSON(out, pruned)
	}
	for _, path := range pruned.Paths {
		fmt.Fprintln(out, path)
	}
	verb := "deleted"
	if o.DryRun {
		verb = "would delete"
	}
	fmt.Fprintf(out, "%s %d files and folders, %d bytes\n", verb, len(pruned.Paths), pruned.Bytes)
	if o.Deltas && !o.DryRun {
		fmt.Fprintf(out, "their deltas take %d bytes\n", pruned.DeltaBytes)
	}
	return nil
}

func (o PruneOptions) restore(ctx context.Context, out io.Writer, opened *rundir.Run) error {
	var versions []int
	for _, text := range o.Restore {
		version, err := parseVersion(text)
		if err != nil {
			return err
		}
		versions = append(versions, version)
	}
	restored, err := prune.Restore(ctx, opened, versions, seal.AttemptFromEnv())
	if err != nil {
		return err
	}
	for _, version := range restored.Now {
		fmt.Fprintf(os.Stderr, "lathe: rebuilt policy version %d from its delta\n", version)
	}
	if len(restored.Paths) > 0 {
		fmt.Fprintf(os.Stderr, "lathe: nothing is restored yet: %d files and folders are queued; to restore them: lathe run --run %s\n", len(restored.Paths), opened.Dir)
	}
	if o.JSON {
		return cmdline.WriteJSON(out, restored)
	}
	return nil
}

// parseVersion reads a policy version, written as a number or as its folder is
// called.
func parseVersion(text string) (int, error) {
	version, err := strconv.ParseUint(strings.TrimPrefix(text, "v"), 10, 31)
	if err != nil {
		return 0, exitcode.Usagef("--restore: got %q, want a policy version: its number, such as 3, or its name, such as v000003", text)
	}
	return int(version), nil
}

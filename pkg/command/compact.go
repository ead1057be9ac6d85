package command

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/compact"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// CompactOptions are those of lathe compact.
type CompactOptions struct {
	Run    string // folder
	Undo   bool   // put every shard back into a file of its own
	DryRun bool   // only say what would be done
	JSON   bool
}

func compactCommand() *cli.Command {
	var o CompactOptions
	return cmdline.Help{
		Example: "lathe compact runs/quickstart --dry-run",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "compact", Usage: "pack the small files of finished iterations", ArgsUsage: "RUN",
		Description: "Packs rollouts, scores and evaluations that no task still needs into Parquet files of up to 1,000\n" +
			"shards: 00000-00999.parquet and so on. Each shard keeps its bytes, its manifest and, for every\n" +
			"command, its path: replays stay exact, and a query over rollout/*.parquet returns the same rows.\n" +
			"It is safe to compact a run that is in progress.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "undo", Usage: "unpack: give every shard its own file again", Destination: &o.Undo},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be packed, change nothing", Destination: &o.DryRun},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Compact(c.Context, c.App.Writer, o) }),
	})
}

// Compact puts the shards of a run into packs, or takes them out.
func Compact(ctx context.Context, out io.Writer, o CompactOptions) error {
	if o.Undo && o.DryRun {
		return exitcode.Usagef("--undo and --dry-run exclude each other")
	}
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	var done compact.Compacted
	verb, change := "packed %s into %s: %s\n", "fewer file"
	switch {
	case o.Undo:
		verb, change = "unpacked %s from %s: %s\n", "more file"
		done, err = compact.Undo(ctx, opened, seal.AttemptFromEnv())
		done.Fewer = -done.Fewer
	default:
		if o.DryRun {
			verb = "would pack %s into %s: %s\n"
		}
		surveyor := survey.New(opened.Graph)
		found, errSurvey := surveyor.Survey(ctx)
		if errSurvey != nil {
			return errSurvey
		}
		done, err = compact.Compact(ctx, surveyor.Inventory, found.Done, o.DryRun, seal.AttemptFromEnv())
	}
	if err != nil {
		return err
	}
	if o.JSON {
		return cmdline.WriteJSON(out, done)
	}
	fmt.Fprintf(out, verb, plural.Count(done.Shards, "shard"), plural.Count(done.Packs, "file"), plural.Count(done.Fewer, change))
	return nil
}

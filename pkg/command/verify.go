package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// VerifyOptions are those of lathe verify.
type VerifyOptions struct {
	Run    string // folder
	JSON   bool
	Repair bool // remove what is damaged
}

func verifyCommand() *cli.Command {
	var o VerifyOptions
	return cmdline.Help{
		Example: "lathe verify runs/quickstart",
		Exits:   map[int]string{exitcode.Data: "a sealed file is damaged or missing; prints each with its fix", exitcode.Stopped: ""},
	}.Command(&cli.Command{
		Name: "verify", Usage: "check every sealed file of a run against its digest, and the ledger", ArgsUsage: "RUN",
		Flags: []cli.Flag{
			cmdline.JSONFlag(&o.JSON),
			&cli.BoolFlag{Name: "repair", Usage: "delete damaged files, so that lathe run rebuilds them", Destination: &o.Repair},
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Verify(c.Context, c.App.Writer, o) }),
	})
}

// Verify digests every sealed file of a run and checks its ledger.
func Verify(ctx context.Context, out io.Writer, o VerifyOptions) error {
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	result, err := verify.Verify(ctx, opened)
	if err != nil {
		return err
	}
	if o.JSON {
		if err := cmdline.WriteJSON(out, result); err != nil {
			return err
		}
	} else {
		printVerification(out, result)
	}
	if len(result.Faults) == 0 {
		return nil
	}
	if o.Repair {
		removed, err := verify.Repair(opened, result, seal.AttemptFromEnv())
		for _, path := range removed {
			fmt.Fprintf(os.Stderr, "lathe: deleted %s\n", path)
		}
		if err == nil {
			fmt.Fprintf(os.Stderr, "lathe: to rebuild missing files: lathe run --run %s\n", opened.Dir)
		}
		return err
	}
	first := result.Faults[0]
	return exitcode.WithHint(exitcode.Dataf("run %q has %s; the first: %s: %s", opened.Dir, plural.Count(len(result.Faults), "fault"), first.Path, first.Problem),
		"%s", first.Mend)
}

func printVerification(out io.Writer, v verify.Verification) {
	fmt.Fprintf(out, "%d sealed files and folders match, %d bytes\n", v.Files, v.Bytes)
	for _, f := range v.Faults {
		fmt.Fprintf(out, "%s: %s\n  fix: %s\n", f.Path, f.Problem, f.Mend)
	}
	fmt.Fprintf(out, "ledger: %d planned, %s, %d trained, %d pending", v.Ledger.Planned, plural.Count(v.Ledger.Segments, "segment"), v.Ledger.Trained, v.Ledger.Pending)
	if v.Ledger.Waiting > 0 {
		fmt.Fprintf(out, ", %s waiting for a batch", plural.Count(v.Ledger.Waiting, "segment"))
	}
	for _, reason := range slices.Sorted(maps.Keys(v.Ledger.Dropped)) {
		fmt.Fprintf(out, ", %d dropped (%s%s)", v.Ledger.Dropped[reason], reason, byEnvironment(v.Ledger.DroppedOf[reason]))
	}
	fmt.Fprintln(out)
	for _, line := range v.Lineage {
		fmt.Fprintln(out, line)
	}
}

// byEnvironment are counts by environment, after what they are of; nothing for none.
func byEnvironment(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	if parts == nil {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

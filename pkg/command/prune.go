package command

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/prune"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

func pruneCommand() *cli.Command {
	return &cli.Command{
		Name: "prune", Usage: "remove policies and optimizer states that nothing still to do reads", ArgsUsage: "RUN",
		Description: "Keeps the versions 0, N, 2N … and the last, and removes all others with their optimizer states,\n" +
			"checkpoints of the warm start, and gradients. Their manifests stay as NAME.pruned.json, and the run\n" +
			"makes them again, to the same bytes, when it needs them. schedule.keep_every does the same as a run\n" +
			"goes on. A run may be pruned while it goes on.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "keep-every", Usage: "keep every `N`-th policy version"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only say what would be removed"},
			&cli.StringSliceFlag{Name: "restore", Usage: "have the run make policy `VERSION`, such as 3 or v000003, again when it goes on, and keep it; may be repeated"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: pruneRun,
	}
}

func pruneRun(c *cli.Context) error {
	opened, err := openRun(c)
	if err != nil {
		return err
	}
	switch {
	case c.IsSet("keep-every") == c.IsSet("restore"):
		return exitcode.Usagef("give either --keep-every or --restore")
	case c.IsSet("restore"):
		return restore(c, opened)
	}
	surveyor := survey.New(opened.Graph)
	found, err := surveyor.Survey(c.Context)
	if err != nil {
		return err
	}
	pruned, err := prune.Prune(c.Context, surveyor.Inventory, found, c.Int("keep-every"), c.Bool("dry-run"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(stdout, pruned)
	}
	for _, path := range pruned.Paths {
		fmt.Fprintln(stdout, path)
	}
	verb := "removed"
	if c.Bool("dry-run") {
		verb = "would remove"
	}
	fmt.Fprintf(stdout, "%s %d files and folders, %d bytes\n", verb, len(pruned.Paths), pruned.Bytes)
	return nil
}

func restore(c *cli.Context, opened *rundir.Run) error {
	var versions []int
	for _, text := range c.StringSlice("restore") {
		version, err := parseVersion(text)
		if err != nil {
			return err
		}
		versions = append(versions, version)
	}
	restored, err := prune.Restore(opened, versions, seal.AttemptFromEnv())
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "lathe: to make it again: lathe run --run %s\n", opened.Dir)
	if c.Bool("json") {
		return writeJSON(stdout, restored)
	}
	return nil
}

// parseVersion reads a policy version, written as a number or as its folder is
// called.
func parseVersion(text string) (int, error) {
	version, err := strconv.ParseUint(strings.TrimPrefix(text, "v"), 10, 31)
	if err != nil {
		return 0, exitcode.Usagef("--restore %q is no policy version: give its number, such as 3, or its name, such as v000003", text)
	}
	return int(version), nil
}

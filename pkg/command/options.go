package command

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// RecipeOptions name a recipe.
type RecipeOptions struct {
	Recipe string   // its file
	Set    []string // changes of it, FIELD=VALUE, in their order
	Rates  string   // file of lathe policy bench --json, by which time limits are set; empty for none
}

func (o RecipeOptions) load() (*recipe.Resolved, error) {
	resolved, err := recipe.Load(o.Recipe, o.Set)
	if err != nil || o.Rates == "" {
		return resolved, err
	}
	rates, err := readRates(o.Rates)
	if err != nil {
		return nil, err
	}
	return recipe.Load(o.Recipe, append(rates.foretell(resolved.Recipe).settings(), o.Set...))
}

func setFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "set", Usage: "recipe setting `FIELD=VALUE`; may be repeated"}
}

func jsonFlag(to *bool) cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: to}
}

func threadsFlag(to *int) cli.Flag {
	return &cli.IntFlag{Name: "threads", Usage: "engine `THREADS`; 0 takes all", Destination: to}
}

// engineThreads is the number of threads that --threads asks for.
func engineThreads(threads int) (int, error) {
	if err := cmdline.AtLeast(0, "threads", threads); err != nil {
		return 0, err
	}
	if threads > 0 {
		return threads, nil
	}
	return runtime.GOMAXPROCS(0), nil
}

func dateFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "date", Usage: "`DATE` (2026-11-21) that the chat template's strftime_now tells; undefined otherwise", Destination: to}
}

// parseDate reads --date; the zero time when it is not given.
func parseDate(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	date, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return date, exitcode.Usagef("--date: %w", err)
	}
	return date, nil
}

// ownAttempt is who writes what a person named with --out: nothing else that is
// there is kept in its place, and nothing else is replaced.
func ownAttempt() seal.Attempt {
	attempt := seal.AttemptFromEnv()
	attempt.Guard = true
	return attempt
}

// checkOut refuses, before any work, outputs of a person's own that cannot be
// written. They are in the order in which they are sealed: one that is there
// without an earlier one would be found to have other contents only after the
// earlier one was sealed beside it.
func checkOut(kind seal.Kind, paths ...string) error {
	missing := ""
	for _, path := range paths {
		there, err := seal.CheckOutput(path, kind)
		switch {
		case err != nil:
			return err
		case !there && missing == "":
			missing = path
		case there && missing != "":
			return exitcode.WithHint(exitcode.Usagef("%q is there already, without %q that is made with it", path, missing),
				"name another --out, or remove %s and %s", path, seal.ManifestPath(path))
		}
	}
	return nil
}

// printSealed says what was sealed.
func printSealed(out io.Writer, m seal.Manifest, path string) error {
	_, err := fmt.Fprintln(out, path, m.SHA256)
	return err
}

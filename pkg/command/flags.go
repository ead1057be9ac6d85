package command

import (
	"runtime"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// exclusive refuses two flags that are given together and cannot both be meant.
func exclusive(c *cli.Context, pairs ...[2]string) error {
	for _, pair := range pairs {
		if c.IsSet(pair[0]) && c.IsSet(pair[1]) {
			return withHelp(c, exitcode.Usagef("--%s and --%s exclude each other", pair[0], pair[1]))
		}
	}
	return nil
}

// atLeast refuses numbers that are given and too small.
func atLeast(c *cli.Context, least int, names ...string) error {
	for _, name := range names {
		if c.IsSet(name) && c.Int(name) < least {
			return exitcode.Usagef("--%s is %d; it must be %d or more", name, c.Int(name), least)
		}
	}
	return nil
}

// threadsOf is the number of threads that --threads asks for.
func threadsOf(c *cli.Context) (int, error) {
	if err := atLeast(c, 0, "threads"); err != nil {
		return 0, err
	}
	if n := c.Int("threads"); n > 0 {
		return n, nil
	}
	return runtime.GOMAXPROCS(0), nil
}

// Of the flags of a task binary, taskOnly name a task of a run and eitherMode go
// with --recipe too. All others are for work on plain files.
var (
	taskOnly   = []string{"run", "evaluate", "gradient", "step", "warm"}
	eitherMode = []string{"recipe", "iteration", "shard", "threads"}
)

// oneMode refuses flags that would have no effect: a task binary works on a task
// of a run, or with --recipe on plain files.
func oneMode(c *cli.Context) error {
	plain := c.IsSet("recipe")
	for _, flag := range c.App.Flags {
		name := flag.Names()[0]
		if !c.IsSet(name) || slices.Contains(eitherMode, name) {
			continue
		}
		switch task := slices.Contains(taskOnly, name); {
		case task && plain:
			return withHelp(c, exitcode.Usagef("--%s is for a task of a run: it does not go with --recipe", name))
		case !task && !plain:
			return withHelp(c, exitcode.Usagef("--%s is for work on plain files: it needs --recipe", name))
		}
	}
	return nil
}

package command

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

func recipeMigrateCommand() *cli.Command {
	var path string
	var inPlace bool
	return cmdline.Help{Example: "lathe recipe migrate jobs/quickstart.yaml"}.Command(&cli.Command{
		Name: "migrate", Usage: "rewrite a recipe with the present names of its fields", ArgsUsage: "RECIPE",
		Description: "Comments and the order of fields stay. A file that base: names is rewritten by itself, after those that name it; " +
			"while one of its folder, or of two folders below, still has to be, --in-place refuses.",
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "in-place", Usage: "write the file itself rather than standard output", Destination: &inPlace}},
		Action: cmdline.Argument("RECIPE", &path, func(c *cli.Context) error { return RecipeMigrate(c.App.Writer, path, inPlace) }),
	})
}

// RecipeMigrate prints a recipe file with the present names of its fields, or writes
// the file itself.
func RecipeMigrate(out io.Writer, path string, inPlace bool) error {
	text, changed, err := recipe.Migrate(path)
	switch {
	case err != nil:
		return err
	case !inPlace:
		_, err = io.WriteString(out, text)
		return err
	case !changed:
		_, err = fmt.Fprintf(out, "%s is current: nothing to change\n", path)
		return err
	}
	before, err := recipe.ToMigrateBefore(path)
	if err != nil {
		return err
	}
	if len(before) > 0 {
		err := exitcode.Usagef("%s is a base of %s, which would take the old form of its fields for the present one", path, strings.Join(before, ", "))
		return exitcode.WithHint(err, "rewrite those first: lathe recipe migrate --in-place %s", before[0])
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), info.Mode().Perm()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is rewritten\n", path)
	return err
}

package command

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
)

func recipeShowCommand() *cli.Command {
	var o RecipeOptions
	return cmdline.Help{
		Example: "lathe recipe show jobs/quickstart.yaml --set rollout.shards=8",
	}.Command(&cli.Command{
		Name: "show", Usage: "print a recipe with every default written out", ArgsUsage: "RECIPE", Flags: []cli.Flag{cmdline.SetFlag(&o.Set)},
		Action: cmdline.Argument("RECIPE", &o.Recipe, func(c *cli.Context) error { return RecipeShow(c.App.Writer, o) }),
	})
}

// RecipeShow prints a recipe with every default written out.
func RecipeShow(out io.Writer, o RecipeOptions) error {
	resolved, err := o.load()
	if err != nil {
		return err
	}
	_, err = out.Write(resolved.YAML)
	return err
}

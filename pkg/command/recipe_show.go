package command

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
)

func recipeShowCommand() *cli.Command {
	return cmdline.Help{
		Example: "lathe recipe show jobs/quickstart.yaml --set rollout.shards=8",
	}.Command(&cli.Command{
		Name: "show", Usage: "print a recipe with every default written out", ArgsUsage: "RECIPE", Flags: []cli.Flag{cmdline.SetFlag()},
		Action: func(c *cli.Context) error {
			args, err := cmdline.Arguments(c, "RECIPE")
			if err != nil {
				return err
			}
			return RecipeShow(c.App.Writer, RecipeOptions{Recipe: args[0], Set: c.StringSlice("set")})
		},
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

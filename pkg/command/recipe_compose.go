package command

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// RecipeComposeOptions are those of lathe recipe compose.
type RecipeComposeOptions struct {
	RecipeOptions      // of no recipe: everything that can be chosen
	JSON          bool // rather than a table
}

func recipeComposeCommand() *cli.Command {
	var o RecipeComposeOptions
	return cmdline.Help{Example: "lathe recipe compose jobs/quickstart.yaml"}.Command(&cli.Command{
		Name: "compose", Usage: "print the choices of each axis, or a recipe's choices", ArgsUsage: "[RECIPE]",
		Flags:  []cli.Flag{cmdline.SetFlag(&o.Set), cmdline.JSONFlag(&o.JSON)},
		Action: cmdline.OptionalArgument(&o.Recipe, func(c *cli.Context) error { return RecipeCompose(c.App.Writer, o) }),
	})
}

// RecipeCompose prints the axes with what is registered for each, or with what
// a recipe chooses.
func RecipeCompose(out io.Writer, o RecipeComposeOptions) error {
	axes := recipe.Axes()
	if o.Recipe != "" {
		resolved, err := o.load()
		if err != nil {
			return err
		}
		axes = resolved.Recipe.Composition()
	} else if len(o.Set) > 0 {
		return cmdline.Misusef("--set requires RECIPE")
	}
	if o.JSON {
		return cmdline.WriteJSON(out, axes)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, axis := range axes {
		fmt.Fprintf(table, "%s\t\t%s (%s)\n", axis.Name, axis.Question, strings.Join(axis.Fields, ", "))
		for _, c := range axis.Choices {
			summary := c.Summary
			if c.Default && o.Recipe == "" {
				summary += " (default)"
			}
			fmt.Fprintf(table, "\t%s\t%s\n", c.Name, summary)
		}
	}
	return table.Flush()
}

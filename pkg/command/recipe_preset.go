package command

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
)

func recipePresetCommand() *cli.Command {
	var name string
	return cmdline.Help{Example: "lathe recipe preset dapo"}.Command(&cli.Command{
		Name: "preset", Usage: "print an objective preset, or list the presets", ArgsUsage: "[NAME]",
		Action: cmdline.OptionalArgument(&name, func(c *cli.Context) error {
			if name == "" {
				return RecipePresets(c.App.Writer)
			}
			return RecipePreset(c.App.Writer, name)
		}),
	})
}

// RecipePresets lists the objective presets, each with what it is.
func RecipePresets(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range preset.Axis.All() {
		fmt.Fprintf(table, "%s\t%s\n", p.Name, p.Summary)
	}
	return table.Flush()
}

// RecipePreset prints an objective preset with all its settings.
func RecipePreset(out io.Writer, name string) error {
	objective, err := preset.Lookup(name)
	if err != nil {
		return err
	}
	return cmdline.WriteJSON(out, objective)
}

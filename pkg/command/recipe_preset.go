package command

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/preset"
)

func recipePresetCommand() *cli.Command {
	return cmdline.Help{Example: "lathe recipe preset dapo"}.Command(&cli.Command{
		Name: "preset", Usage: "print an objective preset whole, or list the presets", ArgsUsage: "[NAME]",
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return RecipePresets(c.App.Writer)
			}
			args, err := cmdline.Arguments(c, "NAME")
			if err != nil {
				return err
			}
			return RecipePreset(c.App.Writer, args[0])
		},
	})
}

// RecipePresets lists the objective presets.
func RecipePresets(out io.Writer) error {
	for _, name := range preset.Names() {
		if _, err := fmt.Fprintln(out, name); err != nil {
			return err
		}
	}
	return nil
}

// RecipePreset prints an objective preset with all its settings.
func RecipePreset(out io.Writer, name string) error {
	objective, err := preset.Lookup(name)
	if err != nil {
		return err
	}
	return cmdline.WriteJSON(out, objective)
}

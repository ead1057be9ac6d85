package command

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

func recipeReferenceCommand() *cli.Command {
	return cmdline.Help{Example: "lathe recipe reference"}.Command(&cli.Command{
		Name: "reference", Usage: "print every field of a recipe with its type, default and meaning",
		Action: cmdline.NoArguments(func(c *cli.Context) error { return RecipeReference(c.App.Writer) }),
	})
}

// RecipeReference prints the page that explains every field of a recipe.
func RecipeReference(out io.Writer) error {
	_, err := io.WriteString(out, recipe.Reference())
	return err
}

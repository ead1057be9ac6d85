package command

import (
	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
)

func recipeCommand() *cli.Command {
	return cmdline.Help{Example: "lathe recipe show jobs/quickstart.yaml"}.Command(&cli.Command{
		Name: "recipe", Usage: "check recipes and print their settings",
		Subcommands: []*cli.Command{recipeShowCommand(), recipeReferenceCommand(), recipePresetCommand(), recipeComposeCommand(), recipeMigrateCommand()},
	})
}

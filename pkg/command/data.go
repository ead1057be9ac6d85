package command

import (
	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
)

func dataCommand() *cli.Command {
	return cmdline.Help{Example: "lathe data generate --kind add --level 2 --count 5"}.Command(&cli.Command{
		Name: "data", Usage: "generate problems, list task sets", Subcommands: []*cli.Command{dataGenerateCommand(), dataTasksCommand()},
	})
}

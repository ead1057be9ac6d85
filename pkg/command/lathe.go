// Package command holds the commands of lathe. Each has a file of its own: the
// options that it takes, the function of a context and those options that
// runs it, and the flags that fill the options. What the functions do
// lives in other packages; what the command lines have in common is package
// cmdline, and the binaries of tasks have their commands in package task.
package command

import (
	"context"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// Lathe is the operator's command.
func Lathe() *cli.App {
	app := cmdline.NewApp("lathe", "train language-model policies on a Slurm cluster or on one machine")
	cmdline.Group(app,
		runCommand(), advanceCommand(), statusCommand(), verifyCommand(), pruneCommand(), compactCommand(), replayCommand(), explainCommand(), samplesCommand(), exportCommand(),
		reportCommand(), gpuReportCommand(), poolCommand(), sweepCommand(), compareCommand(), reproduceCommand(), paperCommand(),
		pauseCommand(), cancelCommand(), logsCommand(), doctorCommand(), rehearseCommand(), simulateCommand(),
		evalCommand(),
		group("env", "try environments and rewards", "lathe env try jobs/own-reward.yaml --responses data/program/responses.jsonl", envTryCommand()),
		group("policy", "create, import, inspect, convert and sample policy folders", "lathe policy inspect --model runs/quickstart/policy/v000000",
			policyInitCommand(), policyImportCommand(), policyInspectCommand(), policyBenchCommand(), policyConvertCommand(), policyMergeCommand(), policyDiffCommand(),
			policyGenerateCommand(), policyRenderCommand(), policyLogprobsCommand(), policyTokenizeCommand()),
		group("data", "generate problems, list and import task sets", "lathe data generate --kind add --level 2 --count 5", dataGenerateCommand(), dataTasksCommand(), dataImportCommand()),
		group("recipe", "check recipes and print their settings", "lathe recipe show jobs/quickstart.yaml",
			recipeShowCommand(), recipeReferenceCommand(), recipePresetCommand(), recipeComposeCommand(), recipeMigrateCommand()),
	)
	return cmdline.Help{Example: "lathe run jobs/quickstart.yaml --run runs/first"}.App(app)
}

// group is a command of commands.
func group(name, usage, example string, commands ...*cli.Command) *cli.Command {
	return cmdline.Help{Example: example}.Command(&cli.Command{Name: name, Usage: usage, Subcommands: commands})
}

// openRun opens the run of a folder.
func openRun(ctx context.Context, folder string) (*rundir.Run, error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	return rundir.Open(ctx, graph.Dir(absolute))
}

package command

import (
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/stage"
)

func pathFlag(name, usage string, to *string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: to}
}

func planFlag(to *string) cli.Flag { return pathFlag("plan", "plan `FILE` of instances", to) }

func policyFlag(to *string) cli.Flag {
	return pathFlag("policy", "policy `FOLDER` in Hugging Face layout", to)
}

// plain is what work on plain files, without a run, needs.
type plain struct {
	job stage.Job
	env env.Env
}

// openPlain opens the environment of a recipe, for a program that works without
// a run.
func openPlain(program string, o RecipeOptions, threads int) (*plain, error) {
	threads, err := engineThreads(threads)
	if err != nil {
		return nil, err
	}
	resolved, err := o.load()
	if err != nil {
		return nil, err
	}
	environment, err := resolved.Recipe.NewEnv(filepath.Dir(resolved.Path))
	if err != nil {
		return nil, err
	}
	if threaded, ok := environment.(env.Threaded); ok {
		threaded.UseThreads(threads)
	}
	return &plain{
		job: stage.Job{
			Recipe: resolved.Recipe, RecipeSHA256: resolved.SHA256, Attempt: ownAttempt(), BinaryVersion: Version,
			Files:   stage.Files{Cite: filepath.ToSlash, Plain: true},
			Process: stage.Process{Threads: threads, Log: cmdline.Log(program)},
		},
		env: environment,
	}, nil
}

// checkNumbers refuses an iteration or a shard of plain files that cannot be.
func (o TaskOptions) checkNumbers() error {
	if o.Iteration != nil {
		if err := cmdline.AtLeast(1, "iteration", *o.Iteration); err != nil {
			return err
		}
	}
	return cmdline.AtLeast(0, "shard", o.Shard)
}

// plainIteration is the iteration that plain files are taken for, or least.
func (o TaskOptions) plainIteration(least int) int {
	if o.Iteration == nil {
		return least
	}
	return *o.Iteration
}

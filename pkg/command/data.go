package command

import (
	"bytes"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/env/math/generate"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/preset"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
)

func dataCommand() *cli.Command {
	return &cli.Command{
		Name: "data", Usage: "make task sets",
		Subcommands: []*cli.Command{{
			Name: "generate", Usage: "write seeded arithmetic problems as JSONL: {id, kind, level, question, answer}",
			Flags: []cli.Flag{
				&cli.StringSliceFlag{Name: "kind", Usage: fmt.Sprintf("`KIND` of problem, one of %v; may be repeated", generate.Kinds()), Value: cli.NewStringSlice("add")},
				&cli.IntSliceFlag{Name: "level", Usage: "`LEVEL` of difficulty; may be repeated", Value: cli.NewIntSlice(1)},
				&cli.IntFlag{Name: "count", Usage: "number of problems", Value: 1000},
				&cli.Float64Flag{Name: "test-share", Usage: "share of the problem space that is held out", Value: 0.2},
				&cli.StringFlag{Name: "split", Usage: "train or test", Value: "train"},
				&cli.Uint64Flag{Name: "seed", Value: 1},
				&cli.StringFlag{Name: "out", Usage: "`FILE` to write and seal; standard output when left out"},
			},
			Action: generateData,
		}},
	}
}

func generateData(c *cli.Context) error {
	if _, err := arguments(c); err != nil {
		return err
	}
	split := env.Split(c.String("split"))
	if split != env.Train && split != env.Test {
		return exitcode.Usagef("--split %q is not train or test", split)
	}
	tasks, err := generate.Tasks(recipe.Generate{
		Kinds: c.StringSlice("kind"), Levels: c.IntSlice("level"), Count: c.Int("count"), TestShare: c.Float64("test-share"),
	}, split, c.Uint64("seed"))
	if err != nil {
		return err
	}
	if c.String("out") == "" {
		return dataset.Write(stdout, tasks)
	}
	if err := checkOut(seal.KindFile, c.String("out")); err != nil {
		return err
	}
	var content bytes.Buffer
	if err := dataset.Write(&content, tasks); err != nil {
		return err
	}
	m, err := seal.WriteBytes(c.String("out"), content.Bytes(), ownAttempt(), seal.Manifest{
		Stage: "data", PolicyVersion: -1, Seed: c.Uint64("seed"), Rows: int64(len(tasks)), BinaryVersion: Version, Started: time.Now(),
	})
	return sealed(m, c.String("out"), err)
}

func recipeCommand() *cli.Command {
	set := &cli.StringSliceFlag{Name: "set", Usage: "recipe setting `FIELD=VALUE`; may be repeated"}
	return &cli.Command{
		Name: "recipe", Usage: "check recipes and show what they mean",
		Subcommands: []*cli.Command{
			{
				Name: "show", Usage: "print a recipe as resolved, every default written out", ArgsUsage: "RECIPE", Flags: []cli.Flag{set},
				Action: func(c *cli.Context) error {
					args, err := arguments(c, "RECIPE")
					if err != nil {
						return err
					}
					resolved, err := recipe.Load(args[0], c.StringSlice("set"))
					if err != nil {
						return err
					}
					_, err = stdout.Write(resolved.YAML)
					return err
				},
			},
			{
				Name: "reference", Usage: "print every field of a recipe with its type, default and meaning",
				Action: func(c *cli.Context) error {
					if _, err := arguments(c); err != nil {
						return err
					}
					_, err := fmt.Fprint(stdout, recipe.Reference())
					return err
				},
			},
			{
				Name: "preset", Usage: "print an objective preset whole, or list the presets", ArgsUsage: "[NAME]",
				Action: func(c *cli.Context) error {
					if c.NArg() == 0 {
						for _, name := range preset.Names() {
							fmt.Fprintln(stdout, name)
						}
						return nil
					}
					args, err := arguments(c, "NAME")
					if err != nil {
						return err
					}
					objective, err := preset.Lookup(args[0])
					if err != nil {
						return err
					}
					return writeJSON(stdout, objective)
				},
			},
		},
	}
}

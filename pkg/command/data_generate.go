package command

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/env/math/generate"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// DataGenerateOptions are those of lathe data generate.
type DataGenerateOptions struct {
	Problems generate.Settings
	Split    env.Split
	Seed     uint64
	Out      string // file to write and seal; empty prints
}

func dataGenerateCommand() *cli.Command {
	var o DataGenerateOptions
	var split string
	return cmdline.Help{
		Example: "lathe data generate --kind add --kind linear --level 1 --level 2 --count 100 --out runs/problems.jsonl",
		Exits:   map[int]string{},
	}.Command(&cli.Command{
		Name: "generate", Usage: "write seeded arithmetic problems as JSONL: {id, kind, level, question, answer}",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "kind", Usage: fmt.Sprintf("`KIND` of problem, one of %v; may be repeated", generate.Kinds()), Value: cli.NewStringSlice("add")},
			&cli.IntSliceFlag{Name: "level", Usage: "`LEVEL` of difficulty; may be repeated", Value: cli.NewIntSlice(1)},
			&cli.IntFlag{Name: "count", Usage: "number of problems", Value: 1000, Destination: &o.Problems.Count},
			&cli.Float64Flag{Name: "test-share", Usage: "share of the problem space that is held out", Value: 0.2, Destination: &o.Problems.TestShare},
			&cli.StringFlag{Name: "split", Usage: "train or test", Value: "train", Destination: &split},
			&cli.Uint64Flag{Name: "seed", Usage: "of the problems", Value: 1, Destination: &o.Seed},
			&cli.StringFlag{Name: "out", Usage: "`FILE` to write and seal; standard output when left out", Destination: &o.Out},
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error {
			o.Problems.Kinds, o.Problems.Levels, o.Split = c.StringSlice("kind"), c.IntSlice("level"), env.Split(split)
			return DataGenerate(c.App.Writer, o)
		}),
	})
}

// DataGenerate writes seeded problems as JSONL.
func DataGenerate(out io.Writer, o DataGenerateOptions) error {
	if o.Split != env.Train && o.Split != env.Test {
		return exitcode.Usagef("--split %q is not train or test", o.Split)
	}
	tasks, err := generate.Tasks(o.Problems, o.Split, o.Seed)
	if err != nil {
		return err
	}
	if o.Out == "" {
		return dataset.Write(out, tasks)
	}
	if err := checkOut(seal.KindFile, o.Out); err != nil {
		return err
	}
	var content bytes.Buffer
	if err := dataset.Write(&content, tasks); err != nil {
		return err
	}
	m, err := seal.WriteBytes(o.Out, content.Bytes(), ownAttempt(), seal.Manifest{
		Stage: "data", PolicyVersion: -1, Seed: o.Seed, Rows: int64(len(tasks)), BinaryVersion: Version, Started: time.Now(),
	})
	if err != nil {
		return err
	}
	return printSealed(out, m, o.Out)
}

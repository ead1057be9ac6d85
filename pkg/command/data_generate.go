package command

import (
	"bytes"
	"cmp"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// DataGenerateOptions are those of lathe data generate.
type DataGenerateOptions struct {
	Env      string // environment whose generator makes problems; empty for the default one
	Settings any    // of the generator; nil for the defaults
	Split    env.Split
	Seed     uint64
	Out      string // file to write and seal; empty prints
}

// generators are the environments that have a generator, by name.
func generators() (names []string, byName map[string]*env.Generator) {
	return env.Having(func(m env.Setup) *env.Generator { return m.Generator })
}

func dataGenerateCommand() *cli.Command {
	var o DataGenerateOptions
	var split string
	var summaries []string
	var flags []cli.Flag
	settings := map[string]any{}
	names, byName := generators()
	for _, name := range names {
		about := ""
		if len(names) > 1 {
			about = name + ": "
		}
		settings[name] = byName[name].Settings()
		flags = append(flags, cmdline.SettingFlags(settings[name], about)...)
		summaries = append(summaries, about+byName[name].Summary)
	}
	return cmdline.Help{
		Example: "lathe data generate --kind add --kind linear --level 1 --level 2 --count 100 --out runs/problems.jsonl",
		Exits:   map[int]string{},
	}.Command(&cli.Command{
		Name: "generate", Usage: "write " + strings.Join(summaries, "; "),
		Flags: append(flags,
			&cli.StringFlag{Name: "env", Usage: "generate problems of `ENVIRONMENT`: " + strings.Join(names, " or "), Value: env.Axis.Default(), Destination: &o.Env},
			&cli.StringFlag{Name: "split", Usage: "train or test", Value: "train", Destination: &split},
			&cli.Uint64Flag{Name: "seed", Usage: "seed of the problems", Value: 1, Destination: &o.Seed},
			&cli.StringFlag{Name: "out", Usage: "write and seal `FILE`; default: standard output", Destination: &o.Out},
		),
		Action: cmdline.NoArguments(func(c *cli.Context) error {
			o.Settings, o.Split = settings[o.Env], env.Split(split)
			return DataGenerate(c.App.Writer, o)
		}),
	})
}

// DataGenerate writes seeded problems as JSONL.
func DataGenerate(out io.Writer, o DataGenerateOptions) error {
	if o.Split != env.Train && o.Split != env.Test {
		return exitcode.Usagef("--split: got %q, want train or test", o.Split)
	}
	o.Env = cmp.Or(o.Env, env.Axis.Default())
	names, byName := generators()
	generator, ok := byName[o.Env]
	if !ok {
		return exitcode.Usagef("--env: got %q, want one of %s", o.Env, strings.Join(names, ", "))
	}
	if o.Settings == nil {
		o.Settings = generator.Settings()
	}
	tasks, err := generator.Tasks(o.Settings, o.Split, o.Seed)
	if err != nil {
		return err
	}
	if o.Out == "" {
		return generator.Write(out, tasks)
	}
	if err := plain.CheckOut(seal.KindFile, o.Out); err != nil {
		return err
	}
	var content bytes.Buffer
	if err := generator.Write(&content, tasks); err != nil {
		return err
	}
	m, err := seal.WriteBytes(o.Out, content.Bytes(), plain.Attempt(), seal.Manifest{
		Stage: "data", PolicyVersion: -1, Seed: o.Seed, Rows: int64(len(tasks)), BinaryVersion: cmdline.Version, Started: time.Now(),
	})
	if err != nil {
		return err
	}
	return plain.PrintSealed(out, m, o.Out)
}

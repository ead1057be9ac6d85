package command

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/pool"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// PoolOptions are those of lathe pool.
type PoolOptions struct {
	Runs   []string // folders
	Select string   // all, valid or selected
	Out    string   // file to write and seal
	JSON   bool
}

// pooled is what lathe pool prints.
type pooled struct {
	Out    string          `json:"out"`
	SHA256 string          `json:"sha256"`
	Select string          `json:"select"`
	Rows   int             `json:"rows"`
	Runs   []pool.RunCount `json:"runs"`
}

func poolCommand() *cli.Command {
	var o PoolOptions
	return cmdline.Help{
		Example: "lathe pool runs/first runs/second --select selected --out runs/pool.parquet",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "pool", Usage: "collect responses of runs into a file to train a warm start on (warm_start.pool)", ArgsUsage: "RUN...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "select", Usage: "which `SEGMENTS`: all, valid (the last turn is ok) or selected (the run trained on them, with any sign of the advantage)", Value: string(pool.Selected), Destination: &o.Select},
			&cli.StringFlag{Name: "out", Usage: "write and seal `FILE`", Destination: &o.Out},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: func(c *cli.Context) error {
			if o.Runs = c.Args().Slice(); len(o.Runs) == 0 {
				return exitcode.Usagef("RUN is missing")
			}
			return Pool(c.Context, c.App.Writer, o)
		},
	})
}

// Pool gathers segments of runs into a file.
func Pool(ctx context.Context, out io.Writer, o PoolOptions) error {
	started := time.Now()
	if err := cmdline.Required("out", o.Out); err != nil {
		return err
	}
	if err := plain.CheckOut(seal.KindFile, o.Out); err != nil {
		return err
	}
	gathered, m, err := pooling(ctx, o, started)
	if err != nil {
		return err
	}
	if o.JSON {
		return cmdline.WriteJSON(out, pooled{Out: o.Out, SHA256: m.SHA256, Select: o.Select, Rows: len(gathered.Rows), Runs: gathered.Runs})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range gathered.Runs {
		fmt.Fprintf(table, "%s\t%d of %s\t%s\n", r.RunID, r.Kept, plural.Count(r.Segments, "segment"), plural.Count(r.Tokens, "token"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return plain.PrintSealed(out, m, o.Out)
}

// pooling gathers segments and seals them.
func pooling(ctx context.Context, o PoolOptions, started time.Time) (gathered pool.Pool, m seal.Manifest, err error) {
	var runs []*rundir.Run
	for _, folder := range o.Runs {
		opened, err := openRun(ctx, folder)
		if err != nil {
			return gathered, m, err
		}
		runs = append(runs, opened)
	}
	if gathered, err = pool.Gather(ctx, runs, pool.Selection(o.Select)); err != nil {
		return gathered, m, err
	}
	m = seal.Manifest{Stage: "pool", PolicyVersion: -1, BinaryVersion: cmdline.Version, Started: started}
	if err := m.Note("runs", gathered.Runs); err != nil {
		return gathered, m, err
	}
	meta := map[string]string{shard.PoolTokenizer: gathered.Tokenizer, shard.PoolSelect: o.Select}
	m, err = shard.Write(o.Out, gathered.Rows, meta, plain.Attempt(), m)
	return gathered, m, err
}

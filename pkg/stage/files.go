package stage

import (
	"context"
	"errors"
	"slices"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Files is how a stage reads its inputs.
type Files struct {
	Cite    func(string) string // how a manifest names an input file
	Reading seal.Options        // how patient to be with files of other nodes
	Plain   bool                // inputs may be unsealed files of a person's own
}

// WaveRef names what one wave of a shard of traces holds.
type WaveRef struct{ Rollout, Score string }

// Lost adds to the error of a rollout of an earlier iteration that is gone how to get it
// back: no task needed it until now.
func (f Files) Lost(err error) error {
	if errors.Is(err, seal.ErrNotSealed) && !f.Plain {
		return exitcode.WithHint(err, "lathe verify --repair RUN, then the command that made the run: it is made again")
	}
	return err
}

// Citing is a manifest with inputs before its own.
func Citing(m seal.Manifest, inputs []seal.Input) seal.Manifest {
	m.Inputs = slices.Concat(inputs, m.Inputs)
	return m
}

// ReadTable reads the rows of an input. Among plain files a table without a
// manifest is taken as it is.
func ReadTable[T shard.Row](ctx context.Context, f Files, path string) ([]T, seal.Input, error) {
	defer phase.Enter(phase.Load)()
	rows, m, err := shard.Read[T](ctx, path, f.Reading)
	if f.Plain && errors.Is(err, seal.ErrNotSealed) {
		rows, err = shard.ReadForeign[T](ctx, path)
		return rows, seal.Input{Path: f.Cite(path)}, err
	}
	return rows, f.Input(path, m), err
}

// ReadPart is [ReadTable] of the rows from first to the one before last, of which there
// must be so many.
func ReadPart[T shard.Row](ctx context.Context, f Files, path string, first, last int) ([]T, seal.Input, error) {
	defer phase.Enter(phase.Load)()
	rows, m, err := shard.ReadPart[T](ctx, path, first, last, f.Reading)
	there := int(m.Rows)
	if f.Plain && errors.Is(err, seal.ErrNotSealed) {
		rows, err = shard.ReadForeign[T](ctx, path)
		there = len(rows)
		rows = rows[min(first, there):min(last, there)]
	}
	if err == nil && (last > there || first > last) {
		err = exitcode.Dataf("%q has %d rows; rows %d to %d are wanted", path, there, first, last)
	}
	if m.Name == "" { // not sealed
		return rows, seal.Input{Path: f.Cite(path)}, err
	}
	return rows, f.Input(path, m), err
}

// Input cites a sealed file that a stage has read.
func (f Files) Input(path string, m seal.Manifest) seal.Input {
	return seal.Input{Path: f.Cite(path), ContentSHA256: m.ContentSHA256}
}

// VerifyPolicy digests a sealed policy folder and, if it is an adapter, what it
// adapts, and cites both.
func (f Files) VerifyPolicy(ctx context.Context, folder string) ([]seal.Input, error) {
	cited, err := f.Verify(ctx, folder)
	if err != nil {
		return nil, err
	}
	adapted, err := checkpoint.IsAdapter(folder)
	if err != nil || !adapted {
		return []seal.Input{cited}, err
	}
	base, err := checkpoint.AdapterBase(folder)
	if err != nil {
		return nil, err
	}
	citedBase, err := f.Verify(ctx, base)
	return []seal.Input{cited, citedBase}, err
}

// Verify digests a sealed input and cites it.
func (f Files) Verify(ctx context.Context, path string) (seal.Input, error) {
	defer phase.Enter(phase.Load)()
	m, err := seal.Verify(ctx, path, f.Reading)
	if f.Plain && errors.Is(err, seal.ErrNotSealed) {
		return seal.Input{Path: f.Cite(path)}, nil
	}
	if err != nil {
		return seal.Input{}, err
	}
	return f.Input(path, m), nil
}

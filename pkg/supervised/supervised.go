// Package supervised reads files of one's own to learn from: conversations, prompts with
// completions, instructions with outputs, in the forms in which they are published.
package supervised

import (
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Example is a conversation that ends in an answer.
type Example struct {
	File     string
	Row      int // from 1
	Messages []shard.Message
	Given    int // messages before the completion; 0 where every answer is one
}

// Where names the row in an error.
func (e Example) Where() string { return fmt.Sprintf("%s:%d", e.File, e.Row) }

// Data is what the files hold.
type Data struct {
	Train, Test []Example
	Inputs      []env.Input // the files
}

const where = "warm_start.data"

// Read reads the files of a recipe that lies in a folder. The rows that are held out are
// drawn by the seed.
func Read(s Settings, folder string, seed uint64) (Data, error) {
	var d Data
	var err error
	if d.Train, err = d.read(s, s.Files, folder); err != nil {
		return d, err
	}
	if d.Test, err = d.read(s, s.TestFiles, folder); err != nil {
		return d, err
	}
	if s.TestShare == 0 {
		return d, nil
	}
	n := int(math.Round(s.TestShare * float64(len(d.Train))))
	if n == 0 || n == len(d.Train) {
		return d, exitcode.Dataf("%s.test_share %v holds out %d of %d rows: change it, or add rows", where, s.TestShare, n, len(d.Train))
	}
	held := rng.New(seed, rng.PurposeWarmStart, 0, "held-out rows", 0).Permutation(0, len(d.Train))[:n]
	slices.Sort(held)
	all := d.Train
	d.Train = nil
	for i, e := range all {
		if _, out := slices.BinarySearch(held, i); out {
			d.Test = append(d.Test, e)
		} else {
			d.Train = append(d.Train, e)
		}
	}
	return d, nil
}

func (d *Data) read(s Settings, files []string, folder string) ([]Example, error) {
	paths, err := config.ResolvePaths(files, folder)
	if err != nil {
		return nil, fmt.Errorf("%s.files: %w", where, err)
	}
	var examples []Example
	for _, path := range paths {
		lines, inputs, err := dataset.ReadLines(path, where)
		if err != nil {
			return nil, err
		}
		d.Inputs = append(d.Inputs, inputs...)
		for _, line := range lines {
			e, fault := s.example(line.Columns)
			if fault != "" {
				return nil, exitcode.Dataf("%s:%d: %s", path, line.Number, fault)
			}
			e.File, e.Row = path, line.Number
			examples = append(examples, e)
		}
	}
	return examples, nil
}

package tooluse

import (
	"cmp"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// stratify cuts problems into two halves in which every number of user turns
// and every set of classes is about as frequent (ExIt §5):
// within each such stratum the problems are put into an order drawn by the
// stream, and down all strata they fall to the halves in turn. Each half is in
// the order of the problems.
func stratify(problems []problem, stream rng.Stream) map[env.Split][]problem {
	order := stream.Permutation(0, len(problems))
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := problems[a], problems[b]
		return cmp.Or(cmp.Compare(len(x.turns), len(y.turns)), cmp.Compare(x.kind, y.kind))
	})
	held := make([]bool, len(problems))
	for i, at := range order {
		held[at] = i%2 == 1
	}
	halves := map[env.Split][]problem{}
	for i, p := range problems {
		split := env.Train
		if held[i] {
			split = env.Test
		}
		halves[split] = append(halves[split], p)
	}
	return halves
}

// readHalves takes the halves that a file names, in the order of the problems.
// Problems that it does not name are in neither.
func readHalves(path string, problems []problem) (map[env.Split][]problem, error) {
	text, err := plainfile.Read(path, plainfile.MaxDocument)
	if err != nil {
		return nil, exitcode.Dataf("reading the halves of the tasks: %w", err)
	}
	var file struct {
		Note  string   `json:"note"` // for whoever reads it
		Train []string `json:"train"`
		Test  []string `json:"test"`
	}
	if err := plainjson.Strict(text, &file); err != nil {
		return nil, exitcode.Dataf("%s: %w", path, err)
	}
	halves := map[env.Split][]problem{}
	named := map[string]env.Split{}
	for _, half := range []struct {
		split env.Split
		ids   []string
	}{{env.Train, file.Train}, {env.Test, file.Test}} {
		for _, id := range half.ids {
			if _, twice := named[id]; twice {
				return nil, exitcode.Dataf("%s names the task %q twice", path, id)
			}
			named[id] = half.split
		}
	}
	for _, p := range problems {
		if split, has := named[p.id]; has {
			halves[split] = append(halves[split], p)
			delete(named, p.id)
		}
	}
	for _, ids := range [][]string{file.Train, file.Test} {
		for _, id := range ids {
			if _, left := named[id]; left {
				return nil, exitcode.Dataf("%s names the task %q, which there is not", path, id)
			}
		}
	}
	return halves, nil
}

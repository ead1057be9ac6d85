// Package compact puts the many small files of finished iterations into few.
//
// An array of ten thousand tasks leaves forty thousand names of rollouts and scores in
// its iteration, and shared file systems bound names and answer slowly where there are
// many. What nothing waits for any more is put into packs of up to a thousand shards
// (see [shard.Compact]). Shards keep their bytes, their manifests and their paths: every
// reader finds them, replays are as exact as before, and a query over rollout/*.parquet
// sees the same rows. The logs of their tasks are joined, a file for each array.
package compact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/logs"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Compacted is what a compaction did, or would.
type Compacted struct {
	Shards int `json:"shards"` // sealed files that were put into packs
	Packs  int `json:"packs"`
	Fewer  int `json:"files_fewer"` // than before, manifests and logs counted
}

// Compact compacts the rollouts, scores and evaluations of a run that no task waits for
// and of which no shard is still to come. It may be called while the run goes on. A dry
// run only says what would be compacted.
func Compact(ctx context.Context, v *survey.Inventory, finished, dry bool, a seal.Attempt) (Compacted, error) {
	var result Compacted
	if !dry {
		release, err := lock(ctx, v.Dir)
		if err != nil {
			return result, err
		}
		defer release()
	}
	said, err := logs.Loose(v.Dir)
	if err != nil {
		return result, err
	}
	for _, n := range v.Nodes() {
		if !n.OfTraces() && n.Stage != graph.StageEvaluate {
			continue
		}
		packs, err := loose(folder(v.Graph, n))
		if err != nil {
			return result, fmt.Errorf("compacting %s: %w", n, err)
		}
		if len(packs) == 0 && len(said[n]) < 2 {
			continue
		}
		if due, err := due(ctx, v, n, finished); err != nil {
			return result, err
		} else if !due {
			continue
		}
		for _, pack := range slices.Sorted(maps.Keys(packs)) {
			if err := one(ctx, pack, packs[pack], dry, a, &result); err != nil {
				return result, fmt.Errorf("compacting %s: %w", n, err)
			}
		}
		if len(said[n]) > 1 {
			fewer, err := logs.Join(v.Dir, n, said[n], dry, a)
			if err != nil {
				return result, fmt.Errorf("compacting %s: %w", n, err)
			}
			result.Fewer += fewer
		}
		if !dry {
			v.Forget(n)
		}
	}
	return result, ctx.Err()
}

// Undo puts every shard and every log of a run back into a file of its own.
func Undo(ctx context.Context, r *rundir.Run, a seal.Attempt) (Compacted, error) {
	var result Compacted
	release, err := lock(ctx, r.Dir)
	if err != nil {
		return result, err
	}
	defer release()
	err = rundir.Walk(ctx, r.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !seal.IsPack(path) {
			return err
		}
		shards, err := seal.Packed(ctx, path)
		if err != nil {
			return err
		}
		if dropped, err := seal.Unpack(ctx, path, a); err != nil {
			return err
		} else if len(dropped) > 0 {
			return exitcode.WithHint(exitcode.Dataf("unpacking %q: damaged and left out: %s", path, strings.Join(dropped, ", ")), "lathe verify --repair %s, then the command that made the run: they are made again", r.Dir)
		}
		result.Shards += len(shards)
		result.Packs++
		result.Fewer -= 2*len(shards) - 2
		return nil
	})
	if err != nil {
		return result, err
	}
	more, err := logs.Split(r.Dir, a)
	result.Fewer -= more
	return result, err
}

// folder is where the shards of a node lie.
func folder(g graph.Graph, n graph.Node) string {
	return filepath.Dir(g.Outputs(graph.Task{Node: n})[0])
}

// loose are the shards in a folder that lie by themselves, by their pack, in order.
func loose(folder string) (map[string][]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	packs := map[string][]string{}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		if pack, ok := seal.PackOf(path); ok {
			packs[pack] = append(packs[pack], path)
		}
	}
	return packs, err
}

// due reports whether whoever reads the shards of a node first has done so, and no shard
// is still to come: all are there, or the run is finished.
func due(ctx context.Context, v *survey.Inventory, n graph.Node, finished bool) (bool, error) {
	reader := graph.Task{Node: v.LastLearn(n.Iteration)}
	if n.HeldOut() {
		reader = graph.Task{Node: graph.Node{Stage: graph.StageEvaluate, Iteration: n.Iteration}}
	}
	for reader.Shard = range v.Shards(reader.Node) {
		if made, err := v.Made(ctx, reader); err != nil || !made {
			return false, err
		}
	}
	for shard := 0; !finished && shard < v.Shards(n); shard++ {
		t := graph.Task{Node: n, Shard: shard}
		if exists, err := v.Exists(ctx, t); err != nil {
			return false, err
		} else if !exists {
			continue
		}
		if sealed, err := v.Sealed(ctx, t); err != nil || !sealed {
			return false, err
		}
	}
	return true, nil
}

// one compacts the loose shards of a pack.
func one(ctx context.Context, pack string, paths []string, dry bool, a seal.Attempt, result *Compacted) error {
	_, before, err := seal.Check(ctx, pack, seal.Options{})
	if err != nil {
		return err
	}
	if !before { // what is not sealed is somebody's work
		paths = slices.DeleteFunc(paths, func(path string) bool {
			_, sealed, errCheck := seal.Check(ctx, path, seal.Options{})
			err = errors.Join(err, errCheck)
			return !sealed
		})
		if err != nil || len(paths) < 2 { // one would take as many names as before
			return err
		}
	}
	if !dry {
		if _, err := shard.Compact(ctx, paths, a); err != nil {
			return err
		}
	}
	if !before {
		result.Packs++
		result.Shards += len(paths)
		result.Fewer += 2*len(paths) - 2
	}
	return nil
}

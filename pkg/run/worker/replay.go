package worker

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Replayed is the comparison of one output that a stage made again.
type Replayed struct {
	Path   string `json:"path"` // relative to the run
	Sealed string `json:"sealed_content_sha256"`
	Now    string `json:"replayed_content_sha256"`
	Same   bool   `json:"same"`
	// Measured says that it is the same but for columns that hold measured times,
	// which another try cannot have the same.
	Measured bool `json:"measured,omitempty"`
	// Remote says that what a server said is in it, which nobody can make say the
	// same again: it was not run, and its bytes are as they were sealed.
	Remote bool `json:"remote,omitempty"`
}

// remote reports whether a task asks a server.
func (w *Worker) remote(t graph.Task) bool {
	r := w.Run.Recipe
	return r.Rollout.Remote != nil && t.Samples() || r.Score.Embedding == recipe.EmbeddingEndpoint && t.Stage == graph.StageScore
}

// Replay runs tasks again, from the sealed files that they read, into
// a temporary folder, and compares the content of every output with what is
// sealed, or was until it was pruned.
func Replay(ctx context.Context, w *Worker, tasks []graph.Task) ([]Replayed, error) {
	scratch, err := os.MkdirTemp("", "lathe-replay-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	again := *w
	again.Output = graph.Dir(scratch)
	var results []Replayed
	for _, t := range tasks {
		was := w.Run.Graph.Outputs(t)
		output := w.Run.Graph
		output.Dir = again.Output
		now := output.Outputs(t)
		sealed := make([]seal.Manifest, len(was))
		for i, path := range was {
			if sealed[i], err = once(ctx, t, path); err != nil {
				return nil, err
			}
		}
		if w.remote(t) {
			for i, path := range was {
				results = append(results, Replayed{Path: w.Run.Dir.Rel(path), Sealed: sealed[i].ContentSHA256, Remote: true})
			}
			continue
		}
		if err := again.Do(ctx, t); err != nil {
			return nil, fmt.Errorf("replaying %s: %w", t, restorable(w.Run, t, err))
		}
		for i, path := range now {
			m, err := seal.Verify(ctx, path, seal.Options{})
			if err != nil {
				return nil, err
			}
			result := Replayed{
				Path: w.Run.Dir.Rel(was[i]), Sealed: sealed[i].ContentSHA256, Now: m.ContentSHA256,
				Same: sealed[i].ContentSHA256 == m.ContentSHA256,
			}
			if !result.Same && t.Judges() {
				if result.Measured, err = sameButMeasured(ctx, was[i], path); err != nil {
					return nil, err
				}
				result.Same = result.Measured
			}
			results = append(results, result)
		}
	}
	return results, nil
}

// sameButMeasured compares two score files but for their measured columns.
func sameButMeasured(ctx context.Context, was, now string) (bool, error) {
	var digests [2]string
	for i, path := range []string{was, now} {
		rows, _, err := shard.Read[shard.Score](ctx, path, seal.Options{})
		if err != nil {
			return false, err
		}
		digests[i], _ = shard.ReplayDigest(rows)
	}
	return digests[0] == digests[1], nil
}

// once is the manifest of what a task sealed. What has been pruned since can
// still be compared with.
func once(ctx context.Context, t graph.Task, path string) (seal.Manifest, error) {
	m, err := seal.Verify(ctx, path, seal.Options{})
	if errors.Is(err, seal.ErrNotSealed) {
		m, err = seal.Record(ctx, path)
	}
	if errors.Is(err, seal.ErrNotSealed) {
		err = exitcode.WithHint(err, "there is nothing to compare with: %s has not been done", t)
	}
	return m, err
}

// restorable says what to do about a task that fails since what it reads was
// pruned.
func restorable(r *rundir.Run, t graph.Task, err error) error {
	if !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	for _, n := range r.Graph.Needs(t.Node) {
		for shard := range r.Graph.Shards(n) {
			for _, path := range r.Graph.Outputs(graph.Task{Node: n, Shard: shard}) {
				switch {
				case there(seal.ManifestPath(path)) || !there(seal.PrunedPath(path)):
				case n == r.Graph.LastLearn(n.Iteration):
					return pruned(r, path, err, fmt.Sprintf("lathe prune %s --restore %d, then lathe run --run %s, make it again", r.Dir, n.Iteration, r.Dir))
				default:
					return pruned(r, path, err, "only whole policy versions can be restored: replay a stage of an iteration whose inputs are there")
				}
			}
		}
	}
	return err
}

// pruned is the error of a task that reads what was pruned, in the place of one that lists
// what else lies in the folder.
func pruned(r *rundir.Run, path string, err error, hint string) error {
	return exitcode.WithHint(&exitcode.Error{Code: exitcode.Code(err), Err: fmt.Errorf("it reads %q, which was pruned", r.Dir.Rel(path))}, "%s", hint)
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

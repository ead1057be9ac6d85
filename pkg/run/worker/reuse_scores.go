package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// takeScores seals the scores that another run has of a task, if the run takes them and
// they are of the same responses: everything that they were made from has the same
// content here, or had it before columns were added to its table. What a program takes, in
// seconds, and what a server says is another thing each time, and a run that takes its scores
// comes to the bytes of the other all the same.
func (w *Worker) takeScores(ctx context.Context, job stage.Job, t graph.Task, output string) (bool, error) {
	if w.Run.Identity.Scores == "" {
		return false, nil
	}
	started := time.Now()
	from, err := rundir.ReadGraph(ctx, graph.Dir(w.Run.Identity.Scores))
	if err != nil {
		return false, fmt.Errorf("opening the run whose scores are taken: %w", err)
	}
	path := from.Dir.Sampled(t.Node, t.Shard)
	rows, was, err := shard.Read[shard.Score](ctx, path, from.Reading(0))
	if errors.Is(err, seal.ErrNotSealed) {
		w.Log("%s is scored again: %q has no scores of it", t, from.Dir)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cited := []seal.Input{{Path: path, ContentSHA256: was.ContentSHA256}}
	for _, input := range was.Inputs {
		if filepath.IsAbs(input.Path) {
			continue // what that run took
		}
		here, err := seal.Record(ctx, w.Run.Dir.Join(input.Path))
		if err != nil {
			return false, err
		}
		if here.ContentSHA256 != input.ContentSHA256 {
			had, err := shard.HadContent(ctx, w.Run.Dir.Join(input.Path), input.ContentSHA256, w.Run.Graph.Reading(0))
			if err != nil {
				return false, err
			}
			if !had {
				w.Log("%s is scored again: %s is not that of %q", t, input.Path, from.Dir)
				return false, nil
			}
		}
		cited = append(cited, seal.Input{Path: input.Path, ContentSHA256: here.ContentSHA256})
	}
	job.EnvironmentInputs = nil // they are among those of the other run
	m := job.Manifest(was.Stage, t.Iteration, t.Shard, w.Run.Graph.Shards(t.Node), started, cited...)
	m.Metrics = was.Metrics
	_, err = shard.Write(output, rows, nil, job.Attempt, m)
	return err == nil, err
}

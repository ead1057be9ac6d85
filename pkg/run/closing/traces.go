package closing

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Scored is a trace with its score.
type Scored struct {
	Rows  []shard.Rollout // its contexts, at least one
	Score shard.Score
}

// TraceName names a trace in a run.
type TraceName struct {
	Iteration int // in which it was sampled
	shard.TraceName
}

// NameOf is the name of a trace that was sampled in an iteration.
func NameOf(iteration int32, instance string, sample int32) TraceName {
	return TraceName{int(iteration), shard.TraceName{InstanceID: instance, Sample: sample}}
}

// Traces reads the traces of a shard that has ended, as its last waves have them.
func Traces(ctx context.Context, r *rundir.Run, ref Ref) ([]Scored, error) {
	n := graph.Node{Stage: graph.StageRollout, Iteration: ref.Iteration}
	waves, err := Waves(ctx, r.Graph, n, ref.Shard, r.Graph.Reading(0))
	if err != nil {
		return nil, err
	}
	var traces []Scored
	at := map[shard.TraceName]int{}
	for wave := range waves {
		read, err := tracesOf(ctx, r, n.InWave(wave), ref.Shard)
		if err != nil {
			return nil, err
		}
		for _, t := range read {
			name := t.Rows[0].Name()
			if i, before := at[name]; before {
				traces[i] = t
				continue
			}
			at[name] = len(traces)
			traces = append(traces, t)
		}
	}
	return traces, nil
}

// tracesOf reads the traces of one wave of a shard and their scores.
func tracesOf(ctx context.Context, r *rundir.Run, n graph.Node, number int) ([]Scored, error) {
	path := r.Dir.Sampled(n.Sampling(), number)
	rows, rollout, err := shard.Read[shard.Rollout](ctx, path, r.Graph.Reading(0))
	if err != nil {
		return nil, err
	}
	verdicts := r.Dir.Sampled(n.Judging(), number)
	scores, score, err := shard.Read[shard.Score](ctx, verdicts, r.Graph.Reading(0))
	if err != nil {
		return nil, err
	}
	for _, input := range score.Inputs {
		if input.Path == r.Dir.Rel(path) && input.ContentSHA256 != rollout.ContentSHA256 {
			return nil, exitcode.Dataf("score %q is of responses that rollout %q no longer holds", verdicts, path)
		}
	}
	contexts := shard.Traces(rows)
	if len(contexts) != len(scores) {
		return nil, exitcode.Dataf("score %q has %d rows, its rollout %q has %d traces", verdicts, len(scores), path, len(contexts))
	}
	traces := make([]Scored, len(contexts))
	for i, rows := range contexts {
		if rows[0].Name() != scores[i].Name() {
			return nil, exitcode.Dataf("score %q row %d is of another trace than its rollout %q has there", verdicts, i, path)
		}
		traces[i] = Scored{rows, scores[i]}
	}
	return traces, nil
}

package measure

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Costs is what a run took, from the manifests of its tasks: what happened between two
// tasks, such as a pause or a wait in a queue, is not in it.
type Costs struct {
	// Seconds are those in which at least one task ran, the warm start and evaluations too.
	// A run that takes the scores of another waits for no scoring: what it would have taken
	// is not known, and this is null.
	Seconds *float64
	// Versions are the costs of training up to policy versions, without the warm start
	// and evaluations. Those of versions before which manifests are lost are not there.
	Versions map[int]VersionCosts
}

// VersionCosts is what the iterations up to a policy version took.
type VersionCosts struct {
	Tokens  int64    // sampled by rollouts, those of late shards too
	Seconds *float64 // in which at least one task of these iterations ran; null as those of Costs
}

// ReadCosts sums up a run, until each policy version that it measures.
func ReadCosts(ctx context.Context, r *rundir.Run) (Costs, error) {
	c := Costs{Versions: map[int]VersionCosts{}}
	seconds := func(disjoint []span) *float64 {
		if r.Identity.Scores != "" {
			return nil
		}
		sum := total(disjoint)
		return &sum
	}
	versions := r.Graph.EvaluatedVersions()
	var trained []span // disjoint
	var tokens float64
	whole := true
	for k := range r.Recipe.Schedule.Iterations + 1 {
		if k > 0 {
			tasks, err := finishedTasks(ctx, r.Graph, nodes(r.Graph, k))
			if err != nil {
				return c, err
			}
			for _, t := range tasks {
				if t.Stage == graph.StageRollout {
					tokens += t.metrics["response_tokens"]
				}
			}
			kept, err := recorded(ctx, r, k, tasks)
			if err != nil {
				return c, err
			}
			whole = whole && kept
			trained = merged(append(trained, spansOf(tasks)...))
		}
		if whole && slices.Contains(versions, k) {
			c.Versions[k] = VersionCosts{Tokens: int64(tokens), Seconds: seconds(trained)}
		}
	}
	others, err := finishedTasks(ctx, r.Graph, append(nodes(r.Graph, 0), evaluations(r.Graph)...))
	c.Seconds = seconds(merged(append(trained, spansOf(others)...)))
	return c, err
}

// recorded reports whether an iteration has the manifests of all that its policy was
// made from: the rollouts of the shards with which it was closed, and its stages.
func recorded(ctx context.Context, r *rundir.Run, k int, tasks []finishedTask) (bool, error) {
	closed, err := closing.Read(ctx, r.Dir, k, r.Graph.Reading(0))
	if errors.Is(err, seal.ErrNotSealed) {
		return false, nil
	}
	missing := map[graph.Task]bool{}
	for _, stage := range []graph.Stage{graph.StageRollout, graph.StageScore} {
		for _, shard := range closed.Included {
			missing[graph.Task{Node: graph.Node{Stage: stage, Iteration: k}, Shard: shard}] = true
		}
	}
	for _, node := range append(r.Graph.LearnNodes(k), graph.Node{Stage: graph.StageBuffer, Iteration: k}) {
		for shard := range r.Graph.Shards(node) {
			missing[graph.Task{Node: node, Shard: shard}] = true
		}
	}
	for _, t := range tasks {
		delete(missing, t.Task)
	}
	return len(missing) == 0, err
}

// scoredAfter are the seconds, by iteration from the first one, in which a task of training
// worked until the last score of the iteration and on those before was there. A pause of
// the run does not count, nor does waiting in a queue.
func scoredAfter(ctx context.Context, r *rundir.Run) ([]float64, error) {
	scored := make([]time.Time, r.Recipe.Schedule.Iterations)
	var spans []span
	for k := range scored {
		tasks, err := finishedTasks(ctx, r.Graph, nodes(r.Graph, k+1))
		if err != nil {
			return nil, err
		}
		if k > 0 {
			scored[k] = scored[k-1]
		}
		for _, t := range tasks {
			if t.Stage == graph.StageScore {
				scored[k] = later(scored[k], t.span.to)
			}
		}
		spans = append(spans, spansOf(tasks)...)
	}
	disjoint := merged(spans)
	seconds := make([]float64, len(scored))
	for k, until := range scored {
		seconds[k] = covered(span{to: until}, disjoint)
	}
	return seconds, nil
}

// total is the length of disjoint spans.
func total(disjoint []span) (seconds float64) {
	for _, s := range disjoint {
		seconds += s.seconds()
	}
	return seconds
}

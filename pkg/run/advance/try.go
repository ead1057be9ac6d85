package advance

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/site"
)

// TryStages has Slurm look at the first array of each stage of a run and at its controller
// job, without submitting any. It is an error if one would be refused.
func TryStages(ctx context.Context, cluster *slurm.Cluster, r *rundir.Run, s site.Resolved, limits slurm.Limits, binaries string) error {
	arrays := []executor.Array{GateArray(r, binaries, s.SHA256, 0)}
	tried := map[graph.Stage]bool{}
	for _, n := range r.Graph.Nodes() {
		if tried[n.Stage.Resources()] {
			continue
		}
		tried[n.Stage.Resources()] = true
		shards := make([]int, r.Graph.Shards(n))
		for i := range shards {
			shards[i] = i
		}
		arrays = append(arrays, drive.ArrayOf(r, n, shards, 0, binaries, s.Site.Monitor))
	}
	for _, array := range arrays {
		own, err := s.Site.Stage(array.SiteStage())
		if err != nil {
			return err
		}
		chunks, err := slurm.Plan(array, limits, own.Throttle)
		if err != nil {
			return err
		}
		script, err := slurm.Script(array, chunks[0], s.Site)
		if err != nil {
			return err
		}
		if err := cluster.Try(ctx, script); err != nil {
			return fmt.Errorf("a job of stage %s (resources.stages.%s: %s, %g GiB, %s, %s) would be refused: %w",
				array.Stage, array.SiteStage(), plural.Count(array.CPUs, "core"), array.MemoryGB, plural.Count(array.GPUs, "GPU"), plural.Count(array.Minutes, "minute"), err)
		}
	}
	return nil
}

package closing

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Waves is the number of waves of a shard that has ended: after the last of them
// none of its traces waits.
func Waves(ctx context.Context, g graph.Graph, n graph.Node, number int, o seal.Options) (int, error) {
	if g.Waves(n.Stage) == 1 {
		return 1, nil
	}
	for wave := 0; ; wave++ {
		m, err := seal.Read(ctx, g.Dir.Sampled(n.InWave(wave).Judging(), number), o)
		if err != nil {
			return 0, err
		}
		if m.Metrics[shard.MetricWaiting] == 0 {
			return wave + 1, nil
		}
	}
}

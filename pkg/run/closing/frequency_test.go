package closing_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// Four actions of a policy, of which the slowest is the rarest.
var (
	taken   = []float64{.4, .3, .2, .1}
	seconds = []int{1, 2, 5, 20}
)

// program is an action that is running or waits for a worker.
type program struct {
	iteration, shard, action int
	left                     int // seconds until it ends
}

// cluster runs programs on workers, a second at a time, in the order in which they came.
type cluster struct {
	workers int
	queue   []program
}

// second lets a second pass, and returns what has ended in it.
func (c *cluster) second() (ended []program) {
	for i := range c.queue[:min(c.workers, len(c.queue))] {
		if c.queue[i].left--; c.queue[i].left == 0 {
			ended = append(ended, c.queue[i])
		}
	}
	c.queue = slices.DeleteFunc(c.queue, func(p program) bool { return p.left == 0 })
	return ended
}

// observe is how often each action is observed in a number of iterations of a graph whose
// shards are one program each, which [closing.Decide] closes. What is late is stopped, or it
// is observed by the first iteration that closes after its end.
func observe(g graph.Graph, workers, iterations int) (counts []float64, total float64) {
	counts = make([]float64, len(taken))
	c := cluster{workers: workers}
	var carried []int // actions that ended late, since the last closing
	for k := 1; k <= iterations; k++ {
		stream := rng.New(7, rng.PurposeTest, k, "frequency", workers)
		actions := make([]int, g.PlanRows())
		for shard := range actions {
			u, x := stream.Float64(uint64(shard)), 0
			for u -= taken[x]; u >= 0 && x < len(taken)-1; u -= taken[x] {
				x++
			}
			actions[shard] = x
			c.queue = append(c.queue, program{k, shard, x, seconds[x]})
		}
		done := map[int]bool{}
		var d closing.Decision
		for d.Closing == nil {
			for _, p := range c.second() {
				if p.iteration == k {
					done[p.shard] = true
				} else {
					carried = append(carried, p.action)
				}
			}
			d = closing.Decide(g, k, false, func(shard int) closing.Progress {
				if done[shard] {
					return closing.Done
				}
				return closing.Open
			})
		}
		for _, shard := range d.Closing.Included {
			counts[actions[shard]]++
		}
		if g.Recipe.Schedule.Late == recipe.LateDrop {
			c.queue = nil
			continue
		}
		for _, x := range carried {
			counts[x]++
		}
		carried = nil
	}
	for _, n := range counts {
		total += n
	}
	return counts, total
}

// TestFrequencyOfActions is the experiment of RL-MLE App. A.2 by the schedule of runs:
// batches of 128 actions of 1, 2, 5 and 20 seconds, each a shard, closed by [closing.Decide].
// Where an iteration waits for all (m 1), or carries what is late (m 1.5), actions are
// observed as often as they are taken: the largest difference from π is under four standard
// errors. Where it drops what is late, slow actions are hardly seen, far less than the
// paper's C·π/Δt, and no weight makes up for what is never seen.
//
// go test ./pkg/run/closing -run TestFrequencyOfActions -v prints the shares.
func TestFrequencyOfActions(t *testing.T) {
	t.Parallel()
	const iterations, batch = 400, 128
	inverse := 0.0
	for x, p := range taken {
		inverse += p / float64(seconds[x])
	}
	for _, c := range []struct {
		m       float64
		late    string
		workers int
		biased  bool
	}{
		{1, recipe.LateDrop, 192, false},
		{1, recipe.LateCarry, 64, false},
		{1.5, recipe.LateCarry, 192, false},
		{1.5, recipe.LateCarry, 64, false},
		{1.5, recipe.LateDrop, 192, true},
		{1.5, recipe.LateDrop, 64, true},
	} {
		var g graph.Graph
		g.Recipe.Rollout.Prompts, g.Recipe.Schedule.Oversample, g.Recipe.Schedule.Late, g.Recipe.Schedule.Quorum = batch, c.m, c.late, 1
		g.Recipe.Rollout.Shards = g.PlanRows()
		counts, total := observe(g, c.workers, iterations)
		text, worst := "", 0.0
		for x, p := range taken {
			share := counts[x] / total
			text += fmt.Sprintf("  %2d s: taken %.3f, observed %.4f, C·π/Δt %.4f", seconds[x], p, share, p/float64(seconds[x])/inverse)
			worst = max(worst, math.Abs(share-p)/math.Sqrt(p*(1-p)/total))
		}
		t.Logf("m %g, %s, %d workers, %.0f observed:%s; largest difference %.1f standard errors", c.m, c.late, c.workers, total, text, worst)
		slow := counts[3] / total
		if (worst > 4) != c.biased {
			t.Errorf("m %g, %s, %d workers: the shares differ from π by up to %.1f standard errors", c.m, c.late, c.workers, worst)
		}
		if c.biased && slow > taken[3]/2 {
			t.Errorf("m %g, %s, %d workers: the slow action is observed in %.3f, want much less than %.3f", c.m, c.late, c.workers, slow, taken[3])
		}
	}
}

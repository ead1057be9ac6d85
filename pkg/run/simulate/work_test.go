package simulate_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/simulate"
)

// An array computes gradients, and tasks add them up, by hand: on four cores, with a
// policy of 10 bytes and 10 bytes a second.
func TestGradientArray(t *testing.T) {
	t.Parallel()
	c := known()
	c.Stages.Gradient.UnitSeconds = 2
	c.FileSystem.BytesPerSecond = 10
	for name, test := range map[string]struct {
		fanIn           string
		reduce          float64 // seconds; 0: as those that apply gradients
		wall            float64
		read, written   int64 // of an iteration
		reduced, learns int64 // bytes that those tasks read
	}{
		// The warm start writes 10 bytes: 0-11. Rollouts read 10: 11-32; scores -35; buffer
		// -40. Four gradient tasks of 2 prompts each read policy and reference and write
		// 10: -47. What applies them reads those two and 40, and writes a policy and an
		// optimizer's state of 20: 7 + 9 s, -63.
		"applied": {"4", 0, 63, 20 + 4*20 + 60, 4*10 + 30, 0, 60},
		// Two tasks read both and 20 and write 10: 7 + 5 s, -59. What applies them reads
		// 20 + 20 and writes 30: 7 + 7 s, -73.
		"reduced":                {"2", 0, 73, 20 + 4*20 + 2*40 + 40, 4*10 + 2*10 + 30, 80, 40},
		"reduced, of times told": {"2", 1, 67, 20 + 4*20 + 2*40 + 40, 4*10 + 2*10 + 30, 80, 40},
	} {
		c.Stages.Reduce.Seconds = test.reduce
		o := options(t, c, "schedule.iterations=1", "schedule.gradient_units=4", "schedule.gradient_shards=4", "schedule.gradient_fan_in="+test.fanIn, "loss.kl.ref_every=0")
		o.Cores = 4
		o.Sizes = simulate.Sizes{Policy: 10, Trained: 10, Optimizer: 20, Gradient: 10}
		got := run(t, o)
		if !near(got.WallSeconds, test.wall) {
			t.Errorf("%s: %v s, want %v", name, got.WallSeconds, test.wall)
		}
		if f := got.Files; f.BytesReadEachIteration != test.read || f.BytesWritten != test.written+10 { // a run of one iteration, and its warm start
			t.Errorf("%s: %d bytes read and %d written, want %d and %d", name, f.BytesReadEachIteration, f.BytesWritten, test.read, test.written+10)
		}
		if learns := stage(t, got, graph.StageLearn).BytesRead; learns != test.learns {
			t.Errorf("%s: what applies gradients reads %d bytes, want %d", name, learns, test.learns)
		}
		if test.reduced > 0 {
			if reduced := stage(t, got, graph.StageReduce); reduced.BytesRead != test.reduced || reduced.Tasks != 2 {
				t.Errorf("%s: %d tasks add up gradients of %d bytes, want 2 and %d", name, reduced.Tasks, reduced.BytesRead, test.reduced)
			}
		}
	}
}

// One task that learns does the work of an array of gradients, and what only applies
// them has none of it.
func TestLearningAlone(t *testing.T) {
	t.Parallel()
	c := known()
	c.Stages.Learn.UnitSeconds, c.Stages.Gradient.UnitSeconds = 2, 2
	for shards, want := range map[string]float64{"1": 45 + 2*8, "4": 45 + 2*2} { // of 8 prompts
		o := options(t, c, "schedule.iterations=1", "schedule.gradient_units=4", "schedule.gradient_shards="+shards)
		o.Cores = 4
		if got := run(t, o); !near(got.WallSeconds, want) {
			t.Errorf("%s gradient shards: %v s, want %v", shards, got.WallSeconds, want)
		}
	}
}

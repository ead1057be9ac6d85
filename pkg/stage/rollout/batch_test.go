package rollout

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// judging is an environment with one task, whose attempts may say themselves how good they are.
type judging struct {
	*scriptedSide
	tasks     *env.TaskSet
	validated bool
}

func (j judging) Set() *env.TaskSet { return j.tasks }

func (j judging) Traits() env.Traits { return env.Traits{Validated: j.validated} }

func load(t *testing.T, name string, settings ...string) Settings {
	t.Helper()
	return SettingsOf(must.Get(recipe.Load("../../../jobs/"+name+".yaml", settings))(t).Recipe)
}

// TestNewBatch: as many traces of an instance as the recipe samples, which draw anew in each
// iteration of a training and the same in each measurement. Only where a measurement's
// attempts say themselves how good they are, scores are kept from them.
func TestNewBatch(t *testing.T) {
	t.Parallel()
	tasks := env.NewTaskSet("judging")
	tasks.Add(env.Task{ID: "task"}, env.Facts{Split: env.Train})
	s := load(t, "smoke", "rollout.group=3", "evaluation.samples=2", "evaluation.greedy=true")
	for _, c := range []struct {
		evaluation, validated bool
		samples               []int
	}{{false, false, []int{0, 1, 2}}, {false, true, []int{0, 1, 2}}, {true, false, []int{GreedySample, 0, 1}}, {true, true, []int{GreedySample, 0, 1}}} {
		var drawn, chosen []float64
		for iteration := 1; iteration <= 2; iteration++ {
			b, err := NewBatch(s, judging{&scriptedSide{}, tasks, c.validated}, []shard.Instance{{InstanceID: "i", TaskID: "task"}}, Inputs{Evaluation: c.evaluation, Iteration: iteration})
			if err != nil {
				t.Fatal(err)
			}
			var samples []int
			for _, trace := range b.traces {
				samples = append(samples, trace.sample)
				if greedy := trace.Sampling.Temperature == 0; greedy != (trace.sample == GreedySample) || trace.blind != (c.evaluation && c.validated) {
					t.Errorf("%+v: sample %d is greedy %v, blind %v", c, trace.sample, greedy, trace.blind)
				}
			}
			if !slices.Equal(samples, c.samples) {
				t.Errorf("%+v: samples %v", c, samples)
			}
			drawn, chosen = append(drawn, b.traces[0].Stream(0, 0).Float64(0)), append(chosen, b.traces[0].Choices.Float64(0))
		}
		if same := drawn[0] == drawn[1]; same != c.evaluation || same != (chosen[0] == chosen[1]) {
			t.Errorf("%+v: two iterations draw %v, and the scaffold %v", c, drawn, chosen)
		}
	}
}

// TestTrainingOfAMix: an environment of several may have attempts and lengths of its own.
func TestTrainingOfAMix(t *testing.T) {
	t.Parallel()
	s := load(t, "mixed/smoke", "rollout.max_new_tokens_by_turn=[4, 48]", "scaffold.name=chain", "scaffold.steps=2")
	for name, c := range map[string]struct {
		steps   int
		lengths []int
	}{"sums": {2, []int{6}}, "sort": {2, []int{8}}, "tools": {2, []int{4, 48}}, "sums once": {0, []int{6}}} {
		of := s
		if c.steps == 0 {
			mix := load(t, "mixed/smoke").Env
			mix.Mix().Of[0].Steps, name = &c.steps, "sums"
			of.Env = mix
		}
		want := s.Scaffold
		want.Steps = c.steps
		got, err := of.training(name)
		if err != nil {
			t.Fatal(err)
		}
		if scaffold := must.Get(want.Training())(t); !reflect.DeepEqual(got.scaffold, scaffold) || !slices.Equal(got.maxNewTokens, c.lengths) {
			t.Errorf("%s: %+v of %v tokens, want %+v of %v", name, got.scaffold, got.maxNewTokens, scaffold, c.lengths)
		}
	}
}

// TestEachBounded: of many traces so many environments are at work at a time, and all in the end.
func TestEachBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var working, done atomic.Int64
		open, ended := make(chan struct{}), make(chan error)
		go func() {
			ended <- each(t.Context(), slices.Repeat([]*Trace{{}}, 4*atATime), func(context.Context, *Trace) error {
				working.Add(1)
				<-open
				done.Add(1)
				return nil
			})
		}()
		synctest.Wait()
		if working.Load() != atATime {
			t.Errorf("%d environments are at work, want %d", working.Load(), atATime)
		}
		close(open)
		if err := <-ended; err != nil || done.Load() != 4*atATime {
			t.Errorf("%d of %d have ended: %v", done.Load(), 4*atATime, err)
		}
	})
}

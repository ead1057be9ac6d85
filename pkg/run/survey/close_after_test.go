package survey_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/survey"
)

// actions is a world of four actions that a policy over them chooses: the slowest is the
// best, and is seldom chosen. The numbers are those of TestFrequencyBias of package credit.
var actions = struct{ policy, seconds, reward []float64 }{
	policy: []float64{.4, .3, .2, .1}, seconds: []float64{1, 2, 5, 20}, reward: []float64{.2, .5, .3, .9},
}

// drawn are the actions of the shards of an iteration, of which each is one.
func drawn(iteration, shards int) []int {
	stream, all := rng.New(1, rng.PurposeTest, iteration, "actions", 0), make([]int, shards)
	for i := range all {
		for u := stream.Float64(uint64(i)); all[i] < len(actions.policy)-1; all[i]++ {
			if u -= actions.policy[all[i]]; u < 0 {
				break
			}
		}
	}
	return all
}

// closeAfter plays a run in which a score takes as long as its action, and all else no
// time, on so many workers. It returns how often iterations observed each action, of
// their own and in all.
func closeAfter(t *testing.T, workers int, settings ...string) (own, all []float64, g graph.Graph) {
	t.Helper()
	g = graph.Graph{Dir: "/run", Recipe: runtest.Load(t, settings...).Recipe}
	g.Recipe.Evaluation.Problems = 0
	s := survey.Of(survey.NewTold(g))
	now, began, running := time.Unix(1, 0), map[int]time.Time{}, map[graph.Task]time.Time{}
	s.Clock = survey.Clock{
		Now:   func() time.Time { return now },
		Began: func(_ context.Context, k int) (time.Time, error) { return began[k], nil },
	}
	own, all = make([]float64, len(actions.policy)), make([]float64, len(actions.policy))
	action := func(ref closing.Ref) int { return drawn(ref.Iteration, g.PlanRows())[ref.Shard] }
	for {
		found, err := s.Survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if found.Done {
			return own, all, g
		}
		for _, c := range found.Closable {
			s.TellClosing(c)
			for _, ref := range c.Reads() {
				if all[action(ref)]++; ref.Iteration == c.Iteration {
					own[action(ref)]++
				}
			}
		}
		told := len(found.Closable) > 0
		for task := range running {
			if late, _ := s.Dropped(t.Context(), task); late {
				delete(running, task)
			}
		}
		for i := 0; !told && i < len(found.Ready) && len(running) < workers; i++ {
			task := found.Ready[i]
			if _, runs := running[task]; runs {
				continue
			}
			if task.Stage == graph.StageScore {
				seconds := actions.seconds[action(closing.Ref{Iteration: task.Iteration, Shard: task.Shard})]
				running[task] = now.Add(time.Duration(seconds) * time.Second)
				continue
			}
			if task.Stage == graph.StageRollout && began[task.Iteration].IsZero() {
				began[task.Iteration] = now
			}
			s.Tell(task, false)
			told = true
		}
		if told {
			continue
		}
		var first graph.Task
		for task, ends := range running {
			if at, known := running[first]; !known || ends.Before(at) || ends.Equal(at) && task.Shard < first.Shard {
				first = task
			}
		}
		ends, runs := running[first]
		if !found.Due.IsZero() && (!runs || found.Due.Before(ends)) {
			now = found.Due
			continue
		}
		if !runs {
			t.Fatal("nothing runs and nothing is due")
		}
		now = ends
		delete(running, first)
		s.Tell(first, false)
	}
}

// gradient is Σ weight·A(x)·∇log π(x) by the logits of the policy over actions.
func gradient(weights []float64) []float64 {
	value := 0.0
	for x, p := range actions.policy {
		value += p * actions.reward[x]
	}
	g := make([]float64, len(weights))
	for x, w := range weights {
		for j, p := range actions.policy {
			score := -p
			if j == x {
				score++
			}
			g[j] += w * (actions.reward[x] - value) * score
		}
	}
	return g
}

// gradientOf is A(x)·∂log π(x) by the j-th logit, for each action.
func gradientOf(j int) []float64 {
	slopes := make([]float64, len(actions.policy))
	for x := range slopes {
		alone := make([]float64, len(slopes))
		alone[x] = 1
		slopes[x] = gradient(alone)[j]
	}
	return slopes
}

// mean is Σ share·value^power.
func mean(shares, values []float64, power float64) float64 {
	total := 0.0
	for i, v := range values {
		total += shares[i] * math.Pow(v, power)
	}
	return total
}

func sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}

func shares(counts []float64) []float64 {
	out := make([]float64, len(counts))
	for x := range counts {
		out[x] = counts[x] / sum(counts)
	}
	return out
}

// completed is the expected number of each action that a worker completes in a
// budget of whole seconds, when it takes the next whenever it is free: it starts one
// at second t with probability m(t) = Σ π(x)·m(t - Δt), m(0) = 1.
func completed(budget int) []float64 {
	starts, expected := make([]float64, budget+1), make([]float64, len(actions.policy))
	starts[0] = 1
	for t := range budget + 1 {
		for x, p := range actions.policy {
			if seconds := int(actions.seconds[x]); t >= seconds {
				starts[t] += p * starts[t-seconds]
				expected[x] += p * starts[t-seconds]
			}
		}
	}
	return expected
}

// TestCloseAfter: iterations that are closed after 20 s, on four workers, observe short
// actions more often (RL-MLE §3.1), as often as theory has it of actions that are lost when
// they are late. What is late and carried is observed in the end, and the shares of the run
// are the policy's. All within four standard errors.
//
// go test ./pkg/run/survey -run TestCloseAfter -v prints the numbers.
func TestCloseAfter(t *testing.T) {
	t.Parallel()
	const workers, budget = 4, 20
	for _, c := range []struct {
		late                string
		prompts, iterations int
		want                []float64 // shares of the run
	}{
		{recipe.LateDrop, 64, 12, shares(completed(budget))},
		{recipe.LateCarry, 20, 20, actions.policy},
	} {
		own, all, g := closeAfter(t, workers, fmt.Sprintf("rollout.prompts=%d", c.prompts), fmt.Sprintf("rollout.shards=%d", c.prompts),
			fmt.Sprintf("schedule.iterations=%d", c.iterations), fmt.Sprintf("schedule.close_after_seconds=%d.5", budget), "schedule.late="+c.late)
		got := shares(all)
		for x, want := range c.want {
			slack := 4 * math.Sqrt(want*(1-want)/sum(all))
			if c.late == recipe.LateCarry { // what the end of the run leaves behind
				slack += float64(c.prompts*c.iterations)/sum(all) - 1
			}
			if math.Abs(got[x]-want) > slack {
				t.Errorf("%s: share of action %d: %.4f, want %.4f within %.4f", c.late, x, got[x], want, slack)
			}
		}
		for j, want := range gradient(c.want) {
			slopes := gradientOf(j)
			deviation := math.Sqrt(max(0, mean(c.want, slopes, 2)-want*want) / sum(all))
			if g := gradient(got)[j]; c.late == recipe.LateDrop && math.Abs(g-want) > 4*deviation {
				t.Errorf("gradient %d: %.5f, want %.5f within %.5f", j, g, want, 4*deviation)
			}
		}
		if fast := shares(own)[0]; fast < actions.policy[0]+.05 {
			t.Errorf("%s: of what iterations observe of their own actions %.3f are fast: no bias", c.late, fast)
		}
		t.Logf("late: %s: %g of %d actions observed\n  shares           %.3f  expected %.3f\n  of own iteration %.3f", c.late, sum(all), g.PlanRows()*c.iterations, got, c.want, shares(own))
	}
}

package warm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"pgregory.net/rapid"
)

// Every epoch holds each row once, and where a warm start is cut into checkpoints
// changes nothing.
func TestPoolOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed, rows := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 20).Draw(t, "rows")
		last := rows * rapid.IntRange(1, 4).Draw(t, "epochs")
		whole := poolOrder(seed, rows, 0, last)
		for epoch := 0; epoch < last; epoch += rows {
			for i, at := range slices.Sorted(slices.Values(whole[epoch : epoch+rows])) {
				if i != at {
					t.Fatalf("epoch of %d rows: %v", rows, whole[epoch:epoch+rows])
				}
			}
		}
		cut := rapid.IntRange(0, last).Draw(t, "cut")
		if parts := slices.Concat(poolOrder(seed, rows, 0, cut), poolOrder(seed, rows, cut, last)); !slices.Equal(parts, whole) {
			t.Fatalf("in one piece %v, in two %v", whole, parts)
		}
	})
}

// asked is an environment that demonstrates each task by its ID and the kind.
type asked struct{ env.Env }

func (asked) Demonstration(task env.Task, kind shard.Kind, _ rng.Stream) ([]shard.Message, bool, error) {
	return []shard.Message{{Role: string(kind), Content: task.ID}}, true, nil
}

// The shares of kinds are those of the recipe and tasks are drawn alike. What a seed draws
// never changes, so that a warm start can be made again.
func TestDraws(t *testing.T) {
	t.Parallel()
	tasks := make([]env.Task, 5)
	d := demonstrator{Settings: Settings{Seed: 7, WarmStart: recipe.WarmStart{Improve: 0.25, Diverge: 0.5}}, environment: asked{}}
	for i := range tasks {
		tasks[i].ID = fmt.Sprint(i)
	}
	drawn, first := map[string]float64{}, ""
	for at := range 4000 {
		said, err := d.demonstration(at/8, at%8, tasks)
		if err != nil {
			t.Fatal(err)
		}
		drawn[said[0].Role]++
		drawn[said[0].Content]++
		if at < 12 {
			first += said[0].Content + said[0].Role[:2] + " "
		}
	}
	for name, want := range map[string]float64{"initial": 1000, "improve": 1000, "diverge": 2000, "0": 800, "1": 800, "2": 800, "3": 800, "4": 800} {
		if got := drawn[name]; math.Abs(got-want) > 5*math.Sqrt(want) {
			t.Errorf("%s is drawn %g times of 4000, want %g", name, got, want)
		}
	}
	if order := poolOrder(7, 4, 2, 10); first != "2in 0di 4im 4di 0in 1di 1di 3di 1di 3im 4im 1im " || !slices.Equal(order, []int{0, 2, 3, 2, 0, 1, 2, 3}) {
		t.Errorf("seed 7 draws %s and rows %v", first, order)
	}
}

// The mean of recent losses by hand, with d = 0.95: of 2 it is 2; of 2 and 4 it is
// (0.05·0.95·2 + 0.05·4)/(1-0.95²) = 0.295/0.0975.
func TestRecentLoss(t *testing.T) {
	t.Parallel()
	var r recentLoss
	for steps, want := range []float64{math.Inf(1), 2, 0.295 / 0.0975} {
		if got := r.mean(); got != want && math.Abs(got-want) > 1e-12 {
			t.Errorf("mean of %d losses: %g, want %g", steps, got, want)
		}
		for stop, below := range map[float64]bool{0: false, r.mean(): false, r.mean() + 1: steps > 0} {
			if r.below(stop) != below {
				t.Errorf("after %d losses a mean of %g is below %g: %t", steps, r.mean(), stop, !below)
			}
		}
		r.add(float64(2 * (steps + 1)))
	}
}

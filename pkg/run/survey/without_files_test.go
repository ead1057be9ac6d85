package survey_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/survey"
)

// A run that is told of what is sealed is planned like one whose files are looked at,
// in whatever order tasks end.
func TestToldIsAsLookedAt(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"plain":      {"schedule.iterations=2", "rollout.shards=3", "evaluation.problems=4", "evaluation.shards=2"},
		"stale":      {"schedule.iterations=4", "rollout.shards=2", "schedule.staleness=2", "schedule.sync_every=2"},
		"oversample": {"schedule.iterations=3", "rollout.shards=4", "schedule.oversample=1.5", "schedule.staleness=1"},
		"gradients":  {"schedule.iterations=2", "schedule.gradient_shards=2", "loss.mini_batches=2", "warm_start.chunk=100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for order := range 2 {
				b := runtest.NewBoard(t, settings...)
				told := survey.Of(survey.NewTold(b.Graph))
				random := rng.New(1, rng.PurposeTest, order, name, 0)
				drawn := uint64(0)
				for step := 0; ; step++ {
					if step > 200 {
						t.Fatal("the run does not end")
					}
					looked := b.Survey()
					planned, err := told.Survey(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(looked, planned); diff != "" {
						t.Fatalf("order %d, after %d steps (-looked +told):\n%s", order, step, diff)
					}
					if looked.Done {
						break
					}
					if len(looked.Closable) > 0 {
						for _, c := range b.Close() {
							told.TellClosing(c)
						}
						continue
					}
					for _, task := range looked.Ready { // a part of it ends
						if drawn++; random.Bool(drawn, 0.5) {
							b.Seal(task.Node, task.Shard)
							told.Tell(task, false)
						}
					}
				}
			}
		})
	}
}

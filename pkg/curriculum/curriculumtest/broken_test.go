package curriculumtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// broken draws tasks at random, and breaks the promise that it is named after.
type broken struct {
	how   string
	seed  uint64
	calls *atomic.Int64 // selections, of all that were made
}

func (b broken) Name() string { return "broken" }

func (b broken) Update(state curriculum.State, iteration int, _ []curriculum.Group, _ []string) (curriculum.State, error) {
	next := curriculum.State{Iteration: iteration}
	if b.how == "state grows" {
		next.Stats = append(append(next.Stats, state.Stats...), shard.Stat{Axis: shard.StatCurriculum, Key: fmt.Sprint(iteration)})
	}
	return next, nil
}

func (b broken) Next(_ curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	plan := make([]curriculum.Selection, n)
	for i := range plan {
		drawn := rng.New(b.seed, rng.PurposeSelect, iteration, "broken", i).IntN(0, len(taskIDs))
		if b.how == "remembers" {
			drawn = int(b.calls.Add(1)) % len(taskIDs)
		}
		plan[i] = curriculum.Selection{TaskID: taskIDs[drawn], Kind: shard.KindInitial, Origin: shard.OriginBase, Probability: 1 / float64(len(taskIDs)), SelectedBy: "draw"}
		if b.how == "no probability" {
			plan[i].Probability = 0
		}
	}
	return plan, nil
}

// TestConformRejects: the suite fails for broken curricula, each for its reason, and
// passes one that is whole. A failure is of the test that runs the suite, so this test
// starts itself once more for each.
func TestConformRejects(t *testing.T) {
	t.Parallel()
	const variable = "LATHE_TEST_BROKEN"
	if how, set := os.LookupEnv(variable); set {
		var calls atomic.Int64
		Conform(t, Subject{
			New:  func(seed uint64) curriculum.Curriculum { return broken{how, seed, &calls} },
			Rows: func(int) int { return 2 * Iterations },
		})
		return
	}
	for how, want := range map[string]string{
		"":               "",
		"remembers":      "two plans from one state differ",
		"no probability": "has no probability, and nothing explains it",
		"state grows":    "rows, want at most 16",
	} {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestConformRejects$")
		command.Env = append(os.Environ(), variable+"="+how)
		out, err := command.CombinedOutput()
		if (want == "") != (err == nil) || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, want the reason %q:\n%s", how, err, want, out)
		}
	}
}

package command_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/explain"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestFlipTS: a run with a warm-up, a pool and refreshes comes to the same bytes,
// beliefs and pool among them, however it is cut and killed; on policy every ratio
// is exactly 1 over both contexts of a trace; and a selection is explained.
func TestFlipTS(t *testing.T) {
	settings := []string{
		"preset=flipts", "scaffold.name=chain", "scaffold.steps=1", "reward.name=signed", "score.embedding=none", "factors=[]",
		"curriculum.name=flipts", "curriculum.flipts.warm_up=2", "curriculum.flipts.pool_size=20", "curriculum.flipts.refresh_share=0.4",
		"schedule.iterations=6", "evaluation.steps=0",
	}
	whole := filepath.Join(t.TempDir(), "whole")
	began := time.Now()
	lathe(t, exitcode.OK, runArgs(whole, smoke, append(settings, "rollout.shards=1")...)...)
	c := commandtest.NewChaos(t, 4)
	c.Whole = time.Since(began)
	clean(t, whole)
	want := essence(t, whole)
	for c.Done < c.Kills {
		dir := filepath.Join(t.TempDir(), "run")
		c.Run(c.Kills, runArgs(dir, smoke, append(settings, "rollout.shards=3", "schedule.gradient_shards=2")...)...)
		clean(t, dir)
		if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
			t.Errorf("digests (-whole +after kills):\n%s", diff)
		}
	}
	c.Log()

	r := open(t, whole)
	joined := 0.0
	for k := 1; k <= 6; k++ {
		m, err := seal.Read(t.Context(), r.Dir.Policy(k), seal.Options{})
		if err != nil || m.Metrics["first_step_ratio_deviation_max"] != 0 || m.Metrics["tokens"] == 0 {
			t.Errorf("policy %d: %v, %v", k, m.Metrics, err)
		}
		batch, err := seal.Read(t.Context(), r.Dir.Batch(k), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		traces := 0.0
		for _, name := range []string{"f2s", "s2s", "s2f", "f2f"} {
			traces += batch.Metrics["transition_"+name]
		}
		if traces != batch.Metrics["responses"] || traces == 0 {
			t.Errorf("iteration %d: %v transitions of %v traces", k, traces, batch.Metrics["responses"])
		}
		state, err := seal.Read(t.Context(), r.Dir.State(k), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if k > 2 {
			joined += state.Metrics["curriculum_pool_joined"]
		}
		if (k >= 2) != (state.Metrics["curriculum_pool"] == 20) {
			t.Errorf("iteration %d: %v", k, state.Metrics)
		}
	}
	if joined == 0 {
		t.Error("the pool was never refreshed")
	}
	rows, _, err := shard.Read[shard.Rollout](t.Context(), r.Dir.Rollout(5, 0), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(rows); i += 2 { // s_2 = (q, a_1), and nothing else
		first, second := rows[i], rows[i+1]
		question := strings.TrimSuffix(first.Messages[0].Content, "=")
		if want := question + "=" + first.Messages[1].Content + ";"; first.Name() != second.Name() || len(second.Messages) != 2 || second.Messages[0].Content != want {
			t.Fatalf("the second turn of %+v starts from %+v", first.Messages, second.Messages)
		}
	}
	plan, _, err := shard.Read[shard.Instance](t.Context(), r.Dir.Plan(5), seal.Options{})
	if err != nil || plan[0].SelectedBy != "thompson" {
		t.Fatalf("plan 5: %+v, %v", plan, err)
	}
	output, err := exec.Command("lathe", "explain", whole, "--iter", "5", "--instance", plan[0].InstanceID, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var x explain.Explanation
	if err := json.Unmarshal(output, &x); err != nil {
		t.Fatal(err)
	}
	if last := x.Terms[len(x.Terms)-1]; last.Name != "probability" || !(last.Value > 0 && last.Value < 1) || last.Value != x.Probability {
		t.Errorf("explained as %+v", x)
	}
}

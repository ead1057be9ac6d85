package command_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/measure"
)

// TestMixed: a run of three environments has the same bytes however its work is cut and
// whoever is killed; each plan has exact shares; and each environment is measured.
func TestMixed(t *testing.T) {
	const recipe = repository + "/jobs/mixed/smoke.yaml"
	reference, began := filepath.Join(t.TempDir(), "reference"), time.Now()
	lathe(t, exitcode.OK, runArgs(reference, recipe, "rollout.shards=1", "evaluation.shards=1")...)
	whole := time.Since(began)
	commandtest.Clean(t, reference)
	want := commandtest.Essence(t, reference)

	cut := filepath.Join(t.TempDir(), "cut")
	lathe(t, exitcode.OK, runArgs(cut, recipe, "rollout.shards=3", "evaluation.shards=5", "schedule.gradient_shards=3", "warm_start.chunk=20")...)
	commandtest.Clean(t, cut)
	if diff := cmp.Diff(want, commandtest.Essence(t, cut)); diff != "" {
		t.Errorf("digests (-one shard +several):\n%s", diff)
	}

	killed := filepath.Join(t.TempDir(), "killed")
	chaos := commandtest.NewChaos(t, 3)
	chaos.Whole = whole
	chaos.Run(3, runArgs(killed, recipe, "rollout.shards=3", "evaluation.shards=5", "schedule.max_attempts=1000000")...)
	commandtest.Clean(t, killed)
	if diff := cmp.Diff(want, commandtest.Essence(t, killed)); diff != "" {
		t.Errorf("digests (-without kills +with):\n%s", diff)
	}

	rows := measure.Of(commandtest.Open(t, reference))
	m, _ := measure.Named("environments")
	values, err := m.Of(t.Context(), rows, 2)
	if err != nil {
		t.Fatal(err)
	}
	got, rewards := map[string][]float64{}, map[string][]float64{}
	for _, v := range values {
		switch v.Column {
		case "prompts":
			got[v.Group] = append(got[v.Group], v.Y)
		case "reward":
			rewards[v.Group] = append(rewards[v.Group], v.Y)
		}
	}
	// Weights 2, 1 and 1 of 10 prompts: 5, 2.5 and 2.5; after two plans 10, 5 and 5.
	if diff := cmp.Diff(map[string][]float64{"sums": {5, 5}, "sort": {3, 2}, "tools": {2, 3}}, got); diff != "" {
		t.Errorf("prompts by plan (-want +got):\n%s", diff)
	}
	summary, err := rows.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range summary.Series {
		for name, reward := range rewards {
			if math.Abs(it.Rewards[name]-reward[i]) > 1e-12 {
				t.Errorf("iteration %d, %s: the report's reward is %v, that of the scores %v", i+1, name, it.Rewards[name], reward[i])
			}
		}
	}
	if out := lathe(t, exitcode.OK, "status", reference).stdout; !strings.Contains(out, "environments: mixed [sums: math × 2, sort: puzzle × 1, tools: tooluse × 1]") {
		t.Errorf("status has no environments:\n%s", out)
	}
	if out := lathe(t, exitcode.OK, "paper", "exit", reference).stdout; !strings.Contains(out, "share of training (%)") {
		t.Errorf("no table of transfer:\n%s", out)
	}
}

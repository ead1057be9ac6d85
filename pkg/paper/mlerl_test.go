package paper

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/pool"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

func TestMLERL(t *testing.T) {
	t.Parallel()
	r := papersOf(t, "mlerl", programsRun(t))
	expect(t, item(t, r, "tables-1-3-5-6"), map[string][2]float64{
		"smoke|test, after, first attempt alone|valid (%)": {0, 0}, "smoke|test, after|HumanRank (%)": {90, 0}, "smoke|test, after|above median (%)": {100, 0},
	})
	expect(t, item(t, r, "table-4"), map[string][2]float64{"smoke|after|data (%)": {25, 0}, "smoke|after|HumanRank (%)": {90, 0}, "smoke|before training|HumanRank (%)": {0, 0}})
	// Ranks 0.2, 0.6, 0.25 and 0.8; one submission gains, 0.4 on the first of its trace.
	expect(t, item(t, r, "figure-3-a"), map[string][2]float64{"smoke||submissions (%)|20": {50, 0}, "smoke||submissions (%)|60": {25, 0}, "smoke||submissions (%)|80": {25, 0}, "smoke||submissions (%)|0": {0, 0}})
	expect(t, item(t, r, "figure-3-b"), map[string][2]float64{"smoke||submissions (%)|40": {100, 0}})
	expect(t, item(t, r, "figure-3-shares"), map[string][2]float64{"smoke||not above the median (%)": {50, 0}, "smoke||no medal (%)": {100, 0}, "smoke||gain at most 0.01 (%)": {0, 0}})
	expect(t, item(t, r, "figure-4-left"), map[string][2]float64{
		"smoke, after|reset|HumanRank (%)|1": {0, 0}, "smoke, after|reset|HumanRank (%)|4": {20, 0}, "smoke, after|memory|HumanRank (%)|2": {0, 0}, "smoke, after|memory|HumanRank (%)|4": {90, 0},
	})
	expect(t, item(t, r, "figure-4-right"), map[string][2]float64{"smoke, after||HumanRank (%)|1": {20, 0}, "smoke, after||HumanRank (%)|8": {90, 0}, "smoke, before training||HumanRank (%)|8": {0, 0}})
	if i := item(t, r, "table-2"); len(i.Numbers) != 0 || len(i.Missing) != 1 {
		t.Errorf("Table 2: %+v", i)
	}
}

// supervised is a folder with a run that learned from a pool alone, which has 1 of 5
// segments of one run and 2 of 7 of another, and one that learned from nothing. Both
// submit held out what the run of [programs] does after training.
func supervised(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	policy := t.TempDir()
	resolved, err := recipe.Load("../../jobs/smoke.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	environment, err := resolved.Recipe.NewEnv("../../jobs")
	if err == nil {
		err = warm.InitPolicy(warm.SettingsOf(resolved.Recipe), environment, policy)
	}
	if err != nil {
		t.Fatal(err)
	}
	of := func(r *rundir.Run, train []string) content {
		c := programs(r, train)
		return content{held: map[int][]shard.EvaluationRow{0: c.held[2]}}
	}
	path := filepath.Join(folder, "pool.parquet")
	m := seal.Manifest{Stage: "pool", PolicyVersion: -1}
	if err := m.Note("runs", []pool.RunCount{{RunID: "a", Segments: 5, Kept: 1}, {RunID: "b", Segments: 7, Kept: 2}}); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := os.ReadFile(filepath.Join(policy, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(tokenizer)
	if _, err := shard.Write(path, []shard.PoolRow{{RunID: "a"}}, map[string]string{shard.PoolTokenizer: hex.EncodeToString(sum[:])}, seal.AttemptFromEnv(), m); err != nil {
		t.Fatal(err)
	}
	base := []string{"schedule.iterations=0", "policy.new=null", "policy.path=" + policy, "warm_start.improve=0", "warm_start.diverge=0", "evaluation.steps=3"}
	made(t, filepath.Join(folder, "one"), of, append(base, "warm_start.pool="+path)...)
	made(t, filepath.Join(folder, "none"), of, append(base, "warm_start.steps=0", "name=none")...)
	return folder
}

// Supervision on a pool is a run's training where it has no other: MLE-RL Tab. 4 has its share
// and its scores, and MLE-RL Tab. 3 its scores, after it and not before.
func TestSupervised(t *testing.T) {
	t.Parallel()
	folder := supervised(t)
	r := papersOf(t, "mlerl", folder)
	table := item(t, r, "table-4")
	expect(t, table, map[string][2]float64{
		"smoke|after|data (%)": {25, 0}, "smoke|after|HumanRank (%)": {90, 0}, "smoke|after|any medal (%)": {100, 0},
		"none|before training|HumanRank (%)": {90, 0},
	})
	if len(table.Numbers) != 7 || len(table.Missing) != 1 || table.Missing[0] != "none: it learned from nothing: it has neither iterations nor warm_start.pool" {
		t.Errorf("Table 4: %+v", table)
	}
	expect(t, item(t, r, "tables-1-3-5-6"), map[string][2]float64{"smoke|test, after|HumanRank (%)": {90, 0}, "none|test, before training|HumanRank (%)": {90, 0}})
	if missing := item(t, r, "figure-3-a").Missing; len(missing) != 1 || missing[0] != "nothing was sampled in training that counts" {
		t.Errorf("Figure 3 (a) misses %q", missing)
	}
	path := filepath.Join(folder, "pool.parquet")
	if err := seal.Remove(path); err != nil {
		t.Fatal(err)
	}
	table = item(t, papersOf(t, "mlerl", folder), "table-4")
	if len(table.Numbers) != 6 || len(table.Missing) != 2 {
		t.Errorf("without the pool, Table 4: %+v", table)
	}
}

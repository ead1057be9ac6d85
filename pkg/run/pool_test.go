package run_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/pool"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Two runs become one pool, in whatever order they are named; it holds the very
// tokens that were trained on; and a run starts from the policy that both started
// from and learns from it.
func TestTrainOnAPool(t *testing.T) {
	first := finish(t, smoke, "schedule.iterations=1")
	base := []string{"policy.new=null", "policy.path=" + first.Dir.Policy(0), "schedule.iterations=1"}
	second := finish(t, smoke, append(base, "warm_start.steps=0", "seed=7")...)
	gather := func(which pool.Selection, runs ...*rundir.Run) pool.Pool {
		t.Helper()
		p, err := pool.Gather(t.Context(), runs, which)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	selected := gather(pool.Selected, first, second)
	if diff := cmp.Diff(selected, gather(pool.Selected, second, first)); diff != "" {
		t.Errorf("the order of the runs changes the pool:\n%s", diff)
	}
	if all := gather(pool.All, first, second); len(all.Rows) <= len(selected.Rows) {
		t.Errorf("%d rows of all, %d of those trained on", len(all.Rows), len(selected.Rows))
	}
	for _, row := range gather(pool.Valid, first).Rows {
		if row.Outcome != string(shard.OutcomeOK) {
			t.Errorf("%s sample %d of outcome %s is valid", row.InstanceID, row.Sample, row.Outcome)
		}
	}
	type learned struct {
		Tokens []int32
		Mask   []bool
	}
	type name struct {
		instance string
		sample   int32
	}
	trained := map[name]learned{}
	batch, _, err := shard.ReadBatch(t.Context(), first.Dir.Batch(1), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range batch {
		trained[name{s.InstanceID, s.Sample}] = learned{s.TokenIDs, s.LossMask}
	}
	pooled := map[name]learned{}
	for _, row := range gather(pool.Selected, first).Rows {
		pooled[name{row.InstanceID, row.Sample}] = learned{row.TokenIDs, row.LossMask}
	}
	if diff := cmp.Diff(trained, pooled); diff != "" || len(pooled) == 0 {
		t.Errorf("%d rows; batch and pool differ:\n%s", len(pooled), diff)
	}

	path := filepath.Join(t.TempDir(), "pool.parquet")
	if _, err := shard.Write(path, selected.Rows, map[string]string{shard.PoolTokenizer: selected.Tokenizer}, seal.AttemptFromEnv(), seal.Manifest{Stage: "pool"}); err != nil {
		t.Fatal(err)
	}
	settings := append(base, "warm_start.pool="+path, "warm_start.improve=0", "warm_start.diverge=0", "warm_start.steps=6", "warm_start.batch=8")
	digest := func(chunk string) string {
		t.Helper()
		distilled := finish(t, smoke, append(settings, "warm_start.chunk="+chunk)...)
		result, err := verify.Verify(t.Context(), distilled)
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Faults) > 0 {
			t.Errorf("faults: %+v", result.Faults)
		}
		m, err := seal.Read(t.Context(), distilled.Dir.Policy(0), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return m.ContentSHA256
	}
	whole := digest("6")
	if cut := digest("2"); cut != whole {
		t.Errorf("policy %s in one checkpoint, %s in three", whole, cut)
	}
	was, err := seal.Read(t.Context(), first.Dir.Policy(0), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if was.ContentSHA256 == whole {
		t.Error("six steps on the pool left the policy as it was")
	}
	if _, err := pool.Gather(t.Context(), []*rundir.Run{first, first}, pool.All); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a run that is named twice: %v", err)
	}
}

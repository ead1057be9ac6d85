package run_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/pool"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
)

// Two runs become one pool, in the order in which they are named, whatever IDs were
// drawn for them; it holds the very tokens that were trained on; and a run starts from
// the policy that both started from and learns from it.
func TestTrainOnAPool(t *testing.T) {
	first := runtest.Finish(t, runtest.Smoke(), "schedule.iterations=1", "select=[constant_group]")
	base := []string{"policy.new=null", "policy.path=" + first.Dir.Policy(0), "schedule.iterations=1"}
	second := runtest.Finish(t, runtest.Smoke(), append(base, "warm_start.steps=0", "seed=7")...)
	gather := func(which pool.Selection, runs ...*rundir.Run) pool.Pool {
		t.Helper()
		p, err := pool.Gather(t.Context(), runs, which)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	selected := gather(pool.Selected, first, second)
	of := func(runs ...*rundir.Run) (rows []shard.PoolRow) {
		for _, r := range runs {
			rows = append(rows, gather(pool.Selected, r).Rows...)
		}
		return rows
	}
	for _, runs := range [][]*rundir.Run{{first, second}, {second, first}} {
		if diff := cmp.Diff(of(runs...), gather(pool.Selected, runs...).Rows); diff != "" {
			t.Errorf("rows (-of one run after the other +of both):\n%s", diff)
		}
	}
	if all := gather(pool.All, first, second); len(all.Rows) <= len(selected.Rows) {
		t.Errorf("%d rows of all, %d of those trained on", len(all.Rows), len(selected.Rows))
	}
	for _, row := range gather(pool.Valid, first).Rows {
		if row.Outcome != string(shard.OutcomeOK) {
			t.Errorf("%s sample %d of outcome %s is valid", row.InstanceID, row.Sample, row.Outcome)
		}
	}
	sameAsBatches(t, first)

	path := filepath.Join(t.TempDir(), "pool.parquet")
	if _, err := shard.Write(path, selected.Rows, map[string]string{shard.PoolTokenizer: selected.Tokenizer}, seal.AttemptFromEnv(), seal.Manifest{Stage: "pool"}); err != nil {
		t.Fatal(err)
	}
	settings := append(base, "warm_start.pool="+path, "warm_start.improve=0", "warm_start.diverge=0", "warm_start.steps=6", "warm_start.batch=8")
	digest := func(chunk string) string {
		t.Helper()
		distilled := runtest.Finish(t, runtest.Smoke(), append(settings, "warm_start.chunk="+chunk)...)
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

// Traces of several contexts, whose segments are turns, and several waves: what is
// gathered of them is what they were trained on.
func TestPoolOfParts(t *testing.T) {
	chain := []string{"scaffold.name=chain", "scaffold.steps=2", "score.embedding=none", "factors=[]", "evaluation.steps=0", "select=[constant_group]"}
	for segments, more := range map[string]string{"trajectory": "schedule.batch_segments=40", "turn": "schedule.iterations=1", "valid_submission": "schedule.iterations=1"} {
		opened := runtest.Finish(t, runtest.Smoke(), append(chain, "segments="+segments, more)...)
		if contexts := sameAsBatches(t, opened); contexts == 0 {
			t.Errorf("segments %s: no trace has two contexts that were trained on", segments)
		}
	}
}

// sameAsBatches compares the tokens that a run learned from with those of its pool.
// It returns how many contexts after a trace's first these are in.
func sameAsBatches(t *testing.T, r *rundir.Run) (later int) {
	t.Helper()
	type token struct {
		instance string
		sample   int32
		context  string // tokens up to and with this one, which is learned from
	}
	count := func(tokens map[token]int, instance string, sample int32, ids []int32, mask []bool) {
		for i, learned := range mask {
			if learned {
				tokens[token{instance, sample, fmt.Sprint(ids[:i+1])}]++
			}
		}
	}
	trained, pooled := map[token]int{}, map[token]int{}
	for k := 1; k <= r.Recipe.Schedule.Iterations; k++ {
		batch, _, err := arrowfile.ReadBatch(t.Context(), r.Dir.Batch(k), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range batch {
			count(trained, s.InstanceID, s.Sample, s.TokenIDs, s.LossMask)
		}
	}
	p, err := pool.Gather(t.Context(), []*rundir.Run{r}, pool.Selected)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range p.Rows {
		count(pooled, row.InstanceID, row.Sample, row.TokenIDs, row.LossMask)
		if row.Part > 0 {
			later++
		}
	}
	if diff := cmp.Diff(trained, pooled); diff != "" {
		t.Errorf("tokens that were trained on (-) and that were gathered (+):\n%s", diff)
	}
	return later
}

package run_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
)

func TestStalenessIsDeterministic(t *testing.T) {
	var first string
	for i, settings := range [][]string{
		{"rollout.shards=1"},
		{"rollout.shards=1", "schedule.gradient_shards=2"},
		{"rollout.shards=3", "evaluation.shards=1"},
	} {
		opened, m := runtest.Stage(t, append(settings, "schedule.staleness=1", "schedule.iterations=4")...)
		m.Slots = 1 + i // with more cores, iterations overlap
		if err := m.Drive(nil); err != nil {
			t.Fatal(err)
		}
		runtest.Exact(t, opened)
		sum := runtest.Digest(t, opened.Dir.Policy(4))
		if first == "" {
			first = sum
		}
		if sum != first {
			t.Errorf("%v on %d cores: policy %s, want %s", settings, m.Slots, sum, first)
		}
		for k, want := range map[int]int{1: 0, 2: 0, 3: 1, 4: 2} {
			manifest, err := seal.Read(t.Context(), opened.Dir.Rollout(k, 0), seal.Options{})
			if err != nil || manifest.PolicyVersion != want {
				t.Errorf("rollout %d was sampled by version %d, want %d (%v)", k, manifest.PolicyVersion, want, err)
			}
		}
		// The learner knows how old its data is: iteration 3 learns from
		// version 2 with data of version 1.
		manifest, err := seal.Read(t.Context(), opened.Dir.Policy(2), seal.Options{})
		if err != nil || manifest.Metrics["first_step_ratio_deviation_max"] == 0 {
			t.Errorf("iteration 2 learns off policy, and its ratios are all 1: %v (%v)", manifest.Metrics, err)
		}
	}
}

// TestNoIterations: supervised learning alone is a run that makes a policy and measures it.
func TestNoIterations(t *testing.T) {
	opened, m := runtest.Stage(t, "schedule.iterations=0", "warm_start.steps=2")
	if err := m.Drive(nil); err != nil {
		t.Fatal(err)
	}
	v, err := verify.Verify(t.Context(), opened)
	if err != nil || len(v.Faults) > 0 || v.Ledger.Planned != 0 {
		t.Errorf("faults %v, ledger %+v, %v", v.Faults, v.Ledger, err)
	}
	for _, path := range []string{opened.Dir.Policy(0), opened.Dir.Evaluation(0, 0)} {
		if _, err := seal.Verify(t.Context(), path, seal.Options{}); err != nil {
			t.Error(err)
		}
	}
}

// TestSyncEvery: rollouts take every other version, whatever is pruned meanwhile, and the
// learner says how old its data is.
func TestSyncEvery(t *testing.T) {
	var first string
	for _, settings := range [][]string{{"rollout.shards=1"}, {"rollout.shards=3", "schedule.keep_every=5"}} {
		opened, m := runtest.Stage(t, append(settings, "schedule.sync_every=2", "schedule.iterations=5", "select=[]")...)
		if err := m.Drive(nil); err != nil {
			t.Fatal(err)
		}
		runtest.Exact(t, opened)
		for k, want := range map[int]int{1: 0, 2: 0, 3: 2, 4: 2, 5: 4} {
			rollouts, err := seal.Read(t.Context(), opened.Dir.Rollout(k, 0), seal.Options{})
			if err != nil || rollouts.PolicyVersion != want {
				t.Errorf("rollout %d was sampled by version %d, want %d (%v)", k, rollouts.PolicyVersion, want, err)
			}
		}
		last, err := seal.Read(t.Context(), opened.Dir.Policy(5), seal.Options{})
		if err != nil || last.Metrics["age_mean"] != 0 {
			t.Errorf("iteration 5 learns from data of age %v, want 0 (%v)", last.Metrics["age_mean"], err)
		}
		sum := runtest.Digest(t, opened.Dir.Policy(5))
		if first == "" {
			first = sum
			learned, err := seal.Read(t.Context(), opened.Dir.Policy(4), seal.Options{})
			if err != nil || learned.Metrics["age_mean"] != 1 || learned.Metrics["first_step_ratio_deviation_max"] == 0 {
				t.Errorf("iteration 4 learns from version 2: %v (%v)", learned.Metrics, err)
			}
		}
		if sum != first {
			t.Errorf("%v: policy %s, want %s", settings, sum, first)
		}
	}
}

// TestBatchSegments: two iterations fill a batch, and the fifth is remaining; however
// the work is cut, killed tasks are done again, and batches are replayed.
func TestBatchSegments(t *testing.T) {
	var first string
	for _, settings := range [][]string{
		{"rollout.shards=1"},
		{"rollout.shards=3", "schedule.gradient_shards=2", "schedule.keep_every=2"},
	} {
		opened, m := runtest.Stage(t, append(settings, "schedule.batch_segments=40", "schedule.iterations=5", "select=[]", "scaffold.name=chain", "scaffold.steps=2",
			"score.embedding=none", "factors=[]", "evaluation.steps=0")...)
		m.Fail = func(task graph.Task, attempt int) executor.Cause {
			if task.Stage == graph.StageBuffer && attempt == 0 {
				return executor.CausePreempted
			}
			return ""
		}
		if err := m.Drive(nil); err != nil {
			t.Fatal(err)
		}
		if ledger := runtest.Exact(t, opened); ledger.Trained != 4*8*4 || ledger.Dropped["batch_not_full"] != 8*4 || ledger.Waiting != 0 {
			t.Errorf("ledger %+v: want four iterations trained on, and one left over", ledger)
		}
		was := ""
		for k := range 6 {
			m, err := seal.Record(t.Context(), opened.Dir.Policy(k))
			if err != nil {
				t.Fatal(err)
			}
			if learned := k == 0 || k == 2 || k == 4; learned != (m.ContentSHA256 != was) {
				t.Errorf("iteration %d: the policy went from %s to %s", k, was, m.ContentSHA256)
			}
			was = m.ContentSHA256
		}
		learned, err := seal.Read(t.Context(), opened.Dir.Batch(2), seal.Options{})
		if err != nil || learned.Metrics["trained"] != 2*8*4 {
			t.Errorf("batch 2: %v (%v)", learned.Metrics, err)
		}
		if first == "" {
			first = was
		}
		if was != first {
			t.Errorf("%v: policy %s, want %s", settings, was, first)
		}
		w := worker.New(opened, seal.AttemptFromEnv(), "test", t.Logf)
		replayed, err := worker.Replay(t.Context(), w, []graph.Task{{Node: runtest.Node(graph.StageBuffer, 1)}, {Node: runtest.Node(graph.StageBuffer, 2)}, {Node: runtest.Node(graph.StageBuffer, 5)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range replayed {
			if !r.Same {
				t.Errorf("replayed, %s is %s, was %s", r.Path, r.Now, r.Sealed)
			}
		}
	}
}

// TestOversampleCarries holds one shard of iteration 1 back until iteration 2
// samples: iteration 1 closes without it, and iteration 2 trains on it.
func TestOversampleCarries(t *testing.T) {
	var first string
	for range 2 {
		opened, m := runtest.Stage(t, "schedule.oversample=1.5", "rollout.prompts=8", "rollout.shards=3", "schedule.iterations=3")
		m.Slots = 8
		held := graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: 1}
		release, after := make(chan struct{}), make(chan struct{})
		m.Hold = func(task graph.Task) <-chan struct{} {
			switch {
			case task == held:
				return release
			case task.Iteration == 2 && task.Stage == graph.StageScore:
				return after // so that the carried shard is done before iteration 2 closes
			case task == graph.Task{Node: runtest.Node(graph.StageRollout, 2)}, task == graph.Task{Node: runtest.Node(graph.StageRollout, 3), Shard: 2}:
				return make(chan struct{}) // late for good
			}
			return nil
		}
		var once, twice sync.Once
		err := m.Drive(func(p drive.Progress) {
			if p.Event == "launched" && p.Task.Node == runtest.Node(graph.StageRollout, 2) {
				once.Do(func() { close(release) })
			}
			if p.Event == "done" && p.Task == (graph.Task{Node: runtest.Node(graph.StageScore, 1), Shard: 1}) {
				twice.Do(func() { close(after) })
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		closed, err := closing.Read(t.Context(), opened.Dir, 1, seal.Options{})
		if err != nil || !cmp.Equal(closed.Late, []int{1}) || !cmp.Equal(closed.Included, []int{0, 2}) {
			t.Errorf("iteration 1 was closed with %+v (%v)", closed, err)
		}
		closed, err = closing.Read(t.Context(), opened.Dir, 2, seal.Options{})
		if err != nil || !cmp.Equal(closed.Carried, []closing.Ref{{Iteration: 1, Shard: 1}}) {
			t.Errorf("iteration 2 was closed with %+v (%v)", closed, err)
		}
		ledger := runtest.Exact(t, opened)
		if ledger.Dropped["run_ended"] == 0 {
			t.Errorf("a shard was late for good, and the ledger does not say so: %+v", ledger)
		}
		carried, age := 0, 0
		rows, _, err := shard.Read[shard.LedgerRow](t.Context(), opened.Dir.Ledger(2), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.IterationSampled == 1 {
				carried++
			}
		}
		if carried != 4*4 {
			t.Errorf("%d responses of the late shard have their fate in iteration 2, want 16", carried)
		}
		batch, _, err := arrowfile.ReadBatch(t.Context(), opened.Dir.Batch(2), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range batch {
			if s.IterationSampled == 1 {
				age++
			}
		}
		manifest, err := seal.Read(t.Context(), opened.Dir.Policy(2), seal.Options{})
		if err != nil || manifest.Metrics["age_mean"] != float64(age)/float64(len(batch)) {
			t.Errorf("mean age %v, want %d of %d sequences (%v)", manifest.Metrics["age_mean"], age, len(batch), err)
		}
		sum := runtest.Digest(t, opened.Dir.Policy(2))
		if first == "" {
			first = sum
		}
		if sum != first {
			t.Errorf("the same shards were late, and the policy is %s, was %s", sum, first)
		}
	}
}

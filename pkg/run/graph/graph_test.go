package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

const smoke = "../../../jobs/smoke.yaml"

func load(t *testing.T, settings ...string) *recipe.Resolved {
	t.Helper()
	resolved, err := recipe.Load(smoke, settings)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func planned(t *testing.T, settings ...string) graph.Graph {
	t.Helper()
	return graph.Graph{Dir: "/run", Recipe: load(t, settings...).Recipe}
}

func names(nodes []graph.Node) string {
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = n.String()
	}
	return strings.Join(words, " ")
}

// TestStalenessIsAnOffset: with staleness s the rollouts of iteration k need
// policy v(max(0, k-1-s)) and the plan that the fold of that iteration wrote.
func TestStalenessIsAnOffset(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		staleness string
		versions  []int    // of iterations 1 to 4
		plans     [][]int  // written by folds 0 to 4
		needs     []string // of rollouts 1 to 4
	}{
		{"0", []int{0, 1, 2, 3}, [][]int{{1}, {2}, {3}, {4}, nil}, []string{
			"buffer-000000 warm-000002", "buffer-000001 learn-000001", "buffer-000002 learn-000002", "buffer-000003 learn-000003",
		}},
		{"1", []int{0, 0, 1, 2}, [][]int{{1, 2}, {3}, {4}, nil, nil}, []string{
			"buffer-000000 warm-000002", "buffer-000000 warm-000002", "buffer-000001 learn-000001", "buffer-000002 learn-000002",
		}},
		{"2", []int{0, 0, 0, 1}, [][]int{{1, 2, 3}, {4}, nil, nil, nil}, []string{
			"buffer-000000 warm-000002", "buffer-000000 warm-000002", "buffer-000000 warm-000002", "buffer-000001 learn-000001",
		}},
	} {
		g := planned(t, "schedule.iterations=4", "schedule.staleness="+c.staleness)
		for k := 1; k <= 4; k++ {
			if got := g.RolloutVersion(k); got != c.versions[k-1] {
				t.Errorf("staleness %s: iteration %d is sampled by version %d, want %d", c.staleness, k, got, c.versions[k-1])
			}
			if got := names(g.Needs(graph.Node{Stage: graph.StageRollout, Iteration: k})); got != c.needs[k-1] {
				t.Errorf("staleness %s: rollout %d needs %s, want %s", c.staleness, k, got, c.needs[k-1])
			}
		}
		for k := 0; k <= 4; k++ {
			if diff := cmp.Diff(c.plans[k], g.PlansWritten(k)); diff != "" {
				t.Errorf("staleness %s: plans written by fold %d (-want +got):\n%s", c.staleness, k, diff)
			}
		}
	}
}

// TestSyncEvery: of the versions that staleness leaves, the last that n divides.
func TestSyncEvery(t *testing.T) {
	t.Parallel()
	for settings, want := range map[[2]string][]int{
		{"0", "2"}: {0, 0, 2, 2, 4, 4, 6},
		{"1", "2"}: {0, 0, 0, 2, 2, 4, 4},
		{"1", "5"}: {0, 0, 0, 0, 0, 0, 5},
		{"3", "1"}: {0, 0, 0, 0, 1, 2, 3},
	} {
		g := planned(t, "schedule.iterations=7", "schedule.staleness="+settings[0], "schedule.sync_every="+settings[1])
		for k := 1; k <= 7; k++ {
			if got := g.RolloutVersion(k); got != want[k-1] {
				t.Errorf("staleness %s, every %s: iteration %d is sampled by version %d, want %d", settings[0], settings[1], k, got, want[k-1])
			}
		}
	}
}

func TestGradientShardsAreNodes(t *testing.T) {
	t.Parallel()
	g := planned(t, "schedule.gradient_shards=3", "loss.mini_batches=2", "schedule.iterations=1", "loss.kl.coef=0.1")
	var learning []graph.Node
	for _, n := range g.Nodes() {
		if n.Stage == graph.StageGradient || n.Stage == graph.StageLearn {
			learning = append(learning, n)
		}
	}
	want := "gradient-000001-step000 learn-000001 gradient-000001-step001 learn-000001-step001"
	if got := names(learning); got != want {
		t.Errorf("nodes %s, want %s", got, want)
	}
	last := graph.Node{Stage: graph.StageGradient, Iteration: 1, Step: 1}
	if got := g.Shards(last); got != 3 {
		t.Errorf("%d gradient shards, want 3", got)
	}
	if got := names(g.Needs(last)); !strings.HasPrefix(got, "learn-000001 warm-000002") || !strings.Contains(got, "buffer-000001") {
		t.Errorf("the second step needs %s: the policy after the first, the reference, and the batch are wanted", got)
	}
	first := g.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 1}})
	if diff := cmp.Diff([]string{"/run/iter/000001/step/000", "/run/iter/000001/step/000.optim"}, first); diff != "" {
		t.Errorf("a step that is not the last makes (-want +got):\n%s", diff)
	}
	if got := g.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 1, Step: 1}})[0]; got != "/run/policy/v000001" {
		t.Errorf("the last step makes %s", got)
	}
}

func TestWarmChunks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ steps, chunk, want int }{{0, 100, 1}, {1, 100, 1}, {100, 100, 1}, {101, 100, 2}, {300, 100, 3}} {
		g := planned(t, fmt.Sprintf("warm_start.steps=%d", c.steps), fmt.Sprintf("warm_start.chunk=%d", c.chunk))
		if got := g.WarmChunks(); got != c.want {
			t.Errorf("%d steps in chunks of %d: %d chunks, want %d", c.steps, c.chunk, got, c.want)
		}
	}
	g := planned(t, "warm_start.steps=300", "warm_start.chunk=150")
	if got := g.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: 1}}); !slices.Equal(got, []string{"/run/warm/000001", "/run/warm/000001.optim"}) {
		t.Errorf("the first checkpoint makes %v", got)
	}
	if got := g.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: 2}}); !slices.Equal(got, []string{"/run/policy/v000000"}) {
		t.Errorf("the last checkpoint makes %v", got)
	}
}

// A teacher that is a version of the run is needed by the optimizer steps that it teaches,
// also by those after the first, where the policy is another.
func TestTeacherIsNeeded(t *testing.T) {
	t.Parallel()
	version := func(k int) graph.Node { return graph.Node{Stage: graph.StageLearn, Iteration: k} }
	first := planned(t, "advantage.teacher={coef: 1, version: 1}", "schedule.iterations=4", "loss.kl.coef=0")
	for k, want := range map[int]graph.Node{2: version(1), 4: version(1)} {
		if needs := first.Needs(version(k)); !slices.Contains(needs, want) {
			t.Errorf("iteration %d needs %v, want %v among them", k, needs, want)
		}
	}
	self := planned(t, "advantage.teacher={coef: 1, context: improve}", "schedule.iterations=4", "schedule.gradient_shards=2", "loss.mini_batches=2", "loss.kl.coef=0")
	step := graph.Node{Stage: graph.StageGradient, Iteration: 3, Step: 1}
	if needs := self.Needs(step); !slices.Contains(needs, self.LastLearn(2)) {
		t.Errorf("step 1 of iteration 3 needs %v, want %v among them", needs, self.LastLearn(2))
	}
}

// TestReferenceVersion: iteration k learns with the last multiple of M below
// k; iterations that are multiples of M leave a new reference behind.
func TestReferenceVersion(t *testing.T) {
	t.Parallel()
	g := planned(t, "loss.kl.coef=0.1", "loss.kl.ref_every=3", "schedule.iterations=8")
	for k, want := range map[int]int{1: 0, 2: 0, 3: 0, 4: 3, 5: 3, 6: 3, 7: 6, 8: 6} {
		if got := g.ReferenceVersion(k); got != want {
			t.Errorf("iteration %d: reference version %d, want %d", k, got, want)
		}
		if got, want := g.RefreshesReference(k), k%3 == 0; got != want {
			t.Errorf("iteration %d refreshes the reference: %v, want %v", k, got, want)
		}
	}
	if got := g.ReferencePath(2); got != "/run/policy/v000000" {
		t.Errorf("the first reference is %s", got)
	}
	if got := g.ReferencePath(4); got != "/run/policy/v000003.ref" {
		t.Errorf("the second reference is %s", got)
	}
	never := planned(t, "loss.kl.coef=0.1", "loss.kl.ref_every=0")
	if never.ReferenceVersion(50) != 0 || never.RefreshesReference(50) {
		t.Error("without ref_every the reference is the first policy for good")
	}
	if none := planned(t, "loss.kl.coef=0", "loss.kl.ref_every=3"); none.RefreshesReference(3) {
		t.Error("without a KL term there is no reference to refresh")
	}
}

func TestEvaluatedVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings []string
		want     []int
	}{
		{[]string{"schedule.iterations=7", "evaluation.every=3"}, []int{0, 3, 6, 7}},
		{[]string{"schedule.iterations=6", "evaluation.every=3"}, []int{0, 3, 6}},
		{[]string{"schedule.iterations=6"}, []int{0, 6}},
	} {
		if diff := cmp.Diff(c.want, planned(t, c.settings...).EvaluatedVersions()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.settings, diff)
		}
	}
	// What was the last version before an extension has been measured, whatever is measured now.
	extended := planned(t, "schedule.iterations=10", "evaluation.every=4")
	extended.Extended = []graph.Extended{{Iterations: 2}, {Iterations: 4}, {Iterations: 9}}
	if diff := cmp.Diff([]int{0, 2, 4, 8, 9, 10}, extended.EvaluatedVersions()); diff != "" {
		t.Errorf("of an extended run (-want +got):\n%s", diff)
	}
}

// TestShardRangesCoverEveryRowOnce holds for every total and number of
// shards.
func TestShardRangesCoverEveryRowOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total, shards := rapid.IntRange(0, 1000).Draw(t, "total"), rapid.IntRange(1, 64).Draw(t, "shards")
		next := 0
		for n := range shards {
			first, last := graph.ShardRange(total, n, shards)
			if first != next || last < first || last-first > total/shards+1 {
				t.Fatalf("shard %d of %d over %d rows is [%d, %d), the one before ended at %d", n, shards, total, first, last, next)
			}
			next = last
		}
		if next != total {
			t.Fatalf("%d shards end at row %d of %d", shards, next, total)
		}
	})
}

// TestShardOf: a row is in the shard whose range holds it.
func TestShardOf(t *testing.T) {
	t.Parallel()
	base := load(t).Recipe
	rapid.Check(t, func(t *rapid.T) {
		g := graph.Graph{Recipe: base}
		g.Recipe.Rollout.Prompts, g.Recipe.Rollout.Shards = rapid.IntRange(1, 300).Draw(t, "prompts"), rapid.IntRange(1, 64).Draw(t, "shards")
		shards := g.Shards(graph.Node{Stage: graph.StageRollout, Iteration: 1})
		for n := range shards {
			first, last := graph.ShardRange(g.PlanRows(), n, shards)
			for row := first; row < last; row++ {
				if got := g.ShardOf(1, row); got != n {
					t.Fatalf("row %d of %d is said to be in shard %d of %d, and is in %d", row, g.PlanRows(), got, shards, n)
				}
			}
		}
	})
}

// TestGraphHasNoCycleAndNoGap: every node that any node needs comes before
// it in Nodes, whatever the schedule, so a run can always begin and end; and
// every goal is a node.
func TestGraphHasNoCycleAndNoGap(t *testing.T) {
	t.Parallel()
	base := load(t).Recipe
	rapid.Check(t, func(rt *rapid.T) {
		r := base
		r.Schedule.Iterations = rapid.IntRange(0, 6).Draw(rt, "iterations")
		r.Schedule.Staleness = rapid.IntRange(0, 3).Draw(rt, "staleness")
		r.Schedule.GradientShards = rapid.IntRange(1, 3).Draw(rt, "gradient shards")
		r.Loss.MiniBatches = rapid.IntRange(1, 3).Draw(rt, "mini batches")
		r.Loss.KL.RefEvery = rapid.IntRange(0, 3).Draw(rt, "reference every")
		r.Evaluation.Every = recipe.EvaluateEvery(rapid.IntRange(0, 3).Draw(rt, "evaluate every"))
		g := graph.Graph{Dir: "/run", Recipe: r}
		position, outputs := map[graph.Node]int{}, map[string]graph.Task{}
		for i, n := range g.Nodes() {
			position[n] = i
			for shard := range g.Shards(n) {
				task := graph.Task{Node: n, Shard: shard}
				for _, path := range g.Outputs(task) {
					if other, taken := outputs[path]; taken {
						rt.Fatalf("%s and %s both make %s", other, task, path)
					}
					outputs[path] = task
				}
			}
		}
		for n, at := range position {
			for _, need := range g.Needs(n) {
				if need.Stage == graph.StageClose {
					need = g.Needs(need)[0]
				}
				if before, known := position[need]; !known || before >= at {
					rt.Fatalf("%s needs %s, which is not before it in %s", n, need, names(g.Nodes()))
				}
			}
		}
		for _, goal := range g.Goals() {
			if _, known := position[goal]; !known {
				rt.Fatalf("goal %s is no node of the run", goal)
			}
		}
		for k := 1; k <= r.Schedule.Iterations; k++ {
			if _, planned := outputs[g.Dir.Plan(k)]; !planned {
				rt.Fatalf("nothing writes the plan of iteration %d", k)
			}
		}
	})
}

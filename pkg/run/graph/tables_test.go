package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// waved are the settings of an environment whose traces take three waves.
func waved(t *testing.T, settings ...string) graph.Graph {
	t.Helper()
	g := planned(t, settings...)
	resolved, err := recipe.Load("../../../jobs/mle-smoke.yaml", []string{"env.max_turns=3"})
	if err != nil {
		t.Fatal(err)
	}
	g.Recipe.Env, g.Recipe.Data = resolved.Recipe.Env, resolved.Recipe.Data
	return g
}

// TestStageTable: of each stage the command of its tasks, what they need and make, whose
// resources they take, and in which order ready ones of iteration 2 are taken.
func TestStageTable(t *testing.T) {
	t.Parallel()
	g := planned(t, "schedule.iterations=3", "schedule.gradient_shards=3", "schedule.gradient_fan_in=2", "loss.mini_batches=2", "loss.kl.coef=0", "warm_start.chunk=100", "evaluation.every=1")
	of := &g.Recipe.Resources.Stages
	for i, request := range []*recipe.Request{&of.Warm, &of.Buffer, &of.Rollout, &of.Score, &of.Gradient, &of.Learn, &of.Evaluate} {
		request.CPUs = i + 1
	}
	for _, c := range []struct {
		node      graph.Node
		command   string // after the binary and --run
		needs     string
		shards    int
		output    string // of the first shard
		resources graph.Stage
		cpus      int
		urgency   int
	}{
		{graph.Node{Stage: graph.StageWarm, Iteration: 2}, "learn --warm 2", "warm-000001", 1, "warm/000002 warm/000002.optim", graph.StageWarm, 1, 16},
		{graph.Node{Stage: graph.StageBuffer, Iteration: 2}, "buffer --iteration 2", "close-000002 buffer-000001 buffer-000001", 1, "iter/000002/state.parquet iter/000002/stats.parquet iter/000002/batch.arrow iter/000002/ledger.parquet iter/000003/plan.parquet", graph.StageBuffer, 2, 18},
		{graph.Node{Stage: graph.StageRollout, Iteration: 2}, "rollout --iteration 2", "buffer-000001 learn-000001-step001", 2, "iter/000002/rollout/00000.parquet", graph.StageRollout, 3, 20},
		{graph.Node{Stage: graph.StageScore, Iteration: 2}, "score --iteration 2", "rollout-000002 buffer-000001", 2, "iter/000002/score/00000.parquet", graph.StageScore, 4, 19},
		{graph.Node{Stage: graph.StageGradient, Iteration: 2, Step: 1}, "learn --iteration 2 --step 1 --gradient", "learn-000002 buffer-000002", 3, "iter/000002/grad/step-001/00000.arrow", graph.StageGradient, 5, 17},
		{graph.Node{Stage: graph.StageReduce, Iteration: 2, Step: 1}, "learn --iteration 2 --step 1 --reduce", "learn-000002 gradient-000002-step001 buffer-000002", 2, "iter/000002/grad/step-001/sum/00000.arrow", graph.StageGradient, 5, 17},
		{graph.Node{Stage: graph.StageLearn, Iteration: 2, Step: 1}, "learn --iteration 2 --step 1", "learn-000002 reduce-000002-step001 buffer-000002", 1, "policy/v000002 policy/v000002.optim", graph.StageLearn, 6, 16},
		{graph.Node{Stage: graph.StageEvalPlan}, "buffer --evaluate", "", 1, "eval/plan.parquet", graph.StageBuffer, 2, 13},
		{graph.Node{Stage: graph.StageEvalRollout, Iteration: 2}, "rollout --evaluate 2", "evalplan-000000 learn-000002-step001", 2, "eval/v000002/rollout/00000.parquet", graph.StageEvaluate, 7, 31},
		{graph.Node{Stage: graph.StageEvalScore, Iteration: 2}, "score --evaluate 2", "evalrollout-000002 evalplan-000000", 2, "eval/v000002/score/00000.parquet", graph.StageScore, 4, 30},
		{graph.Node{Stage: graph.StageEvaluate, Iteration: 2}, "score --evaluate 2 --gather", "evalscore-000002 evalplan-000000", 2, "eval/v000002/00000.parquet", graph.StageScore, 4, 29},
	} {
		binary, rest, _ := strings.Cut(c.command, " ")
		if got, want := strings.Join(g.Command("/bin", c.node), " "), "/bin/lathe-"+binary+" --run /run "+rest; got != want {
			t.Errorf("%s: command %q, want %q", c.node, got, want)
		}
		var outputs []string
		for _, path := range g.Outputs(graph.Task{Node: c.node}) {
			outputs = append(outputs, g.Dir.Rel(path))
		}
		got := fmt.Sprint(names(g.Needs(c.node)), " | ", g.Shards(c.node), " | ", strings.Join(outputs, " "), " | ", c.node.Stage.Resources(), g.Request(c.node.Stage).CPUs, " ", graph.Task{Node: c.node}.Urgency())
		want := fmt.Sprint(c.needs, " | ", c.shards, " | ", c.output, " | ", c.resources, c.cpus, " ", c.urgency)
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", c.node, got, want)
		}
		if stage, err := graph.ParseStage(string(c.node.Stage)); err != nil || stage != c.node.Stage || !slices.Contains(graph.Stages(), stage) {
			t.Errorf("stage %s: %s, %v", c.node.Stage, stage, err)
		}
	}
	for _, name := range []string{"close", "metrics", "none"} {
		if _, err := graph.ParseStage(name); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("stage %s runs as tasks: %v", name, err)
		}
	}
	if got := g.Request("gate"); got != (recipe.Request{}) || g.Outputs(graph.Task{Node: graph.Node{Stage: "gate"}}) != nil || g.Needs(graph.Node{Stage: "gate"}) != nil {
		t.Errorf("a controller job asks for %+v", got)
	}
	later := waved(t, "schedule.iterations=2")
	for stage, want := range map[graph.Stage]string{graph.StageRollout: "--iteration 2 --wave 1", graph.StageEvalScore: "--evaluate 2 --wave 1"} {
		if got := strings.Join(later.Command("", graph.Node{Stage: stage, Iteration: 2, Wave: 1}), " "); !strings.HasSuffix(got, want) {
			t.Errorf("%s of the second wave: %q", stage, got)
		}
	}
}

// TestWaves: rollouts and scores go through waves, one after the other.
func TestWaves(t *testing.T) {
	t.Parallel()
	g := waved(t, "schedule.iterations=1", "evaluation.steps=0")
	n := graph.Node{Stage: graph.StageScore, Iteration: 1}
	if got := names(g.Waved(n.Sampling())); got != "rollout-000001 score-000001 rollout-000001-w01 score-000001-w01 rollout-000001-w02 score-000001-w02" {
		t.Errorf("nodes %s", got)
	}
	for node, want := range map[graph.Node]string{
		n.InWave(2):                             "rollout-000001-w02 buffer-000000 score-000001-w01",
		n.InWave(2).Sampling():                  "buffer-000000 warm-000002 rollout-000001-w01 score-000001-w01",
		{Stage: graph.StageClose, Iteration: 1}: "score-000001 score-000001-w01 score-000001-w02",
	} {
		if got := names(g.Needs(node)); got != want {
			t.Errorf("%s needs %s, want %s", node, got, want)
		}
	}
	if got := g.Dir.Sampled(n.InWave(2), 3); got != "/run/iter/000001/w02/score/00003.parquet" {
		t.Errorf("the third wave lies in %s", got)
	}
}

// TestRows: a plan's rows by shards, and how many rows it has.
func TestRows(t *testing.T) {
	t.Parallel()
	g := planned(t, "rollout.prompts=5", "rollout.shards=2", "schedule.oversample=1.5", "evaluation.problems=6", "evaluation.samples=1", "evaluation.shards=4")
	for _, c := range []struct {
		stage       graph.Stage
		shard       int
		first, last int
		plan        string
	}{
		{graph.StageRollout, 0, 0, 4, "/run/iter/000002/plan.parquet"},
		{graph.StageScore, 1, 4, 8, "/run/iter/000002/plan.parquet"},
		{graph.StageEvalRollout, 1, 1, 3, "/run/eval/plan.parquet"},
		{graph.StageEvaluate, 3, 4, 6, "/run/eval/plan.parquet"},
	} {
		task := graph.Task{Node: graph.Node{Stage: c.stage, Iteration: 2}, Shard: c.shard}
		if first, last := g.Rows(task); first != c.first || last != c.last || g.Plan(task.Node) != c.plan {
			t.Errorf("%s works on rows %d to %d of %s", task, first, last, g.Plan(task.Node))
		}
	}
	if got := g.PlanRows(); got != 8 { // 7.5
		t.Errorf("%d rows are planned, want 8", got)
	}
	small := g
	small.Recipe.Rollout.Prompts, small.Recipe.Schedule.Oversample, small.Recipe.Rollout.Shards = 2, 1, 9
	small.Recipe.Evaluation.Problems, small.Recipe.Evaluation.Shards = 1, 9
	small.Recipe.Schedule.GradientShards, small.Recipe.Schedule.GradientUnits = 99, 4
	if got := []int{small.Shards(graph.Node{Stage: graph.StageRollout}), small.Shards(graph.Node{Stage: graph.StageEvalRollout}), small.Shards(graph.Node{Stage: graph.StageGradient})}; !slices.Equal(got, []int{2, 1, 4}) {
		t.Errorf("no more shards than rows and units: %v", got)
	}
}

// TestLate: which schedules may close an iteration early, and which carry what is late.
func TestLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings      []string
		late, carries bool
		waits         []int // of three iterations
	}{
		{nil, false, false, nil},
		{[]string{"schedule.oversample=1.5"}, true, true, nil},
		{[]string{"schedule.close_after_seconds=5"}, true, true, nil},
		{[]string{"schedule.oversample=1.5", "schedule.late=drop"}, true, false, nil},
		{[]string{"schedule.batch_segments=1"}, false, false, []int{1, 2}},
	} {
		g := planned(t, append([]string{"schedule.iterations=3"}, c.settings...)...)
		var waits []int
		for k := range 5 {
			if g.Waits(k) {
				waits = append(waits, k)
			}
		}
		if g.MayBeLate() != c.late || g.Carries() != c.carries || !slices.Equal(waits, c.waits) {
			t.Errorf("%v: may be late %v, carries %v, waits %v", c.settings, g.MayBeLate(), g.Carries(), waits)
		}
		if outputs := g.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageBuffer, Iteration: 2}}); slices.Contains(outputs, g.Dir.Waiting(2)) != (c.waits != nil) {
			t.Errorf("%v: the fold makes %q", c.settings, outputs)
		}
	}
}

// TestLearnNeeds: what an optimizer step compares with has to be there.
func TestLearnNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings []string
		step     int
		want     string
	}{
		{nil, 0, "learn-000003 buffer-000004"},
		{[]string{"loss.kl.coef=0.1", "loss.kl.ref_every=2"}, 0, "learn-000003 learn-000002 buffer-000004"},
		{[]string{"rollout.remote.serve=[x, \"{policy}\", \"{port}\"]", "schedule.staleness=1"}, 0, "learn-000003 learn-000002 buffer-000004"},
		{[]string{"preset=ppo", "factors=[]", "schedule.gradient_shards=2", "loss.mini_batches=2"}, 1, "learn-000004 learn-000003-step001 gradient-000004-step001 buffer-000004"},
	} {
		g := planned(t, append([]string{"schedule.iterations=4", "loss.kl.coef=0"}, c.settings...)...)
		if got := names(g.Needs(graph.Node{Stage: graph.StageLearn, Iteration: 4, Step: c.step})); got != c.want {
			t.Errorf("%v: %s, want %s", c.settings, got, c.want)
		}
	}
}

// TestGoals: of a run without iterations the policy and its evaluation.
func TestGoals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"schedule.iterations=0"}, "warm-000002 evaluate-000000"},
		{[]string{"schedule.iterations=3", "evaluation.every=2"}, "learn-000003 buffer-000003 evaluate-000000 evaluate-000002 evaluate-000003"},
	} {
		if got := names(planned(t, c.settings...).Goals()); got != c.want {
			t.Errorf("%v: %s, want %s", c.settings, got, c.want)
		}
	}
	g := planned(t)
	g.Recipe.Evaluation.Problems = 0
	if got := names(g.Goals()); strings.Contains(got, "evaluate") || strings.Contains(names(g.Nodes()), "eval") {
		t.Errorf("without problems: %s", got)
	}
}

// TestPrunable: what pruning may remove; the policy that adapters are of stays.
func TestPrunable(t *testing.T) {
	t.Parallel()
	g := planned(t, "policy.lora={rank: 2, alpha: 4}", "loss.kl.ref_every=0", "warm_start.chunk=300")
	for stage, want := range map[graph.Stage][]string{
		graph.StageWarm: {"/run/policy/v000000"}, graph.StageLearn: {"/run/policy/v000001", "/run/policy/v000001.optim"}, graph.StageRollout: nil, graph.StageBuffer: nil, graph.StageEvaluate: nil,
	} {
		task := graph.Task{Node: graph.Node{Stage: stage, Iteration: 1}}
		if got := g.Prunable(task); !slices.Equal(got, want) || task.Node.Prunable() != (want != nil) {
			t.Errorf("of %s: %q, want %q", task, got, want)
		}
	}
	if !(graph.Node{Stage: graph.StageGradient}).Prunable() || !(graph.Node{Stage: graph.StageReduce}).Prunable() {
		t.Error("gradients stay")
	}
}

// TestPaths: where files lie is a contract.
func TestPaths(t *testing.T) {
	t.Parallel()
	d := graph.Dir("/run")
	task := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 3, Wave: 1}, Shard: 7}
	got := []string{
		d.Identity(), d.Recipe(), d.Tasks(), d.Delta(12), d.Optimizer(1), d.Critic(1), d.Score(1, 2), d.Waiting(3), d.Reduced(1, 2, 3), d.StepOptimizer(1, 2), d.Logs(), d.Log(task, 2), d.Jobs(), d.ExitRecord(task, 1, 2), d.Waits(), d.Report(),
		d.Metrics(1), d.Usage(1), d.Close(1), d.WarmOptimizer(1), d.Base(), d.Rel("/run/a/b"), d.Rel("relative"),
	}
	want := []string{
		"/run/run.json", "/run/recipe.yaml", "/run/tasks.parquet", "/run/policy/v000012.delta", "/run/policy/v000001.optim", "/run/policy/v000001.critic", "/run/iter/000001/score/00002.parquet", "/run/iter/000003/waiting.parquet",
		"/run/iter/000001/grad/step-002/sum/00003.arrow", "/run/iter/000001/step/002.optim", "/run/logs", "/run/logs/rollout-000003-w01-00007.2.log", "/run/jobs", "/run/jobs/exit/rollout-000003-w01-00007.1.2.json", "/run/jobs/waits", "/run/report",
		"/run/iter/000001/metrics.parquet", "/run/iter/000001/usage.parquet", "/run/iter/000001/close.json", "/run/warm/000001.optim", "/run/policy/base", "a/b", "relative",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	g := planned(t)
	if first, second := g.CriticPath(1), g.CriticPath(2); first != "/run/policy/v000000" || second != "/run/policy/v000001.critic" {
		t.Errorf("critics %s and %s", first, second)
	}
}

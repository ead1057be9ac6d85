package worker

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
	"github.com/lathe-rl/lathe/pkg/stage/warm"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// of is a worker of a run of jobs/smoke.yaml that reads from one folder and writes into
// another.
func of(t *testing.T, dir graph.Dir, settings ...string) *Worker {
	t.Helper()
	resolved, err := recipe.Load(sourcetree.Path("jobs", "smoke.yaml"), settings)
	if err != nil {
		t.Fatal(err)
	}
	r := &rundir.Run{Dir: dir, Recipe: resolved.Recipe, Graph: graph.Graph{Dir: dir, Recipe: resolved.Recipe}}
	w := New(r, seal.AttemptFromEnv(), "test", t.Logf)
	w.Output = "/out"
	return w
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(learn.Inputs{}, "PolicyOf"), cmpopts.IgnoreFields(buffer.Inputs{}, "WaveOf"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Checkpoints of a warm start of 300 steps, in pieces of 150 and 200 and as one.
func TestWarmInputs(t *testing.T) {
	t.Parallel()
	chunk := func(k int) graph.Task {
		return graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: k}}
	}
	half := of(t, "/run")
	diff(t, "the first half", warm.Inputs{Chunk: 1, LastStep: 150, PolicyOutput: "/out/warm/000001", PolicyVersion: -1, OptimizerOutput: "/out/warm/000001.optim"}, half.warmInputs(chunk(1)))
	diff(t, "the last half", warm.Inputs{
		Chunk: 2, Policy: "/run/warm/000001", Optimizer: "/run/warm/000001.optim", FirstStep: 150, LastStep: 300, PolicyOutput: "/out/policy/v000000",
	}, half.warmInputs(chunk(2)))
	whole := of(t, "/run", "warm_start.chunk=300", "policy.lora={rank: 2, alpha: 4}", "loss.kl.ref_every=0")
	whole.Run.Identity.PolicySource, whole.Run.Identity.Pool = "/hf", &rundir.DataFile{Path: "/pool.parquet", SHA256: "aa"}
	diff(t, "as one, of an adapter, on a pool", warm.Inputs{
		Chunk: 1, Source: "/hf", Pool: "/pool.parquet", PoolSHA256: "aa", LastStep: 300, PolicyOutput: "/out/policy/v000000", Base: "/out/policy/base",
	}, whole.warmInputs(chunk(1)))
	for _, c := range []struct{ size, chunk, first, last int }{{200, 1, 0, 200}, {200, 2, 200, 300}, {0, 1, 0, 300}, {1, 2, 1, 2}} {
		w := of(t, "/run")
		w.Run.Recipe.WarmStart.Chunk, w.Run.Graph.Recipe.WarmStart.Chunk = c.size, c.size
		in := w.warmInputs(chunk(c.chunk))
		if in.FirstStep != c.first || in.LastStep != c.last || (in.PolicyVersion == 0) != (c.last == 300) {
			t.Errorf("%+v: steps %d to %d, of version %d", c, in.FirstStep, in.LastStep, in.PolicyVersion)
		}
	}
	// The first piece starts from another run's policy and, where it is kept, its optimizer.
	whole.Run.Identity.Origin = &rundir.Origin{PolicySHA256: "bb", OptimizerSHA256: "cc"}
	whole.Run.Identity.RecipeFolder, whole.Run.Identity.WarmStartData = "/recipe", []rundir.DataFile{{Path: "d", SHA256: "dd"}, {Path: "e", SHA256: "ee"}}
	from := warm.Inputs{
		Chunk: 1, Source: "/hf", SourceSHA256: "bb", Pool: "/pool.parquet", PoolSHA256: "aa", LastStep: 300, PolicyOutput: "/out/policy/v000000", Base: "/out/policy/base",
		DataFolder: "/recipe", Data: []env.Input{{Path: "d", SHA256: "dd"}, {Path: "e", SHA256: "ee"}},
	}
	diff(t, "from another run", from, whole.warmInputs(chunk(1)))
	whole.Run.Recipe.Start.Optimizer = recipe.StartKeep
	from.Optimizer, from.OptimizerSHA256, from.OptimizerOutput = "/hf.optim", "cc", "/out/policy/v000000.optim"
	diff(t, "from another run, with its optimizer", from, whole.warmInputs(chunk(1)))
	if got := whole.learnInputs(graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 1}}).Optimizer; got != "/run/policy/v000000.optim" {
		t.Errorf("iteration 1 goes on with the optimizer %q", got)
	}
	half.Run.Identity.Origin = whole.Run.Identity.Origin
	if in := half.warmInputs(chunk(2)); in.SourceSHA256 != "" {
		t.Errorf("the second half starts from another run: %+v", in)
	}
}

// What the optimizer steps of an iteration start from and make: 2 iterations of 2 epochs
// of 2 mini-batches, in one task or, with gradient shards, a step a task.
func TestLearnInputs(t *testing.T) {
	t.Parallel()
	task := func(k, step, shard int) graph.Task {
		return graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: k, Step: step}, Shard: shard}
	}
	steps := []string{"loss.epochs=2", "loss.mini_batches=2", "loss.kl.coef=0.1", "loss.kl.ref_every=1"}
	whole := of(t, "/run", steps...)
	diff(t, "iteration 1", learn.Inputs{
		Iteration: 1, Batch: "/run/iter/000001/batch.arrow", Policy: "/run/policy/v000000", Start: "/run/policy/v000000", Reference: "/run/policy/v000000",
		LastStep: 4, StepsTotal: 8, PolicyOutput: "/out/policy/v000001", OptimizerOutput: "/out/policy/v000001.optim", PolicyVersion: 1, ReferenceOutput: "/out/policy/v000001.ref",
	}, whole.stepInputs(task(1, 0, 0)))
	second := whole.stepInputs(task(2, 0, 0))
	diff(t, "iteration 2", learn.Inputs{
		Iteration: 2, Batch: "/run/iter/000002/batch.arrow", Policy: "/run/policy/v000001", Start: "/run/policy/v000001", Optimizer: "/run/policy/v000001.optim",
		Reference: "/run/policy/v000001.ref", LastStep: 4, StepsSoFar: 4, StepsTotal: 8,
		PolicyOutput: "/out/policy/v000002", OptimizerOutput: "/out/policy/v000002.optim", PolicyVersion: 2, ReferenceOutput: "/out/policy/v000002.ref",
	}, second)
	if got := second.PolicyOf(7); got != "/run/policy/v000007" {
		t.Errorf("version 7 lies in %s", got)
	}

	self := of(t, "/run", "advantage.teacher={coef: 1, context: improve}", "schedule.iterations=3")
	for k, want := range map[int]string{1: "/run/policy/v000000", 3: "/run/policy/v000002"} {
		if in := self.stepInputs(task(k, 0, 0)); in.Teacher != want || in.TeacherSHA256 != "" {
			t.Errorf("iteration %d: the policy is taught by %q, want %q", k, in.Teacher, want)
		}
	}
	folder := of(t, "/run", "advantage.teacher={coef: 1, path: ../t}")
	folder.Run.Identity.Teacher = &rundir.DataFile{Path: "/t", SHA256: "aa"}
	if in := folder.stepInputs(task(2, 0, 0)); in.Teacher != "/t" || in.TeacherSHA256 != "aa" {
		t.Errorf("a folder: %q %q", in.Teacher, in.TeacherSHA256)
	}

	sharded := of(t, "/run", append(steps, "schedule.gradient_shards=3", "schedule.gradient_fan_in=2")...)
	between := sharded.stepInputs(task(2, 1, 0))
	diff(t, "a step between", learn.Inputs{
		Iteration: 2, Batch: "/run/iter/000002/batch.arrow", Policy: "/run/iter/000002/step/000", Start: "/run/policy/v000001", Optimizer: "/run/iter/000002/step/000.optim",
		Reference: "/run/policy/v000001.ref", FirstStep: 1, LastStep: 2, StepsSoFar: 4, StepsTotal: 8, PolicyVersion: -1,
		PolicyOutput: "/out/iter/000002/step/001", OptimizerOutput: "/out/iter/000002/step/001.optim",
		Gradients: []string{sharded.Run.Dir.Reduced(2, 1, 0), sharded.Run.Dir.Reduced(2, 1, 1)},
	}, between)
	last := sharded.stepInputs(task(2, 3, 0))
	if last.PolicyOutput != "/out/policy/v000002" || last.PolicyVersion != 2 || last.ReferenceOutput != "/out/policy/v000002.ref" || last.FirstStep != 3 || last.LastStep != 4 {
		t.Errorf("the last step: %+v", last)
	}
	for shard, want := range [][]string{{sharded.Run.Dir.Gradient(2, 1, 0)}, {sharded.Run.Dir.Gradient(2, 1, 1), sharded.Run.Dir.Gradient(2, 1, 2)}} {
		n := graph.Task{Node: graph.Node{Stage: graph.StageReduce, Iteration: 2, Step: 1}, Shard: shard}
		diff(t, "gradients that are added up", want, sharded.reduceInputs(n).Gradients)
	}

	// In parts, three gradients are summed by two tasks, whose sums two tasks apply.
	parts := of(t, "/run", append(steps, "schedule.gradient_shards=3", "schedule.gradient_fan_in=8")...)
	parts.Run.Recipe.Schedule.ApplyShards, parts.Run.Graph.Recipe.Schedule.ApplyShards = 2, 2 // a new policy is one file, which no recipe cuts
	diff(t, "gradients that are summed in parts", []string{"/run/iter/000002/grad/step-001/00000.arrow", "/run/iter/000002/grad/step-001/00001.arrow", "/run/iter/000002/grad/step-001/00002.arrow"},
		parts.sumInputs(task(2, 1, 0)).Gradients)
	applied := parts.stepInputs(task(2, 1, 0))
	diff(t, "sums that are applied", []string{parts.Run.Dir.PartSum(2, 1, 0), parts.Run.Dir.PartSum(2, 1, 1)}, applied.Gradients)
	diff(t, "parts that are gathered", []string{graph.PartOf("/run/iter/000002/step/001", 0), graph.PartOf("/run/iter/000002/step/001", 1)}, applied.Parts)

	critic := of(t, "/run", "preset=ppo", "factors=[]", "policy.critic=model", "schedule.gradient_shards=2", "loss.mini_batches=2")
	for _, c := range []struct {
		k, step                                                 int
		start, critic, optimizer, criticOutput, optimizerOutput string
	}{
		{1, 0, "/run/policy/v000000", "/run/policy/v000000", "", "/out/iter/000001/step/000.critic", "/out/iter/000001/step/000.critic.optim"},
		{1, 1, "/run/policy/v000000", "/run/iter/000001/step/000.critic", "/run/iter/000001/step/000.critic.optim", "/out/policy/v000001.critic", "/out/policy/v000001.critic.optim"},
		{2, 0, "/run/policy/v000001.critic", "/run/policy/v000001.critic", "/run/policy/v000001.critic.optim", "/out/iter/000002/step/000.critic", "/out/iter/000002/step/000.critic.optim"},
	} {
		in := critic.stepInputs(task(c.k, c.step, 0))
		diff(t, "the critic", []string{c.start, c.critic, c.optimizer, c.criticOutput, c.optimizerOutput, ""},
			[]string{in.StartCritic, in.Critic, in.CriticOptimizer, in.CriticOutput, in.CriticOptimizerOutput, in.Reference})
	}
	adapter := of(t, "/run", "policy.lora={rank: 2, alpha: 4}", "loss.kl.coef=0.1", "loss.kl.ref_every=0").stepInputs(task(1, 0, 0))
	if adapter.Base != "/out/policy/base" || adapter.Reference != "" || adapter.Critic != "" {
		t.Errorf("an adapter: %+v", adapter)
	}
}

// Rows 4 to 8 of a plan of 8, in the second of two shards, and the same of an
// evaluation of 16 problems.
func TestSampleInputs(t *testing.T) {
	t.Parallel()
	w := of(t, "/run", "schedule.staleness=1", "schedule.iterations=3")
	sampled := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 3}, Shard: 1}
	diff(t, "rollouts", rollout.Inputs{
		Plan: "/run/iter/000003/plan.parquet", FirstRow: 4, LastRow: 8, PolicyFolder: "/run/policy/v000001", PolicyVersion: 1, Iteration: 3, Shard: 1, Of: 2,
		Output: "/out/iter/000003/rollout/00001.parquet",
	}, w.rolloutInputs(sampled))
	judged := graph.Task{Node: sampled.Judging(), Shard: 1}
	diff(t, "scores", score.Inputs{
		Plan: "/run/iter/000003/plan.parquet", FirstRow: 4, LastRow: 8, Rollout: "/run/iter/000003/rollout/00001.parquet", Iteration: 3, Shard: 1, Of: 2,
		Output: "/out/iter/000003/score/00001.parquet", Policy: "/run/policy/v000000",
	}, w.scoreInputs(judged))
	measured := graph.Task{Node: graph.Node{Stage: graph.StageEvalRollout, Iteration: 3, Wave: 1}, Shard: 1}
	before := measured.InWave(0)
	diff(t, "rollouts of an evaluation", rollout.Inputs{
		Plan: w.Run.Dir.EvaluationPlan(), FirstRow: 8, LastRow: 16, PolicyFolder: "/run/policy/v000003", PolicyVersion: 3, Iteration: 3, Shard: 1, Of: 2, Evaluation: true, Wave: 1,
		Output: w.Output.Sampled(measured.Node, 1),
		Before: &stage.WaveRef{Rollout: w.Run.Dir.Sampled(before, 1), Score: w.Run.Dir.Sampled(before.Judging(), 1)},
	}, w.rolloutInputs(measured))
	diff(t, "scores of an evaluation", w.Run.Dir.Sampled(before.Judging(), 1), w.scoreInputs(graph.Task{Node: measured.Judging(), Shard: 1}).Before)
}

// The last of three iterations is closed with two of its own shards and one of the first;
// one of its own was given up, and late for good are one of its own and one of the second.
func TestBufferInputs(t *testing.T) {
	t.Parallel()
	dir := graph.Dir(t.TempDir())
	w := of(t, dir, "schedule.iterations=3", "schedule.staleness=1", "schedule.oversample=2", "rollout.prompts=4", "rollout.shards=4", "schedule.batch_segments=9", "schedule.quorum=0.5")
	for _, c := range []closing.Closing{
		{Iteration: 1, Shards: 4, Included: []int{0, 1}, Late: []int{2, 3}},
		{Iteration: 2, Shards: 4, Included: []int{0, 1, 2}, Late: []int{3}, Carried: []closing.Ref{{Iteration: 1, Shard: 2}}},
		{Iteration: 3, Shards: 4, Included: []int{0, 2}, LeftOut: []int{1}, Late: []int{3}, Carried: []closing.Ref{{Iteration: 1, Shard: 3}}},
	} {
		if err := closing.Seal(w.Run, c, w.Attempt, "test"); err != nil {
			t.Fatal(err)
		}
	}
	lost := func(k, shard int) buffer.ShardRef {
		return buffer.ShardRef{Iteration: k, FirstRow: 2 * shard, LastRow: 2*shard + 2}
	}
	ref := func(k, shard int) buffer.ShardRef {
		r := lost(k, shard)
		r.Rollout, r.Score = dir.Rollout(k, shard), dir.Score(k, shard)
		return r
	}
	plan := func(d graph.Dir, k int) buffer.PlanRef { return buffer.PlanRef{Iteration: k, Path: d.Plan(k)} }
	inputs := func(k int) buffer.Inputs {
		in, err := w.bufferInputs(t.Context(), k, seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	diff(t, "the start", buffer.Inputs{StateOutput: "/out/iter/000000/state.parquet", StatsOutput: w.Output.Stats(0), PlanOutputs: []buffer.PlanRef{plan("/out", 1), plan("/out", 2)}, PlanRows: 8}, inputs(0))
	w.Run.Recipe.Start.Curriculum = recipe.StartKeep
	if in := inputs(0); in.State != dir.Inherited("state") || in.Stats != dir.Inherited("stats") {
		t.Errorf("with another run's curriculum it starts from %q and %q", in.State, in.Stats)
	}
	diff(t, "iteration 2", buffer.Inputs{
		Iteration: 2, Plans: []buffer.PlanRef{plan(dir, 2), plan(dir, 1)}, Shards: []buffer.ShardRef{ref(2, 0), ref(2, 1), ref(2, 2), ref(1, 2)},
		State: dir.State(1), Stats: dir.Stats(1), Waiting: dir.Waiting(1), StateOutput: w.Output.State(2), StatsOutput: w.Output.Stats(2),
		BatchOutput: w.Output.Batch(2), LedgerOutput: w.Output.Ledger(2), WaitingOutput: w.Output.Waiting(2), PlanRows: 8,
	}, inputs(2))
	if in := inputs(1); in.Waiting != "" || in.WaitingOutput == "" || len(in.Plans) != 1 {
		t.Errorf("nothing waits before iteration 1: %+v", in)
	}
	last := inputs(3)
	diff(t, "iteration 3", buffer.Inputs{
		Iteration: 3, Plans: []buffer.PlanRef{plan(dir, 3), plan(dir, 1), plan(dir, 2)}, Shards: []buffer.ShardRef{ref(3, 0), ref(3, 2), ref(1, 3)},
		LeftOut: []buffer.ShardRef{lost(3, 1)}, RunEnded: []buffer.ShardRef{lost(2, 3), lost(3, 3)},
		State: dir.State(2), Stats: dir.Stats(2), Waiting: dir.Waiting(2), StateOutput: w.Output.State(3), StatsOutput: w.Output.Stats(3),
		BatchOutput: w.Output.Batch(3), LedgerOutput: w.Output.Ledger(3), PlanRows: 8,
	}, last)
	wave, err := last.WaveOf(shard.Ref{Iteration: 2, Row: 5, Wave: 1}, "")
	n := graph.Node{Stage: graph.StageRollout, Iteration: 2, Wave: 1}
	if err != nil || wave != (buffer.WaveRef{Rollout: dir.Sampled(n, 2), Score: dir.Sampled(n.Judging(), 2)}) {
		t.Errorf("row 5 of iteration 2, wave 1, lies in %+v (%v)", wave, err)
	}
	w.Run.Recipe.Schedule.Late, w.Run.Graph.Recipe.Schedule.Late = recipe.LateDrop, recipe.LateDrop
	if in := inputs(3); len(in.RunEnded) != 0 || !slices.Equal([]int{6}, []int{in.Late[0].FirstRow}) || len(in.Late) != 1 {
		t.Errorf("where late shards are dropped, late are %+v and ended are %+v", in.Late, in.RunEnded)
	}
	if _, err := w.bufferInputs(t.Context(), 4, seal.Options{}); exitcode.Code(err) == 0 || !strings.Contains(err.Error(), "close.json") {
		t.Errorf("an iteration that is not closed: %v", err)
	}
}

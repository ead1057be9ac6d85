package learn_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// batch samples, scores and folds one iteration, and returns what the learner
// reads.
func batch(r *stagetest.Rig) string {
	r.Helper()
	plan, rows := r.Plan(min(16, len(r.Env.Set().Tasks(env.Train))))
	_, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, rollout.Inputs{
		Plan: plan, LastRow: len(rows), PolicyFolder: r.Policy(), Iteration: 1, Of: 1, Output: r.Path("rollout.parquet"),
	})
	r.Check(err)
	_, err = score.Run(r.Context(), r.Job, r.Recipe.Score, r.Env, score.Inputs{
		Plan: plan, Rollout: r.Path("rollout.parquet"), Iteration: 1, Of: 1, Output: r.Path("score.parquet"),
	})
	r.Check(err)
	chooser, err := r.Recipe.NewCurriculum()
	r.Check(err)
	r.Check(buffer.Run(r.Context(), r.Job, buffer.SettingsOf(r.Recipe), r.Env, chooser, buffer.Inputs{
		Iteration: 1, Plans: []buffer.PlanRef{{Iteration: 1, Path: plan}},
		Shards:      []buffer.ShardRef{{Iteration: 1, Rollout: r.Path("rollout.parquet"), Score: r.Path("score.parquet")}},
		StateOutput: r.Path("state.parquet"), StatsOutput: r.Path("stats.parquet"), BatchOutput: r.Path("batch.arrow"), LedgerOutput: r.Path("ledger.parquet"),
	}))
	return r.Path("batch.arrow")
}

func inputs(r *stagetest.Rig, batch, name string) learn.Inputs {
	steps := r.Recipe.Loss.Epochs * r.Recipe.Loss.MiniBatches
	in := learn.Inputs{
		Iteration: 1, Batch: batch, Policy: r.Policy(), LastStep: steps, StepsTotal: steps,
		PolicyVersion: 1,
	}
	if r.Recipe.Loss.KL.Coef != 0 {
		in.Reference = r.Policy()
	}
	if r.Recipe.Policy.Critic == recipe.CriticModel {
		in.Critic = r.Policy()
	}
	return to(in, r.Path(name))
}

// to names what is written.
func to(in learn.Inputs, policy string) learn.Inputs {
	in.PolicyOutput, in.OptimizerOutput = policy, policy+".optim"
	if in.Critic != "" {
		in.CriticOutput, in.CriticOptimizerOutput = policy+".critic", policy+".critic.optim"
	}
	return in
}

// after are the inputs of the update that goes on from what another has written.
func after(in learn.Inputs, policy string) learn.Inputs {
	in.Policy, in.Optimizer, in.Critic, in.CriticOptimizer = in.PolicyOutput, in.OptimizerOutput, in.CriticOutput, in.CriticOptimizerOutput
	return to(in, policy)
}

func update(r *stagetest.Rig, in learn.Inputs) map[string]float64 {
	r.Helper()
	m, err := learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in)
	r.Check(err)
	return m.Metrics
}

// TestRatioIsExactlyOne: sampler and learner are one code at one temperature
// over one truncated support, so on policy the importance ratio is 1 to the last bit.
func TestRatioIsExactlyOne(t *testing.T) {
	t.Parallel()
	for _, settings := range [][]string{
		{},
		{"rollout.temperature=0.7"},
		{"rollout.temperature=1.3", "rollout.top_k=4"},
		{"rollout.temperature=0.9", "rollout.top_p=0.9"},
		{"rollout.top_k=12", "rollout.top_p=0.95", "schedule.micro_batch_tokens=16"},
		{"schedule.shared_prompt_tokens=64", "schedule.micro_batch_tokens=80", "rollout.temperature=0.9"},
		{"policy.dtype=bfloat16"},
		{"policy.dtype=bfloat16", "optimizer.state=bfloat16", "rollout.temperature=0.7"},
		{"policy.compute=bfloat16", "schedule.shared_prompt_tokens=64", "schedule.micro_batch_tokens=80"},
	} {
		t.Run(fmt.Sprint(settings), func(t *testing.T) {
			r := stagetest.New(t, append(settings, "loss.epochs=2")...)
			data := batch(r)
			got := update(r, inputs(r, data, "learned"))
			if got["trained_tokens"] == 0 || got["optimizer_steps"] != 2 {
				t.Fatalf("nothing was learned from: %v", got)
			}
			if got["first_step_ratio_deviation_max"] != 0 {
				t.Errorf("the first epoch's ratios deviate from 1 by up to %g", got["first_step_ratio_deviation_max"])
			}
			if got["ratio_deviation_max"] == 0 {
				t.Errorf("after a step the ratios are still 1: %v", got)
			}
			// The test can fail: at another temperature the ratios are not 1.
			r.Recipe.Rollout.Temperature *= 1.1
			if off := update(r, inputs(r, data, "hotter")); off["first_step_ratio_deviation_max"] == 0 {
				t.Error("at another temperature than the sampler's the ratios are still 1")
			}
		})
	}
}

// TestGradientShardsGiveTheSameBytes: one task, or any number of gradient
// shards, added up in between or not, and an apply, which goes on from the files of the step before. So it is
// in every precision.
func TestGradientShardsGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, precision := range [][]string{
		{},
		{"policy.dtype=bfloat16"},
		{"policy.dtype=bfloat16", "optimizer.state=bfloat16"},
		{"policy.compute=bfloat16"},
		{"schedule.shared_prompt_tokens=64", "schedule.micro_batch_tokens=80"},
	} {
		t.Run(fmt.Sprint(precision), func(t *testing.T) { gradientShardsGiveTheSameBytes(t, precision) })
	}
}

func gradientShardsGiveTheSameBytes(t *testing.T, settings []string) {
	r := stagetest.New(t, append([]string{"schedule.gradient_units=5", "loss.mini_batches=2", "schedule.micro_batch_tokens=24"}, settings...)...)
	data := batch(r)
	update(r, inputs(r, data, "whole"))
	want, moments := r.Digest(r.Path("whole")), r.Digest(r.Path("whole.optim"))
	if want == r.Digest(r.Policy()) {
		t.Fatal("the policy has not changed")
	}
	_, weights, err := checkpoint.Load(r.Path("whole"))
	r.Check(err)
	if half := weights[0].DType == safetensors.BF16; half != (r.Recipe.Policy.DType == "bfloat16") {
		t.Fatalf("the policy is saved as %s", weights[0].DType)
	}
	r.Job.Threads = 2
	for _, cut := range [][2]int{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {5, 2}, {4, 3}} {
		shards, tasks := cut[0], cut[1] // tasks that add them up first
		r.Recipe.Schedule.GradientShards = shards
		in := inputs(r, data, "")
		for step := range 2 {
			in.FirstStep, in.LastStep, in.Gradients = step, step+1, nil
			optimizer := in.Optimizer
			in.Optimizer = r.Path("nowhere") // what computes or adds up gradients does not read it
			for n := range shards {
				path := r.Path(fmt.Sprintf("grad-%d-%d-%d-%d.arrow", shards, tasks, step, n))
				_, err := learn.RunGradient(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in, step, n, shards, path)
				r.Check(err)
				in.Gradients = append(in.Gradients, path)
			}
			if tasks > 0 {
				gradients, sums := in.Gradients, []string(nil)
				for n := range tasks {
					in.Gradients = gradients[shards*n/tasks : shards*(n+1)/tasks]
					path := r.Path(fmt.Sprintf("sum-%d-%d-%d-%d.arrow", shards, tasks, step, n))
					_, err := learn.RunReduce(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in, n, tasks, path)
					r.Check(err)
					sums = append(sums, path)
				}
				in.Gradients = sums
			}
			in.Optimizer = optimizer
			out := r.Path(fmt.Sprintf("policy-%d-%d-%d", shards, tasks, step))
			in.PolicyOutput, in.OptimizerOutput = out, out+".optim"
			update(r, in)
			in.Policy, in.Optimizer = out, out+".optim"
		}
		if got := r.Digest(in.Policy); got != want {
			t.Errorf("%d gradient shards, added up by %d: policy %s, want %s", shards, tasks, got, want)
		}
		if got := r.Digest(in.Optimizer); got != moments {
			t.Errorf("%d gradient shards, added up by %d: optimizer %s, want %s", shards, tasks, got, moments)
		}
	}
}

// TestSharedPrompts: with one copy of a group's prompt, a step sees the same
// losses to the last bit and the same gradients but for rounding, with any
// micro-batches; and other bits of the policy than without.
func TestSharedPrompts(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "loss.mini_batches=1", "schedule.gradient_units=2", "loss.kl.coef=0.01", "loss.entropy_coef=0.01")
	data := batch(r)
	apart := update(r, inputs(r, data, "apart"))
	digests := map[string]bool{r.Digest(r.Path("apart")): true}
	for _, pieces := range []int{64, 500} {
		r.Recipe.Schedule.SharedPromptTokens = pieces
		var first string
		for _, limit := range []int{0, 500, 1200} {
			r.Recipe.Schedule.MicroBatchTokens = limit
			name := fmt.Sprintf("shared-%d-%d", pieces, limit)
			got := update(r, inputs(r, data, name))
			for key, want := range apart {
				switch {
				case key == "grad_norm":
					if math.Abs(got[key]-want) > 1e-5*want || want == 0 {
						t.Errorf("%s: the gradients' norm is %v, apart %v", name, got[key], want)
					}
				case got[key] != want:
					t.Errorf("%s: %s is %v, apart %v", name, key, got[key], want)
				}
			}
			digest := r.Digest(r.Path(name))
			if first == "" {
				first = digest
			}
			if digest != first {
				t.Errorf("%s: the split into micro-batches changes the policy", name)
			}
		}
		if digests[first] {
			t.Errorf("pieces of %d tokens give the policy of others: were any prompts shared?", pieces)
		}
		digests[first] = true
	}
}

// TestForeignGradientsAreRefused: shards that do not cover the units, or that
// are no gradients of this policy.
func TestForeignGradientsAreRefused(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	in := inputs(r, batch(r), "learned")
	half := r.Path("half.arrow")
	_, err := learn.RunGradient(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in, 0, 0, 2, half)
	r.Check(err)
	alien := r.Path("alien.arrow")
	_, err = arrowfile.WriteTensors(alien, []arrowfile.Tensor{{Name: "0/0/alien", Shape: []int{1}, Data: []float32{1}}},
		map[string]string{"statistics": "{}"}, seal.AttemptFromEnv(), seal.Manifest{})
	r.Check(err)
	mute := r.Path("mute.arrow")
	_, err = arrowfile.WriteTensors(mute, nil, nil, seal.AttemptFromEnv(), seal.Manifest{})
	r.Check(err)
	for _, gradients := range [][]string{{half}, {half, half}, {alien}, {mute}} {
		in.Gradients = gradients
		if _, err := learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in); exitcode.Code(err) != exitcode.Data && exitcode.Code(err) != exitcode.Bug {
			t.Errorf("%v: %v", gradients, err)
		}
	}
	if _, err := os.Stat(in.PolicyOutput); err == nil {
		t.Error("a policy was made from foreign gradients")
	}
}

// TestEmptyBatchIsASkip: nothing to learn from changes nothing, and says so.
func TestEmptyBatchIsASkip(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	data := r.Path("empty.arrow")
	_, err := arrowfile.WriteBatch(data, nil, seal.AttemptFromEnv(), seal.Manifest{})
	r.Check(err)
	got := update(r, inputs(r, data, "learned"))
	if got["skipped_steps"] != 1 || got["optimizer_steps"] != 1 || got["sequences"] != 0 || got["grad_norm"] != 0 {
		t.Errorf("metrics %v", got)
	}
	before, err := os.ReadFile(filepath.Join(r.Policy(), "model.safetensors"))
	r.Check(err)
	after, err := os.ReadFile(filepath.Join(r.Path("learned"), "model.safetensors"))
	r.Check(err)
	if !bytes.Equal(before, after) {
		t.Error("a skipped step changed the policy")
	}
	if _, steps := state(r, r.Path("learned.optim")); steps != 0 {
		t.Errorf("a skipped step is counted: %d steps", steps)
	}
}

// A second turn that has no room leaves the first one's answer to be scored.
func TestTurnsWithoutRoom(t *testing.T) {
	t.Parallel()
	const filler = "################################################################"
	r := stagetest.New(t, "env.max_turns=2", "env.prompts.refine={question}={previous_response};"+filler+filler)
	batch(r)
	outcomes := map[string]int{}
	for _, row := range stagetest.Read[shard.Score](r, r.Path("score.parquet")) {
		outcomes[row.Outcome]++
	}
	if outcomes[string(shard.OutcomeInfra)] > 0 || outcomes[string(shard.OutcomeOK)] == 0 {
		t.Errorf("outcomes %v", outcomes)
	}
}

// A step whose gradient is not finite is left out and counted.
func TestSkippedStep(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "loss.entropy_coef=1e39")
	got := update(r, inputs(r, batch(r), "learned"))
	if got["skipped_steps"] != got["optimizer_steps"] || got["skipped_steps"] == 0 || got["grad_norm"] != 0 {
		t.Errorf("%v", got)
	}
}

// The loss of an iteration is the mean over its optimizer steps: as many as there are, each of
// which changes nothing here.
func TestLossIsAMeanOverSteps(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "loss.mini_batches=1", "loss.epochs=1", "loss.entropy_coef=0.1", "optimizer.learning_rate=0")
	data := batch(r)
	one := update(r, inputs(r, data, "one"))
	r.Recipe.Loss.Epochs = 3
	three := update(r, inputs(r, data, "three"))
	for _, name := range []string{"loss", "policy_loss", "entropy_loss"} {
		if one["optimizer_steps"] != 1 || three["optimizer_steps"] != 3 || math.Abs(three[name]-one[name]) > 1e-9 {
			t.Errorf("%s of %g steps is %g, of %g %g", name, one["optimizer_steps"], one[name], three["optimizer_steps"], three[name])
		}
	}
}

// TestReferenceIsRefreshed: ref ← α·policy + (1-α)·ref, number by number
// (ExIt §2.2), and the divergence from it is 0 where it is the
// policy itself.
func TestReferenceIsRefreshed(t *testing.T) {
	t.Parallel()
	const alpha = 0.25
	r := stagetest.New(t, "loss.kl.coef=0.1", "loss.kl.ref_every=1", fmt.Sprintf("loss.kl.ref_alpha=%g", alpha))
	in := inputs(r, batch(r), "learned")
	in.ReferenceOutput = r.Path("reference")
	if got := update(r, in); got["reference_kl"] != 0 {
		t.Errorf("the policy is its own reference, and diverges from it by %g", got["reference_kl"])
	}
	was, is, ref := weights(r, in.Policy), weights(r, in.PolicyOutput), weights(r, in.ReferenceOutput)
	moved := 0
	for i := range ref {
		for j, got := range ref[i].Data {
			// One rounding of the exact sum may differ from ours by one unit
			// in the last place.
			want := alpha*float64(is[i].Data[j]) + (1-alpha)*float64(was[i].Data[j])
			if diff := float64(got) - want; diff > 1e-6 || diff < -1e-6 {
				t.Fatalf("%s[%d] is %g, want %g", ref[i].Name, j, got, want)
			}
			if is[i].Data[j] != was[i].Data[j] {
				moved++
			}
		}
	}
	if moved == 0 {
		t.Error("the policy did not move: the test shows nothing")
	}
	next := inputs(r, in.Batch, "next")
	next.Policy, next.Optimizer, next.Reference = in.PolicyOutput, in.OptimizerOutput, in.ReferenceOutput
	if got := update(r, next); got["reference_kl"] <= 0 {
		t.Errorf("the policy has moved from its reference, and diverges by %g", got["reference_kl"])
	}
}

func weights(r *stagetest.Rig, folder string) []policy.Tensor {
	r.Helper()
	_, tensors, err := checkpoint.Load(folder)
	r.Check(err)
	return tensors
}

// TestLearningRaisesWhatPaid: after a step the trained responses with a
// positive advantage are more likely.
func TestLearningRaisesWhatPaid(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "optimizer.learning_rate=2e-5") // small enough for the first order to hold
	in := inputs(r, batch(r), "learned")
	first := update(r, in)
	again := in
	again.Policy, again.PolicyOutput, again.OptimizerOutput = in.PolicyOutput, r.Path("again"), r.Path("again.optim")
	if second := update(r, again); second["policy_loss"] >= first["policy_loss"] {
		t.Errorf("the loss on the same batch was %g and is %g after a step", first["policy_loss"], second["policy_loss"])
	}
}

package learn_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// critic are settings of PPO with a critic.
var critic = []string{
	"preset=ppo", "advantage.lambda=0.95", "loss.value.clip=0.2",
	"factors=[]", "loss.mini_batches=2", "loss.epochs=2", "schedule.micro_batch_tokens=24", "loss.value.coef=1",
}

// A critic is trained beside the policy or its adapter, saved beside it, and
// goes on from there; one task or gradient shards give the same bytes.
func TestCritic(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"policy":                    {},
		"adapter":                   {"policy.lora={rank: 4, alpha: 8}", "loss.kl.ref_every=0"},
		"without whitening":         {"advantage.whitening=false", "advantage.lambda=1"},
		"a model":                   {"policy.critic=model", "loss.value.learning_rate=1e-2"},
		"a model beside an adapter": {"policy.critic=model", "policy.lora={rank: 4, alpha: 8}", "loss.kl.ref_every=0"},
		"its own optimizer":         {"loss.value.learning_rate=1e-2", "loss.value.max_grad_norm=0.01"},
	} {
		t.Run(name, func(t *testing.T) {
			r := stagetest.New(t, append(append([]string{"schedule.gradient_units=5"}, critic...), settings...)...)
			data := batch(r)
			whole := inputs(r, data, "whole")
			got := update(r, whole)
			if got["first_step_ratio_deviation_max"] != 0 {
				t.Errorf("a value head changes log-probabilities: %v", got)
			}
			model := r.Recipe.Policy.Critic == recipe.CriticModel
			if _, apart := got["value_grad_norm"]; apart != (model || r.Recipe.Loss.Value.MaxGradNorm > 0) {
				t.Errorf("the norm of the value head's own gradient: %v", got)
			}
			if got["value_loss"] <= 0 {
				t.Errorf("the first critic is right about everything: %v", got)
			}
			c, err := checkpoint.LoadConfig(r.Policy())
			r.Check(err)
			of := whole.PolicyOutput
			if model {
				of = whole.CriticOutput
			}
			head, err := checkpoint.LoadValueHead(of, c)
			r.Check(err)
			moved := false
			for _, x := range head {
				moved = moved || x != 0
			}
			if !moved {
				t.Error("the value head was not trained")
			}
			r.Job.Threads = 2
			in := inputs(r, data, "")
			in.Start, in.StartCritic = in.Policy, in.Critic
			for step := range 4 {
				in.FirstStep, in.LastStep, in.Gradients = step, step+1, nil
				for n := range 3 {
					path := r.Path(fmt.Sprintf("grad-%d-%d.arrow", step, n))
					_, err := learn.RunGradient(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in, step, n, 3, path)
					r.Check(err)
					in.Gradients = append(in.Gradients, path)
				}
				in = to(in, r.Path(fmt.Sprintf("policy-%d", step)))
				update(r, in)
				in = after(in, "")
			}
			if model {
				if got, want := r.Digest(in.Critic), r.Digest(whole.CriticOutput); got != want {
					t.Errorf("gradient shards give critic %s, one task %s", got, want)
				}
				if got, want := r.Digest(in.CriticOptimizer), r.Digest(whole.CriticOptimizerOutput); got != want {
					t.Errorf("gradient shards give the critic's optimizer state %s, one task %s", got, want)
				}
			}
			if got, want := r.Digest(in.Policy), r.Digest(whole.PolicyOutput); got != want {
				t.Errorf("gradient shards give policy %s, one task %s", got, want)
			}
			if got, want := r.Digest(in.Optimizer), r.Digest(whole.OptimizerOutput); got != want {
				t.Errorf("gradient shards give optimizer state %s, one task %s", got, want)
			}
		})
	}
}

// Trained on one batch again and again, the critic comes to predict its
// returns.
func TestCriticLearns(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{recipe.CriticHead, recipe.CriticModel} {
		r := stagetest.New(t, append(critic, "policy.critic="+kind, "advantage.lambda=1", "optimizer.learning_rate=1e-3", "loss.epochs=1", "loss.mini_batches=1", "loss.value.clip=0")...)
		in := inputs(r, batch(r), "critic-0")
		first := update(r, in)
		last := first
		for i := range 12 {
			in = after(in, r.Path(fmt.Sprintf("critic-%d", i+1)))
			last = update(r, in)
		}
		if last["value_loss"] > 0.75*first["value_loss"] || last["explained_variance"] <= first["explained_variance"] {
			t.Errorf("%s: value loss from %g to %g, explained variance from %g to %g", kind,
				first["value_loss"], last["value_loss"], first["explained_variance"], last["explained_variance"])
		}
	}
}

// What a critic that is a model of its own learns does not touch the policy; what
// a head learns does.
func TestCriticApart(t *testing.T) {
	t.Parallel()
	for kind, apart := range map[string]bool{recipe.CriticHead: false, recipe.CriticModel: true} {
		r := stagetest.New(t, append(critic, "policy.critic="+kind, "loss.epochs=2", "loss.mini_batches=1")...)
		data := batch(r)
		digests := map[string]bool{}
		for _, coefficient := range []float64{0.1, 1} {
			r.Recipe.Loss.Value.Coef = coefficient
			in := inputs(r, data, fmt.Sprintf("%s-%g", kind, coefficient))
			update(r, in)
			digests[r.Digest(in.PolicyOutput)] = true
		}
		if same := len(digests) == 1; same != apart {
			t.Errorf("%s: with another weight of the value loss the policy is the same: %v", kind, same)
		}
	}
}

// TestCriticOfTurns: what stands between the turns of tool use is gone from the
// returns of the critic, or has its value, or a value of 0, and each is another
// policy. The values there are the same where responses share their prompt.
func TestCriticOfTurns(t *testing.T) {
	t.Parallel()
	r := stagetest.NewOf(t, "tooluse-smoke", append(critic, "advantage.gamma=0.99", "select=[]", "loss.epochs=1")...)
	data := batch(r)
	first := inputs(r, data, "first") // whose critic says more than 0
	update(r, first)
	digests := map[string]string{}
	for _, masked := range []string{"skip", "value", "zero"} {
		r.Recipe.Advantage.Masked = masked
		in := inputs(r, data, masked)
		in.Policy, in.PolicyOf = first.PolicyOutput, func(int) string { return r.Policy() }
		got := update(r, in)
		digest := r.Digest(in.PolicyOutput)
		if other, taken := digests[digest]; taken {
			t.Errorf("%s gives the policy of %s", masked, other)
		}
		digests[digest] = masked
		r.Recipe.Schedule.SharedPromptTokens, r.Recipe.Schedule.MicroBatchTokens = 600, 600
		in.PolicyOutput, in.OptimizerOutput = r.Path(masked+"-shared"), r.Path(masked+"-shared.optim")
		shared := update(r, in)
		r.Recipe.Schedule.SharedPromptTokens, r.Recipe.Schedule.MicroBatchTokens = 0, 24
		if math.Abs(got["explained_variance"]-shared["explained_variance"]) > 1e-6 {
			t.Errorf("%s: the critic explains %g of the returns, with shared prompts %g", masked, got["explained_variance"], shared["explained_variance"])
		}
	}
}

// A factor on advantages that comes after whitening multiplies the clipped
// surrogate, and neither the value loss nor the KL and entropy terms: with 3 for
// every turn the policy loss is three times what it was, and the others are the same.
func TestFactorsActOnTheSurrogateAlone(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, append(critic, "loss.epochs=1", "loss.mini_batches=1", "loss.kl.coef=0.1", "loss.entropy_coef=0.1", "optimizer.learning_rate=1e-2", "select=[]")...)
	data := batch(r)
	first := inputs(r, data, "first") // away from the reference, and with a critic that says more than 0
	update(r, first)
	with := func(name string, factor float64) map[string]float64 {
		sequences, _, err := arrowfile.ReadBatch(r.Context(), data, seal.Options{})
		r.Check(err)
		for i := range sequences {
			for turn := range sequences[i].TurnFactors {
				sequences[i].TurnFactors[turn] = factor
			}
		}
		_, err = arrowfile.WriteBatch(r.Path(name+".arrow"), sequences, seal.AttemptFromEnv(), r.Job.Manifest("buffer", 1, 0, 1, time.Now()))
		r.Check(err)
		in := inputs(r, r.Path(name+".arrow"), name)
		in.Policy = first.PolicyOutput
		return update(r, in)
	}
	one, three := with("one", 1), with("three", 3)
	for name, times := range map[string]float64{"policy_loss": 3, "value_loss": 1, "reference_loss": 1, "entropy_loss": 1, "explained_variance": 1} {
		if one[name] == 0 || math.Abs(three[name]/one[name]-times) > 1e-4 {
			t.Errorf("%s: %g with a factor of 3, %g with 1, want %g times that", name, three[name], one[name], times)
		}
	}
}

package learn_test

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// sampledElsewhere seals the sequences of a batch as if something else had
// sampled them. change may change what is known of the sampler.
func sampledElsewhere(r *stagetest.Rig, batch, name string, change func(*shard.Sequence)) string {
	r.Helper()
	sequences, _, err := arrowfile.ReadBatch(r.Context(), batch, seal.Options{})
	r.Check(err)
	for i := range sequences {
		change(&sequences[i])
	}
	_, err = arrowfile.WriteBatch(r.Path(name), sequences, seal.AttemptFromEnv(), seal.Manifest{})
	r.Check(err)
	return r.Path(name)
}

// shifted makes a sampler that was less sure of every token by some nats.
func shifted(nats float32) func(*shard.Sequence) {
	return func(s *shard.Sequence) {
		s.LogProbSource = shard.LogProbsServer
		for t, own := range s.LossMask {
			if own {
				s.OldLogProbs[t] -= nats
			}
		}
	}
}

func unknown(s *shard.Sequence) {
	s.LogProbSource = shard.LogProbsNone
	clear(s.OldLogProbs)
}

// TestOldLogProbsAreTheLearners: whatever a server says of its sampling, the
// policy that comes out is that of our own engine's sampling, and the gap to
// what it said is measured.
func TestOldLogProbsAreTheLearners(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "rollout.temperature=0.8", "rollout.top_k=20", "loss.epochs=2", "schedule.micro_batch_tokens=48")
	engine := batch(r)
	update(r, inputs(r, engine, "engine"))
	want := r.Digest(r.Path("engine"))
	for _, c := range []struct {
		name   string
		change func(*shard.Sequence)
		gap    map[string]float64
	}{
		{"exact", shifted(0), map[string]float64{
			"sampler_known_share": 1, "sampler_difference": 0, "sampler_difference_max": 0, "sampler_kl_k1": 0, "sampler_kl_k3": 0, "sampler_beyond_share": 0,
		}},
		{"shifted", shifted(1), map[string]float64{
			// log of the ratio old to sampler is 1 at every token.
			"sampler_known_share": 1, "sampler_difference": 1, "sampler_difference_max": 1, "sampler_kl_k1": -1,
			"sampler_kl_k3": math.E - 2, "sampler_beyond_share": 1, "correction": 1,
		}},
		{"unknown", unknown, map[string]float64{"sampler_known_share": 0, "sampler_difference": 0, "correction": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := update(r, inputs(r, sampledElsewhere(r, engine, c.name+".arrow", c.change), c.name))
			if r.Digest(r.Path(c.name)) != want {
				t.Error("the policy is not that of our own engine's sampling")
			}
			if got["first_step_ratio_deviation_max"] != 0 {
				t.Errorf("ratios deviate from 1 by up to %g", got["first_step_ratio_deviation_max"])
			}
			for name, value := range c.gap {
				// One rounding to float32 of a log-probability that is a few nats.
				if diff := math.Abs(got[name] - value); diff > 2e-6 || value == 0 && diff != 0 {
					t.Errorf("%s is %g, want %g", name, got[name], value)
				}
			}
		})
	}
}

// TestTruncatedIS: a sampler that gave every token a quarter of the learner's
// probability doubles the loss at a bound of 2, and changes nothing where it is
// unknown.
func TestTruncatedIS(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "loss.truncated_is=2")
	engine := batch(r)
	plain := update(r, inputs(r, engine, "plain"))
	doubled := update(r, inputs(r, sampledElsewhere(r, engine, "quarter.arrow", shifted(float32(math.Log(4)))), "quarter"))
	if doubled["correction"] != 2 || doubled["sampler_beyond_share"] != 1 {
		t.Errorf("correction %g of %g of the tokens, want 2 of all", doubled["correction"], doubled["sampler_beyond_share"])
	}
	if got, want := doubled["policy_loss"], 2*plain["policy_loss"]; math.Abs(got-want) > 1e-12 {
		t.Errorf("the loss is %g, want twice %g", got, plain["policy_loss"])
	}
	update(r, inputs(r, sampledElsewhere(r, engine, "none.arrow", unknown), "none"))
	if r.Digest(r.Path("none")) != r.Digest(r.Path("plain")) {
		t.Error("an unknown sampler does not weigh 1")
	}
}

// TestOldPolicyIsTheOneThatSampled: a batch that an earlier version sampled is
// learned from as if our engine had sampled it then, in one task and in
// gradient shards.
func TestOldPolicyIsTheOneThatSampled(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "loss.mini_batches=2", "schedule.gradient_units=4")
	engine := batch(r)
	update(r, inputs(r, engine, "newer"))
	stale := func(data, name string) learn.Inputs {
		in := inputs(r, data, name)
		in.Policy = r.Path("newer")
		in.PolicyOf = func(version int) string {
			if version != 0 {
				t.Errorf("version %d is asked for; 0 sampled", version)
			}
			return r.Policy()
		}
		return in
	}
	want := update(r, stale(engine, "want"))
	server := sampledElsewhere(r, engine, "server.arrow", shifted(0.25))
	got := update(r, stale(server, "got"))
	if r.Digest(r.Path("got")) != r.Digest(r.Path("want")) {
		t.Error("the policy is not that of our own engine's sampling")
	}
	if want["first_step_ratio_deviation_max"] == 0 || got["first_step_ratio_deviation_max"] != want["first_step_ratio_deviation_max"] {
		t.Errorf("ratios to an older policy deviate by %g, want %g", got["first_step_ratio_deviation_max"], want["first_step_ratio_deviation_max"])
	}
	in := stale(server, "")
	for step := range 2 {
		in.FirstStep, in.LastStep, in.Gradients = step, step+1, nil
		for n, name := range []string{"half-0", "half-1"} {
			path := r.Path(name + string(rune('a'+step)) + ".arrow")
			_, err := learn.RunGradient(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in, step, n, 2, path)
			r.Check(err)
			in.Gradients = append(in.Gradients, path)
		}
		in.PolicyOutput = r.Path("half" + string(rune('a'+step)))
		in.OptimizerOutput = in.PolicyOutput + ".optim"
		update(r, in)
		in.Policy, in.Optimizer = in.PolicyOutput, in.OptimizerOutput
	}
	if r.Digest(in.Policy) != r.Digest(r.Path("want")) {
		t.Error("gradient shards give another policy")
	}
}

func TestForeignSourceIsRefused(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	data := sampledElsewhere(r, batch(r), "foreign.arrow", func(s *shard.Sequence) { s.LogProbSource = "hearsay" })
	_, err := learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), inputs(r, data, "learned"))
	if exitcode.Code(err) != exitcode.Data {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	}
}

// TestAnotherEngineSampled: what an engine has sampled whose numbers may be others is as of
// a server: old log-probabilities are the learner's own, and the gap is measured. Of an engine
// like the learner's they are what the batch holds.
func TestAnotherEngineSampled(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "rollout.temperature=0.8", "loss.epochs=2")
	own := batch(r)
	update(r, inputs(r, own, "own"))
	want := r.Digest(r.Path("own"))
	for _, c := range []struct {
		name     string
		samplers []policy.Arithmetic
		again    bool
	}{
		{"alike", []policy.Arithmetic{{Backend: "cpu"}}, false},
		{"other", []policy.Arithmetic{{Backend: "cuda", Device: "a GPU", Products: "mma"}}, true},
		{"both", []policy.Arithmetic{{Backend: "cpu"}, {Backend: "cpu", Products: "bfloat16"}}, true},
	} {
		sequences, _, err := arrowfile.ReadBatch(r.Context(), own, seal.Options{})
		r.Check(err)
		for i := range sequences {
			shifted(1)(&sequences[i])
			sequences[i].LogProbSource = shard.LogProbsEngine
		}
		var m seal.Manifest
		r.Check(stage.NoteSamplers(&m, c.samplers))
		_, err = arrowfile.WriteBatch(r.Path(c.name+".arrow"), sequences, seal.AttemptFromEnv(), m)
		r.Check(err)
		got := update(r, inputs(r, r.Path(c.name+".arrow"), c.name))
		if same := r.Digest(r.Path(c.name)) == want; same != c.again {
			t.Errorf("%s: the policy is that of the learner's own log-probabilities: %v, want %v", c.name, same, c.again)
		}
		if gap := got["sampler_difference"]; c.again && math.Abs(gap-1) > 2e-6 {
			t.Errorf("%s: the sampler's log-probabilities are off by %g nats, want 1", c.name, gap)
		}
	}
}

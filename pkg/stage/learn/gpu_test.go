package learn_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// emulatedMemory is the memory of the emulated GPU in bytes.
const emulatedMemory = "LATHE_HOST_MEMORY"

// onGPU is a rig whose learner runs on the CUDA engine, and a batch of ten short
// sequences, two in each of five units. Those of a unit are two responses to one
// prompt, of which so many tokens are the same.
func onGPU(t *testing.T, prompt int) (r *stagetest.Rig, batch string) {
	t.Setenv(policytest.LibraryVariable, policytest.Library(t))
	r = stagetest.New(t, "schedule.gradient_units=5")
	r.Recipe.Policy.Backend = "cuda"
	config, err := checkpoint.LoadConfig(r.Policy())
	r.Check(err)
	lengths := []int{14, 3, 9, 17, 6, 12, 5, 8, 11, 4}
	tokens := policytest.Batch(config, 1, lengths...)
	advantages := policytest.Coefficients(tokens, 2)
	var sequences []shard.Sequence
	for i, n := range lengths {
		from, to := tokens.Offsets[i], tokens.Offsets[i+1]
		asked := min(prompt, n-1)
		copy(tokens.TokenIDs[from:], tokens.TokenIDs[tokens.Offsets[i/2*2]:][:asked])
		clear(tokens.Targets[from:][:asked])
		s := shard.Sequence{
			TokenIDs: tokens.TokenIDs[from:to], LossMask: tokens.Targets[from:to], Positions: make([]int32, n),
			Turns: make([]int32, n), OldLogProbs: make([]float32, n), LogProbSource: shard.LogProbsEngine,
			// Each token is a turn of its own.
			TurnSegments: make([]int32, n), TurnAdvantages: advantages[from:to], TurnFactors: make([]float64, n),
			TurnRewards: make([]float64, n), TurnWeights: make([]float64, n),
			InstanceID: fmt.Sprint(i), GroupID: fmt.Sprint(i / 2), IterationSampled: 1, Unit: int32(i / 2), Place: int32(i),
		}
		for position := range s.Positions {
			s.Positions[position], s.Turns[position] = int32(position), int32(position)
			s.TurnFactors[position], s.TurnWeights[position] = 1, 0.1
			if s.LossMask[position] {
				s.OldLogProbs[position] = -5
			}
		}
		sequences = append(sequences, s)
	}
	batch = r.Path("batch.arrow")
	_, err = arrowfile.WriteBatch(batch, sequences, seal.AttemptFromEnv(), seal.Manifest{})
	r.Check(err)
	return r, batch
}

// planOf is the plan that lathe policy inspect prints for the learner's engine.
func planOf(r *stagetest.Rig, free int64) (cuda.Plan, error) {
	config, err := checkpoint.LoadConfig(r.Policy())
	r.Check(err)
	return cuda.PlanFor(config, cuda.Case{
		Stored: []safetensors.DType{safetensors.F32}, Train: true, Workload: learn.Workload(learn.SettingsOf(r.Recipe), 17),
	}, free)
}

// leastMemory is the least with which the learner's engine starts.
func leastMemory(r *stagetest.Rig) int64 {
	low, high := int64(0), int64(16)<<30
	for high-low > 1 {
		middle := (low + high) / 2
		if _, err := planOf(r, middle); err == nil {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// Another build of the engine's library is another engine: old log-probabilities that it
// sampled are computed again, as those of a batch that was noted without the library. Those of
// the learner's own build are what the batch holds, which are off here.
func TestAnotherBuildSampled(t *testing.T) {
	r, batch := onGPU(t, 0)
	sequences, _, err := arrowfile.ReadBatch(r.Context(), batch, seal.Options{})
	r.Check(err)
	var log []string
	r.Job.Log = func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	learned := func(name string, samplers ...policy.Arithmetic) string {
		t.Helper()
		log = nil
		var m seal.Manifest
		r.Check(stage.NoteSamplers(&m, samplers))
		_, err := arrowfile.WriteBatch(r.Path(name+".arrow"), sequences, seal.AttemptFromEnv(), m)
		r.Check(err)
		_, err = learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), inputs(r, r.Path(name+".arrow"), name))
		r.Check(err)
		return r.Digest(r.Path(name))
	}
	held := learned("unnoted")
	own, unit := engineOf(r, "unnoted")
	if unit != "" {
		t.Errorf("computed on the GPU, and by %q of the CPU", unit)
	}
	another, older := own, own
	another.Library, older.Library = strings.Repeat("ab", 32), ""
	if learned("own", own) != held {
		t.Error("the learner does not take the log-probabilities of its own build")
	}
	again := learned("another", another)
	if again == held {
		t.Error("the learner takes the log-probabilities of another build")
	}
	if want := fmt.Sprintf("%s sampled responses that %s learns from: their old log-probabilities are computed again", another, own); !slices.Contains(log, want) {
		t.Errorf("the log %q does not say %q", log, want)
	}
	if learned("older", older) != again || learned("both", own, another) != again {
		t.Error("an older note, or one of two builds, leaves log-probabilities as they are")
	}
}

// On a GPU the policy that is learned and its optimizer state have the same bytes
// under any micro-batch, in any memory that is enough, and for any number of
// gradient shards. The learner does what the plan says that is printed for it, and
// keeps its gradients to itself.
func TestLearningOnAGPU(t *testing.T) {
	r, batch := onGPU(t, 0)
	var log []string
	r.Job.Log = func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	memory := int64(16) << 30
	learned := func(name string) (digests [2]string) {
		t.Helper()
		log = nil
		t.Setenv(emulatedMemory, strconv.FormatInt(memory, 10))
		m, err := learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), inputs(r, batch, name))
		r.Check(err)
		plan, err := planOf(r, memory)
		r.Check(err)
		if policytest.Emulated() && !slices.Contains(log, "on the GPU: "+plan.String()) {
			t.Errorf("%s: the learner says %q, the plan is %q", name, log, plan)
		}
		if spilled := plan.SpilledSums > 0; (m.Usage["device_to_host_bytes"] > float64(plan.GradientBytes/4)) != spilled {
			t.Errorf("%s: %g bytes went to the host; the gradients have %d: %s", name, m.Usage["device_to_host_bytes"], plan.GradientBytes, plan)
		}
		return [2]string{r.Digest(r.Path(name)), r.Digest(r.Path(name + ".optim"))}
	}
	want := learned("whole")
	if want[0] == r.Digest(r.Policy()) {
		t.Fatal("the policy has not changed")
	}
	if policytest.Emulated() {
		digest, err := plainfile.Digest(policytest.Library(t))
		r.Check(err)
		want := policy.Arithmetic{Backend: "cuda", Device: "CPU (kernels emulated)", Products: "mma", Library: digest}
		if got, _ := engineOf(r, "whole"); got != want {
			t.Errorf("the engine is %+v, want %+v", got, want)
		}
	}

	r.Recipe.Schedule.MicroBatchTokens = 16
	if learned("small") != want {
		t.Error("micro-batches of 16 tokens change the bytes")
	}
	r.Recipe.Schedule.MicroBatchTokens = 0

	if policytest.Emulated() {
		memory = leastMemory(r)
		plan, err := planOf(r, memory)
		r.Check(err)
		if plan.Recompute != cuda.Offload || plan.SpilledSums == 0 {
			t.Errorf("in %d bytes: %s", memory, plan)
		}
		if learned("tight") != want {
			t.Error("little memory changes the bytes")
		}
		memory--
		t.Setenv(emulatedMemory, strconv.FormatInt(memory, 10))
		in := inputs(r, batch, "refused")
		_, err = learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in)
		if exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), "needs at least") || !strings.Contains(err.Error(), "are free") {
			t.Errorf("a byte less: %v", err)
		}
		if _, err := os.Stat(in.PolicyOutput); err == nil {
			t.Error("a policy was made without an engine")
		}
		memory = 16 << 30
		t.Setenv(emulatedMemory, strconv.FormatInt(memory, 10))

		// Another process takes the memory once the one engine is open: one error says
		// so, nothing is sealed, and the same task done again gives the same bytes.
		own, coefficient := r.Job.Log, r.Recipe.Loss.KL.Coef
		r.Recipe.Loss.KL.Coef = 0 // no reference
		alone := learned("alone")
		r.Job.Log = func(format string, args ...any) {
			if strings.HasPrefix(format, "on the GPU") {
				t.Setenv(emulatedMemory, "1")
			}
		}
		in = inputs(r, batch, "robbed")
		_, err = learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in)
		if exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), "too little memory") {
			t.Errorf("memory that is taken in a pass: %v", err)
		}
		for _, path := range []string{in.PolicyOutput, in.OptimizerOutput} {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%q was sealed after the engine had broken down", path)
			}
		}
		r.Job.Log = own
		if learned("robbed") != alone {
			t.Error("a task that was robbed of its memory gives other bytes when it is done again")
		}
		r.Recipe.Loss.KL.Coef = coefficient
	}

	for _, shards := range []int{1, 3} {
		in := inputs(r, batch, fmt.Sprintf("shards-%d", shards))
		r.Recipe.Schedule.GradientShards = shards
		for n := range shards {
			path := r.Path(fmt.Sprintf("grad-%d-%d.arrow", shards, n))
			_, err := learn.RunGradient(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in, 0, n, shards, path)
			r.Check(err)
			in.Gradients = append(in.Gradients, path)
		}
		update(r, in)
		if got := [2]string{r.Digest(in.PolicyOutput), r.Digest(in.OptimizerOutput)}; got != want {
			t.Errorf("%d gradient shards change the bytes", shards)
		}
	}
}

// With one copy of two responses' prompt, the learner on a GPU sees the same
// losses to the last bit, and learns the same bytes under any micro-batches, which
// are not those that it learns from each response by itself.
func TestSharedPromptsOnAGPU(t *testing.T) {
	r, batch := onGPU(t, 3)
	apart := update(r, inputs(r, batch, "apart"))
	r.Recipe.Schedule.SharedPromptTokens = 64
	got := update(r, inputs(r, batch, "shared"))
	for key, want := range apart {
		switch {
		case key == "grad_norm":
			if math.Abs(got[key]-want) > 1e-5*want || want == 0 {
				t.Errorf("the gradients' norm is %v, apart %v", got[key], want)
			}
		case got[key] != want:
			t.Errorf("%s is %v, apart %v", key, got[key], want)
		}
	}
	shared := r.Digest(r.Path("shared"))
	if shared == r.Digest(r.Path("apart")) {
		t.Error("the policy is that of responses by themselves: were any prompts shared?")
	}
	r.Recipe.Schedule.MicroBatchTokens = 64
	if update(r, inputs(r, batch, "small")); r.Digest(r.Path("small")) != shared {
		t.Error("the split into micro-batches changes the policy")
	}
}

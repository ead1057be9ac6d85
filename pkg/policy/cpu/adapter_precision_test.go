package cpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// An adapter on a policy of half precision computes, learns and samples the
// bits of one on the rounded policy in float32: the adapter itself stays
// float32, whatever the policy is held in.
func TestAdapterOnHalfPrecision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]policy.Config{"tiny": tinyConfig(), "normed": normedConfig()} {
		for _, dtype := range []safetensors.DType{safetensors.BF16, safetensors.F16} {
			adapter := policytest.LoudAdapter(t, c, policytest.Everywhere())
			rounded := policytest.LoudWeights(t, c)
			for _, w := range rounded {
				dtype.Round(w.Data)
			}
			full, err := New(policy.InMemory(c, rounded), Options{Threads: 1, Train: true, Adapter: adapter})
			if err != nil {
				t.Fatal(err)
			}
			half, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{Threads: 3, Train: true, Adapter: adapter, DType: dtype})
			if err != nil {
				t.Fatal(err)
			}
			batch := policytest.Batch(c, 3, 40, 7, 65)
			s := policy.Sampling{Temperature: 0.8}
			want, _ := forward(t, full, batch, s)
			got, _ := forward(t, half, batch, s)
			if !policytest.SameBits(got, want) {
				t.Fatalf("%s, %s: log-probabilities differ", name, dtype)
			}
			trainSteps(t, full, batch, 3)
			trainSteps(t, half, batch, 3)
			if digest(full.Weights()) != digest(half.Weights()) {
				t.Errorf("%s, %s: the trained adapters differ", name, dtype)
			}
			for _, w := range half.Weights() {
				if w.DType != safetensors.F32 {
					t.Errorf("%s, %s: %s is held in %s", name, dtype, w.Name, w.DType)
				}
			}
			requests := policytest.Requests(c, 2, 6, 80, s)
			completions := generate(t, half, requests)
			if diff := cmp.Diff(generate(t, full, requests), completions); diff != "" {
				t.Errorf("%s, %s: responses differ: %s", name, dtype, diff)
			}
			learned, _ := forward(t, half, policytest.AsBatch(requests, completions), s)
			at := 0
			for i, r := range requests {
				at += len(r.Prompt)
				if n := len(completions[i].LogProbs); !policytest.SameBits(completions[i].LogProbs, learned[at:at+n]) {
					t.Errorf("%s, %s: response %d has other log-probabilities when sampled than when learned", name, dtype, i)
				}
				at += len(completions[i].LogProbs)
			}
		}
	}
}

// With bfloat16 moments an adapter learns what it does with float32 ones.
func TestAdapterLearnsWithHalfMoments(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	var last []float64
	for _, state := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
		e, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{
			Threads: 2, Train: true, Adapter: policytest.LoudAdapter(t, c, policytest.Everywhere()), DType: safetensors.BF16, State: state,
		})
		if err != nil {
			t.Fatal(err)
		}
		losses := trainSteps(t, e, policytest.Batch(c, 2, 20, 24), 150)
		last = append(last, losses[len(losses)-1])
		if last[0] > losses[0]/2 {
			t.Fatalf("with %s moments the loss went from %.3f to %.3f: the test shows nothing", state, losses[0], last[0])
		}
	}
	if last[1] > 1.2*last[0] {
		t.Errorf("the loss is %.3f with bfloat16 moments, %.3f with float32", last[1], last[0])
	}
}

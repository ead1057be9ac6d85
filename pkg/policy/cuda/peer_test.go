//go:build cgo && linux

package cuda_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cpu"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// peerGoldenVariable names the folder that cuda/peers/parity.py has written.
const peerGoldenVariable = "LATHE_PEER_GOLDEN"

// TestAgainstPeer compares with what transformers has just made of its models
// on the same device: log-probabilities in float32 and bfloat16, gradients, the
// weights after one and ten optimizer steps, and 50 greedy responses.
func TestAgainstPeer(t *testing.T) {
	folder := os.Getenv(peerGoldenVariable)
	if folder == "" {
		t.Skipf("%s names no folder of cuda/peers/parity.py", peerGoldenVariable)
	}
	cases, err := filepath.Glob(filepath.Join(folder, "*", "golden.safetensors"))
	if err != nil || len(cases) < 4 {
		t.Fatalf("%d cases in %q, %v", len(cases), folder, err)
	}
	for _, path := range cases {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) { comparePeer(t, filepath.Dir(path)) })
	}
}

func comparePeer(t *testing.T, folder string) {
	g := openGolden(t, folder)
	batch := g.batch()
	b := budgets(func(b *cuda.Budgets) {
		b.PassTokens, b.PassSequences, b.HeadTokens = 4096, 64, 256
		b.Slots, b.CachePages, b.PrefillTokens = 32, 200, 512
	})
	e := open(t, g.config, g.weights, cuda.Options{Train: true, DType: safetensors.F32}, b)
	s := policy.Sampling{Temperature: 1}
	want, _ := g.read("logprobs")
	logProbs, _ := forward(t, e, batch, s)
	if d := difference(logProbs, want); d > 1e-4 {
		t.Errorf("float32: log-probabilities differ by %.2g", d)
	}
	g.compareGreedy(t, e)
	for step := 1; step <= 10; step++ {
		forward(t, e, batch, s)
		e.ZeroGradients()
		// A step descends, and the mean is to ascend.
		backward(t, e, policy.Coefficients{LogProb: negated(mean(batch))})
		if step == 1 {
			for _, gradient := range e.Gradients() {
				want, _ := g.read("grad." + gradient.Name)
				if d := difference(gradient.Data, negated(want)); d > 1e-3 {
					t.Errorf("gradient of %s differs by %.2g", gradient.Name, d)
				}
			}
		}
		if _, err := e.Step(adamW); err != nil {
			t.Fatal(err)
		}
		if name := map[int]string{1: "step1.", 10: "step10."}[step]; name != "" {
			for _, w := range e.Weights() {
				want, _ := g.read(name + w.Name)
				// A weight whose gradient is near zero moves by the learning rate one
				// way or the other: the bulk of them has to agree.
				if d := rootMeanSquare(w.Data, want); d > float64(step)*2e-4 {
					t.Errorf("after step %d the weights of %s differ by %.2g", step, w.Name, d)
				}
			}
		}
	}
	// In bfloat16 both engines round after every operation, each in its own
	// places: neither may be much farther from float32 than the other.
	half, _ := g.read("half")
	h := open(t, g.config, g.weights, cuda.Options{DType: safetensors.BF16}, b)
	got, _ := forward(t, h, batch, s)
	ours, theirs := rootMeanSquare(got, want), rootMeanSquare(half, want)
	t.Logf("bfloat16 log-probabilities differ from float32 by %.3g, those of transformers by %.3g", ours, theirs)
	if ours > 1.5*theirs {
		t.Errorf("bfloat16: log-probabilities differ from float32 by %.3g, those of transformers by %.3g", ours, theirs)
	}
}

func negated(x []float32) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		y[i] = -x[i]
	}
	return y
}

// compareGreedy wants greedy responses token by token. Where the two best
// tokens are within rounding of each other either is right, and what follows
// cannot be compared.
func (g goldenFile) compareGreedy(t *testing.T, e *cuda.Engine) {
	prompts, shape := g.read("prompts")
	greedy, answers := g.read("greedy")
	requests := make([]policy.Request, shape[0])
	for i := range requests {
		for _, id := range prompts[i*shape[1] : (i+1)*shape[1]] {
			requests[i].Prompt = append(requests[i].Prompt, int32(id))
		}
		requests[i].MaxNewTokens = answers[1]
	}
	equal := 0
	for i, c := range generate(t, e, requests) {
		same := len(c.TokenIDs) == answers[1]
		for j, id := range c.TokenIDs {
			want := int32(greedy[i*answers[1]+j])
			if id == want {
				continue
			}
			same = false
			sequence := append(slices.Concat(requests[i].Prompt, c.TokenIDs[:j]), want)
			batch := policy.Batch{TokenIDs: sequence, Targets: make([]bool, len(sequence)), Offsets: []int32{0, int32(len(sequence))}}
			batch.Targets[len(sequence)-1] = true
			logProbs, _ := forward(t, e, batch, policy.Sampling{Temperature: 1})
			if behind := c.LogProbs[j] - logProbs[len(sequence)-1]; behind > 1e-4 {
				t.Errorf("greedy response %d parts from transformers' at token %d: %d, not %d, which is %g less probable", i, j, id, want, behind)
			} else {
				t.Logf("greedy response %d: tokens %d and %d are equally probable after %d within %g", i, id, want, j, behind)
			}
			break
		}
		if same {
			equal++
		}
	}
	t.Logf("%d of %d greedy responses are those of transformers, token by token", equal, len(requests))
}

// The comparison itself, which only a machine with torch makes with transformers:
// it holds what the CPU engine has computed to be right.
func TestPeerComparison(t *testing.T) {
	c := small(nil)
	weights := policytest.Weights(t, c, 0.1)
	folder := t.TempDir()
	if err := checkpoint.Save(folder, c, weights); err != nil {
		t.Fatal(err)
	}
	reference := openCPU(t, c, weights, cpu.Options{Threads: 1, Train: true})
	const sequences, tokens, prompts, asked, answered = 3, 20, 4, 5, 6
	batch := policytest.Batch(c, 1, tokens, tokens, tokens)
	for i := range batch.Targets {
		batch.Targets[i] = i%tokens != 0
	}
	var golden []safetensors.Tensor
	add := func(name string, data []float32, shape ...int) {
		golden = append(golden, safetensors.Tensor{Name: name, Shape: shape, DType: safetensors.F32, Data: slices.Clone(data)})
	}
	add("tokens", floats(batch.TokenIDs), sequences, tokens)
	s := policy.Sampling{Temperature: 1}
	logProbs, _ := forward(t, reference, batch, s)
	add("logprobs", logProbs, sequences, tokens)
	half := slices.Clone(logProbs)
	for i := range half {
		half[i] += 0.05 * float32(i%3-1) // as bfloat16 may be off
	}
	add("half", half, sequences, tokens)
	questions := policytest.Batch(c, 2, asked, asked, asked, asked).TokenIDs
	var requests []policy.Request
	for prompt := range slices.Chunk(questions, asked) {
		requests = append(requests, policy.Request{Prompt: prompt, MaxNewTokens: answered})
	}
	var answers []int32
	for _, completion := range generate(t, reference, requests) {
		answers = append(answers, completion.TokenIDs...)
	}
	add("prompts", floats(questions), prompts, asked)
	add("greedy", floats(answers), prompts, answered)
	for step := 1; step <= 10; step++ {
		forward(t, reference, batch, s)
		reference.ZeroGradients()
		backward(t, reference, policy.Coefficients{LogProb: negated(mean(batch))})
		for _, g := range reference.Gradients() {
			if step == 1 {
				add("grad."+g.Name, negated(g.Data), g.Shape...)
			}
		}
		if _, err := reference.Step(adamW); err != nil {
			t.Fatal(err)
		}
		for _, w := range reference.Weights() {
			if step == 1 || step == 10 {
				add(fmt.Sprintf("step%d.%s", step, w.Name), w.Data, w.Shape...)
			}
		}
	}
	f, err := os.Create(filepath.Join(folder, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(safetensors.Write(f, golden, nil), f.Close()); err != nil {
		t.Fatal(err)
	}
	comparePeer(t, folder)
}

func floats(x []int32) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		y[i] = float32(x[i])
	}
	return y
}

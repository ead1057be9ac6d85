package cpu

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/vec"
)

func digest(tensors []policy.Tensor) string {
	h := sha256.New()
	for _, t := range tensors {
		if err := binary.Write(h, binary.LittleEndian, t.Data); err != nil {
			panic(err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A sequence's log-probabilities and entropies have the same bits alone, and
// at any place of any batch, on any number of threads.
func TestForwardIgnoresCompany(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]policy.Config{"odd": tinyConfig(), "even": evenConfig(), "normed": normedConfig()} {
		t.Run(name, func(t *testing.T) {
			weights := policytest.LoudWeights(t, c)
			engines := []*Engine{newEngine(t, c, weights, 1), newEngine(t, c, weights, 2), newEngine(t, c, weights, 3)}
			s := policy.Sampling{Temperature: 0.9}
			rapid.Check(t, func(rt *rapid.T) {
				lengths := rapid.SliceOfN(rapid.IntRange(1, 150), 1, 6).Draw(rt, "lengths")
				which := rapid.IntRange(0, len(lengths)-1).Draw(rt, "which")
				e := engines[rapid.IntRange(0, 2).Draw(rt, "engine")]
				batch := policytest.Batch(c, uint64(rapid.IntRange(0, 1000).Draw(rt, "seed")), lengths...)
				logProbs, entropy := forward(t, e, batch, s)
				from, to := batch.Offsets[which], batch.Offsets[which+1]
				alone := policy.Batch{TokenIDs: batch.TokenIDs[from:to], Targets: batch.Targets[from:to], Offsets: []int32{0, to - from}}
				wantLogProbs, wantEntropy := forward(t, engines[0], alone, s)
				if !policytest.SameBits(logProbs[from:to], wantLogProbs) || !policytest.SameBits(entropy[from:to], wantEntropy) {
					rt.Fatalf("sequence %d of %v differs from itself alone", which, lengths)
				}
			})
		})
	}
}

// What is computed does not depend on which other tokens are targets: with
// coefficients of zero these add nothing. So it is the same whether the last
// block runs for few tokens, all of a sequence, or none.
func TestOtherTargets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]policy.Config{"odd": tinyConfig(), "normed": normedConfig()} {
		t.Run(name, func(t *testing.T) {
			weights := policytest.LoudWeights(t, c)
			few, all := newEngine(t, c, weights, 2), newEngine(t, c, weights, 1)
			s := policy.Sampling{Temperature: 1}
			rapid.Check(t, func(rt *rapid.T) {
				groups := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) policytest.PrefixGroup {
					return policytest.PrefixGroup{Prefix: rapid.IntRange(1, 70).Draw(rt, "prefix"), Branches: rapid.SliceOfN(rapid.IntRange(0, 70), 0, 3).Draw(rt, "branches")}
				}), 1, 3).Draw(rt, "groups")
				batch, _, _ := policytest.BatchOfPrefixGroups(c, 1, groups...)
				every := batch
				every.Targets = make([]bool, len(batch.Targets))
				for q := range len(batch.Offsets) - 1 {
					for i := batch.Offsets[q] + 1; i < batch.Offsets[q+1]; i++ {
						every.Targets[i] = true
						batch.Targets[i] = batch.Targets[i] && rapid.IntRange(0, 9).Draw(rt, "target") > 5
					}
				}
				coef, ofEntropy := policytest.Coefficients(batch, 1), policytest.Coefficients(batch, 2)
				logProbs, entropy := forward(t, few, batch, s)
				wantLogProbs, wantEntropy := forward(t, all, every, s)
				for i, target := range batch.Targets {
					if target && (logProbs[i] != wantLogProbs[i] || entropy[i] != wantEntropy[i]) {
						rt.Fatalf("token %d of %v: log-probability %v and entropy %v, want %v and %v", i, groups, logProbs[i], entropy[i], wantLogProbs[i], wantEntropy[i])
					}
				}
				for _, e := range []*Engine{few, all} {
					e.ZeroGradients()
					if err := e.Backward(policy.Coefficients{LogProb: coef, Entropy: ofEntropy}); err != nil {
						rt.Fatal(err)
					}
				}
				want := all.Gradients()
				for i, g := range few.Gradients() {
					if !policytest.SameBits(g.Data, want[i].Data) {
						rt.Fatalf("gradient of %s differs for %v", g.Name, groups)
					}
				}
			})
		})
	}
}

// trainDigest is the sha256 of the weights after three steps.
func trainDigest(t *testing.T, c policy.Config, threads int, change func(e *Engine)) string {
	t.Helper()
	e := newEngine(t, c, policytest.LoudWeights(t, c), threads)
	if change != nil {
		change(e)
	}
	for step := range 3 {
		batch := policytest.Batch(c, uint64(step), 40, 3, 90, 150, 7, 64, 65)
		forward(t, e, batch, policy.Sampling{Temperature: 1, TopP: 0.95})
		e.ZeroGradients()
		if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}); err != nil {
			t.Fatal(err)
		}
		stats, err := e.Step(policy.AdamW{LearningRate: 1e-3, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, WeightDecay: 0.1, MaxGradNorm: 1})
		if err != nil || stats.Skipped || stats.Scale >= 1 {
			t.Fatalf("step %d: %+v, %v", step, stats, err)
		}
	}
	return digest(e.Weights())
}

func TestTrainingIgnoresThreads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]policy.Config{"odd": tinyConfig(), "even": evenConfig(), "normed": normedConfig()} {
		want := trainDigest(t, c, 1, nil)
		for _, threads := range []int{2, 3, 7} {
			if got := trainDigest(t, c, threads, nil); got != want {
				t.Errorf("%s: %d threads give weights %s, one gives %s", name, threads, got, want)
			}
		}
	}
}

func TestBitsIgnoreInstructionSet(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	even := c
	even.HeadDim = 32 // as the page kernel of AVX2 wants it
	digests := map[string]string{}
	for isa := range vec.EachISA {
		got := trainDigest(t, c, 1, nil)
		for _, config := range []policy.Config{c, even} {
			e := newEngine(t, config, policytest.LoudWeights(t, config), 1)
			got += fmt.Sprint(generate(t, e, policytest.Requests(config, 2, 6, 80, policy.Sampling{Temperature: 1})))
		}
		digests[isa] = got
	}
	if len(digests) == 1 {
		t.Skip("this machine or build has one instruction set only")
	}
	for isa, got := range digests {
		if diff := cmp.Diff(digests["go"], got); diff != "" {
			t.Errorf("%s differs from pure Go: %s", isa, diff)
		}
	}
}

// A batch whose activations and logits are worked off in chunks gives the same
// bits.
func TestChunks(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	weights := policytest.LoudWeights(t, c)
	whole, chunked := newEngine(t, c, weights, 2), newEngine(t, c, weights, 2)
	chunked.limits.chunkTokens, chunked.limits.sparseTokens, chunked.limits.logits, chunked.limits.keptLogits = 50, 0, 1, 1
	batch := policytest.Batch(c, 1, 30, 19, 2, 80, 5, 45)
	if got := len(chunked.divide(batch)); got != 4 {
		t.Errorf("%d chunks, want 4: 30+19, 2, 80, 5+45", got)
	}
	s := policy.Sampling{Temperature: 1}
	wantLogProbs, wantEntropy := forward(t, whole, batch, s)
	logProbs, entropy := forward(t, chunked, batch, s)
	if !policytest.SameBits(logProbs, wantLogProbs) || !policytest.SameBits(entropy, wantEntropy) {
		t.Error("log-probabilities or entropies differ")
	}
	for _, e := range []*Engine{whole, chunked} {
		if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, g := range chunked.Gradients() {
		if !policytest.SameBits(g.Data, whole.Gradients()[i].Data) {
			t.Errorf("gradient of %s differs", g.Name)
		}
	}
}

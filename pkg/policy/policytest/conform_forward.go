package policytest

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// The trained tensors are those of the layout, and hold what the source gave.
// Results are 0 but for targets, log-probabilities at most 0, and entropies
// between 0 and that of a uniform draw.
func testTensors(t *testing.T, b Backend) {
	for name, c := range b.families() {
		weights := LoudWeights(t, c)
		e := b.plain(t, c, weights, Options{Train: true})
		if diff := cmp.Diff(c, e.Config()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if e.Arithmetic().Backend == "" {
			t.Errorf("%s: the engine does not say what it is", name)
		}
		if e.Adapter() != nil {
			t.Errorf("%s: there is an adapter", name)
		}
		if err := policy.Match(e.Trained(), policy.Layout(c)); err != nil {
			t.Errorf("%s: trained tensors: %v", name, err)
		}
		sameTensors(t, name, e.Weights(), weights)
		wantZeros(t, name+": new gradients", e.Gradients())
		batch := Batch(c, 3, 1, 7, 0, 20)
		logProbs, entropy := forward(t, e, batch, policy.Sampling{Temperature: 1})
		for i, target := range batch.Targets {
			if !target && (logProbs[i] != 0 || entropy[i] != 0) {
				t.Errorf("%s: token %d is no target and has %g and %g", name, i, logProbs[i], entropy[i])
			}
			if most := math.Log(float64(c.VocabSize)) + 1e-4; target && !(logProbs[i] < 0 && entropy[i] > 0 && float64(entropy[i]) < most) {
				t.Errorf("%s: target %d has log-probability %g and entropy %g", name, i, logProbs[i], entropy[i])
			}
		}
	}
}

func testEmptyBatches(t *testing.T, b Backend) {
	c := Tiny()
	e := b.plain(t, c, LoudWeights(t, c), Options{Train: true})
	for name, batch := range map[string]policy.Batch{
		"nothing":            {},
		"no sequences":       {Offsets: []int32{0}},
		"an empty sequence":  {Offsets: []int32{0, 0}},
		"no targets":         {TokenIDs: []int32{1, 2}, Targets: []bool{false, false}, Offsets: []int32{0, 2}},
		"one-token sequence": {TokenIDs: []int32{1}, Targets: []bool{false}, Offsets: []int32{0, 1}},
	} {
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		if err := e.Backward(policy.Coefficients{LogProb: make([]float32, len(batch.TokenIDs))}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantZeros(t, "gradient of nothing", e.Gradients())
}

func testWrongBatches(t *testing.T, b Backend) {
	c := Tiny()
	e := b.plain(t, c, LoudWeights(t, c), Options{})
	three := func(prefixes ...int32) policy.Batch {
		batch := Batch(c, 1, 3, 3, 3)
		batch.Prefixes = prefixes
		return batch
	}
	long := Batch(c, 1, c.MaxPositionEmbeddings, 2)
	long.Prefixes = []int32{-1, 0}
	for name, test := range map[string]struct {
		batch policy.Batch
		code  int
	}{
		"too long":                         {Batch(c, 1, c.MaxPositionEmbeddings+1), exitcode.Data},
		"unknown token":                    {policy.Batch{TokenIDs: []int32{37}, Targets: []bool{false}, Offsets: []int32{0, 1}}, exitcode.Data},
		"first is target":                  {policy.Batch{TokenIDs: []int32{1}, Targets: []bool{true}, Offsets: []int32{0, 1}}, exitcode.Bug},
		"short offsets":                    {policy.Batch{TokenIDs: []int32{1, 2}, Targets: make([]bool, 2), Offsets: []int32{0, 1}}, exitcode.Bug},
		"falling offsets":                  {policy.Batch{TokenIDs: []int32{1, 2}, Targets: make([]bool, 2), Offsets: []int32{0, 2, 1, 2}}, exitcode.Bug},
		"short targets":                    {policy.Batch{TokenIDs: []int32{1, 2}, Targets: make([]bool, 1), Offsets: []int32{0, 2}}, exitcode.Bug},
		"its own shared prefix":            {three(0, -1, -1), exitcode.Bug},
		"a later shared prefix":            {three(1, -1, -1), exitcode.Bug},
		"another between":                  {three(-1, -1, 0), exitcode.Bug},
		"shared prefix of a shared prefix": {three(-1, 0, 1), exitcode.Bug},
		"too few shared prefixes":          {three(-1, 0), exitcode.Bug},
		"no such shared prefix":            {three(-1, 3, -1), exitcode.Bug},
		"too long with a shared prefix":    {long, exitcode.Data},
	} {
		n := len(test.batch.TokenIDs)
		err := e.Forward(test.batch, policy.Sampling{Temperature: 1}, make([]float32, n), make([]float32, n))
		if exitcode.Code(err) != test.code {
			t.Errorf("%s: code %d (%v), want %d", name, exitcode.Code(err), err, test.code)
		}
	}
	batch := Batch(c, 1, 3)
	if err := e.Forward(batch, policy.Sampling{Temperature: -1}, make([]float32, 3), make([]float32, 3)); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a negative temperature: %v", err)
	}
	if err := e.Values(make([]float32, 3)); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("values without a value head: %v", err)
	}
}

// The sampler's log-probabilities are the learner's, bit for bit, so that the
// importance ratio is exactly 1; and what comes before a token is all that its
// log-probability depends on.
func testOneLogProbability(t *testing.T, b Backend) {
	plain := policy.Sampling{Temperature: 1}
	for _, s := range []policy.Sampling{plain, {}, {Temperature: 0.7, TopK: 9}, {Temperature: 1.2, TopP: 0.7}, {Temperature: 1, TopK: 20, TopP: 0.9}} {
		for name, c := range b.families() {
			core := name == "qwen2 tied" || name == "qwen3 untied"
			if s != plain && !core {
				continue
			}
			for _, p := range precisions(t, c) {
				if b.Slow && (s != plain || !core) && (name == "qwen3 untied") != (p.dtype == safetensors.BF16) {
					continue
				}
				t.Run(fmt.Sprintf("%s %s %+v", name, p.dtype, s), func(t *testing.T) {
					b.oneLogProbability(t, b.plain(t, c, p.weights, Options{DType: p.dtype}), s)
				})
			}
		}
	}
}

// oneLogProbability compares what an engine samples with what it then computes
// of it.
func (b Backend) oneLogProbability(t *testing.T, e *policy.Engine, s policy.Sampling) {
	t.Helper()
	n, least := 40, 500
	if b.Slow {
		n, least = 5, 40
	}
	requests := Requests(e.Config(), 5, n, 70, s)
	for i := range requests {
		if i%2 == 0 {
			requests[i].StopTokens = nil
		}
	}
	completions := generate(t, e, requests...)
	batch := AsBatch(requests, completions)
	logProbs, _ := forward(t, e, batch, s)
	compared := 0
	for i, r := range requests {
		from := int(batch.Offsets[i]) + len(r.Prompt)
		if !SameBits(completions[i].LogProbs, logProbs[from:int(batch.Offsets[i+1])]) {
			t.Errorf("response %d: log-probabilities %v when sampled and %v when learned", i, completions[i].LogProbs, logProbs[from:batch.Offsets[i+1]])
		}
		compared += len(completions[i].LogProbs)
	}
	if compared < least {
		t.Errorf("only %d tokens compared", compared)
	}
}

// A sequence has the same log-probabilities and entropies alone and in any
// company, a prefix those of the whole, and a request the same completion alone,
// in any company and in any way.
func testCompany(t *testing.T, b Backend) {
	for name, c := range b.families() {
		if b.Slow && name != "qwen2 tied" && name != "qwen3 untied" {
			continue
		}
		for _, p := range precisions(t, c) {
			if b.Slow && (name == "qwen2 tied") != (p.dtype == safetensors.F32) {
				continue
			}
			t.Run(fmt.Sprintf("%s %s", name, p.dtype), func(t *testing.T) {
				s := policy.Sampling{Temperature: 0.9}
				first := b.plain(t, c, p.weights, Options{DType: p.dtype})
				batch := Batch(c, 4, 30, 1, 70, 2, 65)
				logProbs, entropy := forward(t, first, batch, s)
				requests := Requests(c, 6, 6, 40, s)
				completions := generate(t, first, requests...)
				for _, way := range b.Ways {
					e := b.open(t, way, c, p.weights, Options{DType: p.dtype})
					for i := range len(batch.Offsets) - 1 {
						from, to := batch.Offsets[i], batch.Offsets[i+1]
						got, gotEntropy := forward(t, e, Part(batch, i, i+1), s)
						if !SameBits(got, logProbs[from:to]) || !SameBits(gotEntropy, entropy[from:to]) {
							t.Errorf("%s: sequence %d alone differs from itself in company", way, i)
						}
					}
					for _, n := range []int32{1, 63, 64, 65} {
						from := batch.Offsets[2]
						prefix := policy.Batch{TokenIDs: batch.TokenIDs[from:][:n], Targets: batch.Targets[from:][:n], Offsets: []int32{0, n}}
						if got, _ := forward(t, e, prefix, s); !SameBits(got, logProbs[from:][:n]) {
							t.Errorf("%s: the first %d tokens differ from the whole", way, n)
						}
					}
					for i := len(requests) - 1; i >= 0; i -= 2 {
						if diff := cmp.Diff(completions[i:i+1], generate(t, e, requests[i])); diff != "" {
							t.Errorf("%s: request %d alone: %s", way, i, diff)
						}
					}
					if diff := cmp.Diff(completions, generate(t, e, requests...)); diff != "" {
						t.Errorf("%s: %s", way, diff)
					}
				}
			})
		}
	}
}

// Sequences that go on from one shared prefix have the log-probabilities and entropies
// that they have when each is spelt out, to the last bit, and the gradients of
// weights that they add up to, whose bits do not depend on the way.
func testSharedPrefixes(t *testing.T, b Backend) {
	groups := []PrefixGroup{
		{Prefix: 3, Branches: []int{5, 1, 2}},
		{Prefix: 9},
		{Prefix: 70, Branches: []int{65, 3}},
		{Prefix: 1, Branches: []int{4}},
		{Branches: []int{6, 7}},
		{Prefix: 20, Branches: []int{0, 3}},
	}
	s := policy.Sampling{Temperature: 0.9}
	tolerance := 2e-5
	if b.Rounds { // a bfloat16 has 8 bits
		tolerance = 0x1p-7
	}
	for name, c := range b.families() {
		if b.Slow && name != "qwen3 untied" {
			continue
		}
		weights := LoudWeights(t, c)
		shared, apart, places := BatchOfPrefixGroups(c, 1, groups...)
		ofLogProb, ofEntropy := Coefficients(apart, 1), Coefficients(apart, 2)
		given := policy.Coefficients{LogProb: make([]float32, len(shared.TokenIDs)), Entropy: make([]float32, len(shared.TokenIDs))}
		for _, p := range places {
			given.LogProb[p[0]], given.Entropy[p[0]] = ofLogProb[p[1]], ofEntropy[p[1]]
		}
		plain := b.plain(t, c, weights, Options{Train: true})
		wantLogProbs, wantEntropy := forward(t, plain, apart, s)
		backward(t, plain, policy.Coefficients{LogProb: ofLogProb, Entropy: ofEntropy})
		want := cloned(plain.Gradients())
		var first []policy.Tensor
		for _, way := range b.Ways {
			e := b.open(t, way, c, weights, Options{Train: true})
			logProbs, entropy := forward(t, e, shared, s)
			for _, p := range places {
				if logProbs[p[0]] != wantLogProbs[p[1]] || entropy[p[0]] != wantEntropy[p[1]] {
					t.Fatalf("%s, %s: token %d has log-probability %v and entropy %v, apart %v and %v", name, way,
						p[0], logProbs[p[0]], entropy[p[0]], wantLogProbs[p[1]], wantEntropy[p[1]])
				}
			}
			backward(t, e, given)
			got := cloned(e.Gradients())
			for i, g := range got {
				if d := difference(g.Data, want[i].Data); d > tolerance {
					t.Errorf("%s, %s: gradient of %s is off by %g of its largest", name, way, g.Name, d)
				}
			}
			if first == nil {
				first = got
			}
			sameTensors(t, name+", "+way, got, first)
		}
	}
}

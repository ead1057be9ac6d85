package cpu

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// loudValueHead is a value head far from zero.
func loudValueHead(c policy.Config) []float32 {
	head := policy.NewValueHead(c)
	stream := rng.New(8, rng.PurposeTest, 0, policy.ValueHeadName, 0)
	for i := range head {
		head[i] = float32(stream.Normal(uint64(i)))
	}
	return head
}

func valuedEngine(t testing.TB, c policy.Config, a *policy.Adapter, threads int) *Engine {
	t.Helper()
	e, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{Threads: threads, Train: true, Adapter: a, ValueHead: loudValueHead(c)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func values(t testing.TB, e *Engine, n int) []float32 {
	t.Helper()
	v := make([]float32, n)
	if err := e.Values(v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Values within 1e-5 and gradients, also through the trunk, within 1e-4 of the
// float64 reference; alone, beside the policy's loss, and with an adapter.
func TestValueHeadAgainstReference(t *testing.T) {
	c := tinyConfig()
	for name, test := range map[string]struct {
		adapter *policy.Adapter
		alone   bool
	}{
		"beside the policy's": {},
		"alone":               {alone: true},
		"with an adapter":     {adapter: loudAdapter(t, c, everywhere())},
	} {
		t.Run(name, func(t *testing.T) {
			e := valuedEngine(t, c, test.adapter, 2)
			batch := policytest.Batch(c, 3, 1, 7, 70, 0, 2, 130)
			coef, ofEntropy, ofValue := policytest.Coefficients(batch, 1), policytest.Coefficients(batch, 2), policytest.Coefficients(batch, 3)
			given := policy.Coefficients{LogProb: coef, Entropy: ofEntropy, Value: ofValue}
			if test.alone {
				given.LogProb, given.Entropy = nil, nil
				clear(coef)
				clear(ofEntropy)
			}
			s := policy.Sampling{Temperature: 1}
			forward(t, e, batch, s)
			got := values(t, e, len(batch.TokenIDs))
			if err := e.Backward(given); err != nil {
				t.Fatal(err)
			}
			head := policy.ValueHeadLayout(c)
			head.Data = loudValueHead(c)
			weights := append(policytest.LoudWeights(t, c), head)
			if test.adapter != nil {
				weights = append(weights, test.adapter.Tensors...)
			}
			r := newReference(c, weights)
			r.scale, r.valueCoefficients = 5.0/3, ofValue
			r.run(batch, s, coef, ofEntropy)
			if d := difference(got, r.values); d > 1e-5 {
				t.Errorf("values differ by %.2g", d)
			}
			gradients := e.Gradients()
			if last := gradients[len(gradients)-1]; last.Name != policy.ValueHeadName {
				t.Errorf("the last gradient is that of %s", last.Name)
			}
			for _, g := range gradients {
				if d := difference(g.Data, r.tensors[g.Name].g); d > 1e-4 {
					t.Errorf("gradient of %s differs by %.2g", g.Name, d)
				}
			}
		})
	}
}

// The reference's gradient of the value head against central differences in
// float64.
func TestValueReferenceAgainstFiniteDifferences(t *testing.T) {
	c := tinyConfig()
	head := policy.ValueHeadLayout(c)
	head.Data = loudValueHead(c)
	r := newReference(c, append(policytest.LoudWeights(t, c), head))
	batch := policytest.Batch(c, 9, 5, 8)
	zeros := make([]float32, len(batch.TokenIDs))
	r.valueCoefficients = policytest.Coefficients(batch, 3)
	loss := func() (total float64) {
		r.run(batch, policy.Sampling{Temperature: 1}, zeros, zeros)
		for i, v := range r.values {
			total += float64(r.valueCoefficients[i]) * v
		}
		return total
	}
	for _, name := range []string{policy.ValueHeadName, "model.norm.weight", "model.layers.0.self_attn.q_proj.weight", "model.embed_tokens.weight"} {
		m := r.tensors[name]
		for _, other := range r.tensors {
			clear(other.g)
		}
		loss()
		analytic := append([]float64{}, m.g...)
		for i := 0; i < len(m.v); i += 1 + len(m.v)/5 {
			const step = 1e-5
			old := m.v[i]
			m.v[i] = old + step
			up := loss()
			m.v[i] = old - step
			down := loss()
			m.v[i] = old
			if numeric := (up - down) / (2 * step); math.Abs(numeric-analytic[i]) > 1e-6*(1+math.Abs(numeric)) {
				t.Errorf("%s[%d]: gradient %.9g, finite difference %.9g", name, i, analytic[i], numeric)
			}
		}
	}
}

// Values have the same bits in any company, on any number of threads and in
// any division; so has what is learned from them.
func TestValuesIgnoreCompany(t *testing.T) {
	c := tinyConfig()
	c.TieWordEmbeddings = false
	batch := policytest.Batch(c, 1, 30, 19, 2, 80, 5, 45)
	s := policy.Sampling{Temperature: 1}
	whole, chunked := valuedEngine(t, c, nil, 1), valuedEngine(t, c, nil, 3)
	chunked.limits.chunkTokens, chunked.limits.logits, chunked.limits.keptLogits = 50, 1, 1
	logProbs, _ := forward(t, whole, batch, s)
	want := values(t, whole, len(batch.TokenIDs))
	forward(t, chunked, batch, s)
	if !sameBits(values(t, chunked, len(batch.TokenIDs)), want) {
		t.Error("values differ in chunks")
	}
	for _, e := range []*Engine{whole, chunked} {
		if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Value: policytest.Coefficients(batch, 3)}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Step(testAdamW); err != nil {
			t.Fatal(err)
		}
	}
	if digest(whole.Weights()) != digest(chunked.Weights()) {
		t.Error("a step in chunks gives other weights")
	}
	bare, _ := forward(t, newEngine(t, c, policytest.LoudWeights(t, c), 1), batch, s)
	if !sameBits(logProbs, bare) {
		t.Error("a value head changes log-probabilities")
	}
	from, to := batch.Offsets[3], batch.Offsets[4]
	alone := policy.Batch{TokenIDs: batch.TokenIDs[from:to], Targets: batch.Targets[from:to], Offsets: []int32{0, to - from}}
	again := valuedEngine(t, c, nil, 2)
	forward(t, again, alone, s)
	if !sameBits(values(t, again, int(to-from)), want[from:to]) {
		t.Error("values differ alone")
	}
}

// A value head and its optimizer state are saved, and go on to the same bits.
func TestValueHeadResumes(t *testing.T) {
	c := tinyConfig()
	batch := policytest.Batch(c, 2, 20, 24)
	learn := func(e *Engine, steps int) {
		for range steps {
			forward(t, e, batch, policy.Sampling{Temperature: 1})
			e.ZeroGradients()
			if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Value: policytest.Coefficients(batch, 3)}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Step(testAdamW); err != nil {
				t.Fatal(err)
			}
		}
	}
	straight, first := valuedEngine(t, c, nil, 1), valuedEngine(t, c, nil, 1)
	learn(straight, 4)
	learn(first, 2)
	folder := t.TempDir()
	weights, head := policy.SplitValueHead(first.Weights())
	tensors, steps := first.OptimizerState()
	for _, err := range []error{checkpoint.Save(folder, c, weights), checkpoint.SaveValueHead(folder, *head), checkpoint.SaveOptimizer(folder, tensors, steps)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	source, err := checkpoint.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	saved, err := checkpoint.LoadValueHead(folder, c)
	if err != nil {
		t.Fatal(err)
	}
	second, err := New(source, Options{Threads: 1, Train: true, ValueHead: saved})
	if err != nil {
		t.Fatal(err)
	}
	if tensors, steps, err = checkpoint.LoadOptimizer(folder); err != nil {
		t.Fatal(err)
	}
	if err := second.LoadOptimizerState(tensors, steps); err != nil {
		t.Fatal(err)
	}
	learn(second, 2)
	if digest(second.Weights()) != digest(straight.Weights()) {
		t.Error("the weights differ")
	}
}

func TestWrongValueCalls(t *testing.T) {
	c := tinyConfig()
	bare, valued := newEngine(t, c, policytest.LoudWeights(t, c), 1), valuedEngine(t, c, nil, 1)
	if err := bare.Values(nil); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("values without a value head: %v", err)
	}
	if err := valued.Values(nil); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("values without a forward pass: %v", err)
	}
	forward(t, valued, policytest.Batch(c, 1, 9), policy.Sampling{})
	if err := valued.Values(make([]float32, 3)); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("too little room: %v", err)
	}
	if _, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{ValueHead: make([]float32, 3)}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a value head of another width: %v", err)
	}
}

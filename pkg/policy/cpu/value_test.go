package cpu

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
)

func valuedEngine(t testing.TB, c policy.Config, a *policy.Adapter, threads int) *Engine {
	t.Helper()
	e, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{Threads: threads, Train: true, Adapter: a, ValueHead: policytest.LoudValueHead(c)})
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

// Values within 1e-5 and gradients, also through the shared prefix, within 1e-4 of the
// float64 reference; alone, beside the policy's loss, and with an adapter.
func TestValueHeadAgainstReference(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	for name, test := range map[string]struct {
		adapter *policy.Adapter
		alone   bool
	}{
		"beside the policy's": {},
		"alone":               {alone: true},
		"with an adapter":     {adapter: policytest.LoudAdapter(t, c, policytest.Everywhere())},
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
			head.Data = policytest.LoudValueHead(c)
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
	t.Parallel()
	c := tinyConfig()
	head := policy.ValueHeadLayout(c)
	head.Data = policytest.LoudValueHead(c)
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

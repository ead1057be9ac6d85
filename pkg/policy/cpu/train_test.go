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

var testAdamW = policy.AdamW{LearningRate: 3e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxGradNorm: 1}

// Three steps against AdamW in float64 (Loshchilov and Hutter 2019, Algorithm
// 2), with decay on matrices only and the clip of torch.
func TestStep(t *testing.T) {
	c := tinyConfig()
	e := newEngine(t, c, policytest.LoudWeights(t, c), 1)
	w, m, v := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, tensor := range e.Weights() {
		m[tensor.Name], v[tensor.Name] = make([]float64, len(tensor.Data)), make([]float64, len(tensor.Data))
		for _, x := range tensor.Data {
			w[tensor.Name] = append(w[tensor.Name], float64(x))
		}
	}
	for step := 1; step <= 3; step++ {
		settings := testAdamW
		settings.MaxGradNorm = []float64{0, 1e6, 0.5}[step-1] // none, never reached, reached
		batch := policytest.Batch(c, uint64(step), 20, 30)
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		e.ZeroGradients()
		if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1)}); err != nil {
			t.Fatal(err)
		}
		square := 0.0
		for _, g := range e.Gradients() {
			for _, x := range g.Data {
				square += float64(x) * float64(x)
			}
		}
		stats, err := e.Step(settings)
		if err != nil || stats.Skipped {
			t.Fatal(stats, err)
		}
		norm, scale := math.Sqrt(square), 1.0
		if step == 3 {
			scale = 0.5 / (norm + 1e-6)
		}
		if math.Abs(stats.GradNorm-norm) > 1e-9*norm || math.Abs(stats.Scale-scale) > 1e-9 {
			t.Errorf("step %d: norm %g and scale %g, want %g and %g", step, stats.GradNorm, stats.Scale, norm, scale)
		}
		for i, g := range e.Gradients() {
			decay := 0.0
			if len(g.Shape) == 2 {
				decay = settings.WeightDecay
			}
			ws, ms, vs := w[g.Name], m[g.Name], v[g.Name]
			for j, x := range g.Data {
				gradient := float64(x) * scale
				ms[j] = settings.Beta1*ms[j] + (1-settings.Beta1)*gradient
				vs[j] = settings.Beta2*vs[j] + (1-settings.Beta2)*gradient*gradient
				first := ms[j] / (1 - math.Pow(settings.Beta1, float64(step)))
				second := vs[j] / (1 - math.Pow(settings.Beta2, float64(step)))
				ws[j] -= settings.LearningRate * (first/(math.Sqrt(second)+settings.Epsilon) + decay*ws[j])
			}
			if d := difference(e.Weights()[i].Data, ws); d > 2e-6 {
				t.Errorf("step %d: %s differs by %.2g", step, g.Name, d)
			}
		}
	}
}

func TestStepSkipsWhatIsNotFinite(t *testing.T) {
	c := tinyConfig()
	e := newEngine(t, c, policytest.LoudWeights(t, c), 1)
	before := digest(e.Weights())
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		e.ZeroGradients()
		if err := e.WriteGradient(3, 5, []float32{float32(bad)}); err != nil {
			t.Fatal(err)
		}
		stats, err := e.Step(testAdamW)
		if err != nil || !stats.Skipped {
			t.Errorf("gradient %v: %+v, %v", bad, stats, err)
		}
	}
	tensors, steps := e.OptimizerState()
	if digest(e.Weights()) != before || steps != 0 {
		t.Error("a skipped step changed weights or counted")
	}
	for _, m := range tensors {
		for _, x := range m.Data {
			if x != 0 {
				t.Fatalf("a skipped step changed %s", m.Name)
			}
		}
	}
}

// diverge sets a weight to what no source may give.
func diverge(e *Engine) { e.model.layers[0].norm2.value[0] = float32(math.NaN()) }

// Weights that are not numbers give log-probabilities and gradients that are
// not either, and a skipped step; nothing panics.
func TestDivergedWeights(t *testing.T) {
	c := tinyConfig()
	e := newEngine(t, c, policytest.LoudWeights(t, c), 2)
	diverge(e)
	batch := policytest.Batch(c, 1, 30)
	logProbs, _ := forward(t, e, batch, policy.Sampling{Temperature: 1, TopK: 3})
	last := len(logProbs) - 1
	for !batch.Targets[last] {
		last--
	}
	if !math.IsNaN(float64(logProbs[last])) {
		t.Errorf("log-probability %v", logProbs[last])
	}
	if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1)}); err != nil {
		t.Fatal(err)
	}
	if stats, err := e.Step(testAdamW); err != nil || !stats.Skipped {
		t.Errorf("%+v, %v", stats, err)
	}
}

// trainSteps does n steps of maximum likelihood on a batch and returns the
// mean negative log-probability before each.
func trainSteps(t *testing.T, e *Engine, batch policy.Batch, n int) []float64 {
	t.Helper()
	count := 0
	coef := make([]float32, len(batch.TokenIDs))
	for _, target := range batch.Targets {
		if target {
			count++
		}
	}
	for i, target := range batch.Targets {
		if target {
			coef[i] = -1 / float32(count)
		}
	}
	var losses []float64
	for range n {
		logProbs, _ := forward(t, e, batch, policy.Sampling{Temperature: 1})
		loss := 0.0
		for _, x := range logProbs {
			loss -= float64(x) / float64(count)
		}
		losses = append(losses, loss)
		e.ZeroGradients()
		if err := e.Backward(policy.Coefficients{LogProb: coef}); err != nil {
			t.Fatal(err)
		}
		settings := testAdamW
		settings.Rounding = rng.New(7, rng.PurposeRounding, e.steps, "", 0)
		if _, err := e.Step(settings); err != nil {
			t.Fatal(err)
		}
	}
	return losses
}

func TestOverfit(t *testing.T) {
	c := tinyConfig()
	weights, err := policy.Init(c, 3)
	if err != nil {
		t.Fatal(err)
	}
	losses := trainSteps(t, newEngine(t, c, weights, 2), policytest.Batch(c, 2, 20, 24), 150)
	// A new policy is close to uniform: ln 37 = 3.61 nats.
	if losses[0] < 3.4 || losses[0] > 3.9 || losses[len(losses)-1] > 0.1 {
		t.Errorf("loss went from %.3f to %.3f, want 3.6 to below 0.1", losses[0], losses[len(losses)-1])
	}
}

// Four steps at once, and two, saved and loaded, and two more: the same bits.
func TestOptimizerStateGoesOn(t *testing.T) {
	c := tinyConfig()
	weights := policytest.LoudWeights(t, c)
	batch := policytest.Batch(c, 2, 20, 24)
	straight := newEngine(t, c, weights, 1)
	trainSteps(t, straight, batch, 4)

	first := newEngine(t, c, weights, 1)
	trainSteps(t, first, batch, 2)
	tensors, steps := first.OptimizerState()
	folder := t.TempDir()
	if err := checkpoint.Save(folder, c, first.Weights()); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.SaveOptimizer(folder, tensors, steps); err != nil {
		t.Fatal(err)
	}
	config, saved, err := checkpoint.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	second := newEngine(t, config, saved, 1)
	tensors, steps, err = checkpoint.LoadOptimizer(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.LoadOptimizerState(tensors, steps); err != nil {
		t.Fatal(err)
	}
	trainSteps(t, second, batch, 2)
	if digest(second.Weights()) != digest(straight.Weights()) {
		t.Error("the weights differ")
	}
	if err := second.LoadOptimizerState(tensors[1:], steps); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a missing tensor: %v", err)
	}
}

func TestEmptyBatches(t *testing.T) {
	c := tinyConfig()
	e := newEngine(t, c, policytest.LoudWeights(t, c), 2)
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
	for _, g := range e.Gradients() {
		for _, x := range g.Data {
			if x != 0 {
				t.Fatalf("the gradient of %s is not zero", g.Name)
			}
		}
	}
}

func TestWrongCalls(t *testing.T) {
	c := tinyConfig()
	weights := policytest.LoudWeights(t, c)
	e := newEngine(t, c, weights, 1)
	run := func(batch policy.Batch) error {
		n := len(batch.TokenIDs)
		return e.Forward(batch, policy.Sampling{Temperature: 1}, make([]float32, n), make([]float32, n))
	}
	long := policytest.Batch(c, 1, c.MaxPositionEmbeddings+1)
	for name, test := range map[string]struct {
		err  error
		code int
	}{
		"too long":        {run(long), exitcode.Data},
		"foreign token":   {run(policy.Batch{TokenIDs: []int32{37}, Targets: []bool{false}, Offsets: []int32{0, 1}}), exitcode.Data},
		"first is target": {run(policy.Batch{TokenIDs: []int32{1}, Targets: []bool{true}, Offsets: []int32{0, 1}}), exitcode.Bug},
		"short offsets":   {run(policy.Batch{TokenIDs: []int32{1, 2}, Targets: make([]bool, 2), Offsets: []int32{0, 1}}), exitcode.Bug},
		"falling offsets": {run(policy.Batch{TokenIDs: []int32{1, 2}, Targets: make([]bool, 2), Offsets: []int32{0, 2, 1, 2}}), exitcode.Bug},
		"short targets":   {run(policy.Batch{TokenIDs: []int32{1, 2}, Targets: make([]bool, 1), Offsets: []int32{0, 2}}), exitcode.Bug},
		"no forward":      {e.Backward(policy.Coefficients{}), exitcode.Bug},
	} {
		if exitcode.Code(test.err) != test.code {
			t.Errorf("%s: code %d (%v), want %d", name, exitcode.Code(test.err), test.err, test.code)
		}
	}
	batch := policytest.Batch(c, 1, 9)
	forward(t, e, batch, policy.Sampling{})
	if err := e.Backward(policy.Coefficients{LogProb: make([]float32, 3)}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("too few coefficients: %v", err)
	}
	if err := e.Backward(policy.Coefficients{Value: make([]float32, 9)}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("coefficients for values without a value head: %v", err)
	}
	if err := e.Backward(policy.Coefficients{LogProb: make([]float32, 9)}); err != nil {
		t.Error(err)
	}
	if err := e.Backward(policy.Coefficients{LogProb: make([]float32, 9)}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a second backward pass: %v", err)
	}
	sampler, err := New(policy.InMemory(c, weights), Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	forward(t, sampler, batch, policy.Sampling{})
	if err := sampler.Backward(policy.Coefficients{LogProb: make([]float32, 9)}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("backward without Train: %v", err)
	}
	if _, err := sampler.Step(testAdamW); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("step without Train: %v", err)
	}
	if _, err := New(policy.InMemory(c, weights[1:]), Options{}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a missing tensor: %v", err)
	}
}

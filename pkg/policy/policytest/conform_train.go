package policytest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// loss is L = Σ c·logp + Σ d·H + Σ v·V over a batch, for coefficients c, d and,
// with a value head, v. Its derivatives are what Backward is given.
func loss(t testing.TB, e *policy.Engine, batch policy.Batch, s policy.Sampling, given policy.Coefficients) float64 {
	t.Helper()
	logProbs, entropy := forward(t, e, batch, s)
	values := make([]float32, len(logProbs))
	if given.Value != nil {
		must(t, e.Values(values))
	}
	total := 0.0
	for i := range logProbs {
		total += float64(given.LogProb[i])*float64(logProbs[i]) + float64(given.Entropy[i])*float64(entropy[i])
		if given.Value != nil {
			total += float64(given.Value[i]) * float64(values[i])
		}
	}
	return total
}

// The gradient g of each tensor against a central difference along it: with
// d = g/|g|, (L(w+hd) - L(w-hd))/2h is |g| up to rounding of L by about 1e-5,
// which is divided by 2h, and up to h² times a third derivative.
func testFiniteDifferences(t *testing.T, b Backend) {
	shapes := map[string]policy.Config{"qwen2": Tiny(), "qwen3": Families()["qwen3 tied, scaled"]}
	if !b.Slow {
		shapes["llama"] = Families()["llama untied"]
	}
	for name, c := range Composed() {
		if b.Takes == nil || b.Takes(c) {
			c.Layers = c.Layers[:min(1, len(c.Layers))]
			shapes[name] = c
		}
	}
	for name, c := range shapes {
		c.NumHiddenLayers = 1
		t.Run(name, func(t *testing.T) {
			b.finiteDifferences(t, c, LoudWeights(t, c), false, func(weights []policy.Tensor) *policy.Engine {
				return b.plain(t, c, weights, Options{Train: true})
			})
		})
	}
}

// finiteDifferences compares the gradients of tensors that open makes engines
// with.
func (b Backend) finiteDifferences(t *testing.T, c policy.Config, weights []policy.Tensor, ofValues bool, open func(weights []policy.Tensor) *policy.Engine) {
	t.Helper()
	if b.Rounds {
		return
	}
	s := policy.Sampling{Temperature: 0.8}
	batch := Batch(c, 9, 5, 11)
	given := policy.Coefficients{LogProb: Coefficients(batch, 1), Entropy: Coefficients(batch, 2)}
	if ofValues {
		given.Value = Coefficients(batch, 3)
	}
	e := open(weights)
	forward(t, e, batch, s)
	backward(t, e, given)
	for i, g := range cloned(e.Gradients()) {
		norm := math.Sqrt(vec.SumSquares(g.Data))
		if norm == 0 {
			t.Errorf("the gradient of %s is zero", g.Name)
			continue
		}
		h := min(0.02/norm, 0.02)
		at := func(h float64) float64 {
			moved := cloned(weights)
			for j := range moved[i].Data {
				moved[i].Data[j] += float32(h * float64(g.Data[j]) / norm)
			}
			return loss(t, open(moved), batch, s, given)
		}
		if numeric := (at(h) - at(-h)) / (2 * h); math.Abs(numeric-norm) > 0.01*norm+1e-3 {
			t.Errorf("%s: the gradient is %.6g long, the difference along it %.6g", g.Name, norm, numeric)
		}
	}
}

// Backward adds to the gradients, and a batch in parts gives those of the
// whole, bit for bit.
func testAccumulation(t *testing.T, b Backend) {
	c := Tiny()
	weights := LoudWeights(t, c)
	whole := Batch(c, 3, 9, 12)
	coefficients := Coefficients(whole, 1)
	s := policy.Sampling{Temperature: 1}
	one, two := b.plain(t, c, weights, Options{Train: true}), b.plain(t, c, weights, Options{Train: true})
	forward(t, one, whole, s)
	backward(t, one, policy.Coefficients{LogProb: coefficients})
	forward(t, two, Part(whole, 0, 1), s)
	backward(t, two, policy.Coefficients{LogProb: coefficients[:9]})
	forward(t, two, Part(whole, 1, 2), s)
	backward(t, two, policy.Coefficients{LogProb: coefficients[9:]})
	if !b.Rounds {
		sameTensors(t, "in two parts", two.Gradients(), one.Gradients())
	}
	one.ZeroGradients()
	wantZeros(t, "after ZeroGradients", one.Gradients())
}

// Sums of gradients are those of float32, element by element, and a gradient
// that the caller writes is the one that a step takes.
func testPartialSums(t *testing.T, b Backend) {
	c := Tiny()
	e := b.plain(t, c, LoudWeights(t, c), Options{Train: true})
	var parts [2][]policy.Tensor
	for i := range parts {
		batch := Batch(c, uint64(i), 6, 19)
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		backward(t, e, policy.Coefficients{LogProb: Coefficients(batch, 1)})
		parts[i] = cloned(e.Gradients())
		must(t, e.HoldGradients(i))
		wantZeros(t, "held", e.Gradients())
	}
	must(t, e.AddGradients(1))
	must(t, e.AddGradients(0))
	for i, g := range e.Gradients() {
		sum := make([]float32, len(g.Data))
		vec.Add(sum, parts[1][i].Data, parts[0][i].Data)
		if !SameBits(g.Data, sum) {
			t.Errorf("%s is not the sum of its parts", g.Name)
		}
		half := len(g.Data) / 2
		read := make([]float32, len(g.Data))
		must(t, e.ReadSum(0, i, half, read[half:]))
		must(t, e.ReadSum(0, i, 0, read[:half]))
		if !SameBits(read, parts[0][i].Data) {
			t.Errorf("sum 0 of %s is not what was held", g.Name)
		}
	}
	before := e.Weights()
	for i, w := range e.Trained() {
		ones := make([]float32, w.Elements())
		for j := range ones {
			ones[j] = 1
		}
		half := len(ones) / 2
		must(t, e.WriteGradient(i, half, ones[half:]))
		must(t, e.WriteGradient(i, 0, ones[:half]))
	}
	stats, err := e.Step(policy.AdamW{LearningRate: 0.5})
	must(t, err)
	if norm := math.Sqrt(float64(policy.ParameterCount(c))); stats.Skipped || math.Abs(stats.GradNorm-norm) > 1e-6*norm {
		t.Errorf("%+v, want a norm of %g", stats, norm)
	}
	for i, w := range e.Weights() {
		for j, x := range w.Data {
			if d := x - (before[i].Data[j] - 0.5); d > 1e-6 || d < -1e-6 {
				t.Fatalf("%s[%d] went from %g to %g, want half less", w.Name, j, before[i].Data[j], x)
			}
		}
	}
}

func testWrongTraining(t *testing.T, b Backend) {
	c := Tiny()
	weights := LoudWeights(t, c)
	trainer, reader := b.plain(t, c, weights, Options{Train: true}), b.plain(t, c, weights, Options{})
	one, trained := make([]float32, 1), trainer.Trained()
	faults := map[string]error{
		"no forward pass":       trainer.Backward(policy.Coefficients{}),
		"a sum below the first": trainer.HoldGradients(-1),
		"nothing held":          trainer.AddGradients(1),
		"reading nothing":       trainer.ReadSum(0, 0, 0, one),
		"no such tensor":        trainer.WriteGradient(len(trained), 0, one),
		"beyond a tensor":       trainer.WriteGradient(0, trained[0].Elements(), one),
		"before a tensor":       trainer.WriteGradient(0, -1, one),
		"held without Train":    reader.HoldGradients(0),
		"written without Train": reader.WriteGradient(0, 0, one),
	}
	batch := Batch(c, 1, 9)
	nine := policy.Coefficients{LogProb: make([]float32, 9)}
	forward(t, trainer, batch, policy.Sampling{})
	faults["too few coefficients"] = trainer.Backward(policy.Coefficients{LogProb: make([]float32, 3)})
	faults["values without a head"] = trainer.Backward(policy.Coefficients{Value: make([]float32, 9)})
	backward(t, trainer, nine)
	faults["a second backward pass"] = trainer.Backward(nine)
	forward(t, reader, batch, policy.Sampling{})
	faults["a backward of a reader"] = reader.Backward(nine)
	_, faults["a step of a reader"] = reader.Step(optimizer)
	_, faults["weights of another shape"] = b.Open(t, b.Ways[0], policy.InMemory(c, weights[1:]), Options{})
	adapter := LoudAdapter(t, c, Everywhere())
	adapter.Tensors = adapter.Tensors[1:]
	_, faults["adapter of another shape"] = b.Open(t, b.Ways[0], policy.InMemory(c, weights), Options{Adapter: adapter})
	_, faults["value head of another size"] = b.Open(t, b.Ways[0], policy.InMemory(c, weights), Options{ValueHead: make([]float32, 3)})
	for name, err := range faults {
		if exitcode.Code(err) != exitcode.Bug {
			t.Errorf("%s: code %d (%v), want %d", name, exitcode.Code(err), err, exitcode.Bug)
		}
	}
	adapter.Rank = 0
	if _, err := b.Open(t, b.Ways[0], policy.InMemory(c, weights), Options{Adapter: adapter}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("an adapter of rank 0: %v", err)
	}
	state, steps := State(t, trainer)
	if err := trainer.LoadOptimizerState(state[1:], steps); exitcode.Code(err) != exitcode.Data {
		t.Errorf("optimizer state without a tensor: %v", err)
	}
}

// Three steps against AdamW in float64 (Loshchilov and Hutter, Decoupled Weight
// Decay Regularization, ICLR 2019, Algorithm 2), with decay on matrices only
// and the clip of torch.
func testAdamW(t *testing.T, b Backend) {
	c := Tiny()
	e := b.plain(t, c, LoudWeights(t, c), Options{Train: true})
	w, m, v := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, tensor := range e.Weights() {
		m[tensor.Name], v[tensor.Name] = make([]float64, len(tensor.Data)), make([]float64, len(tensor.Data))
		for _, x := range tensor.Data {
			w[tensor.Name] = append(w[tensor.Name], float64(x))
		}
	}
	for step := 1; step <= 3; step++ {
		settings := optimizer
		settings.MaxGradNorm = []float64{0, 1e6, 0.5}[step-1] // none, never reached, reached
		batch := Batch(c, uint64(step), 20, 30)
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		e.ZeroGradients()
		backward(t, e, policy.Coefficients{LogProb: Coefficients(batch, 1)})
		gradients := cloned(e.Gradients())
		square := 0.0
		for _, g := range gradients {
			square += vec.SumSquares(g.Data)
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
		weights := e.Weights()
		for i, g := range gradients {
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
			if d := difference(weights[i].Data, ws); d > 2e-6 {
				t.Errorf("step %d: %s differs by %.2g", step, g.Name, d)
			}
		}
	}
}

// A value head with a learning rate and a bound of its own: the first step from
// moments of zero moves a weight by lr·ĝ/(|ĝ| + eps), with ĝ the clipped gradient.
// Of gradients of 2 throughout the head's 20 have the norm 2√20, which a bound of 1/2
// brings to it: ĝ is 1/(2√20) in all of them. The policy's norm is then without them.
func testOwnValueHead(t *testing.T, b Backend) {
	c := Tiny()
	const lr, own, eps = 0.01, 0.001, 1.0 // eps of the size of gradients, so that their size matters
	weights := LoudWeights(t, c)
	rest, head := float64(policy.ParameterCount(c)), float64(c.HiddenSize)
	all, without := 2*math.Sqrt(rest+head), 2*math.Sqrt(rest)
	for name, test := range map[string]struct {
		bound                float64 // of the policy
		head                 policy.HeadAdamW
		norm                 float64 // of the policy
		gradient, headRate   float64 // ĝ of the policy's weights; the head's learning rate
		headGradient, headIs float64 // ĝ of its weights, and its norm where it has one
	}{
		"nothing of its own": {1, policy.HeadAdamW{}, all, 2 / all, lr, 2 / all, 0},
		"a learning rate":    {0, policy.HeadAdamW{LearningRate: own}, all, 2, own, 2, 0},
		"a bound":            {1, policy.HeadAdamW{MaxGradNorm: 0.5}, without, 2 / without, lr, 0.5 / math.Sqrt(head), 2 * math.Sqrt(head)},
		"both":               {0, policy.HeadAdamW{LearningRate: own, MaxGradNorm: 0.5}, without, 2, own, 0.5 / math.Sqrt(head), 2 * math.Sqrt(head)},
	} {
		e, before := twos(t, b, weights, "")
		stats, err := e.Step(policy.AdamW{LearningRate: lr, Beta1: 0.9, Beta2: 0.95, Epsilon: eps, MaxGradNorm: test.bound, ValueHead: test.head})
		if err != nil || math.Abs(stats.GradNorm/test.norm-1) > 1e-6 || math.Abs(stats.HeadNorm-test.headIs) > 1e-6 || math.Abs(2*stats.Scale-test.gradient) > 1e-6 {
			t.Errorf("%s: %+v, %v", name, stats, err)
		}
		for i, w := range e.Weights() {
			rate, g := lr, test.gradient
			if w.Name == policy.ValueHeadName {
				rate, g = test.headRate, test.headGradient
			}
			want := rate * g / (g + eps)
			for j, x := range w.Data {
				if moved := float64(before[i].Data[j]) - float64(x); math.Abs(moved-want) > 2e-6 {
					t.Fatalf("%s: %s[%d] went down by %g, want %g", name, w.Name, j, moved, want)
				}
			}
		}
	}
	// One norm of two that is not finite changes nothing.
	for _, broken := range []string{policy.ValueHeadName, "model.norm.weight"} {
		e, before := twos(t, b, weights, broken)
		stats, err := e.Step(policy.AdamW{LearningRate: lr, Epsilon: eps, ValueHead: policy.HeadAdamW{MaxGradNorm: 0.5}})
		if err != nil || !stats.Skipped || stats.Scale != 0 || stats.HeadScale != 0 {
			t.Errorf("the gradient of %s is infinite: %+v, %v", broken, stats, err)
		}
		sameTensors(t, "after a step that was skipped", e.Weights(), before)
	}
}

// twos opens a policy with a value head, and gradients of 2 but for one of the named
// tensor's, which is infinite.
func twos(t *testing.T, b Backend, weights []policy.Tensor, broken string) (e *policy.Engine, before []policy.Tensor) {
	t.Helper()
	c := Tiny()
	e = b.plain(t, c, weights, Options{Train: true, ValueHead: LoudValueHead(c)})
	for i, w := range e.Trained() {
		gradient := slices.Repeat([]float32{2}, w.Elements())
		if w.Name == broken {
			gradient[1] = float32(math.Inf(1))
		}
		must(t, e.WriteGradient(i, 0, gradient))
	}
	return e, cloned(e.Weights())
}

// A gradient that is not finite changes nothing, and no step is counted.
func testSkippedSteps(t *testing.T, b Backend) {
	c := Tiny()
	e := b.plain(t, c, LoudWeights(t, c), Options{Train: true})
	before := e.Weights()
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		e.ZeroGradients()
		must(t, e.WriteGradient(3, 5, []float32{float32(bad)}))
		stats, err := e.Step(optimizer)
		if err != nil || !stats.Skipped {
			t.Errorf("gradient %v: %+v, %v", bad, stats, err)
		}
	}
	sameTensors(t, "weights", e.Weights(), before)
	state, steps := State(t, e)
	if steps != 0 {
		t.Errorf("%d steps", steps)
	}
	wantZeros(t, "moments", state)
}

// The bits of training depend neither on the way nor on how a batch is divided
// among passes at the ends of sequences.
func testDivision(t *testing.T, b Backend) {
	for name, c := range b.families() {
		if !slices.Contains([]string{"qwen2 tied", "qwen3 untied", "olmo3", "gemma2", "qwen3-moe", "olmoe"}, name) {
			continue
		}
		for _, p := range precisions(t, c) {
			for _, state := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
				test := fmt.Sprintf("%s %s state %s", name, p.dtype, state)
				if b.Slow && !slices.Contains([]string{"qwen2 tied BF16 state F32", "qwen3 untied F32 state F32", "qwen3 untied BF16 state BF16"}, test) {
					continue
				}
				t.Run(test, func(t *testing.T) {
					trained := func(way string, parts [][2]int) []policy.Tensor {
						e := b.open(t, way, c, p.weights, Options{Train: true, DType: p.dtype, State: state})
						for number := range 2 {
							whole := Batch(c, uint64(number), 20, 3, 65, 17, 1)
							ofLogProb, ofEntropy := Coefficients(whole, 1), Coefficients(whole, 2)
							e.ZeroGradients()
							for _, part := range parts {
								from, to := whole.Offsets[part[0]], whole.Offsets[part[1]]
								forward(t, e, Part(whole, part[0], part[1]), policy.Sampling{Temperature: 1, TopP: 0.95})
								backward(t, e, policy.Coefficients{LogProb: ofLogProb[from:to], Entropy: ofEntropy[from:to]})
							}
							step(t, e, number)
						}
						state, _ := State(t, e)
						return append(e.Weights(), state...)
					}
					whole := [][2]int{{0, 5}}
					want := trained(b.Ways[0], whole)
					for _, way := range b.Ways[1:] {
						sameTensors(t, way, trained(way, whole), want)
					}
					if b.Rounds {
						return
					}
					sameTensors(t, "micro-batches", trained(b.Ways[0], [][2]int{{0, 1}, {1, 3}, {3, 5}}), want)
				})
			}
		}
	}
}

package policytest

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Everywhere adapts every projection, with a rank that fills no vector.
func Everywhere() policy.LoRA {
	return policy.LoRA{Rank: 3, Alpha: 5, Targets: policy.LoRATargets()}
}

// LoudAdapter has A and B far from their initial values.
func LoudAdapter(t testing.TB, c policy.Config, l policy.LoRA) *policy.Adapter {
	t.Helper()
	a, err := policy.InitAdapter(c, l, 3)
	must(t, err)
	for _, w := range a.Tensors {
		stream := rng.New(6, rng.PurposeTest, 0, w.Name, 0)
		for i := range w.Data {
			w.Data[i] = 0.3 * float32(stream.Normal(uint64(i)))
		}
	}
	return &a
}

// LoudValueHead is a value head (hidden) far from its initial zeros.
func LoudValueHead(c policy.Config) []float32 {
	head, stream := policy.NewValueHead(c), rng.New(8, rng.PurposeTest, 0, "head", 0)
	for i := range head {
		head[i] = float32(stream.Normal(uint64(i)))
	}
	return head
}

// Four steps, and two that are saved, loaded and followed by two more, give the
// same bits: of weights, of an adapter, and with a value head.
func testSavedState(t *testing.T, b Backend) {
	c := Tiny()
	batch := Batch(c, 2, 20, 24)
	for _, p := range precisions(t, c) {
		for _, kind := range []string{"weights", "adapter", "value head"} {
			t.Run(string(p.dtype)+" "+kind, func(t *testing.T) {
				options := Options{Train: true, DType: p.dtype}
				adapter := LoudAdapter(t, c, Everywhere())
				switch kind {
				case "adapter":
					options.Adapter = adapter
				case "value head":
					options.ValueHead = LoudValueHead(c)
				}
				straight, first := b.plain(t, c, p.weights, options), b.plain(t, c, p.weights, options)
				learn(t, straight, batch, 0, 4, kind == "value head")
				learn(t, first, batch, 0, 2, kind == "value head")
				second := b.saved(t, first, p.weights, options)
				learn(t, second, batch, 2, 2, kind == "value head")
				sameTensors(t, "four steps", second.Weights(), straight.Weights())
				want, steps := State(t, straight)
				got, gotSteps := State(t, second)
				sameTensors(t, "the optimizer's state", got, want)
				if steps != 4 || gotSteps != 4 {
					t.Errorf("%d and %d steps, want 4", steps, gotSteps)
				}
				if p.dtype == safetensors.BF16 && kind == "weights" {
					if err := b.plain(t, c, p.weights, options).LoadOptimizerState(got, gotSteps); exitcode.Code(err) != exitcode.Data {
						t.Errorf("masters of other weights: %v", err)
					}
				}
			})
		}
	}
}

// State is an engine's optimizer state, read into memory.
func State(t testing.TB, e policy.Trainer) (tensors policy.StateInMemory, steps int) {
	t.Helper()
	state, steps := e.OptimizerState()
	tensors, err := policy.ReadState(state)
	must(t, err)
	return tensors, steps
}

// saved writes what an engine has trained and its optimizer's state into
// folders, and opens an engine on them. weights are those that an adapter
// adapts.
func (b Backend) saved(t *testing.T, e *policy.Engine, weights []policy.Tensor, options Options) *policy.Engine {
	t.Helper()
	c, folder, state := e.Config(), filepath.Join(t.TempDir(), "version"), t.TempDir()
	must(t, os.Mkdir(folder, 0o777))
	moments, steps := e.OptimizerState()
	must(t, checkpoint.SaveOptimizer(state, moments, steps))
	trained, head := policy.SplitValueHead(e.Weights())
	source := policy.InMemory(c, weights)
	var err error
	if options.Adapter != nil {
		must(t, checkpoint.SaveAdapter(folder, c, policy.Adapter{LoRA: *e.Adapter(), Base: "base", Tensors: trained}))
		adapter, err := checkpoint.LoadAdapter(folder, c, true)
		must(t, err)
		options.Adapter = &adapter
	} else {
		must(t, checkpoint.Save(folder, c, trained))
		source, err = checkpoint.Open(folder)
		must(t, err)
		defer source.Close()
	}
	if head != nil {
		must(t, checkpoint.SaveValueHead(folder, *head))
		options.ValueHead, err = checkpoint.LoadValueHead(folder, c)
		must(t, err)
	}
	next, err := b.Open(t, b.Ways[0], source, options)
	must(t, err)
	t.Cleanup(func() { must(t, next.Close()) })
	kept, err := checkpoint.OpenState(state, nil)
	must(t, err)
	must(t, next.LoadOptimizerState(kept, kept.Steps))
	must(t, kept.Close())
	return next
}

// An adapter is what is trained; sampler and learner agree with it; switched
// off, or new, it leaves the bits of the policy that it adapts.
func testAdapter(t *testing.T, b Backend) {
	b.testAdapterOf(t, Tiny())
	for _, name := range []string{"phi3", "gemma2", "olmoe"} { // fused projections, norms after them, experts
		if c, takes := b.families()[name]; takes {
			b.testAdapterOf(t, c)
		}
	}
}

func (b Backend) testAdapterOf(t *testing.T, c policy.Config) {
	weights := LoudWeights(t, c)
	s := policy.Sampling{Temperature: 0.8, TopP: 0.95}
	batch, requests := Batch(c, 3, 30, 90), Requests(c, 2, 4, 30, s)
	bare := b.plain(t, c, weights, Options{Train: true})
	wantLogProbs, wantEntropy := forward(t, bare, batch, s)
	wantCompletions := generate(t, bare, requests...)

	fresh, err := policy.InitAdapter(c, policy.LoRA{Rank: 3, Alpha: 5, Targets: policy.LoRATargets()[:3]}, 3)
	must(t, err)
	if logProbs, _ := forward(t, b.plain(t, c, weights, Options{Adapter: &fresh}), batch, s); !SameBits(logProbs, wantLogProbs) {
		t.Error("a new adapter changes log-probabilities")
	}

	shape := Everywhere()
	if c.Experts > 0 {
		shape.Targets = shape.Targets[:4] // experts have none
	}
	adapter := LoudAdapter(t, c, shape)
	e := b.plain(t, c, weights, Options{Train: true, Adapter: adapter})
	if diff := cmp.Diff(adapter.LoRA, *e.Adapter()); diff != "" {
		t.Error(diff)
	}
	if err := policy.Match(e.Trained(), policy.LoRALayout(c, adapter.LoRA)); err != nil {
		t.Errorf("trained tensors: %v", err)
	}
	b.oneLogProbability(t, e, s)
	on, _ := forward(t, e, batch, s)
	if SameBits(on, wantLogProbs) {
		t.Error("the adapter changes nothing")
	}
	e.SetAdapter(false)
	off, entropy := forward(t, e, batch, s)
	if !SameBits(off, wantLogProbs) || !SameBits(entropy, wantEntropy) {
		t.Error("switched off, the adapter still changes log-probabilities")
	}
	if diff := cmp.Diff(wantCompletions, generate(t, e, requests...)); diff != "" {
		t.Errorf("switched off, the adapter still changes responses: %s", diff)
	}
	if err := e.Backward(policy.Coefficients{}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a backward pass with the adapter off: %v", err)
	}
	e.SetAdapter(true)
	if again, _ := forward(t, e, batch, s); !SameBits(again, on) {
		t.Error("switched on again, the adapter gives other log-probabilities")
	}

	one := c
	one.NumHiddenLayers, one.Layers = 1, c.Layers[:min(1, len(c.Layers))]
	base, small := LoudWeights(t, one), LoudAdapter(t, one, shape)
	b.finiteDifferences(t, one, small.Tensors, false, func(tensors []policy.Tensor) *policy.Engine {
		return b.plain(t, one, base, Options{Train: true, Adapter: &policy.Adapter{LoRA: small.LoRA, Tensors: tensors}})
	})
}

// A value head adds values, whose bits do not depend on the company or the way,
// and changes no log-probability.
func testValueHead(t *testing.T, b Backend) {
	c := Tiny()
	weights, s := LoudWeights(t, c), policy.Sampling{Temperature: 1}
	options := Options{Train: true, ValueHead: LoudValueHead(c)}
	values := func(e *policy.Engine, n int) []float32 {
		v := make([]float32, n)
		must(t, e.Values(v))
		return v
	}
	batch := Batch(c, 1, 30, 19, 2, 80)
	want, _ := forward(t, b.plain(t, c, weights, Options{}), batch, s)
	var whole []float32
	var trained []policy.Tensor
	for _, way := range b.Ways {
		e := b.open(t, way, c, weights, options)
		if err := e.Values(make([]float32, len(batch.TokenIDs))); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("%s: values without a forward pass: %v", way, err)
		}
		if all := e.Trained(); all[len(all)-1].Name != policy.ValueHeadName {
			t.Errorf("the last tensor is %s", all[len(all)-1].Name)
		}
		if logProbs, _ := forward(t, e, batch, s); !SameBits(logProbs, want) {
			t.Errorf("%s: a value head changes log-probabilities", way)
		}
		got := values(e, len(batch.TokenIDs))
		if whole == nil {
			whole = got
		}
		if !SameBits(got, whole) {
			t.Errorf("%s: values differ", way)
		}
		for i, target := range batch.Targets {
			if !target && got[i] != 0 || math.IsNaN(float64(got[i])) {
				t.Errorf("%s: token %d, a target: %v, has value %g", way, i, target, got[i])
			}
		}
		if err := e.Values(make([]float32, 3)); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("%s: too little room for values: %v", way, err)
		}
		from, to := batch.Offsets[3], batch.Offsets[4]
		forward(t, e, Part(batch, 3, 4), s)
		if !SameBits(values(e, int(to-from)), whole[from:to]) {
			t.Errorf("%s: values differ alone", way)
		}
		learn(t, e, batch, 0, 1, true)
		if weights := e.Weights(); trained == nil {
			trained = weights
		} else {
			sameTensors(t, way, weights, trained)
		}
	}

	one := c
	one.NumHiddenLayers = 1
	head := policy.ValueHeadLayout(one)
	head.Data = LoudValueHead(one)
	all := append(LoudWeights(t, one), head)
	b.finiteDifferences(t, one, all, true, func(tensors []policy.Tensor) *policy.Engine {
		rest, head := policy.SplitValueHead(tensors)
		return b.plain(t, one, rest, Options{Train: true, ValueHead: head.Data})
	})
}

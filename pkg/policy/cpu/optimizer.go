package cpu

import (
	"cmp"
	"errors"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/adamw"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// gradNorm is the global L2 norm of gradients.
func (e *Engine) gradNorm(tensors []policy.Tensor) float64 {
	var segments [][]float32
	for _, t := range tensors {
		segments = slices.AppendSeq(segments, slices.Chunk(t.Data, adamw.Segment))
	}
	squares := make([]float64, len(segments))
	parallel(e.threads, len(segments), 1, func(_, from, to int) {
		for i := from; i < to; i++ {
			squares[i] = vec.SumSquares(segments[i])
		}
	})
	return adamw.Norm(squares)
}

// Step implements [policy.Trainer] with AdamW (package adamw). A value head with a
// bound of its own is clipped by its own norm. The gradients are left as they are.
func (e *Engine) Step(settings policy.AdamW) (policy.StepStats, error) {
	defer phase.Enter(phase.Optimizer)()
	if !e.train || e.stateless {
		return policy.StepStats{}, exitcode.Bugf("optimizer step: the engine was opened without Train, or for gradients alone")
	}
	e.settleGradients()
	rest, head := e.grads.tensors, (*policy.Tensor)(nil)
	if settings.ValueHead.MaxGradNorm > 0 {
		rest, head = policy.SplitValueHead(rest)
	}
	headNorm := 0.0
	if head != nil {
		headNorm = e.gradNorm([]policy.Tensor{*head})
	}
	step := adamw.Clip(settings, e.gradNorm(rest), headNorm)
	if step.Skipped {
		return step.StepStats, nil
	}
	e.allocateMoments()
	e.steps++
	step.Number(e.steps)
	scratch := make([]updateScratch, e.threads)
	units := e.trained.units()
	parallel(e.threads, len(units), 1, func(worker, from, to int) {
		for i := range units[from:to] {
			u := &units[from+i]
			e.update(u, step.Of(e.trained.tensors[u.first]), settings.Rounding, &scratch[worker])
		}
	})
	e.forget()
	return step.StepStats, nil
}

// updateScratch is one goroutine's memory for Step.
type updateScratch struct {
	weights, first, second []float32
	half                   []uint16
	noise                  adamw.Noise
}

// update applies one step to a unit: the new weights go from the optimizer
// through the caches to where the next forward pass reads them.
func (e *Engine) update(u *unit, params vec.AdamWParams, stream rng.Stream, s *updateScratch) {
	at, n := u.offset+u.from, u.to-u.from
	var ofWeights, ofFirst, ofSecond []uint16
	random := e.moments.half != nil
	if random {
		ofWeights, ofFirst, ofSecond = s.noise.Draw(stream, at, n)
	}
	s.weights, s.half = grow(s.weights, n), grow(s.half, n)
	first, second := e.moments.read(at, n, &s.first), e.moments2.read(at, n, &s.second)
	master := u.master()
	weights := master
	if master == nil {
		weights = s.weights
		u.read(weights)
	}
	vec.AdamW(weights, first, second, u.grad(), params)
	if random {
		vec.RoundBF16Randomly(e.moments.half[at:at+n], first, ofFirst)
		vec.RoundBF16Randomly(e.moments2.half[at:at+n], second, ofSecond)
	}
	if master == nil && u.all(safetensors.BF16) {
		vec.RoundBF16Randomly(s.half, weights, ofWeights)
		vec.WidenBF16(weights, s.half)
	}
	u.write(weights, s.weights)
}

// moments holds one moment of every parameter in the order of the layout, as
// float32 or as bfloat16.
type moments struct {
	wide []float32
	half []uint16
}

// read returns n elements, where they are or widened to scratch.
func (m *moments) read(at, n int, scratch *[]float32) []float32 {
	if m.half == nil {
		return m.wide[at : at+n]
	}
	*scratch = grow(*scratch, n)
	vec.WidenBF16(*scratch, m.half[at:at+n])
	return *scratch
}

// list adds the moment of each tensor to a state.
func (m *moments) list(s *state, prefix string, layout []policy.Tensor) {
	dtype := safetensors.F32
	if m.half != nil {
		dtype = safetensors.BF16
	}
	at := 0
	for _, t := range layout {
		begin := at
		s.add(policy.Tensor{Name: prefix + t.Name, Shape: t.Shape, DType: dtype}, func(dst []float32, from int) {
			if m.half != nil {
				vec.WidenBF16(dst, m.half[begin+from:begin+from+len(dst)])
			} else {
				copy(dst, m.wide[begin+from:])
			}
		})
		at += t.Elements()
	}
}

// set reads the moment of each tensor of the layout, which are at these places of a state.
func (m *moments) set(state policy.State, index []int, layout []policy.Tensor) error {
	at := 0
	var wide []float32
	for i, t := range layout {
		n := t.Elements()
		if m.half == nil {
			wide = m.wide[at : at+n]
		} else {
			wide = grow(wide, n)
		}
		if err := state.Float32To(wide, index[i], 0); err != nil {
			return err
		}
		if m.half != nil {
			vec.RoundBF16(m.half[at:at+n], wide)
		}
		at += n
	}
	return nil
}

func (e *Engine) allocateMoments() {
	if e.moments.wide != nil || e.moments.half != nil {
		return
	}
	n := len(e.grads.data)
	if e.state == safetensors.BF16 {
		e.moments.half, e.moments2.half = make([]uint16, n), make([]uint16, n)
	} else {
		e.moments.wide, e.moments2.wide = make([]float32, n), make([]float32, n)
	}
}

// masters lists what half-precision weights were rounded from, sharing memory.
func (e *Engine) masters() []policy.Tensor {
	var all []policy.Tensor
	list := func(g *group, master []float32) {
		if len(master) == 0 {
			return
		}
		for i, p := range g.parts {
			if t := e.trained.tensors[g.first+i]; p.dtype != safetensors.F32 {
				all = append(all, policy.Tensor{
					Name: "master." + t.Name, Shape: t.Shape, DType: safetensors.F32, Data: master[p.from:p.to],
				})
			}
		}
	}
	for _, w := range e.trained.weights {
		list(&w.group, w.master)
	}
	for _, p := range e.trained.parameters {
		list(&p.group, p.master)
	}
	return all
}

// OptimizerState implements [policy.Trainer].
func (e *Engine) OptimizerState() (policy.State, int) {
	e.allocateMoments()
	s := &state{}
	e.moments.list(s, "exp_avg.", e.trained.tensors)
	e.moments2.list(s, "exp_avg_sq.", e.trained.tensors)
	for _, t := range e.masters() {
		s.add(policy.Tensor{Name: t.Name, Shape: t.Shape, DType: t.DType}, func(dst []float32, from int) { copy(dst, t.Data[from:]) })
	}
	return s, e.steps
}

// state is the optimizer's state where the engine has it.
type state struct {
	tensors []policy.Tensor
	fill    []func(dst []float32, from int) // of each tensor
}

func (s *state) add(t policy.Tensor, fill func(dst []float32, from int)) {
	s.tensors, s.fill = append(s.tensors, t), append(s.fill, fill)
}

func (s *state) Tensors() []policy.Tensor { return slices.Clone(s.tensors) }

func (s *state) Float32To(dst []float32, index, from int) error {
	if n := s.tensors[index].Elements(); from < 0 || len(dst) > n-from {
		return exitcode.Bugf("reading elements %d to %d of %q with %d", from, from+len(dst), s.tensors[index].Name, n)
	}
	s.fill[index](dst, from)
	return nil
}

// LoadOptimizerState implements [policy.Trainer].
func (e *Engine) LoadOptimizerState(state policy.State, steps int) error {
	if !e.train || e.stateless {
		return exitcode.Bugf("loading the optimizer's state: the engine was opened without Train, or for gradients alone")
	}
	if steps < 0 {
		return exitcode.Bugf("loading the optimizer's state: %d steps", steps)
	}
	e.allocateMoments()
	masters := e.masters()
	var want []policy.Tensor
	for _, prefix := range []string{"exp_avg.", "exp_avg_sq."} {
		for _, t := range e.trained.tensors {
			want = append(want, policy.Tensor{Name: prefix + t.Name, Shape: t.Shape})
		}
	}
	index, err := policy.PlaceState(state, append(want, masters...))
	if err != nil {
		return err
	}
	n := len(e.trained.tensors)
	if err := errors.Join(e.moments.set(state, index[:n], e.trained.tensors), e.moments2.set(state, index[n:2*n], e.trained.tensors)); err != nil {
		return err
	}
	for i, master := range masters {
		if err := state.Float32To(master.Data, index[2*n+i], 0); err != nil {
			return err
		}
	}
	e.steps = steps
	return e.checkMasters()
}

// checkMasters wants every master to round to the weights that the policy's
// folder has.
func (e *Engine) checkMasters() error {
	units := e.trained.units()
	differs := make([]string, len(units))
	parallel(e.threads, len(units), 1, func(_, from, to int) {
		var weights, rounded []float32
		for i := range units[from:to] {
			u := &units[from+i]
			master := u.master()
			if master == nil {
				continue
			}
			weights, rounded = grow(weights, len(master)), grow(rounded, len(master))
			u.read(weights)
			copy(rounded, master)
			u.round(rounded, u.from)
			if !slices.Equal(weights, rounded) {
				differs[from+i] = e.trained.tensors[u.first].Name
			}
		}
	})
	if name := cmp.Or(differs...); name != "" {
		return exitcode.Dataf("the optimizer's master weights do not round to the policy's %q: they belong to another policy", name)
	}
	return nil
}

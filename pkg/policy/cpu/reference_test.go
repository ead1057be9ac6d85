package cpu

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/lathe-rl/lathe/pkg/policy"
)

// This file is an independent float64 implementation of the model, one
// sequence at a time, with gradients by reverse-mode differentiation of
// matrix operations. It shares no code with the engine.

// matrix is a node of the tape.
type matrix struct {
	rows, cols int
	v, g       []float64 // value and gradient, row-major
}

func newMatrix(rows, cols int) *matrix {
	return &matrix{rows: rows, cols: cols, v: make([]float64, rows*cols), g: make([]float64, rows*cols)}
}

// tape runs backward steps in reverse order.
type tape struct {
	steps []func()
	round bool // what products read to bfloat16
}

// read is a value as a product reads it: with round the nearest number of 8 significant
// bits, the even one of two.
func (t *tape) read(x float64) float64 {
	if !t.round || x == 0 {
		return x
	}
	_, exponent := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(math.Ldexp(x, 8-exponent)), exponent-8)
}

func (t *tape) backward() {
	for i := len(t.steps) - 1; i >= 0; i-- {
		t.steps[i]()
	}
}

func (t *tape) record(step func()) { t.steps = append(t.steps, step) }

// product is a·bᵀ.
func (t *tape) product(a, b *matrix) *matrix {
	out := newMatrix(a.rows, b.rows)
	for i := range a.rows {
		for j := range b.rows {
			for k := range a.cols {
				out.v[i*out.cols+j] += t.read(a.v[i*a.cols+k]) * t.read(b.v[j*b.cols+k])
			}
		}
	}
	t.record(func() {
		for i := range a.rows {
			for j := range b.rows {
				for k := range a.cols {
					a.g[i*a.cols+k] += t.read(out.g[i*out.cols+j]) * t.read(b.v[j*b.cols+k])
					b.g[j*b.cols+k] += t.read(out.g[i*out.cols+j]) * t.read(a.v[i*a.cols+k])
				}
			}
		}
	})
	return out
}

// zip applies f, with partial derivatives, to two matrices of one shape; b may
// be one row, which is then used for every row of a.
func (t *tape) zip(a, b *matrix, f func(x, y float64) (z, dx, dy float64)) *matrix {
	out := newMatrix(a.rows, a.cols)
	at := func(i int) int { return i % len(b.v) }
	for i := range out.v {
		out.v[i], _, _ = f(a.v[i], b.v[at(i)])
	}
	t.record(func() {
		for i := range out.v {
			_, dx, dy := f(a.v[i], b.v[at(i)])
			a.g[i] += out.g[i] * dx
			b.g[at(i)] += out.g[i] * dy
		}
	})
	return out
}

func (t *tape) add(a, b *matrix) *matrix {
	return t.zip(a, b, func(x, y float64) (float64, float64, float64) { return x + y, 1, 1 })
}

// lowRank is w + scale·b·a.
func (t *tape) lowRank(w, a, b *matrix, scale float64) *matrix {
	out := newMatrix(w.rows, w.cols)
	each := func(f func(i, j, k int)) {
		for i := range w.rows {
			for j := range w.cols {
				for k := range a.rows {
					f(i*w.cols+j, i*b.cols+k, k*a.cols+j)
				}
			}
		}
	}
	copy(out.v, w.v)
	each(func(at, inB, inA int) { out.v[at] += scale * b.v[inB] * a.v[inA] })
	t.record(func() {
		for i, g := range out.g {
			w.g[i] += g
		}
		each(func(at, inB, inA int) {
			b.g[inB] += scale * out.g[at] * a.v[inA]
			a.g[inA] += scale * out.g[at] * b.v[inB]
		})
	})
	return out
}

// gatherRows picks rows of a.
func (t *tape) gatherRows(a *matrix, rows []int32) *matrix {
	out := newMatrix(len(rows), a.cols)
	for i, r := range rows {
		copy(out.v[i*a.cols:], a.v[int(r)*a.cols:(int(r)+1)*a.cols])
	}
	t.record(func() {
		for i, r := range rows {
			for j := range a.cols {
				a.g[int(r)*a.cols+j] += out.g[i*a.cols+j]
			}
		}
	})
	return out
}

// rmsNorm is x/sqrt(mean(x²)+eps)·weight by rows.
func (t *tape) rmsNorm(x, weight *matrix, eps float64) *matrix {
	out := newMatrix(x.rows, x.cols)
	n := float64(x.cols)
	inverse := make([]float64, x.rows)
	for i := range x.rows {
		mean := 0.0
		for j := range x.cols {
			mean += x.v[i*x.cols+j] * x.v[i*x.cols+j] / n
		}
		inverse[i] = 1 / math.Sqrt(mean+eps)
		for j := range x.cols {
			out.v[i*x.cols+j] = x.v[i*x.cols+j] * inverse[i] * weight.v[j]
		}
	}
	t.record(func() {
		for i := range x.rows {
			inner := 0.0
			for j := range x.cols {
				at := i*x.cols + j
				weight.g[j] += out.g[at] * x.v[at] * inverse[i]
				inner += out.g[at] * weight.v[j] * x.v[at]
			}
			for j := range x.cols {
				at := i*x.cols + j
				x.g[at] += out.g[at]*weight.v[j]*inverse[i] - x.v[at]*inner*math.Pow(inverse[i], 3)/n
			}
		}
	})
	return out
}

// frequency is that of pair j of a head, with Llama 3.1's scaling: in terms of
// the number of turns that a pair makes over the original context, fewer than
// low are divided by the factor, more than high are kept, and those between
// are mixed in proportion.
func frequency(c policy.Config, j int) float64 {
	f := math.Pow(c.RopeTheta, -2*float64(j)/float64(c.HeadDim))
	s := c.RopeScaling
	switch s.Type {
	case policy.RopeLinear:
		return f / s.Factor
	case policy.RopeLlama3:
		turns := float64(s.Original) * f / (2 * math.Pi)
		kept := (turns - s.LowFrequencyFactor) / (s.HighFrequencyFactor - s.LowFrequencyFactor)
		kept = max(0, min(1, kept))
		return kept*f + (1-kept)*f/s.Factor
	}
	return f
}

// rotate applies rotary embedding to one head's columns by complex numbers.
func (t *tape) rotate(x *matrix, c policy.Config) *matrix {
	out := newMatrix(x.rows, x.cols)
	half := x.cols / 2
	each := func(f func(i, j int, cos, sin float64)) {
		for i := range x.rows {
			for j := range half {
				angle := float64(i) * frequency(c, j)
				f(i*x.cols+j, i*x.cols+j+half, math.Cos(angle), math.Sin(angle))
			}
		}
	}
	each(func(re, im int, cos, sin float64) {
		out.v[re] = x.v[re]*cos - x.v[im]*sin
		out.v[im] = x.v[re]*sin + x.v[im]*cos
	})
	t.record(func() {
		each(func(re, im int, cos, sin float64) {
			x.g[re] += out.g[re]*cos + out.g[im]*sin
			x.g[im] += out.g[im]*cos - out.g[re]*sin
		})
	})
	return out
}

// columns copies columns from..from+n-1.
func (t *tape) columns(x *matrix, from, n int) *matrix {
	out := newMatrix(x.rows, n)
	for i := range x.rows {
		copy(out.v[i*n:(i+1)*n], x.v[i*x.cols+from:])
	}
	t.record(func() {
		for i := range x.rows {
			for j := range n {
				x.g[i*x.cols+from+j] += out.g[i*n+j]
			}
		}
	})
	return out
}

// attention is causal softmax attention of one head: Σ_j e_ij v_j / Σ_j e_ij with
// e_ij = exp(scale·(s_ij - max_j s_ij)) and s_ij = q_i·k_j.
func (t *tape) attention(q, k, v *matrix) *matrix {
	out, n, d := newMatrix(q.rows, q.cols), q.rows, q.cols
	e, total := make([]float64, n*n), make([]float64, n)
	scale := 1 / math.Sqrt(float64(d))
	inner := func(x []float64, i int, y []float64, j int) (sum float64) {
		for c := range d {
			sum += t.read(x[i*d+c]) * t.read(y[j*d+c])
		}
		return sum
	}
	for i := range n {
		row, most := e[i*n:i*n+i+1], math.Inf(-1)
		for j := range row {
			row[j] = inner(q.v, i, k.v, j)
			most = max(most, row[j])
		}
		for j := range row {
			row[j] = math.Exp(scale * (row[j] - most))
			total[i] += row[j]
		}
		for j := range row {
			for c := range d {
				out.v[i*d+c] += t.read(row[j]) * t.read(v.v[j*d+c]) / total[i]
			}
		}
	}
	t.record(func() {
		g := make([]float64, n*d) // of out, divided by the row's total
		for i := range n {
			mean := 0.0
			for c := range d {
				g[i*d+c] = out.g[i*d+c] / total[i]
				mean += g[i*d+c] * out.v[i*d+c]
			}
			for j := range i + 1 {
				ds := e[i*n+j] * (inner(g, i, v.v, j) - mean) * scale
				for c := range d {
					v.g[j*d+c] += t.read(e[i*n+j]) * t.read(g[i*d+c])
					q.g[i*d+c] += t.read(ds) * t.read(k.v[j*d+c])
					k.g[j*d+c] += t.read(ds) * t.read(q.v[i*d+c])
				}
			}
		}
	})
	return out
}

// keptSet is the definition of top-k, then top-p, extended by the target.
func keptSet(row []float64, s policy.Sampling, target int32) []bool {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return row[order[a]] > row[order[b]] })
	if s.TopK > 0 && s.TopK < len(order) {
		order = order[:s.TopK]
	}
	if s.TopP > 0 && s.TopP < 1 {
		total, reached := 0.0, 0.0
		for _, id := range order {
			total += math.Exp(row[id] / temperature(s))
		}
		for n, id := range order {
			reached += math.Exp(row[id] / temperature(s))
			if reached >= float64(s.TopP)*total {
				order = order[:n+1]
				break
			}
		}
	}
	kept := make([]bool, len(row))
	for _, id := range order {
		kept[id] = true
	}
	kept[target] = true
	return kept
}

func temperature(s policy.Sampling) float64 {
	if s.Temperature == 0 {
		return 1
	}
	return float64(s.Temperature)
}

// logProbs returns, by row, the log-probability of the targets and the
// entropy, as (rows, 2).
func (t *tape) logProbs(logits *matrix, targets []int32, s policy.Sampling) *matrix {
	out := newMatrix(logits.rows, 2)
	p := make([]float64, len(logits.v))
	for i := range logits.rows {
		row := logits.v[i*logits.cols : (i+1)*logits.cols]
		kept, total := keptSet(row, s, targets[i]), 0.0
		for j, x := range row {
			if kept[j] {
				p[i*logits.cols+j] = math.Exp(x / temperature(s))
				total += p[i*logits.cols+j]
			}
		}
		for j := range row {
			at := i*logits.cols + j
			p[at] /= total
			if p[at] > 0 {
				out.v[2*i+1] -= p[at] * math.Log(p[at])
			}
		}
		out.v[2*i] = math.Log(p[i*logits.cols+int(targets[i])])
	}
	t.record(func() {
		for i := range logits.rows {
			for j := range logits.cols {
				at := i*logits.cols + j
				if p[at] == 0 {
					continue
				}
				d := -out.g[2*i]*p[at] - out.g[2*i+1]*p[at]*(math.Log(p[at])+out.v[2*i+1])
				if j == int(targets[i]) {
					d += out.g[2*i]
				}
				logits.g[at] += d / temperature(s)
			}
		}
	})
	return out
}

// reference is the model with weights and gradients by name.
type reference struct {
	config  policy.Config
	tensors map[string]*matrix
	scale   float64 // of adapters among the tensors
	round   bool    // what products read to bfloat16

	states            *matrix   // after the last norm, of the last sequence
	valueCoefficients []float32 // of the value head's outputs; nil without one
	values            []float64 // that run computed
}

func newReference(c policy.Config, weights []policy.Tensor) *reference {
	r := &reference{config: c, tensors: map[string]*matrix{}}
	for _, w := range weights {
		cols := w.Shape[len(w.Shape)-1]
		m := newMatrix(len(w.Data)/cols, cols)
		for i, x := range w.Data {
			m.v[i] = float64(x)
		}
		r.tensors[w.Name] = m
	}
	return r
}

// logits are those after each token of one sequence, (L, V).
func (r *reference) logits(t *tape, ids []int32) *matrix {
	c := r.config
	x := t.gatherRows(r.tensors["model.embed_tokens.weight"], ids)
	for i := range x.v { // the one copy of the table is that of the head's product
		x.v[i] = t.read(x.v[i])
	}
	for layer := range c.NumHiddenLayers {
		w := func(name string) *matrix {
			name = fmt.Sprintf("model.layers.%d.%s", layer, name)
			adapter := "base_model.model." + strings.TrimSuffix(name, "weight")
			if a := r.tensors[adapter+"lora_A.weight"]; a != nil {
				return t.lowRank(r.tensors[name], a, r.tensors[adapter+"lora_B.weight"], r.scale)
			}
			return r.tensors[name]
		}
		project := func(x *matrix, name string) *matrix {
			out := t.product(x, w(name+".weight"))
			if bias := w(name + ".bias"); bias != nil {
				out = t.add(out, bias)
			}
			return out
		}
		normed := t.rmsNorm(x, w("input_layernorm.weight"), c.RMSNormEps)
		q, k, v := project(normed, "self_attn.q_proj"), project(normed, "self_attn.k_proj"), project(normed, "self_attn.v_proj")
		// The output projection is a sum over heads.
		for a := range c.NumAttentionHeads {
			kv := a / (c.NumAttentionHeads / c.NumKeyValueHeads)
			query, key := t.columns(q, a*c.HeadDim, c.HeadDim), t.columns(k, kv*c.HeadDim, c.HeadDim)
			if norm := w("self_attn.q_norm.weight"); norm != nil {
				query = t.rmsNorm(query, norm, c.RMSNormEps)
				key = t.rmsNorm(key, w("self_attn.k_norm.weight"), c.RMSNormEps)
			}
			mixed := t.attention(t.rotate(query, c), t.rotate(key, c), t.columns(v, kv*c.HeadDim, c.HeadDim))
			x = t.add(x, t.product(mixed, t.columns(w("self_attn.o_proj.weight"), a*c.HeadDim, c.HeadDim)))
		}
		normed = t.rmsNorm(x, w("post_attention_layernorm.weight"), c.RMSNormEps)
		inner := t.zip(project(normed, "mlp.gate_proj"), project(normed, "mlp.up_proj"), func(g, u float64) (float64, float64, float64) {
			s := 1 / (1 + math.Exp(-g))
			return g * s * u, u * s * (1 + g*(1-s)), g * s
		})
		x = t.add(x, project(inner, "mlp.down_proj"))
	}
	x = t.rmsNorm(x, r.tensors["model.norm.weight"], c.RMSNormEps)
	r.states = x
	if c.TieWordEmbeddings {
		return t.product(x, r.tensors["model.embed_tokens.weight"])
	}
	return t.product(x, r.tensors["lm_head.weight"])
}

// run computes log-probability and entropy of every target of a batch and
// adds the gradients of Σ c·logp + h·H.
func (r *reference) run(batch policy.Batch, s policy.Sampling, c, h []float32) (logProbs, entropy []float64) {
	logProbs, entropy = make([]float64, len(batch.TokenIDs)), make([]float64, len(batch.TokenIDs))
	r.values = make([]float64, len(batch.TokenIDs))
	for q := range len(batch.Offsets) - 1 {
		var rows, targets []int32
		var index []int
		for i := batch.Offsets[q]; i < batch.Offsets[q+1]; i++ {
			if batch.Targets[i] {
				rows = append(rows, i-batch.Offsets[q]-1)
				targets = append(targets, batch.TokenIDs[i])
				index = append(index, int(i))
			}
		}
		t := &tape{round: r.round}
		logits := r.logits(t, batch.TokenIDs[batch.Offsets[q]:batch.Offsets[q+1]])
		out := t.logProbs(t.gatherRows(logits, rows), targets, s)
		for i, at := range index {
			logProbs[at], entropy[at] = out.v[2*i], out.v[2*i+1]
			out.g[2*i] = float64(c[at])
			if h != nil {
				out.g[2*i+1] = float64(h[at])
			}
		}
		if r.valueCoefficients != nil {
			values := t.product(t.gatherRows(r.states, rows), r.tensors[policy.ValueHeadName])
			for i, at := range index {
				r.values[at], values.g[i] = values.v[i], float64(r.valueCoefficients[at])
			}
		}
		t.backward()
	}
	return logProbs, entropy
}

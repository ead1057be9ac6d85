package flipts

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// belief is the state between two iterations.
type belief struct {
	warmUp    counts    // until the prior is there
	prior     beta      // zero until then
	posterior posterior // of the questions that were sampled since
	pool      pool      // 𝒞
}

// of is the belief about a question.
func (b *belief) of(q string) beta {
	if i, known := b.posterior.at[q]; known {
		return b.posterior.all[i].beta
	}
	return b.prior
}

// count is s_q and f_q.
type count struct{ with, without int }

func (n count) total() int { return n.with + n.without }

// counts are those of questions, in the order in which they were first sampled.
type counts struct {
	all []questionCount
	at  map[string]int
}

type questionCount struct {
	question  string
	iteration int // the last
	count
}

func (c *counts) add(q string, n count, iteration int) {
	i, known := c.at[q]
	if !known {
		if c.at == nil {
			c.at = map[string]int{}
		}
		i = len(c.all)
		c.at[q], c.all = i, append(c.all, questionCount{question: q})
	}
	c.all[i].with += n.with
	c.all[i].without += n.without
	c.all[i].iteration = iteration
}

// rates are ξ̂_q of each question.
func (c counts) rates() []float64 {
	rates := make([]float64, len(c.all))
	for i, n := range c.all {
		rates[i] = float64(n.with) / float64(n.total())
	}
	return rates
}

// posterior is that of questions, in the order in which they were first sampled
// after the warm-up.
type posterior struct {
	all []questionBeta
	at  map[string]int
}

type questionBeta struct {
	question  string
	iteration int // of the last update
	beta
}

func (p *posterior) put(q string, b beta, iteration int) {
	i, known := p.at[q]
	if !known {
		if p.at == nil {
			p.at = map[string]int{}
		}
		i = len(p.all)
		p.at[q], p.all = i, append(p.all, questionBeta{question: q})
	}
	p.all[i].beta, p.all[i].iteration = b, iteration
}

// discount is FlipTS Eq. 3: α_{k+1} = s + λα_k and β_{k+1} = f + λβ_k.
func (p *posterior) discount(q string, prior beta, lambda float64, n count, iteration int) {
	b := prior
	if i, known := p.at[q]; known {
		b = p.all[i].beta
	}
	p.put(q, beta{float64(n.with) + lambda*b.alpha, float64(n.without) + lambda*b.beta}, iteration)
}

// pool is 𝒞 in its order, and 𝒪 in it.
type pool []candidate

type candidate struct {
	question string
	joined   int // iteration
	observed bool
}

func (p pool) observe(q string) {
	for i := range p {
		if p[i].question == q {
			p[i].observed = true
			return
		}
	}
}

// observed lists the positions of 𝒪.
func (p pool) observed() []int {
	var at []int
	for i, c := range p {
		if c.observed {
			at = append(at, i)
		}
	}
	return at
}

// The scopes and names of the statistics that a state is made of.
const (
	scopeWarmUp    = "warm-up"
	scopePrior     = "prior"
	scopePosterior = "posterior"
	scopePool      = "pool"

	nameWith     = "with event"
	nameWithout  = "without event"
	nameAlpha    = "alpha"
	nameBeta     = "beta"
	nameObserved = "observed" // 1 or 0, of a member; the iteration is that in which it joined
)

// stats is the state as it is sealed.
func (b *belief) stats() []shard.Stat {
	var all []shard.Stat
	add := func(scope, key, name string, iteration int, value float64) {
		all = append(all, shard.Stat{Scope: scope, Key: key, Name: name, Iteration: int32(iteration), Value: value})
	}
	for _, n := range b.warmUp.all {
		add(scopeWarmUp, n.question, nameWith, n.iteration, float64(n.with))
		add(scopeWarmUp, n.question, nameWithout, n.iteration, float64(n.without))
	}
	if b.prior != (beta{}) {
		add(scopePrior, "", nameAlpha, 0, b.prior.alpha)
		add(scopePrior, "", nameBeta, 0, b.prior.beta)
	}
	for _, p := range b.posterior.all {
		add(scopePosterior, p.question, nameAlpha, p.iteration, p.alpha)
		add(scopePosterior, p.question, nameBeta, p.iteration, p.beta.beta)
	}
	for _, c := range b.pool {
		var observed float64
		if c.observed {
			observed = 1
		}
		add(scopePool, c.question, nameObserved, c.joined, observed)
	}
	return all
}

// read is the inverse of stats.
func read(stats []shard.Stat) (belief, error) {
	var b belief
	for _, s := range stats {
		k := int(s.Iteration)
		switch s.Scope + "/" + s.Name {
		case scopeWarmUp + "/" + nameWith:
			b.warmUp.add(s.Key, count{with: int(s.Value)}, k)
		case scopeWarmUp + "/" + nameWithout:
			b.warmUp.add(s.Key, count{without: int(s.Value)}, k)
		case scopePrior + "/" + nameAlpha:
			b.prior.alpha = s.Value
		case scopePrior + "/" + nameBeta:
			b.prior.beta = s.Value
		case scopePosterior + "/" + nameAlpha:
			b.posterior.put(s.Key, beta{alpha: s.Value}, k)
		case scopePosterior + "/" + nameBeta:
			b.posterior.put(s.Key, beta{b.of(s.Key).alpha, s.Value}, k)
		case scopePool + "/" + nameObserved:
			b.pool = append(b.pool, candidate{question: s.Key, joined: k, observed: s.Value != 0})
		default:
			return b, exitcode.Dataf("statistic %q of %s %q is none of the flipts curriculum's: the state is another curriculum's", s.Name, s.Scope, s.Key)
		}
	}
	return b, nil
}

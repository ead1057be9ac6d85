package deepmind

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
)

// The solver reads a question and works its answer out, with a grammar and an
// arithmetic of its own: exact numbers a + b√n, functions, and linear systems.

var errUnread = errors.New("the question cannot be read")

// exact is a sum of rational multiples of square roots, by what is under them,
// which no square divides. Rational numbers have the key 1 alone.
type exact map[int64]*big.Rat

func rational(r *big.Rat) exact {
	if r.Sign() == 0 {
		return exact{}
	}
	return exact{1: r}
}

func (e exact) rat() (*big.Rat, error) {
	switch {
	case len(e) == 0:
		return new(big.Rat), nil
	case len(e) == 1 && e[1] != nil:
		return e[1], nil
	}
	return nil, fmt.Errorf("%w: %v is not rational", errUnread, e)
}

func (e exact) plus(f exact, factor int64) exact {
	sum := maps.Clone(e)
	for root, r := range f {
		term := new(big.Rat).Mul(r, new(big.Rat).SetInt64(factor))
		if sum[root] != nil {
			term.Add(term, sum[root])
		}
		if sum[root] = term; term.Sign() == 0 {
			delete(sum, root)
		}
	}
	return sum
}

func (e exact) times(f exact) exact {
	product := exact{}
	for m, a := range e {
		for n, b := range f {
			out, under := squareFree(m * n)
			term := new(big.Rat).Mul(a, b)
			product = product.plus(exact{under: term.Mul(term, new(big.Rat).SetInt64(out))}, 1)
		}
	}
	return product
}

// over divides by a number of one term.
func (e exact) over(f exact) (exact, error) {
	if len(f) != 1 {
		return nil, fmt.Errorf("%w: division by %v", errUnread, f)
	}
	for root, r := range f { // 1/(r√n) = √n/(rn)
		inverse := new(big.Rat).Inv(new(big.Rat).Mul(r, new(big.Rat).SetInt64(root)))
		return e.times(exact{root: inverse}), nil
	}
	return nil, nil
}

// squareFree writes √n as out·√under.
func squareFree(n int64) (out, under int64) {
	out, under = 1, n
	for p := int64(2); p*p <= under; p++ {
		for under%(p*p) == 0 {
			under, out = under/(p*p), out*p
		}
	}
	return out, under
}

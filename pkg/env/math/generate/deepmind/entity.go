package deepmind

import (
	"fmt"
	"slices"
	"strings"
)

// spending is how much a question may spend: as many sentences that define a
// value as its count has above one, and entropy for the question and all of
// them.
type spending struct {
	count   int
	entropy float64
}

func pure(entropy float64) spending { return spending{1, entropy} }

// composed has one to three values that a sentence before the question defines.
func composed(d *drawer, entropy float64) spending {
	return spending{int(d.between(2, 4)), entropy}
}

// peel takes the question's own part.
func (s *spending) peel() float64 {
	entropy := s.entropy / float64(s.count)
	s.entropy -= entropy
	s.count--
	return entropy
}

// letters hands out names of one letter, each once. The dataset has no e.
type letters struct{ used [26]bool }

func (l *letters) take(d *drawer) string {
	var free []byte
	for i, used := range l.used {
		if letter := byte('a' + i); !used && letter != 'e' {
			free = append(free, letter)
		}
	}
	if len(free) == 0 {
		d.failed = true
		return "x"
	}
	letter := free[d.intN(len(free))]
	l.used[letter-'a'] = true
	return string(letter)
}

// choices keeps the letters of n choices, (a), (b) …, from being names.
func (l *letters) choices(n int) {
	for i := range n {
		l.used[i] = true
	}
}

// entity is a value as a question names it: by its digits, or by a letter
// that sentences before the question define.
type entity struct {
	value     value
	name      string
	sentences string // each with a blank after it
}

// entities names values, spending all on sentences.
func (d *drawer) entities(values []value, s spending, names *letters) []entity {
	counts := d.counts(len(values), s.count)
	shares := d.shares(counts...)
	made := make([]entity, len(values))
	for i, v := range values {
		made[i] = d.entity(v, spending{counts[i], shares[i] * s.entropy}, names)
	}
	return made
}

// preamble is the sentences of the entities, in any order of the entities.
func (d *drawer) preamble(made []entity) string {
	order := slices.Clone(made)
	shuffle(d, order)
	var b strings.Builder
	for _, e := range order {
		b.WriteString(e.sentences)
	}
	return b.String()
}

func (d *drawer) entity(v value, s spending, names *letters) entity {
	if s.count == 0 || d.failed {
		return entity{value: v, name: v.String()}
	}
	own := s.peel()
	definitions := []func(value, float64, spending, *letters) entity{d.sumEntity}
	if !v.decimal {
		definitions = append(definitions, d.expressionEntity)
		if v.isWhole() {
			definitions = append(definitions, d.equationEntity, d.systemEntity, d.functionEntity)
		}
	}
	return definitions[d.intN(len(definitions))](v, own, s, names)
}

// sumEntity is "Let x = 3 + y.".
func (d *drawer) sumEntity(v value, entropy float64, rest spending, names *letters) entity {
	entropy = max(entropy, v.entropy())
	var p value
	switch {
	case v.decimal:
		p = d.wholeOrPoint(entropy)
	case v.isWhole():
		p = whole(d.signed(entropy, least{}))
	default:
		p = d.wholeOrRatio(entropy)
	}
	operator, q := " + ", d.sub(v, p)
	if d.coin() {
		operator, q = " - ", negated(q)
	}
	if d.coin() {
		if p, q = q, p; operator == " - " {
			p, q = negated(p), negated(q)
		}
	}
	parts := d.entities([]value{p, q}, rest, names)
	name := names.take(d)
	return entity{v, name, d.preamble(parts) + "Let " + name + " = " + parts[0].name + operator + parts[1].name + ". "}
}

// expressionEntity is "Let x be (-3)/(y/8).".
func (d *drawer) expressionEntity(v value, entropy float64, rest spending, names *letters) entity {
	e := d.withValue(v, max(1, entropy), sums|products)
	var parts []entity
	if rest.count > 0 {
		leaves := e.leaves()
		shuffle(d, leaves)
		leaves = leaves[:d.between(1, int64(min(rest.count, len(leaves))))]
		values := make([]value, len(leaves))
		for i, leaf := range leaves {
			values[i] = leaf.value
		}
		parts = d.entities(values, rest, names)
		for i, part := range parts {
			if leaves[i].text = part.name; part.sentences != "" {
				leaves[i].rank = rankAtom
			}
		}
	}
	name := names.take(d)
	return entity{v, name, d.preamble(parts) + "Let " + name + " be " + e.String() + ". "}
}

// equationEntity is "Suppose 3*x - 5 = y.".
func (d *drawer) equationEntity(v value, entropy float64, rest spending, names *letters) entity {
	return d.solved(v, entropy, rest, names, 1)
}

// systemEntity is "Suppose 3*x - 5 = z, 2*z = -x.".
func (d *drawer) systemEntity(v value, entropy float64, rest spending, names *letters) entity {
	return d.solved(v, entropy, rest, names, 2)
}

// solved makes a linear system in as many unknowns, the first of which is
// asked for; the coefficients have from a third to two thirds of the entropy,
// and the rest goes into writing them as sums.
func (d *drawer) solved(v value, entropy float64, rest spending, names *letters, unknowns int) entity {
	solution := []int64{v.top}
	for len(solution) < unknowns {
		solution = append(solution, d.signed(max(1, entropy/4), least{}))
	}
	share := d.uniform(1.0/3, 2.0/3)
	matrix, ok := d.matrix(unknowns, share*entropy)
	if !ok {
		d.failed = true
		return entity{}
	}
	var rows [][]term
	filled := 0
	for _, coefficients := range matrix {
		var row []term
		right := int64(0)
		for j, c := range coefficients {
			row = append(row, term{number: c, unknown: j + 1})
			right = d.plus(right, d.times(c, solution[j]))
		}
		row = append(row, term{number: -right})
		for _, t := range row {
			if t.number != 0 {
				filled++
			}
		}
		rows = append(rows, row)
	}
	fewest := filled + 1
	most := max(fewest, 1+int(float64(unknowns)*(1+entropy/2)))
	d.expand(rows, int(d.between(int64(fewest), int64(most)))-filled, (1-share)*entropy)

	parts := d.nameTerms(rows, rest, names)
	var symbols []string
	for range unknowns {
		symbols = append(symbols, names.take(d))
	}
	var equations []string
	for _, row := range rows {
		equations = append(equations, d.equation(row, symbols))
	}
	return entity{v, symbols[0], d.preamble(parts) + "Suppose " + strings.Join(equations, ", ") + ". "}
}

// matrix draws an invertible one in whose every row another unknown than the
// first appears, if there is one.
func (d *drawer) matrix(size int, entropy float64) ([][]int64, bool) {
	shares := d.evenShares(size * size)
	for range attempts {
		m := make([][]int64, size)
		for i := range m {
			for j := range size {
				m[i] = append(m[i], d.signed(max(1, entropy*shares[i*size+j]), least{}))
			}
		}
		switch {
		case size == 1 && m[0][0] != 0:
			return m, true
		case size == 2 && m[0][1] != 0 && m[1][1] != 0 && m[0][0]*m[1][1] != m[0][1]*m[1][0]:
			return m, true
		}
	}
	return nil, false
}

// term is a part of an equation, all of whose terms add up to zero.
type term struct {
	number  int64
	unknown int    // from 1; 0 for none
	name    string // stands for the number without its sign
}

// expand splits terms at random until there are extra more, each into two
// that add up to it.
func (d *drawer) expand(rows [][]term, extra int, entropy float64) {
	for range extra {
		row := d.intN(len(rows))
		at := d.intN(len(rows[row]))
		t := rows[row][at]
		if t.number == 0 {
			continue
		}
		part := d.signed(entropy/float64(extra), least{})
		rows[row][at].number = t.number - part
		rows[row] = append(rows[row], term{number: part, unknown: t.unknown})
	}
	for i, row := range rows {
		kept := row[:0]
		for _, t := range row {
			if t.number != 0 || t.unknown != 0 && d.intN(4) == 0 {
				kept = append(kept, t)
			}
		}
		shuffle(d, kept)
		rows[i] = kept
	}
}

// nameTerms lets sentences define the numbers of some terms.
func (d *drawer) nameTerms(rows [][]term, rest spending, names *letters) []entity {
	if rest.count == 0 {
		return nil
	}
	var all []*term
	for i := range rows {
		for j := range rows[i] {
			if rows[i][j].number != 0 {
				all = append(all, &rows[i][j])
			}
		}
	}
	shuffle(d, all)
	all = all[:d.between(1, int64(min(rest.count, len(all))))]
	values := make([]value, len(all))
	for i, t := range all {
		values[i] = whole(abs(t.number))
	}
	parts := d.entities(values, rest, names)
	for i, part := range parts {
		if part.sentences != "" {
			all[i].name = part.name
		}
	}
	return parts
}

// equation spreads terms over both sides.
func (d *drawer) equation(row []term, symbols []string) string {
	var sides [2][]term
	for _, t := range row {
		side := d.intN(2)
		if side == 1 {
			t.number = -t.number
		}
		sides[side] = append(sides[side], t)
	}
	return side(sides[0], symbols) + " = " + side(sides[1], symbols)
}

func side(terms []term, symbols []string) string {
	if len(terms) == 0 {
		return "0"
	}
	var b strings.Builder
	for i, t := range terms {
		switch {
		case i > 0 && t.number < 0:
			b.WriteString(" - ")
		case i > 0:
			b.WriteString(" + ")
		case t.number < 0:
			b.WriteByte('-')
		}
		number := t.name
		if number == "" {
			number = fmt.Sprint(abs(t.number))
		}
		switch {
		case t.unknown == 0:
			b.WriteString(number)
		case number == "1":
			b.WriteString(symbols[t.unknown-1])
		default:
			b.WriteString(number + "*" + symbols[t.unknown-1])
		}
	}
	return b.String()
}

// functionEntity is "Let f(x) = x**2 - 3*x. Let y be f(4).".
func (d *drawer) functionEntity(v value, entropy float64, rest spending, names *letters) entity {
	argument := d.signed(min(1.2, max(0.6, entropy/3)), least{})
	degree := int(d.between(1, 3))
	// Horner's scheme with small values on the way, so that so are the
	// coefficients.
	coefficients := make([]int64, degree+1) // highest power first
	coefficients[0] = d.signed(0.6, least{abs: 1})
	reached := coefficients[0]
	for i := 1; i <= degree; i++ {
		next := v.top
		if i < degree {
			next = d.signed(0.9, least{})
		}
		coefficients[i] = d.plus(next, -d.times(reached, argument))
		reached = next
	}
	parts := d.entities([]value{whole(argument)}, rest, names)
	variable, function, name := names.take(d), names.take(d), names.take(d)
	return entity{v, name, d.preamble(parts) + "Let " + function + "(" + variable + ") = " + d.polynomial(coefficients, variable) +
		". Let " + name + " be " + function + "(" + parts[0].name + "). "}
}

// polynomial writes one from its highest power down, but with the positive
// one of two terms of degree 1 and 0 first; one in five is written as a longer
// sum in any order.
func (d *drawer) polynomial(coefficients []int64, variable string) string {
	type power struct{ number, power int64 }
	degree := int64(len(coefficients) - 1)
	var terms []power
	for i, c := range coefficients {
		if c != 0 {
			terms = append(terms, power{c, degree - int64(i)})
		}
	}
	if len(terms) == 0 {
		return "0"
	}
	switch {
	case d.intN(5) == 0:
		for range d.between(1, 3) {
			at := d.intN(len(terms))
			part := d.signed(1, least{abs: 1})
			terms[at].number -= part
			terms = append(terms, power{part, terms[at].power})
		}
		shuffle(d, terms)
	case degree == 1 && len(terms) == 2 && terms[0].number < 0 && terms[1].number > 0:
		terms[0], terms[1] = terms[1], terms[0]
	}
	var b strings.Builder
	for i, t := range terms {
		switch {
		case i > 0 && t.number < 0:
			b.WriteString(" - ")
		case i > 0:
			b.WriteString(" + ")
		case t.number < 0:
			b.WriteByte('-')
		}
		number := fmt.Sprint(abs(t.number))
		switch {
		case t.power == 0:
			b.WriteString(number)
			continue
		case number != "1":
			b.WriteString(number + "*")
		}
		b.WriteString(variable)
		if t.power > 1 {
			fmt.Fprintf(&b, "**%d", t.power)
		}
	}
	return b.String()
}

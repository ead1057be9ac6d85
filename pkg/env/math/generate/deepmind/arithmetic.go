package deepmind

import (
	"math"
	"strconv"
	"strings"
)

// put fills the templates' {p} and {q}.
func put(template, p, q string) string {
	return strings.NewReplacer("{p}", p, "{q}", q).Replace(template)
}

func addOrSub(d *drawer, entropy float64) Problem {
	adds := d.coin()
	first, second := d.halves(entropy)
	p, q := d.wholeOrPoint(first), d.wholeOrPoint(second)
	if adds {
		template := d.pick("{p} + {q}", "{p}+{q}", "Work out {p} + {q}.", "Add {p} and {q}.", "Put together {p} and {q}.", "Sum {p} and {q}.",
			"Total of {p} and {q}.", "Add together {p} and {q}.", "What is {p} plus {q}?", "Calculate {p} + {q}.", "What is {p} + {q}?")
		return Problem{put(template, p.String(), q.String()), d.add(p, q).String()}
	}
	templates := []string{
		"{p} - {q}", "Work out {p} - {q}.", "What is {p} minus {q}?", "What is {p} take away {q}?", "What is {q} less than {p}?",
		"Subtract {q} from {p}.", "Calculate {p} - {q}.", "What is {p} - {q}?",
	}
	if !less(p, q) { // p-q is the distance
		templates = append(templates, "What is the distance between {p} and {q}?", "What is the distance between {q} and {p}?",
			"What is the difference between {p} and {q}?", "What is the difference between {q} and {p}?")
	}
	return Problem{put(d.pick(templates...), p.String(), q.String()), d.sub(p, q).String()}
}

func addOrSubInBase(d *drawer, entropy float64) Problem {
	first, second := d.halves(entropy)
	p, q := d.signed(first, least{}), d.signed(second, least{})
	base := int(d.between(2, 16))
	answer, template := p-q, " - "
	if d.coin() {
		answer, template = p+q, " + "
	}
	question := "In base " + strconv.Itoa(base) + ", what is " + strconv.FormatInt(p, base) + template + strconv.FormatInt(q, base) + "?"
	return Problem{question, strconv.FormatInt(answer, base)}
}

func mul(d *drawer, entropy float64) Problem {
	first, second := d.halves(entropy)
	p, q := d.wholeOrPoint(first), d.wholeOrPoint(second)
	template := d.pick("{p}*{q}", "{p} * {q}", "Calculate {p}*{q}.", "Work out {p} * {q}.", "Multiply {p} and {q}.", "Product of {p} and {q}.",
		"What is the product of {p} and {q}?", "{p} times {q}", "What is {p} times {q}?")
	return Problem{put(template, p.String(), q.String()), d.mul(p, q).String()}
}

// div divides exactly half of the time, and by chance else.
func div(d *drawer, entropy float64) Problem {
	first, second := d.halves(entropy)
	q := whole(d.signed(second, least{abs: 1}))
	p := whole(d.signed(first, least{}))
	if d.coin() {
		p = d.mul(p, q)
	}
	template := d.pick("Divide {p} by {q}.", "{p} divided by {q}", "What is {p} divided by {q}?", "Calculate {p} divided by {q}.")
	return Problem{put(template, p.String(), q.String()), d.div(p, q).String()}
}

// calculate asks for the value of an expression, which has a quarter of the
// entropy.
func calculate(d *drawer, entropy float64, allowed operations) Problem {
	own := max(1, entropy/4)
	draw := func() value { return whole(d.signed(own, least{})) }
	if allowed&products != 0 {
		draw = func() value { return d.wholeOrRatio(own) }
	}
	answer := draw()
	e := d.withValue(answer, max(1, entropy-own), allowed)
	template := d.pick("{p}", "What is {p}?", "Evaluate {p}.", "Calculate {p}.", "What is the value of {p}?")
	return Problem{put(template, e.String(), ""), answer.String()}
}

var ordinals = []string{"", "", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"}

// nearestIntegerRoot asks for square and cube roots at least half of the time.
func nearestIntegerRoot(d *drawer, entropy float64) Problem {
	degree := d.between(2, 10)
	if d.coin() {
		degree = d.between(2, 3)
	}
	n := d.unsigned(entropy, least{})
	templates := []string{"What is {p} to the power of 1/" + strconv.FormatInt(degree, 10) + ", to the nearest integer?"}
	switch degree {
	case 2:
		templates = append(templates, "What is the square root of {p} to the nearest integer?")
	case 3:
		templates = append(templates, "What is the third root of {p} to the nearest integer?", "What is the cube root of {p} to the nearest integer?")
	default:
		templates = append(templates, "What is the "+ordinals[degree]+" root of {p} to the nearest integer?")
	}
	return Problem{put(d.pick(templates...), strconv.FormatInt(n, 10), ""), strconv.FormatInt(roundedRoot(n, degree), 10)}
}

// roundedRoot is the whole number nearest to the root of n ≥ 0; none is
// halfway, for (k+½)^degree is no whole number.
func roundedRoot(n, degree int64) int64 {
	k := int64(math.Pow(float64(n), 1/float64(degree)))
	for k > 0 && !rootAbove(n, degree, k-1) {
		k--
	}
	for rootAbove(n, degree, k) {
		k++
	}
	return k
}

// rootAbove reports whether the root of n is above k+½: n·2^degree > (2k+1)^degree.
func rootAbove(n, degree, k int64) bool {
	power := 1.0 // far below 2^53 where it matters: n < 10^11, degree ≤ 10
	for range degree {
		power *= float64(2*k + 1)
	}
	return float64(n)*float64(int64(1)<<degree) > power
}

package deepmind

import (
	"slices"
	"strings"
)

// relations are the questions about two numbers, and whether a sign of
// left - right makes them true.
var relations = []struct {
	templates          []string
	below, same, above bool
}{
	{[]string{"Is {p} < {q}?", "Is {p} less than {q}?", "Is {p} smaller than {q}?"}, true, false, false},
	{[]string{"Is {p} <= {q}?", "Is {p} less than or equal to {q}?", "Is {p} at most {q}?", "Is {p} at most as big as {q}?"}, true, true, false},
	{[]string{"Is {p} > {q}?", "Is {p} greater than {q}?", "Is {p} bigger than {q}?"}, false, false, true},
	{[]string{"Is {p} >= {q}?", "Is {p} greater than or equal to {q}?", "Is {p} at least {q}?", "Is {p} at least as big as {q}?"}, false, true, true},
	{[]string{"Does {p} = {q}?", "Are {p} and {q} equal?", "Is {p} equal to {q}?", "Do {p} and {q} have the same value?"}, false, true, false},
	{
		[]string{
			"Is {p} != {q}?", "Is {p} not equal to {q}?", "Are {p} and {q} unequal?", "Are {p} and {q} nonequal?", "Are {p} and {q} non-equal?",
			"Do {p} and {q} have different values?",
		}, true, false, true,
	},
}

// pair compares two numbers: whole numbers that are close, a fraction and a
// whole number near it, or any two.
func pair(d *drawer, s spending) Problem {
	entropy := s.peel()
	var left, right value
	switch d.intN(3) {
	case 0:
		shares := d.shares(1, 3)
		left = whole(d.signed(entropy*shares[1], least{}))
		right = d.add(left, whole(d.signed(entropy*shares[0], least{})))
	case 1:
		left = d.ratio(entropy)
		right = whole(nearest(left) + d.between(-1, 1))
	default:
		shares := d.evenShares(2)
		left, right = d.number(entropy*shares[0]), d.number(entropy*shares[1])
	}
	if d.coin() {
		left, right = right, left
	}
	both := d.entities([]value{left, right}, s, &letters{})
	preamble := d.preamble(both)
	p, q := both[0].name, both[1].name
	if !equal(left, right) && d.coin() {
		bigger, template := d.coin(), "Which is smaller: {p} or {q}?"
		if bigger {
			template = d.pick("Which is bigger: {p} or {q}?", "Which is greater: {p} or {q}?")
		}
		answer := p
		if less(left, right) == bigger {
			answer = q
		}
		return Problem{preamble + put(template, p, q), answer}
	}
	relation := relations[d.intN(len(relations))]
	holds := relation.same
	switch {
	case less(left, right):
		holds = relation.below
	case less(right, left):
		holds = relation.above
	}
	answer := "False"
	if holds {
		answer = "True"
	}
	return Problem{preamble + put(d.pick(relation.templates...), p, q), answer}
}

// nearest is the whole number nearest to v.
func nearest(v value) int64 {
	n := v.top / v.bottom
	for 2*(v.top-n*v.bottom) > v.bottom {
		n++
	}
	for 2*(v.top-n*v.bottom) < -v.bottom {
		n--
	}
	return n
}

// attempts bounds the draws for numbers that differ; a problem that needs more
// is not made.
const attempts = 100

// several draws count numbers that share an entropy, at least 1 to each.
func (d *drawer) several(entropy float64, count int, draw func(entropy float64) value) []value {
	values := make([]value, count)
	for i, share := range d.evenShares(count) {
		values[i] = draw(max(1, entropy*share))
	}
	return values
}

// distinct draws numbers of which no two are equal.
func (d *drawer) distinct(entropy float64, count int, draw func(entropy float64) value) []value {
	for range attempts {
		if values := d.several(entropy, count, draw); !repeats(values) {
			return values
		}
	}
	d.failed = true
	return make([]value, count)
}

func repeats(values []value) bool {
	for i, v := range values {
		if slices.ContainsFunc(values[:i], func(w value) bool { return equal(v, w) }) {
			return true
		}
	}
	return false
}

// list writes the entities one after the other; choose, with a letter each.
func list(made []entity) string {
	var names []string
	for _, e := range made {
		names = append(names, e.name)
	}
	return strings.Join(names, ", ")
}

func choose(made []entity) string {
	var b strings.Builder
	for i, e := range made {
		b.WriteString("  (" + letterOf(i) + ") " + e.name)
	}
	return b.String()
}

func letterOf(i int) string { return string(rune('a' + i)) }

// kthBiggest asks for the k-th biggest or smallest of some numbers.
func kthBiggest(d *drawer, s spending) Problem {
	entropy := s.peel()
	values := d.distinct(entropy, int(d.between(3, 3+int64(entropy/2))), d.number)
	names := &letters{}
	lettered := d.coin()
	if lettered {
		names.choices(len(values))
	}
	made := d.entities(values, s, names)
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return compare(values[i], values[j]) })
	k := int(d.between(1, int64(len(values))))
	answer, which := order[k-1], "smallest"
	if d.coin() {
		answer, which = order[len(values)-k], "biggest"
	}
	if k > 1 {
		which = ordinals[k] + " " + which
	}
	preamble := d.preamble(made)
	if lettered {
		return Problem{preamble + "Which is the " + which + " value?" + choose(made), letterOf(answer)}
	}
	return Problem{preamble + "What is the " + which + " value in " + list(made) + "?", made[answer].name}
}

// compare orders by value.
func compare(a, b value) int {
	switch {
	case less(a, b):
		return -1
	case less(b, a):
		return 1
	}
	return 0
}

// closest asks for the number closest to a target, all distances different.
func closest(d *drawer, s spending) Problem {
	entropy := s.peel()
	count := int(d.between(3, 3+int64(entropy/3)))
	names := &letters{}
	lettered := d.coin()
	if lettered {
		names.choices(count)
	}
	shares := d.shares(1, count)
	target := d.number(entropy * shares[0])
	var values, distances []value
	for tries := 0; tries == 0 || repeats(distances); tries++ {
		if tries == attempts {
			d.failed = true
			return Problem{}
		}
		values = d.several(entropy*shares[1], count, d.number)
		distances = nil
		for _, v := range values {
			distance := d.sub(v, target)
			distance.top = abs(distance.top)
			distances = append(distances, distance)
		}
	}
	made := d.entities(append([]value{target}, values...), s, names)
	answer := 0
	for i := range distances {
		if less(distances[i], distances[answer]) {
			answer = i
		}
	}
	preamble := d.preamble(made)
	which := d.pick("closest", "nearest") + " to " + made[0].name
	made = made[1:]
	if lettered {
		return Problem{preamble + "Which is the " + which + "?" + choose(made), letterOf(answer)}
	}
	return Problem{preamble + "What is the " + which + " in " + list(made) + "?", made[answer].name}
}

// sorted asks for an order; half of the time, of whole numbers.
func sorted(d *drawer, s spending) Problem {
	entropy := s.peel()
	draw := d.number
	if d.coin() {
		draw = func(entropy float64) value { return whole(d.signed(entropy, least{})) }
	}
	values := d.distinct(entropy, int(d.between(3, 3+int64(entropy/2))), draw)
	made := d.entities(values, s, &letters{})
	preamble, unsorted := d.preamble(made), list(made)
	templates := []string{"Sort {p} in {q} order.", "Put {p} in {q} order."}
	direction := d.pick("descending", "decreasing")
	rising := d.coin()
	if rising {
		direction = d.pick("ascending", "increasing")
		templates = append(templates, "Sort {p}.")
	}
	slices.SortFunc(made, func(a, b entity) int {
		if rising {
			return compare(a.value, b.value)
		}
		return compare(b.value, a.value)
	})
	return Problem{preamble + put(d.pick(templates...), unsorted, direction), list(made)}
}

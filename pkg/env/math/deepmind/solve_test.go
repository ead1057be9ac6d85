package deepmind

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// scope is what the sentences so far define.
type scope struct {
	values    map[string]*big.Rat
	functions map[string]struct{ variable, body string }
}

// reader is a recursive-descent parser of expressions that evaluates as it
// goes. With unknowns, values are linear forms: coefficients by name, and the
// constant under "".
type reader struct {
	text  string
	scope *scope
}

type form map[string]exact

func (r *reader) accept(prefix string) bool {
	rest, ok := strings.CutPrefix(r.text, prefix)
	if ok {
		r.text = rest
	}
	return ok
}

func (r *reader) sum() (form, error) {
	total, err := r.product()
	if err != nil {
		return nil, err
	}
	for {
		sign := int64(1)
		switch {
		case r.accept(" + "), r.accept("+"):
		case r.accept(" - "):
			sign = -1
		default:
			return total, nil
		}
		term, err := r.product()
		if err != nil {
			return nil, err
		}
		for name, value := range term {
			total[name] = total[name].plusOrSet(value, sign)
		}
	}
}

func (e exact) plusOrSet(f exact, factor int64) exact {
	if e == nil {
		e = exact{}
	}
	return e.plus(f, factor)
}

func (r *reader) product() (form, error) {
	left, err := r.signedPower()
	if err != nil {
		return nil, err
	}
	for {
		divide := false
		switch {
		case r.accept("**"):
			return nil, errUnread
		case r.accept("*"), r.accept(" * "):
		case r.accept("/"):
			divide = true
		default:
			return left, nil
		}
		right, err := r.signedPower()
		if err != nil {
			return nil, err
		}
		if _, known := right[""]; !divide && (len(right) > 1 || !known) {
			left, right = right, left
		}
		factor, ok := right[""]
		if len(right) != 1 || !ok {
			return nil, fmt.Errorf("%w: a product of unknowns", errUnread)
		}
		for name, value := range left {
			if !divide {
				left[name] = value.times(factor)
			} else if left[name], err = value.over(factor); err != nil {
				return nil, err
			}
		}
	}
}

// signedPower binds a minus less than a power.
func (r *reader) signedPower() (form, error) {
	if r.accept("-") {
		f, err := r.signedPower()
		for name, value := range f {
			f[name] = exact{}.plus(value, -1)
		}
		return f, err
	}
	base, err := r.atom()
	if err != nil || !r.accept("**") {
		return base, err
	}
	exponent, err := r.atom()
	if err != nil {
		return nil, err
	}
	n, err := exponent[""].rat()
	if err != nil || !n.IsInt() {
		return nil, errUnread
	}
	power := exact{1: big.NewRat(1, 1)}
	for range n.Num().Int64() {
		power = power.times(base[""])
	}
	return form{"": power}, nil
}

var number = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?`)

func (r *reader) atom() (form, error) {
	if digits := number.FindString(r.text); digits != "" {
		r.text = r.text[len(digits):]
		value, _ := new(big.Rat).SetString(digits)
		return form{"": rational(value)}, nil
	}
	if r.accept("sqrt(") {
		inside, err := r.sum()
		if err != nil || !r.accept(")") {
			return nil, errUnread
		}
		value, err := inside[""].rat()
		if err != nil || !value.IsInt() || value.Sign() < 0 {
			return nil, errUnread
		}
		out, under := squareFree(value.Num().Int64())
		return form{"": {under: big.NewRat(out, 1)}}, nil
	}
	if r.accept("(") {
		inside, err := r.sum()
		if err != nil || !r.accept(")") {
			return nil, errUnread
		}
		return inside, nil
	}
	if r.text == "" || r.text[0] < 'a' || r.text[0] > 'z' {
		return nil, fmt.Errorf("%w at %q", errUnread, r.text)
	}
	name := r.text[:1]
	r.text = r.text[1:]
	if value, ok := r.scope.values[name]; ok {
		return form{"": rational(value)}, nil
	}
	return form{name: {1: big.NewRat(1, 1)}}, nil
}

// evaluate reads a whole expression without unknowns.
func (s *scope) evaluate(text string) (exact, error) {
	r := &reader{text: text, scope: s}
	f, err := r.sum()
	if err != nil {
		return nil, err
	}
	for name := range f {
		if name != "" {
			return nil, fmt.Errorf("%w: %q is unknown in %q", errUnread, name, text)
		}
	}
	if r.text != "" {
		return nil, fmt.Errorf("%w: %q is left of %q", errUnread, r.text, text)
	}
	return f[""], nil
}

func (s *scope) rat(text string) (*big.Rat, error) {
	value, err := s.evaluate(text)
	if err != nil {
		return nil, err
	}
	return value.rat()
}

var (
	letIs    = regexp.MustCompile(`^Let ([a-z]) (?:=|be) ([^=]+)\.$`)
	letOf    = regexp.MustCompile(`^Let ([a-z])\(([a-z])\) = ([^=]+)\.$`)
	callOf   = regexp.MustCompile(`^([a-z])\((-?[0-9]+|[a-z])\)$`)
	sentence = regexp.MustCompile(`^(?:Let|Suppose) .*?[^0-9 ]?[0-9a-z)]\. `)
)

// define carries one sentence out.
func (s *scope) define(text string) error {
	if m := letOf.FindStringSubmatch(text); m != nil {
		s.functions[m[1]] = struct{ variable, body string }{m[2], m[3]}
		return nil
	}
	if m := letIs.FindStringSubmatch(text); m != nil {
		expression, inner := m[2], s
		if call := callOf.FindStringSubmatch(expression); call != nil {
			argument, err := s.rat(call[2])
			if err != nil {
				return err
			}
			f := s.functions[call[1]]
			if f.body == "" {
				return fmt.Errorf("%w: no function %q", errUnread, call[1])
			}
			inner = &scope{values: maps.Clone(s.values)}
			inner.values[f.variable] = argument
			expression = f.body
		}
		value, err := inner.rat(expression)
		s.values[m[1]] = value
		return err
	}
	equations, ok := strings.CutPrefix(strings.TrimSuffix(text, "."), "Suppose ")
	if !ok {
		return fmt.Errorf("%w: %q", errUnread, text)
	}
	return s.solve(strings.Split(equations, ", "))
}

// solve finds the unknowns of linear equations by elimination.
func (s *scope) solve(equations []string) error {
	var rows []form
	unknown := map[string]bool{}
	for _, equation := range equations {
		left, right, ok := strings.Cut(equation, " = ")
		if !ok {
			return fmt.Errorf("%w: %q", errUnread, equation)
		}
		row := form{}
		for i, side := range []string{left, right} {
			r := &reader{text: side, scope: s}
			f, err := r.sum()
			if err != nil || r.text != "" {
				return fmt.Errorf("%w: %q", errUnread, side)
			}
			for name, value := range f {
				row[name] = row[name].plusOrSet(value, int64(1-2*i))
				if name != "" {
					unknown[name] = true
				}
			}
		}
		rows = append(rows, row)
	}
	names := slices.Sorted(maps.Keys(unknown))
	if len(names) != len(rows) {
		return fmt.Errorf("%w: %d equations for %v", errUnread, len(rows), names)
	}
	for i, name := range names {
		pivot := slices.IndexFunc(rows[i:], func(row form) bool { return len(row[name]) > 0 })
		if pivot < 0 {
			return fmt.Errorf("%w: no single solution", errUnread)
		}
		rows[i], rows[i+pivot] = rows[i+pivot], rows[i]
		for j := range rows {
			if j == i || len(rows[j][name]) == 0 {
				continue
			}
			factor, err := rows[j][name].over(rows[i][name])
			if err != nil {
				return err
			}
			for other, value := range rows[i] {
				rows[j][other] = rows[j][other].plusOrSet(value.times(factor), -1)
			}
		}
	}
	for i, name := range names {
		value, err := rows[i][""].plusOrSet(nil, 1).over(rows[i][name])
		if err != nil {
			return err
		}
		solution, err := value.rat()
		if err != nil {
			return err
		}
		s.values[name] = new(big.Rat).Neg(solution)
	}
	return nil
}

const (
	numeral = `-?[0-9]+(?:\.[0-9]+|/[0-9]+)?`
	item    = `(?:` + numeral + `|[a-z])`
	items   = item + `(?:, ` + item + `)+`
	options = `((?:  \([a-z]\) ` + item + `)+)`
	place   = `((?:second |third |fourth |fifth |sixth |seventh |eighth |ninth )?(?:biggest|smallest))`
	root    = `([a-z]+)`
)

// forms are the questions after the sentences, and how each is answered from
// its parts. ITEM and the like stand for the patterns above.
var forms = []struct {
	pattern *regexp.Regexp
	answer  func(s *scope, m []string) (string, error)
}{
	{match(`In base ([0-9]+), what is (-?[0-9a-f]+) ([+-]) (-?[0-9a-f]+)\?`), inBase},
	{match(`Simplify (.*)\.`), func(s *scope, m []string) (string, error) { return s.written(m[1]) }},
	{match(`What is the ` + root + ` root of ([0-9]+) to the nearest integer\?`), func(_ *scope, m []string) (string, error) {
		degree := map[string]int{"square": 2, "cube": 3, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10}[m[1]]
		return nearestRoot(m[2], degree)
	}},
	{match(`What is ([0-9]+) to the power of 1/([0-9]+), to the nearest integer\?`), func(_ *scope, m []string) (string, error) {
		degree, err := strconv.Atoi(m[2])
		if err != nil {
			return "", err
		}
		return nearestRoot(m[1], degree)
	}},
	{match(`What is (.*) less than (.*)\?`), func(s *scope, m []string) (string, error) { return s.written("(" + m[2] + ") - (" + m[1] + ")") }},
	{match(`Subtract (.*) from (.*)\.`), func(s *scope, m []string) (string, error) { return s.written("(" + m[2] + ") - (" + m[1] + ")") }},
	{match(`What is (.*) (?:minus|take away) (.*)\?`), func(s *scope, m []string) (string, error) { return s.written("(" + m[1] + ") - (" + m[2] + ")") }},
	{match(`What is the (?:distance|difference) between (.*) and (.*)\?`), func(s *scope, m []string) (string, error) {
		text, err := s.written("(" + m[1] + ") - (" + m[2] + ")")
		return strings.TrimPrefix(text, "-"), err
	}},
	{match(`(?:Add together|Add|Put together|Sum|Total of) (.*) and (.*)\.`), func(s *scope, m []string) (string, error) { return s.written("(" + m[1] + ") + (" + m[2] + ")") }},
	{match(`What is (.*) plus (.*)\?`), func(s *scope, m []string) (string, error) { return s.written("(" + m[1] + ") + (" + m[2] + ")") }},
	{match(`(?:Multiply|Product of|What is the product of) (.*) and (.*)[.?]`), func(s *scope, m []string) (string, error) { return s.written("(" + m[1] + ")*(" + m[2] + ")") }},
	{match(`(?:What is )?(\S+) times (\S+?)\??`), func(s *scope, m []string) (string, error) { return s.written("(" + m[1] + ")*(" + m[2] + ")") }},
	{match(`Divide (.*) by (.*)\.`), func(s *scope, m []string) (string, error) { return s.written("(" + m[1] + ")/(" + m[2] + ")") }},
	{match(`(?:What is |Calculate )?(\S+) divided by (\S+?)[.?]?`), func(s *scope, m []string) (string, error) { return s.written("(" + m[1] + ")/(" + m[2] + ")") }},
	{match(`(?:What is the value of |What is |Evaluate |Calculate |Work out )?([-0-9.()+*/ ]*[0-9)])[.?]?`), func(s *scope, m []string) (string, error) { return s.written(m[1]) }},

	{match(`Which is (bigger|greater|smaller): (` + item + `) or (` + item + `)\?`), func(s *scope, m []string) (string, error) {
		sign, err := s.compare(m[2], m[3])
		if (sign > 0) == (m[1] != "smaller") {
			return m[2], err
		}
		return m[3], err
	}},
	{match(`(?:Is|Does) (` + item + `) ([a-z ]+|[<>=!]+) (` + item + `)\?`), func(s *scope, m []string) (string, error) { return s.holds(m[2], m[1], m[3]) }},
	{match(`(?:Are|Do) (` + item + `) and (` + item + `) ([a-z -]+)\?`), func(s *scope, m []string) (string, error) { return s.holds(m[3], m[1], m[2]) }},
	{match(`What is the ` + place + ` value in (` + items + `)\?`), func(s *scope, m []string) (string, error) {
		names := strings.Split(m[2], ", ")
		at, err := s.kth(names, m[1])
		return names[at], err
	}},
	{match(`Which is the ` + place + ` value\?` + options), func(s *scope, m []string) (string, error) {
		at, err := s.kth(optionsOf(m[2]), m[1])
		return string(rune('a' + at)), err
	}},
	{match(`What is the (?:closest|nearest) to (` + item + `) in (` + items + `)\?`), func(s *scope, m []string) (string, error) {
		names := strings.Split(m[2], ", ")
		at, err := s.nearest(names, m[1])
		return names[at], err
	}},
	{match(`Which is the (?:closest|nearest) to (` + item + `)\?` + options), func(s *scope, m []string) (string, error) {
		at, err := s.nearest(optionsOf(m[2]), m[1])
		return string(rune('a' + at)), err
	}},
	{match(`(?:Sort|Put) (` + items + `)(?: in (ascending|increasing|descending|decreasing) order)?\.`), func(s *scope, m []string) (string, error) {
		names := strings.Split(m[1], ", ")
		values, err := s.rats(names)
		order := slices.Clone(names)
		slices.SortFunc(order, func(a, b string) int {
			sign := values[slices.Index(names, a)].Cmp(values[slices.Index(names, b)])
			if strings.HasPrefix(m[2], "de") {
				return -sign
			}
			return sign
		})
		return strings.Join(order, ", "), err
	}},
}

func match(pattern string) *regexp.Regexp { return regexp.MustCompile(`^` + pattern + `$`) }

func optionsOf(text string) []string {
	var names []string
	for _, option := range strings.Split(text, "  (")[1:] {
		names = append(names, option[len("a) "):])
	}
	return names
}

func (s *scope) rats(names []string) ([]*big.Rat, error) {
	values := make([]*big.Rat, len(names))
	var failed error
	for i, name := range names {
		value, err := s.rat(name)
		if err != nil {
			value, failed = new(big.Rat), err
		}
		values[i] = value
	}
	return values, failed
}

func (s *scope) compare(a, b string) (int, error) {
	values, err := s.rats([]string{a, b})
	return values[0].Cmp(values[1]), err
}

func (s *scope) holds(relation, a, b string) (string, error) {
	sign, err := s.compare(a, b)
	holds, ok := map[string]bool{
		"<": sign < 0, "less than": sign < 0, "smaller than": sign < 0,
		"<=": sign <= 0, "less than or equal to": sign <= 0, "at most": sign <= 0, "at most as big as": sign <= 0,
		">": sign > 0, "greater than": sign > 0, "bigger than": sign > 0,
		">=": sign >= 0, "greater than or equal to": sign >= 0, "at least": sign >= 0, "at least as big as": sign >= 0,
		"=": sign == 0, "equal": sign == 0, "equal to": sign == 0, "have the same value": sign == 0,
		"!=": sign != 0, "not equal to": sign != 0, "unequal": sign != 0, "nonequal": sign != 0, "non-equal": sign != 0,
		"have different values": sign != 0,
	}[relation]
	if !ok {
		return "", fmt.Errorf("%w: %q", errUnread, relation)
	}
	return map[bool]string{true: "True", false: "False"}[holds], err
}

func (s *scope) kth(names []string, which string) (int, error) {
	values, err := s.rats(names)
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		if strings.HasSuffix(which, "biggest") {
			i, j = j, i
		}
		return values[i].Cmp(values[j])
	})
	rank, _, ok := strings.Cut(which, " ")
	k := 0
	if ok {
		k = slices.Index([]string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"}, rank)
	}
	if k >= len(order) {
		return 0, errUnread
	}
	return order[k], err
}

func (s *scope) nearest(names []string, target string) (int, error) {
	values, err := s.rats(append(slices.Clone(names), target))
	best := 0
	distance := func(i int) *big.Rat {
		d := new(big.Rat).Sub(values[i], values[len(names)])
		return d.Abs(d)
	}
	for i := range names {
		if distance(i).Cmp(distance(best)) < 0 {
			best = i
		}
	}
	return best, err
}

func inBase(_ *scope, m []string) (string, error) {
	base, err := strconv.Atoi(m[1])
	if err != nil {
		return "", err
	}
	p, okP := new(big.Int).SetString(m[2], base)
	q, okQ := new(big.Int).SetString(m[4], base)
	if !okP || !okQ {
		return "", errUnread
	}
	if m[3] == "-" {
		q.Neg(q)
	}
	return p.Add(p, q).Text(base), nil
}

// nearestRoot finds k with (2k-1)^d < 2^d·n < (2k+1)^d by bisection.
func nearestRoot(digits string, degree int) (string, error) {
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok || degree < 2 {
		return "", errUnread
	}
	d := big.NewInt(int64(degree))
	n.Mul(n, new(big.Int).Exp(big.NewInt(2), d, nil))
	low, high := int64(0), int64(1)<<40
	for low < high {
		k := (low + high) / 2
		if new(big.Int).Exp(big.NewInt(2*k+1), d, nil).Cmp(n) > 0 {
			high = k
		} else {
			low = k + 1
		}
	}
	return fmt.Sprint(low), nil
}

// written evaluates and writes the value as the dataset does: with a point
// where the question has one, and roots by the order of its terms.
func (s *scope) written(text string) (string, error) {
	value, err := s.evaluate(text)
	if err != nil {
		return "", err
	}
	if r, err := value.rat(); err == nil {
		if places, exactly := r.FloatPrec(); strings.Contains(text, ".") && exactly && !r.IsInt() {
			return r.FloatString(places), nil
		}
		return r.RatString(), nil
	}
	roots := slices.Sorted(maps.Keys(value))
	root := roots[len(roots)-1]
	if len(roots) > 2 || len(roots) == 2 && roots[0] != 1 {
		return "", fmt.Errorf("%w: %v", errUnread, value)
	}
	b := value[root]
	term := strings.Replace(b.RatString(), b.Num().String(), b.Num().String()+fmt.Sprintf("*sqrt(%d)", root), 1)
	if b.Num().IsInt64() && (b.Num().Int64() == 1 || b.Num().Int64() == -1) {
		term = strings.Replace(term, "1*", "", 1)
	}
	if len(roots) == 1 {
		return term, nil
	}
	// a + b√n: in rising order where both have one sign, else a first.
	a := value[1]
	first, second := a.RatString(), term
	if a.Sign() == b.Sign() {
		rootSquared := new(big.Rat).Mul(new(big.Rat).Mul(b, b), new(big.Rat).SetInt64(root))
		if magnitude := rootSquared.Cmp(new(big.Rat).Mul(a, a)); magnitude*b.Sign() < 0 {
			first, second = second, first
		}
	}
	if negative, ok := strings.CutPrefix(second, "-"); ok {
		return first + " - " + negative, nil
	}
	return first + " + " + second, nil
}

// solve reads a question and answers it.
func solve(question string) (string, error) {
	s := &scope{values: map[string]*big.Rat{}, functions: map[string]struct{ variable, body string }{}}
	for {
		text := sentence.FindString(question)
		if text == "" {
			break
		}
		if err := s.define(strings.TrimSuffix(text, " ")); err != nil {
			return "", err
		}
		question = question[len(text):]
	}
	for _, f := range forms {
		if m := f.pattern.FindStringSubmatch(question); m != nil {
			return f.answer(s, m)
		}
	}
	return "", fmt.Errorf("%w: %q", errUnread, question)
}

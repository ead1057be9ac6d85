package deepmind

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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

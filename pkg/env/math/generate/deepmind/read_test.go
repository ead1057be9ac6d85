package deepmind

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

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

package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// translator writes an expression of Oniguruma in the syntax of Go, with the
// ranges of every class spelled out and a character in place of every inner
// part.
type translator struct {
	rest    string
	set     Set
	pattern *Pattern
	depth   int
	folds   int // how many groups around ignore case
}

// maxDepth bounds the groups in groups.
const maxDepth = 100

func (t *translator) next() rune {
	r, size := utf8.DecodeRuneInString(t.rest)
	t.rest = t.rest[size:]
	return r
}

func (t *translator) take(prefix string) bool {
	rest, found := strings.CutPrefix(t.rest, prefix)
	t.rest = rest
	return found
}

func unsupported(what string) error { return fmt.Errorf("%s is not supported", what) }

func literal(r rune) string { return fmt.Sprintf(`\x{%X}`, r) }

// alternatives translates up to the end, or up to the bracket that closes a
// group.
func (t *translator) alternatives(group bool) (string, error) {
	if t.depth++; t.depth > maxDepth {
		return "", fmt.Errorf("more than %d groups lie in each other", maxDepth)
	}
	defer func() { t.depth-- }()
	if !group && t.take("(?i)") {
		t.folds++ // to the end of the expression
		inside, err := t.sequence(group)
		return "(?i:" + inside + ")", err
	}
	return t.sequence(group)
}

func (t *translator) sequence(group bool) (string, error) {
	var out strings.Builder
	for t.rest != "" {
		if t.rest[0] == ')' {
			if !group {
				return "", fmt.Errorf("an unmatched )")
			}
			t.rest = t.rest[1:]
			return out.String(), nil
		}
		if t.take("|") {
			out.WriteByte('|')
			continue
		}
		atom, err := t.atom()
		if err == nil {
			atom, err = t.repeated(atom)
		}
		if err != nil {
			return "", err
		}
		out.WriteString(atom)
	}
	if group {
		return "", fmt.Errorf("an unmatched (")
	}
	return out.String(), nil
}

// repeated translates the quantifiers behind an atom.
func (t *translator) repeated(atom string) (string, error) {
	for first := true; t.rest != ""; first = false {
		var quantifier string
		switch t.rest[0] {
		case '*', '+', '?':
			quantifier = t.rest[:1]
			t.rest = t.rest[1:]
		case '{':
			end := strings.IndexByte(t.rest, '}')
			if end < 0 || !isInterval(t.rest[1:end]) {
				return atom, nil // Oniguruma takes it for the character
			}
			quantifier = "{" + t.rest[1:end] + "}"
			if t.rest[1] == ',' {
				quantifier = "{0" + t.rest[1:end] + "}"
			}
			t.rest = t.rest[end+1:]
		default:
			return atom, nil
		}
		if atom == "" {
			return "", fmt.Errorf("nothing stands before the quantifier %s", quantifier)
		}
		if !first {
			atom = "(?:" + atom + ")"
		}
		atom += quantifier
		interval := quantifier[0] == '{'
		switch {
		case t.take("?"):
			// a{2}? is (a{2})? in Ruby.
			if interval && !strings.Contains(quantifier, ",") {
				atom = "(?:" + atom + ")"
			}
			atom += "?"
		case !interval && t.take("+"):
			var err error
			if atom, err = t.add(atom, inner{}); err != nil {
				return "", err
			}
		}
	}
	return atom, nil
}

func isInterval(text string) bool {
	low, high, both := strings.Cut(text, ",")
	number := func(s string) bool {
		_, err := strconv.ParseUint(s, 10, 16)
		return err == nil
	}
	if !both {
		return number(low)
	}
	return (number(low) || low == "") && (number(high) || high == "") && low+high != ""
}

// add makes an inner part of an expression that is translated, and returns what
// stands for it.
func (t *translator) add(text string, part inner) (string, error) {
	if len(t.pattern.inner) == maxInner {
		return "", fmt.Errorf("more than %d parts look ahead or are taken without going back", maxInner)
	}
	if t.folds > 0 {
		text = "(?i:" + text + ")"
	}
	var err error
	part.program, err = compile(text)
	t.pattern.inner = append(t.pattern.inner, part)
	// The brackets keep the parser from joining it with characters beside it.
	return "(" + literal(firstInner+rune(len(t.pattern.inner)-1)) + ")", err
}

func (t *translator) atom() (string, error) {
	switch r := t.next(); {
	case r == '(':
		return t.group()
	case r == '[':
		return t.class()
	case r == '\\':
		return t.escape()
	case r == '.' || r == '^' || r == '$':
		return string(r), nil
	case r == '*' || r == '+' || r == '?':
		return "", fmt.Errorf("nothing stands before the quantifier %c", r)
	default:
		return t.character(r)
	}
}

// foldedPairs are the letters that are equal to one other character when case
// is ignored, ß or a ligature, which is not implemented.
var foldedPairs = []string{"ss", "ff", "fi", "fl", "st"}

func (t *translator) character(r rune) (string, error) {
	if r >= firstInner && r < firstInner+maxInner {
		return "", unsupported(fmt.Sprintf("the character %U", r))
	}
	if t.folds > 0 {
		if r >= utf8.RuneSelf {
			return "", unsupported(fmt.Sprintf("the character %q where case is ignored", r))
		}
		following, _ := utf8.DecodeRuneInString(t.rest)
		for _, pair := range foldedPairs {
			if strings.EqualFold(pair, string(r)+string(following)) {
				return "", unsupported(fmt.Sprintf("%q where case is ignored", pair))
			}
		}
	}
	return literal(r), nil
}

func (t *translator) group() (string, error) {
	inside := func(prefix string) (string, error) {
		text, err := t.alternatives(true)
		return prefix + text + ")", err
	}
	part := func(kind inner) (string, error) {
		text, err := t.alternatives(true)
		if err != nil {
			return "", err
		}
		return t.add(text, kind)
	}
	switch {
	case !strings.HasPrefix(t.rest, "?"):
		return inside("(?:")
	case t.take("?:"):
		return inside("(?:")
	case t.take("?i:"):
		t.folds++
		text, err := inside("(?i:")
		t.folds--
		return text, err
	case t.take("?="):
		return part(inner{ahead: true})
	case t.take("?!"):
		return part(inner{ahead: true, negated: true})
	case t.take("?>"):
		return part(inner{})
	}
	end := min(len(t.rest), 4)
	for end < len(t.rest) && !utf8.RuneStart(t.rest[end]) {
		end++
	}
	return "", unsupported(fmt.Sprintf("a group that begins with %q", "("+t.rest[:end]))
}

// escape translates what follows a backslash outside of a class.
func (t *translator) escape() (string, error) {
	if t.rest == "" {
		return "", fmt.Errorf("a backslash at the end")
	}
	switch t.rest[0] {
	case 'A', 'z', 'b', 'B':
		return `\` + string(t.next()), nil
	}
	r, ranges, err := t.escaped()
	if err != nil {
		return "", err
	}
	if ranges != nil {
		return "[" + spell(ranges) + "]", nil
	}
	return t.character(r)
}

// escaped reads what follows a backslash and is a character or a set of them.
func (t *translator) escaped() (rune, []rune, error) {
	simple := map[rune]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f', 'v': '\v', 'a': '\a', 'e': 0x1b}
	sets := map[rune]string{'s': "space", 'd': "Nd", 'w': "word"}
	r := t.next()
	lower := r | 0x20
	switch {
	case simple[r] != 0:
		return simple[r], nil, nil
	case sets[lower] != "" && r < utf8.RuneSelf:
		ranges := t.set(sets[lower])
		if r != lower {
			ranges = complement(ranges)
		}
		return 0, ranges, nil
	case r == 'p' || r == 'P':
		ranges, err := t.property(r == 'P')
		return 0, ranges, err
	case r == 'x' || r == 'u':
		value, err := t.hexadecimal(r)
		return value, nil, err
	case r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z':
		return 0, nil, unsupported(`\` + string(r))
	}
	return r, nil, nil
}

func (t *translator) hexadecimal(kind rune) (rune, error) {
	digits, found := "", false
	if kind == 'x' && t.take("{") {
		if digits, t.rest, found = strings.Cut(t.rest, "}"); !found {
			return 0, fmt.Errorf(`\x{ without a }`)
		}
	} else {
		size := map[rune]int{'x': 2, 'u': 4}[kind]
		if len(t.rest) < size {
			return 0, fmt.Errorf(`\%c without %d digits`, kind, size)
		}
		digits, t.rest = t.rest[:size], t.rest[size:]
		if kind == 'x' && digits >= "8" {
			return 0, unsupported(`a byte such as \x` + digits)
		}
	}
	value, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || value > utf8.MaxRune {
		return 0, fmt.Errorf(`\%c with %q, which is no character`, kind, digits)
	}
	return rune(value), nil
}

func (t *translator) property(negated bool) ([]rune, error) {
	if t.folds > 0 {
		return nil, unsupported(`\p where case is ignored`)
	}
	if !t.take("{") {
		return nil, unsupported(`\p without {}`)
	}
	name, rest, found := strings.Cut(t.rest, "}")
	if !found {
		return nil, fmt.Errorf(`\p{ without a }`)
	}
	t.rest = rest
	if after, caret := strings.CutPrefix(name, "^"); caret {
		name, negated = after, !negated
	}
	ranges := t.set(name)
	if ranges == nil || name == "word" || name == "space" {
		return nil, unsupported(fmt.Sprintf(`\p{%.50s}`, name))
	}
	if negated {
		return complement(ranges), nil
	}
	return ranges, nil
}

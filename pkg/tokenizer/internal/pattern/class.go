package pattern

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// class translates a class behind its opening bracket.
func (t *translator) class() (string, error) {
	opening := "["
	if t.take("^") {
		opening = "[^"
	}
	if strings.HasPrefix(t.rest, "]") {
		return "", unsupported("a class that begins with ]")
	}
	var ranges strings.Builder
	for {
		switch {
		case t.rest == "":
			return "", fmt.Errorf("a class without a ]")
		case t.take("]"):
			return opening + ranges.String() + "]", nil
		case strings.HasPrefix(t.rest, "["):
			return "", unsupported("a class in a class")
		case strings.HasPrefix(t.rest, "&&"):
			return "", unsupported("&& in a class")
		}
		first, set, err := t.member()
		if err != nil {
			return "", err
		}
		if set != nil {
			ranges.WriteString(spell(set))
			continue
		}
		last := first
		if strings.HasPrefix(t.rest, "-") && !strings.HasPrefix(t.rest, "-]") {
			t.rest = t.rest[1:]
			if last, set, err = t.member(); err != nil {
				return "", err
			}
			if set != nil || last < first {
				return "", fmt.Errorf("a range in a class that ends before it begins, or with a set")
			}
		}
		ranges.WriteString(spell([]rune{first, last}))
	}
}

// member reads a character of a class, or a set of them.
func (t *translator) member() (rune, []rune, error) {
	r := t.next()
	var set []rune
	if r == '\\' {
		if t.take("b") {
			return '\b', nil, nil
		}
		if t.rest == "" {
			return 0, nil, fmt.Errorf("a backslash at the end")
		}
		var err error
		if r, set, err = t.escaped(); err != nil || set != nil {
			return 0, set, err
		}
	}
	if t.folds > 0 && r >= utf8.RuneSelf {
		return 0, nil, unsupported(fmt.Sprintf("the character %q where case is ignored", r))
	}
	return r, nil, nil
}

// spell writes ranges as members of a class.
func spell(ranges []rune) string {
	var b strings.Builder
	for i := 0; i < len(ranges); i += 2 {
		b.WriteString(literal(ranges[i]) + "-" + literal(ranges[i+1]))
	}
	return b.String()
}

// complement returns the ranges of all characters that are not in ranges.
func complement(ranges []rune) []rune {
	var others []rune
	next := rune(0)
	for i := 0; i < len(ranges); i += 2 {
		if next < ranges[i] {
			others = append(others, next, ranges[i]-1)
		}
		next = ranges[i+1] + 1
	}
	if next <= utf8.MaxRune {
		others = append(others, next, utf8.MaxRune)
	}
	return others
}

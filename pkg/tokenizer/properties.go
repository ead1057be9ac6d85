package tokenizer

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// propertiesText lists what only some tokenizers need of each code point:
// general categories, scripts, lowercase letters, compatibility decompositions.
// It is a file of its own, so that the others do not wait for it.
//
//go:embed properties.txt
var propertiesText string

// properties holds the content of propertiesText.
type properties struct {
	sets       map[string][]rune // first and last of each range, in order
	lower      map[rune]string
	compatible map[rune][]rune
}

// unicodeProperties reads properties.txt once. Its lines are checked by the
// tests, so a line that cannot be read is a mistake in the build.
var unicodeProperties = sync.OnceValue(func() *properties {
	p := &properties{sets: map[string][]rune{}, lower: map[rune]string{}, compatible: map[rune][]rune{}}
	for line := range strings.Lines(propertiesText) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "#" {
			continue
		}
		var values []rune
		for field := range strings.FieldsSeq(rest) {
			from, to, isRange := strings.Cut(field, "-")
			values = append(values, codePoint(from))
			switch name {
			case "lower", "compatible":
			default:
				if !isRange {
					to = from
				}
				values = append(values, codePoint(to))
			}
		}
		switch name {
		case "lower":
			p.lower[values[0]] = string(values[1:])
		case "compatible":
			p.compatible[values[0]] = values[1:]
		default:
			p.sets[name] = values
		}
	}
	for _, group := range []string{"L", "M", "N", "P", "S", "Z", "C"} {
		var members []string
		for name := range p.sets {
			if len(name) == 2 && name[:1] == group {
				members = append(members, name)
			}
		}
		p.sets[group] = p.union(members)
	}
	// What has no category is neither listed nor a surrogate.
	p.sets["space"] = p.union([]string{"Zs", "Zl", "Zp"}, '\t', '\r', 0x85, 0x85)
	return p
})

func codePoint(digits string) rune {
	value, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || value > utf8.MaxRune {
		panic("tokenizer: properties.txt: " + digits)
	}
	return rune(value)
}

// union returns the ranges of several sets and of others in order, and joins
// those that touch.
func (p *properties) union(names []string, others ...rune) []rune {
	var pairs [][2]rune
	add := func(ranges []rune) {
		for i := 0; i < len(ranges); i += 2 {
			pairs = append(pairs, [2]rune{ranges[i], ranges[i+1]})
		}
	}
	for _, name := range names {
		add(p.sets[name])
	}
	add(others)
	slices.SortFunc(pairs, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	var ranges []rune
	for _, pair := range pairs {
		if n := len(ranges); n > 0 && pair[0] <= ranges[n-1]+1 {
			ranges[n-1] = max(ranges[n-1], pair[1])
		} else {
			ranges = append(ranges, pair[0], pair[1])
		}
	}
	return ranges
}

// patternSet is the sets that a pattern of Split or Replace can name.
func patternSet(name string) []rune {
	p := unicodeProperties()
	if ranges, ok := p.sets[name]; ok && name != "numeric" && name != "punctuation" && name != "mark" {
		return ranges
	}
	return nil
}

// contains returns the function that reports whether a character is in a set.
func (p *properties) contains(name string) func(rune) bool {
	ranges := p.sets[name]
	var ascii [utf8.RuneSelf]bool
	for r := range ascii {
		ascii[r] = inRanges(ranges, rune(r))
	}
	return func(r rune) bool {
		if r < utf8.RuneSelf {
			return ascii[r]
		}
		return inRanges(ranges, r)
	}
}

func inRanges(ranges []rune, r rune) bool {
	i, found := slices.BinarySearch(ranges, r)
	return found || i%2 == 1
}

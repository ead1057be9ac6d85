package mathverify

import (
	"fmt"
	"slices"
	"strings"
)

// Options say how answers are found in a response and compared. They start
// from [DefaultOptions] or from a preset.
type Options struct {
	// Targets are the forms that are looked for.
	Targets Targets
	// Boxed is the rank of what is in \\boxed{}.
	Boxed Boxed
	// Match says which of several answers of one rank is meant.
	Match Match
	// OnlyBest gives up when the best candidate cannot be read, where else
	// the next is tried (Math-Verify's extraction_mode first_match).
	OnlyBest bool
	// Anchored takes only answers that are boxed or announced
	// (try_extract_without_anchor false).
	Anchored bool

	// DecimalPlaces is what both sides are rounded to when one of them was
	// written with a decimal point (float_rounding).
	DecimalPlaces int
	// Tolerance, above 0, makes real numbers equal that differ by no more than
	// this share of the reference, however they were written.
	Tolerance float64
	// SetForRelation lets a condition such as 1 < x < 2 stand for a reference
	// that is the set (1, 2) (allow_set_relation_comp). The reverse is always
	// allowed.
	SetForRelation bool
	// RenameSymbols makes x + 1 equal to y + 1: the symbols of the response
	// are renamed, in alphabetical order, to those of the reference, where
	// there are as many (strict false).
	RenameSymbols bool
	// DecimalsOfNumbers rounds decimals against rational numbers alone: 0.7
	// is not 7/10 to six places then, but 1.414214 is not the root of 2. So do
	// Math-Verify 0.6 and 0.7.
	DecimalsOfNumbers bool
	// SplitImaginary keeps a habit of Math-Verify that is wrong as
	// mathematics: an i that stands apart, as in 2 i + 1, is another symbol
	// than one beside a digit, as in 1+2i.
	SplitImaginary bool
}

// Targets is a set of the forms that are looked for in a response.
type Targets uint8

// The forms.
const (
	TargetLaTeX      Targets = 1 << iota // formulas between their signs, boxes, fractions
	TargetExpression                     // plain numbers and expressions: 1,234.5, 3*4+1, 50 %
	TargetWords                          // announced words or a short line, for references in words
)

func (t Targets) has(one Targets) bool { return t&one != 0 }

// Boxed is the rank of boxed answers among the others.
type Boxed uint8

// The ranks.
const (
	BoxedFirst Boxed = iota // before all but "final answer is X. I hope" (boxed_match_priority 0)
	BoxedAmong              // beside "final answer is X" (50, the library's default)
	BoxedOff                // boxes outside of formulas are not looked for (-1)
)

// Match says which of several answers of one rank is the response's.
type Match uint8

// The choices. MatchAny rewards a list of guesses: it is there to measure with,
// not to train with.
const (
	MatchLast  Match = iota // the rightmost
	MatchFirst              // the leftmost
	MatchAny                // whichever is right, of the 16 best of all ranks
)

// DefaultOptions are Math-Verify's 0.8 as mathematics has it: boxes first, six
// places, no conditions for sets; i is the imaginary unit wherever it stands.
func DefaultOptions() Options {
	return Options{Targets: TargetLaTeX | TargetExpression | TargetWords, DecimalPlaces: 6}
}

// presets are named options: what papers and runs used.
var presets = []struct {
	name   string
	change func(*Options)
}{
	{"lathe", func(*Options) {}},
	{"math-verify-0.8", func(o *Options) { o.SplitImaginary, o.Boxed = true, BoxedAmong }},
	// ExIt cites 0.6.1, FlipTS 0.7.0; the two compare alike.
	{"math-verify-0.7", func(o *Options) { o.SplitImaginary, o.Boxed, o.DecimalsOfNumbers = true, BoxedAmong, true }},
	{"math-verify-0.6", func(o *Options) { o.SplitImaginary, o.Boxed, o.DecimalsOfNumbers = true, BoxedAmong, true }},
	{"math-verify-loose", func(o *Options) {
		o.SplitImaginary, o.Boxed, o.RenameSymbols, o.SetForRelation = true, BoxedAmong, true, true
	}},
	{"boxed", func(o *Options) { o.Targets, o.Anchored, o.OnlyBest = TargetLaTeX, true, true }},
}

// Presets lists the names of the presets.
func Presets() []string {
	var names []string
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// Preset returns the options of a name.
func Preset(name string) (Options, error) {
	options := DefaultOptions()
	for _, p := range presets {
		if p.name == name {
			p.change(&options)
			return options, nil
		}
	}
	return options, fmt.Errorf("unknown preset %q: want one of %s", name, strings.Join(Presets(), ", "))
}

var (
	targetNames = []string{"latex", "expression", "words"}
	boxedNames  = []string{"first", "among", "off"}
	matchNames  = []string{"last", "first", "any"}
)

// ParseTargets reads names of targets: latex, expression, words.
func ParseTargets(names []string) (Targets, error) {
	var all Targets
	for _, name := range names {
		i, err := indexIn(targetNames, "target", name)
		if err != nil {
			return 0, err
		}
		all |= 1 << i
	}
	if all == 0 {
		return 0, fmt.Errorf("no targets: give some of %s", strings.Join(targetNames, ", "))
	}
	return all, nil
}

// ParseBoxed reads the name of a rank: first, among, off.
func ParseBoxed(name string) (Boxed, error) {
	i, err := indexIn(boxedNames, "rank of boxes", name)
	return Boxed(i), err
}

// ParseMatch reads the name of a choice: last, first, any.
func ParseMatch(name string) (Match, error) {
	i, err := indexIn(matchNames, "match", name)
	return Match(i), err
}

// indexIn finds the name of what it is called.
func indexIn(names []string, what, name string) (int, error) {
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("unknown %s %q: want one of %s", what, name, strings.Join(names, ", "))
}

package mathverify

import (
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

const decimalWords = `(?i)\\approx|≈|\bdecimals?\b|\bapprox\w*|\babout\b|\broughly\b|\bnumerical\w*|\brounded\b`

var (
	// takesBack are the words between two boxes of which the second corrects
	// the first.
	takesBack = lazyregexp.New(`(?i)\b(?:no|not|wait|sorry|wrong(?:ly)?|mistakes?|mistaken|incorrect(?:ly)?|actually|instead|rather|correct(?:ed|ion|ing)?|oops|hmm+|but|however|errors?|should|revis\w+|re-?check\w*|re-?consider\w*|fix(?:ed)?|updated?|scratch|hold on|let me|let's|apolog\w+|hence|therefore)\b`)
	// restates are the words between two boxes that give one value, of which
	// decimals are those before a rounded one.
	restates = lazyregexp.New(`(?i)^[\s$]*(?:=|\\approx|≈|\()|\b(?:i\.e\.|that is|which (?:is|equals)|equivalent\w*|in other words|simplif\w+|equals|equal to|same as)|` + decimalWords)
	decimals = lazyregexp.New(decimalWords)
	// rejects are the words right before a box that is not the answer.
	rejects = []string{"not", "rather than", "instead of", "isn't", "wasn't", "cannot be"}
)

// rejected reports whether a text ends in words that reject the box behind it.
// A response may have thousands of boxes, so no pattern is searched for.
func rejected(before string) bool {
	before = strings.ToLower(strings.TrimRight(before[max(0, len(before)-reach/2):], " \t\n\v\f\r$:"))
	return slices.ContainsFunc(rejects, func(words string) bool {
		rest, ok := strings.CutSuffix(before, words)
		return ok && !letterAt(rest, len(rest)-1) && !digitAt(rest, max(0, len(rest)-1))
	})
}

// box reads the box whose command begins at i. Without braces it reaches to
// the next blank or dollar sign.
func (s *scanner) box(i int) (formula, bool) {
	_, length := command(s.text[i:])
	at := i + length
	for at < len(s.text) && s.text[at] == ' ' {
		at++
	}
	if at < len(s.text) && s.text[at] != '{' {
		end := at
		for end < len(s.text) && !strings.ContainsRune(" \n\t$\\", rune(s.text[end])) {
			end++
		}
		return formula{start: i, end: end, from: at, to: end, box: true}, digitAt(s.text, at)
	}
	from, to, end, ok := s.group(at)
	return formula{start: i, end: end, from: from, to: to, box: true}, ok
}

// nextBox is the place of the next box's command from a position on; -1 when
// there is none before the end.
func (s *scanner) nextBox(from, to int) int {
	if !strings.Contains(s.text[from:to], `box`) {
		return -1
	}
	at := anyBox().FindStringIndex(s.text[from:to])
	if at == nil {
		return -1
	}
	return from + at[0]
}

// boxed is an answer in a box.
type boxed struct {
	candidate
	joined bool // to the one before, in the same formula
}

// allBoxes lists the boxes, alone and in formulas. One in a formula reaches to
// the formula's ends.
func (s *scanner) allBoxes(formulas []formula) []boxed {
	var all []boxed
	for _, f := range formulas {
		if f.box {
			all = append(all, boxed{candidate{text: s.text[f.from:f.to], start: f.start, end: f.end}, false})
			continue
		}
		first := len(all)
		for at := f.from; at < f.to; {
			i := s.nextBox(at, f.to)
			if i < 0 {
				break
			}
			b, ok := s.box(i)
			if !ok || b.to > f.to {
				break
			}
			all = append(all, boxed{candidate{text: s.text[b.from:b.to], start: b.start, end: b.end}, len(all) > first})
			at = b.end
		}
		if len(all) > first {
			all[first].start = f.start
			all[len(all)-1].end = f.end
		}
	}
	return all
}

// boxes makes candidates of the boxed answers: the last box, with earlier ones
// that belong to it.
func (s *scanner) boxes(formulas []formula, options Options) []candidate {
	var all []boxed
	found := s.allBoxes(formulas)
	for _, b := range found {
		if len(found) == 1 || !rejected(s.text[:b.start]) {
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		return nil
	}
	priority := priorityBoxed
	if options.Boxed == BoxedAmong {
		priority = priorityFinal
	}
	if options.Match == MatchAny {
		var found []candidate
		for _, b := range all[max(0, len(all)-maxCandidates):] {
			found = append(found, b.ranked(priority, s.text))
		}
		return found
	}
	if options.Match == MatchFirst {
		first := all[0]
		for _, b := range all[1:] {
			if !b.joined {
				break
			}
			first.text, first.end = first.text+", "+b.text, b.end
		}
		return []candidate{first.ranked(priority, s.text)}
	}
	last := len(all) - 1
	answer := all[last].ranked(priority, s.text)
	for i := last - 1; i >= 0 && last-i < 6; i-- {
		gap := s.text[all[i].end:all[i+1].start]
		conjunction := strings.ContainsAny(gap, ",;") || strings.Contains(gap, " and ") || strings.Contains(gap, " or ")
		if !all[i+1].joined && len(gap) >= 10 && (len(gap) >= 70 || !conjunction) || takesBack().MatchString(gap) {
			break
		}
		answer.start = all[i].start
		if restates().MatchString(gap) {
			answer.restate(all[i].text, decimals().MatchString(gap))
			break
		}
		if all[i].text != all[i+1].text {
			answer.text = all[i].text + ", " + answer.text
		}
	}
	return []candidate{answer}
}

func (b boxed) ranked(priority int, response string) candidate {
	c := b.candidate
	c.priority = priority
	c.takePercent(response)
	return c
}

// restate takes an earlier box for the same value. Before a rounded one it is
// the answer.
func (c *candidate) restate(earlier string, rounded bool) {
	c.also = earlier
	if rounded {
		c.text, c.also = earlier, c.text
	}
}

// boxesInside joins the boxes in a formula.
func (s *scanner) boxesInside(f formula) string {
	var contents []string
	for _, b := range s.allBoxes([]formula{f}) {
		contents = append(contents, b.text)
	}
	return strings.Join(contents, ", ")
}

package mathverify

import (
	"cmp"
	"slices"
	"strings"
)

// The order in which answers are looked for; within one priority the
// rightmost end goes first, then the longest.
const (
	priorityWhole  = -1  // the text is the answer
	priorityHope   = 0   // the final answer is X. I hope
	priorityTag    = 0   // <answer>X</answer>
	priorityBoxed  = 1   // \boxed{X}
	priorityFinal  = 50  // final answer … is X
	priorityColon  = 100 // answer: … X
	priorityAnswer = 200 // answer … X
	priorityAny    = 300 // any formula or number
)

// candidate is a piece of a response that may be its answer.
type candidate struct {
	text       string
	start, end int // in the response
	priority   int
	percent    bool   // the sign or word at its end stood outside of the formula
	also       string // the same value in other words, which the response gives beside
}

// extract lists the candidates of a response, best first. Its work is linear
// in the response's length.
func extract(response string, options Options) []candidate {
	if len(response) > maxResponseBytes {
		response = response[len(response)-maxResponseBytes:]
	}
	response = withoutMarks(response)
	if from, to, ok := tagged(response); ok {
		if found := inTag(response, from, to, options); len(found) > 0 || options.Targets.has(TargetExpression) {
			return found
		}
	}
	return search(response, options, options.Anchored)
}

// search lists the candidates of a text without tags; anchored takes only
// those that are boxed or announced.
func search(response string, options Options, anchor bool) []candidate {
	s := &scanner{text: response}
	formulas := s.formulas()
	var found []candidate
	if options.Targets.has(TargetLaTeX) {
		if options.Boxed != BoxedOff {
			found = s.boxes(formulas, options)
		}
		found = append(found, s.joined(formulas)...)
	}
	if options.Targets.has(TargetExpression) {
		found = append(found, outside(s.numbers(), formulas)...)
	}
	anchored(response, found)
	if anchor {
		found = slices.DeleteFunc(found, func(c candidate) bool { return c.priority == priorityAny })
	}
	found = few(found, options.Match)
	slices.SortStableFunc(found, func(a, b candidate) int {
		if options.Match == MatchFirst {
			return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
		}
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(b.end, a.end), cmp.Compare(a.start, b.start))
	})
	return found
}

// few keeps what may be tried: all that are boxed or announced, and the last
// (or first) of the others. The list ascends by start.
func few(found []candidate, match Match) []candidate {
	const most = 4 * maxCandidates
	low, high := len(found)-most, len(found)
	if match == MatchFirst {
		low, high = 0, most
	}
	at := -1
	return slices.DeleteFunc(found, func(c candidate) bool {
		at++
		return (at < low || at >= high) && c.priority == priorityAny
	})
}

// bare makes a candidate of a response without formula or number: the words
// that an answer is announced with, or the whole of a short line.
func bare(response string) []candidate {
	const longest = 128 // bytes
	if len(response) > maxResponseBytes {
		response = response[len(response)-maxResponseBytes:]
	}
	response = Tagged(response)
	text := response
	for at := 0; ; {
		i := indexFold(response[at:], "answer")
		if i < 0 {
			break
		}
		at += i + len("answer")
		text = response[at:]
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	for _, announcement := range []string{"is", ":", "is:"} {
		text = strings.TrimSpace(strings.TrimPrefix(text, announcement))
	}
	text = strings.Trim(text, "*_. ")
	if text == "" || len(text) > longest {
		return nil
	}
	return []candidate{{text: text, priority: priorityAny}}
}

// scanner finds formulas and numbers in a response.
type scanner struct {
	text  string
	next  map[string]int // where a closing text was found last
	match []int32        // the closing brace of each opening one, plus one; 0 for none
}

// find is strings.Index from a position on; a text that was found further on
// is not looked for again.
func (s *scanner) find(what string, from int) int {
	if s.next == nil {
		s.next = map[string]int{}
	}
	if at, ok := s.next[what]; ok && (at < 0 || at >= from) {
		return at
	}
	at := strings.Index(s.text[from:], what)
	if at >= 0 {
		at += from
	}
	s.next[what] = at
	return at
}

// formula is a piece of mathematics in a response.
type formula struct {
	start, end int // with its signs around
	from, to   int // the content
	box        bool
}

// formulas finds $…$, $$…$$, \(…\), \[…\], [ … ], bare boxes and fractions.
func (s *scanner) formulas() []formula {
	var found []formula
	text := s.text
	for i := 0; i < len(text); {
		f, ok := formula{}, false
		switch {
		case strings.HasPrefix(text[i:], "$$"):
			f, ok = s.between(i, "$$", "$$", false)
		case text[i] == '$' && (i == 0 || !digitAt(text, i-1)):
			f, ok = s.between(i, "$", "$", true)
		case strings.HasPrefix(text[i:], `\$`):
			i += 2
			continue
		case strings.HasPrefix(text[i:], `\[`):
			f, ok = s.between(i, `\[`, `\]`, false)
		case strings.HasPrefix(text[i:], `\(`):
			f, ok = s.between(i, `\(`, `\)`, true)
		case strings.HasPrefix(text[i:], "[ ") && (i == 0 || text[i-1] == ' ' || text[i-1] == '\n'):
			f, ok = s.between(i, "[ ", " ]", true)
		case text[i] == '`':
			f, ok = s.code(i)
		case strings.HasPrefix(text[i:], `\boxed`), strings.HasPrefix(text[i:], `\fbox`), strings.HasPrefix(text[i:], `\framebox`):
			f, ok = s.box(i)
		case strings.HasPrefix(text[i:], `\frac{`):
			f, ok = s.bareFraction(i)
		}
		if !ok {
			i++
			continue
		}
		found = append(found, f)
		i = f.end
	}
	return found
}

// between finds the closing sign; oneLine forbids a newline on the way.
func (s *scanner) between(i int, open, closing string, oneLine bool) (formula, bool) {
	from := i + len(open)
	to := s.find(closing, from)
	for to > 0 && s.text[to-1] == '\\' && closing == "$" {
		to = s.find(closing, to+1) // \$ is a currency sign inside
	}
	if to < 0 || to == from {
		return formula{}, false
	}
	if oneLine {
		if line := s.find("\n", from); line >= 0 && line < to {
			return formula{}, false
		}
	}
	return formula{start: i, end: to + len(closing), from: from, to: to}, true
}

// code finds a formula in backticks, with no words in it.
func (s *scanner) code(i int) (formula, bool) {
	f, ok := s.between(i, "`", "`", true)
	content := s.text[f.from:f.to]
	return f, ok && strings.ContainsAny(content, "0123456789") && !strings.HasPrefix(content, "`") && !prose(content) && !anyBox().MatchString(content) &&
		!strings.Contains(content, "$")
}

// braces fills the table of matching braces.
func (s *scanner) braces() {
	if s.match != nil {
		return
	}
	s.match = make([]int32, len(s.text)+1)
	var open []int32
	for i := 0; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case '{':
			open = append(open, int32(i))
		case '}':
			if len(open) > 0 {
				s.match[open[len(open)-1]] = int32(i) + 1
				open = open[:len(open)-1]
			}
		}
	}
}

// group returns the content of the group in braces at i; one that is never
// closed reaches to the end of the line.
func (s *scanner) group(i int) (from, to, end int, ok bool) {
	if i >= len(s.text) || s.text[i] != '{' {
		return 0, 0, 0, false
	}
	s.braces()
	if m := int(s.match[i]); m > 0 {
		return i + 1, m - 1, m, true
	}
	line := s.find("\n", i)
	if line < 0 {
		line = len(s.text)
	}
	return i + 1, line, line, true
}

// bareFraction finds \frac{2}{3} outside of formulas, with its sign. With
// more than numbers in it, it is a piece of a formula that has no signs around.
func (s *scanner) bareFraction(i int) (formula, bool) {
	end := i + len(`\frac`)
	for range 2 {
		from, to, after, ok := s.group(end)
		if !ok || !simpleNumber(s.text[from:to]) {
			return formula{}, false
		}
		end = after
	}
	i -= signLength(s.text[:i])
	return formula{start: i, end: end, from: i, to: end}, true
}

// simpleNumber reports whether a text is digits with a sign and a point.
func simpleNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole, fraction, point := strings.Cut(strings.Replace(s, ",", ".", 1), ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return digits(whole) && (!point || digits(fraction))
}

// joined makes a candidate of each formula, and of neighbours with "and",
// "or" or a comma between one set.
func (s *scanner) joined(formulas []formula) []candidate {
	text := s.text
	var found []candidate
	for i := 0; i < len(formulas); {
		first := formulas[i]
		if first.box {
			i++
			continue
		}
		contents := []string{text[first.from:first.to]}
		if inside := s.boxesInside(first); inside != "" {
			contents[0] = inside
		}
		end := first.end
		n := 1
		for n < 6 && i+n < len(formulas) && !formulas[i+n].box && conjunction(text[end:formulas[i+n].start]) &&
			balanced(contents[n-1]) && balanced(text[formulas[i+n].from:formulas[i+n].to]) {
			contents = append(contents, text[formulas[i+n].from:formulas[i+n].to])
			end = formulas[i+n].end
			n++
		}
		c := candidate{text: strings.Join(contents, ", "), start: first.start, end: end, priority: priorityAny}
		i += n
		if strings.HasPrefix(text[end:], "*") && goesOn(text, end) { // $2$*pi
			continue
		}
		c.takePercent(text)
		found = append(found, c)
	}
	return found
}

// takePercent takes the sign or word for percent behind a candidate into it.
func (c *candidate) takePercent(response string) {
	if p := percentAfter(response[c.end:]); p > 0 {
		c.text, c.end, c.percent = c.text+`\%`, c.end+p, true
	}
}

// number reads a candidate without the percent behind it, as which "28 percent"
// answers how many percent, or with an e for what else is an exponent; nil when
// there is no such reading.
func (c candidate) number(b *budget) *node {
	if !c.percent {
		return withoutExponents(c.text, b)
	}
	n, _ := parse(strings.TrimSuffix(c.text, `\%`), b)
	return n
}

// balanced reports whether as many brackets are closed as are opened.
func balanced(s string) bool {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
	}
	return depth == 0
}

// conjunction reports whether text between two formulas makes one set of them.
func conjunction(gap string) bool {
	if len(gap) > 12 {
		return false
	}
	switch strings.TrimSpace(gap) {
	case "and", "or", ",", ", and", ", or":
		return true
	}
	return false
}

var percentSigns = append([]string{`\%`, "%"}, percents...)

// percentAfter is the length of a sign or word for percent at the beginning.
func percentAfter(rest string) int {
	trimmed := strings.TrimLeft(rest, " ")
	if len(rest)-len(trimmed) > 1 {
		return 0
	}
	for _, sign := range percentSigns {
		if strings.HasPrefix(trimmed, sign) && !letterAt(trimmed, len(sign)) {
			return len(rest) - len(trimmed) + len(sign)
		}
	}
	return 0
}

// outside drops the numbers that stand in formulas. Both lists ascend.
func outside(numbers []candidate, formulas []formula) []candidate {
	next := 0
	return slices.DeleteFunc(numbers, func(n candidate) bool {
		for next < len(formulas) && formulas[next].end <= n.start {
			next++
		}
		return next < len(formulas) && formulas[next].start < n.end
	})
}

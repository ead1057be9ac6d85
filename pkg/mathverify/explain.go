package mathverify

import (
	"errors"
	"fmt"
	"strings"
)

// Explanation is a result with the steps that led to it. Unlike
// [Result.Explain], the steps show the reference answer.
type Explanation struct {
	Result
	Steps []string
}

// Explain checks as [Reference.Verify] does, and keeps the steps: how the
// reference was read, what was taken from the response and from where, how it
// was read, and the comparisons that decided, parts before the whole.
func (r *Reference) Explain(response string, options Options) Explanation {
	t := &trace{}
	r.tell(t)
	candidates := r.candidates(response, options)
	t.found(candidates)
	return Explanation{Result: r.verify(candidates, options, t), Steps: t.steps}
}

// ExplainAnswer is Explain for a text that is the answer itself.
func (r *Reference) ExplainAnswer(answer string, options Options) Explanation {
	t := &trace{}
	r.tell(t)
	return Explanation{Result: r.verify(whole(answer), options, t), Steps: t.steps}
}

// tell says how the reference was read.
func (r *Reference) tell(t *trace) {
	switch {
	case !r.set:
		t.note("there is no reference")
	case r.parsed == nil:
		t.note("reference %q: compared as text", Clip(r.text))
	default:
		t.note("reference %q: %s %s", Clip(r.text), r.Kind(), show(r.parsed))
	}
}

// maxTraceSteps bounds an explanation.
const maxTraceSteps = 64

// trace collects the steps of an explanation; a nil one collects nothing.
type trace struct{ steps []string }

func (t *trace) note(format string, args ...any) {
	if t == nil {
		return
	}
	switch {
	case len(t.steps) < maxTraceSteps:
		t.steps = append(t.steps, fmt.Sprintf(format, args...))
	case len(t.steps) == maxTraceSteps:
		t.steps = append(t.steps, "and more steps, left out")
	}
}

// found says what may be the answer.
func (t *trace) found(candidates []candidate) {
	switch len(candidates) {
	case 0:
		t.note("response: nothing that could be the answer")
	case 1:
		t.note("response: one candidate")
	default:
		t.note("response: %d candidates, best first", len(candidates))
	}
}

// candidate says what was taken and how it was read.
func (t *trace) candidate(c candidate, parsed *node, err error) {
	if t == nil {
		return
	}
	source := map[int]string{
		priorityWhole: "the whole text", priorityHope: "the tag or “final answer is … I hope”", priorityBoxed: "boxed", priorityFinal: "final answer",
		priorityColon: "after “answer:”", priorityAnswer: "after “answer”", priorityAny: "the text",
	}[c.priority]
	reading := "cannot be read"
	switch {
	case errors.Is(err, errBudget):
		reading = "beyond the budget"
	case err == nil:
		reading = parsed.describe() + " " + show(parsed)
	}
	t.note("taken from %s, bytes %d to %d: %q: %s", source, c.start, c.end, Clip(c.text), reading)
}

// compared notes a comparison that decided.
func (c *comparer) compared(rule string, gold, got *node, same bool) bool {
	if c.trace != nil {
		sign := "≠"
		if same {
			sign = "="
		}
		c.trace.note("%s: %s %s %s", rule, show(gold), sign, show(got))
	}
	return same
}

// maxShown bounds, in bytes, how a formula is shown.
const maxShown = 160

// show writes a node in plain notation, cut when it is long.
func show(n *node) string {
	var b strings.Builder
	n.show(&b)
	s := b.String()
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}

var infix = map[kind]string{
	kindSum: " + ", kindProduct: "*", kindQuotient: "/", kindPower: "^", kindPlusMinus: " ± ", kindMinusPlus: " ∓ ",
	kindUnion: " ∪ ", kindIntersect: " ∩ ", kindDifference: " \\ ",
}

func (n *node) show(b *strings.Builder) {
	if b.Len() > maxShown {
		return
	}
	list := func(args []*node, open, between, closing string) {
		b.WriteString(open)
		for i, a := range args {
			if i > 0 {
				b.WriteString(between)
			}
			a.show(b)
		}
		b.WriteString(closing)
	}
	switch n.kind {
	case kindNumber:
		if text, exact := n.value.FloatPrec(); n.decimal && exact {
			b.WriteString(n.value.FloatString(text))
			return
		}
		b.WriteString(n.value.RatString())
	case kindConstant, kindSymbol, kindNamedSet:
		b.WriteString(n.name)
	case kindText:
		fmt.Fprintf(b, "%q", n.name)
	case kindFunction:
		list(n.args, strings.TrimSuffix(n.name, "()")+"(", ", ", ")")
	case kindPercent:
		list(n.args, "", "", " %")
	case kindList:
		list(n.args, "{", ", ", "}")
	case kindSolutions:
		list(n.args, "{x : ", ", ", "}")
	case kindTuple:
		list(n.args, string(n.open), ", ", string(n.close))
	case kindMatrix:
		b.WriteString("matrix[")
		for i, a := range n.args {
			switch {
			case i > 0 && i%n.columns == 0:
				b.WriteString("; ")
			case i > 0:
				b.WriteString(", ")
			}
			a.show(b)
		}
		b.WriteString("]")
	case kindRelation:
		for i, a := range n.args {
			if i > 0 {
				b.WriteString(" " + n.operators[i-1] + " ")
			}
			a.show(b)
		}
	default:
		if len(n.args) == 1 {
			list(n.args, strings.TrimSpace(infix[n.kind]), "", "")
			return
		}
		list(n.args, "(", infix[n.kind], ")")
	}
}

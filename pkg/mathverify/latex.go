package mathverify

import (
	"math/big"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// command reads what a backslash begins.
func (p *parser) command() *node {
	name, length := command(p.text[p.at:])
	switch name {
	case "{":
		return p.braces()
	case "lvert", "vert":
		return p.bar(`\`+name, map[string]string{"lvert": `\rvert`, "vert": `\vert`}[name])
	}
	p.at += length
	switch name {
	case "frac", "dfrac", "tfrac", "cfrac":
		top := p.argument(false)
		return operation(kindQuotient, top, p.argument(false))
	case "binom", "dbinom", "tbinom":
		top := p.argument(false)
		return function("binomial", top, p.argument(false))
	case "sqrt":
		return p.root()
	case "boxed", "fbox", "framebox":
		return p.argument(true)
	case "pi":
		return constant("pi")
	case "infty":
		return constant("infinity")
	case "emptyset", "varnothing":
		return &node{kind: kindNamedSet, name: "empty"}
	case "lfloor":
		return p.fence("floor", `\rfloor`)
	case "lceil":
		return p.fence("ceil", `\rceil`)
	case "mathbb", "mathbf", "boldsymbol", "bm", "mathcal", "mathscr", "mathfrak":
		return p.styled(name)
	case "mathrm", "operatorname", "mathit", "mathsf", "rm":
		return p.upright()
	case "text", "textbf", "textit", "textrm", "mbox", "hbox", "textnormal":
		return p.words()
	case "begin":
		return p.environment()
	case "sum", "prod":
		return p.bigOperator(name)
	case "overline", "bar", "hat", "widehat", "vec", "tilde", "widetilde", "dot", "underline", "overrightarrow":
		return p.accented(name)
	case "int", "iint", "oint", "frac{d}", "partial", "nabla", "lim":
		return p.fail(errParse)
	}
	if slices.Contains(functions, name) {
		return p.call(name)
	}
	if name == "" || !letterAt(name, 0) {
		return p.fail(errParse)
	}
	return p.subscripted(`\` + name) // a Greek letter or another named sign
}

// root reads \sqrt[n]{x} and \sqrt{x}.
func (p *parser) root() *node {
	p.blanks()
	if p.at < len(p.text) && p.text[p.at] == '[' {
		p.at++
		degree := p.sum()
		p.blanks()
		if !p.literal("]") {
			return p.fail(errParse)
		}
		return power(p.argument(true), operation(kindQuotient, integer(1), degree))
	}
	return squareRoot(p.argument(true))
}

func (p *parser) fence(name, closing string) *node {
	inner := p.sum()
	p.blanks()
	if !p.word(closing) {
		p.fail(errParse)
	}
	return function(name, inner)
}

// braces reads \{ … \}.
func (p *parser) braces() *node {
	p.at += 2
	brace, tuple := p.brace, p.tuple
	p.brace, p.tuple = true, true
	n := p.list(`\}`)
	p.brace, p.tuple = brace, tuple
	if !p.literal(`\}`) {
		return p.fail(errParse)
	}
	if n.kind == kindList || n.kind == kindSolutions {
		return n
	}
	return operation(kindList, n)
}

// rawArgument is the text of an argument in braces, or one character.
func (p *parser) rawArgument() string {
	p.blanks()
	if p.at >= len(p.text) {
		p.fail(errParse)
		return ""
	}
	if p.text[p.at] != '{' {
		_, n := command(p.text[p.at:])
		start := p.at
		p.at += max(n, 1)
		return p.text[start:p.at]
	}
	end := closingBrace(p.text, p.at)
	if end < 0 {
		p.fail(errParse)
		return ""
	}
	raw := p.text[p.at+1 : end]
	p.at = end + 1
	return raw
}

// styled reads \mathbb{R} and letters in other type, whose style is dropped.
func (p *parser) styled(style string) *node {
	raw := strings.TrimSpace(p.rawArgument())
	if style == "mathbb" && len(raw) == 1 && strings.Contains("RZQNC", raw) {
		p.setSuffix(&raw)
		return &node{kind: kindNamedSet, name: raw}
	}
	return p.subtext(raw)
}

// setSuffix takes the + of ℤ^+ into the name.
func (p *parser) setSuffix(name *string) {
	for _, suffix := range []struct{ written, name string }{
		{"^+", "+"}, {"^{+}", "+"}, {"_+", "+"}, {"_{+}", "+"}, {"_{>0}", "+"}, {"^*", "*"}, {"^{*}", "*"}, {"^-", "-"}, {"^{-}", "-"},
	} {
		if p.literal(suffix.written) {
			*name += suffix.name
			return
		}
	}
}

// subtext parses the text of an argument in place.
func (p *parser) subtext(raw string) *node {
	if !p.enter() {
		return nothing
	}
	defer p.leave()
	inner := &parser{text: raw, depth: p.depth, nodes: p.nodes, budget: p.budget}
	n := inner.list("")
	p.nodes = inner.nodes
	if inner.failed != nil {
		return p.fail(inner.failed)
	}
	return n
}

// upright reads \mathrm{…}: a function, a constant, or words.
func (p *parser) upright() *node {
	start := p.at
	raw := strings.TrimSpace(p.rawArgument())
	lower := strings.ToLower(raw)
	switch {
	case slices.Contains(functions, lower):
		return p.call(lower)
	case raw == "e" || raw == "i":
		return constant(raw)
	case len(raw) == 1 || strings.ContainsAny(raw, "0123456789\\") && !unitsOnly(raw):
		return p.subtext(raw)
	}
	p.at = start
	return p.words()
}

// words reads \text{…}. Words name a thing; numbers and formulas in them are
// read as such; a letter in brackets is the letter.
func (p *parser) words() *node {
	raw := strings.TrimSpace(p.rawArgument())
	raw = strings.TrimSpace(strings.Trim(raw, "$"))
	raw = strings.TrimSuffix(strings.TrimSuffix(raw, "."), ",")
	if raw == "" {
		return p.fail(errParse)
	}
	if strings.ContainsAny(raw, "0123456789\\") && !unitsOnly(raw) {
		return p.subtext(withoutCounted(raw))
	}
	if trimmed := strings.TrimSpace(strings.Trim(raw, "()")); trimmed != "" {
		raw = trimmed
	}
	return &node{kind: kindText, name: compact(raw)}
}

var (
	// counted is a number with the words for what it counts.
	counted = lazyregexp.New(`^([-+−]?[0-9][0-9.,/ ]*) +(?:\pL\pL+[ .]*)+$`)
	// valued are words that make another value of a number, or no value.
	valued = lazyregexp.New(`(?i)\b(?:or|and|to|than|more|less|plus|minus|times|over|pi|half|halves|thirds?|quarters?|dozens?|hundreds?|thousands?|[mbtr]+illions?|per ?cent\w*|pct|squared|cubed)\b`)
)

func withoutCounted(text string) string {
	if m := counted().FindStringSubmatch(text); m != nil && !valued().MatchString(text) {
		return m[1]
	}
	return text
}

// accented reads \overline{AB} as one symbol.
func (p *parser) accented(name string) *node {
	raw := compact(p.rawArgument())
	return p.subscripted(`\` + name + "{" + raw + "}")
}

// matrices are the environments that hold rows and columns.
var matrices = []string{"pmatrix", "bmatrix", "matrix", "vmatrix", "Bmatrix", "smallmatrix", "array"}

// environment reads \begin{pmatrix} … \end{pmatrix}.
func (p *parser) environment() *node {
	name := p.rawArgument()
	if !slices.Contains(matrices, strings.TrimSuffix(name, "*")) {
		return p.fail(errParse)
	}
	if name == "array" {
		p.rawArgument() // the columns' alignment
	}
	end := `\end{` + name + "}"
	length := strings.Index(p.text[p.at:], end)
	if length < 0 || strings.Contains(p.text[p.at:p.at+length], `\begin`) {
		return p.fail(errParse)
	}
	body := p.text[p.at : p.at+length]
	p.at += length + len(end)
	matrix := &node{kind: kindMatrix}
	for _, row := range strings.Split(strings.TrimSuffix(strings.TrimSpace(body), `\\`), `\\`) {
		cells := strings.Split(row, "&")
		if matrix.columns != 0 && len(cells) != matrix.columns {
			return p.fail(errParse)
		}
		matrix.columns = len(cells)
		for _, cell := range cells {
			if len(matrix.args) >= maxListItems {
				return p.fail(errBudget)
			}
			matrix.args = append(matrix.args, p.subtext(strings.TrimSpace(cell)))
		}
	}
	if name == "vmatrix" {
		return function("det", matrix)
	}
	return matrix
}

// bigOperator reads \sum_{i=1}^{n} f; its value is computed when the bounds
// are whole numbers.
func (p *parser) bigOperator(name string) *node {
	var variable *node
	lower, upper := (*node)(nil), (*node)(nil)
	for p.failed == nil {
		p.blanks()
		if p.literal("_") {
			from := p.argument(true)
			if from.kind != kindRelation || from.operators[0] != "=" || len(from.args) != 2 {
				return p.fail(errParse)
			}
			variable, lower = from.args[0], from.args[1]
			if variable.kind == kindConstant && variable.name == "i" {
				variable = &node{kind: kindSymbol, name: "i"}
			}
		} else if p.literal("^") {
			upper = p.argument(true)
		} else {
			break
		}
	}
	if p.failed != nil || variable == nil || variable.kind != kindSymbol || upper == nil {
		return p.fail(errParse)
	}
	body := p.term()
	if variable.name == "i" {
		body = replaceConstant(body, "i", variable)
	}
	return function(name, variable, lower, upper, body)
}

// replaceConstant makes a bound variable of the letter that else is a
// constant.
func replaceConstant(n *node, name string, with *node) *node {
	if n.kind == kindConstant && n.name == name {
		return with
	}
	return n.mapped(func(a *node) *node { return replaceConstant(a, name, with) })
}

// one is the number 1.
var one = big.NewRat(1, 1)

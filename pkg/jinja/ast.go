package jinja

// expression is a node of an expression's tree.
type expression interface{ where() int }

// at is the line that a node is on.
type at int

func (a at) where() int { return int(a) }

type (
	constant struct {
		at
		value Value
	}
	name struct {
		at
		name string
	}
	sequenceLiteral struct {
		at
		kind  sequenceKind
		items []expression
	}
	dictLiteral struct {
		at
		keys, values []expression
	}
	attribute struct {
		at
		of   expression
		name string
	}
	item struct {
		at
		of, key expression
	}
	sliced struct {
		at
		of                expression
		start, stop, step expression // nil when left out
	}
	arguments struct {
		positional []expression
		names      []string
		named      []expression
	}
	call struct {
		at
		of expression
		arguments
	}
	filtered struct {
		at
		of   expression // nil at the start of a filter block
		name string
		arguments
	}
	tested struct {
		at
		of   expression
		name string
		arguments
	}
	conditional struct {
		at
		test, then, otherwise expression // otherwise nil: undefined
	}
	unary struct {
		at
		operator string // - + not
		of       expression
	}
	binary struct {
		at
		operator    string // arithmetic; "and", "or"
		left, right expression
	}
	concatenation struct {
		at
		parts []expression // joined by ~
	}
	comparison struct {
		at
		first     expression
		operators []string // == != < <= > >= in "not in"
		operands  []expression
	}
)

// statement is a node of a template's tree.
type statement interface{ where() int }

type (
	textStatement struct {
		at
		text string
	}
	outputStatement struct {
		at
		value expression
	}
	ifStatement struct {
		at
		tests     []expression
		bodies    [][]statement
		otherwise []statement
	}
	forStatement struct {
		at
		target    *target
		over      expression
		filter    expression // nil for none
		body      []statement
		otherwise []statement
	}
	setStatement struct {
		at
		target *target
		value  expression
	}
	// captureStatement is a set or filter block.
	captureStatement struct {
		at
		target *target     // nil: written out
		filter *filtered   // outermost; nil for none
		inner  *filtered   // innermost: the one whose subject is the captured text
		body   []statement // rendered apart
	}
	withStatement struct {
		at
		targets []*target
		values  []expression
		body    []statement
	}
	macroStatement struct {
		at
		macro *macroDefinition
	}
	callStatement struct {
		at
		call   *call
		caller *macroDefinition
	}
	generationStatement struct {
		at
		body []statement
	}
	loopControl struct {
		at
		keyword string // break or continue
	}
)

// target is what is assigned to: a name, an attribute of a namespace, or a
// tuple of targets.
type target struct {
	name      string
	attribute string // of the namespace called name; "" for none
	several   []*target
}

type macroDefinition struct {
	name       string
	parameters []string
	defaults   []expression // nil where there is none
	body       []statement
}

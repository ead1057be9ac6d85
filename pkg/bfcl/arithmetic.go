package bfcl

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// arithmetic is MathAPI. It has no state.
type arithmetic struct{}

func (arithmetic) attributes() *python.Dict { return &python.Dict{} }

var mathClass = define("MathAPI", func(*python.Dict) arithmetic { return arithmetic{} }, []method[arithmetic]{
	{"logarithm(value, base, precision)", arithmetic.logarithm},
	{"mean(numbers)", arithmetic.mean},
	{"standard_deviation(numbers)", arithmetic.deviation},
	{"si_unit_conversion(value, unit_in, unit_out)", arithmetic.siUnits},
	{"imperial_si_conversion(value, unit_in, unit_out)", arithmetic.imperialUnits},
	{"add(a, b)", operation('+')},
	{"subtract(a, b)", operation('-')},
	{"multiply(a, b)", operation('*')},
	{"divide(a, b)", operation('/')},
	{"power(base, exponent)", arithmetic.power},
	{"square_root(number, precision)", arithmetic.squareRoot},
	{"absolute_value(number)", arithmetic.absolute},
	{"round_number(number, decimal_places=0)", arithmetic.round},
	{"percentage(part, whole)", arithmetic.percentage},
	{"min_value(numbers)", func(_ arithmetic, a arguments) python.Value { return extreme(a, less) }},
	{"max_value(numbers)", func(_ arithmetic, a arguments) python.Value {
		return extreme(a, func(x, y python.Value) bool { return less(y, x) })
	}},
	{"sum_values(numbers)", arithmetic.sum},
})

func apply(o python.Operator, a, b python.Value) python.Value { return must(o.Apply(a, b)) }

// computed is the result of a computation, or its error.
func computed[T python.Value](value T, err error) python.Value {
	refuseIf(err != nil, failed("%v", err))
	return result("result", value)
}

func operation(o python.Operator) func(arithmetic, arguments) python.Value {
	return func(_ arithmetic, a arguments) python.Value { return computed(o.Apply(a[0], a[1])) }
}

// digits is an argument that must be a whole number.
func (a arguments) digits(i int) int64 {
	n, ok := a[i].(int64)
	if !ok {
		raise("argument %d must be an int, not %s", i+1, python.TypeName(a[i]))
	}
	return n
}

func (arithmetic) logarithm(a arguments) python.Value {
	return computed(python.Logarithm(a[0], a[1], a.digits(2)))
}

func (arithmetic) squareRoot(a arguments) python.Value {
	return computed(python.SquareRoot(a[0], a.digits(1)))
}

func (arithmetic) power(a arguments) python.Value { return computed(python.Power(a[0], a[1])) }

func (arithmetic) round(a arguments) python.Value {
	return computed(python.Round(a[0], a.digits(1)))
}

func (arithmetic) absolute(a arguments) python.Value {
	if f, ok := a.number(0).(float64); ok {
		return result("result", math.Abs(f))
	}
	if less(a[0], int64(0)) {
		return computed(python.Operator('-').Apply(int64(0), a[0]))
	}
	return computed(python.Operator('+').Apply(int64(0), a[0]))
}

func (arithmetic) percentage(a arguments) python.Value {
	quotient, err := python.Operator('/').Apply(a[0], a[1])
	refuseIf(err != nil, failed("%v", err))
	return computed(python.Operator('*').Apply(quotient, int64(100)))
}

// total adds from the left on, as sum of whole numbers and floats does.
func total(numbers *python.List) python.Value {
	var sum python.Value = int64(0)
	for _, number := range numbers.Items {
		sum = apply('+', sum, number)
	}
	return sum
}

// some is an argument that must be a list with at least one number.
func (a arguments) some(i int) *python.List {
	numbers := a.list(i)
	refuseIf(len(numbers.Items) == 0, failed("Cannot calculate with an empty list"))
	return numbers
}

func (arithmetic) sum(a arguments) python.Value {
	numbers := a.some(0)
	return result("result", total(numbers))
}

func average(numbers *python.List) python.Value {
	return apply('/', total(numbers), int64(len(numbers.Items)))
}

func (arithmetic) mean(a arguments) python.Value {
	numbers := a.some(0)
	return result("result", average(numbers))
}

// deviation is the standard deviation of a whole population.
func (arithmetic) deviation(a arguments) python.Value {
	numbers := a.some(0)
	mean := average(numbers)
	squares := python.NewList()
	for _, number := range numbers.Items {
		off := apply('-', number, mean)
		squares.Items = append(squares.Items, apply('*', off, off))
	}
	return result("result", math.Sqrt(must(python.Float(average(squares)))))
}

// extreme finds the first number that no other comes before.
func extreme(a arguments, before func(x, y python.Value) bool) python.Value {
	numbers := a.some(0)
	found := numbers.Items[0]
	for _, number := range numbers.Items {
		if before(number, found) {
			found = number
		}
	}
	return result("result", found)
}

func (arithmetic) siUnits(a arguments) python.Value {
	metres := table[*python.Dict]("MathAPI", "si_factors_to_metre")
	in, known := metres.Get(a.text(1))
	out, alsoKnown := metres.Get(a.text(2))
	refuseIf(!known || !alsoKnown, failed("Conversion from '%s' to '%s' is not supported.", a.text(1), a.text(2)))
	return result("result", apply('/', apply('*', a.number(0), in), out))
}

func (arithmetic) imperialUnits(a arguments) python.Value {
	in, out := a.text(1), a.text(2)
	if in == out {
		return result("result", a.number(0))
	}
	factor := lookup(table[*python.Dict]("MathAPI", "imperial_conversion"), in+"_to_"+out, failed("Conversion from '%s' to '%s' is not supported.", in, out))
	const freezing = int64(32) // degrees Fahrenheit
	switch in {
	case "celsius":
		return result("result", apply('+', apply('*', a.number(0), factor), freezing))
	case "fahrenheit":
		return result("result", apply('*', apply('-', a.number(0), freezing), factor))
	}
	return result("result", apply('*', a.number(0), factor))
}

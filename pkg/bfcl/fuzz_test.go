package bfcl

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// candidates are arguments of every type, some that the default states know.
func candidates() []python.Value {
	return []python.Value{
		nil, true, false, int64(0), int64(1), int64(-1), int64(2), int64(5), int64(12446), int64(math.MaxInt64), int64(math.MinInt64),
		new(big.Int).Lsh(big.NewInt(1), 70), 0.0, 0.5, 1.0, -2.5, 1e308, 5e-324, math.Inf(1), math.NaN(),
		"", ".", "..", "/", "a", "b", "a/b", "a\nb", "é\u2028", "on", "engage", "START", "fuel", "l", "driver", "celsius", "fahrenheit", "auto", "km", "m", "ft", "USD", "EUR",
		"USR001", "USR002", "Bob", "john", "john123", "AAPL", "NVDA", "Buy", "Technology", "251675", "262919693687", "3426812", "LAX", "SFO", "economy", "2026-11-10", "94016", "83214",
		python.NewList(), python.Strings("a", "AAPL", "driver"), python.NewList(int64(1), 2.5, int64(3)), python.NewList(nil, "x"),
		&python.Dict{}, python.NewDict("title", "t", "priority", int64(3)), python.NewDict(int64(1), python.NewList()),
	}
}

// calls reads bytes as calls of the functions of a class.
func calls(c *class, program []byte) []Call {
	names, values := slices.Sorted(maps.Keys(c.functions)), candidates()
	next := func() int {
		if len(program) == 0 {
			return 0
		}
		b := program[0]
		program = program[1:]
		return int(b)
	}
	var made []Call
	for len(program) > 0 && len(made) < 200 {
		f := c.functions[names[next()%len(names)]]
		call := Call{Name: f.name, Named: &python.Dict{}}
		for _, p := range f.parameters {
			if b := next(); b < 250 || !p.optional {
				call.Named.Set(p.name, values[b%len(values)])
			}
		}
		made = append(made, call)
	}
	return made
}

// fuzzClass looks for calls that panic, or whose results and state depend on
// anything but the calls before them.
func fuzzClass(f *testing.F, name string) {
	c := classes[name]
	all := make([]byte, 0, 512)
	for i := range len(c.functions) {
		all = append(all, byte(i), byte(3*i+20), byte(5*i+24), byte(7*i+3), byte(i+50), byte(i+40), byte(i+60), byte(i))
	}
	f.Add(all)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, program []byte) {
		task := Task{ID: "fuzzed", Classes: []string{name}, config: &python.Dict{}}
		task.Truth = [][]Call{calls(c, program)}
		first, err := task.Simulator()
		if err != nil {
			t.Fatal(err)
		}
		second, err := task.Simulator()
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range task.Truth[0] {
			if a, b := first.Execute(call), second.Execute(call); a != b {
				t.Fatalf("%s%s gave %v and %v", call.Name, python.Repr(call.Named), a, b)
			}
		}
		// The texts are compared, as NaN is unequal to itself.
		if a, b := python.Repr(first.describe()), python.Repr(second.describe()); a != b {
			t.Fatalf("the same calls led to two states:\n%s\n%s", a, b)
		}
		verdict, err := Check(task, task.Truth)
		if err != nil {
			t.Fatal(err)
		}
		if verdict.ErrorType == ResponseMismatch || verdict.ErrorType == EmptyTurn {
			t.Fatalf("the reference itself got %+v", verdict)
		}
	})
}

func FuzzGorillaFileSystem(f *testing.F) { fuzzClass(f, "GorillaFileSystem") }
func FuzzMathAPI(f *testing.F)           { fuzzClass(f, "MathAPI") }
func FuzzMessageAPI(f *testing.F)        { fuzzClass(f, "MessageAPI") }
func FuzzTicketAPI(f *testing.F)         { fuzzClass(f, "TicketAPI") }
func FuzzTwitterAPI(f *testing.F)        { fuzzClass(f, "TwitterAPI") }
func FuzzTradingBot(f *testing.F)        { fuzzClass(f, "TradingBot") }
func FuzzTravelAPI(f *testing.F)         { fuzzClass(f, "TravelAPI") }
func FuzzVehicleControlAPI(f *testing.F) { fuzzClass(f, "VehicleControlAPI") }

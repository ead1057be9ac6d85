package python

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goldenValues is testdata/values.json, made by testdata/make_values.py.
type goldenValues struct {
	Calls []struct {
		Call, Name, Positional, Named, JSON string
	}
	Wrong      []string
	Rounds     [][3]json.RawMessage
	Roots      [][3]json.RawMessage
	Logarithms [][4]json.RawMessage
	Operations [][4]string
	Floats     []string
}

func golden(t *testing.T) goldenValues {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "values.json"))
	if err != nil {
		t.Fatal(err)
	}
	var values goldenValues
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// literal reads a value as Python writes it.
func literal(t *testing.T, text string) Value {
	t.Helper()
	call, err := ParseCall("f(" + text + ")")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return call.Positional[0]
}

// decode reads one column of a row of the golden values.
func decode[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestParseCallReadsWhatPythonReads(t *testing.T) {
	t.Parallel()
	for _, c := range golden(t).Calls {
		call, err := ParseCall(c.Call)
		if err != nil {
			t.Errorf("%s: %v", c.Call, err)
			continue
		}
		text, _ := JSON(call.Named)
		positional, named := Repr(&List{Items: call.Positional}), Repr(call.Named)
		if call.Name != c.Name || positional != c.Positional || named != c.Named || text != c.JSON {
			t.Errorf("%s:\n got %s %s %s %s\nwant %s %s %s %s", c.Call, call.Name, positional, named, text, c.Name, c.Positional, c.Named, c.JSON)
		}
	}
}

func TestParseCallRefuses(t *testing.T) {
	t.Parallel()
	wrong := append(golden(t).Wrong, "f("+strings.Repeat("[", 200)+strings.Repeat("]", 200)+")", "f('\xff')", `f('\q')`)
	for _, text := range wrong {
		if call, err := ParseCall(text); err == nil || !strings.HasPrefix(err.Error(), "parsing the call at byte ") {
			t.Errorf("%s: read as %s%s%s, %v; want an error with its place", text, call.Name, Repr(&List{Items: call.Positional}), Repr(call.Named), err)
		}
	}
}

func TestNumbersAreThoseOfPython(t *testing.T) {
	t.Parallel()
	values := golden(t)
	for _, text := range values.Floats {
		if got := Repr(literal(t, text)); got != text {
			t.Errorf("repr(%s) is %s", text, got)
		}
	}
	for _, row := range values.Operations {
		value, err := Operator(row[1][0]).Apply(literal(t, row[0]), literal(t, row[2]))
		got := "error" // of Python: the one kind that these have
		if err == nil {
			got = Repr(value)
		} else if !errors.Is(err, ErrDivisionByZero) {
			got = err.Error()
		}
		if got != row[3] {
			t.Errorf("%s %s %s is %s, want %s", row[0], row[1], row[2], got, row[3])
		}
	}
	for _, row := range values.Rounds {
		value, places, want := decode[string](t, row[0]), decode[int64](t, row[1]), decode[string](t, row[2])
		got, err := Round(literal(t, value), places)
		if err != nil || Repr(got) != want {
			t.Errorf("round(%s, %d) is %s (%v), want %s", value, places, Repr(got), err, want)
		}
	}
	for _, row := range values.Roots {
		value, digits, want := decode[string](t, row[0]), decode[int64](t, row[1]), decode[string](t, row[2])
		got, err := SquareRoot(literal(t, value), digits)
		if err != nil || string(got) != want {
			t.Errorf("Decimal(%s).sqrt() with %d digits is %s (%v), want %s", value, digits, got, err, want)
		}
	}
	for _, row := range values.Logarithms {
		value, base := decode[string](t, row[0]), decode[string](t, row[1])
		digits, want := decode[int64](t, row[2]), decode[string](t, row[3])
		got, err := Logarithm(literal(t, value), literal(t, base), digits)
		if err != nil || string(got) != want {
			t.Errorf("log(%s)/log(%s) with %d digits is %s (%v), want %s", value, base, digits, got, err, want)
		}
	}
}

func TestPower(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, exponent, want string }{
		{"2", "10", "1024"},
		{"2", "-1", "0.5"},
		{"2.0", "0.5", "1.4142135623730951"},
		{"-2", "3", "-8"},
		{"0", "0", "1"},
		{"1", "99999999999999999999", "1"},
		{"-1", "99999999999999999999", "-1"},
		{"-1", "99999999999999999998", "1"},
		{"0", "5", "0"},
		{"10", "20", "100000000000000000000"},
		{"0", "-1", "0.0 cannot be raised to a negative power"},
		{"-8", "0.5", "the power of a negative number with a fractional exponent is not real"},
		{"9", "999999999", ErrTooLarge.Error()},
		{"10.0", "400", "(34, 'Numerical result out of range')"},
		{"2", "14284", ""},
		{"2", "99999999999999999999", ErrTooLarge.Error()},
		{"3", "33.333", "8014617190315309.0"}, // as CPython has it: the last digits too
		{"33.333", "20", "2.8673984508824786e+30"},
		{"-33.333", "21", "-9.557899256326566e+31"},
	} {
		got := ""
		if value, err := Power(literal(t, c.base), literal(t, c.exponent)); err != nil {
			got = err.Error()
		} else {
			got = Repr(value)
		}
		if c.want != "" && got != c.want {
			t.Errorf("%s ** %s is %s, want %s", c.base, c.exponent, got, c.want)
		}
		if c.want == "" && len(got) != 4300 {
			t.Errorf("%s ** %s has %d digits, want 4300", c.base, c.exponent, len(got))
		}
	}
}

// Equality counts values and not types, as Python's does: 1 == 1.0 == True.
func TestEqual(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b             string
		equal, arguments bool
	}{
		{"1", "1.0", true, true},
		{"1", "True", true, true},
		{"0", "False", true, true},
		{"0", "None", false, false},
		{"''", "None", false, false},
		{"'1'", "1", false, false},
		{"[1, 2]", "[2, 1]", false, false},
		{"[1]", "(1,)", false, true},
		{"{'a': [1]}", "{'a': (1.0,)}", false, true},
		{"{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", true, true},
		{"{1: 'x'}", "{1.0: 'x'}", true, true},
		{"{1: 'x'}", "{'1': 'x'}", false, false},
		{"9007199254740993", "9007199254740992.0", false, false},
		{"1e400", "1e500", true, true},
		{"18446744073709551616", "18446744073709551616.0", true, true},
		{"[]", "{}", false, false},
		{"{'a': 1}", "{'b': 1}", false, false},
		{"[1]", "[1, 2]", false, false},
	} {
		a, b := literal(t, c.a), literal(t, c.b)
		if Equal(a, b) != c.equal || Equal(b, a) != c.equal {
			t.Errorf("%s == %s is %v, want %v", c.a, c.b, !c.equal, c.equal)
		}
		if EqualArguments(a, b) != c.arguments || EqualArguments(b, a) != c.arguments {
			t.Errorf("%s and %s as arguments: equal is %v, want %v", c.a, c.b, !c.arguments, c.arguments)
		}
	}
}

func TestDictKeepsItsOrder(t *testing.T) {
	t.Parallel()
	d := NewDict("a", int64(1), int64(2), "b", true, "c", "d", nil)
	d.Delete("a")
	d.Set(2.0, "B") // the same key as 2
	d.Delete("nothing")
	d.Set("a", int64(9))
	if got, want := Repr(d), "{2: 'B', True: 'c', 'd': None, 'a': 9}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, found := d.Get(int64(1)); !found || got != "c" {
		t.Errorf("d[1] is %v, want 'c'", got)
	}
}

// json.dumps knows no sets; str writes them.
func TestWhatJSONRefuses(t *testing.T) {
	t.Parallel()
	set := &Set{}
	set.Add(7)
	set.Add(3)
	d := NewDict("result", set)
	if text, ok := JSON(d); ok {
		t.Errorf("json.dumps gave %s", text)
	}
	if got, want := String(d), "{'result': {3, 7}}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCallFromJSON(t *testing.T) {
	t.Parallel()
	var call Call
	if err := json.Unmarshal([]byte(`{"name":"f","args":{"b":1.0,"a":[1,{"x":null}],"b":2}}`), &call); err != nil {
		t.Fatal(err)
	}
	if got, want := call.Name+Repr(call.Named), "f{'b': 2, 'a': [1, {'x': None}]}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for wrong, want := range map[string]string{
		`[]`: "not a list", `{}`: "has no name", `{"name":1}`: "has no name", `{"name":"f","args":[]}`: "the args of a call are a JSON object",
		`{"name":"f","args":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`: errTooDeep.Error(),
	} {
		if err := json.Unmarshal([]byte(wrong), &call); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", wrong, err, want)
		}
	}
}

// The vectors are CPython's, recorded for the seeds that BFCL uses.
func TestRandomIsThatOfCPython(t *testing.T) {
	t.Parallel()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "..", "..", "shared")
	}
	text, err := os.ReadFile(filepath.Join(shared, "data", "bfcl", "python_random_vectors.json"))
	if err != nil {
		t.Skip("set LATHE_SHARED to the folder that holds data/bfcl")
	}
	var vectors []struct {
		Seed    uint64
		Bits    []uint64 `json:"getrandbits32"`
		Random  []float64
		RandInt []struct {
			Lo, Hi int64
			Values []int64
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		r := NewRandom(v.Seed)
		for i, want := range v.Bits {
			if got := r.Bits(32); got != want {
				t.Fatalf("seed %d: getrandbits(32) number %d is %d, want %d", v.Seed, i, got, want)
			}
		}
		r = NewRandom(v.Seed)
		for i, want := range v.Random {
			if got := r.Float(); got != want {
				t.Fatalf("seed %d: random() number %d is %v, want %v", v.Seed, i, got, want)
			}
		}
		for _, c := range v.RandInt {
			r = NewRandom(v.Seed)
			for i, want := range c.Values {
				if got := r.Between(c.Lo, c.Hi); got != want {
					t.Fatalf("seed %d: randint(%d, %d) number %d is %d, want %d", v.Seed, c.Lo, c.Hi, i, got, want)
				}
			}
		}
	}
}

// Seeds of one and of two words, and a second filling of the state, as
// CPython 3.11 has them.
func TestRandomSeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seed       uint64
		bits, tail uint64
	}{
		{0, 7106521602475165645, 26},
		{5489, 4106915759804964916, 30},
		{1099511627783, 13785699202830676186, 5},
		{18446744073709551615, 4589153898531806846, 7},
	} {
		r := NewRandom(c.seed)
		if got := r.Bits(64); got != c.bits {
			t.Errorf("seed %d: getrandbits(64) is %d, want %d", c.seed, got, c.bits)
		}
		for range 2000 {
			r.Bits(32)
		}
		if got := r.Bits(5); got != c.tail {
			t.Errorf("seed %d: getrandbits(5) after 2000 more words is %d, want %d", c.seed, got, c.tail)
		}
	}
	r := NewRandom(1)
	if got, want := r.Uniform(-10, 40), -3.281787794379939; got != want {
		t.Errorf("uniform(-10, 40) is %v, want %v", got, want)
	}
}

// What is read can be written and read again, and is the same.
func FuzzParseCall(f *testing.F) {
	for _, seed := range []string{
		"f()", "cd('archives')", "f(x=[1, -2.5e3, None], y={'a': (1,), 2: True})", `f('it\'s', "\u00e9")`, "f('''a\nb''')", "f((1, 2), .5, 1_0)", "f(", "f(x=1, x=2)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		call, err := ParseCall(text)
		if err != nil {
			return
		}
		written := make([]string, 0, len(call.Positional))
		for _, value := range call.Positional {
			written = append(written, Repr(value))
		}
		for i := range call.Named.Len() {
			name, value := call.Named.At(i)
			written = append(written, name.(string)+"="+Repr(value))
		}
		again := call.Name + "(" + strings.Join(written, ", ") + ")"
		if strings.Contains(again, "inf") {
			return // Python has no literal for it
		}
		second, err := ParseCall(again)
		if err != nil {
			t.Fatalf("%q was read, %q was not: %v", text, again, err)
		}
		if !Equal(&List{Items: call.Positional}, &List{Items: second.Positional}) || !Equal(call.Named, second.Named) {
			t.Fatalf("%q and %q differ", text, again)
		}
		if encoded, ok := JSON(call.Named); ok {
			if _, err := FromJSON([]byte(encoded)); err != nil {
				t.Fatalf("%s: %v", encoded, err)
			}
		}
	})
}

package pysource

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// similarity is that of two programs.
func similarity(t *testing.T, python Interpreter, a, b string) float64 {
	t.Helper()
	prints, err := python.Fingerprints(t.Context(), []string{a, b})
	if err != nil {
		t.Fatal(err)
	}
	return Similarity(prints[0], prints[1])
}

// TestSimilarityByHand: x = 1 is Module(Assign(Name, Constant int)). Its shapes are
// the module alone, with the assignment, and with that and its parts: 3; the
// assignment alone and with its parts: 2; the name and the number: 2; 7 in all.
func TestSimilarityByHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, other string
		want        float64
	}{
		{"itself", "x = 1\n", 1},
		{"another name and number, as a type says too", "'doc'\ny: int = 20  # y\n", 1},
		// A text in place of the number leaves the module alone, the module with an
		// assignment, the assignment alone, the name: 4 of 7 and 7.
		{"a text", "x = 'a'\n", 2 * 4. / (7 + 7)},
		// Two statements: Module 3; Assign alone twice; Assign(x, int), Assign(x, y);
		// three names, a number: 11. Common are Module alone, Assign alone once,
		// Assign(x, int), a name, a number: 5.
		{"a second statement", "x = 1\ny = x\n", 2 * 5. / (7 + 11)},
		// Module(Import(alias os)): 3, 2, 1. Only Module alone is common.
		{"another program", "import os\n", 2 * 1. / (7 + 6)},
		// Module alone.
		{"nothing", "", 2 * 1. / (7 + 1)},
		{"what does not parse", "x = = 1\n", 0},
	} {
		for _, python := range pythons(t) {
			if got := similarity(t, python, "x = 1\n", c.other); math.Abs(got-c.want) > 1e-15 {
				t.Errorf("%s: %s: got %v, want %v", python.Path, c.what, got, c.want)
			}
		}
	}
}

// TestNormalised: what does not change a fingerprint, and what does.
func TestNormalised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, a, b string
		same       bool
	}{
		{"renamed", "def f(a, *b, c=1, **d):\n    return a\nx = f(1, c=2)\n", "def g(h, *i, j=1, **k):\n    return h\ny = g(1, j=2)\n", true},
		{"renamed inside", "try:\n    global a\n    a = 1\nexcept E as e:\n    print(e)\nfor i in a: del i\n", "try:\n    global b\n    b = 1\nexcept E as f:\n    print(f)\nfor j in b: del j\n", true},
		{"an alias", "import pandas as pd\npd.read_csv('a')\n", "import pandas\npandas.read_csv('b')\n", true},
		{"an alias from", "from a.b import c as d\nd()\n", "from a.b import c\nc()\n", true},
		{"hints of types", "def f(a: int, b: str = 'x') -> None:\n    c: int\n    d: int = 1\n", "def f(a, b='y'):\n    d = 2\n", true},
		{"docstrings", "def f():\n    'says'\nclass C:\n    'says'\n", "def f():\n    pass\nclass C:\n    pass\n", true},
		{"numbers", "x = [1, 2.5, 'a', b'c', 1j]\n", "x = [7, 0.5, 'b', b'd', 2j]\n", true},
		{"true and false", "x = True\n", "x = False\n", false},
		{"none", "x = None\n", "x = ...\n", false},
		{"two names for one", "x = a + a\na = 1\n", "x = a + b\na = b = 1\n", false},
		{"what was imported", "from a import B\nB()\n", "from a import C\nC()\n", false},
		{"what nobody defines", "len(1)\n", "str(1)\n", false},
		{"attributes", "x.fit()\n", "x.predict()\n", false},
		{"methods", "class C:\n    def fit(self): pass\n", "class C:\n    def predict(self): pass\n", false},
		{"keywords", "f(depth=1)\n", "f(rate=1)\n", false},
		{"operators", "x + 1\n", "x - 1\n", false},
		{"order", "f(1)\nx = 1\ndel y\n", "del y\nx = 1\nf(1)\n", false},
		{"subscripts", "x[1:2, 3]\n", "x[1:2]\n", false},
	} {
		for _, python := range pythons(t) {
			if got := similarity(t, python, c.a, c.b); (got == 1) != c.same {
				t.Errorf("%s: %s: %v", python.Path, c.what, got)
			}
		}
	}
}

// TestSolutions: three solutions of one competition, and changes to the first. A
// threshold of 0.9 keeps the solutions apart, and takes for one what differs in
// names, numbers or a line.
func TestSolutions(t *testing.T) {
	t.Parallel()
	forest, boosting, network := read(t, "pizza.py"), read(t, "pizza_boosting.py"), read(t, "pizza_torch.py")
	renamed := strings.NewReplacer("train_data", "tr", "rf_classifier", "clf", "as pd", "as p", "pd.", "p.", "submission =", "out =", "submission.to", "out.to").Replace(forest)
	for _, python := range pythons(t) {
		for _, c := range []struct {
			what, a, b string
			low, high  float64
		}{
			{"itself", forest, forest, 1, 1},
			{"renamed", forest, renamed, 1, 1},
			{"other numbers", forest, strings.ReplaceAll(forest, "100", "500"), 1, 1},
			{"a line more", forest, strings.Replace(forest, "# Preprocess", "root = '/data'\n#", 1), .9, .999},
			{"boosting", forest, boosting, 0, .6},
			{"a network", forest, network, 0, .4},
			{"a network and boosting", network, boosting, 0, .5},
		} {
			if got := similarity(t, python, c.a, c.b); got < c.low || got > c.high {
				t.Errorf("%s: %s: got %v, want %v to %v", python.Path, c.what, got, c.low, c.high)
			}
		}
	}
}

// TestVersionsAgree: whichever Python parses, the numbers are the same.
func TestVersionsAgree(t *testing.T) {
	t.Parallel()
	sources := []string{
		read(t, "pizza.py"), read(t, "pizza_boosting.py"), read(t, "pizza_torch.py"), "",
		"x[1], x[1:2], x[1:2, 3], x[...], x[a:b:c]\nf'{a}b{c!r:>{d}}' f'' 'e' f'{a:}'\nu'a' b'c'\n@f\nasync def g(a, /, b, *, c): await a\n(y := 5)\nlambda *a, **k: -1\n",
	}
	var want []Fingerprint
	for _, python := range pythons(t) {
		got, err := python.Fingerprints(t.Context(), sources)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs:\n%s", python.Path, diff)
		}
	}
}

func drawFingerprint(t *rapid.T, label string) Fingerprint {
	var f Fingerprint
	for _, h := range rapid.SliceOfNDistinct(rapid.Uint64Range(0, 30), 0, 12, rapid.ID).Draw(t, label) {
		f = append(f, Shape{h, uint32(rapid.IntRange(1, 4).Draw(t, "count"))})
	}
	slices.SortFunc(f, func(a, b Shape) int { return int(a.Hash) - int(b.Hash) })
	return f
}

// TestSimilarityProperties: in [0, 1], the same both ways, 1 for what is not empty
// and itself alone.
func TestSimilarityProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawFingerprint(t, "a"), drawFingerprint(t, "b")
		s := Similarity(a, b)
		if s < 0 || s > 1 || s != Similarity(b, a) || (s == 1) != (len(a) > 0 && slices.Equal(a, b)) {
			t.Fatalf("%v of %v and %v", s, a, b)
		}
		text, err := json.Marshal(a)
		var back Fingerprint
		if err != nil || json.Unmarshal(text, &back) != nil || !slices.Equal(a, back) {
			t.Fatalf("%v becomes %s and %v: %v", a, text, back, err)
		}
	})
}

// FuzzFingerprint: what can be read is a fingerprint, and is written as it was.
func FuzzFingerprint(f *testing.F) {
	f.Add("")
	f.Add("AAAAAAAAAAEB")
	f.Add("AAAAAAAAAAEBAAAAAAAAAAAB")
	f.Fuzz(func(t *testing.T, text string) {
		var read Fingerprint
		if read.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := read.check(); err != nil {
			t.Fatal(err)
		}
		if back, err := read.MarshalText(); err != nil || string(back) != text {
			t.Fatalf("%q becomes %q: %v", text, back, err)
		}
	})
}

// TestBadFingerprints: each is refused.
func TestBadFingerprints(t *testing.T) {
	t.Parallel()
	for what, text := range map[string]string{
		"no base64": "%", "padding": "AAAAAAAAAAEB==", "cut off": "AAAAAAAAAAE", "no count": "AAAAAAAAAAEA",
		"two of one hash": "AAAAAAAAAAEBAAAAAAAAAAEB", "a count in two bytes that is one": "AAAAAAAAAAGBAA", "an end of a line": "AAAAAAAAAAEB\n",
	} {
		if err := new(Fingerprint).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s is read", what)
		}
	}
}

// TestMilestones: each once, in order, as they are written.
func TestMilestones(t *testing.T) {
	t.Parallel()
	for output, want := range map[string][]string{
		"": nil,
		"trained model\nloaded data\nloaded data\n":          {"loaded data", "trained model"},
		"xloaded data, training loss: 0.5; training loss\n":  {"loaded data", "training loss:"},
		"Loaded data\nloaded\ndata\nimported  packages\n":    nil,
		strings.Join(Statements, "\n"):                       Statements,
		"predicted test labels\ntesting loss:\nloss:tested ": {"testing loss:", "predicted test labels"},
	} {
		if got := Milestones(output); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
}

// FuzzMilestones: no output has more than there are, and more output has no less.
func FuzzMilestones(f *testing.F) {
	f.Add("imported packages", "loaded data")
	f.Fuzz(func(t *testing.T, a, b string) {
		whole := Milestones(a + b)
		for _, m := range append(Milestones(a), Milestones(b)...) {
			if !slices.Contains(whole, m) {
				t.Fatalf("%q of %q or %q is not in both", m, a, b)
			}
		}
	})
}

package pysource

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// instrument writes each inserted line with its number's text in the program, and
// leaves the original's lines out.
func prints(in Instrumented) []string {
	lines := splitLines(in.Text)
	var out []string
	for _, p := range in.Prints {
		before := ""
		if p.Line > 1 {
			before = strings.TrimSpace(lines[p.Line-2])
		}
		out = append(out, before+" | "+strings.TrimRight(lines[p.Line-1], "\r\n"))
	}
	return out
}

// TestPaperExample: the program of RL-MLE Fig. 11 (RL-MLE App. D.5.1) gets the five prints of
// RL-MLE Fig. 12, each behind the same statement.
func TestPaperExample(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("testdata/pizza.py")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`import numpy as np | print("imported packages")`,
		`test_data = pd.read_json("/workdir/random-acts-of-pizza/prepared/public/test.json") | print("loaded data")`,
		`rf_classifier = RandomForestClassifier(n_estimators=100, random_state=42) | print("defined model")`,
		`rf_classifier.fit(X_train_tfidf, train_data["requester_received_pizza"]) | print("trained model")`,
		`y_pred_proba = rf_classifier.predict_proba(X_test_tfidf)[:, 1] | print("predicted test labels")`,
	}
	for _, python := range pythons(t) {
		got, err := python.Instrument(t.Context(), []string{string(program)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, prints(got[0])); diff != "" || withoutPrints(t, got[0]) != string(program) {
			t.Errorf("%s:\n%s", python.Path, diff)
		}
	}
}

// TestPlaces: where prints go, and where none may. A line of want is the line
// before a print, and the print with its indentation.
func TestPlaces(t *testing.T) {
	t.Parallel()
	cases := []struct {
		what, program string
		want          []string
	}{
		{"the future alone is no package", "from __future__ import annotations\nx = 1\n", nil},
		{"behind the future", "'doc'\nfrom __future__ import annotations\nimport os\nx = 1\n", []string{`import os | print("imported packages")`}},
		{"imports that may fail", "import os\ntry:\n    import xgboost\nexcept ImportError:\n    xgboost = None\n", []string{
			`xgboost = None | print("imported packages")`,
		}},
		{"imports inside are not the top level's", "import os\ndef f():\n    import re\n", []string{`import os | print("imported packages")`}},
		{"no end of the last line", "import os", []string{`import os | print("imported packages")`}},
		{"other ends of lines", "import os\r\nimport re\r\n", []string{`import re | print("imported packages")`}},
		{"semicolons", "import os; import re\nx = 1\n", []string{`import os; import re | print("imported packages")`}},
		{"a semicolon that ends", "import os;  # all\nx = 1\n", []string{`import os;  # all | print("imported packages")`}},
		{"a line that goes on", "import os; \\\nimport re\nx = 1\n", []string{`import re | print("imported packages")`}},
		{"an import within a line that goes on", "import os; x = \\\n 1\n", []string{`1 | print("imported packages")`}},
		{"a suite of one line", "import os\nif os: d = open('a')\n", []string{`import os | print("imported packages")`}},
		{"with's suite of one line", "with open('a') as f: s = f.read()\n", []string{`with open('a') as f: s = f.read() | print("loaded data")`}},
		{"no print behind a return", "def f():\n    return open('a').read()\n", nil},
		{"but behind what calls it", "def f():\n    return open('a').read()\nx = f()\n", []string{`x = f() | print("loaded data")`}},
		{"a return beside it", "def f():\n    d = open('a'); return d\n", nil},
		{"tabs stay tabs", "def f():\n\td = open('a')\n\treturn d\n", []string{"d = open('a') | \tprint(\"loaded data\")"}},
		{"a statement of many lines", "d = open(\n'a'\n)\nx = 1\n", []string{`) | print("loaded data")`}},
		{"a string that looks like lines", "d = open('''a\n# b\\\n''')\nx = 1\n", []string{`''') | print("loaded data")`}},
		{"writing is not reading", "d = open('a', 'w')\ne = open('b', mode='ab')\n", nil},
		{"readings in a loop, once", "import pandas as pd\nfor p in ps:\n    for q in p:\n        d.append(pd.read_csv(q))\nx = 1\n", []string{
			`import pandas as pd | print("imported packages")`, `d.append(pd.read_csv(q)) | print("loaded data")`,
		}},
		{"readings by item, never", "class D:\n    def __getitem__(self, i):\n        x = open(i)\n        return x\n", nil},
		{"a program's own print", "print = 1\nimport os\n", nil},
		{"decorators", "d = open('a')\n@d\ndef f(): pass\n", []string{`d = open('a') | print("loaded data")`}},
		{"scalers are no models", "from sklearn.preprocessing import StandardScaler\ns = StandardScaler()\nx = s.fit(x, y)\n", []string{
			`from sklearn.preprocessing import StandardScaler | print("imported packages")`,
		}},
		{"a model at once", "import sklearn.linear_model\nm = sklearn.linear_model.Ridge().fit(X, y)\n", []string{
			`import sklearn.linear_model | print("imported packages")`,
			`m = sklearn.linear_model.Ridge().fit(X, y) | print("defined model")`,
			`print("defined model") | print("trained model")`,
		}},
		{"measured", "from sklearn.metrics import log_loss as ll\na = ll(y_train, p)\nx = 1\nb = ll(y_val, p)\n", []string{
			`from sklearn.metrics import log_loss as ll | print("imported packages")`,
			`a = ll(y_train, p) | print("training loss:", a)`,
			`b = ll(y_val, p) | print("testing loss:", b)`,
		}},
		{"torch", "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        self.l = nn.Linear(1, 1)\n    def forward(self, x):\n        return self.l(x)\n" +
			"net = Net()\nfor e in range(3):\n    for b in train:\n        net(b).backward()\n        opt.step()\nfor b in test_loader:\n    p.append(net(b))\nx = 1\n", []string{
			`from torch import nn | print("imported packages")`,
			`net = Net() | print("defined model")`,
			`opt.step() | print("training loss:")`,
			`print("training loss:") | print("trained model")`,
			`p.append(net(b)) | print("predicted test labels")`,
		}},
		{"before a submission, where predictions are not seen", "m.fit(X, y)\np = m(Z)\np.to_csv('submission.csv')\n", []string{
			`m.fit(X, y) | print("trained model")`, `p = m(Z) | print("predicted test labels")`,
		}},
		{"before a file of it is opened", "m.fit(X, y)\np = m(Z)\nwith open('submission.csv', 'w') as f:\n    f.write(p)\n", []string{
			`m.fit(X, y) | print("trained model")`, `p = m(Z) | print("predicted test labels")`,
		}},
		{"a model that is called", "import torch.nn as nn\nm = nn.Linear(1, 1)\np = nn.f(m(X_test))\n", []string{
			`import torch.nn as nn | print("imported packages")`,
			`m = nn.Linear(1, 1) | print("defined model")`, `p = nn.f(m(X_test)) | print("predicted test labels")`,
		}},
		{"a block that reads says so itself", "import json\nwith open('a') as f:\n    d = json.load(f)\n", []string{
			`import json | print("imported packages")`, `d = json.load(f) |     print("loaded data")`,
		}},
		{"folds are held out", "s = cross_val_score(m, X_train, y_train)\n", []string{
			`s = cross_val_score(m, X_train, y_train) | print("testing loss:", s)`,
		}},
		{"made and trained, beside another that is made", "import lightgbm\nb = lightgbm.train(p, d)\nc = lightgbm.LGBMRegressor()\n", []string{
			`import lightgbm | print("imported packages")`,
			`b = lightgbm.train(p, d) | print("defined model")`, `print("defined model") | print("trained model")`,
			`c = lightgbm.LGBMRegressor() | print("defined model")`,
		}},
		{"a submission without a model", "import pandas as pd\np = pd.DataFrame()\np.to_csv('submission.csv')\n", []string{
			`import pandas as pd | print("imported packages")`,
		}},
		{"in a main", "def main():\n    m.fit(X, y)\n    p = m.predict(X_test)\n    return p\nif __name__ == '__main__':\n    main()\n", []string{
			"m.fit(X, y) |     print(\"trained model\")", "p = m.predict(X_test) |     print(\"predicted test labels\")",
		}},
		{"a predictor of its own", "def predict(X):\n    return m.predict(X)\np = predict(X_test)\nq = predict(X_train)\n", []string{
			`p = predict(X_test) | print("predicted test labels")`,
		}},
	}
	for _, python := range pythons(t) {
		sources := make([]string, len(cases))
		for i, c := range cases {
			sources[i] = c.program
		}
		got, err := python.Instrument(t.Context(), sources)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range cases {
			if diff := cmp.Diff(c.want, prints(got[i])); diff != "" || got[i].Problem != nil {
				t.Errorf("%s: %s: %v\n%s\n%s", python.Path, c.what, got[i].Problem, diff, got[i].Text)
			}
			if back := withoutPrints(t, got[i]); back != c.program && strings.TrimRight(back, "\n") != c.program {
				t.Errorf("%s: %s: other lines have changed:\n%s", python.Path, c.what, got[i].Text)
			}
		}
	}
}

// TestSameButForPrints: what may be inserted, and the ways to insert more.
func TestSameButForPrints(t *testing.T) {
	t.Parallel()
	const program = "'doc'\nimport os\nx = [1]\nprint('mine')\ndef f(a):\n    'doc of f'\n    if a:\n        y = a\n    return a\nf(2)\n"
	after := func(line, more string) string { return strings.Replace(program, line, line+more, 1) }
	cases := []struct {
		what, other string
		same        bool
	}{
		{"nothing", program, true},
		{"layout and comments", strings.ReplaceAll(program, "x = [1]", "x = [ # one\n  1]"), true},
		{"a print", after("import os\n", "print('imported packages')\n"), true},
		{"names, attributes, subscripts", after("x = [1]\n", "print(x, os.name, x[0], x[0:1], -x[0])\n"), true},
		{"formatting", after("x = [1]\n", "print(f'{x!r:>{x[0]}} {len(x)}', 'a %s' % x, '{}'.format(x), 'n: ' + str(round(x[0] / 2, 3)), flush=True)\n"), true},
		{"item", after("x = [1]\n", "print('training loss:', x[0].item(), float(x[0]))\n"), true},
		{"in a branch", after("        y = a\n", "        print(y)\n"), true},
		{"a branch of prints alone", after("        y = a\n", "    else:\n        print(a)\n"), true},
		{"twice the original's", after("print('mine')\n", "print('mine')\n"), true},
		{"at the end", program + "print('predicted test labels')\n", true},
		{"the original's removed", strings.Replace(program, "print('mine')\n", "", 1), false},
		{"the original's changed", strings.Replace(program, "print('mine')", "print('your')", 1), false},
		{"the original's moved", strings.Replace(after("f(2)\n", "print('mine')\n"), "print('mine')\n", "", 1), false},
		{"a walrus", after("x = [1]\n", "print(x := [2])\n"), false},
		{"a call", after("x = [1]\n", "print(x.append(2))\n"), false},
		{"a call of the format", after("x = [1]\n", "print(f'{x.append(2)}')\n"), false},
		{"a call in a width", after("x = [1]\n", "print(f'{x:{x.append(2)}}')\n"), false},
		{"a call of a call", after("x = [1]\n", "print(x.pop().item())\n"), false},
		{"a call in a subscript", after("x = [1]\n", "print(x[x.pop()])\n"), false},
		{"a comprehension", after("x = [1]\n", "print([y for y in x])\n"), false},
		{"a lambda", after("x = [1]\n", "print(lambda: 1)\n"), false},
		{"a star", after("x = [1]\n", "print(*x)\n"), false},
		{"keywords", after("x = [1]\n", "print(1, **x)\n"), false},
		{"a file", after("import os\n", "print('a', file=os)\n"), false},
		{"an end", after("import os\n", "print('a', end='')\n"), false},
		{"a computed flush", after("import os\n", "print('a', flush=os.abort())\n"), false},
		{"a format that is no text", after("x = [1]\n", "print(x.format(1))\n"), false},
		{"an argument of item", after("x = [1]\n", "print(x.item(x))\n"), false},
		{"a power", after("x = [1]\n", "print(9 ** 9 ** 9)\n"), false},
		{"a product", after("x = [1]\n", "print('a' * 9999999999)\n"), false},
		{"an awaited print", after("x = [1]\n", "y = print(1)\n"), false},
		{"another's print", after("import os\n", "os.print(1)\n"), false},
		{"an assignment", after("import os\n", "z = 1\n"), false},
		{"an import", after("import os\n", "import re\n"), false},
		{"a pass", after("import os\n", "pass\n"), false},
		{"a docstring removed", strings.Replace(program, "    'doc of f'\n", "", 1), false},
		{"a docstring that is none any more", strings.Replace(program, "    'doc of f'\n", "    print(1)\n    'doc of f'\n", 1), false},
		{"the program's docstring", "print(1)\n" + program, false},
		{"a name", strings.Replace(program, "f(2)", "f(x)", 1), false},
		{"a number", strings.Replace(program, "f(2)", "f(2.0)", 1), false},
		{"a default", strings.Replace(program, "def f(a)", "def f(a=print(1))", 1), false},
		{"a decorator", strings.Replace(program, "def f(a)", "@print\ndef f(a)", 1), false},
		{"an order", strings.Replace(program, "import os\nx = [1]\n", "x = [1]\nimport os\n", 1), false},
		{"nesting", strings.Replace(program, "    return a\n", "        return a\n", 1), false},
		{"what does not parse", program + "print('a'\n", false},
		{"prints before the future", "print(1)\nfrom __future__ import annotations\n" + program, false},
	}
	for _, python := range pythons(t) {
		var pairs []Pair
		for _, c := range cases {
			pairs = append(pairs, Pair{program, c.other})
		}
		got, err := python.SameButForPrints(t.Context(), pairs)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range cases {
			if (got[i] == "") != c.same || !c.same && !strings.Contains(got[i], "line ") && !strings.Contains(got[i], "parse") {
				t.Errorf("%s: %s: %q", python.Path, c.what, got[i])
			}
		}
	}
}

// TestOwnPrint: a program that names print, or what prints may call, gets none.
func TestOwnPrint(t *testing.T) {
	t.Parallel()
	for _, python := range pythons(t) {
		var pairs []Pair
		for _, own := range []string{"print = id\n", "def print(*a): pass\n", "from rich import print\n", "import print\n", "for print in x: pass\n", "class print: pass\n", "(print := 1)\n"} {
			pairs = append(pairs, Pair{own, own + "print('a')\n"})
		}
		pairs = append(pairs, Pair{"len = id\n", "len = id\nprint(len(1))\n"}, Pair{"def f(float): 1\n", "def f(float): 1\nprint(float(1))\n"})
		got, err := python.SameButForPrints(t.Context(), pairs)
		if err != nil {
			t.Fatal(err)
		}
		for i, why := range got {
			if why == "" {
				t.Errorf("%s: a print was inserted into %q", python.Path, pairs[i].Original)
			}
		}
	}
}

// TestWithheld: what the rules would have inserted is not put in where it is more
// than a print.
func TestWithheld(t *testing.T) {
	t.Parallel()
	const program = "import os\ndef print(x):\n    os.remove(x)\n"
	for _, python := range pythons(t) {
		got, err := python.Instrument(t.Context(), []string{program, "def f(:\n"})
		if err != nil || got[0].Text != program || len(got[0].Prints) != 0 || got[0].Withheld == "" {
			t.Errorf("%s: got %+v, %v", python.Path, got, err)
		}
		if got[1].Problem == nil || got[1].Text != "def f(:\n" {
			t.Errorf("%s: got %+v", python.Path, got[1])
		}
	}
}

// TestTooLarge: a program of 100,000 statements on one line is left as it is, with the
// reason; one of 10,000 has its prints.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	large, small := "import os\n"+strings.Repeat("a=1;", 100_000), "import os\n"+strings.Repeat("a=1;", 10_000)
	python := pythons(t)[0]
	got, err := python.Instrument(t.Context(), []string{large, small})
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Withheld != "it has more than 200000 nodes" || got[0].Text != large || len(got[0].Prints) != 0 {
		t.Errorf("100,000 statements: %q, %d prints", got[0].Withheld, len(got[0].Prints))
	}
	if got[1].Withheld != "" || len(got[1].Prints) != 1 {
		t.Errorf("10,000 statements: %q, %d prints", got[1].Withheld, len(got[1].Prints))
	}
}

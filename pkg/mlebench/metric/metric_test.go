package metric

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

func numbersColumn(values ...float64) []Column { return []Column{{Name: "y", Numbers: values}} }
func textsColumn(values ...string) []Column    { return []Column{{Name: "y", Texts: values}} }

// classColumns are probabilities of the classes a, b and so on, row by row.
func classColumns(rows ...[]float64) []Column {
	columns := make([]Column, len(rows[0]))
	for c := range columns {
		columns[c].Name = string(rune('a' + c))
		for _, row := range rows {
			columns[c].Numbers = append(columns[c].Numbers, row[c])
		}
	}
	return columns
}

func TestByHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		metric               string
		answers, predictions []Column
		want                 float64
		worked               string
	}{
		{"auc-roc", numbersColumn(0, 0, 1, 1), numbersColumn(.1, .4, .35, .8), .75, "3 of 4 pairs in order"},
		{"auc-roc", numbersColumn(0, 1, 1), numbersColumn(.5, .5, .9), .75, "a tie and a pair in order: (½ + 1)/2"},
		{"log-loss", numbersColumn(1, 0), numbersColumn(.5, .75), 1.5 * math.Ln2, "(ln 2 + ln 4)/2"},
		{"log-loss", numbersColumn(1, 0), numbersColumn(0, 1), 52 * math.Ln2, "clipped at 2⁻⁵²"},
		{"log-loss", numbersColumn(1, 0), numbersColumn(1, 0), 0x1p-52 + 0x1p-105, "−ln(1 − ε) is ε + ε²/2"},
		{"rmse", numbersColumn(0, 0), numbersColumn(1, 7), 5, "√((1 + 49)/2)"},
		{"rmsle", numbersColumn(0, 0), numbersColumn(math.E-1, math.E-1), 1, "log(e) each"},
		{"mae", numbersColumn(1, 2), numbersColumn(2, 4), 1.5, "(1 + 2)/2"},
		{"median-absolute-error", numbersColumn(0, 0, 0, 0), numbersColumn(1, -2, 4, 90), 3, "(2 + 4)/2"},
		{"r2", numbersColumn(1, 3), numbersColumn(1, 2), .5, "1 − 1/2"},
		{"poisson-deviance", numbersColumn(0, 1), numbersColumn(2, 1), 2, "(2·2 + 0)/2"},
		{"spearman", numbersColumn(1, 2, 3), numbersColumn(10, 30, 20), .5, "1 − 6·2/(3·8)"},
		{"quadratic-weighted-kappa", numbersColumn(0, 0, 1, 1), numbersColumn(0, 1, 1, 1), .5, "seen ¼, expected ½"},
		{"f1", numbersColumn(1, 1, 0), numbersColumn(1, 0, 1), .5, "precision ½, recall ½"},
		{"f1-macro", textsColumn("a", "a", "b"), textsColumn("a", "b", "c"), 2. / 9, "a 2/3, b and c 0"},
		{"f1-weighted", textsColumn("a", "a", "b"), textsColumn("a", "b", "c"), 4. / 9, "2/3 of two rows in three"},
		{"f1-micro", textsColumn("a", "a", "b"), textsColumn("a", "b", "c"), 1. / 3, "1 of 3"},
		{"balanced-accuracy", textsColumn("a", "a", "a", "b"), textsColumn("a", "a", "a", "a"), .5, "recalls 1 and 0"},
		{"exact-match", textsColumn("one", "two"), textsColumn("one", "Two"), .5, "case counts"},
		{"levenshtein", textsColumn("kitten", "日本"), textsColumn("sitting", "日"), 2, "(3 + 1)/2"},
		{"jaccard-words", textsColumn("Very good DAY", ""), textsColumn("good very", ""), 5. / 6, "(2/3 + 1)/2"},
		{"jaccard-sets", textsColumn("a b"), textsColumn("b A c b"), .25, "b of a, b, A, c"},
		{"map@3", textsColumn("a b"), textsColumn("c a a b"), .25, "(1/2)/2: the second a is no hit, b is fourth"},
		{"map@5", textsColumn("a b"), textsColumn("c a a b"), .5, "(1/2 + 2/4)/2"},
		{"multi-class-log-loss", textsColumn("a", "b"), classColumns([]float64{.5, .5}, []float64{.25, .25}), math.Ln2, "rows divided by their sums"},
		{"multi-class-log-loss", textsColumn("a", "b"), classColumns([]float64{0, 0}, []float64{0, 0}), math.Ln2, "a row of zeros is clipped to equal ones"},
		{"multi-class-auc-ovr", textsColumn("a", "b"), classColumns([]float64{.5, .5}, []float64{.5, .5}), .5, "ties"},
		{"multi-class-auc-ovr", textsColumn("a", "b"), classColumns([]float64{.5, .5}, []float64{.5 + 1.001e-5, .5}), .25, "a sum off by less than 1e-8 + 1e-5 of itself; a is the wrong way round, b tied"},
		{
			"mcrmse",
			[]Column{{Numbers: []float64{0}}, {Numbers: []float64{1}}},
			[]Column{{Numbers: []float64{3}}, {Numbers: []float64{2}}},
			2, "(3 + 1)/2",
		},
	} {
		m, err := Lookup(c.metric)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Score(c.answers, c.predictions)
		if err != nil || math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%s: %v, %v; want %v: %s", c.metric, got, err, c.want, c.worked)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	type refusal struct {
		metric               string
		answers, predictions []Column
		want                 string
	}
	tests := []refusal{
		{"auc-roc", numbersColumn(1, 1), numbersColumn(.2, .3), `the answers hold one class only, "1": the score is not defined`},
		{"auc-roc", numbersColumn(0, 2), numbersColumn(.2, .3), `answers, row 2, column "y": unknown label 2: a binary answer is 0 or 1`},
		{"auc-roc", numbersColumn(0, 1), numbersColumn(.2), "2 answers and 1 predictions"},
		{"auc-roc", numbersColumn(), numbersColumn(), "there are no answers"},
		{"auc-roc", numbersColumn(1), numbersColumn(.2), `the answers hold one class only, "1"`},
		{"rmse", nil, numbersColumn(1), "0 columns of answers and 1 of predictions"},
		{"rmse", numbersColumn(1), nil, "1 columns of answers and 0 of predictions"},
		{"rmse", []Column{{Numbers: []float64{nan}}}, numbersColumn(1), "answers, row 1, column 1: it is NaN"},
		{"multi-class-log-loss", []Column{{}, {}}, classColumns([]float64{1, 0}), `2 columns of answers and 2 of predictions; it takes the shape "per-class"`},
		{"multi-class-log-loss", textsColumn("a"), classColumns([]float64{1, 0}), `one class only, "a"`},
		{"multi-class-auc-ovr", textsColumn("a", "b"), classColumns([]float64{.5, .5}, []float64{.5, .5 + 1.0012e-5}), `row 2, column "a": the probabilities of the row sum to 1.0000100`},
		{"log-loss", numbersColumn(0, 0), numbersColumn(.2, .3), `the answers hold one class only, "0"`},
		{"log-loss", numbersColumn(0, 1), numbersColumn(.2, 1.5), `predictions, row 2, column "y": probability 1.5 is outside [0, 1]`},
		{"log-loss", numbersColumn(0, 1), numbersColumn(-.25, 1), `row 1, column "y": probability -0.25 is outside [0, 1]`},
		{"f1", numbersColumn(0, 0), numbersColumn(0, 1), "one class only"},
		{"f1", numbersColumn(0, 1), numbersColumn(0, .5), "unknown label 0.5: a binary prediction is 0 or 1"},
		{"rmsle", numbersColumn(0, 1), numbersColumn(0, -1), `predictions, row 2, column "y": -1 has no log(1+x)`},
		{"rmsle", numbersColumn(-1, 1), numbersColumn(0, 1), `answers, row 1, column "y": -1 has no log(1+x)`},
		{"r2", numbersColumn(2, 2), numbersColumn(1, 2), "the answers are all 2: the score is not defined"},
		{"r2", numbersColumn(2), numbersColumn(1), "the answers are all 2"},
		{"spearman", numbersColumn(2, 2), numbersColumn(1, 2), "the answers are all 2"},
		{"spearman", numbersColumn(1, 2), numbersColumn(3, 3), "the predictions are all 3"},
		{"poisson-deviance", numbersColumn(-1, 2), numbersColumn(3, 3), "-1 is negative: a count is at least 0"},
		{"poisson-deviance", numbersColumn(1, 2), numbersColumn(3, 0), "row 2, column \"y\": 0 is not above 0"},
		{"rmse", numbersColumn(1e300, 2), numbersColumn(-1e300, 0), "the score leaves the range of float64: it is infinite"},
		{"r2", numbersColumn(1e200, 2), numbersColumn(-1e200, 0), "the score leaves the range of float64: it is NaN"},
		{"quadratic-weighted-kappa", numbersColumn(3, 3), numbersColumn(1, 3), `one class only, "3"`},
		{"quadratic-weighted-kappa", numbersColumn(3), numbersColumn(1), `one class only, "3"`},
		{"quadratic-weighted-kappa", numbersColumn(1, 3), numbersColumn(1, 2.5), `row 2, column "y": 2.5 is not a whole number`},
		{"quadratic-weighted-kappa", numbersColumn(1.5, 3), numbersColumn(1, 2), `answers, row 1, column "y": 1.5 is not a whole number`},
		{"accuracy", textsColumn("a"), textsColumn(), "1 answers and 0 predictions"},
		{"map@3", textsColumn("a", " "), textsColumn("a", "b"), `answers, row 2, column "y": it is empty`},
		{"multi-class-log-loss", textsColumn("a", "z"), classColumns([]float64{1, 0}, []float64{0, 1}), `answers, row 2, column "y": unknown label "z": no column of probabilities has its name`},
		{"multi-class-log-loss", textsColumn("a", "a"), classColumns([]float64{1, 0}, []float64{0, 1}), `one class only, "a"`},
		{"multi-class-log-loss", textsColumn("a", "b"), classColumns([]float64{1, 0}, []float64{0, 1.25}), `predictions, row 2, column "b": probability 1.25 is outside [0, 1]`},
		{"multi-class-log-loss", textsColumn("a", "b"), classColumns([]float64{1}, []float64{1}), "1 classes and 1 columns of probabilities"},
		{"multi-class-log-loss", textsColumn("a", "b"), classColumns([]float64{1, 0}), "2 answers and 1 predictions"},
		{"multi-class-log-loss", textsColumn("a", "b"), []Column{{Name: "a", Numbers: []float64{1, 0}}, {Name: "a", Numbers: []float64{0, 1}}}, `class "a" has two columns`},
		{"multi-class-auc-ovr", textsColumn("a", "b"), classColumns([]float64{1, 0, 0}, []float64{0, 1, 0}), `no answer is of class "c"`},
		{"multi-class-auc-ovo", textsColumn("a", "b"), classColumns([]float64{1, 0}, []float64{.5, .25}), "row 2, column \"a\": the probabilities of the row sum to 0.75, not to 1"},
		{"mcrmse", numbersColumn(1), []Column{{}, {}}, "1 columns of answers and 2 of predictions"},
		{"rmse", numbersColumn(1), []Column{{}, {}}, `1 columns of answers and 2 of predictions; it takes the shape "one"`},
		{
			"mean-column-wise-auc",
			[]Column{{Name: "p", Numbers: []float64{0, 1}}, {Name: "q", Numbers: []float64{1, 1}}},
			[]Column{{Name: "p", Numbers: []float64{0, 1}}, {Name: "q", Numbers: []float64{0, 1}}},
			`column 2: the answers hold one class only`,
		},
		{
			"mean-column-wise-log-loss",
			[]Column{{Name: "p", Numbers: []float64{0, 1}}, {Name: "q", Numbers: []float64{1, 0}}},
			[]Column{{Name: "p", Numbers: []float64{0, 1}}, {Name: "q", Numbers: []float64{0, 2}}},
			`predictions, row 2, column "q": probability 2 is outside [0, 1]`,
		},
	}
	for _, m := range All() { // no metric takes what is no number, or columns that do not fit
		if m.Shape == One {
			answers := []Column{{Numbers: []float64{0, 1}, Texts: []string{"a", "b"}}}
			tests = append(tests, refusal{m.Name, answers, []Column{{}}, "2 answers and 0 predictions"})
		}
		for _, v := range []struct {
			bad  float64
			want string
		}{{nan, "it is NaN"}, {inf, "it is infinite"}, {-inf, "it is infinite"}} {
			switch {
			case m.Shape == PerClass:
				tests = append(tests, refusal{m.Name, textsColumn("a", "b"), classColumns([]float64{1, 0}, []float64{0, v.bad}), `predictions, row 2, column "b": ` + v.want})
			case m.Answers == Number:
				tests = append(
					tests, refusal{m.Name, numbersColumn(0, 1), numbersColumn(1, v.bad), `predictions, row 2, column "y": ` + v.want},
					refusal{m.Name, numbersColumn(v.bad, 1), numbersColumn(1, 1), `answers, row 1, column "y": ` + v.want})
			}
		}
	}
	for _, test := range tests {
		m, err := Lookup(test.metric)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Score(test.answers, test.predictions)
		if got != 0 || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s of %v and %v: %v, %v; want %q", test.metric, test.answers, test.predictions, got, err, test.want)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	if _, err := Lookup("auc"); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), `unknown metric "auc"; there are accuracy, auc-roc, `) {
		t.Error(err)
	}
	all := All()
	for i, m := range all {
		if i > 0 && m.Name <= all[i-1].Name {
			t.Errorf("%s stands after %s", m.Name, all[i-1].Name)
		}
	}
	all[0].Name = "" // a copy
	if m, err := Lookup("accuracy"); err != nil || m.Direction != Maximize {
		t.Error(m, err)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}, {[]float64{9, 1, 2, 4}, 3}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("%v: %v; want %v", c.values, got, c.want)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is a number")
	}
}

// TestInvariances: no metric knows the order of the rows, what is best scores
// as the best, and nothing scores better.
func TestInvariances(t *testing.T) {
	t.Parallel()
	for _, m := range All() {
		if m.Shape == PerClass {
			continue
		}
		t.Run(m.Name, rapid.MakeCheck(func(t *rapid.T) {
			n := rapid.IntRange(2, 12).Draw(t, "rows")
			column := func(name string) Column {
				bits := rapid.SliceOfN(rapid.IntRange(0, 1), n, n).Draw(t, name)
				bits[0], bits[n-1] = 0, 1
				c := Column{Name: "y"}
				for _, b := range bits {
					c.Numbers = append(c.Numbers, float64(b))
					c.Texts = append(c.Texts, string(rune('a'+b)))
				}
				return c
			}
			y, p := column("answers"), column("predictions")
			if m.Name == "poisson-deviance" {
				for i := range y.Numbers {
					y.Numbers[i]++
					p.Numbers[i]++
				}
			}
			score := func(y, p Column) float64 {
				s, err := m.Score([]Column{y}, []Column{p})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			got, best := score(y, p), score(y, y)
			perfect := 0.0
			if m.Direction == Maximize {
				perfect = 1
			}
			if math.Abs(best-perfect) > 1e-12 {
				t.Fatalf("the answers themselves score %v", best)
			}
			if m.Direction == Maximize && got > best+1e-12 || m.Direction == Minimize && got < best-1e-12 {
				t.Fatalf("%v scores better than the answers, %v", got, best)
			}
			backwards := func(c Column) Column {
				c.Numbers, c.Texts = slices.Clone(c.Numbers), slices.Clone(c.Texts)
				slices.Reverse(c.Numbers)
				slices.Reverse(c.Texts)
				return c
			}
			if turned := score(backwards(y), backwards(p)); math.Abs(turned-got) > 1e-12 {
				t.Fatalf("%v, and %v with the rows turned round", got, turned)
			}
		}))
	}
}

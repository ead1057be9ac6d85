// Package grammar draws short Python programs that solve machine-learning tasks
// on tables, good ones and poor ones, whole ones and broken ones. A policy of
// about a million weights is warm-started on them, so that reinforcement learning
// begins with programs that run at all; what is better than another it has to
// find out.
//
// A program reads ./input, prints the line "validation: NUMBER" and writes
// ./submission.csv. It needs pandas and scikit-learn and names nothing of the
// task: the target is the column that the test data lack.
package grammar

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// form is what a submission holds.
type form struct {
	classifies bool
	predict    string // the predictions for the test data
	columns    string // that they are put into
	lower      bool   // the metric is to be minimised
}

// forms by metric. Counts and prices are kept above zero, as their metrics want.
var forms = map[string]form{
	"accuracy": {true, "m.predict(x[n:])", "t", false}, "balanced-accuracy": {true, "m.predict(x[n:])", "t", false},
	"f1": {true, "m.predict(x[n:])", "t", false}, "f1-macro": {true, "m.predict(x[n:])", "t", false}, "f1-micro": {true, "m.predict(x[n:])", "t", false},
	"f1-weighted": {true, "m.predict(x[n:])", "t", false}, "quadratic-weighted-kappa": {true, "m.predict(x[n:])", "t", false},
	"auc-roc": {true, "m.predict_proba(x[n:])[:,1]", "t", false}, "log-loss": {true, "m.predict_proba(x[n:])[:,1]", "t", true},
	"multi-class-log-loss": {true, "m.predict_proba(x[n:])", "s.columns[1:]", true},
	"rmse":                 {false, "m.predict(x[n:])", "t", true}, "mae": {false, "m.predict(x[n:])", "t", true},
	"median-absolute-error": {false, "m.predict(x[n:])", "t", true}, "r2": {false, "m.predict(x[n:])", "t", false},
	"rmsle": {false, "m.predict(x[n:]).clip(0)", "t", true}, "poisson-deviance": {false, "m.predict(x[n:]).clip(.1)", "t", true},
}

// model is a family of estimators, from those that are mostly poor to those that
// are mostly good.
type model struct {
	module, classifier, regressor string
	settings                      []string
}

var models = []model{
	{"dummy", "DummyClassifier", "DummyRegressor", []string{""}},
	{"tree", "DecisionTreeClassifier", "DecisionTreeRegressor", []string{"max_depth=1", "max_depth=3", "max_depth=9", ""}},
	{"neighbors", "KNeighborsClassifier", "KNeighborsRegressor", []string{"1", "5", "25"}},
	{"linear_model", "RidgeClassifier", "Ridge", []string{"1e-3", "1", "1e3"}},
	{"ensemble", "RandomForestClassifier", "RandomForestRegressor", []string{"2", "20", "60"}},
	{"ensemble", "ExtraTreesClassifier", "ExtraTreesRegressor", []string{"2", "20", "60"}},
	{"ensemble", "GradientBoostingClassifier", "GradientBoostingRegressor", []string{"n_estimators=5", "n_estimators=50"}},
}

// features are what is made of the columns x.
var features = []string{
	`x=x.select_dtypes("number").fillna(0)`,
	`x=p.get_dummies(x).fillna(0)`,
	`x=x.select_dtypes("number").fillna(0)` + "\n" + `x=(x-x.mean())/(x.std()+1e-9)`,
	`x=p.get_dummies(x).fillna(0)` + "\n" + `x=(x-x.mean())/(x.std()+1e-9)`,
}

// bug is a slip: a piece of a program, and what stands there instead.
type bug struct{ name, right, wrong string }

var bugs = []bug{
	{"file", `"input/train.csv"`, `"input/trian.csv"`},
	{"import", "import pandas as p\n", ""},
	{"method", "m.fit(x[:n],y)", "m.fitt(x[:n],y)"},
	{"name", "n=len(a)\n", "k=len(a)\n"},
	{"syntax", `.csv")` + "\ns=", `.csv"` + "\ns="},
	{"rows", "(x[n:])", "(x[:n])"},
	{"column", `to_csv("submission.csv",index=False)`, `to_csv("submission.csv")`},
	{"submission", `s.to_csv("submission.csv",index=False)` + "\n", ""},
	{"target", "y=a.pop(t)\n", "y=a.pop(\"y\")\n"},
}

// Bugs names the slips that a program may have.
func Bugs() []string {
	names := make([]string, len(bugs))
	for i, b := range bugs {
		names[i] = b.name
	}
	return names
}

// Program is a program by its choices.
type Program struct {
	Metric   string
	Model    int // of the families, which are counted from 0
	Setting  int // of the family
	Features int
	Bug      string // one of Bugs; empty for none
}

// Knows reports whether there are programs for a metric.
func Knows(metric string) bool { _, ok := forms[metric]; return ok }

// classifiers without probabilities are no choice where those are asked for.
func fits(metric string, m int) bool {
	return !strings.Contains(forms[metric].predict, "proba") || models[m].classifier != "RidgeClassifier"
}

// Draw draws a program for a metric, each family, setting and kind of features
// with equal probability; with the probability buggy it has one of the slips.
// Draws begin at a position of the stream and take 8.
func Draw(metric string, buggy float64, stream rng.Stream, at uint64) Program {
	var families []int
	for m := range models {
		if fits(metric, m) {
			families = append(families, m)
		}
	}
	p := Program{Metric: metric, Model: families[stream.IntN(at, len(families))], Features: stream.IntN(at+1, len(features))}
	p.Setting = stream.IntN(at+2, len(models[p.Model].settings))
	if stream.Float64(at+3) < buggy {
		p.Bug = bugs[stream.IntN(at+4, len(bugs))].name
	}
	return p
}

// Fixed is the program without its error.
func (p Program) Fixed() Program {
	p.Bug = ""
	return p
}

// Changed is the program with another family or other features, each with equal
// probability, and no slip. Draws as of Draw.
func (p Program) Changed(stream rng.Stream, at uint64) Program {
	other := Draw(p.Metric, 0, stream, at) // with no slip
	if stream.Float64(at+5) < 0.5 {
		other.Model, other.Setting = p.Model, p.Setting
		other.Features = (p.Features + 1 + stream.IntN(at+6, len(features)-1)) % len(features)
	} else {
		other.Features = p.Features
	}
	return other
}

// Joined is the program with the features of another, and no slip.
func (p Program) Joined(other Program) Program {
	p.Features, p.Bug = other.Features, ""
	return p
}

// Source is the program's text.
func (p Program) Source() string {
	f, m := forms[p.Metric], models[p.Model]
	class, score := m.regressor, "m.score(x[h:n],y[h:])"
	if f.classifies {
		class = m.classifier
	}
	if f.lower {
		score = "1-" + score // the line has the direction of the metric
	}
	lines := []string{
		"import pandas as p",
		fmt.Sprintf("from sklearn.%s import %s as M", m.module, class),
		`a=p.read_csv("input/train.csv")`,
		`b=p.read_csv("input/test.csv")`,
		`s=p.read_csv("input/sample_submission.csv")`,
		"t=[c for c in a if c not in b][0]",
		"y=a.pop(t)",
		"n=len(a)",
		"x=p.concat([a,b])",
		features[p.Features],
		"m=M(" + m.settings[p.Setting] + ")",
		"h=n*4//5",
		"m.fit(x[:h],y[:h])",
		`print("validation:",` + score + ")",
		"m.fit(x[:n],y)",
		fmt.Sprintf("s[%s]=%s", f.columns, f.predict),
		`s.to_csv("submission.csv",index=False)`,
	}
	text := strings.Join(lines, "\n") + "\n"
	if i := slices.IndexFunc(bugs, func(b bug) bool { return b.name == p.Bug }); i >= 0 {
		text = strings.Replace(text, bugs[i].right, bugs[i].wrong, 1)
	}
	return text
}

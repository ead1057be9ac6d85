package floors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
	"testing"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// homes are the folders in which the choices of an axis may be named.
var homes = map[string][]string{
	"environment": {"pkg/env/"},
	"curriculum":  {"pkg/curriculum/"},
	"scaffold":    {"pkg/scaffold/"},
	"segments":    {"pkg/credit/"},
	"reward":      {"pkg/credit/"},
	"select":      {"pkg/credit/"},
	"advantage":   {"pkg/credit/", "pkg/loss/preset/"},
	"factors":     {"pkg/credit/"},
	"weight":      {"pkg/credit/", "pkg/loss/preset/"},
	"loss":        {"pkg/loss/"},
	"preset":      {"pkg/loss/preset/"},
}

// elsewhere are more folders in which a name may stand: of packages whose own
// settings ask for the choice, or where the word means something else.
var elsewhere = map[string][]string{
	"improvement": {"pkg/recipe/"},                                 // env.answer.step_improvement was its name
	"diversity":   {"pkg/recipe/"},                                 // curriculum.exit.diversity_bonus was its name
	"exit":        {"pkg/run/graph/", "pkg/paper/", "pkg/recipe/"}, // the folder of exit records; the paper; whose bonus the factor diversity was
	"ace":         {"pkg/paper/"},                                  // the paper
	"flipts":      {"pkg/paper/"},                                  // the paper
	"chain":       {"pkg/env/math/"},                               // a kind of problem
}

// words are names that are words of many other things too.
var words = map[string]string{
	"lathe":   "the program",
	"none":    "nothing",
	"empty":   "nothing",
	"score":   "a stage",
	"turn":    "a column",
	"invalid": "an outcome",
	"single":  "a template of one sentence",
	"mixed":   "a state of nodes",
}

// named lists every registered name with the folders that may name it.
func named() map[string][]string {
	names := map[string][]string{}
	add := func(axis, name string) { names[name] = append(names[name], append(homes[axis], elsewhere[name]...)...) }
	for _, axis := range recipe.Axes() {
		for _, choice := range axis.Choices {
			add(axis.Name, choice.Name)
		}
	}
	for _, kind := range config.Choices(new(loss.Loss), "kind") {
		add("loss", kind)
	}
	for _, name := range preset.Axis.Names() {
		add("preset", name)
	}
	return names
}

// TestNamesStayAtHome: whoever adds an environment or an algorithm edits its
// own folder and the import list. No other file names one.
func TestNamesStayAtHome(t *testing.T) {
	t.Parallel()
	names := named()
	for name, content := range sources(t) {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "pkg/builtin/") ||
			strings.HasPrefix(name, "pkg/mlebench/grader/") { // which names the columns of competitions
			continue
		}
		for _, problem := range namingProblems(t, name, content, names) {
			t.Error(problem)
		}
	}
}

func namingProblems(t *testing.T, name string, content []byte, names map[string][]string) []string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, 0)
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	ast.Inspect(file, func(n ast.Node) bool {
		if ownName(n) {
			return false
		}
		if spec, ok := n.(*ast.ImportSpec); ok {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if problem := importsChoice(name, strings.TrimPrefix(imported, module)); problem != "" {
				problems = append(problems, files.Position(n.Pos()).String()+problem)
			}
			return false
		}
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		folders, registered := names[text]
		if err != nil || !registered || words[text] != "" {
			return true
		}
		for _, folder := range folders {
			if strings.HasPrefix(name, folder) {
				return true
			}
		}
		problems = append(problems, files.Position(literal.Pos()).String()+" names the choice "+text+": only its own folder may, and pkg/builtin")
		return true
	})
	return problems
}

// ownName reports whether a node gives something else its name, which may be that of
// a choice: a command of the command line, or what a method Name or Kind returns.
func ownName(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Recv != nil && (n.Name.Name == "Name" || n.Name.Name == "Kind") && len(n.Body.List) == 1
	case *ast.CompositeLit:
		of, ok := n.Type.(*ast.SelectorExpr)
		if !ok || of.Sel.Name != "Command" {
			return false
		}
		for _, element := range n.Elts {
			if field, ok := element.(*ast.KeyValueExpr); ok {
				if key, ok := field.Key.(*ast.Ident); ok && key.Name == "Name" {
					field.Value = ast.NewIdent("_") // its other fields are looked at
				}
			}
		}
	}
	return false
}

// importsChoice refuses the package of one environment or curriculum, outside
// its own folder.
func importsChoice(file, imported string) string {
	for _, axis := range []string{"pkg/env/", "pkg/curriculum/"} {
		rest, ok := strings.CutPrefix(imported, axis)
		if !ok {
			continue
		}
		own, _, _ := strings.Cut(rest, "/")
		if axis == "pkg/curriculum/" && strings.HasPrefix(file, axis) {
			continue // a curriculum may take its base tasks from another
		}
		if imported == "pkg/env/math/dataset" && (strings.HasPrefix(file, axis) || strings.HasPrefix(file, "pkg/supervised/")) {
			continue // an environment may read problems from files as this one does, and so may a warm start its rows
		}
		if !strings.HasPrefix(path.Dir(file)+"/", axis+own+"/") {
			return " imports " + imported + ": only its own folder may, and pkg/builtin"
		}
	}
	return ""
}

// TestNamesCanFail shows each rule a file that breaks it.
func TestNamesCanFail(t *testing.T) {
	t.Parallel()
	names := named()
	for _, c := range []struct{ file, content, want string }{
		{"pkg/stage/x.go", `package x; const a = "tooluse"`, "names the choice tooluse"},
		{"pkg/env/tooluse/x.go", `package x; const a = "tooluse"`, ""},
		{"pkg/env/tooluse/x.go", `package x; const a = "uniform"`, "names the choice uniform"},
		{"pkg/run/x.go", `package x; const a = "gspo"`, "names the choice gspo"},
		{"pkg/loss/preset/x.go", `package x; const a = "gspo"`, ""},
		{"pkg/recipe/x.go", `package x; const a = "trajectory"`, "names the choice trajectory"},
		{"pkg/run/graph/x.go", `package x; const a = "exit"`, ""},
		{"pkg/command/x.go", `package x; var a = &cli.Command{Name: "uniform", Usage: "sample"}`, ""},
		{"pkg/command/x.go", `package x; var a = &cli.Command{Name: "uniform", Usage: "gspo"}`, "names the choice gspo"},
		{"pkg/command/x.go", `package x; var a = credit.Choice{Name: "uniform"}`, "names the choice uniform"},
		{"pkg/monitor/x.go", `package x; func (r *R) Kind() string { return "uniform" }`, ""},
		{"pkg/monitor/x.go", `package x; func Kind() string { return "uniform" }`, "names the choice uniform"},
		{"pkg/run/x.go", `package x; import _ "github.com/lathe-rl/lathe/pkg/env/math"`, "imports pkg/env/math"},
		{"pkg/run/x.go", `package x; import _ "github.com/lathe-rl/lathe/pkg/curriculum/exit"`, "imports pkg/curriculum/exit"},
		{"pkg/run/x.go", `package x; import _ "math"`, ""},
		{"pkg/env/math/dataset/x.go", `package x; import _ "github.com/lathe-rl/lathe/pkg/env/math/answer"`, ""},
		{"pkg/env/program/x.go", `package x; import _ "github.com/lathe-rl/lathe/pkg/env/math/dataset"`, ""},
		{"pkg/env/program/x.go", `package x; import _ "github.com/lathe-rl/lathe/pkg/env/math/answer"`, "imports pkg/env/math/answer"},
		{"pkg/run/x.go", `package x; import _ "github.com/lathe-rl/lathe/pkg/env"`, ""},
	} {
		problems := strings.Join(namingProblems(t, c.file, []byte(c.content), names), "\n")
		if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) {
			t.Errorf("%s, %s: got %q, want %q", c.file, c.content, problems, c.want)
		}
	}
}

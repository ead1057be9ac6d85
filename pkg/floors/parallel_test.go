package floors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// together are the packages whose tests may run one after another without a word.
var together = map[string]string{
	"pkg/command":        "whole runs, whose processes wait for each other",
	"pkg/command/tenant": "whole runs, whose processes wait for each other",
	"pkg/policy/cuda":    "one device",
	"pkg/run":            "whole runs",
}

// sharing are the calls that change or measure what all tests of a process share.
var sharing = []string{"Setenv", "Chdir", "Umask", "AllocsPerRun", "ReadMemStats", "Getrusage"}

// TestParallel: a test runs beside the others of its package, unless it, or a
// function of its package that it calls, changes or measures what they share, or
// its comment says why not: "Alone: ...".
func TestParallel(t *testing.T) {
	t.Parallel()
	packages := map[string]map[string]*ast.FuncDecl{} // their functions in tests, by name
	files := token.NewFileSet()
	for name, content := range sources(t) {
		folder := path.Dir(name)
		if _, may := together[folder]; may || !strings.HasPrefix(name, "pkg/") || !strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, content, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if packages[folder] == nil {
			packages[folder] = map[string]*ast.FuncDecl{}
		}
		for _, declaration := range file.Decls {
			if f, is := declaration.(*ast.FuncDecl); is {
				packages[folder][f.Name.Name] = f
			}
		}
	}
	for folder, functions := range packages {
		for name, f := range functions {
			if !strings.HasPrefix(name, "Test") || name == "TestMain" || f.Recv != nil || strings.Contains(f.Doc.Text(), "Alone: ") {
				continue
			}
			if called := callsOf(f, functions, map[string]bool{}); !called["Parallel"] && !slices.ContainsFunc(sharing, func(s string) bool { return called[s] }) {
				t.Errorf("%s: %s neither calls t.Parallel nor says why it is alone", folder, name)
			}
		}
	}
}

// callsOf adds the names of what a function calls, and of what those of its
// package call in turn.
func callsOf(f *ast.FuncDecl, functions map[string]*ast.FuncDecl, called map[string]bool) map[string]bool {
	ast.Inspect(f, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		name := ""
		switch function := call.Fun.(type) {
		case *ast.Ident:
			name = function.Name
		case *ast.SelectorExpr:
			name = function.Sel.Name
		}
		if g := functions[name]; !called[name] {
			called[name] = true
			if g != nil {
				callsOf(g, functions, called)
			}
		}
		return true
	})
	return called
}

package floors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// house is what pkg/README.md may speak of.
type house struct {
	imports map[string][]string            // by package, below pkg: the packages that it imports
	symbols map[string]map[string][]string // by package name and symbol (Func, Type, Type.Method, variable or constant): the files that declare it
	files   func(path string) bool         // below pkg
}

func readHouse(t *testing.T) house {
	t.Helper()
	h := house{
		imports: map[string][]string{}, symbols: map[string]map[string][]string{},
		files: func(name string) bool {
			_, err := os.Stat(filepath.Join("..", filepath.FromSlash(name)))
			return err == nil
		},
	}
	for _, p := range packages(t) {
		own, below := strings.CutPrefix(p.ImportPath, module+"pkg/")
		if !below {
			continue
		}
		h.imports[own] = nil
		for _, imported := range p.Imports {
			if other, ours := strings.CutPrefix(imported, module+"pkg/"); ours {
				h.imports[own] = append(h.imports[own], other)
			}
		}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			declared := h.symbols[file.Name.Name]
			if declared == nil {
				declared = map[string][]string{}
				h.symbols[file.Name.Name] = declared
			}
			for _, symbol := range symbolsOf(file) {
				declared[symbol] = append(declared[symbol], path.Join(own, name))
			}
		}
	}
	return h
}

// funcName is a function's name, and Type.Method that of a method.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if of, ok := receiver.(*ast.Ident); ok {
		return of.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

// symbolsOf lists what a file declares: functions, types, and methods as
// Type.Method.
func symbolsOf(file *ast.File) []string {
	var symbols []string
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			symbols = append(symbols, funcName(d))
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					symbols = append(symbols, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						symbols = append(symbols, name.Name)
					}
				}
			}
		}
	}
	return symbols
}

var (
	code     = regexp.MustCompile("`([^`]+)`")
	link     = regexp.MustCompile(`\]\(([^)]+)\)`)
	symbol   = regexp.MustCompile("`([a-z0-9]+)\\.([A-Z][A-Za-z.]*)`(?:\\s+in\\s+\\[[^]]*\\]\\(([^)]+)\\))?")
	rooted   = regexp.MustCompile("`((?:cmd|cuda|data|jobs|pkg|slurm)/[^`]*)`")
	room     = regexp.MustCompile(`^[a-z0-9]+(/[a-z0-9]+)*(/\.\.\.)?$`)
	heading  = regexp.MustCompile(`^### [0-9]+\. `)
	pageText = "../README.md"
)

// holds reports whether there is a package of a name, or one that FOLDER/... means.
func (h house) holds(name string) bool {
	folder, all := strings.CutSuffix(name, "...")
	for own := range h.imports {
		if own == name || all && strings.HasPrefix(own, folder) {
			return true
		}
	}
	return false
}

// pageProblems lists what is wrong with the page about the house.
func (h house) pageProblems(page string) []string {
	var problems []string
	fault := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	floor, floorOf := 0, map[string]int{} // by package, and by FOLDER/... of those below a folder
	for line := range strings.Lines(page) {
		switch {
		case heading.MatchString(line):
			floor++
		case strings.HasPrefix(line, "## "):
			floor = 0 // the floors have ended, or not begun
		}
		for _, found := range code.FindAllStringSubmatch(line, -1) {
			if name := found[1]; floor > 0 && room.MatchString(name) {
				if !h.holds(name) {
					fault("%s has a line on the page and is no package", name)
				} else if floorOf[name] == 0 {
					floorOf[name] = floor
				}
			}
		}
	}
	for name := range h.imports {
		for folder := path.Dir(name); floorOf[name] == 0 && folder != "."; folder = path.Dir(folder) {
			floorOf[name] = floorOf[folder+"/..."]
		}
	}
	for name, imports := range h.imports {
		if floorOf[name] == 0 {
			fault("pkg/%s has no line on the page: add one to its floor", name)
		}
		for _, imported := range imports {
			if floorOf[imported] > floorOf[name] && floorOf[name] > 0 {
				fault("the page has pkg/%s on floor %d, and it imports pkg/%s of floor %d", name, floorOf[name], imported, floorOf[imported])
			}
		}
	}
	for _, found := range link.FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(found[1], "#") && !h.files(found[1]) { // TestLinks has the headings
			fault("the page points to %s, which is not there", found[1])
		}
	}
	for _, found := range rooted.FindAllStringSubmatch(page, -1) {
		if !h.files("../" + found[1]) {
			fault("the page names %s, which is not there", found[1])
		}
	}
	for _, found := range symbol.FindAllStringSubmatch(page, -1) {
		files, there := h.symbols[found[1]][found[2]]
		switch {
		case !there:
			fault("the page speaks of %s.%s, which no package declares", found[1], found[2])
		case found[3] != "" && !slices.Contains(files, found[3]):
			fault("the page has %s.%s in %s, and it is in %v", found[1], found[2], found[3], files)
		}
	}
	slices.Sort(problems)
	return problems
}

// TestPage: what pkg/README.md says of the house is so.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(pageText)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range readHouse(t).pageProblems(string(page)) {
		t.Error("pkg/README.md: " + problem)
	}
}

// TestPageCanFail shows the test pages that are wrong.
func TestPageCanFail(t *testing.T) {
	t.Parallel()
	h := house{
		imports: map[string][]string{"seal": nil, "shard": {"seal"}, "shard/foreign": {"shard"}},
		symbols: map[string]map[string][]string{"seal": {"Writer.Commit": {"seal/writer.go"}}},
		files: func(name string) bool {
			return name == "../cuda/" || name == "seal/writer.go" || name == "shard/rows.go"
		},
	}
	const right = "## The floors\n\n### 1. Ground\n\n- `seal`: files\n\n### 2. Rows\n\n- `shard`: rows, over `seal`; `shard/...`\n\n## More\n\n" +
		"`nothing` of `cuda/` but `seal.Writer.Commit` in [seal/writer.go](seal/writer.go)\n"
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"- `shard`: rows", "- rows", "pkg/shard has no line"},
		{"; `shard/...`", "", "pkg/shard/foreign has no line"},
		{"; `shard/...`", "; `shard/...`, `seal/...`", "seal/... has a line on the page and is no package"},
		{"- `shard`", "- `shard` `card`", "card has a line on the page and is no package"},
		{"### 1. Ground\n\n- `seal`: files\n\n### 2. Rows\n\n- `shard`: rows, over `seal`; `shard/...`", "### 1. Rows\n\n- `shard`, `shard/...`: rows\n\n### 2. Files\n\n- `seal`: files", "imports pkg/seal of floor 2"},
		{"(seal/writer.go)", "(seal/riter.go)", "points to seal/riter.go"},
		{"`cuda/`", "`cuda/engine.h`", "names cuda/engine.h"},
		{"seal.Writer.Commit", "seal.Writer.Omit", "seal.Writer.Omit, which no package declares"},
		{"[seal/writer.go](seal/writer.go)", "[shard/rows.go](shard/rows.go)", "and it is in [seal/writer.go]"},
		{" in [seal/writer.go](seal/writer.go)", " in\n[shard/rows.go](shard/rows.go)", "and it is in [seal/writer.go]"},
	} {
		if !strings.Contains(right, c.old) {
			t.Fatalf("the page has no %q", c.old)
		}
		problems := strings.Join(h.pageProblems(strings.Replace(right, c.old, c.new, 1)), "\n")
		if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) {
			t.Errorf("with %q: got %q, want %q", c.new, problems, c.want)
		}
	}
}

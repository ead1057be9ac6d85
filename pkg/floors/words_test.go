package floors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// oldWordsOfCode are what texts of programs and doc comments may not say either: a page
// may have the verdict on a claim, and what a gate of the site profile is.
var oldWordsOfCode = append(slices.DeleteFunc(slices.Clone(oldWords), func(w word) bool { return w.old.MatchString("gate") }),
	word{oldWord(`gates? jobs?`), "controller job"},
	word{oldWord(`judg(?:es?|ed|ing)`), "score"},
	word{oldWord(`verdicts?`), "score"},
)

// identifier is a literal or a part of a text that is a name and no prose: a
// setting, a key, a column, a flag, a path, or the names of Go in a comment. One
// word alone is prose only in a comment.
var identifier = regexp.MustCompile("`[^`]*`|\"[^\" ]*\"|\\[[A-Za-z_.]+\\]|--[a-z-]+|\\b[A-Za-z0-9_]+(?:[._/][A-Za-z0-9_*{},]+)+")

// wordsOfOthers are texts with an old word that is not ours to change, by the
// folder, with the reason.
var wordsOfOthers = map[string]map[string]string{
	"pkg/env/tooluse/": {
		"You carry out a user's requests":   "the prompt of the environment: the bytes of runs depend on it",
		"they are carried out in its order": "the prompt of the environment: the bytes of runs depend on it",
		"judged at the end":                 "feedback that a policy reads and that score files hold",
	},
	"pkg/env/program/": {"judged at the end": "feedback that a policy reads and that score files hold"},
}

// notYet are folders whose words have not been changed yet. Remove an entry, run
// go test ./pkg/floors -run TestWords, and change what it lists.
var notYet = []string{}

// TestWords: no text that a program prints and no comment of an exported name uses
// an old word of the glossary.
func TestWords(t *testing.T) {
	t.Parallel()
	checked := 0
	for name, content := range sources(t) {
		if strings.HasSuffix(name, "_test.go") || !strings.HasPrefix(name, "pkg/") && !strings.HasPrefix(name, "cmd/") || startsWithAny(name, notYet) {
			continue
		}
		checked++
		for _, problem := range wordProblems(t, name, content) {
			t.Error(problem)
		}
	}
	if checked < 100 {
		t.Errorf("%d files were checked: the test looks in the wrong place", checked)
	}
}

func startsWithAny(name string, folders []string) bool {
	for _, folder := range folders {
		if strings.HasPrefix(name, folder) {
			return true
		}
	}
	return false
}

// wordProblems lists the old words in the literals and the comments of exported
// names of a file.
func wordProblems(t *testing.T, name string, content []byte) []string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	check := func(at token.Pos, what, text string) {
		for _, problem := range oldWordsIn(name, text) {
			problems = append(problems, fmt.Sprintf("%s: %s %s", files.Position(at), what, problem))
		}
	}
	// The names that a comment is about are no prose: "Fate is the disposition".
	comments := func(names []*ast.Ident, groups ...*ast.CommentGroup) {
		if len(names) > 0 && !names[0].IsExported() {
			return
		}
		for _, group := range groups {
			if group == nil {
				continue
			}
			text := group.Text()
			for _, name := range names {
				text = regexp.MustCompile(`\b`+name.Name+`\b`).ReplaceAllString(text, "_")
			}
			check(group.Pos(), "a comment", text)
		}
	}
	comments(nil, file.Doc)
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && !tags[n] && strings.ContainsAny(text, " \n") {
				check(n.Pos(), "a text", text)
			}
		case *ast.FuncDecl:
			comments([]*ast.Ident{n.Name}, n.Doc)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					comments([]*ast.Ident{spec.Name}, spec.Doc)
					if !n.Lparen.IsValid() {
						comments([]*ast.Ident{spec.Name}, n.Doc)
					}
				case *ast.ValueSpec:
					comments(spec.Names, spec.Doc, spec.Comment)
					if spec == n.Specs[0] {
						comments(spec.Names, n.Doc)
					}
				}
			}
		case *ast.Field:
			tags[n.Tag] = true // a tag holds names
			if len(n.Names) > 0 {
				comments(n.Names, n.Doc, n.Comment)
			}
		}
		return true
	})
	return problems
}

// oldWordsIn lists the old words of a text, each with the new one.
func oldWordsIn(name, text string) (problems []string) {
	for folder, texts := range wordsOfOthers {
		for theirs := range texts {
			if strings.HasPrefix(name, folder) {
				text = strings.ReplaceAll(text, theirs, "")
			}
		}
	}
	prose := identifier.ReplaceAllString(text, "")
	for _, word := range oldWordsOfCode {
		if found := word.old.FindString(prose); found != "" {
			problems = append(problems, fmt.Sprintf("says %q: write %q (glossary in pkg/README.md), in %.120q", found, word.now, text))
		}
	}
	return problems
}

// TestWordsCanFail shows the test files with old words, and with words that are
// names.
func TestWordsCanFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ content, want string }{
		{`package x; const a = "estimate what a run takes"`, ""},
		{`package x; const a = "foretell what a run takes"`, `"foretell": write "estimate or predict"`},
		{`package x; const a = "the program left its cage"`, `write "sandbox"`},
		{`package x; const a = "set env.program.cage.read or --cage"`, ""},
		{`package x; const a = "cage"`, ""}, // a key
		{"package x; type T struct { A int `json:\"fate of\"` }", ""},
		{"package x\n\n// F goes on with a run.\nfunc F() {}", `write "resume or continue"`},
		{"package x\n\n// f goes on with a run.\nfunc f() {}", ""},
		{"package x\n\ntype T struct {\n\tA int // its fate\n\tb int // its fate\n}", `write "disposition"`},
		{"package x\n\n// V is a [Verdict] of env.Verdict.\nvar V int", ""},
		{"package x\n\n// Verdict is a score.\ntype Verdict int", ""},
		{"package x\n\n// Verdict is a verdict.\ntype Verdict int", `write "score"`},
		{"// Package x mends files.\npackage x", `write "fix"`},
	} {
		problems := strings.Join(wordProblems(t, "pkg/x/x.go", []byte(c.content)), "\n")
		if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) {
			t.Errorf("%s: got %q, want %q", c.content, problems, c.want)
		}
	}
}

package pysource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Enter()
	os.Exit(m.Run())
}

// pythons are those that the tests ask: the system's, and those that
// LATHE_TEST_PYTHONS lists, separated by colons, each in the bin folder of an
// installation of its own.
func pythons(t testing.TB) []Interpreter {
	t.Helper()
	var all []Interpreter
	for _, path := range filepath.SplitList(os.Getenv("LATHE_TEST_PYTHONS")) {
		all = append(all, Interpreter{Path: path, Read: []string{filepath.Dir(filepath.Dir(path))}})
	}
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		all = append(all, Interpreter{Path: "/usr/bin/python3"})
	}
	if len(all) == 0 {
		t.Skip("there is no /usr/bin/python3")
	}
	return all
}

// TestParse: the syntax of an interpreter, its rules that are no grammar too.
func TestParse(t *testing.T) {
	t.Parallel()
	cases := []struct {
		what, source string
		line         int // -1 for a program that parses
		why          string
	}{
		{"nothing", "", -1, ""},
		{"a line", "x = 1\n", -1, ""},
		{"no end of the last line", "x = 1", -1, ""},
		{"a byte-order mark", "\ufeffx = 1\n", -1, ""},
		{"carriage returns", "x = 1\ry = 2\r\n", -1, ""},
		{"UTF-8 by declaration", "# -*- coding: utf-8 -*-\nx = 'ä'\n", -1, ""},
		{"UTF-8 by another name", "# coding: utf8\nx = 'ä'\n", -1, ""},
		{"a grammar's error", "x = 1\ny = = 2\n", 2, "SyntaxError"},
		{"indentation", "if x:\ny\n", 2, "IndentationError"},
		{"tabs", "if x:\n\ty\n        z\n", 3, "TabError"},
		{"a return outside", "x = 1\nreturn x\n", 2, "outside function"},
		{"an import of the future late", "x = 1\nfrom __future__ import annotations\n", 2, "beginning of the file"},
		{"another encoding", "# coding: utf-7\nx = 1\n", 1, "encoding"},
		{"an encoding that is none", "# coding: klingon\nx = 1\n", 0, "klingon"},
		{"a null byte", "x = 1\x00\n", 0, "null byte"},
		{"not UTF-8", "x = '\xed\xa0\x80'\n", 0, "not UTF-8"},
		{"too long", strings.Repeat("#", MaxSource+1), 0, "longer than"},
		{"parentheses", strings.Repeat("(", 10000) + strings.Repeat(")", 10000), -2, ""},
		{"signs", "x = " + strings.Repeat("-", 100000) + "1\n", -2, ""},
		{"powers of lists", strings.Repeat("[", 90) + strings.Repeat("]", 90) + "\n", -1, ""},
		{"attributes", "x" + strings.Repeat(".a", 100000) + "\n", -2, ""},
		{"a number of 5000 digits", "x = " + strings.Repeat("9", 5000) + "\n", -3, ""},
		{"one of 5000 hexadecimal digits", "x = 0x" + strings.Repeat("f", 5000) + "\n", -1, ""},
		{"the last, unharmed", "def f(x):\n    return x\n", -1, ""},
	}
	for _, python := range pythons(t) {
		sources := make([]string, len(cases))
		for i, c := range cases {
			sources[i] = c.source
		}
		got, err := python.Parse(t.Context(), sources)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range cases {
			p := got[i].Problem
			switch {
			case c.line == -3: // as the version has it
			case c.line == -1 && (p != nil || got[i].Nodes == 0):
				t.Errorf("%s: %s: %v, %d nodes", python.Path, c.what, p, got[i].Nodes)
			case c.line == -2 && p == nil:
				t.Errorf("%s: %s parses", python.Path, c.what)
			case c.line >= 0 && (p == nil || p.Line != c.line || !strings.Contains(p.Why, c.why)):
				t.Errorf("%s: %s: got %v, want line %d, %q", python.Path, c.what, p, c.line, c.why)
			}
		}
	}
}

// TestNodes: x = 1 is Module, Assign, Name, Store, Constant.
func TestNodes(t *testing.T) {
	t.Parallel()
	for _, python := range pythons(t) {
		got, err := python.Parse(t.Context(), []string{"x = 1\n"})
		if err != nil || got[0].Nodes != 5 {
			t.Errorf("%s: got %+v, %v; want 5 nodes", python.Path, got, err)
		}
	}
}

// TestNothingRuns: a program whose running would show is only parsed, by whatever
// is asked of it.
func TestNothingRuns(t *testing.T) {
	t.Parallel()
	const program = "import os, sys\nsys.stdout.write('{}\\n')\nos._exit(3)\n"
	for _, python := range pythons(t) {
		for _, op := range []string{"parse", "instrument", "fingerprint"} {
			got, err := python.each(t.Context(), op, []string{program, "x = 1\n"})
			if err != nil || got[0].Error != "" || got[1].Error != "" {
				t.Errorf("%s %s: got %+v, %v", python.Path, op, got, err)
			}
		}
	}
}

// TestNoPython: what is no Python is the host's error, and no program's.
func TestNoPython(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/cat"); err != nil {
		t.Skip("there is no /bin/cat")
	}
	for _, path := range []string{"/bin/cat", "/nowhere/python3"} {
		if got, err := (Interpreter{Path: path}).Parse(t.Context(), []string{"x = 1\n"}); err == nil {
			t.Errorf("%s answers %+v", path, got)
		}
	}
}

// TestCrashes: a program at which the interpreter ends, or finds no end, does not
// parse; those before and behind it are answered. The interpreter is a script that
// is killed at a program that holds "crash", and cut
// off in the middle of its answer to one that holds "half".
func TestCrashes(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("there is no /bin/sh")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "python3")
	const fake = `#!/bin/sh
echo '{"python": "0"}'
while read -r line; do
  case $line in
  *crash*) kill -9 $$ ;;
  *half*) printf '{"nodes"'; exit 1 ;;
  *) echo '{"nodes": 7}' ;;
  esac
done
`
	if err := os.WriteFile(path, []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	sources := []string{"a", "crash", "b", "c", "half", "crash", "d", "crash"}
	got, err := Interpreter{Path: path, Read: []string{dir}}.Parse(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sources {
		if bad := s == "crash" || s == "half"; bad != (got[i].Problem != nil) || bad == (got[i].Nodes == 7) {
			t.Errorf("%s: got %+v", s, got[i])
		} else if bad && !strings.Contains(got[i].Problem.Error(), "Python ended at it") {
			t.Errorf("%s: %v", s, got[i].Problem)
		}
	}
}

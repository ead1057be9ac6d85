package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// module is a module whose tests pass, fail, skip and leave a file.
const module = `
-- go.mod --
module example.org/gotest
go 1.26
-- quiet/quiet_test.go --
package quiet
import "testing"
func TestQuiet(t *testing.T) { t.Log("not shown") }
-- skips/skips_test.go --
package skips
import "testing"
func TestSkips(t *testing.T) {
	t.Run("part", func(t *testing.T) { t.Skip("there is no device here") })
}
-- leaves/leaves_test.go --
package leaves
import ("os"; "testing")
func TestLeaves(t *testing.T) { os.MkdirTemp("", "left-") }
-- fails/fails_test.go --
package fails
import "testing"
func TestFails(t *testing.T) { t.Error("two is not three") }
func TestPasses(t *testing.T) { t.Log("not shown") }
-- broken/broken_test.go --
package broken
func broken() int { return "text" }
`

func TestRun(t *testing.T) {
	folder := t.TempDir()
	if err := txtar.Write(txtar.Parse([]byte(module)), folder); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("GOFLAGS", "-vet=off")
	for _, test := range []struct {
		name, list, arguments string
		code                  int
		fault, shown, not     string
	}{
		{"a pass", "", "./quiet", 0, "", `(?m)^ok  \texample.org/gotest/quiet\t`, "not shown"},
		{"a failure", "", "./fails ./quiet", 1, "", `(?s)--- FAIL: TestFails .*fails_test.go:3: two is not three\nFAIL\nFAIL\texample.org/gotest/fails`, "not shown|PASS"},
		{"a build that fails", "", "./broken", 1, "", `(?s)cannot use "text".*FAIL\texample.org/gotest/broken \[build failed\]`, "(?m)^ok"},
		{"a skip", "", "./skips", 0, `1 tests skipped that are not in `, `(?s)ok  \t.*SKIPPED, NOT LISTED: example.org/gotest/skips TestSkips/part: there is no device here\n`, "skips_test.go"},
		{"a listed skip", "skips TestSkips no device", "./skips", 0, "", `(?m)^skipped: example.org/gotest/skips TestSkips/part: `, "NOT LISTED"},
		{"any test", "skips * no device", "./skips", 0, "", `(?m)^skipped: `, "NOT LISTED"},
		{"tests of a beginning", "skips TestSki* no device", "./skips", 0, "", `(?m)^skipped: `, "NOT LISTED"},
		{"of another beginning", "skips TestLe* no device", "./skips", 0, `1 tests skipped`, "NOT LISTED", "^skipped"},
		{"another reason", "skips TestSkips no network", "./skips", 0, `1 tests skipped`, "NOT LISTED", "^skipped"},
		{"another package", "kips TestSkips no device", "./skips", 0, `1 tests skipped`, "NOT LISTED", "^skipped"},
		{"a file left", "", "./leaves", 0, `tests left \["left-[0-9]+"\] in the temporary folder`, "ok", "FAIL"},
		{"a bad list", "skips TestSkips", "./skips", 0, `list:1: a package, a test and a part of its reason are wanted`, "", "."},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile("list", []byte(test.list+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			code, err := run("list", strings.Fields(test.arguments), &out)
			fault := ""
			if err != nil {
				fault = err.Error()
			}
			if code != test.code || (fault == "") != (test.fault == "") || !regexp.MustCompile(test.fault).MatchString(fault) {
				t.Errorf("code %d and error %q, want %d and %q", code, fault, test.code, test.fault)
			}
			if text := out.String(); !regexp.MustCompile(test.shown).MatchString(text) || regexp.MustCompile(test.not).MatchString(text) {
				t.Errorf("it shows\n%s\nwant %q and not %q", text, test.shown, test.not)
			}
		})
	}
}

// Every test of the repository's list is there: an entry goes when its test does.
func TestListIsOfTests(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	path := filepath.Join(root, ".ci", "skips.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := parseList(path, string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range listed {
		name, _, _ := strings.Cut(entry.test, "/")
		files, err := filepath.Glob(filepath.Join(root, entry.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		begins, open := strings.CutSuffix("func "+name, "*")
		if !open {
			begins += "("
		}
		found := false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(source), begins)
		}
		if !found {
			t.Errorf("%s: %s has no %s", path, entry.pkg, name)
		}
	}
}

// The tests that took longest are named at the end, subtests and quick ones not.
func TestSlowest(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"pass","Package":"p","Test":"TestB","Elapsed":21.4}
{"Action":"pass","Package":"p","Test":"TestA/one","Elapsed":59}
{"Action":"fail","Package":"q","Test":"TestA","Elapsed":60.2}
{"Action":"pass","Package":"p","Test":"TestC","Elapsed":19.9}
`
	said, err := show(strings.NewReader(events), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	said.printSlowest(&out)
	if want := "slow:   60 s q TestA\nslow:   21 s p TestB\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

package pysource

import (
	"bytes"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// corpus is the Python files of this system's library and packages: of a hundred, by
// the hash of their path, as many as LATHE_TEST_CORPUS says; 0.4 where it is not set.
func corpus(t *testing.T) (paths, sources []string) {
	t.Helper()
	percent := 0.4
	if set := os.Getenv("LATHE_TEST_CORPUS"); set != "" {
		var err error
		if percent, err = strconv.ParseFloat(set, 64); err != nil {
			t.Fatal(err)
		}
	}
	folders, _ := filepath.Glob("/usr/lib/python3*")
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || !strings.HasSuffix(path, ".py") {
				return err
			}
			h := fnv.New32a()
			h.Write([]byte(path))
			if float64(h.Sum32()%1000) >= 10*percent {
				return nil
			}
			content, err := os.ReadFile(path)
			if err == nil && utf8.Valid(content) && len(content) <= MaxSource {
				paths, sources = append(paths, path), append(sources, string(content))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(paths) == 0 {
		t.Skip("there is no library of Python")
	}
	return paths, sources
}

var lineEnds = regexp.MustCompile(`\r\n|\r|\n`)

// splitLines cuts where Python does; the ends stay.
func splitLines(text string) []string {
	var lines []string
	for text != "" {
		end := len(text)
		if at := lineEnds.FindStringIndex(text); at != nil {
			end = at[1]
		}
		lines, text = append(lines, text[:end]), text[end:]
	}
	return lines
}

// withoutPrints takes out the lines that were inserted, each of which must be a
// print of its milestone and no more.
func withoutPrints(t *testing.T, in Instrumented) string {
	t.Helper()
	lines := splitLines(in.Text)
	for _, p := range slices.Backward(in.Prints) {
		if p.Line < 1 || p.Line > len(lines) || !strings.HasPrefix(strings.TrimLeft(lines[p.Line-1], " \t\f"), `print("`+p.Milestone+`"`) {
			t.Fatalf("line %d of %d is no print of %q:\n%s", p.Line, len(lines), p.Milestone, in.Text)
		}
		lines = slices.Delete(lines, p.Line-1, p.Line)
	}
	return strings.Join(lines, "")
}

// TestCorpus: over real programs, an instrumented program parses, is the same but
// for prints, and is the original's lines with others between them.
func TestCorpus(t *testing.T) {
	t.Parallel()
	paths, sources := corpus(t)
	for _, python := range pythons(t) {
		sum := tally{lines: map[string]int{}}
		for at := 0; at < len(paths); at += 200 {
			end := min(at+200, len(paths))
			sum.add(t, python, paths[at:end], sources[at:end])
		}
		t.Logf("%s: %d files, %d parse with %d nodes and %d shapes, prints withheld from %d, inserted %v",
			python.Path, len(paths), sum.parse, sum.nodes, sum.shapes, sum.withheld, sum.lines)
		if sum.parse < len(paths)*9/10 {
			t.Errorf("%d of %d files parse", sum.parse, len(paths))
		}
	}
}

// tally counts what TestCorpus sees.
type tally struct {
	parse, withheld, nodes, shapes int
	lines                          map[string]int
}

func (sum *tally) add(t *testing.T, python Interpreter, paths, sources []string) {
	t.Helper()
	syntax, err := python.Parse(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	instrumented, err := python.Instrument(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	pairs := make([]Pair, len(sources))
	for i, s := range sources {
		pairs[i] = Pair{s, instrumented[i].Text}
	}
	same, err := python.SameButForPrints(t.Context(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	prints, err := python.Fingerprints(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	for i, in := range instrumented {
		if in.Problem != nil || syntax[i].Problem != nil {
			if in.Problem == nil || syntax[i].Problem == nil || in.Text != sources[i] || prints[i] != nil || same[i] == "" ||
				strings.Contains(in.Problem.Why, "script failed") {
				t.Errorf("%s: %v, %v, %s", paths[i], syntax[i].Problem, in.Problem, same[i])
			}
			t.Logf("%s does not parse: %v", paths[i], syntax[i].Problem)
			continue
		}
		sum.parse++
		sum.nodes += syntax[i].Nodes
		sum.shapes += len(prints[i])
		if same[i] != "" || Similarity(prints[i], prints[i]) != 1 {
			t.Errorf("%s: %s, %d shapes", paths[i], same[i], len(prints[i]))
		}
		if in.Withheld != "" {
			sum.withheld++
			t.Logf("%s: withheld: %s", paths[i], in.Withheld)
			continue
		}
		if got := withoutPrints(t, in); got != sources[i] && (strings.TrimRight(got, "\r\n") != sources[i] || len(in.Prints) == 0) {
			t.Errorf("%s: other lines have changed", paths[i])
		}
		for _, p := range in.Prints {
			sum.lines[p.Milestone]++
		}
	}
}

func TestSplitLines(t *testing.T) {
	t.Parallel()
	const text = "a\rb\r\nc\n\x0cd\u2028e"
	if got := splitLines(text); len(got) != 4 || strings.Join(got, "") != text || !bytes.HasSuffix([]byte(got[1]), []byte("\r\n")) {
		t.Errorf("got %q", got)
	}
}

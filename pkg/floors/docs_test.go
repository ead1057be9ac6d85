package floors

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
)

// generatedPages are written by tests from the program's own texts.
var generatedPages = []string{"jobs/REFERENCE.md", "jobs/COMPOSITIONS.md", "jobs/FAMILIES.md", "jobs/COVERAGE.md", "jobs/SETTINGS.md", "pkg/EQUATIONS.md"}

// markdown reads the Markdown files of the repository by their paths, but for texts
// that are no documents: prompts of policies and descriptions of tasks.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	root, pages := sourcetree.Path(), map[string]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"prompts", "small"}, entry.Name()) ||
				slices.Contains([]string{"runs", "bin", "cuda/build", "gpu-bundle"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		content, err := os.ReadFile(file)
		pages[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 10 {
		t.Fatalf("%d pages found", len(pages))
	}
	return pages
}

// TestReadmeIsShort: the project's README has at most 900 words, as wc -w counts.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	if words := len(strings.Fields(markdown(t)["README.md"])); words > 900 {
		t.Errorf("README.md has %d words, want 900 or fewer: move what not every reader needs into a guide", words)
	}
}

var (
	inline  = regexp.MustCompile("`[^`\n]*`")
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
)

// prose blanks what a page quotes, which are code blocks, code in backticks, comments
// and addresses of links. Lines stay where they are.
func prose(page string) string {
	blank := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, s)
	}
	var b strings.Builder
	fenced, above := false, ""
	for line := range strings.Lines(page) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		indented := strings.HasPrefix(line, "    ") && (strings.TrimSpace(above) == "" || strings.HasPrefix(above, "    "))
		if fence || fenced || indented {
			b.WriteString(blank(line))
		} else {
			b.WriteString(line)
		}
		fenced, above = fenced != fence, line
	}
	text := comment.ReplaceAllStringFunc(b.String(), blank)
	text = inline.ReplaceAllStringFunc(text, blank)
	return link.ReplaceAllStringFunc(text, blank)
}

var headings = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors are the addresses that a page's headings have, as GitHub makes them.
func anchors(page string) []string {
	var found []string
	for _, h := range headings.FindAllStringSubmatch(page, -1) {
		found = append(found, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, h[1]))
	}
	return found
}

// pageLinkProblems lists what the links of a page point to and is not there.
func pageLinkProblems(name string, pages map[string]string, there func(path string) bool) []string {
	var problems []string
	for _, found := range link.FindAllStringSubmatch(pages[name], -1) {
		target, anchor, anchored := strings.Cut(found[1], "#")
		if strings.Contains(target, "://") {
			continue
		}
		other := name
		if target != "" {
			other = path.Join(path.Dir(name), target)
		}
		if target != "" && !there(other) {
			problems = append(problems, name+" points to "+other+", which is not there")
		} else if anchored && !slices.Contains(anchors(pages[other]), anchor) {
			problems = append(problems, name+" points to #"+anchor+" of "+other+", which has no such heading")
		}
	}
	return problems
}

// TestLinks: what pages point to is there, headings of other pages among it.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages := markdown(t)
	there := func(name string) bool {
		_, err := os.Stat(sourcetree.Path(filepath.FromSlash(name)))
		return err == nil
	}
	for name := range pages {
		for _, problem := range pageLinkProblems(name, pages, there) {
			t.Error(problem)
		}
	}
	wrong := map[string]string{"a/x.md": "# It's one, `two`\n[a](#its-one-two) [b](y.md) [c](../b.md#none) [d](https://example.org/#x)", "b.md": "# One\n"}
	want := []string{"a/x.md points to a/y.md, which is not there", "a/x.md points to #none of b.md, which has no such heading"}
	if got := pageLinkProblems("a/x.md", wrong, func(name string) bool { return name == "b.md" }); !slices.Equal(got, want) {
		t.Errorf("a page with wrong links: got %q, want %q", got, want)
	}
}

// TestNamedTests: the tests that pages name are there.
func TestNamedTests(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	for file, content := range sources(t) {
		if strings.HasSuffix(file, "_test.go") {
			tests.Write(content)
		}
	}
	for name, page := range markdown(t) {
		for _, named := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(page, -1) {
			if !strings.Contains(tests.String(), "func "+named[1]+"(") {
				t.Errorf("%s names %s, which is no test", name, named[1])
			}
		}
	}
}

package floors

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
)

var (
	// readingRow is a row of jobs/READINGS.md: a name, and where the paper leaves the point
	// open.
	readingRow   = regexp.MustCompile("(?m)^\\| `([a-z]+(?:-[a-z0-9]+)+)` \\| ([^|]+) \\| [^|]+ \\| [^|]+ \\| [^|]+ \\|$")
	readingName  = `(?:exit|flipts|acegrpo|mlerl|rlmle)(?:-[a-z0-9]+)+`
	readingCited = regexp.MustCompile(`\breadings? (` + readingName + `(?:(?:, | and )` + readingName + `)*)`)
	oneReading   = regexp.MustCompile(readingName)
	settingNamed = regexp.MustCompile("`([a-z_]+(?:\\.[a-z_]+)+)`")
)

// readingProblems lists citations of readings that are not on the page, readings that
// nothing cites, and what is wrong with the page: names that are there twice, places that
// are not cited in the one form, settings that the reference does not list.
func readingProblems(page, reference string, files map[string]string) (problems []string) {
	fault := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	cited := map[string]bool{}
	for _, row := range readingRow.FindAllStringSubmatch(page, -1) {
		name, where := row[1], row[2]
		if _, twice := cited[name]; twice {
			fault("%s is on the page twice", name)
		}
		cited[name] = false
		for place := range strings.SplitSeq(where, ", ") {
			if citation.FindString(place) != place {
				fault("%s: %q does not cite a place of a paper as ExIt Eq. 4 or RL-MLE App. C.3", name, place)
			}
		}
	}
	if rows := strings.Count(page, "\n| `"); rows != len(cited) || rows == 0 {
		fault("%d of %d rows have a name, a place and three more columns", len(cited), rows)
	}
	for _, setting := range settingNamed.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(reference, "`"+setting[1]+"`") {
			fault("the setting %s is not in jobs/REFERENCE.md", setting[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := strings.Join(strings.Fields(commentMarks.ReplaceAllString(files[name], "")), " ")
		for _, all := range readingCited.FindAllStringSubmatch(text, -1) {
			for _, reading := range oneReading.FindAllString(all[1], -1) {
				if _, there := cited[reading]; !there {
					fault("%s cites the reading %s, which jobs/READINGS.md does not have", name, reading)
				}
				cited[reading] = true
			}
		}
	}
	for _, reading := range slices.Sorted(maps.Keys(cited)) {
		if !cited[reading] {
			fault("no comment of pkg or jobs cites the reading %s", reading)
		}
	}
	return problems
}

var commentMarks = regexp.MustCompile(`(?m)^[ \t]*(?://|#) ?`)

// TestReadings: what comments of code and recipes cite as a reading of a paper stands in
// jobs/READINGS.md, which has nothing that none cites.
func TestReadings(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for name, content := range sources(t) {
		if !strings.HasSuffix(name, "_test.go") {
			files[name] = string(content)
		}
	}
	recipes := 0
	for _, pattern := range []string{"jobs/*.yaml", "jobs/*/*.yaml", "jobs/*/*/*.yaml"} {
		found, err := filepath.Glob(sourcetree.Path(filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			files[file] = string(content)
			recipes++
		}
	}
	if recipes < 50 {
		t.Fatalf("%d recipes were found", recipes)
	}
	pages := markdown(t)
	for _, problem := range readingProblems(pages["jobs/READINGS.md"], pages["jobs/REFERENCE.md"], files) {
		t.Error(problem)
	}
}

// TestReadingsCanFail shows it pages and citations that are wrong.
func TestReadingsCanFail(t *testing.T) {
	t.Parallel()
	const page = "\n| `exit-a` | ExIt §4.1, ExIt Eq. 3 | x | y (`b.c`) | z |\n| `rlmle-b` | RL-MLE App. C.3 | x | y | z |\n"
	const comment = "// A is it (readings exit-a and\n// rlmle-b)."
	for _, c := range []struct{ page, comment, want string }{
		{page, comment, ""},
		{page, "// A (reading exit-a).", "cites the reading rlmle-b"},
		{page, comment + "\n// Of reading exit-kappa.", "a.go cites the reading exit-kappa, which"},
		{page + "| `exit-a` | ExIt §4.1 | x | y | z |\n", comment, "exit-a is on the page twice"},
		{strings.Replace(page, "§4.1", "Section 4.1", 1), comment, `"ExIt Section 4.1" does not cite`},
		{strings.Replace(page, "| x | y | z |", "| x | y |", 1), comment, "1 of 2 rows"},
		{strings.Replace(page, "b.c", "b.d", 1), comment, "the setting b.d is not in"},
	} {
		problems := strings.Join(readingProblems(c.page, "| `b.c` | number |", map[string]string{"a.go": c.comment}), "\n")
		if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) {
			t.Errorf("%q with %q: got %q, want %q", c.page, c.comment, problems, c.want)
		}
	}
}

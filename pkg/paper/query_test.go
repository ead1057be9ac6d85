package paper

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/measure"
)

// pythonVariable names a Python with duckdb, pyarrow and polars; without it, python3 on
// PATH is asked.
const pythonVariable = "LATHE_TEST_ANALYSIS"

// python finds one that has a module.
func python(t *testing.T, module string) string {
	t.Helper()
	name := os.Getenv(pythonVariable)
	if name == "" {
		name = "python3"
	}
	if err := exec.Command(name, "-c", "import "+module).Run(); err != nil {
		t.Skipf("%s names no Python with %s", pythonVariable, module)
	}
	return name
}

// asked runs files of analysis/ on a run, in DuckDB.
const asked = `
import duckdb, json, sys
db, answers = duckdb.connect(), {}
db.execute("SET VARIABLE run = '" + sys.argv[1] + "'")
for file in sys.argv[2:]:
    try:
        answer = db.sql(open(file).read())
        answers[file] = {"rows": [dict(zip(answer.columns, row)) for row in answer.fetchall()]}
    except Exception as problem:
        answers[file] = {"problem": str(problem)}
print(json.dumps(answers, default=float))
`

// rowsOf are the rows of files of analysis/ on a run, by the files' names without their ends.
func rowsOf(t *testing.T, interpreter, run string, files []string) map[string][]map[string]any {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), interpreter, slices.Concat([]string{"-c", asked, run}, files)...).Output()
	var said map[string]struct {
		Rows    []map[string]any
		Problem string
	}
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rows := map[string][]map[string]any{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		if rows[name] = said[file].Rows; said[file].Problem != "" {
			t.Errorf("%s: %s", name, said[file].Problem)
		}
	}
	return rows
}

// heldTo are numbers of a paper's item that a file of analysis/ has too. In braces stand a
// row's columns, and {when}, which its policy version is.
type heldTo struct {
	file, run, paper, item string
	group                  string
	x                      string            // column that is X; empty for a table
	columns                map[string]string // column by measure
	only                   map[string]any    // values of columns, of the rows that are compared
	before                 string            // what the item calls the policy before training; empty for the usual name
	sparse                 bool              // rows are the X at which something changes: a number is that of the last one up to its own
	besides                []string          // ends of measures and groups of the item that the file, or these rows of it, have not
}

// filled puts a row's columns where they stand in braces.
func filled(text string, row map[string]any) string {
	for column, value := range row {
		text = strings.ReplaceAll(text, "{"+column+"}", fmt.Sprint(value))
	}
	return text
}

// column is the column of a row that has a number; empty for none.
func (h heldTo) column(row map[string]any, n Number) string {
	if n.When != "" && row["when"] != nil && n.When != row["when"] || filled(h.group, row) != n.Group {
		return ""
	}
	if h.x != "" {
		if x := row[h.x].(float64); !h.sparse && math.Abs(*n.X-x) > 1e-9 || h.sparse && x > *n.X+1e-9 {
			return ""
		}
	}
	for measure, column := range h.columns {
		if row[column] != nil && filled(measure, row) == n.Measure {
			return column
		}
	}
	return ""
}

// The files of analysis/ have the same numbers as the measures of their names and as the
// tables of papers: each value is in a row of its file, and each row has a value.
func TestSQL(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "duckdb")
	queries, whole := queriesOf(t)
	files, results := map[string][]string{}, map[[2]string]Result{} // by run, and by paper and run
	for _, m := range measure.All {
		for _, run := range whole {
			if m.SQL {
				files[run] = append(files[run], filepath.Join("../../analysis", m.Name+".sql"))
			}
		}
	}
	for _, h := range queries {
		if file := filepath.Join("../../analysis", h.file+".sql"); !slices.Contains(files[h.run], file) {
			files[h.run] = append(files[h.run], file)
		}
		results[[2]string{h.paper, h.run}] = Result{}
	}
	rows := map[string]map[string][]map[string]any{}
	for run := range files {
		rows[run] = rowsOf(t, interpreter, run, files[run])
	}
	holdMeasures(t, whole, rows)
	for of := range results {
		results[of] = papersOf(t, of[0], filepath.Dir(of[1]))
	}
	for _, h := range queries {
		t.Run(h.file+" "+h.paper+" "+h.item, func(t *testing.T) {
			t.Parallel()
			h.compare(t, rows[h.run][h.file], item(t, results[[2]string{h.paper, h.run}], h.item).Numbers)
		})
	}
}

// compare compares the rows of a file with the numbers of an item.
func (h heldTo) compare(t *testing.T, rows []map[string]any, numbers []Number) {
	t.Helper()
	when := map[any]string{0.: cmp.Or(h.before, beforeTraining), 2.: afterTraining}
	var own []map[string]any
	for _, row := range rows {
		row = maps.Clone(row)
		if version, has := row["policy_version"]; has {
			row["when"] = when[version]
		}
		compared := slices.ContainsFunc(slices.Collect(maps.Values(h.columns)), func(column string) bool { return row[column] != nil })
		for column, value := range h.only {
			compared = compared && row[column] == value
		}
		if compared {
			own = append(own, row)
		}
	}
	rows = own
	used := make([]bool, len(rows))
	compared := 0
	for _, n := range numbers {
		at, column := -1, ""
		for i, row := range rows {
			if name := h.column(row, n); name != "" {
				at, column, used[i] = i, name, true
			}
		}
		if at < 0 {
			if !slices.ContainsFunc(h.besides, func(end string) bool { return strings.HasSuffix(n.Measure, end) || strings.HasSuffix(n.Group, end) }) {
				t.Errorf("no row has %+v", n)
			}
			continue
		}
		compared++
		if got := rows[at][column].(float64); math.Abs(n.Mean-got) > 1e-9 {
			t.Errorf("%s of %v is %v, and %v in the paper's item", column, rows[at], got, n.Mean)
		}
	}
	for i, row := range rows {
		if !used[i] && !h.sparse {
			t.Errorf("the paper's item has nothing of %v", row)
		}
	}
	if compared == 0 {
		t.Errorf("nothing was compared of %v", rows)
	}
}

// Every file of analysis/ says what it asks, and its line in the README is there.
func TestQueriesAreListed(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../analysis/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../analysis/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	examples, err := filepath.Glob("../../analysis/*_p*.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, examples...) {
		if name := filepath.Base(file); !strings.Contains(string(readme), "`"+name) {
			t.Errorf("analysis/README.md does not say what %s asks", name)
		}
	}
}

// The examples print what the tables have.
func TestExamples(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for i := range 2 {
		made(t, filepath.Join(folder, strconv.Itoa(i)), byHand(float64(i)), fmt.Sprintf("seed=%d", i))
	}
	for _, c := range []struct {
		name, module string
		want         string
	}{
		// Net corrections 1 and 2: 1.5 ± 1/√2.
		{"corrections_pyarrow.py", "pyarrow", "0\t0.000\t0.000\n1\t1.500\t0.707\n"},
		// F2S, S2S, S2F and F2F.
		{"transitions_polars.py", "polars", "1\t33.333\t0.000\t33.333\t33.333\n2\t25.000\t25.000\t0.000\t50.000\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), python(t, c.module), filepath.Join("../../analysis", c.name), filepath.Join(folder, "0"), filepath.Join(folder, "1")).CombinedOutput()
			if err != nil || string(out) != c.want {
				t.Errorf("%v: it printed\n%s\nwant\n%s", err, out, c.want)
			}
		})
	}
}

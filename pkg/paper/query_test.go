package paper

import (
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

// asked runs a file of analysis/ in DuckDB, on a run.
const asked = `
import duckdb, json, sys
db = duckdb.connect()
db.execute("SET VARIABLE run = '" + sys.argv[2] + "'")
answer = db.sql(open(sys.argv[1]).read())
print(json.dumps([dict(zip(answer.columns, row)) for row in answer.fetchall()]))
`

// heldTo are numbers of a paper's item that a file of analysis/ has too. In braces stand a
// row's columns, and {when}, which its policy version is.
type heldTo struct {
	file, run, paper, item string
	group                  string
	x                      string            // column that is X; empty for a table
	columns                map[string]string // measure by column
	sparse                 bool              // rows are the X at which something changes: a number is that of the last one up to its own
	besides                []string          // measures of the item that the file has not
}

// filled puts a row's columns where they stand in braces.
func filled(text string, row map[string]any) string {
	for column, value := range row {
		text = strings.ReplaceAll(text, "{"+column+"}", fmt.Sprint(value))
	}
	return text
}

// matches reports whether a row has a number, and which column is it.
func (h heldTo) matches(row map[string]any, n Number) (column string, does bool) {
	if when, timed := row["when"]; timed && n.When != "" && n.When != when || filled(h.group, row) != n.Group {
		return "", false
	}
	if h.x != "" && !h.sparse && math.Abs(*n.X-row[h.x].(float64)) > 1e-9 || h.sparse && row[h.x].(float64) > *n.X+1e-9 {
		return "", false
	}
	for column, measure := range h.columns {
		if row[column] != nil && filled(measure, row) == n.Measure {
			return column, true
		}
	}
	return "", false
}

// The files of analysis/ and the tables of papers have the same numbers: each number of an
// item is in a row of its file, and each row of a file in its item.
func TestSQL(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "duckdb")
	answers, graded := filepath.Join(t.TempDir(), "one"), filepath.Join(programsRun(t), "one")
	made(t, answers, byHand(0))
	for _, h := range []heldTo{
		{file: "net_corrections", run: answers, paper: "exit", item: "figure-8", x: "step", group: "{set}", columns: map[string]string{"net_corrections": "net corrections", "net_improvements": "net improvements"}},
		{file: "sampled_instances", run: answers, paper: "exit", item: "figure-6", x: "iteration", columns: map[string]string{"depth": "depth", "start_turn": "start turn", "level": "level of the task"}},
		{file: "sampled_instances", run: answers, paper: "exit", item: "figure-5-left", x: "iteration", columns: map[string]string{"recency": "recency (iterations)", "starting_depth": "starting depth"}},
		{file: "distinct_instances", run: answers, paper: "exit", item: "figure-7", columns: map[string]string{
			"distinct_instances": "distinct instances", "relative_to_training_set": "relative to the training set", "share_of_sampled": "share of the sampled",
		}},
		{file: "sampling_dynamics", run: answers, paper: "flipts", item: "figure-6", x: "iteration", columns: map[string]string{
			"f2s": "F2S (%)", "effective_f2s": "effective F2S (%)", "final_success": "final success (%)", "nonzero_advantage": "advantage other than 0 (%)",
		}},
		{file: "first_valid", run: graded, paper: "ace", item: "figure-3", group: "{when}", columns: map[string]string{
			"medal": "medal (%)", "humanrank": "HumanRank (%)", "number": "number of the program", "with_valid": "traces with one (%)",
		}},
		{file: "best_by_attempt", run: graded, paper: "ace", item: "figure-4", x: "attempts", columns: map[string]string{"any_medal": "any medal (%)", "humanrank": "HumanRank (%)"}},
		{file: "best_programs", run: graded, paper: "rlmle", item: "figure-7", x: "iteration", group: "{task_id}", columns: map[string]string{"best_score": "best score"}},
		{file: "rank_distribution", run: graded, paper: "mlerl", item: "figure-3-a", x: "from_percent", columns: map[string]string{"submissions": "submissions (%)"}},
		{file: "selection", run: graded, paper: "mlerl", item: "table-4", group: "after", columns: map[string]string{"data": "data (%)"}, besides: []string{"HumanRank (%)", "above median (%)", "any medal (%)"}},
	} {
		t.Run(h.file+" "+h.paper+" "+h.item, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), interpreter, "-c", asked, filepath.Join("../../analysis", h.file+".sql"), h.run).Output()
			var rows []map[string]any
			if err == nil {
				err = json.Unmarshal(out, &rows)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			held(t, h, rows, item(t, papersOf(t, h.paper, filepath.Dir(h.run)), h.item).Numbers)
		})
	}
}

// held compares the rows of a file with the numbers of an item.
func held(t *testing.T, h heldTo, rows []map[string]any, numbers []Number) {
	t.Helper()
	when := map[any]string{0.: beforeTraining, 2.: afterTraining}
	used := make([]bool, len(rows))
	compared := 0
	for _, n := range numbers {
		at, column := -1, ""
		for i, row := range rows {
			if version, has := row["policy_version"]; has {
				if row["when"] = when[version]; row["when"] == "" {
					continue // a version that was measured between them
				}
			}
			if own, does := h.matches(row, n); does {
				at, column, used[i] = i, own, true
			}
		}
		if at < 0 {
			if !slices.Contains(h.besides, n.Measure) {
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
		says := slices.ContainsFunc(slices.Collect(maps.Keys(h.columns)), func(column string) bool { return row[column] != nil })
		if says && !used[i] && row["when"] != "" {
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

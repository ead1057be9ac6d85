package paper

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
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

// The files of analysis/ and the tables of papers have the same numbers.
func TestSQL(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "duckdb")
	answers, graded := t.TempDir(), programsRun(t)
	made(t, filepath.Join(answers, "one"), byHand(0))
	for _, c := range []struct {
		file, folder, paper, item, x, group string
		columns                             map[string]string // measure by column
	}{
		{"net_corrections", answers, "exit", "figure-8", "step", "test", map[string]string{"net_corrections": "net corrections"}},
		{"sampled_instances", answers, "exit", "figure-6", "iteration", "", map[string]string{"depth": "depth", "start_turn": "start turn", "level": "level of the task"}},
		{"sampled_instances", answers, "exit", "figure-5-left", "iteration", "", map[string]string{"recency": "recency (iterations)", "starting_depth": "starting depth"}},
		{"distinct_instances", answers, "exit", "figure-7", "", "", map[string]string{
			"distinct_instances": "distinct instances", "relative_to_training_set": "relative to the training set", "share_of_sampled": "share of the sampled",
		}},
		{"sampling_dynamics", answers, "flipts", "figure-6", "iteration", "", map[string]string{
			"f2s": "F2S (%)", "effective_f2s": "effective F2S (%)", "final_success": "final success (%)", "nonzero_advantage": "advantage other than 0 (%)",
		}},
		{"first_valid", graded, "ace", "figure-3", "", "after", map[string]string{
			"medal": "medal (%)", "humanrank": "HumanRank (%)", "number": "number of the program", "with_valid": "traces with one (%)",
		}},
		{"best_by_attempt", graded, "ace", "figure-4", "attempts", "", map[string]string{"any_medal": "any medal (%)", "humanrank": "HumanRank (%)"}},
		{"best_programs", graded, "rlmle", "figure-7", "iteration", "*", map[string]string{"best_score": "best score"}},
		{"rank_distribution", graded, "mlerl", "figure-3-a", "from_percent", "", map[string]string{"submissions": "submissions (%)"}},
		{"selection", graded, "mlerl", "table-4", "", "", map[string]string{"data": "data (%)"}},
	} {
		t.Run(c.file+" "+c.item, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), interpreter, "-c", asked, filepath.Join("../../analysis", c.file+".sql"), filepath.Join(c.folder, "one")).Output()
			var rows []map[string]any
			if err == nil {
				err = json.Unmarshal(out, &rows)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			numbers := item(t, papersOf(t, c.paper, c.folder), c.item).Numbers
			compared := 0
			for _, row := range rows {
				if version, has := row["policy_version"]; has && version != 2. {
					continue
				}
				for column, measure := range c.columns {
					if row[column] == nil {
						continue
					}
					found := false
					for _, n := range numbers {
						if n.Measure != measure || c.group != "*" && n.Group != c.group || c.x != "" && *n.X != row[c.x] {
							continue
						}
						found = true
						compared++
						if math.Abs(n.Mean-row[column].(float64)) > 1e-9 {
							t.Errorf("%s of %v is %v, and %v in the paper's item", column, row, row[column], n.Mean)
						}
					}
					if !found {
						t.Errorf("the paper's item has no %q of %v", measure, row)
					}
				}
			}
			if compared == 0 {
				t.Errorf("nothing was compared of %v", rows)
			}
		})
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

package task

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

const preparer = "../../../data/mle"

// prepare runs the preparer, with variables of the environment set, and says
// what it printed on both outputs and its exit code.
func prepare(t *testing.T, environment []string, args ...string) (out, problems string, code int) {
	t.Helper()
	const python = "/usr/bin/python3" // Debian's, which sees Debian's packages
	if _, err := os.Stat(python); err != nil {
		t.Skipf("there is no %s", python)
	}
	command := exec.Command(python, append([]string{filepath.Join(preparer, "prepare.py")}, args...)...)
	command.Env = append(os.Environ(), environment...)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	var failed *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), command.ProcessState.ExitCode()
}

// cells reads a column of a CSV file.
func cells(t *testing.T, file, name string) []string {
	t.Helper()
	table := read(t, file)
	at := slices.Index(table.Header, name)
	if at < 0 {
		t.Fatalf("%s: no column %q among %q", file, name, table.Header)
	}
	found := make([]string, len(table.Rows))
	for i, row := range table.Rows {
		found[i] = row[at]
	}
	return found
}

func read(t *testing.T, file string) mlebench.Table {
	t.Helper()
	table, err := mlebench.ReadTable(load(t, file))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return table
}

func load(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// contents is the content of all files of a folder, by their path in it.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[path] = string(load(t, filepath.Join(folder, path)))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// TestPrepared makes the tasks that need python3-sklearn alone.
func TestPrepared(t *testing.T) {
	t.Parallel()
	tasks := []string{"handwritten-digits", "breast-mass-malignancy", "wine-cultivars", "diabetes-progression"}
	folder, again := t.TempDir(), t.TempDir()
	sum, problems, code := prepare(t, nil, folder, "--tasks", strings.Join(tasks, ","))
	if first, _, _ := strings.Cut(problems, "\n"); strings.Contains(first, "needs `apt-get install") {
		t.Skip(first)
	}
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, problems)
	}
	if second, _, _ := prepare(t, nil, again, "--tasks", strings.Join(tasks, ",")); second != sum {
		t.Errorf("the sums of two runs are %s and %s", sum, second)
	}
	files, other := contents(t, folder), contents(t, again)
	for name, content := range files {
		if other[name] != content {
			t.Errorf("%s differs in a second run", name)
		}
	}
	if len(files) != len(other) || len(files) < 1797+6*len(tasks) { // 1797 digits
		t.Errorf("%d files, and %d in a second run", len(files), len(other))
	}
	for _, task := range tasks {
		t.Run(task, func(t *testing.T) {
			t.Parallel()
			checkPrepared(t, filepath.Join(folder, task))
		})
	}
}

func checkPrepared(t *testing.T, folder string) {
	task, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(folder, "public")
	sample := load(t, filepath.Join(public, "sample_submission.csv"))
	if score, err := task.Grader.Score(sample); err != nil || score != task.ScoreRange.Worst {
		t.Errorf("the sample submission, which is constant, scores %v, %v; the worst of the range is %v", score, err, task.ScoreRange.Worst)
	}
	if task.ScoreRange.Best < task.ScoreRange.Worst != task.LowerIsBetter() || task.Leaderboard.Of != "reference" {
		t.Errorf("the range is %+v, that lower is better is %v, and the board is of %s", task.ScoreRange, task.LowerIsBetter(), task.Leaderboard.Of)
	}
	train, test := cells(t, filepath.Join(public, "train.csv"), task.IDColumn), cells(t, filepath.Join(public, "test.csv"), task.IDColumn)
	seen := map[string]bool{}
	for _, id := range slices.Concat(train, test) {
		if seen[id] {
			t.Errorf("the id %s is there twice", id)
		}
		seen[id] = true
	}
	if asked := cells(t, filepath.Join(folder, "private", "answers.csv"), task.IDColumn); !slices.Equal(asked, test) {
		t.Error("the answers are not those of the test rows in their order")
	}
	for _, name := range read(t, filepath.Join(public, "test.csv")).Header {
		if slices.Contains(task.TargetColumns, name) {
			t.Errorf("the test rows have the column %q, which is asked for", name)
		}
	}
	if share := float64(len(test)) / float64(len(seen)); share < 0.14 || share > 0.22 {
		t.Errorf("%d of %d rows are held out; 0.18 are on average", len(test), len(seen))
	}
}

// TestPreparerNamesPackages runs the preparer where no package is to be found.
func TestPreparerNamesPackages(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, problems, code := prepare(t, []string{"PATH=" + t.TempDir()}, folder, "--tasks", "wine-cultivars,spam-mail")
	want := "wine-cultivars: needs `apt-get install python3-sklearn`\n" +
		"spam-mail: needs `apt-get install r-cran-kernlab r-base-core`\n"
	if code != 1 || problems != want {
		t.Errorf("exit code %d: %s; want 1: %s", code, problems, want)
	}
	if files := contents(t, folder); len(files) > 0 {
		t.Errorf("%d files are written", len(files))
	}
}

// TestReferenceBoards reads the board of each task that the preparer has.
func TestReferenceBoards(t *testing.T) {
	t.Parallel()
	list, problems, code := prepare(t, nil, "--list")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, problems)
	}
	sums := string(load(t, filepath.Join(preparer, "boards", "SHA256SUMS")))
	lines := strings.Split(strings.TrimSpace(list), "\n")
	page := string(load(t, filepath.Join(preparer, "README.md")))
	splits := map[string]int{}
	for _, line := range lines {
		fields := strings.Fields(line) // id, split, modality, metric, packages
		id := fields[0]
		splits[fields[1]]++
		m, err := metric.Lookup(fields[3])
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		file := filepath.Join(preparer, "boards", id+".csv")
		scores, baselines := cells(t, file, "score"), cells(t, file, "baseline")
		scored := "rank,score\n"
		for i, score := range scores {
			scored += strconv.Itoa(i+1) + "," + score + "\n"
		}
		board, err := mlebench.ReadBoard([]byte(scored))
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if board.LowerIsBetter() != (m.Direction == metric.Minimize) || board.Degenerate() {
			t.Errorf("%s: the board runs from %s to %s, and %s is to %s", id, scores[0], scores[len(scores)-1], m.Name, m.Direction)
		}
		names := slices.Compact(slices.Sorted(slices.Values(baselines)))
		if len(scores) < 20 || len(scores) > 40 || len(names) != len(baselines) || !slices.Contains(names, "constant") {
			t.Errorf("%s: %d entries of %d baselines: %q", id, len(scores), len(names), names)
		}
		if !strings.Contains(sums, "  "+id+"\n") {
			t.Errorf("%s: SHA256SUMS lacks it", id)
		}
		if !strings.Contains(page, "\n| "+id+" |") {
			t.Errorf("%s: README.md lacks it", id)
		}
	}
	if boards, err := filepath.Glob(filepath.Join(preparer, "boards", "*.csv")); err != nil || len(boards) != len(lines) {
		t.Errorf("%d boards of %d tasks, %v", len(boards), len(lines), err)
	}
	if splits["train"] < 16 || splits["test"] < 5 {
		t.Errorf("tasks by split: %v", splits)
	}
}

// TestScorer compiles and runs the program that scores the baselines.
func TestScorer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	out, err := exec.Command("go", "run", filepath.Join(preparer, "score.go"),
		file("task.json", `{"ID": "t", "Metric": "mae", "IDColumn": "id", "Columns": ["y"]}`),
		file("answers.csv", "id,y\n1,2\n2,4\n"),
		file("a.csv", "id,y\n1,2\n2,3\n"), file("b.csv", "id,y\n1,2\n")).CombinedOutput()
	want := "0.5\nchecking a submission to \"t\": there are 1 rows where 2 are asked for: column \"id\" lacks id \"2\"\n"
	if err != nil || string(out) != want {
		t.Errorf("%v: %s; want %s", err, out, want)
	}
}

package mle

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// byPaths is a grader that reads both files itself: the share of kinds that are right.
const byPaths = `import csv
from mlebench.grade_helpers import InvalidSubmissionError
def rows(path):
    return {r["id"]: r["kind"] for r in csv.DictReader(open(path))}
def grade(submission, answers):
    said, right = rows(submission), rows(answers)
    if set(said) != set(right):
        raise InvalidSubmissionError("Submission must have the ids of the answers")
    BEFORE
    return sum(said[i] == right[i] for i in right) / len(right)
`

// asGrader makes the task of [seeds] one with a grader of its own.
func asGrader(t *testing.T, e *Env, of env.Task, source, more string) string {
	t.Helper()
	folder := e.entries[of.ID].folder
	text := "title: Kinds of seeds\ngrader: {file: grade.py, memory_mb: 256, processes: 16" + more + "}\n" +
		"direction: maximize\nscore_range: {worst: 0.5, best: 1}\nleaderboard: {of: reference}\nlimits: {wall_seconds: 60, memory_mb: 256}\n"
	must.Do(t, os.WriteFile(filepath.Join(folder, "task.yaml"), []byte(text), 0o644))
	must.Do(t, os.WriteFile(filepath.Join(folder, "grade.py"), []byte(source), 0o644))
	return folder
}

// ownGraded is an environment over a task with a grader of its own.
func ownGraded(t *testing.T, source, more string) (*Env, env.Task, string) {
	t.Helper()
	e, of := open(t, nil)
	folder := asGrader(t, e, of, source, more)
	e = must.Get(build(e.settings, Data{Tasks: []string{folder}}, ""))(t)
	e.runner.interpreter = python3
	return e, e.Tasks(env.Train)[0], folder
}

// TestOwnGrader: a grader of one's own gives the score, refuses with its message, and
// where it does not work that is an error of the task, whatever it printed. A line of the
// checker has the same answer.
func TestOwnGrader(t *testing.T) {
	t.Parallel()
	const twoOfThree = "id,kind\n4,a\n5,b\n6,a\n"
	for _, c := range []struct {
		what, before, more, submission string
		score                          float64
		refused, broken                string // a part of the message
	}{
		{what: "works", submission: twoOfThree, score: .66667},
		{what: "refuses", submission: "id,kind\n4,a\n", refused: "not valid: checking a submission to \"seeds\": Submission must have the ids of the answers."},
		{what: "raises at it alone", submission: "a,b\n1,2\n", refused: "the grader raised KeyError: 'id'"},
		{what: "has a long message", before: "raise InvalidSubmissionError('é\\n' * 5000)", submission: twoOfThree, refused: "é é é"},
		{what: "prints rubbish", before: `print('{"score": "1"}\n' * 100000); open("result.json", "w").write("rubbish")`, submission: twoOfThree, score: .66667},
		{what: "is not a number", before: "return float('nan')", submission: twoOfThree, score: math.NaN()},
		{what: "is a text", before: "return '0.5'", submission: twoOfThree, score: .5},
		{what: "returns none", before: "return None", submission: twoOfThree, broken: "TypeError"},
		{what: "raises at all", before: "raise ValueError('no such thing')", submission: twoOfThree, broken: "at the sample submission raised ValueError: no such thing"},
		{what: "does not parse", before: "return (", submission: twoOfThree, broken: "SyntaxError"},
		{what: "lacks a module", before: "import nothing_at_all", submission: twoOfThree, broken: "nothing_at_all"},
		{what: "ends", before: "import os; os._exit(0)", submission: twoOfThree, broken: "result"},
		{what: "ends badly", before: "import sys; sys.exit(3)", submission: twoOfThree, broken: "exit code 3"},
		{what: "loops", before: "while True: pass", more: ", wall_seconds: 1", submission: twoOfThree, broken: "ran for more than 1s"},
		{what: "takes too much", before: "import time; x = bytearray(1 << 30); time.sleep(1000)", submission: twoOfThree, broken: "emory"},
		{what: "loops at it alone", before: "while 'z' in said.values(): pass", more: ", wall_seconds: 1", submission: "id,kind\n4,z\n5,b\n6,a\n", refused: "ran for more than 1s"},
		{what: "takes too much at it alone", before: "import time; x = 'z' in said.values() and (bytearray(1 << 30), time.sleep(1000))", submission: "id,kind\n4,z\n5,b\n6,a\n", refused: "more memory"},
		{what: "ends at it alone", before: "import sys; 'z' in said.values() and sys.exit(3)", submission: "id,kind\n4,z\n5,b\n6,a\n", refused: "exit code 3"},
		{what: "forks a child that comes back", before: "import os; os.fork()", submission: twoOfThree, score: .66667},
		{what: "forks without end", before: "import os\n    while True: os.fork()", submission: twoOfThree, broken: "does not work"},
		{what: "writes beside the answers", before: "open(answers + '.copy', 'w')", submission: twoOfThree, broken: "Error"},
		{what: "calls out", before: "import socket; socket.create_connection(('127.0.0.1', 9), 1)", submission: twoOfThree, broken: "Error"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			e, of, _ := ownGraded(t, strings.ReplaceAll(byPaths, "BEFORE", c.before), ", tables: paths"+c.more)
			path := filepath.Join(t.TempDir(), "submission.csv")
			must.Do(t, os.WriteFile(path, []byte(c.submission), 0o644))
			v, err := e.Score(t.Context(), attempt(of, "```python\nopen('submission.csv','w').write('''"+c.submission+"''')\n```"))
			checked, checkErr := (&lineVerifier{env: e}).grade(checkLine{ID: 1, Submission: path}, must.Get(e.folder(of))(t))
			if broken := new(mlebench.GraderError); c.broken != "" {
				if !errors.As(err, &broken) || !strings.Contains(err.Error(), c.broken) || len(err.Error()) > 3000 {
					t.Errorf("error %v, want a broken grader: %s", err, c.broken)
				}
				if !errors.As(checkErr, &broken) || !strings.Contains(checkErr.Error(), c.broken) {
					t.Errorf("the checker's error %v, want a broken grader: %s", checkErr, c.broken)
				}
				return
			}
			if err != nil || checkErr != nil {
				t.Fatalf("errors %v and %v", err, checkErr)
			}
			g := checked.(graded)
			if c.refused != "" {
				if v.Outcome != shard.OutcomeInvalid || !strings.Contains(v.Feedback, c.refused) || len(v.Feedback) > 3000 || strings.Count(v.Feedback, "\n") > 1 {
					t.Errorf("%s: %q", v.Outcome, v.Feedback)
				}
				if g.ValidSubmission || !strings.Contains(v.Feedback, strings.TrimSuffix(g.Why, ".")) {
					t.Errorf("checked %+v", g)
				}
				return
			}
			if v.Outcome != shard.OutcomeOK || !g.ValidSubmission {
				t.Fatalf("%s: %q; checked %+v", v.Outcome, v.Feedback, g)
			}
			if math.IsNaN(c.score) {
				if v.RawScore != .5 || g.Score != nil {
					t.Errorf("score %v, checked %v", v.RawScore, g.Score)
				}
			} else if v.RawScore != c.score || *g.Score != c.score {
				t.Errorf("score %v, checked %v, want %v", v.RawScore, *g.Score, c.score)
			}
		})
	}
}

// TestGraderIsPrivate: a policy's program reads neither the grader nor the answers, and
// none of it is beside what it submits.
func TestGraderIsPrivate(t *testing.T) {
	t.Parallel()
	e, of, folder := ownGraded(t, strings.ReplaceAll(byPaths, "BEFORE", "pass"), ", tables: paths")
	for _, read := range []string{filepath.Join(folder, "grade.py"), filepath.Join(folder, "private/answers.csv"), folder} {
		said := "```python\nimport os\nprint(os.listdir('" + read + "') if os.path.isdir('" + read + "') else open('" + read + "').read())\n```"
		v, err := e.Score(t.Context(), attempt(of, said))
		shown := strings.Contains(v.Feedback, "Error") || read == folder && strings.Contains(v.Feedback, "['public']") // the way to what it is given
		if err != nil || v.Outcome != shard.OutcomeInvalid || !shown {
			t.Errorf("%s: %v, %s: %q", read, err, v.Outcome, v.Feedback)
		}
	}
	must.Do(t, os.Rename(filepath.Join(folder, "grade.py"), filepath.Join(folder, "public", "grade.py")))
	text := string(must.Get(os.ReadFile(filepath.Join(folder, "task.yaml")))(t))
	must.Do(t, os.WriteFile(filepath.Join(folder, "task.yaml"), []byte(strings.Replace(text, "file: grade.py", "file: public/grade.py", 1)), 0o644))
	if _, err := build(e.settings, Data{Tasks: []string{folder}}, ""); err == nil || !strings.Contains(err.Error(), "lies in the public folder") {
		t.Errorf("a grader in the public folder: %v", err)
	}
}

// byFrames is a grader as MLE-bench has them, which imports a neighbour.
const byFrames = `import pandas as pd
from mlebench.grade_helpers import InvalidSubmissionError
from .columns import ID
def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    if ID not in submission.columns:
        raise InvalidSubmissionError(f"Submission is missing {ID}")
    both = submission.merge(answers, on=ID)
    return (both["kind_x"] == both["kind_y"]).mean()
`

// TestGraderOfDataFrames: MLE-bench's form, also for files that are no task.
func TestGraderOfDataFrames(t *testing.T) {
	t.Parallel()
	if exec.Command("/usr/bin/python3", "-c", "import pandas").Run() != nil {
		t.Skip("/usr/bin/python3 has no scikit-learn and pandas")
	}
	e, of, folder := ownGraded(t, byFrames, "")
	must.Do(t, os.WriteFile(filepath.Join(folder, "columns.py"), []byte("ID = 'id'\n"), 0o644))
	e = must.Get(build(e.settings, Data{Tasks: []string{folder}}, ""))(t)
	e.runner.interpreter = python3
	if v, err := e.Score(t.Context(), attempt(of, program("4"))); err != nil || v.RawScore != .66667 {
		t.Errorf("%v, %v: %q", err, v.RawScore, v.Feedback)
	}
	if v, err := e.Score(t.Context(), attempt(of, "```python\nopen('submission.csv','w')\n```")); err != nil || !strings.Contains(v.Feedback, "Submission is missing id") {
		t.Errorf("an empty file: %v, %q", err, v.Feedback)
	}
	path := filepath.Join(t.TempDir(), "submission.csv")
	must.Do(t, os.WriteFile(path, []byte("id,kind\n4,a\n5,b\n6,a\n"), 0o644))
	v := &lineVerifier{env: e, answers: map[string]*mlebench.Competition{}}
	got, err := v.verdict(checkLine{ID: 1, Grader: filepath.Join(folder, "grade.py"), Answers: filepath.Join(folder, "private/answers.csv"), Submission: path})
	if want := (scoredSubmission{ID: 1, Score: 2. / 3, Valid: true}); err != nil || got != want {
		t.Errorf("%v, %+v, want %+v", err, got, want)
	}
}

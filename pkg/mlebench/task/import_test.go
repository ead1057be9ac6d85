package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// own is a prepared competition that MLE-bench does not have, and its folder of MLE-bench's
// repository.
func own() (prepared, registry map[string]string) {
	return map[string]string{
		"prepared/public/sample_submission.csv": "id,kind\n4,a\n",
		"prepared/private/test.csv":             "id,kind\n4,b\n",
		"prepared/private/extra.csv":            "id\n4\n",
		"description.md":                        "Seeds.\n",
	}, map[string]string{
		"grade.py":        "from .classes import CLASSES\ndef grade(submission, answers):\n    return 0.5\n",
		"classes.py":      "CLASSES = []\n",
		"leaderboard.csv": "scoreNullable,score\n,0.1\n,0.7\n",
		"config.yaml":     "id: seeds\nname: Seeds\ndataset:\n  answers: seeds/prepared/private/test.csv\n  sample_submission: seeds/prepared/public/sample_submission.csv\ngrader:\n  name: error rate\n  grade_fn: mlebench.competitions.seeds.grade:grade\n",
	}
}

// TestImportOwnGrader: a competition with no metric here keeps the grader that it has in
// MLE-bench's form; without one, or without a leaderboard, it is no task.
func TestImportOwnGrader(t *testing.T) {
	t.Parallel()
	prepared, registry := own()
	folder, boards := filepath.Dir(write(t, prepared)), filepath.Dir(write(t, registry))
	all, err := ImportMLEBench(folder, boards)
	if err != nil || len(all) != 1 || all[0].Problem != "" || all[0].Metric != "error rate" || !all[0].Written || !all[0].Board {
		t.Fatalf("%v, %+v", err, all)
	}
	text := string(must.Get(os.ReadFile(filepath.Join(folder, "seeds", FileName)))(t))
	want := "# Written by lathe data import mle-bench.\ngrader: {file: grader/grade.py}\ndirection: minimize\nmetric: \"error rate\"\n" +
		"answers: \"prepared/private/test.csv\"\nsample_submission: \"prepared/public/sample_submission.csv\"\n"
	if text != want {
		t.Errorf("task.yaml is\n%s\nwant\n%s", text, want)
	}
	task := must.Get(Open(filepath.Join(folder, "seeds")))(t)
	if !task.LowerIsBetter() || task.Input("grader/classes.py") == "" || task.Range != (Range{Worst: .7, Best: .1}) {
		t.Errorf("lower is better: %v, range %v, inputs %v", task.LowerIsBetter(), task.Range, task.Inputs)
	}
	again := must.Get(ImportMLEBench(folder, boards))(t)
	if again[0].Written || again[0].Problem != "" {
		t.Errorf("again: %+v", again)
	}

	for what, c := range map[string]struct {
		remove string
		want   string
	}{
		"no grader":      {"grade.py", "has not the name of a competition of MLE-bench, and there is no grade.py of it"},
		"no leaderboard": {"leaderboard.csv", "its leaderboard says whether lower scores are better"},
	} {
		prepared, registry := own()
		delete(registry, c.remove)
		all, err := ImportMLEBench(filepath.Dir(write(t, prepared)), filepath.Dir(write(t, registry)))
		if err != nil || !strings.Contains(all[0].Problem, c.want) {
			t.Errorf("%s: %v, %+v", what, err, all)
		}
	}

	prepared["grade.py"], prepared["classes.py"], prepared["leaderboard.csv"] = registry["grade.py"], registry["classes.py"], registry["leaderboard.csv"]
	delete(prepared, "prepared/private/extra.csv")
	one := must.Get(ImportMLEBench(write(t, prepared), ""))(t)
	if one[0].Problem != "" || one[0].Metric != "grade.py" {
		t.Errorf("in its folder: %+v", one)
	}
}

// TestGraderSettings: what a grader decides is not set beside it.
func TestGraderSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"grader: {file: grade.py}\n":                                                               "direction: is missing",
		"grader: {file: grade.py}\ndirection: minimize\nid_column: id\n":                           `id_column: must not be set: the grader "grade.py" decides it`,
		"grader: {file: grade.py, tables: rows}\ndirection: minimize\n":                            "grader.tables",
		"grader: {file: grade.py, wall_seconds: 0}\ndirection: minimize\n":                         "grader.wall_seconds",
		"grader: {file: none.py}\ndirection: maximize\nscore_range: {worst: 0, best: 1}\n":         "none.py",
		"grader: {file: leaderboard.csv}\ndirection: maximize\nscore_range: {worst: 0, best: 1}\n": "must end in .py",
		"grader: {file: grade.py}\ndirection: minimize\nscore_range: {worst: 1, best: 0}\n":        "runs",
		"grader: {file: grade.py}\ncompetition: spooky-author-identification\n":                    "grader.file: must not be set",
	} {
		all := files()
		all[FileName], all["grade.py"] = text, "def grade(submission, answers): return 1\n"
		_, err := Open(write(t, all))
		if err == nil || !strings.Contains(err.Error(), want) || exitcode.Code(err) != exitcode.Data {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

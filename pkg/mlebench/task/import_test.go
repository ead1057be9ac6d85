package task

import (
	"fmt"
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
	// What is there stays, and what is missing is copied again.
	must.Do(t, os.WriteFile(filepath.Join(folder, "seeds/grader/classes.py"), []byte("CLASSES = [1]\n"), 0o644))
	must.Do(t, os.Remove(filepath.Join(folder, "seeds/grader/grade.py")))
	again := must.Get(ImportMLEBench(folder, boards))(t)
	if again[0].Written || again[0].Problem != "" || string(must.Get(os.ReadFile(filepath.Join(folder, "seeds/grader/classes.py")))(t)) != "CLASSES = [1]\n" {
		t.Errorf("again: %+v", again)
	}

	for what, c := range map[string]struct {
		file, text string // "" removes
		want       string // the problem; none is ""
	}{
		"no grader":                    {"grade.py", "", "has not the name of a competition of MLE-bench, and there is no grade.py of it"},
		"no leaderboard":               {"leaderboard.csv", "", "its leaderboard says whether lower scores are better"},
		"a leaderboard of words":       {"leaderboard.csv", "score\nhigh\n", "is not a number"},
		"settings that cannot be read": {"config.yaml", "dataset: [\n", "config.yaml"},
		"settings of another type":     {"config.yaml", "dataset: {answers: [a]}\n", "config.yaml"},
		"two files of answers":         {"config.yaml", "dataset: {answers: seeds/elsewhere.csv, sample_submission: seeds/}\n", `"prepared/private" has 2 CSV files`},
	} {
		prepared, registry := own()
		if registry[c.file] = c.text; c.text == "" {
			delete(registry, c.file)
		}
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

// TestImportMLEBench: scores run from that of the sample submission to the best there is:
// from 0 where the sample has no score, no finite one, or the best already.
func TestImportMLEBench(t *testing.T) {
	t.Parallel()
	folder, boards := t.TempDir(), t.TempDir()
	put := func(under, name, text string) {
		path := filepath.Join(under, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	put(folder, "notes.txt", "")
	put(folder, ".cache/a", "")
	put(boards, "mlsp-2013-birds/leaderboard.csv", "score\n0.9\n0.4\n")
	put(boards, "random-acts-of-pizza/leaderboard.csv", "score\nhigh\n")
	for _, c := range []struct{ id, answersFile, answers, sample, sampled, text string }{
		{"aerial-cactus-identification", "test.csv", "id,has_cactus\na,0\nb,1\n", "id,has_cactus\na,0.5\nb,0.5\n", "0.5", "low {worst: 0.5, best: 1}"}, // of a tie
		{"champs-scalar-coupling", "answers.csv", "id,type,scalar_coupling_constant\n1,A,3\n", "id,scalar_coupling_constant\n1,3\n", "", "medium {worst: 0, best: -4}"},
		{"dogs-vs-cats-redux-kernels-edition", "answers.csv", "id,label\n1,1\n2,0\n", "id,label\n1,0.5\n2,0.5\n", "0.69315", "low {worst: 0.69315, best: 0}"}, // ln 2, to five decimals
		{"histopathologic-cancer-detection", "answers.csv", "id,label\n1,1\n2,0\n", "id,label\n1,2\n2,2\n", "", "low {worst: 0, best: 1}"},                    // no probability
		{"mlsp-2013-birds", "answers.csv", "Id,Probability\n1,1\n2,0\n", "Id,Probability\n1,1\n2,0\n", "1", "low board"},
		{"random-acts-of-pizza", "test.csv", "", "", "", `column "score": "high" is not a number`},
		{"seti-breakthrough-listen", "answers.csv", "", "", "", "it is not prepared (mlebench prepare -c seti-breakthrough-listen)"},
		{"spaceship-titanic", "test.csv", "PassengerId,Transported\na,True\n", "PassengerId,Transported\na,True\n", "1", "dev {worst: 0, best: 1}"},
		{"us-patent-phrase-to-phrase-matching", "test.csv", "id,score\na,0\nb,1\n", "id,score\na,0.5\nb,0.5\n", "", "medium {worst: 0, best: 1}"},
	} {
		put(folder, c.id+"/prepared/public/description.md", "Seeds.")
		put(folder, c.id+"/prepared/public/sample_submission.csv", c.sample)
		if put(folder, c.id+"/prepared/private/"+c.answersFile, c.answers); strings.HasPrefix(c.text, "it is not") {
			must.Do(t, os.RemoveAll(filepath.Join(folder, c.id, "prepared")))
		}
		for _, of := range []string{filepath.Join(folder, c.id), folder} {
			all := must.Get(ImportMLEBench(of, boards))(t)
			got := all[len(all)-1]
			sampled := ""
			if got.Sample != nil {
				sampled = fmt.Sprint(*got.Sample)
			}
			text, _ := os.ReadFile(filepath.Join(folder, c.id, FileName))
			ranged := "score_range: " + c.text[strings.Index(c.text, " ")+1:] + "\n"
			split, _, is := strings.Cut(c.text, " ")
			if got.Name != c.id || sampled != c.sampled || got.Board != strings.HasSuffix(c.text, "board") {
				t.Errorf("%s: %+v, sample %s", c.id, got, sampled)
			}
			if c.answers == "" {
				if got.Written || !strings.Contains(got.Problem, c.text) {
					t.Errorf("%s: %+v, want %q", c.id, got, c.text)
				}
				continue
			}
			if !is || got.Problem != "" || string(got.Split) != split || got.Metric == "" || got.Written != (of != folder) || strings.Contains(string(text), "score_range") == got.Board || !got.Board && !strings.HasSuffix(string(text), ranged) {
				t.Errorf("%s: %+v\n%s, want %s", c.id, got, text, c.text)
			}
		}
	}
	for of, want := range map[string]string{filepath.Join(folder, ".cache"): "has no folder", filepath.Join(folder, "none"): "no such file"} {
		if _, err := ImportMLEBench(of, ""); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", of, err, want)
		}
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

package task

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench"
)

// files of a small task, MLE-bench's layout. Three of the reference scores are
// better than 0.5.
func files() map[string]string {
	return map[string]string{
		FileName: "title: Seeds\nmetric: accuracy\ndirection: maximize\nid_column: id\ntarget_columns: [kind]\nscore_range: {worst: 0.5, best: 1}\n" +
			"leaderboard: {of: reference}\n",
		"description.md":               "Tell the kind of a seed.\n",
		"public/train.csv":             "id,length,colour,kind\n1,2.5,red,a\n2,3.5,,b\n3,4,green,a\n",
		"public/test.csv":              "id,length,colour\n4,2,red\n5,3,green\n",
		"public/sample_submission.csv": "id,kind\n4,a\n5,a\n",
		"private/answers.csv":          "id,kind\n4,a\n5,b\n",
		"leaderboard.csv":              "rank,score\n1,1\n2,0.9\n3,0.8\n4,0.4\n",
	}
}

// write writes files; a text that begins with "-> " is a link.
func write(t *testing.T, all map[string]string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "seeds")
	for name, text := range all {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(text, "-> ")
		err := os.WriteFile(path, []byte(text), 0o644)
		if link {
			_ = os.Remove(path)
			err = os.Symlink(target, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestOpen(t *testing.T) {
	t.Parallel()
	task, err := Open(write(t, files()))
	if err != nil {
		t.Fatal(err)
	}
	if task.Name != "seeds" || task.Description != "Tell the kind of a seed." || task.LowerIsBetter() || task.Split != "train" {
		t.Errorf("%q, %q, lower is better: %v, split %q", task.Name, task.Description, task.LowerIsBetter(), task.Split)
	}
	want := `sample_submission.csv (16 B)
test.csv (35 B)
train.csv (55 B)

sample_submission.csv: 2 rows, 2 columns
  id: whole numbers, 4 to 5
  kind: one of a

test.csv: 2 rows, 3 columns
  id: whole numbers, 4 to 5
  length: whole numbers, 2 to 3
  colour: one of green, red

train.csv: 3 rows, 4 columns
  id: whole numbers, 1 to 3
  length: numbers, 2.5 to 4
  colour: one of green, red; 1 empty
  kind: one of a, b`
	if diff := cmp.Diff(want, task.Preview); diff != "" {
		t.Errorf("preview (-want +got):\n%s", diff)
	}
	if want := (Limits{WallSeconds: 300, MemoryMB: 4096, Processes: 64, FileMB: 1024, DiskMB: 2048}); task.Limits != want || task.PublicBytes != 16+35+55 {
		t.Errorf("limits %+v, %d bytes", task.Limits, task.PublicBytes)
	}
	if want := "id,kind\n4,a\n5,a\n"; task.Sample != want {
		t.Errorf("sample %q, want %q", task.Sample, want)
	}
	score, err := task.Grader.Score([]byte("id,kind\n5,b\n4,b\n"))
	if err != nil || score != 0.5 {
		t.Errorf("score %v, %v; want 0.5: one of two", score, err)
	}
	for raw, want := range map[float64]float64{0.4: 0, 0.5: 0, 0.75: 0.5, 1: 1} {
		if got, err := task.Normalised(raw); err != nil || got != want {
			t.Errorf("normalised %v is %v, %v; want %v", raw, got, err, want)
		}
	}
	if got := task.HumanRank(mlebench.Paper, 0.85, true); got != 0.25 {
		t.Errorf("rank %v, want 1 − 3/4: two are better", got)
	}
}

// A task whose files have names of their own, of a loss, with a range that its board gives,
// and public files of all kinds, of which a preview shows few: by hand.
func TestOwnNames(t *testing.T) {
	t.Parallel()
	// Of 13 and 12 values, of 40 and 41 characters, and lists of 160 and 162.
	texts := "x,w,v,u,t,s\n"
	for i := range 13 {
		texts += fmt.Sprintf("%s,%d words,%s,%s,%s,%g\n", strings.Repeat("x", 41-i), max(i, 1), strings.Repeat("v", 40+i), strings.Repeat("u", 78+2*(i%2)), strings.Repeat("t", 80+i%2), 1.5-float64(i))
	}
	all := map[string]string{
		FileName: "name: wheat\nmetric: mae\ndirection: minimize\nid_column: id\ntarget_columns: [y]\npublic: open\nanswers: secret/truth.csv\n" +
			"sample_submission: open/example.csv\ndescription: about.txt\nleaderboard: {file: board.csv, public: other.csv}\n",
		"about.txt": " Weigh it.\n", "secret/truth.csv": "id,y\n1,1\n2,2\n3,3\n4,4\n", "secret/more.csv": "",
		"board.csv": "rank,score\n1,1\n2,2\n3,3\n4,5\n", "other.csv": "rank,score\n1,2\n2,2\n",
		"open/example.csv": "id,y\r\n1,\r\n2,\r\n3,\r\n4,\r\n", "open/z.csv": "x\n1\n", "open/deep/a/b/c/d.txt": "",
		"open/more/01.csv": strings.TrimSuffix(strings.Repeat("n,", 31), ",") + "\n" + strings.TrimSuffix(strings.Repeat("7,", 31), ",") + "\n",
		"open/more/02.CSV": texts, "open/more/04.csv": "x\n\"", "open/more/05.csv": "\"", "open/more/06.csv": "x,y,z\n1\n2,NA,\xff,4\n", "open/more/07.csv": "y" + strings.Repeat(",", 29) + "\n7\n-2\n",
		"open/more/08.csv": "", "open/more/09.csv": "", "open/more/10.csv": "", "open/more/11.csv": "",
	}
	folder := write(t, all)
	for name, size := range map[string]int64{"0.bin": 1023, "1.bin": 1 << 10, "2.bin": 1<<20 - 1, "3.bin": 3 << 19, "4.bin": 1 << 30, "5.bin": 1 << 20, "more/03.csv": maxDigested + 1} {
		path := filepath.Join(folder, "open", name)
		if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *Task {
		t.Helper()
		task, err := Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	task := open()
	if diff := cmp.Diff(Range{Worst: 5, Best: 1}, task.Range); diff != "" || task.Name != "wheat" || !task.LowerIsBetter() || task.Sample != "id,y\n1,\n2,\n3,\n" || task.Description != "Weigh it." {
		t.Errorf("%q, sample %q, description %q, range (-want +got):\n%s", task.Name, task.Sample, task.Description, diff)
	}
	// 2.5 is third of four; the other board ranks nothing.
	if rank := task.HumanRank(mlebench.Paper, 2.5, true); rank != 0.25 || task.PublicBoard == nil || !task.PublicBoard.Degenerate() {
		t.Errorf("rank %v, want 1 − 3/4", rank)
	}
	if task.Path("board.csv") != filepath.Join(folder, "board.csv") || task.Input("secret/more.csv") != "" {
		t.Errorf("%q of %+v", task.Path("board.csv"), task.Inputs)
	}
	configtest.Golden(t, "testdata/preview.txt", task.Preview+"\n")
	// The digest is that of the names, the sizes and, but for the large one, the contents.
	file := func(name string) string { return filepath.Join(folder, "open", name) }
	digest := task.Input("open")
	for i, change := range []func() error{
		func() error { return os.WriteFile(file("z.csv"), []byte("x\n2\n"), 0o644) },
		func() error { return os.Rename(file("z.csv"), file("y.csv")) },
		func() error { return os.Truncate(file("more/03.csv"), maxDigested+2) },
		func() error {
			return os.WriteFile(file("../board.csv"), []byte("rank,score\n1,1\n2,2\n3,3\n4,6\n"), 0o644)
		},
		func() error {
			large, err := os.OpenFile(file("more/03.csv"), os.O_WRONLY, 0)
			if err == nil {
				_, err = large.WriteString("x")
			}
			return err
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		now := open()
		if same := now.Input("open") == digest; same != (i > 2) {
			t.Errorf("after change %d the digest is the same: %v", i, same)
		}
		digest = now.Input("open")
	}
	if open().Input("board.csv") == task.Input("board.csv") {
		t.Error("another board has the same digest")
	}
}

// What a limit or a score range may be, and what it may not.
func TestBounds(t *testing.T) {
	t.Parallel()
	const in = "limits."
	configtest.Checks(t, func() *Config {
		c := &Config{Metric: "mae", Direction: "minimize", IDColumn: "id", TargetColumns: []string{"y"}}
		c.SetDefaults()
		return c
	}, (*Config).validate, map[string]string{
		"": "", "limits.wall_seconds=604800": "", "limits.wall_seconds=604801": in + "wall_seconds", "limits.wall_seconds=0.5": "", "limits.wall_seconds=0": in + "wall_seconds",
		"limits.memory_mb=16": "", "limits.memory_mb=15": in + "memory_mb", "limits.gpus=0": "", "limits.gpus=-1": in + "gpus",
		"limits.processes=1 limits.file_mb=1 limits.disk_mb=1": "", "limits.processes=0 limits.file_mb=0 limits.disk_mb=0": in + "processes " + in + "file_mb " + in + "disk_mb",
		"score_range.worst=1 score_range.best=0": "", "score_range.worst=0 score_range.best=1": "score_range", "score_range.worst=1e308 score_range.best=-1e308": "score_range", "score_range.worst=1 score_range.best=1": "score_range",
		"direction=\"\"": "direction", "metric=accuracy direction=maximize score_range.worst=-1e308 score_range.best=1e308": "score_range", "metric=x score_range.worst=1 score_range.best=0": "metric", "name=.": "name", "name=..": "name", "name=...": "", "target_columns=[a,\"\"]": "target_columns", "classes=[a,b]": "",
		"grader.wall_seconds=86400 grader.memory_mb=16 grader.processes=1": "", "grader.wall_seconds=86401 grader.memory_mb=15 grader.processes=0": "grader.wall_seconds grader.memory_mb grader.processes",
		"metric=\"\"": "metric", "id_column=\"\"": "id_column", "target_columns=[]": "target_columns", "target_columns=[a,b]": "", "target_columns=[a,b,a]": "target_columns", "target_columns=[a,id]": "target_columns", "classes=[a,b,a]": "classes",
		"score_range.worst=-1 score_range.best=-2": "", "direction=maximize": "direction", "metric=accuracy direction=minimize": "direction",
		"modality=x complexity=x leaderboard.of=x": "modality complexity leaderboard.of", "modality=text complexity=low leaderboard.of=people": "",
	})
}

// TestCompetitionSettings: a competition of MLE-bench decides how it is graded, and what
// its data and its hours are where the file does not say: chaii is a text competition to
// maximize, the denoising one of low complexity to minimize, and dev is no complexity.
func TestCompetitionSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  Config
		want string // metric, direction, modality, complexity
	}{
		{Config{Competition: "denoising-dirty-documents"}, "root mean squared error|minimize|image|low"},
		{Config{Competition: "chaii-hindi-and-tamil-question-answering"}, "mean word-level Jaccard score|maximize|text|medium"},
		{Config{Competition: "chaii-hindi-and-tamil-question-answering", Modality: "other", Complexity: "high"}, "mean word-level Jaccard score|maximize|other|high"},
		{Config{Competition: "spaceship-titanic"}, "accuracy|maximize|tabular|"},
		{Config{Program: Program{File: "a/grade.py"}, Direction: "minimize"}, "grade.py|minimize||"},
		{Config{Program: Program{File: "a/grade.py"}, Direction: "minimize", Metric: "loss"}, "loss|minimize||"},
	} {
		check := config.NewChecker(&c.set)
		direction := c.set.validateMetric(check)
		got := strings.Join([]string{c.set.Metric, c.set.Direction, c.set.Modality, c.set.Complexity}, "|")
		if err := check.Err(FileName); err != nil || got != c.want || string(direction) != c.set.Direction {
			t.Errorf("%s: %s to %s, %v; want %s", c.set.Competition, got, direction, err, c.want)
		}
	}
	configtest.Checks(t, func() *Config { return &Config{} }, func(c *Config, check *config.Checker) { c.validateMetric(check) }, map[string]string{
		"competition=spaceship-titanic metric=accuracy direction=maximize":                               "metric direction",
		"competition=spaceship-titanic grader.file=grade.py id_column=id target_columns=[y] classes=[a]": "grader.file id_column target_columns classes",
		"grader.file=grade.py": "direction", "competition=titanic": "competition", "competition=spaceship-titanic": "",
	})
}

// TestDefaults: a program has the five minutes of ExIt App. A.4; all of it is in READMEs of tasks.
func TestDefaults(t *testing.T) {
	t.Parallel()
	var c Config
	c.SetDefaults()
	want := Config{
		Split: "train", Leaderboard: Leaderboard{Of: "people"}, Program: Program{Tables: "pandas", WallSeconds: 600, MemoryMB: 4096, Processes: 64},
		Limits: Limits{WallSeconds: 300, MemoryMB: 4096, Processes: 64, FileMB: 1024, DiskMB: 2048},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

// TestLayouts: whatever lies where MLE-bench's preparation or MLE-Dojo puts it
// is found.
func TestLayouts(t *testing.T) {
	t.Parallel()
	dojo := files()
	for from, to := range map[string]string{
		"description.md": "info/description.txt", "leaderboard.csv": "info/private_leaderboard.csv", "private/answers.csv": "data/private/test_answer.csv",
		"public/train.csv": "data/public/train.csv", "public/test.csv": "data/public/test.csv", "public/sample_submission.csv": "data/public/sample_submission.csv",
	} {
		dojo[to] = dojo[from]
		delete(dojo, from)
	}
	dojo["info/public_leaderboard.csv"] = "rank,score\n1,0.7\n2,0.6\n"
	prepared := files()
	for from, to := range map[string]string{
		"description.md": "prepared/public/description.md", "private/answers.csv": "prepared/private/test.csv",
		"public/train.csv": "prepared/public/train.csv", "public/test.csv": "prepared/public/test.csv", "public/sample_submission.csv": "prepared/public/sampleSubmission.csv",
	} {
		prepared[to] = prepared[from]
		delete(prepared, from)
	}
	prepared["leaderboard.csv"] = "scoreNullable,teamId,score\n1,7,1\n0.9,8,0.9\n" // MLE-bench's own columns
	// A public folder that is the task's own, with the answers elsewhere, and a link within it.
	open := files()
	open[FileName] += "public: .\nanswers: ../answers.csv\nsample_submission: public/sample_submission.csv\n"
	open["../answers.csv"], open["copy.csv"] = open["private/answers.csv"], "-> public/train.csv"
	delete(open, "private/answers.csv")
	// A loss without a private board: a public one counts where it is named.
	loss := files()
	loss[FileName] = "competition: denoising-dirty-documents\nscore_range: {worst: 2, best: 0}\n"
	loss["private/answers.csv"], loss["private/more.csv"], loss["public/sampleSubmission.csv"] = "id,value\n1,0.5\n", "", "id,value\n1,1\n"
	loss["info/public_leaderboard.csv"] = "rank,score\n1,0.1\n2,0.2\n"
	delete(loss, "leaderboard.csv")
	delete(loss, "public/sample_submission.csv")
	named := maps.Clone(loss)
	named[FileName] += "leaderboard: {public: info/public_leaderboard.csv}\n"
	// The sample of MLE-bench's own name beside the answers.
	kaggle := maps.Clone(loss)
	kaggle[FileName] = "competition: inaturalist-2019-fgvc6\nscore_range: {worst: 1, best: 0}\n"
	kaggle["private/answers.csv"], kaggle["private/kaggle_sample_submission.csv"] = "id,predicted\n1,2\n", "id,predicted\n1,3\n"
	delete(kaggle, "public/sampleSubmission.csv")
	for name, c := range map[string]struct {
		files  map[string]string
		sample string
		// Of the score 0.85: 3rd of 4 in private, and 1st of 2 in public; 0 where there is no private board.
		rank float64
	}{
		"MLE-Dojo": {dojo, "id,kind\n4,a\n5,a\n", (0.25 + 0.5) / 2}, "MLE-bench": {prepared, "id,kind\n4,a\n5,a\n", 0}, "a public folder around it": {open, "id,kind\n4,a\n5,a\n", 0.25},
		"no private board": {loss, "id,value\n1,1\n", 0}, "a public board alone": {named, "id,value\n1,1\n", 0}, "a private sample": {kaggle, "id,predicted\n1,3\n", 0},
	} {
		task, err := Open(write(t, c.files))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if task.Sample != c.sample || (task.PublicBoard != nil) != (name == "MLE-Dojo" || name == "a public board alone") {
			t.Errorf("%s: sample %q, public board %v", name, task.Sample, task.PublicBoard)
		}
		if !task.Board.Empty() && c.rank != 0 && task.HumanRank(mlebench.Paper, 0.85, true) != c.rank {
			t.Errorf("%s: rank %v, want %v", name, task.HumanRank(mlebench.Paper, 0.85, true), c.rank)
		}
	}
}

// bad folders: what is changed, and what is said of it stands in
// testdata/messages.txt.
var bad = []struct {
	name   string
	change map[string]string // "" removes; "a=>b" in a name replaces a by b in that file
}{
	{"no task.yaml", map[string]string{FileName: ""}},
	{"empty task.yaml", map[string]string{FileName: "# nothing\n"}},
	{"task.yaml is no YAML", map[string]string{FileName: "metric: [\n"}},
	{"task.yaml is a list", map[string]string{FileName: "- metric\n"}},
	{"a competition that is not one of MLE-bench's", map[string]string{FileName: "competition: titanic\n"}},
	{"unknown field", map[string]string{FileName + ":title:=>titel:": ""}},
	{"field twice", map[string]string{FileName + ":title: Seeds=>title: Seeds\ntitle: Seeds": ""}},
	{"unknown metric", map[string]string{FileName + ":accuracy=>acuracy": ""}},
	{"wrong direction", map[string]string{FileName + ":maximize=>minimize": ""}},
	{"no direction", map[string]string{FileName + ":direction: maximize=>direction:": ""}},
	{"direction of another word", map[string]string{FileName + ":maximize=>up": ""}},
	{"range the wrong way", map[string]string{FileName + ":{worst: 0.5, best: 1}=>{worst: 1, best: 0}": ""}},
	{"range of nothing", map[string]string{FileName + ":{worst: 0.5, best: 1}=>{worst: 1, best: 1}": ""}},
	{"range that is no number", map[string]string{FileName + ":{worst: 0.5, best: 1}=>{worst: .nan, best: 1}": ""}},
	{"limit of zero", map[string]string{FileName + ":title: Seeds=>limits: {wall_seconds: 0}": ""}},
	{"limit below zero", map[string]string{FileName + ":title: Seeds=>limits: {memory_mb: -5, gpus: -1}": ""}},
	{"limit that is no number", map[string]string{FileName + ":title: Seeds=>limits: {wall_seconds: long}": ""}},
	{"split of another word", map[string]string{FileName + ":title: Seeds=>split: dev": ""}},
	{"name with a slash", map[string]string{FileName + ":title: Seeds=>name: a/b": ""}},
	{"no id column", map[string]string{FileName + ":id_column: id=>id_column:": ""}},
	{"id column that the answers lack", map[string]string{FileName + ":id_column: id=>id_column: Id": ""}},
	{"target that the answers lack", map[string]string{FileName + ":[kind]=>[sort]": ""}},
	{"target twice", map[string]string{FileName + ":[kind]=>[kind, kind]": ""}},
	{"target is the id", map[string]string{FileName + ":[kind]=>[id]": ""}},
	{"no target", map[string]string{FileName + ":[kind]=>[]": ""}},
	{"class twice", map[string]string{FileName + ":title: Seeds=>classes: [a, b, a]": ""}},
	{"answer of no class", map[string]string{FileName + ":title: Seeds=>classes: [a, c]": ""}},
	{"no answers", map[string]string{"private/answers.csv": ""}},
	{"answers that are named and not there", map[string]string{FileName + ":title: Seeds=>answers: private/truth.csv": ""}},
	{"two files of answers", map[string]string{"private/more.csv": "id,kind\n4,a\n"}},
	{"answers in the public folder", map[string]string{"public/answers.csv": "id,kind\n4,a\n5,b\n", FileName + ":title: Seeds=>answers: public/answers.csv": ""}},
	{"answers linked into the public folder", map[string]string{"public/hidden.csv": "id,kind\n4,a\n5,b\n", "private/answers.csv": "-> ../public/hidden.csv"}},
	{"public file linked to the answers", map[string]string{"public/extra.csv": "-> ../private/answers.csv"}},
	{"answers without rows", map[string]string{"private/answers.csv": "id,kind\n"}},
	{"answers that are empty", map[string]string{"private/answers.csv": "\n"}},
	{"answers with an id twice", map[string]string{"private/answers.csv": "id,kind\n4,a\n4,b\n"}},
	{"answers with a missing cell", map[string]string{"private/answers.csv": "id,kind\n4,a\n5,\n"}},
	{"answers with a short row", map[string]string{"private/answers.csv": "id,kind\n4,a\n5\n"}},
	{"answers not in UTF-8", map[string]string{"private/answers.csv": "id,kind\n4,a\n5,\xff\xfe\n"}},
	{"answers of one class, for AUC", map[string]string{FileName + ":accuracy=>auc-roc": "", "private/answers.csv": "id,kind\n4,1\n5,1\n"}},
	{"ids of the sample that do not match", map[string]string{"public/sample_submission.csv": "id,kind\n4,a\n6,a\n"}},
	{"sample with a row too few", map[string]string{"public/sample_submission.csv": "id,kind\n4,a\n"}},
	{"sample with other columns", map[string]string{"public/sample_submission.csv": "id,sort\n4,a\n5,a\n"}},
	{"sample with more columns", map[string]string{"public/sample_submission.csv": "id,kind,sure\n4,a,1\n5,a,1\n"}},
	{"no sample", map[string]string{"public/sample_submission.csv": ""}},
	{"no public folder", map[string]string{"public/sample_submission.csv": "", "public/train.csv": "", "public/test.csv": ""}},
	{"public is a file", map[string]string{FileName + ":title: Seeds=>public: leaderboard.csv": ""}},
	{"a link out of the public folder", map[string]string{"public/etc": "-> /etc/hostname"}},
	{"a link to nothing in the public folder", map[string]string{"public/gone.csv": "-> nowhere.csv"}},
	{"no description", map[string]string{"description.md": ""}},
	{"description not in UTF-8", map[string]string{"description.md": "caf\xe9"}},
	{"description of blanks", map[string]string{"description.md": " \n"}},
	{"no leaderboard", map[string]string{"leaderboard.csv": ""}},
	{"leaderboard in the wrong direction", map[string]string{"leaderboard.csv": "rank,score\n1,0.1\n2,0.5\n3,0.9\n"}},
	{"leaderboard that is not sorted", map[string]string{"leaderboard.csv": "rank,score\n1,0.9\n2,0.95\n3,0.8\n"}},
	{"leaderboard without rows", map[string]string{"leaderboard.csv": "rank,score\n"}},
	{"leaderboard without scores", map[string]string{"leaderboard.csv": "rank,points\n1,0.5\n"}},
	{"leaderboard with words", map[string]string{"leaderboard.csv": "rank,score\n1,high\n"}},
	{"leaderboard of one value and no range", map[string]string{"leaderboard.csv": "rank,score\n1,0.9\n2,0.9\n", FileName + ":score_range: {worst: 0.5, best: 1}=>": ""}},
	{"a competition's leaderboard that is not there", map[string]string{FileName: "competition: spaceship-titanic\nanswers: private/answers.csv\nleaderboard: {file: board.csv}\n"}},
	{"a competition without leaderboard and range", map[string]string{FileName: "competition: spaceship-titanic\nanswers: private/answers.csv\n", "private/answers.csv": "PassengerId,Transported\na,True\n", "leaderboard.csv": ""}},
	{"public leaderboard in the wrong direction", map[string]string{"info/public_leaderboard.csv": "rank,score\n1,0.1\n2,0.5\n"}},
}

// TestBadFolders: each is one data error, which names the file or the field.
func TestBadFolders(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, c := range bad {
		all := files()
		for name, text := range c.change {
			file, edit, replaces := strings.Cut(name, ":")
			switch from, to, _ := strings.Cut(edit, "=>"); {
			case replaces && !strings.Contains(all[file], from):
				t.Fatalf("%s: %q is not in %s", c.name, from, file)
			case replaces:
				all[file] = strings.Replace(all[file], from, to, 1)
			case text == "":
				delete(all, name)
			default:
				all[name] = text
			}
		}
		folder := write(t, all)
		_, err := Open(folder)
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		if code := exitcode.Code(err); code != exitcode.Data {
			t.Errorf("%s: exit code %d, want that of data: %v", c.name, code, err)
		}
		got.WriteString("# " + c.name + "\n" + strings.ReplaceAll(strings.ReplaceAll(err.Error(), folder, "TASK"), filepath.Dir(folder), "TASKS") + "\n\n")
	}
	configtest.Golden(t, "testdata/messages.txt", got.String())
	// A file whose reading fails is no data error: the first page of a process's memory.
	all := files()
	all[FileName] = "-> /proc/self/mem"
	if _, err := Open(write(t, all)); exitcode.Code(err) != exitcode.IO {
		t.Errorf("%v has exit code %d, want that of I/O", err, exitcode.Code(err))
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	one, two := write(t, files()), write(t, files())
	rename := filepath.Join(filepath.Dir(one), "corn")
	if err := os.Rename(two, rename); err != nil {
		t.Fatal(err)
	}
	tasks, _, err := Find([]string{one, rename}, nil)
	if err != nil || len(tasks) != 2 || tasks[0].Name != "corn" || tasks[1].Name != "seeds" {
		t.Errorf("found %d tasks, %v; want corn and seeds", len(tasks), err)
	}
	if tasks, _, err := Find([]string{filepath.Dir(one)}, []string{"s*"}); err != nil || len(tasks) != 1 {
		t.Errorf("found %d tasks by pattern, %v; want seeds", len(tasks), err)
	}
	// A folder named twice is one task; of two of one name the first counts, which is said.
	other := write(t, files())
	tasks, notes, err := Find([]string{other, filepath.Dir(one)}, nil)
	if err != nil || len(tasks) != 2 || tasks[1].Folder != other {
		t.Errorf("found %d tasks, %v; want corn, and the seeds of %s", len(tasks), err, other)
	}
	said := fmt.Sprintf("two tasks have the name \"seeds\": %q, which comes first, is taken, and %q is left out", other, one)
	if diff := cmp.Diff([]string{said}, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if tasks, notes, err = Find([]string{one, filepath.Dir(one)}, nil); err != nil || len(tasks) != 2 || notes != nil {
		t.Errorf("a folder named twice: %d tasks, notes %q, %v", len(tasks), notes, err)
	}
	if tasks, notes, err = Find([]string{rename, filepath.Dir(one)}, []string{"seeds", "c*", "corn"}); err != nil || len(tasks) != 2 || notes != nil {
		t.Errorf("the first of a folder named twice: %d tasks, notes %q, %v", len(tasks), notes, err)
	}
	// A task is chosen by its name, whatever its folder is called; what others' files say is no concern.
	named := files()
	named[FileName] = "name: barley\n" + named[FileName]
	barley := write(t, named)
	if err := os.WriteFile(filepath.Join(rename, FileName), []byte("["), 0o666); err != nil {
		t.Fatal(err)
	}
	if tasks, _, err = Find([]string{barley, rename}, []string{"bar*"}); err != nil || len(tasks) != 1 || tasks[0].Name != "barley" {
		t.Errorf("by the name in its task.yaml: %d tasks, %v; want barley", len(tasks), err)
	}
	for _, c := range []struct {
		folders, names []string
		code           int
		message        string
	}{
		{[]string{one}, []string{"wheat", "seeds", "barley", "wheat"}, exitcode.Usage, "there is no task \"barley\", \"wheat\" in " + one},
		{[]string{one}, []string{"wheat"}, exitcode.Usage, "there is no task \"wheat\""},
		{[]string{barley}, []string{"seeds"}, exitcode.Usage, "there is no task \"seeds\""},
		{[]string{rename}, []string{"corn"}, exitcode.Data, "corn"},
		{[]string{t.TempDir()}, nil, exitcode.Data, "has no task"},
		{[]string{filepath.Join(one, "nowhere")}, nil, exitcode.Data, "no such file"},
	} {
		if _, _, err := Find(c.folders, c.names); exitcode.Code(err) != c.code || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%q %q: %v; want code %d and %q", c.folders, c.names, err, c.code, c.message)
		}
	}
}

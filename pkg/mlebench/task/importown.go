package task

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// graderFile is the name of a competition's grader in MLE-bench's repository.
const graderFile = "grade.py"

// registered is what the file config.yaml of a competition says in MLE-bench's repository.
type registered struct {
	Dataset struct {
		Answers string `yaml:"answers"` // below the folder of all competitions
		Sample  string `yaml:"sample_submission"`
	} `yaml:"dataset"`
	Grader struct {
		Name string `yaml:"name"`
	} `yaml:"grader"`
}

// importOwn makes a task of a competition that is none of MLE-bench's own, but has a
// grader in its form: in its folder, or in that of the same name among the leaderboards.
func (i *Imported) importOwn(folder, boards string) error {
	home, file := folder, graderFile
	if _, err := os.Stat(filepath.Join(folder, graderFile)); err != nil {
		home, file = filepath.Join(boards, i.Name), filepath.Join("grader", graderFile)
		if _, err := os.Stat(filepath.Join(home, graderFile)); err != nil || boards == "" {
			return exitcode.Dataf("it has not the name of a competition of MLE-bench, and there is no %s of it", graderFile)
		}
		if err := copyModules(home, filepath.Join(folder, "grader")); err != nil {
			return err
		}
	}
	if err := copyBoard(folder, boards, i.Name); err != nil {
		return err
	}
	t, err := i.open(folder, func() (string, error) { return ownText(folder, home, file) })
	if err != nil {
		return err
	}
	i.Metric = t.Metric
	return nil
}

// ownText is the task.yaml of a competition with a grader of its own. Its leaderboard says
// which scores are better, as it does to MLE-bench.
func ownText(folder, home, file string) (string, error) {
	content, err := plainfile.Read(filepath.Join(folder, "leaderboard.csv"), maxText)
	if err != nil {
		return "", exitcode.Dataf("its leaderboard says whether lower scores are better: %w", err)
	}
	board, err := mlebench.ReadBoard(content)
	if err != nil {
		return "", fmt.Errorf("leaderboard.csv: %w", err)
	}
	direction := metric.Maximize
	if board.LowerIsBetter() {
		direction = metric.Minimize
	}
	text := fmt.Sprintf("# Written by lathe data import mle-bench.\ngrader: {file: %s}\ndirection: %s\n", file, direction)
	var r registered
	if content, err := plainfile.Read(filepath.Join(home, "config.yaml"), maxText); err == nil {
		doc, err := config.Parse("config.yaml", content)
		if err == nil {
			err = doc.Fill(&r, config.Options{Unknown: func(string) (string, bool) { return "", true }})
		}
		if err != nil {
			return "", err
		}
	}
	for _, field := range []struct{ name, value string }{
		{"metric", r.Grader.Name}, {"answers", belowCompetition(folder, r.Dataset.Answers)}, {"sample_submission", belowCompetition(folder, r.Dataset.Sample)},
	} {
		if field.value != "" {
			text += field.name + ": " + strconv.Quote(field.value) + "\n"
		}
	}
	return text, nil
}

// belowCompetition is a path of config.yaml as one below the competition's folder; empty
// where there is no such file.
func belowCompetition(folder, path string) string {
	_, below, _ := strings.Cut(filepath.ToSlash(path), "/")
	if _, err := os.Stat(filepath.Join(folder, below)); err != nil || below == "" {
		return ""
	}
	return below
}

// copyModules copies a grader and the modules beside it, those that are not there yet.
func copyModules(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.py"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	for _, file := range files {
		path := filepath.Join(to, filepath.Base(file))
		if _, err := os.Stat(path); err == nil {
			continue
		}
		content, err := plainfile.Read(file, maxText)
		if err == nil {
			err = plainfile.Write(path, content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

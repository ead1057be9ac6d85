package task

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/grader"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// Imported is what became of one folder.
type Imported struct {
	Name    string       `json:"competition"`
	Split   grader.Split `json:"split"` // of MLE-bench; empty of a folder that is none of its competitions
	Metric  string       `json:"metric"`
	Board   bool         `json:"leaderboard"`
	Sample  *float64     `json:"sample_submission_score"` // null where it is none, or not finite
	Written bool         `json:"written"`                 // there is a task.yaml now that was not there before
	Problem string       `json:"problem,omitempty"`       // why the folder is no task
}

// ImportMLEBench makes tasks of the competitions that mlebench prepare has left in a
// folder, or of the folder of one: it writes a task.yaml where there is none, and
// copies leaderboards from the folder mlebench/competitions of MLE-bench's
// repository, if that is given. A competition that is none of MLE-bench's keeps the grader
// that it has in MLE-bench's form, grade.py. It changes no file that is there.
func ImportMLEBench(folder, boards string) ([]Imported, error) {
	_, one := grader.Lookup(filepath.Base(folder))
	if _, err := os.Stat(filepath.Join(folder, graderFile)); one || err == nil {
		return []Imported{importOne(folder, boards)}, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, exitcode.Dataf("%w", err)
	}
	var all []Imported
	for _, entry := range entries {
		if info, err := os.Stat(filepath.Join(folder, entry.Name())); err == nil && info.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			all = append(all, importOne(filepath.Join(folder, entry.Name()), boards))
		}
	}
	if len(all) == 0 {
		return nil, exitcode.Dataf("%q has no folder: give that in which mlebench prepare leaves one for each competition", folder)
	}
	return all, nil
}

func importOne(folder, boards string) Imported {
	i := Imported{Name: filepath.Base(folder)}
	competition, known := grader.Lookup(i.Name)
	if !known {
		if err := i.importOwn(folder, boards); err != nil {
			i.Problem = err.Error()
		}
		return i
	}
	i.Split, i.Metric = competition.Split, competition.Metric
	if err := i.importInto(folder, boards, competition); err != nil {
		i.Problem = err.Error()
	}
	return i
}

func (i *Imported) importInto(folder, boards string, competition *grader.Competition) error {
	if err := copyBoard(folder, boards, competition.ID); err != nil {
		return err
	}
	t, err := i.open(folder, func() (string, error) { return i.text(folder, competition) })
	if err != nil {
		return err
	}
	sample, err := plainfile.ReadWhole(t.Path(t.SampleSubmission))
	if err != nil {
		return err
	}
	if score, err := t.Grader.Score(sample); err == nil && !math.IsNaN(score) && !math.IsInf(score, 0) {
		i.Sample = &score
	}
	return nil
}

// open opens the task in a folder, whose task.yaml has the text where there is none.
func (i *Imported) open(folder string, text func() (string, error)) (*Task, error) {
	path := filepath.Join(folder, FileName)
	if _, err := os.Stat(path); err != nil {
		content, err := text()
		if err != nil {
			return nil, err
		}
		if err := plainfile.Write(path, []byte(content)); err != nil {
			return nil, err
		}
		i.Written = true
	}
	t, err := Open(folder)
	if err != nil {
		return nil, err
	}
	i.Board = !t.Board.Empty()
	return t, nil
}

// copyBoard copies a leaderboard, if the folder has none and the other has one.
func copyBoard(folder, boards, id string) error {
	path := filepath.Join(folder, "leaderboard.csv")
	if _, err := os.Stat(path); err == nil || boards == "" {
		return nil
	}
	from := filepath.Join(boards, id, "leaderboard.csv")
	content, err := plainfile.Read(from, maxText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := mlebench.ReadBoard(content); err != nil {
		return fmt.Errorf("%q: %w", from, err)
	}
	return plainfile.Write(path, content)
}

// text is the task.yaml of a prepared competition.
func (i *Imported) text(folder string, competition *grader.Competition) (string, error) {
	t := &Task{Folder: folder}
	t.SetDefaults()
	t.Competition = competition.ID
	if err := t.findPublic(); err != nil {
		return "", fmt.Errorf("it is not prepared (mlebench prepare -c %s): %w", competition.ID, err)
	}
	text := fmt.Sprintf("# Written by lathe data import mle-bench.\ncompetition: %s # %s of MLE-bench, %s\n", competition.ID, competition.Split, competition.Metric)
	if _, err := os.Stat(filepath.Join(folder, "leaderboard.csv")); err == nil {
		return text, nil
	}
	answers, err := t.read(t.Answers)
	if err != nil {
		return "", err
	}
	c, err := mlebench.OpenMLEBench(competition, answers, mlebench.Board{})
	if err != nil {
		return "", err
	}
	if err := t.findSample(); err != nil {
		return "", err
	}
	sample, err := t.read(t.SampleSubmission)
	if err != nil {
		return "", err
	}
	worst, err := c.Score(sample)
	if err != nil || math.IsNaN(worst) || math.IsInf(worst, 0) || worst == competition.Best() {
		worst = 0 // of a constant column there is no correlation
	}
	return text + fmt.Sprintf("# There is no leaderboard.csv, so scores are normalised from that of the sample submission to the best there is.\nscore_range: {worst: %v, best: %v}\n",
		worst, competition.Best()), nil
}

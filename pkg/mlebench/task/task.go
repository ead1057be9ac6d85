// Package task reads folders of machine-learning tasks: MLE-bench's prepared
// layout, or MLE-Dojo's, with a file task.yaml that says how the task is graded.
package task

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
	"github.com/lathe-rl/lathe/pkg/mlebench/grader"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// Task is a task that can be worked on and graded. It is read-only, and safe
// for concurrent use.
type Task struct {
	Config             // as it is, files that were looked for included
	Folder      string // absolute
	PublicDir   string // absolute, links followed: all that a program may read of the task
	PublicBytes int64  // in its files
	Description string // as the competition's hosts wrote it
	Preview     string // of the public files, for prompts
	Sample      string // the first lines of the sample submission: its header and three rows
	Grader      *mlebench.Competition
	Board       mlebench.Board  // private; empty where a competition of MLE-bench has none
	PublicBoard *mlebench.Board // nil where there is none
	Range       Range           // of normalised scores
	Inputs      []Input         // every file that decides what a score or a prompt is
}

// Input is a file with its digest.
type Input struct {
	Path   string
	SHA256 string // hexadecimal
}

// maxText bounds a file that is read whole: answers, boards, descriptions. The answers to
// tensorflow2-question-answering have 1.7 GB.
const maxText = 4 << 30

// maxDigested bounds a public file that is digested by its content. Larger ones are
// told apart by their size.
const maxDigested = 64 << 20

// Open reads the task of a folder. What is wrong with it is one data error that
// names the file.
func Open(folder string) (*Task, error) {
	t, err := open(folder)
	if err == nil {
		return t, nil
	}
	err = fmt.Errorf("reading the task in %q: %w", folder, err)
	if errors.Is(err, fs.ErrNotExist) || exitcode.Code(err) == exitcode.Usage {
		err = exitcode.Dataf("%w", err)
	}
	return nil, err
}

func open(folder string) (*Task, error) {
	t, err := openConfig(folder)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{t.findPublic, t.readDescription, t.readGrader, t.readSample, func() error { return t.lookAtPublic(time.Now()) }} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// openConfig is the task of a folder as its task.yaml alone says it.
func openConfig(folder string) (*Task, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	t := &Task{Folder: folder}
	t.SetDefaults()
	content, err := t.read(FileName)
	if err != nil {
		return nil, err
	}
	doc, err := config.Parse(FileName, content)
	if err != nil {
		return nil, err
	}
	if err := doc.Fill(&t.Config, config.Options{}); err != nil {
		return nil, err
	}
	check := config.NewChecker(&t.Config)
	t.validate(check)
	if err := check.Err(FileName); err != nil {
		return nil, err
	}
	if t.Name == "" {
		t.Name = filepath.Base(folder)
	}
	return t, nil
}

// read reads a file of the folder whole and keeps its digest.
func (t *Task) read(name string) ([]byte, error) {
	path := filepath.Join(t.Folder, name)
	content, err := plainfile.Read(path, maxText)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	t.Inputs = append(t.Inputs, Input{path, hex.EncodeToString(sum[:])})
	return content, nil
}

// either is the given name, or the first of the usual ones that is there.
func (t *Task) either(field, given string, usual ...string) (string, error) {
	if given != "" {
		if _, err := os.Stat(filepath.Join(t.Folder, given)); err != nil {
			return "", fmt.Errorf("%s: %w", field, err)
		}
		return given, nil
	}
	for _, name := range usual {
		if _, err := os.Stat(filepath.Join(t.Folder, name)); err == nil {
			return name, nil
		}
	}
	return "", exitcode.Dataf("%s is not set, and there is none of %s", field, strings.Join(usual, ", "))
}

// findPublic finds the folder that programs may read, and refuses one that
// holds the answers.
func (t *Task) findPublic() (err error) {
	if t.Public, err = t.either("public", t.Public, "public", "prepared/public", "data/public"); err != nil {
		return err
	}
	if t.PublicDir, err = filepath.EvalSymlinks(filepath.Join(t.Folder, t.Public)); err != nil {
		return fmt.Errorf("public: %w", err)
	}
	if info, err := os.Stat(t.PublicDir); err != nil || !info.IsDir() {
		return exitcode.Dataf("public: %q is no folder", t.Public)
	}
	if t.Answers == "" {
		if t.Answers, err = t.findAnswers(); err != nil {
			return err
		}
	}
	return errors.Join(t.private("answers", t.Answers), t.private("grader.file", t.Program.File))
}

// private refuses a file that lies in the public folder; none is fine.
func (t *Task) private(field, name string) error {
	if name == "" {
		return nil
	}
	path, err := filepath.EvalSymlinks(t.Path(name))
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if inside, err := filepath.Rel(t.PublicDir, path); err == nil && filepath.IsLocal(inside) {
		return exitcode.Dataf("%s: %q lies in the public folder %q, where every program reads it", field, name, t.Public)
	}
	return nil
}

// findAnswers finds the answers of a competition of MLE-bench, or the one CSV file of
// the private folder.
func (t *Task) findAnswers() (string, error) {
	private, err := t.either("answers", "", "private", "prepared/private", "data/private")
	if err != nil {
		return "", err
	}
	if competition, is := grader.Lookup(t.Competition); is {
		return t.either("answers", filepath.Join(private, competition.AnswersFile))
	}
	files, err := filepath.Glob(filepath.Join(t.Folder, private, "*.csv"))
	if err != nil {
		return "", err
	}
	if len(files) != 1 {
		return "", exitcode.Dataf("answers is not set, and %q has %d CSV files: name the one with the answers", private, len(files))
	}
	return filepath.Join(private, filepath.Base(files[0])), nil
}

func (t *Task) readDescription() (err error) {
	if t.Config.Description, err = t.either("description", t.Config.Description, "description.md", filepath.Join(t.Public, "description.md"), "info/description.txt"); err != nil {
		return err
	}
	content, err := t.read(t.Config.Description)
	if err != nil {
		return err
	}
	if !utf8.Valid(content) {
		return exitcode.Dataf("description: %q is not in UTF-8", t.Config.Description)
	}
	if t.Description = strings.TrimSpace(string(content)); t.Description == "" {
		return exitcode.Dataf("description: %q is empty", t.Config.Description)
	}
	return nil
}

// readGrader reads the boards and the answers.
func (t *Task) readGrader() (err error) {
	competition, ofMLEBench := grader.Lookup(t.Competition)
	l := &t.Leaderboard
	file, err := t.either("leaderboard.file", l.File, "leaderboard.csv", "info/private_leaderboard.csv")
	switch {
	case err == nil:
		l.File = file
		if t.Board, err = t.board(l.File); err != nil {
			return err
		}
	case l.File != "" || !ofMLEBench && t.Program.File == "":
		return err
	}
	if l.Public == "" && l.File != "" {
		l.Public, _ = t.either("leaderboard.public", "", "info/public_leaderboard.csv") // none is fine
	}
	if l.Public != "" {
		public, err := t.board(l.Public)
		if err != nil {
			return err
		}
		if !public.Degenerate() && public.LowerIsBetter() != t.LowerIsBetter() {
			return exitcode.Dataf("leaderboard.public: %q runs the wrong way: %s is to %s", l.Public, t.Metric, t.Direction)
		}
		t.PublicBoard = &public
	}
	answers, err := t.read(t.Answers)
	if err != nil {
		return err
	}
	switch {
	case ofMLEBench:
		t.Grader, err = mlebench.OpenMLEBench(competition, answers, t.Board)
	case t.Program.File != "":
		t.Grader, err = mlebench.OpenProgram(t.Name, metric.Direction(t.Direction), int64(len(answers)), t.Board)
	default:
		spec := mlebench.Spec{ID: t.Name, Metric: t.Metric, IDColumn: t.IDColumn, Columns: t.TargetColumns, Classes: t.Classes}
		t.Grader, err = mlebench.Open(spec, answers, t.Board)
	}
	if err != nil {
		return fmt.Errorf("answers %q: %w", t.Answers, err)
	}
	if err := t.readProgram(); err != nil {
		return err
	}
	if t.ScoreRange != nil {
		t.Range = *t.ScoreRange
	} else if t.Board.Empty() {
		return exitcode.Dataf("there is no leaderboard.csv, and score_range is not set: scores are normalised between the ends of one of them")
	} else if t.Range.Worst, t.Range.Best = t.Board.Ends(); t.Range.Worst == t.Range.Best {
		return exitcode.Dataf("score_range is not set, and all scores of %q are equal", l.File)
	}
	return nil
}

// readProgram digests a grader of one's own: its file, and what it may import beside it.
func (t *Task) readProgram() error {
	if t.Program.File == "" {
		return nil
	}
	if filepath.Ext(t.Program.File) != ".py" {
		return exitcode.Dataf("grader.file: %q must end in .py", t.Program.File)
	}
	folder := filepath.Dir(t.Program.File)
	beside, err := os.ReadDir(t.Path(folder))
	if err != nil {
		return fmt.Errorf("grader.file: %w", err)
	}
	for _, file := range beside {
		if filepath.Ext(file.Name()) != ".py" {
			continue
		}
		if _, err := t.read(filepath.Join(folder, file.Name())); err != nil {
			return fmt.Errorf("grader.file: %w", err)
		}
	}
	return nil
}

func (t *Task) board(name string) (mlebench.Board, error) {
	content, err := t.read(name)
	if err != nil {
		return mlebench.Board{}, err
	}
	board, err := mlebench.ReadBoard(content)
	if err != nil {
		return board, fmt.Errorf("%q: %w", name, err)
	}
	return board, nil
}

// findSample finds the sample submission.
func (t *Task) findSample() (err error) {
	usual := []string{filepath.Join(t.Public, "sample_submission.csv"), filepath.Join(t.Public, "sampleSubmission.csv")}
	if competition, is := grader.Lookup(t.Competition); is {
		// MLE-bench's public copy of some samples is in an archive, and the private one is not.
		usual = append(usual, filepath.Join(t.Public, competition.SampleFile), filepath.Join(filepath.Dir(t.Answers), competition.SampleFile))
	}
	t.SampleSubmission, err = t.either("sample_submission", t.SampleSubmission, usual...)
	return err
}

// readSample checks that the sample submission is a submission: its columns and
// ids are those of the answers.
func (t *Task) readSample() (err error) {
	if err := t.findSample(); err != nil {
		return err
	}
	content, err := t.read(t.SampleSubmission)
	if err != nil {
		return err
	}
	if err := t.Grader.CheckRows(content); err != nil {
		return fmt.Errorf("sample_submission %q against the answers: %w", t.SampleSubmission, err)
	}
	lines := strings.SplitAfterN(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n", 5)
	t.Sample = strings.Join(lines[:min(4, len(lines))], "")
	return nil
}

// Normalised is a score between the ends of the task's range: 0 to 1, more is
// better.
func (t *Task) Normalised(score float64) (float64, error) {
	return mlebench.Normalise(score, t.Range.Worst, t.Range.Best)
}

// LowerIsBetter says the direction of the metric.
func (t *Task) LowerIsBetter() bool { return t.Direction == string(metric.Minimize) }

// HumanRank is the rank of a score where there is a board, on the private board alone or on both
// boards. On a board of baselines it is no rank among people; the caller says so.
func (t *Task) HumanRank(formula mlebench.HumanRank, score float64, both bool) float64 {
	if both && t.PublicBoard != nil {
		return formula.Of(score, t.Board, *t.PublicBoard)
	}
	return formula.Of(score, t.Board)
}

// Find opens the tasks of folders, sorted by name: a folder that has a task.yaml is a
// task, and one that has none is searched for tasks one folder down. names
// chooses tasks (shell patterns); none is all. Of two tasks of one name the first found
// counts, which notes say. A name that no task has is an error.
func Find(folders, names []string) (tasks []*Task, notes []string, err error) {
	byName := map[string]string{}
	used := map[string]bool{}
	for _, folder := range folders {
		paths, err := taskFolders(folder)
		if err != nil {
			return nil, nil, err
		}
		for _, path := range paths {
			// A task.yaml that cannot be read is its task's fault, and no concern of others.
			name := filepath.Base(path)
			if t, err := openConfig(path); err == nil {
				name = t.Name
			}
			if len(names) > 0 && !config.Matches(name, names) {
				continue
			}
			t, err := Open(path)
			if err != nil {
				return nil, nil, err
			}
			if first, twice := byName[t.Name]; twice {
				if first != t.Folder {
					notes = append(notes, fmt.Sprintf("two tasks have the name %q: %q, which comes first, is taken, and %q is left out", t.Name, first, t.Folder))
				}
				continue
			}
			byName[t.Name] = t.Folder
			for _, name := range names {
				used[name] = used[name] || config.Matches(t.Name, []string{name})
			}
			tasks = append(tasks, t)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return used[name] })
	if slices.Sort(missing); len(missing) > 0 {
		return nil, nil, exitcode.Usagef("there is no task %s in %s", frame.Quoted(slices.Compact(missing)), strings.Join(folders, ", "))
	}
	slices.SortFunc(tasks, func(a, b *Task) int { return strings.Compare(a.Name, b.Name) })
	return tasks, notes, nil
}

// taskFolders lists the folders with a task.yaml: this one, or those in it.
func taskFolders(folder string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(folder, FileName)); err == nil {
		return []string{folder}, nil
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*", FileName))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		if _, err := os.Stat(folder); err != nil {
			return nil, exitcode.Dataf("%w", err)
		}
		return nil, exitcode.Dataf("%q has no task: neither it nor a folder in it has a %s", folder, FileName)
	}
	for i := range paths {
		paths[i] = filepath.Dir(paths[i])
	}
	return paths, nil
}

// Input is the digest of a file that the task was read from, by its name in the
// folder; empty for none.
func (t *Task) Input(name string) string {
	for _, input := range t.Inputs {
		if input.Path == filepath.Join(t.Folder, name) {
			return input.SHA256
		}
	}
	return ""
}

// Path is a file of the task's folder.
func (t *Task) Path(name string) string { return filepath.Join(t.Folder, name) }

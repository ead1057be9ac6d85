package mle

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

//go:embed grade.py
var gradeSource string

// ownGrader is a grader of a task's own: a program in a sandbox, in a process for each
// submission, which alone may read the answers.
type ownGrader struct {
	task.Program
	runner  *runner
	path    string   // of the program
	answers string   // path
	read    []string // what it may read beside the interpreter's own
	sample  string   // path of a submission that it must grade; empty for none

	works func() error // whether it grades the sample, asked once
}

// newOwnGrader finds all that a grader reads, links followed. Without a task's folder, paths
// start at the working folder, and the grader reads its own folder and the answers.
func newOwnGrader(r *runner, p task.Program, folder, answers, sample string) (*ownGrader, error) {
	g := &ownGrader{Program: p, runner: r, sample: sample}
	var err error
	if g.path, err = absolute(p.File, folder); err != nil {
		return nil, fmt.Errorf("grader.file: %w", err)
	}
	if g.answers, err = absolute(answers, folder); err != nil {
		return nil, fmt.Errorf("answers: %w", err)
	}
	g.Modules = nil
	for _, name := range p.Modules {
		path, err := absolute(name, folder)
		if err != nil {
			return nil, fmt.Errorf("grader.modules: %w", err)
		}
		g.Modules = append(g.Modules, path)
	}
	g.read = append([]string{filepath.Dir(g.path), g.answers}, g.Modules...)
	if folder != "" {
		if folder, err = filepath.EvalSymlinks(folder); err != nil {
			return nil, err
		}
		g.read = append(g.read, folder)
	}
	g.works = sync.OnceValue(g.gradesSample)
	return g, nil
}

// absolute is a path that starts at a folder, links followed.
func absolute(path, folder string) (string, error) {
	path, err := config.ResolvePath(path, folder)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// grader is what grades a task's submissions.
func (e *Env) grader(ctx context.Context, t *task.Task) (*mlebench.Competition, error) {
	if t.Program.File == "" {
		return t.Grader, nil
	}
	own, _ := e.graders.LoadOrStore(t.Folder, sync.OnceValues(func() (*ownGrader, error) {
		return newOwnGrader(e.runner, t.Program, t.Folder, t.Answers, t.Path(t.SampleSubmission))
	}))
	g, err := own.(func() (*ownGrader, error))()
	if err != nil {
		return nil, exitcode.Dataf("task %q: %w", t.Name, err)
	}
	return t.Grader.By(func(submission []byte) (float64, error) { return g.score(ctx, submission) }), nil
}

// score grades a submission as MLE-bench does: one that its grader refuses, or fails at, is
// not valid. A grader that fails at the sample submission too does not work, and nothing is
// known of the submission; so does one that ends without a word where there is no sample.
func (g *ownGrader) score(ctx context.Context, submission []byte) (float64, error) {
	came, err := g.run(ctx, submission)
	switch {
	case err != nil:
		return 0, g.broken(err)
	case came.Refused != nil:
		return 0, exitcode.Dataf("%s", shortened(*came.Refused))
	case came.failed() != "":
		if err := g.works(); err != nil {
			return 0, g.broken(fmt.Errorf("it %s, and %w", came.failed(), err))
		}
		if g.sample == "" && came.ended != "" {
			return 0, g.broken(errors.New("it " + came.failed()))
		}
		return 0, exitcode.Dataf("the grader %s", came.failed())
	}
	return came.score, nil
}

// gradesSample returns why the sample submission has no score, if the grader is to blame.
func (g *ownGrader) gradesSample() error {
	if g.sample == "" {
		return nil
	}
	sample, err := plainfile.ReadWhole(g.sample)
	if err != nil {
		return err
	}
	came, err := g.run(context.Background(), sample)
	if err == nil && came.failed() != "" {
		err = fmt.Errorf("at the sample submission %s", came.failed())
	}
	return err
}

// broken is an error of the grader.
func (g *ownGrader) broken(err error) error {
	return &mlebench.GraderError{Err: exitcode.WithHint(exitcode.Dataf("the grader %q does not work: %w", g.File, err),
		"correct it (a submission is refused by raising InvalidSubmissionError), then run the command again: nothing was scored by it")}
}

// maxMessage bounds what a policy is told of a refused submission, in characters.
const maxMessage = 500

// shortened is a message on one line, bounded.
func shortened(message string) string {
	text := []rune(strings.TrimSuffix(strings.Join(strings.Fields(plain(message)), " "), "."))
	if len(text) > maxMessage {
		text = append(text[:maxMessage], '…')
	}
	return string(text)
}

// cameOf is what came of a grader: one of the four.
type cameOf struct {
	Score   *string `json:"score"` // as Python writes a float
	Refused *string `json:"refused"`
	Raised  *string `json:"raised"` // by another error than one that refuses

	score float64
	ended string // without a result: how
}

// failed says how the grader failed; it is empty if it gave a score or refused.
func (c cameOf) failed() string {
	if c.Raised != nil {
		return "raised " + shortened(*c.Raised)
	}
	return c.ended
}

// gradeOrder is what the program in the sandbox is to do.
type gradeOrder struct {
	Grader     string   `json:"grader"`
	Answers    string   `json:"answers"`
	Submission string   `json:"submission"`
	Result     string   `json:"result"`
	Tables     string   `json:"tables"`
	Modules    []string `json:"modules"`
}

// maxResult bounds the file in which the result is, in bytes.
const maxResult = 64 << 10

// run runs the grader on a submission, in a scratch folder of its own that is gone
// afterwards. An error is ours.
func (g *ownGrader) run(ctx context.Context, submission []byte) (came cameOf, err error) {
	python, err := g.runner.interpreter()
	if err != nil {
		return came, err
	}
	work, err := sandbox.NewWorkFolder("grade")
	if err != nil {
		return came, err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	in := func(name string) string { return filepath.Join(work.Path, name) }
	order, err := json.Marshal(gradeOrder{g.path, g.answers, in("submission.csv"), in("result.json"), g.Tables, append([]string{}, g.Modules...)})
	if err != nil {
		return came, err
	}
	for name, content := range map[string][]byte{"grade.py": []byte(gradeSource), "order.json": order, "submission.csv": submission} {
		if err := os.WriteFile(in(name), content, 0o600); err != nil {
			return came, err
		}
	}
	if err := os.Mkdir(in("tmp"), 0o700); err != nil {
		return came, err
	}
	result, err := g.runner.execute(ctx, sandbox.Program{
		Args: []string{python.path, "grade.py", "order.json"}, Root: python.root, Dir: work.Path, Env: g.runner.environment(python, nil, work.Path, ""),
		Read: slices.Concat(g.read, python.folders), Write: []string{work.Path}, Require: g.runner.settings.Sandbox.Require,
		Limits: sandbox.Limits{
			Wall: time.Duration(g.WallSeconds * float64(time.Second)), Memory: int64(g.MemoryMB) << 20, Processes: g.Processes,
			FileBytes: 1 << 30, Disk: 2 << 30, Files: maxFiles, Output: outputBytes,
		},
	})
	if err != nil {
		return came, fmt.Errorf("running it: %w", err)
	}
	if result.End == sandbox.NotStarted {
		return came, errors.New("the sandbox could not be built")
	}
	if result.End != sandbox.Exited || result.ExitCode != 0 {
		why := ended(execution{Report: result.Report}, time.Duration(g.WallSeconds*float64(time.Second)))
		came.ended = "ended: " + shortened(why+" "+lastLines(result.Stderr.String()))
		return came, nil
	}
	content, err := plainfile.Read(in("result.json"), maxResult)
	if err == nil {
		err = json.Unmarshal(content, &came)
	}
	if err == nil && came.Score != nil {
		came.score, err = strconv.ParseFloat(*came.Score, 64)
	}
	if err == nil && came == (cameOf{}) {
		err = errors.New("it is empty")
	}
	if err != nil {
		return cameOf{ended: fmt.Sprintf("ended without a result: %v", err)}, nil
	}
	return came, nil
}

// lastLines is the end of what a program printed.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "\n")
}

package mle

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/grader"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

//go:embed check.go
var checkSource string

var _ = config.Docs[checkSettings](checkSource)

// checkSettings are the flags of the checker.
type checkSettings struct {
	Tasks       string   `yaml:"tasks"`        // `FOLDER` in which a line's task is looked for by its name
	Interpreter string   `yaml:"interpreter"`  // `PYTHON` that runs programs
	Image       string   `yaml:"image"`        // `PATH` of the root of programs: a folder, or a SquashFS or SIF file; empty for this machine's files
	Require     []string `yaml:"require"`      // run no program without this `PROTECTION`; may be given again
	Modules     []string `yaml:"modules"`      // `FOLDER` from which a line's grader may import; may be given again
	WallSeconds float64  `yaml:"wall_seconds"` // stop a program after so many `SECONDS`; 0 for the task's own limit
}

// checkLine is a line: a score on a leaderboard, a submission, or a program.
type checkLine struct {
	ID          any      `json:"id"`
	Leaderboard string   `json:"leaderboard"` // a CSV file
	Score       *float64 `json:"score"`       // null for no valid submission
	Task        string   `json:"task"`        // a folder, or a name in --tasks
	Competition string   `json:"competition"` // of MLE-bench, by its id
	Grader      string   `json:"grader"`      // a Python file with grade(submission, answers)
	Answers     string   `json:"answers"`     // the file that the answers of the competition or the grader are in
	Submission  string   `json:"submission"`  // a CSV file
	Program     *string  `json:"program"`     // the text of one
}

// ranked is what a score on a leaderboard is worth.
type ranked struct {
	ID            any  `json:"id"`
	GoldMedal     bool `json:"gold_medal"`
	SilverMedal   bool `json:"silver_medal"`
	BronzeMedal   bool `json:"bronze_medal"`
	AboveMedian   bool `json:"above_median"`
	IsLowerBetter bool `json:"is_lower_better"`

	GoldThreshold   float64 `json:"gold_threshold"`
	SilverThreshold float64 `json:"silver_threshold"`
	BronzeThreshold float64 `json:"bronze_threshold"`
	MedianThreshold float64 `json:"median_threshold"`

	HumanRankPaper   *float64 `json:"humanrank_paper"` // null where there is no score
	HumanRankMLEDojo *float64 `json:"humanrank_mledojo"`
}

// graded is the score of a submission.
type graded struct {
	ID any `json:"id"`
	mlebench.Report
	Why string `json:"why,omitempty"` // the submission is not valid
}

// scoredSubmission is what the grader of a competition of MLE-bench returns.
type scoredSubmission struct {
	ID      any    `json:"id"`
	Score   any    `json:"score"` // not rounded; "nan" or "-inf" where it is that, null of a submission that is not valid
	Valid   bool   `json:"valid"`
	Message string `json:"message,omitempty"` // what is wrong with the submission
}

// ran is the score of a program.
type ran struct {
	ID             any      `json:"id"`
	Outcome        string   `json:"outcome"`
	Score          *float64 `json:"score"` // null of a submission that is not valid
	Milestones     []string `json:"milestones"`
	ExecuteSeconds float64  `json:"execute_seconds"`
	CPUSeconds     float64  `json:"cpu_seconds"`
	Validation     *float64 `json:"validation_score"`
	Feedback       string   `json:"feedback"`
	Protection     string   `json:"protection"`
}

var checker = env.LineChecker{
	Doc: `a line is {"id", "leaderboard", "score"}, {"id", "task", "submission"}, {"id", "competition", "answers", "submission"}, ` +
		`{"id", "grader", "answers", "submission"} or {"id", "task", "program"}; ` +
		`its score is medals and ranks, MLE-bench's report, what MLE-bench's grader or one of your own returns, or the outcome of the program in its sandbox`,
	Settings: func() any {
		return &checkSettings{Interpreter: DefaultSettings().Program.Interpreter, Require: DefaultSettings().Sandbox.Require}
	},
	Line: func() any { return new(checkLine) },
	Verifier: func(settings any) (func(line any) (any, error), error) {
		v := &lineVerifier{settings: *settings.(*checkSettings), tasks: map[string]*task.Task{}, answers: map[string]*mlebench.Competition{}}
		of := DefaultSettings()
		of.Program.Interpreter, of.Program.Image, of.Sandbox.Require, of.Limits.WallSeconds = v.settings.Interpreter, v.settings.Image, v.settings.Require, v.settings.WallSeconds
		of.Milestones = "submission"
		e, err := fromTasks(of, env.NewTaskSet(Name))
		if err != nil {
			return nil, err
		}
		v.env = e
		return func(line any) (any, error) { return v.verdict(*line.(*checkLine)) }, nil
	},
}

// lineVerifier keeps the tasks that lines have named.
type lineVerifier struct {
	settings checkSettings
	env      *Env

	mu      sync.Mutex
	tasks   map[string]*task.Task
	answers map[string]*mlebench.Competition // by competition and file
}

func (v *lineVerifier) verdict(line checkLine) (any, error) {
	switch {
	case line.Leaderboard != "" && line.Task == "":
		return rank(line)
	case (line.Competition != "") != (line.Grader != "") && line.Answers != "" && line.Submission != "" && line.Task == "" && line.Program == nil:
		return v.gradeFiles(line)
	case line.Task != "" && line.Submission != "" && line.Program == nil:
		t, err := v.task(line.Task)
		if err != nil {
			return nil, err
		}
		return v.grade(line, t)
	case line.Task != "" && line.Program != nil && line.Submission == "":
		t, err := v.task(line.Task)
		if err != nil {
			return nil, err
		}
		return v.run(line, t)
	}
	return nil, exitcode.Dataf("a line has a leaderboard and a score, a competition or a grader with answers and a submission, or a task and either a submission or a program")
}

// task finds the task that a line names.
func (v *lineVerifier) task(name string) (*task.Task, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t, ok := v.tasks[name]; ok {
		return t, nil
	}
	folder := name
	if _, err := os.Stat(filepath.Join(folder, task.FileName)); err != nil && v.settings.Tasks != "" {
		folder = filepath.Join(v.settings.Tasks, name)
	}
	t, err := task.Open(folder)
	if err == nil {
		v.tasks[name] = t
	}
	return t, err
}

// maxBoard bounds a leaderboard that a line names.
const maxBoard = 64 << 20

func rank(line checkLine) (any, error) {
	content, err := plainfile.Read(line.Leaderboard, maxBoard)
	if err != nil {
		return nil, err
	}
	board, err := mlebench.ReadBoard(content)
	if err != nil {
		return nil, err
	}
	at := board.Thresholds()
	r := ranked{
		ID: line.ID, IsLowerBetter: board.LowerIsBetter(),
		GoldThreshold: at.Gold, SilverThreshold: at.Silver, BronzeThreshold: at.Bronze, MedianThreshold: at.Median,
	}
	if line.Score == nil {
		return r, nil
	}
	medal := board.Medal(*line.Score)
	r.GoldMedal, r.SilverMedal, r.BronzeMedal = medal == mlebench.Gold, medal == mlebench.Silver, medal == mlebench.Bronze
	r.AboveMedian = board.AboveMedian(*line.Score)
	paper, dojo := mlebench.Paper.Of(*line.Score, board), mlebench.MLEDojo.Of(*line.Score, board)
	r.HumanRankPaper, r.HumanRankMLEDojo = &paper, &dojo
	return r, nil
}

func (v *lineVerifier) grade(line checkLine, t *task.Task) (any, error) {
	grader, err := v.env.grader(context.Background(), t)
	if err != nil {
		return nil, err
	}
	report, err := grader.Grade(line.Submission, time.Now().UTC())
	g := graded{ID: line.ID, Report: report}
	if broken := new(mlebench.GraderError); errors.As(err, &broken) {
		return nil, err
	}
	if err != nil {
		g.Why = err.Error()
	}
	return g, nil
}

// gradeFiles grades a submission by files that are no task.
func (v *lineVerifier) gradeFiles(line checkLine) (any, error) {
	c, err := v.competition(line)
	if err != nil {
		return nil, err
	}
	g := scoredSubmission{ID: line.ID}
	score, err := c.ScoreFile(line.Submission)
	broken := new(mlebench.GraderError)
	switch {
	case errors.As(err, &broken):
		return nil, err
	case err != nil:
		g.Message = err.Error()
	case math.IsNaN(score):
		g.Score, g.Valid = "nan", true
	case math.IsInf(score, 0):
		g.Score, g.Valid = strings.TrimPrefix(strings.ToLower(fmt.Sprint(score)), "+"), true
	default:
		g.Score, g.Valid = score, true
	}
	return g, nil
}

// competition opens the competition or the grader of a line with its answers, once.
func (v *lineVerifier) competition(line checkLine) (*mlebench.Competition, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := line.Competition + "\n" + line.Grader + "\n" + line.Answers
	if c, ok := v.answers[key]; ok {
		return c, nil
	}
	open := v.openCompetition
	if line.Grader != "" {
		open = v.openGrader
	}
	c, err := open(line)
	if err == nil {
		v.answers[key] = c
	}
	return c, err
}

func (v *lineVerifier) openCompetition(line checkLine) (*mlebench.Competition, error) {
	competition, known := grader.Lookup(line.Competition)
	if !known {
		return nil, exitcode.Dataf("%q is no competition of MLE-bench", line.Competition)
	}
	content, err := plainfile.ReadWhole(line.Answers)
	if err != nil {
		return nil, err
	}
	return mlebench.OpenMLEBench(competition, content, mlebench.Board{})
}

func (v *lineVerifier) openGrader(line checkLine) (*mlebench.Competition, error) {
	var defaults task.Config
	defaults.SetDefaults()
	p := defaults.Program
	p.File, p.Modules = line.Grader, v.settings.Modules
	g, err := newOwnGrader(v.env.runner, p, "", line.Answers, "")
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(g.answers)
	if err != nil {
		return nil, err
	}
	c, err := mlebench.OpenProgram(filepath.Base(line.Grader), metric.Maximize, info.Size(), mlebench.Board{}) // the direction is not asked for
	if err != nil {
		return nil, err
	}
	return c.By(func(submission []byte) (float64, error) { return g.score(context.Background(), submission) }), nil
}

func (v *lineVerifier) run(line checkLine, t *task.Task) (any, error) {
	j, err := v.env.submit(context.Background(), t, *line.Program, noBudget)
	if err != nil {
		return nil, err
	}
	r := ran{
		ID: line.ID, Outcome: string(j.Outcome), Milestones: append([]string{}, j.Milestones...),
		ExecuteSeconds: j.ExecuteSeconds, CPUSeconds: j.CPUSeconds, Feedback: j.Feedback, Protection: j.protection,
	}
	if _, ok := j.Part(partScore); ok {
		r.Score = &j.RawScore
	}
	if _, ok := j.Validation(); ok {
		r.Validation = &j.ValidationScore
	}
	return r, nil
}

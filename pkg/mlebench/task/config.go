package task

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/mlebench/grader"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

//go:embed config.go
var source string

var _ = config.Docs[Config](source)

// FileName is the name of the file that makes a folder a task.
const FileName = "task.yaml"

// Config is what task.yaml says. Names of files and folders start at the task's
// folder; an empty one is looked for where MLE-bench and MLE-Dojo put it.
type Config struct {
	Name       string `yaml:"name"`  // empty for the folder's
	Title      string `yaml:"title"` // one line for people
	Split      string `yaml:"split" choices:"train,test"`
	Modality   string `yaml:"modality" choices:"tabular,text,image,series,other"` // of the data
	Complexity string `yaml:"complexity" choices:"low,medium,high"`               // an experienced engineer needs less than 2 hours, 2 to 10, more than 10 (AceGRPO App. A.2)
	Source     string `yaml:"source"`                                             // where the data come from, and their licence

	Competition string  `yaml:"competition"` // of MLE-bench, by its id: graded as MLE-bench grades it; then none of the next five is set
	Program     Program `yaml:"grader"`      // of one's own; then direction is set, metric is what people and prompts call it, and the next three are not set

	Metric        string   `yaml:"metric"`
	Direction     string   `yaml:"direction" choices:"minimize,maximize"` // of the metric; said twice, since a slip here turns a reward around
	IDColumn      string   `yaml:"id_column"`
	TargetColumns []string `yaml:"target_columns"` // of the answers
	Classes       []string `yaml:"classes"`        // the labels, where the answers need not have all of them
	ScoreRange    *Range   `yaml:"score_range"`    // null for that of the leaderboard

	Public           string      `yaml:"public"`            // folder that a program may read; else public, prepared/public, data/public
	Answers          string      `yaml:"answers"`           // CSV file; else the only one in private, prepared/private or data/private
	SampleSubmission string      `yaml:"sample_submission"` // CSV file; else the one of that name in the public folder
	Description      string      `yaml:"description"`       // else description.md, that of the public folder, info/description.txt
	Leaderboard      Leaderboard `yaml:"leaderboard"`

	Limits Limits `yaml:"limits"`
}

// Program is a grader of one's own: a Python file with grade(submission, answers), which
// returns a number, as MLE-bench's graders are. It may read the task's folder.
type Program struct {
	File        string   `yaml:"file"`                          // Python file; empty for none
	Tables      string   `yaml:"tables" choices:"pandas,paths"` // what grade is given: data frames (of answers in JSON lines, a list of objects), or the paths of both files
	Modules     []string `yaml:"modules"`                       // folders from which it may import, beside its own and the interpreter's
	WallSeconds float64  `yaml:"wall_seconds"`                  // of one submission
	MemoryMB    int      `yaml:"memory_mb"`
	Processes   int      `yaml:"processes"` // at once, threads included
}

// Range is what normalised scores run between (ExIt Tab. 3).
type Range struct {
	Worst float64 `yaml:"worst"` // 0, and all beyond it
	Best  float64 `yaml:"best"`  // 1, and all beyond it
}

// Leaderboard names the scores that a score is placed among.
type Leaderboard struct {
	File   string `yaml:"file"`                          // CSV file; else leaderboard.csv, info/private_leaderboard.csv
	Public string `yaml:"public"`                        // CSV file of the public board; else info/public_leaderboard.csv, if it is there
	Of     string `yaml:"of" choices:"people,reference"` // reference: of a fixed set of baseline programs, which is no rank among people
}

// Limits bound a program on this task.
type Limits struct {
	WallSeconds float64 `yaml:"wall_seconds"`
	MemoryMB    int     `yaml:"memory_mb"`
	Processes   int     `yaml:"processes"` // at once, threads included
	FileMB      int     `yaml:"file_mb"`   // of one file
	DiskMB      int     `yaml:"disk_mb"`   // of all files together
	GPUs        int     `yaml:"gpus"`
}

// SetDefaults sets the limits of a task on tables: the five minutes of
// ExIt App. A.4.
func (c *Config) SetDefaults() {
	c.Split, c.Leaderboard.Of = "train", "people"
	c.Program = Program{Tables: "pandas", WallSeconds: 600, MemoryMB: 4096, Processes: 64}
	c.Limits = Limits{WallSeconds: 300, MemoryMB: 4096, Processes: 64, FileMB: 1024, DiskMB: 2048}
}

func (c *Config) validate(check *config.Checker) {
	if strings.ContainsAny(c.Name, "/\\ \t\n") || c.Name == "." || c.Name == ".." {
		check.Add("name", c.Name, "must be a name without slashes and spaces")
	}
	for field, value := range map[string]string{"split": c.Split, "modality": c.Modality, "complexity": c.Complexity, "direction": c.Direction, "leaderboard.of": c.Leaderboard.Of, "grader.tables": c.Program.Tables} {
		if value != "" {
			check.Choice(field, value)
		}
	}
	direction := c.validateMetric(check)
	if r := c.ScoreRange; r != nil {
		switch {
		case r.Worst == r.Best || math.IsInf(r.Worst-r.Best, 0):
			check.Add("score_range", *r, "must be two different numbers")
		case direction != "" && (r.Best < r.Worst) != (direction == metric.Minimize):
			check.Add("score_range", *r, "runs the wrong way: %s is to %s", c.Metric, direction)
		}
	}
	p, l := c.Program, c.Limits
	if !(p.WallSeconds > 0 && p.WallSeconds <= 24*3600) {
		check.Add("grader.wall_seconds", p.WallSeconds, "must be above 0, and at most a day")
	}
	check.AtLeast("grader.memory_mb", p.MemoryMB, 16)
	check.AtLeast("grader.processes", p.Processes, 1)
	if !(l.WallSeconds > 0 && l.WallSeconds <= 7*24*3600) {
		check.Add("limits.wall_seconds", l.WallSeconds, "must be above 0, and at most a week")
	}
	check.AtLeast("limits.memory_mb", l.MemoryMB, 16)
	check.AtLeast("limits.processes", l.Processes, 1)
	check.AtLeast("limits.file_mb", l.FileMB, 1)
	check.AtLeast("limits.disk_mb", l.DiskMB, 1)
	check.AtLeast("limits.gpus", l.GPUs, 0)
}

// validateCompetition finds a competition of MLE-bench, and fills in its metric and
// direction.
func (c *Config) validateCompetition(check *config.Checker) metric.Direction {
	c.unset(check, fmt.Sprintf("the competition %q", c.Competition), map[string]bool{"metric": c.Metric != "", "direction": c.Direction != "", "grader.file": c.Program.File != ""})
	competition, known := grader.Lookup(c.Competition)
	if !known {
		check.Add("competition", c.Competition, "is no competition of MLE-bench; a competition of your own has a metric")
		return ""
	}
	c.Metric, c.Direction = competition.Metric, string(metric.Maximize)
	if competition.LowerIsBetter {
		c.Direction = string(metric.Minimize)
	}
	if c.Modality == "" {
		c.Modality = competition.Modality
	}
	if c.Complexity == "" && competition.Split != grader.Dev {
		c.Complexity = string(competition.Split)
	}
	return metric.Direction(c.Direction)
}

// unset refuses what something else decides: the columns of a metric, and fields that are set.
func (c *Config) unset(check *config.Checker, by string, set map[string]bool) {
	set["id_column"], set["target_columns"], set["classes"] = c.IDColumn != "", c.TargetColumns != nil, c.Classes != nil
	for _, field := range slices.Sorted(maps.Keys(set)) {
		if set[field] {
			check.Add(field, nil, "must not be set: %s decides it", by)
		}
	}
}

// validateProgram checks a task that has a grader of its own.
func (c *Config) validateProgram(check *config.Checker) metric.Direction {
	c.unset(check, "the grader "+strconv.Quote(c.Program.File), map[string]bool{})
	if c.Direction == "" {
		check.Add("direction", c.Direction, "is missing: minimize or maximize")
	}
	c.Metric = cmp.Or(c.Metric, filepath.Base(c.Program.File))
	return metric.Direction(c.Direction)
}

// validateMetric checks how a task is graded, and says which scores are better; empty
// where that is not known.
func (c *Config) validateMetric(check *config.Checker) metric.Direction {
	if c.Competition != "" {
		return c.validateCompetition(check)
	}
	if c.Program.File != "" {
		return c.validateProgram(check)
	}
	m, err := metric.Lookup(c.Metric)
	switch {
	case c.Metric == "":
		check.Add("metric", c.Metric, "is missing")
	case err != nil:
		check.Add("metric", nil, "%v", err)
	case c.Direction == "":
		check.Add("direction", c.Direction, "is missing: minimize or maximize")
	case c.Direction == "minimize" != (m.Direction == metric.Minimize):
		check.Add("direction", c.Direction, "must be %s: that is the direction of %s", m.Direction, m.Name)
	}
	if c.IDColumn == "" {
		check.Add("id_column", c.IDColumn, "is missing")
	}
	seen := map[string]bool{}
	for _, column := range c.TargetColumns {
		if seen[column] || column == "" || column == c.IDColumn {
			check.Add("target_columns", c.TargetColumns, "must be different columns, none of them the id's")
			break
		}
		seen[column] = true
	}
	if len(c.TargetColumns) == 0 {
		check.Add("target_columns", c.TargetColumns, "is missing")
	}
	if labels := slices.Sorted(slices.Values(c.Classes)); len(slices.Compact(labels)) < len(c.Classes) {
		check.Add("classes", c.Classes, "has a label twice")
	}
	return m.Direction
}

package mle

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

//go:embed settings.go
var settingsSource string

var _ = config.Docs[Settings](settingsSource)

// Name is the name of this environment in recipes and rows.
const Name = "mle"

// Settings are the fields of the section env.
type Settings struct {
	Style          string   `yaml:"style" choices:"ExIt,MLE-agents,AceGRPO,MLE-Dojo,short"` // whose prompts: those of ExIt App. B, of RL-MLE App. C, of AceGRPO App. C, MLE-Dojo's actions as MLE-RL App. B takes them, or a few words for policies of a million weights
	MaxTurns       int      `yaml:"max_turns"`                                              // messages of the policy in one trace; after each the program runs and the next prompt says what came of it
	MaxSubmissions int      `yaml:"max_submissions"`                                        // programs of one attempt that may submit; after the last the attempt is over; 0 for no bound
	Prompts        Prompts  `yaml:"prompts"`
	Program        Program  `yaml:"program"`
	Limits         Limits   `yaml:"limits"`
	Sandbox        Sandbox  `yaml:"sandbox"`
	Feedback       Feedback `yaml:"feedback"`
	Grammar        *Grammar `yaml:"grammar"` // draw the demonstrations of a warm start from our grammar of programs for tables; null for those of data.demonstrations

	Quality     string  `yaml:"quality" choices:"range,humanrank,humanrank_mledojo"` // what the normalised score of a valid submission is: its place in the task's score range (ExIt App. A.4), 1 − p/N on the leaderboard (AceGRPO; MLE-RL), or (N − p + 1)/N (MLE-Dojo)
	Ranges      []Range `yaml:"ranges"`                                              // quality range: of the tasks that are named here, in the place of their own score_range or the ends of their leaderboards
	Boards      string  `yaml:"boards" choices:"private,both"`                       // whose ranks are averaged
	Reward      string  `yaml:"reward" choices:"quality,partial_credit,valid"`       // quality: the normalised score; partial_credit: −10 and 0.1 for each milestone, replaced by the score of a valid submission, its sign flipped where lower is better; valid: 1 for a valid submission
	Milestones  string  `yaml:"milestones" choices:"none,terminal,submission"`       // terminal: the seven lines of instrumentation in what the program prints, which a program can print without the work; submission: how far its submission is from a valid one, which no print can claim
	Instrument  string  `yaml:"instrument" choices:"none,rules,assistant"`           // before it runs, a program is given prints of the seven lines, and nothing else of it changes. rules: where its syntax tree shows that it has come so far; assistant: where score.assistant puts them (RL-MLE App. C.3), and if that changes anything else, the original runs
	MaxFailed   float64 `yaml:"max_failed"`                                          // share of a task's programs that may fail by our fault, a sandbox that could not be built or an assistant that did not answer, and be left out as infra; above, the score task fails and is tried again
	Fingerprint bool    `yaml:"fingerprint"`                                         // keep of each valid program what its likeness to others is told by, as the scaffold memory_pool needs
	Validation  string  `yaml:"validation"`                                          // regular expression of the line in which a program prints its score on its own hold-out data, with one group for the number; the last such line counts
}

// Range is the score range of a task (ExIt Tab. 3).
type Range struct {
	Task       string `yaml:"task"` // its name
	task.Range `yaml:",inline"`
}

// Prompts are templates in the place of the style's own. An empty one is that of
// the style. {task_name}, {title}, {metric}, {task_description}, {data_preview},
// {data_files}, {sample_submission}, {packages}, {hardware}, {wall_seconds} and
// {validation_format} are the task's; {program}, {response} and
// {terminal_output} those of the solution that is iterated on; {score} is what is
// known of it, and {other_program}, {other_terminal_output} and {other_score} are
// those of the one that it is joined with. {weights} are the folders of
// env.program.read.
type Prompts struct {
	System     string `yaml:"system"`     // of the system message; empty for the style's own, as all of these
	Draft      string `yaml:"draft"`      // of a first attempt
	Debug      string `yaml:"debug"`      // after a program that failed
	Improve    string `yaml:"improve"`    // after one that did not
	Diverge    string `yaml:"diverge"`    // for another approach
	Crossover  string `yaml:"crossover"`  // to join two programs
	Validation string `yaml:"validation"` // what {validation_format} says
}

// Program says how programs are run.
type Program struct {
	Interpreter string   `yaml:"interpreter"` // of Python: a path, or a name that is looked for; with an image, one in it
	Image       string   `yaml:"image"`       // the root of programs in the place of this machine's files: a folder, a SquashFS file or a SIF file of Apptainer, which is unpacked once into lathe/images of the user's cache folder; it needs mount namespaces; empty for this machine's own. $NAME is taken from the environment
	Threads     int      `yaml:"threads"`     // of numerical libraries, for each program; a score task runs as many programs at once as it has cores for
	Packages    []string `yaml:"packages"`    // that prompts name
	Hardware    string   `yaml:"hardware"`    // that prompts name; with one CPU core, the default, prompts count the threads and GPUs that a program has
	Read        []string `yaml:"read"`        // absolute folders that programs may read beside the task's, such as pretrained weights; what they hold is not checked. HF_HOME is the first with a cache of Hugging Face (hub/models--…), TORCH_HOME the first with hub/checkpoints, and nothing is looked for on the network. $NAME is taken from the environment
}

// Limits bound each program in the place of the task's own limits.
type Limits struct {
	WallSeconds     float64 `yaml:"wall_seconds"`     // of one run; 0 for the task's
	MemoryMB        int     `yaml:"memory_mb"`        // of all its processes; 0 for the task's
	Processes       int     `yaml:"processes"`        // at once, threads included; 0 for the task's
	FileMB          int     `yaml:"file_mb"`          // of one file; 0 for the task's
	DiskMB          int     `yaml:"disk_mb"`          // of all files together; 0 for the task's
	GPUs            *int    `yaml:"gpus"`             // of one program, from those of the score task; null for the task's
	ValidateSeconds float64 `yaml:"validate_seconds"` // of the run of validate_code
}

// Sandbox says how programs are kept apart.
type Sandbox struct {
	Require []string `yaml:"require"` // protections without which no program runs; lathe-score sandbox lists what this host gives
	Warm    []string `yaml:"warm"`    // modules of Python that are imported once for all programs of a task, each of which runs in a fork of that interpreter, in a sandbox of its own; empty for a new interpreter each time
}

// Feedback is what a policy is told of its program.
type Feedback struct {
	MaxTokens int    `yaml:"max_tokens"`                           // of the policy, that a score takes at most: the end of what the program printed, with what we say of it
	Score     string `yaml:"score" choices:"none,validation,rank"` // validation: what the program says of itself; rank: the place on the leaderboard too, in training alone
	History   int    `yaml:"history"`                              // solutions that a prompt to improve remembers (AceGRPO App. C)
}

// Grammar says how demonstrations are drawn.
type Grammar struct {
	Buggy     float64 `yaml:"buggy"`     // share of first attempts that have a slip on purpose, and of programs to improve on
	Crossover float64 `yaml:"crossover"` // share of the demonstrations to improve, of warm_start.improve, that join two programs: the model of one, the features of the other
}

// Data says which tasks there are.
type Data struct {
	Tasks []string `yaml:"tasks" path:"file"` // folders of tasks: each has a task.yaml, or folders with one; of two tasks of one name the first is taken, and a note says so; $NAME is taken from the environment
	Train []string `yaml:"train"`             // names, patterns that end with *, or lists: list:NAME of data/mle/lists, such as list:mle-bench-low, or list:FILE.txt with a name in each line; empty for those whose task.yaml says split: train
	Test  []string `yaml:"test"`              // likewise; empty for those whose task.yaml says split: test. What is here is not trained on

	HeldOut []HeldOut `yaml:"held_out"` // more sets of held-out tasks, to be measured by evaluation.sets. What is in them is not trained on
	Trained []string  `yaml:"trained"`  // sets of held-out tasks, test among them, whose tasks are trained on too where data.train has them; their role in the evaluation is train

	Demonstrations string `yaml:"demonstrations" path:"file"` // JSON lines {"task": pattern, "kind": "initial", "response"} for a warm start; of another kind than initial also "parent", the response that it goes on from, and "failed", what that one's program said as it failed
}

// oneCore is the hardware of a recipe that names none.
const oneCore = "one CPU core"

// validationFormat is the line that our prompts ask for.
const (
	validationFormat  = "Print the evaluation metric on the hold-out data on a line of its own, as `validation: 0.1234`."
	validationPattern = `(?i)^\s*validation(?: score| metric)?\s*[:=]\s*([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*$`
)

// DefaultSettings are ExIt's.
func DefaultSettings() *Settings {
	return &Settings{
		Style: "ExIt", MaxTurns: 1,
		Prompts:  Prompts{Validation: validationFormat},
		Program:  Program{Interpreter: "python3", Threads: 1, Packages: []string{"numpy", "pandas", "scikit-learn"}, Hardware: oneCore},
		Limits:   Limits{ValidateSeconds: 30},
		Sandbox:  Sandbox{Require: []string{sandbox.Files, sandbox.Network}},
		Feedback: Feedback{MaxTokens: 500, Score: "validation", History: 3},
		Quality:  "range", Boards: "private", Reward: "quality", Milestones: "none", Instrument: "none", Validation: validationPattern, MaxFailed: 0.1,
	}
}

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: Name, Summary: "machine-learning tasks that a program of the policy solves",
		Settings: func() any { return DefaultSettings() },
		Make: func(settings any) (env.Setup, error) {
			s := settings.(*Settings)
			return env.Setup{
				Traits: s.traits(), Data: &Data{}, Checker: &checker,
				Validate: func(c *config.Checker, data any) {
					validate(c, s)
					data.(*Data).validate(c)
				},
				Load: func(data any, _ uint64, folder string) (*env.TaskSet, error) { return load(data.(*Data), folder) },
				New:  func(tasks *env.TaskSet, _ string) (env.Env, error) { return fromTasks(s, tasks) },
				Host: func() ([]string, error) { return s.host(sandbox.Probe()) },
			}, nil
		},
	})
}

// traits: a program may take minutes, so each turn after the first takes a wave.
func (s *Settings) traits() env.Traits {
	return env.Traits{Turns: s.MaxTurns, Waves: s.MaxTurns, Slow: true, Programs: true, Threads: s.Program.Threads, Validated: true, Joins: true, MaxFailed: s.MaxFailed, MaxFailedSetting: "env.max_failed"}
}

// host checks that a machine of this protection gives what programs must have.
func (s *Settings) host(given sandbox.Protection) (notes []string, err error) {
	required := s.Sandbox.Require
	if s.Program.Image != "" {
		required = slices.Concat(required, []string{sandbox.Paths})
	}
	if err := given.Require(required); err != nil {
		return nil, exitcode.WithHint(fmt.Errorf("env.sandbox.require: %w", err), "run it where lathe-score sandbox lists them as provided, or require less")
	}
	if missing := given.Missing(sandbox.Names()); len(missing) > 0 {
		notes = append(notes, fmt.Sprintf("programs of the policy run without %s on this machine, which provides %s; env.sandbox.require refuses to run without", strings.Join(missing, ", "), given))
	}
	return notes, nil
}

func validate(c *config.Checker, s *Settings) {
	c.AtLeast("env.max_turns", s.MaxTurns, 1)
	c.AtLeast("env.program.threads", s.Program.Threads, 1)
	c.AtLeast("env.max_submissions", s.MaxSubmissions, 0)
	c.AtLeast("env.limits.memory_mb", s.Limits.MemoryMB, 0)
	c.AtLeast("env.limits.processes", s.Limits.Processes, 0)
	c.AtLeast("env.limits.file_mb", s.Limits.FileMB, 0)
	c.AtLeast("env.limits.disk_mb", s.Limits.DiskMB, 0)
	if s.Limits.GPUs != nil {
		c.AtLeast("env.limits.gpus", *s.Limits.GPUs, 0)
	}
	c.NotNegative("env.limits.wall_seconds", s.Limits.WallSeconds)
	c.Positive("env.limits.validate_seconds", s.Limits.ValidateSeconds)
	c.AtLeast("env.feedback.max_tokens", s.Feedback.MaxTokens, 30)
	c.AtLeast("env.feedback.history", s.Feedback.History, 1)
	c.Share("env.max_failed", s.MaxFailed)
	for i, r := range s.Ranges {
		if r.Task == "" || r.Worst == r.Best {
			c.Add(fmt.Sprintf("env.ranges.%d", i), nil, "must have the name of a task and two scores that differ")
		}
	}
	for field, value := range map[string]string{
		"env.style": s.Style, "env.quality": s.Quality, "env.boards": s.Boards, "env.reward": s.Reward,
		"env.milestones": s.Milestones, "env.instrument": s.Instrument, "env.feedback.score": s.Feedback.Score,
	} {
		c.Choice(field, value)
	}
	if s.Grammar != nil {
		c.Share("env.grammar.buggy", s.Grammar.Buggy)
		c.Share("env.grammar.crossover", s.Grammar.Crossover)
	}
	if strings.TrimSpace(s.Program.Interpreter) == "" {
		c.Add("env.program.interpreter", s.Program.Interpreter, "must not be empty")
	}
	if image := s.Program.Image; image != "" {
		if !filepath.IsAbs(image) && !strings.HasPrefix(image, "$") {
			c.Add("env.program.image", image, "must be absolute or begin with a variable of the environment")
		}
		if len(s.Sandbox.Warm) > 0 {
			c.Add("env.sandbox.warm", s.Sandbox.Warm, "imports modules of this machine's interpreter, and env.program.image has its own: empty one of them")
		}
		if name := s.Program.Interpreter; strings.Contains(name, "/") && !filepath.IsAbs(name) {
			c.Add("env.program.interpreter", name, "must be absolute or a name, in an image")
		}
	}
	for _, folder := range s.Program.Read {
		if !filepath.IsAbs(folder) && !strings.HasPrefix(folder, "$") {
			c.Add("env.program.read", folder, "must be absolute or begin with a variable of the environment")
		}
	}
	for _, name := range s.Sandbox.Require {
		if !slices.Contains(sandbox.Names(), name) {
			c.Add("env.sandbox.require", name, "is none of %s", strings.Join(sandbox.Names(), ", "))
		}
	}
	if s.Instrument != "none" && s.Milestones != "terminal" {
		c.Add("env.instrument", s.Instrument, "prints lines that env.milestones %q does not read", s.Milestones)
	}
	if _, there := config.Find[int](c.Settings(), "score.assistant.max_new_tokens"); s.Instrument == "assistant" && !there {
		c.Add("env.instrument", s.Instrument, "needs the section score.assistant")
	}
	if pattern, err := regexp.Compile(s.Validation); err != nil || pattern.NumSubexp() != 1 {
		c.Add("env.validation", s.Validation, "must be a regular expression with one group")
	}
	if s.Style == "MLE-Dojo" && s.MaxTurns == 1 {
		c.Add("env.max_turns", s.MaxTurns, "leaves no turn after the first action: MLE-RL takes 15")
	}
	for _, p := range []struct{ field, text string }{
		{"system", s.Prompts.System},
		{"draft", s.Prompts.Draft},
		{"debug", s.Prompts.Debug},
		{"improve", s.Prompts.Improve},
		{"diverge", s.Prompts.Diverge},
		{"crossover", s.Prompts.Crossover},
		{"validation", s.Prompts.Validation},
	} {
		checkTemplate(c, "env.prompts."+p.field, p.text)
	}
}

// ranged is a task with the score range that the recipe gives it, if any.
func (s *Settings) ranged(t *task.Task) *task.Task {
	for _, r := range s.Ranges {
		if r.Task == t.Name {
			own := *t
			own.ScoreRange, own.Range = &r.Range, r.Range
			return &own
		}
	}
	return t
}

// limits of a program: the recipe's, else the task's.
func (s *Settings) limits(t *task.Task) task.Limits {
	l := t.Limits
	if s.Limits.WallSeconds > 0 {
		l.WallSeconds = s.Limits.WallSeconds
	}
	for _, own := range []struct {
		recipe int
		limit  *int
	}{{s.Limits.MemoryMB, &l.MemoryMB}, {s.Limits.Processes, &l.Processes}, {s.Limits.FileMB, &l.FileMB}, {s.Limits.DiskMB, &l.DiskMB}} {
		if own.recipe > 0 {
			*own.limit = own.recipe
		}
	}
	if s.Limits.GPUs != nil {
		l.GPUs = *s.Limits.GPUs
	}
	return l
}

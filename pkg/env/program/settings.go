package program

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

//go:embed settings.go
var settingsSource string

var _ = config.Docs[Settings](settingsSource)

// Settings are the fields of the section env.
type Settings struct {
	Prompts Prompts `yaml:"prompts"`
	Program Program `yaml:"program"`
}

// Prompts are templates, where the program words no prompts itself. {instruction}
// stands for the task's request, {question} for its question, {previous_response}
// for the message that is iterated on. A task whose question is a list of messages
// is asked by these as they are.
type Prompts struct {
	System  string `yaml:"system"`  // message before the request; empty for none
	Initial string `yaml:"initial"` // of a first answer
	Improve string `yaml:"improve"` // in the place of the last request: improve on the message
	Diverge string `yaml:"diverge"` // in its place: answer in another way
}

// Program says which program it is, and how it is run and spoken with.
type Program struct {
	Command         []string `yaml:"command"`          // program, one word to an entry, started in the folder of the recipe; it speaks JSON lines (data/README.md). It runs as it is, with your rights and little of your environment, unless sandbox is given
	PassEnvironment []string `yaml:"pass_environment"` // names of the variables that it gets of your environment, beside PATH, HOME, LANG and the like; a * at the end stands for any rest
	MaxTurns        int      `yaml:"max_turns"`        // messages of the policy in one episode; with more than 1 the program answers them (begin, next)
	Waves           bool     `yaml:"waves"`            // each message is scored before the program answers it, in a score task: for scores that take minutes
	Processes       int      `yaml:"processes"`        // programs at a time in each task; 0 for one on each core. More than cores for rewards that wait for something else
	Batch           int      `yaml:"batch"`            // scores that a program is asked for in one request, at most
	Seconds         float64  `yaml:"seconds"`          // that one answer may take; an answer to a request of several as many times as long
	StartSeconds    float64  `yaml:"start_seconds"`    // that the first answer may take, imports included
	Retries         int      `yaml:"retries"`          // how often a program that has crashed, hangs or says what it must not is started again for the same request
	MaxFailed       float64  `yaml:"max_failed"`       // share of a task's episodes or scores that may fail by the program's fault and be left out as infra; above, the task fails and is tried again
	Sandbox         *Sandbox `yaml:"sandbox"`          // run the program without network, and with no file but the system's own, the recipe's folder and what is granted here; null for no sandbox
}

// Sandbox says what a sandboxed program may have. It reads the system's own files and
// the folder of the recipe, and writes nowhere but in a folder of its own.
type Sandbox struct {
	Read     []string `yaml:"read" path:"file"` // more files and folders that it may read and run, such as a virtual environment; $NAME is taken from the environment
	MemoryMB int      `yaml:"memory_mb"`        // of all its processes; 0 for no bound
	Require  []string `yaml:"require"`          // protections without which it does not run; lathe-score sandbox lists what this host gives
}

// SetDefaults asks for files and network to be kept away.
func (c *Sandbox) SetDefaults() { *c = Sandbox{Require: []string{sandbox.Files, sandbox.Network}} }

// Data says where the tasks come from: files, or the program.
type Data struct {
	Train Source `yaml:"train"`
	Test  Source `yaml:"test"`
}

// Source is one set of tasks.
type Source struct {
	dataset.Source `yaml:",inline"`

	Response string `yaml:"response"` // optional: path to a response that a warm start learns from, for all lines or some
}

// SetDefaults names the fields as TRL does.
func (s *Source) SetDefaults() {
	s.Source = dataset.DefaultSource()
	s.Fields.Question = "prompt"
}

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: Name, Summary: "your own reward, data and environment: a program in Python or anything else",
		Settings: func() any { return DefaultSettings() },
		Make: func(settings any) (env.Setup, error) {
			s, defaults := settings.(*Settings), &Data{}
			defaults.Train.SetDefaults()
			defaults.Test.SetDefaults()
			return env.Setup{
				Traits: s.Program.traits(), Data: defaults,
				Validate: func(c *config.Checker, data any) { validate(c, s, data.(*Data)) },
				Load: func(data any, seed uint64, folder string) (*env.TaskSet, error) {
					return load(s, data.(*Data), seed, folder)
				},
				New: func(tasks *env.TaskSet, folder string) (env.Env, error) { return fromTasks(s, tasks, folder) },
			}, nil
		},
	})
}

// DefaultSettings are for rewards of one answer that take less than seconds.
func DefaultSettings() *Settings {
	return &Settings{
		Prompts: Prompts{Initial: "{question}", Improve: env.ImprovePrompt, Diverge: env.DivergePrompt},
		Program: Program{MaxTurns: 1, Batch: 16, Seconds: 60, StartSeconds: 300, Retries: 2, MaxFailed: 0.1},
	}
}

func (p Program) traits() env.Traits {
	t := env.Traits{
		Turns: p.MaxTurns, Waves: 1, AtATime: p.Processes, Batch: p.Batch,
		MaxFailed: p.MaxFailed, MaxFailedSetting: "env.program.max_failed",
	}
	if p.Waves {
		t.Waves, t.Slow = p.MaxTurns, true
	}
	return t
}

func validate(c *config.Checker, s *Settings, d *Data) {
	env.CheckTemplate(c, "env.prompts.system", s.Prompts.System)
	env.CheckTemplates(c, "env.prompts", s.Prompts.Initial, s.Prompts.Improve, s.Prompts.Diverge)
	p := s.Program
	if len(p.Command) == 0 || strings.TrimSpace(p.Command[0]) == "" {
		c.Add("env.program.command", nil, "must name your program, such as [python3, ../data/program/lathe_env.py, reward.py]")
	}
	c.AtLeast("env.program.max_turns", p.MaxTurns, 1)
	c.Between("env.program.processes", p.Processes, 0, 1024)
	c.Between("env.program.batch", p.Batch, 1, 4096)
	c.Positive("env.program.seconds", p.Seconds)
	c.Positive("env.program.start_seconds", p.StartSeconds)
	c.Between("env.program.retries", p.Retries, 0, 100)
	c.Share("env.program.max_failed", p.MaxFailed)
	if own := p.Sandbox; own != nil {
		c.AtLeast("env.program.sandbox.memory_mb", own.MemoryMB, 0)
		for i, name := range own.Require {
			c.OneOf(fmt.Sprintf("env.program.sandbox.require.%d", i), name, sandbox.Names())
		}
	}
	if d.Train.SkipRepeated {
		c.Add("data.train.skip_repeated", true, "is for what is held out")
	}
	d.Test.NeedsTrain(c, "data.test")
	for _, part := range d.parts() {
		if len(part.Files) == 0 {
			c.AtLeast(part.where+".limit", part.Limit, 0)
			if part.Response != "" || len(part.Filter) > 0 || part.TestShare != 0 {
				c.Add(part.where+".files", nil, "is empty: the tasks are the program's, and %s.response, filter and test_share are for files", part.where)
			}
			continue
		}
		source := part.Source.Source
		if source.Fields.Answer == "" {
			source.Fields.Answer = "answer" // a reward may need none
		}
		source.Validate(c, part.where)
	}
	if (len(d.Train.Files) == 0) != (len(d.Test.Files) == 0) && len(d.Train.Files) == 0 {
		c.Add("data.train.files", nil, "is empty, and data.test.files is not: held-out tasks are from files where those to train on are")
	}
	env.CheckProblems(c, "data.test.limit", d.Test.Limit)
}

// part is the source of a split.
type part struct {
	split env.Split
	where string // it stands in the recipe
	Source
}

func (d *Data) parts() []part {
	return []part{{env.Train, "data.train", d.Train}, {env.Test, "data.test", d.Test}}
}

// commandHint says what env.program.command is.
const commandHint = "env.program.command is the command, one word to an entry, such as [python3, lathe_env.py, reward.py]; it runs in the folder of the recipe, %s"

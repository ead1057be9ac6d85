package tooluse

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed settings.go
var settingsSource string

var _ = config.Docs[Settings](settingsSource)

// Settings are the fields of the section env.
type Settings struct {
	Prompts Prompts `yaml:"prompts"`
	ToolUse ToolUse `yaml:"tooluse"`
}

// Prompts are templates. {instruction} stands for the task's prompt, {question}
// for the user's request, {previous_response} for the message that is iterated
// on. The defaults are the texts of ExIt App. B.
type Prompts struct {
	Initial string `yaml:"initial"` // the user's message of each turn
	Improve string `yaml:"improve"` // in the place of the last request: improve on the message
	Diverge string `yaml:"diverge"` // in its place: do it in another way
}

// ToolUse says which functions there are, how they are shown and how long an
// episode lasts (ExIt App. A.3). The functions are BFCL's own, or those of
// a command. A message of the policy ends with a list of calls in <tool> and
// </tool>, or with <TASK_FINISHED> or <TASK_ERROR>.
type ToolUse struct {
	BFCL            string       `yaml:"bfcl" path:"file"`                       // folder of the files of BFCL's multi-turn-base: its 200 tasks and its functions; empty for functions of your own, whose tasks are data.train.files and data.test.files
	Halves          string       `yaml:"halves"`                                 // bfcl: JSON file {"train": [ids], "test": [ids]}, in the folder of bfcl unless absolute; empty: halves stratified by turns and classes, drawn by the seed
	Functions       string       `yaml:"functions" path:"file"`                  // JSON file with the list of your functions, each with name, description and parameters (a JSON schema)
	Command         []string     `yaml:"command"`                                // program that runs your functions, one word to an entry, in the folder of the recipe; it speaks JSON lines (data/README.md). It runs as it is, with your rights and little of your environment (pass_environment): there is no sandbox
	PassEnvironment []string     `yaml:"pass_environment"`                       // command: names of the variables that the program gets of your environment, beside PATH, HOME, LANG and the like; a * at the end stands for any rest
	System          string       `yaml:"system"`                                 // template of the system message; {tools} stands for the functions
	Docs            string       `yaml:"docs" choices:"schema,signature"`        // how {tools} shows a function: schema, its JSON; or signature, one short line
	Calls           string       `yaml:"calls" choices:"list,any"`               // list: a message calls functions by a JSON list of objects with name and args; any: also by one such object without a list, and with parameters or arguments in the place of args (ExIt App. D)
	ResultRole      string       `yaml:"result_role" choices:"system,user,tool"` // role of the message that the results come back in
	Train           EpisodeRules `yaml:"train"`                                  // episodes of the training split
	Test            EpisodeRules `yaml:"test"`                                   // episodes of the test split
	MaxCalls        int          `yaml:"max_calls"`                              // calls of one message that are executed
	MaxResultBytes  int          `yaml:"max_result_bytes"`                       // of one result that are shown
	CallSeconds     float64      `yaml:"call_seconds"`                           // command: how long one answer may take
	Retries         int          `yaml:"retries"`                                // command: how often a program that has crashed or hangs is started again in an episode, which is then played again up to there
	Processes       int          `yaml:"processes"`                              // command: programs of a task alive at a time; an episode whose program was ended is played again by a new one
	MaxFailed       float64      `yaml:"max_failed"`                             // command: share of a task's episodes that may fail by the program's fault and be left out as infra; above, the task fails and is tried again
}

// EpisodeRules say when an episode is over.
type EpisodeRules struct {
	UserTurns int `yaml:"user_turns"` // requests of the user that are played and scored, each after <TASK_FINISHED> of the one before; 0 for all
	Steps     int `yaml:"steps"`      // messages of the policy, in all turns together
}

// Data says where the tasks of your own functions come from, and how many tasks
// are kept.
type Data struct {
	Train Source `yaml:"train"`
	Test  Source `yaml:"test"`

	Validation int `yaml:"validation"` // training tasks, chosen by the seed, that are kept out of training: the set validation of evaluation.sets, in the episodes of the test split
}

// Validation is the set of data.validation.
const Validation env.Split = "validation"

// Source is one set of tasks.
type Source struct {
	Files []string `yaml:"files" path:"file"` // JSONL of tasks of your own functions (data/README.md), relative to the recipe's folder unless absolute; $NAME is taken from the environment
	Limit int      `yaml:"limit"`             // keep this many, chosen by the seed; 0 keeps all
}

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: Name, Summary: "requests to fulfil by calling functions: BFCL's multi-turn tasks, or your own program's",
		Settings: func() any { return DefaultSettings() },
		Make: func(settings any) (env.Setup, error) {
			s := settings.(*Settings)
			return env.Setup{
				Traits: s.traits(), Data: &Data{}, Checker: &checker,
				Validate: func(c *config.Checker, data any) { validate(c, s, data.(*Data)) },
				Load: func(data any, seed uint64, folder string) (*env.TaskSet, error) {
					return load(&s.ToolUse, data.(*Data), seed, folder)
				},
				New:           func(tasks *env.TaskSet, folder string) (env.Env, error) { return fromTasks(s, tasks, folder) },
				SolutionSteps: s.solutionSteps,
			}, nil
		},
	})
}

// DefaultSettings are the rules of ExIt App. A.3.
func DefaultSettings() *Settings {
	return &Settings{
		Prompts: Prompts{Initial: "{question}", Improve: env.ImprovePrompt, Diverge: env.DivergePrompt},
		ToolUse: ToolUse{
			Halves: "split_100_100.json", System: toolsTemplate, Docs: "schema", Calls: callsList, ResultRole: "system",
			Train: EpisodeRules{UserTurns: 1, Steps: 10}, Test: EpisodeRules{Steps: 60},
			MaxCalls: 20, MaxResultBytes: 16 << 10, CallSeconds: 10, Retries: 2, Processes: 64, MaxFailed: 0.1,
		},
	}
}

// solutionSteps counts the reference calls of the turns of a task that training plays
// (reading exit-solution-steps); 0 where the answer has none.
func (s *Settings) solutionSteps(answer string) int {
	var turns [][]json.RawMessage
	if json.Unmarshal([]byte(answer), &turns) != nil {
		return 0
	}
	if played := s.ToolUse.Train.UserTurns; played > 0 {
		turns = turns[:min(played, len(turns))]
	}
	return len(slices.Concat(turns...))
}

// traits: an attempt is many messages, which are answered at once.
func (s *Settings) traits() env.Traits {
	tools := s.ToolUse
	return env.Traits{
		Turns: max(tools.Train.Steps, tools.Test.Steps), Waves: 1, MaxFailed: tools.MaxFailed, MaxFailedSetting: "env.tooluse.max_failed",
		ByMessage: true, Transcript: true,
	}
}

// Resolve gives the folder of BFCL's files, the file of its halves and the file
// of one's own functions as paths that can be opened ([config.ResolvePath]);
// empty for none.
func (u ToolUse) Resolve(folder string) (bfcl, halves, functions string, err error) {
	if u.BFCL != "" {
		if bfcl, err = config.ResolvePath(u.BFCL, folder); err != nil {
			return "", "", "", err
		}
		if u.Halves != "" {
			if halves, err = config.ResolvePath(u.Halves, bfcl); err != nil {
				return "", "", "", err
			}
		}
	}
	if u.Functions != "" {
		functions, err = config.ResolvePath(u.Functions, folder)
	}
	return bfcl, halves, functions, err
}

// endings are the strings that a message of the policy ends with.
func endings() []string { return []string{"</tool>", "<TASK_FINISHED>", "<TASK_ERROR>"} }

func validate(c *config.Checker, s *Settings, data *Data) {
	env.CheckTemplates(c, "env.prompts", s.Prompts.Initial, s.Prompts.Improve, s.Prompts.Diverge)
	u := s.ToolUse
	checkTools(c, u, data)
	if !strings.Contains(u.System, "{tools}") {
		c.Add("env.tooluse.system", u.System, "must contain {tools}")
	}
	c.Choice("env.tooluse.docs", u.Docs)
	c.Choice("env.tooluse.calls", u.Calls)
	c.Choice("env.tooluse.result_role", u.ResultRole)
	for _, rules := range []struct {
		split string
		EpisodeRules
	}{{"train", u.Train}, {"test", u.Test}} {
		c.AtLeast("env.tooluse."+rules.split+".user_turns", rules.UserTurns, 0)
		c.AtLeast("env.tooluse."+rules.split+".steps", rules.Steps, 1)
	}
	c.AtLeast("env.tooluse.max_calls", u.MaxCalls, 1)
	c.AtLeast("env.tooluse.max_result_bytes", u.MaxResultBytes, 64)
	stop, _ := config.Find[[]string](c.Settings(), "rollout.stop")
	for _, ending := range endings() {
		if !slices.Contains(stop, ending) {
			c.Add("rollout.stop", nil, "must have %s for env.name tooluse: a message of the policy ends there", ending)
		}
	}
	if include, ok := config.Find[bool](c.Settings(), "rollout.include_stop"); ok && !include {
		c.Add("rollout.include_stop", false, "must be true for env.name tooluse, which reads how a message ends")
	}
	env.CheckProblems(c, "data.test.limit", data.Test.Limit)
}

// checkTools checks where the functions and the tasks are from.
func checkTools(c *config.Checker, u ToolUse, data *Data) {
	const own = "env.tooluse.functions"
	switch {
	case u.BFCL == "" && u.Functions == "":
		c.Add("env.tooluse", nil, "names no functions: give env.tooluse.bfcl, or %s and env.tooluse.command", own)
		return
	case u.BFCL != "" && (u.Functions != "" || len(u.Command) > 0):
		c.Add("env.tooluse.bfcl", u.BFCL, "must be empty when %s and env.tooluse.command are given", own)
		return
	}
	for _, part := range []struct {
		split string
		Source
	}{{"train", data.Train}, {"test", data.Test}} {
		field := "data." + part.split
		c.AtLeast(field+".limit", part.Limit, 0)
		switch {
		case u.BFCL != "" && len(part.Files) > 0:
			c.Add(field+".files", nil, "must be empty when env.tooluse.bfcl has the tasks")
		case u.BFCL == "" && len(part.Files) == 0:
			c.Add(field+".files", nil, "must name the tasks of your functions")
		}
		for i, file := range part.Files {
			if strings.TrimSpace(file) == "" {
				c.Add(fmt.Sprintf("%s.files.%d", field, i), file, "must not be empty")
			}
		}
	}
	c.AtLeast("data.validation", data.Validation, 0)
	if u.BFCL != "" {
		return
	}
	if len(u.Command) == 0 || strings.TrimSpace(u.Command[0]) == "" {
		c.Add("env.tooluse.command", nil, "must name the program that executes %s", own)
	}
	c.Positive("env.tooluse.call_seconds", u.CallSeconds)
	c.AtLeast("env.tooluse.retries", u.Retries, 0)
	c.Between("env.tooluse.processes", u.Processes, 1, 4096)
	c.Share("env.tooluse.max_failed", u.MaxFailed)
}

// toolsTemplate is our own: ExIt App. A.3 says what its system prompt asks for and
// does not print it.
const toolsTemplate = `You carry out a user's requests by calling functions. These are the functions, each with the JSON schema of its parameters:

{tools}

Begin every message with your thoughts, between <reasoning> and </reasoning>. Then do exactly one of three things:

1. Call functions. Write one JSON list of calls; they are carried out in its order, up to the first one that fails.
<reasoning> why these calls </reasoning>
<tool>
[{"name": "function_name", "args": {"parameter": "value"}}]
</tool>
You get the results back between <tool_result> and </tool_result>, and can go on from there.

2. Once the last request of the user is fulfilled, say so. The user may then make another request.
<reasoning> why it is fulfilled </reasoning>
<TASK_FINISHED>

3. If the request cannot be fulfilled, whatever you call, give up.
<reasoning> why it cannot be </reasoning>
<TASK_ERROR>

Take the values of parameters from what the user says and from earlier results. Leave a parameter out where its default is what is wanted, and call nothing that the request does not need.`

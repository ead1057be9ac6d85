package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
)

// Endings are the strings that a message of the policy ends with in the
// environment tooluse.
func Endings() []string { return []string{"</tool>", "<TASK_FINISHED>", "<TASK_ERROR>"} }

// checkToolUse checks the settings of the environment tooluse, and those of
// other sections that it leans on.
func (r *Recipe) checkToolUse(c *config.Checker) {
	u := r.Env.ToolUse
	if r.Env.Name != "tooluse" {
		if u != nil {
			c.Add("env.tooluse", nil, "must be null for env.name %s", r.Env.Name)
		}
		return
	}
	if u == nil {
		c.Add("env.tooluse", nil, "must be given for env.name tooluse: env.tooluse.bfcl, or env.tooluse.functions and env.tooluse.command")
		return
	}
	r.checkTools(c, u)
	if !strings.Contains(u.System, "{tools}") {
		c.Add("env.tooluse.system", u.System, "must contain {tools}")
	}
	c.Choice("env.tooluse.docs", u.Docs)
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
	if r.Env.MaxTurns != 1 {
		c.Add("env.max_turns", r.Env.MaxTurns, "must be 1 for env.name tooluse: env.tooluse.train and env.tooluse.test have the bounds")
	}
	if r.Env.Prompts.System != "" {
		c.Add("env.prompts.system", r.Env.Prompts.System, "must be empty for env.name tooluse, whose system message is env.tooluse.system")
	}
	for _, ending := range Endings() {
		if !slices.Contains(r.Rollout.Stop, ending) {
			c.Add("rollout.stop", nil, "must have %s for env.name tooluse: a message of the policy ends there", ending)
		}
	}
	if !r.Rollout.IncludeStop {
		c.Add("rollout.include_stop", false, "must be true for env.name tooluse, which reads how a message ends")
	}
}

// checkTools checks where the functions and the tasks are from.
func (r *Recipe) checkTools(c *config.Checker, u *ToolUse) {
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
	}{{"train", r.Data.Train}, {"test", r.Data.Test}} {
		field := "data." + part.split
		c.AtLeast(field+".limit", part.Limit, 0)
		if part.Generate != nil {
			c.Add(field+".generate", nil, "must be null for env.name tooluse")
		}
		if len(part.Filter) > 0 {
			c.Add(field+".filter", nil, "must be empty for env.name tooluse")
		}
		if part.Fields != defaultSource().Fields {
			c.Add(field+".fields", nil, "must not be given for env.name tooluse, whose tasks have names of their own")
		}
		if part.MaxBad != 0 {
			c.Add(field+".max_bad", part.MaxBad, "must be 0 for env.name tooluse")
		}
		if part.SkipRepeated {
			c.Add(field+".skip_repeated", true, "must be false for env.name tooluse")
		}
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
	if u.BFCL != "" {
		return
	}
	if len(u.Command) == 0 || strings.TrimSpace(u.Command[0]) == "" {
		c.Add("env.tooluse.command", nil, "must name the program that carries out %s", own)
	}
	c.Positive("env.tooluse.call_seconds", u.CallSeconds)
	c.AtLeast("env.tooluse.retries", u.Retries, 0)
	c.Between("env.tooluse.processes", u.Processes, 1, 4096)
	c.Share("env.tooluse.max_failed", u.MaxFailed)
}

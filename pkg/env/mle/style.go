package mle

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

//go:embed prompts
var texts embed.FS

// text is a file of the folder prompts.
func text(name string) string {
	content, err := texts.ReadFile("prompts/" + name)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return strings.TrimRight(string(content), "\n")
}

// style is how the policy is asked: the system message, which may be empty, and
// a template for each kind of prompt.
type style struct {
	system, draft, debug, improve, diverge string
	// crossover is the template of a prompt that joins two programs.
	crossover string
	// starter is what a first attempt is shown as the current program.
	starter string
	// fenced says that a program stands in a fenced block, and nowhere else.
	fenced bool
	// actions says that a message is one of MLE-Dojo's actions.
	actions bool
}

// styles are the papers' prompts. Where a paper leaves a slot out, the slot is
// ours; TestPaperPrompts says where.
var styles = map[string]style{
	"ExIt": {
		draft: goal("improve"), debug: goal("debug"), improve: goal("improve"), diverge: goal("diverge"),
		crossover: joining(goal("improve")), starter: text("exit/starter.py"), fenced: true,
	},
	"MLE-agents": {
		system: text("agents/system.md"), draft: text("agents/draft.md"),
		debug: within("agents/improve.md", "{draft}", "agents/draft.md"), improve: within("agents/improve.md", "{draft}", "agents/draft.md"),
		diverge:   within("agents/improve.md", "{draft}", "agents/draft.md"),
		crossover: joining(within("agents/improve.md", "{draft}", "agents/draft.md")), fenced: true,
	},
	"AceGRPO": {
		draft: within("ace/draft.md", "{implementation}", "ace/implementation.md"), debug: within("ace/debug.md", "{implementation}", "ace/implementation.md"),
		improve: within("ace/improve.md", "{implementation}", "ace/implementation.md"), diverge: within("ace/improve.md", "{implementation}", "ace/implementation.md"),
		crossover: joining(within("ace/improve.md", "{implementation}", "ace/implementation.md")), fenced: true,
	},
	"MLE-Dojo": {
		draft: strings.ReplaceAll(text("actions/draft.md"), "{solution}", ""), debug: within("actions/draft.md", "{solution}", "actions/solution.md"),
		improve: within("actions/draft.md", "{solution}", "actions/solution.md"), diverge: within("actions/draft.md", "{solution}", "actions/solution.md"),
		crossover: joining(within("actions/draft.md", "{solution}", "actions/solution.md")), actions: true,
	},
	"short": {
		draft: text("short/draft.md"), debug: text("short/debug.md"), improve: text("short/improve.md"), diverge: text("short/diverge.md"),
		crossover: text("short/crossover.md"),
	},
}

// instrumentPrompt asks for prints of a program's progress (RL-MLE App. C.3).
var instrumentPrompt = text("agents/instrument.md")

// goal is the prompt of ExIt App. B with one of its goals.
func goal(name string) string {
	return within("exit/task.md", "{goal_preamble}", "exit/goal_"+name+".md")
}

// joining is a template that asks to improve, and to join another program. No paper prints one.
func joining(improve string) string { return improve + "\n\n" + text("crossover.md") }

// within is a template with a part of it in its place.
func within(name, slot, part string) string { return strings.ReplaceAll(text(name), slot, text(part)) }

// styleOf is the style that settings choose, with their own templates.
func styleOf(s Settings) style {
	chosen := styles[s.Style]
	for _, p := range []struct {
		of  *string
		own string
	}{
		{&chosen.system, s.Prompts.System},
		{&chosen.draft, s.Prompts.Draft},
		{&chosen.debug, s.Prompts.Debug},
		{&chosen.improve, s.Prompts.Improve},
		{&chosen.diverge, s.Prompts.Diverge},
		{&chosen.crossover, s.Prompts.Crossover},
	} {
		if p.own != "" {
			*p.of = p.own
		}
	}
	return chosen
}

// placeholders of templates.
var placeholders = []string{
	"task_name", "title", "metric", "task_description", "data_preview", "data_files", "sample_submission", "packages", "hardware", "weights",
	"wall_seconds", "validate_seconds", "turns", "validation_format", "program", "response", "terminal_output", "debug_info", "memory", "score",
	"other_program", "other_terminal_output", "other_score",
}

var braced = lazyregexp.New(`\{([a-z_]+)\}`)

// checkTemplate refuses what looks like a slip in a placeholder.
func checkTemplate(c *config.Checker, field, template string) {
	for _, match := range braced().FindAllStringSubmatch(template, -1) {
		if near, ok := config.Nearest(match[1], placeholders); ok && !slices.Contains(placeholders, match[1]) {
			c.Add(field, template, "has %s; did you mean {%s}?", match[0], near)
		}
	}
}

// fill puts values in the place of a template's names, in one pass: a name
// inside a value stays text.
func fill(template string, values map[string]string) string {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(template)
}

// fence puts a text into a fenced block that it cannot end itself.
func fence(language, text string) string {
	ticks := "```"
	for strings.Contains(text, ticks) {
		ticks += "`"
	}
	return fmt.Sprintf("%s%s\n%s\n%s", ticks, language, strings.TrimRight(text, "\n"), ticks)
}

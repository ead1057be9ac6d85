package env

import (
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// ImprovePrompt is the self-improve prompt of ExIt App. B.
const ImprovePrompt = `Improve your current response to this request:

## Request:
{instruction}

## Current response:
{previous_response}`

// DivergePrompt is the self-diverge prompt of ExIt App. B.
const DivergePrompt = `Consider your current response to this request, and provide another response that takes an approach that SIGNIFICANTLY DIFFERS from the approach of the current response.

## Request:
{instruction}

## Current response:
{previous_response}

## Your new response format:
- First, provide a brief summary of the approach in the current response above.
- Next, state a meaningfully different approach that can be taken instead.
- Finally, provide your new response using this different approach.`

var braced = lazyregexp.New(`\{([a-z_]+)\}`)

var placeholders = []string{"instruction", "question", "previous_response"}

// What templates of prompts must contain, one of each list.
var (
	NeedsQuestion = []string{"{question}"}
	NeedsTask     = []string{"{instruction}", "{question}"}
	NeedsPrevious = []string{"{previous_response}"}
)

// CheckTemplate checks the template of a prompt, in which {instruction} stands
// for the task's prompt, {question} for its question and {previous_response}
// for the response that is iterated on.
func CheckTemplate(c *config.Checker, field, text string, needs ...[]string) {
	for _, alternatives := range needs {
		if !slices.ContainsFunc(alternatives, func(s string) bool { return strings.Contains(text, s) }) {
			c.Add(field, text, "must contain %s", strings.Join(alternatives, " or "))
		}
	}
	for _, match := range braced().FindAllStringSubmatch(text, -1) {
		// Braces may mean something else, as in \boxed{answer}; only what
		// looks like a slip is refused.
		if near, ok := config.Nearest(match[1], placeholders); ok && near != match[1] {
			c.Add(field, text, "has %s; did you mean {%s}?", match[0], near)
		}
	}
}

// CheckTemplates checks the templates of a first answer, of a better one and of another
// one, which stand at fields below prefix.
func CheckTemplates(c *config.Checker, prefix, initial, improve, diverge string) {
	CheckTemplate(c, prefix+".initial", initial, NeedsQuestion)
	CheckTemplate(c, prefix+".improve", improve, NeedsTask, NeedsPrevious)
	CheckTemplate(c, prefix+".diverge", diverge, NeedsTask, NeedsPrevious)
}

// CheckProblems checks that evaluation.problems, where it is 1 or more, is not above
// what the recipe's field keeps of the held-out tasks; 0 keeps all.
func CheckProblems(c *config.Checker, field string, kept int) {
	if problems, _ := config.Find[int](c.Settings(), "evaluation.problems"); kept > 0 && problems > kept {
		c.Add("evaluation.problems", problems, "must not be above %s %d", field, kept)
	}
}

// Fill puts values in the place of a template's names, in one pass: a name inside a
// value, which a policy or a data file may have written, stays text. A name in braces
// that is none of ours stays too: \boxed{answer}.
func Fill(template, question, instruction, previous string) string {
	return strings.NewReplacer("{question}", question, "{instruction}", instruction, "{previous_response}", previous).Replace(template)
}

// CheckSetName checks the name of a set of held-out tasks, which is that of its
// split too. seen are those before it.
func CheckSetName(c *config.Checker, field, name string, seen map[string]bool) {
	switch {
	case !setName().MatchString(name):
		c.Add(field, name, "must be of small letters, digits, - and _, and begin with a letter")
	case name == string(Train) || name == string(Test):
		c.Add(field, name, "is the name of a split that is always there")
	case seen[name]:
		c.Add(field, name, "is named twice")
	}
	seen[name] = true
}

var setName = lazyregexp.New(`^[a-z][a-z0-9_-]*$`)

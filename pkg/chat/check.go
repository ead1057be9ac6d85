package chat

import (
	"slices"
	"strings"
	"unicode"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// passedOver are the fields of messages that say nothing to a policy: who
// spoke, and which call a result belongs to.
var passedOver = []string{"role", "content", "name", "tool_call_id", "id"}

// reasoningFields are the names of one field, of which a template reads any.
var reasoningFields = []string{"reasoning_content", "thinking", "reasoning"}

// notVariables are the names under which a template is given the conversation
// itself, and what to do at its end.
var notVariables = []string{"messages", "tools", "add_generation_prompt", "continue_final_message"}

// Check refuses parts that the template never names. A name that it has may
// still be in a branch that is not taken: that is the template's will.
func (c *templateChat) Check(conversation Conversation) error {
	chosen, err := c.choose(conversation.Tools)
	if err != nil {
		return err
	}
	words := map[string]bool{}
	for _, word := range strings.FieldsFunc(chosen.text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		words[word] = true
	}
	reads := func(name string) bool {
		if slices.Contains(reasoningFields, name) {
			return slices.ContainsFunc(reasoningFields, func(n string) bool { return words[n] })
		}
		return words[name]
	}
	return check(conversation, "the chat template in "+chosen.path, reads)
}

// Check refuses all but roles and texts, which is what the house format has.
func (h house) Check(conversation Conversation) error {
	return check(conversation, "the chat format of "+tokenizer.ChatFile, func(string) bool { return false })
}

// check refuses parts of a conversation that a format does not read.
func check(c Conversation, format string, reads func(name string) bool) error {
	if c.Tools != nil && c.Tools.Len() > 0 && !reads("tools") {
		return exitcode.Dataf("%s has no tools", format)
	}
	for i, m := range c.Messages {
		for _, name := range keys(m) {
			if !slices.Contains(passedOver, name) && !reads(name) {
				return exitcode.Dataf("message %d: %s does not read the field %q", i, format, name)
			}
		}
	}
	for _, name := range keys(c.Variables) {
		if slices.Contains(notVariables, name) {
			return exitcode.Dataf("%q is not a variable to set: the conversation and the request determine it", name)
		}
		if !reads(name) {
			return exitcode.Dataf("%s does not read the variable %q", format, name)
		}
	}
	return nil
}

// keys lists the keys of a dict whose values are set.
func keys(d *jinja.Dict) []string {
	var names []string
	for i := 0; d != nil && i < d.Len(); i++ {
		if key, value := d.Entry(i); value != nil {
			names = append(names, key.(string))
		}
	}
	return names
}

package chat

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// templateChat is the Jinja chat format of a folder.
type templateChat struct {
	tokenizer *tokenizer.Tokenizer
	specials  *regexp.Regexp // their names; nil for none
	templates map[string]compiled
	settings  Settings
	stops     []int32
}

type compiled struct {
	*jinja.Template
	path, text string
}

// New makes the chat of Jinja templates by their names: default, tool_use for
// conversations with tools, and others that are never chosen. A template that
// cannot be read is a data error, and so are templates after which generation
// would never stop.
func New(t *tokenizer.Tokenizer, templates map[string]Source, s Settings) (Chat, error) {
	c := &templateChat{tokenizer: t, specials: specialNames(t), templates: map[string]compiled{}, settings: s}
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		source := templates[name]
		parsed, err := jinja.Parse(source.Text)
		if err != nil {
			return nil, exitcode.Dataf("chat template %q in %q: %w", name, source.Path, err)
		}
		c.templates[name] = compiled{parsed, source.Path, source.Text}
	}
	c.stops = slices.Clone(s.StopTokens)
	if end, ok := c.turnEnd(); ok && !slices.Contains(c.stops, end) {
		c.stops = append(c.stops, end)
	}
	if len(c.stops) == 0 {
		return nil, exitcode.WithHint(exitcode.Dataf("%q names no token that ends generation", s.Folder),
			"set eos_token_id in %s", generationFile)
	}
	return c, nil
}

// turnEnd is the first special token that the template puts after an answer.
func (c *templateChat) turnEnd() (int32, bool) {
	after, err := c.after([]shard.Message{{Role: "user", Content: "?"}, {Role: "assistant", Content: "!"}}, 1, false)
	if err != nil {
		return 0, false // a template for other conversations; the folder names its stop tokens
	}
	for _, id := range c.encodeLiteral(after) {
		if c.tokenizer.IsSpecial(id) {
			return id, true
		}
	}
	return 0, false
}

func (c *templateChat) Tokenizer() *tokenizer.Tokenizer { return c.tokenizer }

func (c *templateChat) StopTokens() []int32 { return slices.Clone(c.stops) }

func (c *templateChat) Prompt(conversation []shard.Message) ([]int32, error) {
	begun := beginsAnswer(conversation)
	prompt, err := c.render(FromMessages(conversation), RenderOptions{GenerationPrompt: !begun, ContinueFinal: begun, SpellOut: true})
	if err != nil {
		return nil, err
	}
	return c.encodeLiteral(prompt.Text), nil
}

func (c *templateChat) Continue(conversation []shard.Message, stopped bool) ([]int32, error) {
	answered, err := lastAnswer(conversation)
	if err != nil {
		return nil, err
	}
	after, err := c.after(conversation, answered, true)
	if err != nil {
		return nil, err
	}
	before := someText
	if stopped {
		before = c.stops[:1]
		// What the template writes up to the end of the turn was sampled.
		alone, err := c.after(conversation[:answered+1], answered, false)
		if err != nil {
			return nil, err
		}
		if end, ok := c.turnEndIn(alone); ok {
			after = strings.TrimPrefix(after, alone[:end])
		}
	}
	return c.encodeAfter(before, after), nil
}

// placeholder makes a text that stands for an answer while the template shows
// what follows it, and that no message has.
func placeholder(conversation []shard.Message) string {
	text := "(the answer)"
	for slices.ContainsFunc(conversation, func(m shard.Message) bool { return strings.Contains(m.Content, text) }) {
		text = "(" + text + ")"
	}
	return text
}

// after is the text that follows the answer which message number answered is,
// with marks. The answer itself is left out: it may have any tokens.
func (c *templateChat) after(conversation []shard.Message, answered int, generationPrompt bool) (string, error) {
	answer := placeholder(conversation)
	conversation = slices.Clone(conversation)
	conversation[answered].Content = answer
	r, err := c.literal(conversation, generationPrompt)
	if err != nil {
		return "", err
	}
	i := strings.LastIndex(r.Text, answer)
	if i < 0 {
		return "", exitcode.Dataf("chat template in %q: it omits the assistant's text in message %d, so the conversation cannot continue",
			c.templates[defaultTemplate].path, answered)
	}
	return r.Text[i+len(answer):], nil
}

func (c *templateChat) Demonstrate(conversation []shard.Message) (ids []int32, sampled []bool, err error) {
	if err := endsInAnswer(conversation); err != nil {
		return nil, nil, err
	}
	asked := false
	for i, m := range conversation {
		if m.Role != "assistant" {
			continue
		}
		var asking []int32
		if asked {
			asking, err = c.Continue(conversation[:i], true)
		} else {
			asking, err = c.Prompt(conversation[:i])
		}
		asked = true
		if err != nil {
			return nil, nil, err
		}
		ids, sampled = append(ids, asking...), append(sampled, make([]bool, len(asking))...)
		answer, rest, said, err := c.answer(conversation[:i+1])
		if err != nil {
			return nil, nil, err
		}
		answering, own := c.tokens(ids, answer, said)
		ids, sampled = append(ids, answering...), append(sampled, own...)
		if i == len(conversation)-1 {
			closing := c.encodeAfter(ids, rest)
			ids, sampled = append(ids, closing...), append(sampled, make([]bool, len(closing))...)
		}
	}
	return ids, sampled, nil
}

// answer is what the template makes of the last message, an answer, beyond the
// prompt that asks for it: up to the token that ends the turn, and the rest;
// and where in the answer are the words of the assistant: in the template's
// generation blocks, or all of it.
func (c *templateChat) answer(conversation []shard.Message) (answer, rest string, said []jinja.Span, err error) {
	n := len(conversation)
	prompt, err := c.literal(conversation[:n-1], true)
	if err != nil {
		return "", "", nil, err
	}
	whole, err := c.literal(conversation, false)
	if err != nil {
		return "", "", nil, err
	}
	tail, ok := strings.CutPrefix(whole.Text, prompt.Text)
	if !ok {
		return "", "", nil, exitcode.Dataf("chat template in %q: the conversation with the answer in message %d does not begin with its prompt, so it cannot be trained on",
			c.templates[defaultTemplate].path, n-1)
	}
	end, _ := c.turnEndIn(tail)
	if !c.templates[defaultTemplate].HasGeneration() {
		return tail[:end], tail[end:], []jinja.Span{{Start: 0, End: end}}, nil
	}
	for _, s := range whole.Spans {
		s.Start, s.End = max(s.Start-len(prompt.Text), 0), min(s.End-len(prompt.Text), end)
		if s.Start < s.End {
			said = append(said, s)
		}
	}
	return tail[:end], tail[end:], said, nil
}

// turnEndIn is the place after the last stop token that the template wrote in a
// text; without one, the end of the text.
func (c *templateChat) turnEndIn(text string) (end int, found bool) {
	end = -1
	for _, special := range c.tokenizer.Specials() {
		if !slices.Contains(c.stops, special.ID) {
			continue
		}
		marked := markStart + special.Content
		for at := len(text); at >= 0; {
			if at = strings.LastIndex(text[:at], special.Content); at < 0 {
				break
			}
			if !strings.HasSuffix(text[:at+len(special.Content)], marked) {
				end = max(end, at+len(special.Content))
				break
			}
		}
	}
	if end < 0 {
		return len(text), false
	}
	return end, true
}

// literal renders plain messages with marks around the special tokens in them.
func (c *templateChat) literal(conversation []shard.Message, generationPrompt bool) (jinja.Rendering, error) {
	return c.render(FromMessages(conversation), RenderOptions{GenerationPrompt: generationPrompt, SpellOut: true})
}

// choose picks the template for a conversation, as transformers does.
func (c *templateChat) choose(tools *jinja.Sequence) (compiled, error) {
	if tools != nil {
		if found, ok := c.templates[toolTemplate]; ok {
			return found, nil
		}
	}
	if found, ok := c.templates[defaultTemplate]; ok {
		return found, nil
	}
	return compiled{}, exitcode.Dataf("%q has the chat templates %q, but no default one", c.settings.Folder, slices.Sorted(maps.Keys(c.templates)))
}

// render renders a conversation; with SpellOut the text still has its marks.
func (c *templateChat) render(conversation Conversation, o RenderOptions) (jinja.Rendering, error) {
	if len(conversation.Messages) == 0 {
		return jinja.Rendering{}, exitcode.Dataf("the conversation is empty")
	}
	chosen, err := c.choose(conversation.Tools)
	if err != nil {
		return jinja.Rendering{}, err
	}
	messages := make([]jinja.Value, len(conversation.Messages))
	for i, m := range conversation.Messages {
		messages[i] = plain(m)
	}
	final := ""
	if o.ContinueFinal {
		if final, err = openFinal(messages, o); err != nil {
			return jinja.Rendering{}, err
		}
	}
	var tools jinja.Value
	if conversation.Tools != nil {
		tools = conversation.Tools
	}
	given := jinja.NewDict()
	given.Set("messages", jinja.NewList(messages...))
	given.Set("tools", tools)
	given.Set("documents", nil)
	copyInto(given, c.settings.Given)
	copyInto(given, conversation.Variables)
	var value jinja.Value = given
	if o.SpellOut {
		value = c.mark(given)
	}
	variables := jinja.NewDict()
	copyInto(variables, c.settings.Variables)
	copyInto(variables, value.(*jinja.Dict))
	variables.Set("add_generation_prompt", o.GenerationPrompt)
	rendering, err := chosen.Render(variables, jinja.Options{Now: c.settings.Date})
	if err != nil {
		err = exitcode.Dataf("chat template in %q: %w", chosen.path, err)
		if c.settings.Date.IsZero() && strings.Contains(err.Error(), `"strftime_now" is undefined`) {
			err = exitcode.WithHint(err, "the template writes a date: set policy.template_date in a recipe, or --date of a command")
		}
		return jinja.Rendering{}, err
	}
	if o.ContinueFinal {
		if o.SpellOut {
			final = escape.Replace(final)
		}
		if err := cutFinal(&rendering, final); err != nil {
			return jinja.Rendering{}, exitcode.Dataf("chat template in %q: %w", chosen.path, err)
		}
	}
	return rendering, nil
}

func copyInto(to, from *jinja.Dict) {
	if from == nil {
		return
	}
	for i := range from.Len() {
		key, value := from.Entry(i)
		to.Set(key.(string), value)
	}
}

// plain gives a message the form in which transformers hands it to a template:
// without the fields that are null, and with its reasoning under the names that
// templates read.
func plain(m *jinja.Dict) *jinja.Dict {
	kept := jinja.NewDict()
	var reasoning jinja.Value
	for _, name := range []string{"reasoning_content", "thinking", "reasoning"} {
		if reasoning, _ = m.Get(name); reasoning != nil {
			kept.Set("thinking", reasoning)
			break
		}
	}
	for i := range m.Len() {
		if key, value := m.Entry(i); value != nil {
			kept.Set(key.(string), value)
		}
	}
	if reasoning != nil {
		kept.Set("reasoning_content", reasoning)
	}
	return kept
}

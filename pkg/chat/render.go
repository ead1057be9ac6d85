package chat

import (
	"strings"

	"github.com/lathe-rl/lathe/pkg/jinja"
)

// Render renders as transformers' apply_chat_template.
func (c *templateChat) Render(conversation Conversation, o RenderOptions) (Rendered, error) {
	rendering, err := c.render(conversation, o)
	if err != nil {
		return Rendered{}, err
	}
	chosen, err := c.choose(conversation.Tools)
	if err != nil {
		return Rendered{}, err
	}
	spans := rendering.Spans
	if !chosen.HasGeneration() {
		spans = c.answers(conversation, o, rendering.Text)
	}
	r := Rendered{Text: rendering.Text}
	if o.SpellOut {
		r.Text = unmark.Replace(rendering.Text)
		r.TokenIDs, r.Assistant = c.tokens(rendering.Text, spans)
		return r, nil
	}
	r.TokenIDs = c.tokenizer.Encode(r.Text)
	r.Assistant = c.cover(r.Text, r.TokenIDs, spans)
	return r, nil
}

// tokens encodes a text with marks and says which tokens lie in the spans of
// it.
func (c *templateChat) tokens(marked string, spans []jinja.Span) (ids []int32, covered []bool) {
	plain := make([]jinja.Span, len(spans))
	for i, s := range spans {
		plain[i] = jinja.Span{Start: len(unmark.Replace(marked[:s.Start])), End: len(unmark.Replace(marked[:s.End]))}
	}
	ids = c.encodeLiteral(marked)
	return ids, c.cover(unmark.Replace(marked), ids, plain)
}

// answers finds what the assistant says in a conversation whose template does
// not tell (see [Rendered]).
func (c *templateChat) answers(conversation Conversation, o RenderOptions, whole string) []jinja.Span {
	var spans []jinja.Span
	render := func(messages int, generationPrompt bool) (string, bool) {
		part := conversation
		part.Messages = conversation.Messages[:messages]
		r, err := c.render(part, RenderOptions{GenerationPrompt: generationPrompt, SpellOut: o.SpellOut})
		return r.Text, err == nil
	}
	for i, m := range conversation.Messages {
		if o.ContinueFinal && i == len(conversation.Messages)-1 {
			break // the policy has not said it to its end
		}
		if role, _ := m.Get("role"); role != "assistant" || i == 0 {
			continue
		}
		prompt, ok := render(i, true)
		if !ok || !strings.HasPrefix(whole, prompt) {
			continue
		}
		answered, ok := render(i+1, false)
		if !ok || !strings.HasPrefix(answered, prompt) {
			continue
		}
		end, _ := c.turnEndIn(answered[len(prompt):])
		if strings.HasPrefix(whole, answered[:len(prompt)+end]) {
			spans = append(spans, jinja.Span{Start: len(prompt), End: len(prompt) + end})
		}
	}
	return spans
}

// cover marks the tokens of a text that have a byte in one of its spans, which
// are in order.
func (c *templateChat) cover(text string, ids []int32, spans []jinja.Span) []bool {
	mask := make([]bool, len(ids))
	spans = c.normalized(text, ids, spans)
	start := 0
	for i, id := range ids {
		end := start + len(c.tokenizer.Decode([]int32{id}))
		for len(spans) > 0 && spans[0].End <= start {
			spans = spans[1:]
		}
		mask[i] = len(spans) > 0 && spans[0].Start < end && start < spans[0].End
		start = end
	}
	return mask
}

// normalized moves spans of the text to where they are in the text that the
// tokens stand for: the tokenizer may compose characters.
func (c *templateChat) normalized(text string, ids []int32, spans []jinja.Span) []jinja.Span {
	if len(spans) == 0 || len(c.tokenizer.Decode(ids)) == len(text) {
		return spans
	}
	moved := make([]jinja.Span, len(spans))
	from, length := 0, 0 // what was measured: bytes of the text, and of its tokens
	place := func(to int) int {
		length += len(c.tokenizer.Decode(c.tokenizer.Encode(text[from:to])))
		from = to
		return length
	}
	for i, s := range spans {
		moved[i].Start = place(s.Start)
		moved[i].End = place(s.End)
	}
	return moved
}

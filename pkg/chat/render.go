package chat

import (
	"slices"
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
		r.TokenIDs, r.Assistant = c.tokens(nil, rendering.Text, spans)
		return r, nil
	}
	r.TokenIDs = c.tokenizer.Encode(r.Text)
	r.Assistant = c.cover(nil, r.Text, r.TokenIDs, spans)
	return r, nil
}

// tokens encodes a text with marks that follows other tokens, and says which
// tokens lie in the spans of it.
func (c *templateChat) tokens(before []int32, marked string, spans []jinja.Span) (ids []int32, covered []bool) {
	plain := make([]jinja.Span, len(spans))
	for i, s := range spans {
		plain[i] = jinja.Span{Start: len(unmark.Replace(marked[:s.Start])), End: len(unmark.Replace(marked[:s.End]))}
	}
	ids = c.encodeAfter(before, marked)
	return ids, c.cover(before, unmark.Replace(marked), ids, plain)
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
func (c *templateChat) cover(before []int32, text string, ids []int32, spans []jinja.Span) []bool {
	mask := make([]bool, len(ids))
	spans = c.normalized(before, text, ids, spans)
	start := 0
	for i, id := range ids {
		end := start + len(c.tokenizer.Piece(id))
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
func (c *templateChat) normalized(before []int32, text string, ids []int32, spans []jinja.Span) []jinja.Span {
	if len(spans) == 0 || c.length(ids) == len(text) {
		return spans
	}
	moved := make([]jinja.Span, len(spans))
	measured := slices.Clone(before) // and the tokens of the text before from
	from := 0
	place := func(to int) int {
		measured = c.tokenizer.Continue(measured, text[from:to], false)
		from = to
		return c.length(measured) - c.length(before)
	}
	for i, s := range spans {
		moved[i].Start = place(s.Start)
		moved[i].End = place(s.End)
	}
	return moved
}

// length is the number of bytes that tokens stand for.
func (c *templateChat) length(ids []int32) int {
	n := 0
	for _, id := range ids {
		n += len(c.tokenizer.Piece(id))
	}
	return n
}

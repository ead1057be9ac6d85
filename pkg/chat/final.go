package chat

import (
	"errors"
	"strings"
	"unicode"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// finalTag is put behind the last message while the template is rendered, to
// find where it ends, as transformers does. A template that trims messages
// takes the blank away.
const finalTag = "CONTINUE_FINAL_MESSAGE_TAG "

var errBothEnds = exitcode.Usagef("a conversation can continue its last message or start another one, not both")

// beginsAnswer reports whether a conversation ends with what the assistant has
// begun to say.
func beginsAnswer(conversation []shard.Message) bool {
	return len(conversation) > 0 && conversation[len(conversation)-1].Role == "assistant"
}

// openFinal puts the tag behind the text of the last message, and returns the
// text.
func openFinal(messages []jinja.Value, o RenderOptions) (string, error) {
	if o.GenerationPrompt {
		return "", errBothEnds
	}
	last := messages[len(messages)-1].(*jinja.Dict)
	content, _ := last.Get("content")
	switch content := content.(type) {
	case string:
		last.Set("content", content+finalTag)
		return content, nil
	case *jinja.Sequence:
		parts := make([]jinja.Value, content.Len())
		text, found := "", false
		for i := content.Len() - 1; i >= 0; i-- {
			parts[i] = content.Item(i)
			part, ok := parts[i].(*jinja.Dict)
			if !ok || found {
				continue
			}
			value, _ := part.Get("text")
			if text, found = value.(string); found {
				opened := jinja.NewDict()
				copyInto(opened, part)
				opened.Set("text", text+finalTag)
				parts[i] = opened
			}
		}
		if found {
			last.Set("content", jinja.NewList(parts...))
			return text, nil
		}
	}
	return "", exitcode.Dataf("the last message has no text to continue")
}

// cutFinal ends a rendering where the last message ends.
func cutFinal(r *jinja.Rendering, final string) error {
	tag := strings.TrimSpace(finalTag)
	at := strings.LastIndex(r.Text, tag)
	if at < 0 || !strings.Contains(unmark.Replace(r.Text), strings.TrimSpace(unmark.Replace(final))) {
		return errors.New("it changes the last message, so the message cannot be continued")
	}
	kept := r.Text[:at]
	if !strings.HasPrefix(r.Text[at:], finalTag) { // the template trims messages
		kept = strings.TrimRightFunc(kept, unicode.IsSpace)
	}
	r.Text = kept
	var spans []jinja.Span
	for _, s := range r.Spans {
		if s.End = min(s.End, len(kept)); s.Start < s.End {
			spans = append(spans, s)
		}
	}
	r.Spans = spans
	return nil
}

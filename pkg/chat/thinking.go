package chat

import (
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// endOfThinking closes what a policy thinks before it answers, as Qwen3, DeepSeek-R1 and
// others write it.
const endOfThinking = "</think>"

// WithoutThinking is a conversation whose answers have lost what the policy thought before
// them, as Qwen3's template takes it away.
func WithoutThinking(conversation []shard.Message) []shard.Message {
	kept := slices.Clone(conversation)
	for i, m := range kept {
		if at := strings.LastIndex(m.Content, endOfThinking); m.Role == "assistant" && at >= 0 {
			kept[i].Content = strings.TrimLeft(m.Content[at+len(endOfThinking):], "\n")
		}
	}
	return kept
}

// RewritesTurn is the first turn, from 1, of a conversation with thinking that a format
// shows otherwise, once more messages follow, than when the policy said it; 0 for none, and
// for a template that takes other conversations.
func RewritesTurn(c Chat) int {
	t, ok := c.(*templateChat)
	if !ok {
		return 0 // the house format joins messages as they are
	}
	said := "<think>\n3 and 4.\n" + endOfThinking + "\n\n7"
	conversation := []shard.Message{
		{Role: "user", Content: "3 + 4?"},
		{Role: "assistant", Content: said},
		{Role: "user", Content: "and 3 + 4?"},
		{Role: "assistant", Content: said},
		{Role: "user", Content: "so?"},
	}
	whole, err := t.render(FromMessages(conversation), RenderOptions{GenerationPrompt: true})
	if err != nil {
		return 0
	}
	for turn := 1; turn <= 2; turn++ {
		asked, err := t.render(FromMessages(conversation[:2*turn-1]), RenderOptions{GenerationPrompt: true})
		if err == nil && !strings.HasPrefix(whole.Text, asked.Text+said) {
			return turn
		}
	}
	return 0
}

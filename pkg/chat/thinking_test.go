package chat

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Qwen3's own template takes the thinking of earlier turns away; Qwen2.5's, ChatML and the
// plain one do not know thinking, and leave it.
func TestRewritesTurn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"qwen3": 1, "qwen2.5-instruct": 0, "chatml": 0, "plain": 0} {
		text := must.Get(os.ReadFile(filepath.Join("testdata", "templates", name+".jinja")))(t)
		if got := RewritesTurn(newChat(t, name, string(text), "")); got != want {
			t.Errorf("%s: turn %d, want %d", name, got, want)
		}
	}
}

// What is left of a conversation is what Qwen3's template leaves of it.
func TestWithoutThinking(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("testdata/templates/qwen3.jinja"))(t)
	c := newChat(t, "qwen3", string(text), "")
	conversation := []shard.Message{
		{Role: "user", Content: "1? </think>"},
		{Role: "assistant", Content: "<think>\na </think> b\n</think>\n\nx"},
		{Role: "user", Content: "2?"},
		{Role: "assistant", Content: "y"},
		{Role: "user", Content: "3?"},
	}
	stripped := WithoutThinking(conversation)
	if conversation[1].Content == stripped[1].Content || stripped[1].Content != "x" || stripped[0] != conversation[0] || stripped[3].Content != "y" {
		t.Errorf("left: %q", stripped)
	}
	if diff := cmp.Diff(must.Get(c.Prompt(conversation))(t), must.Get(c.Prompt(stripped))(t)); diff != "" {
		t.Errorf("prompts (-template +ours):\n%s", diff)
	}
}

package chat

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestResultsOfTools: a message of the policy that a stop string has ended is
// closed, and results come after it in the role of the system or the user, as
// the templates of the Qwen families have it; in the role of a tool they are
// wrapped.
func TestResultsOfTools(t *testing.T) {
	t.Parallel()
	g := readGolden(t, "testdata/golden.json.gz")
	for _, c := range []struct{ template, role, want string }{
		{"qwen2.5-instruct", "system", "<|im_end|>\n<|im_start|>system\n[3]<|im_end|>\n<|im_start|>assistant\n"},
		{"qwen2.5-instruct", "user", "<|im_end|>\n<|im_start|>user\n[3]<|im_end|>\n<|im_start|>assistant\n"},
		{"qwen2.5-instruct", "tool", "<|im_end|>\n<|im_start|>user\n<tool_response>\n[3]\n</tool_response><|im_end|>\n<|im_start|>assistant\n"},
		{"qwen3", "system", "<|im_end|>\n<|im_start|>system\n[3]<|im_end|>\n<|im_start|>assistant\n"},
	} {
		found := false
		for _, template := range g.Templates {
			if template.Name != c.template {
				continue
			}
			found = true
			chat := newChat(t, template.Name, template.Template, "")
			ids, err := chat.Continue([]shard.Message{
				{Role: "system", Content: "f(x)"}, user("Call f."), says("<tool>[1]</tool>"), {Role: c.role, Content: "[3]"},
			}, false)
			if err != nil {
				t.Errorf("%s, %s: %v", c.template, c.role, err)
			} else if got := chat.Tokenizer().Decode(ids); got != c.want {
				t.Errorf("%s, %s: %q, want %q", c.template, c.role, got, c.want)
			}
		}
		if !found {
			t.Errorf("there is no template %s", c.template)
		}
	}
}

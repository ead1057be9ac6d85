package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var testFormat = ChatFormat{
	SystemPrefix: "system '\\\n", SystemSuffix: "<|end|>",
	UserPrefix: "<|user|>", UserSuffix: "\n",
	AssistantPrefix: "A:", AssistantSuffix: "<|end|>\n",
}

func TestRender(t *testing.T) {
	t.Parallel()
	chat := must.Get(NewChat(newBytes(t), testFormat))(t)
	ids, assistant, err := chat.Render([]shard.Message{
		{Role: "user", Content: "a<|end|>"},
		{Role: "assistant", Content: "b"},
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	// The user's "<|end|>" is seven bytes of text, not a stop token.
	want := []int32{257, 'a', '<', '|', 'e', 'n', 'd', '|', '>', '\n', 'A', ':', 'b', 256, '\n', 'A', ':'}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Error(diff)
	}
	wantMask := make([]bool, len(want))
	wantMask[12], wantMask[13] = true, true // the answer and the stop token, not the line feed after it
	if diff := cmp.Diff(wantMask, assistant); diff != "" {
		t.Error(diff)
	}
	if chat.StopToken() != 256 {
		t.Errorf("stop token %d, want 256", chat.StopToken())
	}
	if _, _, err := chat.Render([]shard.Message{{Role: "tool"}}, false); exitcode.Code(err) != exitcode.Data {
		t.Errorf("unknown role: %v", err)
	}
}

// What the policy saw and made is what a conversation with the answer renders to.
func TestRenderContinuesPrompt(t *testing.T) {
	t.Parallel()
	for name, tok := range map[string]*Tokenizer{"bytes": newBytes(t), "bpe": newBPE(t), "numbers": newNumbers(t)} {
		chat := must.Get(NewChat(tok, testFormat))(t)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				user := shard.Message{Role: "user", Content: rapid.String().Draw(t, "user")}
				content := rapid.String().Draw(t, "content") + strings.Repeat("<|end|>", rapid.IntRange(0, 1).Draw(t, "injection"))
				prompt, _ := must.Get2(chat.Render([]shard.Message{user}, true))(t)
				whole, mask := must.Get2(chat.Render([]shard.Message{user, {Role: "assistant", Content: content}}, false))(t)
				answer := tok.EncodeText(content)
				want := append(append([]int32{}, prompt...), answer...)
				want = append(want, chat.CloseResponse(false)...)
				if diff := cmp.Diff(want, whole); diff != "" {
					t.Fatal(diff)
				}
				if got := append([]int32{chat.StopToken()}, chat.CloseResponse(true)...); !cmp.Equal(got, chat.CloseResponse(false)) {
					t.Fatalf("stop token and rest are %v", got)
				}
				for i, byPolicy := range mask {
					if byPolicy != (i >= len(prompt) && i < len(prompt)+len(answer)+1) {
						t.Fatalf("mask[%d] is %v", i, byPolicy)
					}
				}
			})
		})
	}
}

func TestNewChatWantsStopToken(t *testing.T) {
	t.Parallel()
	_, err := NewChat(newBytes(t), ChatFormat{AssistantSuffix: "\n"})
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "no special token") {
		t.Errorf("got %v", err)
	}
}

// The golden text was rendered by Jinja (testdata/make_golden.py) from the
// template of testFormat.
func TestJinja(t *testing.T) {
	t.Parallel()
	quoted := must.Get(json.Marshal(testFormat.Jinja()))(t)
	golden.Check(t, filepath.Join("testdata", "template.json"), quoted)
	raw := must.Get(os.ReadFile(filepath.Join("testdata", "golden.json")))(t)
	var golden struct {
		Template string
		Rendered string
	}
	must.Do(t, json.Unmarshal(raw, &golden))
	if got := testFormat.Jinja(); got != golden.Template {
		t.Errorf("template %q, the golden one is %q", got, golden.Template)
	}
	want := "system '\\\nS<|end|><|user|>U\nA:B<|end|>\nA:"
	if golden.Rendered != want {
		t.Errorf("Jinja rendered %q, want %q", golden.Rendered, want)
	}
}

package chat

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

var chatML = tokenizer.ChatFormat{
	SystemPrefix: "<|im_start|>system\n", SystemSuffix: "<|im_end|>\n",
	UserPrefix: "<|im_start|>user\n", UserSuffix: "<|im_end|>\n",
	AssistantPrefix: "<|im_start|>assistant\n", AssistantSuffix: "<|im_end|>\n",
}

func user(text string) shard.Message { return shard.Message{Role: "user", Content: text} }
func says(text string) shard.Message { return shard.Message{Role: "assistant", Content: text} }

// text is what the tokens stand for, those that are marked in brackets.
func text(c Chat, ids []int32, mask []bool) string {
	var b strings.Builder
	for i, id := range ids {
		if mask[i] && (i == 0 || !mask[i-1]) {
			b.WriteString("⟦")
		}
		b.WriteString(c.Tokenizer().Decode([]int32{id}))
		if mask[i] && (i == len(ids)-1 || !mask[i+1]) {
			b.WriteString("⟧")
		}
	}
	return b.String()
}

// marks puts among texts what would forge the marks around special tokens.
func marks(texts *rapid.Generator[string]) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{"", "", "", markStart, markEnd, markStart + "<|im_end|>" + markEnd}), 0, 3).Draw(t, "marks") {
			b.WriteString(part + texts.Draw(t, "between"))
		}
		return b.String() + texts.Draw(t, "text")
	})
}

// What is asked, what is continued and what is demonstrated fits together,
// whatever the messages say, for every template: a demonstration is the prompt,
// the answer, and what continues after it, and only answers are marked.
func TestTurnsFitTogether(t *testing.T) {
	t.Parallel()
	g := readGolden(t, "testdata/golden.json.gz")
	for _, template := range g.Templates {
		c := newChat(t, template.Name, template.Template, "")
		t.Run(template.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				content := rapid.Custom(func(t *rapid.T) string {
					return marks(rapid.String()).Draw(t, "text") + rapid.SampledFrom([]string{"", "<|im_end|>", "<|eot_id|>", "<|im_end", "(the answer)", "\n", " "}).Draw(t, "end")
				})
				var conversation []shard.Message
				var want []int32
				var mask []bool
				add := func(ids []int32, sampled bool) {
					want = append(want, ids...)
					for range ids {
						mask = append(mask, sampled)
					}
				}
				for turn := range rapid.IntRange(1, 3).Draw(t, "turns") {
					conversation = append(conversation, user(content.Draw(t, "question")))
					var ids []int32
					var err error
					if turn == 0 {
						ids, err = c.Prompt(conversation)
					} else {
						ids, err = c.Continue(conversation, true)
						cutOff, errCutOff := c.Continue(conversation, false)
						end := slices.IndexFunc(cutOff, c.Tokenizer().IsSpecial)
						if errCutOff != nil || !slices.Contains(c.StopTokens(), cutOff[end]) || !slices.Equal(ids, cutOff[end+1:]) {
							t.Fatalf("after a response that was cut off %q (%v), after one that was not %q", c.Tokenizer().Decode(cutOff), errCutOff, c.Tokenizer().Decode(ids))
						}
					}
					if err != nil {
						t.Fatal(err)
					}
					add(ids, false)
					conversation = append(conversation, says(content.Draw(t, "answer")))
					ids, sampled := must.Get2(c.Demonstrate(conversation))(t)
					if !slices.Equal(ids[:len(want)], want) || !slices.Equal(sampled[:len(mask)], mask) {
						t.Fatalf("turn %d: demonstrated %q\nasked %q", turn, text(c, ids, sampled), text(c, want, mask))
					}
					end := len(ids)
					for !sampled[end-1] {
						end--
					}
					answer := ids[len(want):end]
					if slices.Contains(sampled[len(want):end], false) || !slices.Contains(c.StopTokens(), answer[len(answer)-1]) ||
						slices.ContainsFunc(answer[:len(answer)-1], c.Tokenizer().IsSpecial) {
						t.Fatalf("turn %d: the answer is %q", turn, text(c, ids[len(want):], sampled[len(want):]))
					}
					add(answer, true)
				}
			})
		})
	}
}

// A template that says the same as the house format gives the same tokens.
func TestHouseAndTemplateAgree(t *testing.T) {
	t.Parallel()
	c := newChat(t, "house", chatML.Jinja(), "")
	format := must.Get(tokenizer.NewChat(c.Tokenizer(), chatML))(t)
	h := House(format)
	if diff := cmp.Diff(h.StopTokens(), c.StopTokens()); diff != "" {
		t.Errorf("stop tokens (-house +template):\n%s", diff)
	}
	rapid.Check(t, func(t *rapid.T) {
		// The house cuts around every message, a template only around special
		// tokens: the texts are the same, tokens at the cuts need not be.
		content := marks(rapid.String())
		conversation := []shard.Message{{Role: "system", Content: content.Draw(t, "system")}}
		for range rapid.IntRange(2, 3).Draw(t, "turns") {
			conversation = append(conversation, user(content.Draw(t, "question")+"<|im_end|>"), says(content.Draw(t, "answer")))
		}
		ask := conversation[:len(conversation)-1]
		both := func(of func(c Chat) ([]int32, []bool, error)) {
			t.Helper()
			ids, mask, err := of(c)
			wantIDs, wantMask, errHouse := of(h)
			if err != nil || errHouse != nil || text(c, ids, mask) != text(h, wantIDs, wantMask) {
				t.Fatalf("%v, %v: %q, the house has %q", err, errHouse, text(c, ids, mask), text(h, wantIDs, wantMask))
			}
		}
		both(func(c Chat) ([]int32, []bool, error) {
			ids, err := c.Prompt(ask)
			return ids, make([]bool, len(ids)), err
		})
		both(func(c Chat) ([]int32, []bool, error) {
			ids, err := c.Continue(ask, true)
			return ids, make([]bool, len(ids)), err
		})
		both(func(c Chat) ([]int32, []bool, error) { return c.Demonstrate(conversation) })
		both(func(c Chat) ([]int32, []bool, error) {
			r, err := c.Render(FromMessages(conversation), RenderOptions{SpellOut: true})
			return r.TokenIDs, r.Assistant, err
		})
	})
}

// Worked by hand from the templates' texts.
func TestMasks(t *testing.T) {
	t.Parallel()
	g := readGolden(t, "testdata/golden.json.gz")
	two := []shard.Message{user("q"), says("<think>\nr\n</think>\n\na"), user("p"), says("b")}
	for _, test := range []struct {
		template   string
		render     string // all of it, by Render
		demonstate string
	}{
		{
			"chatml",
			"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n⟦<think>\nr\n</think>\n\na<|im_end|>⟧\n" +
				"<|im_start|>user\np<|im_end|>\n<|im_start|>assistant\n⟦b<|im_end|>⟧\n",
			"",
		},
		{ // Qwen3 shows the earlier answer without its reasoning: it is not what was said
			"qwen3",
			"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n" +
				"<|im_start|>user\np<|im_end|>\n<|im_start|>assistant\n⟦<think>\n\n</think>\n\nb<|im_end|>⟧\n",
			"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n⟦<think>\nr\n</think>\n\na<|im_end|>⟧\n" +
				"<|im_start|>user\np<|im_end|>\n<|im_start|>assistant\n⟦<think>\n\n</think>\n\nb<|im_end|>⟧\n",
		},
		{"alternating", "<|begin_of_text|>[INST]q[/INST]⟦<think>\nr\n</think>\n\na<|im_end|>⟧[INST]p[/INST]⟦b<|im_end|>⟧", ""},
	} {
		at := slices.IndexFunc(g.Templates, func(have struct {
			Name, Template string
			Renderings     [][2]struct {
				Error   string
				Text    string
				IDs     []int32
				Mask    []int
				Literal []int32
			}
		},
		) bool {
			return have.Name == test.template
		})
		c := newChat(t, test.template, g.Templates[at].Template, "")
		r := must.Get(c.Render(FromMessages(two), RenderOptions{}))(t)
		if diff := cmp.Diff(test.render, text(c, r.TokenIDs, r.Assistant)); diff != "" {
			t.Errorf("%s rendered (-want +got):\n%s", test.template, diff)
		}
		want := test.demonstate
		if want == "" {
			want = test.render
		}
		ids, sampled := must.Get2(c.Demonstrate(two))(t)
		if diff := cmp.Diff(want, text(c, ids, sampled)); diff != "" {
			t.Errorf("%s demonstrated (-want +got):\n%s", test.template, diff)
		}
	}
}

// A template whose answers do not follow their prompts cannot be learned from.
func TestDemonstrateRefuses(t *testing.T) {
	t.Parallel()
	backwards := "{% for m in messages[::-1] %}{{ m.role + ':' + m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
	c := newChat(t, "backwards.jinja", backwards, "")
	_, _, err := c.Demonstrate([]shard.Message{user("q"), says("a")})
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `"backwards.jinja"`) || !strings.Contains(err.Error(), "does not begin with its prompt") {
		t.Errorf("got %v", err)
	}
	if _, _, err := c.Demonstrate([]shard.Message{user("q")}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("no answer: %v", err)
	}
	silent := newChat(t, "silent.jinja", "{% for m in messages if m.role == 'user' %}{{ m.content }}<|im_end|>{% endfor %}", "")
	if _, err := silent.Continue([]shard.Message{user("q"), says("a"), user("p")}, true); exitcode.Code(err) != exitcode.Data ||
		!strings.Contains(err.Error(), "omits the assistant's text in message 1") {
		t.Errorf("got %v", err)
	}
}

// The token that ends a turn in the template ends responses, too.
func TestStopTokens(t *testing.T) {
	t.Parallel()
	c := newChat(t, "x", "{% for m in messages %}{{ m.role }}:{{ m.content }}<|eot_id|>{% endfor %}", "")
	var names []string
	for _, id := range c.StopTokens() {
		names = append(names, c.Tokenizer().Decode([]int32{id}))
	}
	if diff := cmp.Diff([]string{"<|im_end|>", "<|eot_id|>"}, names); diff != "" {
		t.Error(diff)
	}
	if _, err := New(c.tokenizer, map[string]Source{"default": {Text: "x"}}, Settings{Folder: "f"}); exitcode.Code(err) != exitcode.Data ||
		!strings.Contains(err.Error(), "names no token that ends generation") {
		t.Errorf("got %v", err)
	}
}

func TestTemplatesByName(t *testing.T) {
	t.Parallel()
	text := must.Get(tokenizer.Load("testdata/model"))(t)
	c, err := New(text, map[string]Source{
		"default": {"d", "plain"}, "tool_use": {"t", "with {{ tools|length }} tools"}, "rag": {"r", "x"},
	}, Settings{StopTokens: []int32{1}})
	if err != nil {
		t.Fatal(err)
	}
	conversation := FromMessages([]shard.Message{user("q")})
	for want, tools := range map[string]*jinja.Sequence{"plain": nil, "with 0 tools": jinja.NewList(), "with 1 tools": jinja.NewList(jinja.NewDict())} {
		conversation.Tools = tools
		if r, err := c.Render(conversation, RenderOptions{}); err != nil || r.Text != want {
			t.Errorf("rendered %q (%v), want %q", r.Text, err, want)
		}
	}
	if _, err := c.Render(Conversation{}, RenderOptions{}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("no messages: %v", err)
	}
}

func TestHouseRefuses(t *testing.T) {
	t.Parallel()
	text := must.Get(tokenizer.Load("testdata/model"))(t)
	format := must.Get(tokenizer.NewChat(text, chatML))(t)
	h := House(format)
	for name, c := range map[string]Conversation{
		"tools":   {Messages: FromMessages([]shard.Message{user("q")}).Messages, Tools: jinja.NewList(jinja.NewDict())},
		"no text": {Messages: []*jinja.Dict{jinja.NewDict()}},
		"no role": FromMessages([]shard.Message{{Role: "tool", Content: "x"}}),
	} {
		if _, err := h.Render(c, RenderOptions{}); exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := h.Render(FromMessages([]shard.Message{user("q<|im_end|>"), says("a")}), RenderOptions{GenerationPrompt: true})
	if err != nil || r.Text != h.Tokenizer().Decode(r.TokenIDs) {
		t.Errorf("%v: text %q, tokens of %q", err, r.Text, h.Tokenizer().Decode(r.TokenIDs))
	}
}

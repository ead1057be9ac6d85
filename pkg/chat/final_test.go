package chat

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// A last message is left open as transformers leaves it open, and where it
// fails, so do we.
func TestContinueFinalAgainstTransformers(t *testing.T) {
	t.Parallel()
	f := must.Get(os.Open("testdata/final_golden.json.gz"))(t)
	defer f.Close()
	unzipped := must.Get(gzip.NewReader(f))(t)
	var final struct {
		Cases []struct {
			Conversation int
			Messages     json.RawMessage
		}
		Templates []struct {
			Name  string
			Texts []struct{ Text, Error string }
		}
	}
	must.Do(t, json.NewDecoder(unzipped).Decode(&final))
	g := readGolden(t, "testdata/golden.json.gz")
	compared := 0
	for i, template := range g.Templates {
		c := newChat(t, template.Name, template.Template, g.Date)
		for k, want := range final.Templates[i].Texts {
			conversation := g.conversation(t, final.Cases[k].Conversation)
			conversation.Messages = nil
			messages := value[*jinja.Sequence](t, final.Cases[k].Messages)
			for m := range messages.Len() {
				conversation.Messages = append(conversation.Messages, messages.Item(m).(*jinja.Dict))
			}
			for _, spell := range []bool{false, true} {
				got, err := c.Render(conversation, RenderOptions{ContinueFinal: true, SpellOut: spell})
				switch {
				case (err != nil) != (want.Error != ""):
					t.Errorf("%s, case %d: %v; transformers: %q", template.Name, k, err, want.Error)
				case err == nil && got.Text != want.Text:
					t.Errorf("%s, case %d (-transformers +ours):\n%s", template.Name, k, cmp.Diff(want.Text, got.Text))
				}
			}
			compared++
		}
	}
	t.Logf("%d renderings", compared)
}

// A prompt that ends with what the assistant has begun to say is continued.
func TestPromptContinues(t *testing.T) {
	t.Parallel()
	c := newChat(t, "chatml", chatML.Jinja(), "")
	format := must.Get(tokenizer.NewChat(c.Tokenizer(), chatML))(t)
	for name, c := range map[string]Chat{"template": c, "house": House(format)} {
		ids, err := c.Prompt([]shard.Message{user("2+2?"), says("It is ")})
		if want := "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\nIt is "; err != nil || c.Tokenizer().Decode(ids) != want {
			t.Errorf("%s: %q, %v; want %q", name, c.Tokenizer().Decode(ids), err, want)
		}
		if _, err := c.Render(FromMessages([]shard.Message{user("a"), says("b")}), RenderOptions{ContinueFinal: true, GenerationPrompt: true}); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%s: both ends: %v", name, err)
		}
	}
}

// What a format leaves out is refused, and what it reads is not.
func TestCheck(t *testing.T) {
	t.Parallel()
	template := newChat(t, "x.jinja", "{% for m in messages %}{{ m.role }}{{ m.content }}{{ m.reasoning_content }}{% endfor %}{% if enable_thinking %}!{% endif %}<|im_end|>", "")
	format := must.Get(tokenizer.NewChat(template.Tokenizer(), chatML))(t)
	field := func(name string) Conversation {
		c := FromMessages([]shard.Message{user("q")})
		c.Messages[0].Set(name, "x")
		return c
	}
	variable := FromMessages([]shard.Message{user("q")})
	variable.Variables = jinja.NewDict()
	variable.Variables.Set("enable_thinking", false)
	part := FromMessages([]shard.Message{user("q")})
	part.Variables = jinja.NewDict()
	part.Variables.Set("think", true)
	reserved := FromMessages([]shard.Message{user("q")})
	reserved.Variables = jinja.NewDict()
	reserved.Variables.Set("messages", "x")
	tools := FromMessages([]shard.Message{user("q")})
	tools.Tools = jinja.NewList(jinja.NewDict())
	for _, c := range []struct {
		name            string
		conversation    Conversation
		template, house string // parts of the errors; empty for none
	}{
		{"plain", FromMessages([]shard.Message{user("q")}), "", ""},
		{"tool_calls", field("tool_calls"), `message 0: the chat template in x.jinja does not read the field "tool_calls"`, `does not read the field "tool_calls"`},
		{"thinking", field("thinking"), "", `the field "thinking"`},
		{"tool_call_id", field("tool_call_id"), "", ""},
		{"variable", variable, "", `does not read the variable "enable_thinking"`},
		{"part of a name", part, `does not read the variable "think"`, `does not read the variable "think"`},
		{"reserved", reserved, `"messages" is not a variable to set`, `"messages" is not a variable to set`},
		{"tools", tools, "has no tools", "has no tools"},
	} {
		for _, side := range []struct {
			chat Chat
			want string
		}{{template, c.template}, {House(format), c.house}} {
			err := side.chat.Check(c.conversation)
			if side.want == "" && err != nil || side.want != "" && (exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), side.want)) {
				t.Errorf("%s: %v, want %q", c.name, err, side.want)
			}
		}
	}
}

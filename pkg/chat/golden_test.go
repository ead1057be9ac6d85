package chat

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// golden is what testdata/make_golden.py writes.
type golden struct {
	Date          string
	Conversations []struct {
		Messages, Tools, Variables json.RawMessage
	}
	Templates []struct {
		Name, Template string
		Renderings     [][2]struct { // without and with the generation prompt
			Error   string
			Text    string
			IDs     []int32
			Mask    []int   // of a template with generation blocks
			Literal []int32 // with special tokens in messages spelled out, where that differs
		}
	}
}

func readGolden(t testing.TB, path string) golden {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	unzipped := must.Get(gzip.NewReader(f))(t)
	var g golden
	must.Do(t, json.NewDecoder(unzipped).Decode(&g))
	return g
}

func value[T any](t testing.TB, raw json.RawMessage) T {
	t.Helper()
	var none T
	if len(raw) == 0 {
		return none
	}
	v := must.Get(jinja.ParseJSON(raw))(t)
	return v.(T)
}

func (g golden) conversation(t testing.TB, i int) Conversation {
	t.Helper()
	c := Conversation{
		Tools:     value[*jinja.Sequence](t, g.Conversations[i].Tools),
		Variables: value[*jinja.Dict](t, g.Conversations[i].Variables),
	}
	messages := value[*jinja.Sequence](t, g.Conversations[i].Messages)
	for m := range messages.Len() {
		c.Messages = append(c.Messages, messages.Item(m).(*jinja.Dict))
	}
	return c
}

// newChat makes a chat of one template with the tokenizer of testdata/model.
func newChat(t testing.TB, name, template, date string) *templateChat {
	t.Helper()
	text, err := tokenizer.Load(filepath.Join("testdata", "model"))
	if err != nil {
		t.Fatal(err)
	}
	var day time.Time
	if date != "" {
		if day, err = time.Parse(time.DateOnly, date); err != nil {
			t.Fatal(err)
		}
	}
	stop, _ := text.SpecialID("<|im_end|>")
	c := must.Get(New(text, map[string]Source{defaultTemplate: {name, template}}, Settings{Date: day, StopTokens: []int32{stop}, Variables: roleTokens(text)}))(t)
	return c.(*templateChat)
}

// sameKind tells whether an error of ours is of the kind of one of Python's: a
// refusal repeats what the template says, an undefined name is that name, and
// other operands do not fit either.
func sameKind(python string, ours error) bool {
	kind, message, _ := strings.Cut(python, ": ")
	switch kind {
	case "TemplateError":
		return strings.HasSuffix(ours.Error(), ": the template refuses this conversation: "+message)
	case "UndefinedError":
		quoted := strings.Split(message, "'") // 'dict object' has no attribute 'content'
		return strings.HasSuffix(ours.Error(), " is undefined") && strings.Contains(ours.Error(), quoted[len(quoted)-2])
	case "TypeError":
		return strings.Contains(ours.Error(), ": + is not defined between ") || strings.HasSuffix(message, "is not JSON serializable") && strings.HasSuffix(ours.Error(), " has no JSON")
	}
	return false
}

// Renderings, token ids and masks are those of transformers, and where it
// fails, so do we. LATHE_CHAT_GOLDEN names one more file to compare with.
func TestAgainstTransformers(t *testing.T) {
	t.Parallel()
	paths := []string{filepath.Join("testdata", "golden.json.gz")}
	if more := os.Getenv("LATHE_CHAT_GOLDEN"); more != "" {
		paths = append(paths, more)
	}
	for _, path := range paths {
		g := readGolden(t, path)
		for _, template := range g.Templates {
			t.Run(template.Name, func(t *testing.T) {
				c := newChat(t, template.Name, template.Template, g.Date)
				for i := range g.Conversations {
					for p, want := range template.Renderings[i] {
						o := RenderOptions{GenerationPrompt: p == 1}
						got, err := c.Render(g.conversation(t, i), o)
						where := fmt.Sprintf("conversation %d, prompt %v: %s", i, o.GenerationPrompt, g.Conversations[i].Messages)
						if want.Error != "" {
							if err == nil || !sameKind(want.Error, err) {
								t.Errorf("%s\nrendered %q, %v; transformers fails: %s", where, got.Text, err, want.Error)
							}
							continue
						}
						if err != nil {
							t.Errorf("%s\n%v", where, err)
							continue
						}
						if diff := cmp.Diff(want.Text, got.Text); diff != "" {
							t.Errorf("%s\ntext (-transformers +ours):\n%s", where, diff)
						}
						if diff := cmp.Diff(want.IDs, got.TokenIDs); diff != "" {
							t.Errorf("%s\nids (-transformers +ours):\n%s", where, diff)
						}
						if c.templates[defaultTemplate].HasGeneration() {
							mask := make([]int, len(got.Assistant))
							for k, said := range got.Assistant {
								if said {
									mask[k] = 1
								}
							}
							if diff := cmp.Diff(want.Mask, mask); diff != "" {
								t.Errorf("%s\nmask (-transformers +ours):\n%s", where, diff)
							}
						}
						o.SpellOut = true
						spelled := must.Get(c.Render(g.conversation(t, i), o))(t)
						literal := want.Literal
						if literal == nil {
							literal = want.IDs
						}
						if diff := cmp.Diff(literal, spelled.TokenIDs); diff != "" {
							t.Errorf("%s\nspelled out (-transformers +ours):\n%s", where, diff)
						}
						if spelled.Text != got.Text || len(spelled.Assistant) != len(spelled.TokenIDs) {
							t.Errorf("%s\nspelled out: text %q, %d marks of %d tokens", where, spelled.Text, len(spelled.Assistant), len(spelled.TokenIDs))
						}
					}
				}
			})
		}
		t.Logf("%s: %d conversations by %d templates", path, len(g.Conversations), len(g.Templates))
	}
}

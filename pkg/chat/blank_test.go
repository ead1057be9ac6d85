package chat

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// llama2 is a tokenizer that puts ▁ before a text, as that of Llama 2.
const llama2 = `{"version":"1.0","added_tokens":[
{"id":0,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
{"id":1,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
"model":{"type":"BPE","vocab":{"<s>":0,"</s>":1,"▁":2,"[":3,"I":4,"]":5,"/":6,"q":7,"a":8,"b":9,"▁a":10},"merges":[["▁","a"]]}}`

const llama2Template = `{% for m in messages %}{% if m.role == 'user' %}{{ '<s>[I] ' + m.content + ' [/I]' }}{% else %}{{ ' ' + m.content + ' </s>' }}{% endif %}{% endfor %}`

// What is trained on has the tokens of the whole conversation: no blank comes
// between a prompt and the answer, or between an answer that was cut off and
// what follows.
func TestNoBlankWithinText(t *testing.T) {
	t.Parallel()
	tok := must.Get(tokenizer.Parse([]byte(llama2)))(t)
	c := must.Get(New(tok, map[string]Source{"default": {Text: llama2Template, Path: "x"}}, Settings{StopTokens: []int32{1}}))(t)
	conversation := []shard.Message{{Role: "user", Content: "q"}, {Role: "assistant", Content: "a"}, {Role: "user", Content: "b"}, {Role: "assistant", Content: "b"}}
	ids, sampled, err := c.Demonstrate(conversation)
	must.Do(t, err)
	want := tok.Encode("<s>[I] q [/I] a </s><s>[I] b [/I] b </s>")
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Error(diff)
	}
	var said []int32
	for i, id := range ids {
		if sampled[i] {
			said = append(said, id)
		}
	}
	if diff := cmp.Diff([]int32{10, 2, 1, 2, 9, 2, 1}, said); diff != "" {
		t.Errorf("sampled: %s", diff)
	}
	closing := must.Get(c.Continue(conversation[:3], false))(t)
	if diff := cmp.Diff(tok.Encode("<s>[I] q [/I] a </s><s>[I] b [/I]")[len(tok.Encode("<s>[I] q [/I] a")):], closing); diff != "" {
		t.Errorf("continued: %s", diff)
	}
	r := must.Get(c.Render(FromMessages(conversation), RenderOptions{}))(t)
	said = nil
	for i, id := range r.TokenIDs {
		if r.Assistant[i] {
			said = append(said, id)
		}
	}
	if diff := cmp.Diff([]int32{10, 2, 1, 2, 9, 2, 1}, said); diff != "" {
		t.Errorf("marked: %s", diff)
	}
}

package chat

import (
	"regexp"
	"strings"

	"github.com/lathe-rl/lathe/pkg/jinja"
)

// Marks around the name of a special token in a message keep it apart from the
// tokens that the template writes. They are private-use characters, which are
// taken out of messages first so that they cannot be forged; transformers does
// the same for sanitize_control_tokens.
const (
	markStart = '\U000F0000'
	markEnd   = '\U000F0001'
)

var unmark = strings.NewReplacer(string(markStart), "", string(markEnd), "")

// mark marks the special tokens in all texts of a value but the keys of dicts.
func (c *templateChat) mark(v jinja.Value) jinja.Value {
	specials := c.tokenizer.Specials()
	if len(specials) == 0 {
		return v
	}
	names := make([]string, 0, len(specials))
	for _, s := range specials {
		names = append(names, regexp.QuoteMeta(s.Content))
	}
	pattern := regexp.MustCompile(strings.Join(names, "|"))
	pattern.Longest()
	var walk func(v jinja.Value) jinja.Value
	walk = func(v jinja.Value) jinja.Value {
		switch x := v.(type) {
		case string:
			return pattern.ReplaceAllString(unmark.Replace(x), string(markStart)+"$0"+string(markEnd))
		case *jinja.Sequence:
			items := make([]jinja.Value, x.Len())
			for i := range items {
				items[i] = walk(x.Item(i))
			}
			return jinja.NewList(items...)
		case *jinja.Dict:
			d := jinja.NewDict()
			for i := range x.Len() {
				key, value := x.Entry(i)
				d.Set(key.(string), walk(value))
			}
			return d
		}
		return v
	}
	return walk(v)
}

// encodeLiteral encodes a text with marks: what is marked is spelled out, the
// rest encoded with its special tokens. Marks without a partner are dropped.
func (c *templateChat) encodeLiteral(text string) []int32 {
	var ids []int32
	for text != "" {
		i := strings.IndexAny(text, string(markStart)+string(markEnd))
		if i < 0 {
			return append(ids, c.tokenizer.Encode(text)...)
		}
		ids = append(ids, c.tokenizer.Encode(text[:i])...)
		rest, isStart := strings.CutPrefix(text[i:], string(markStart))
		if !isStart {
			text = text[i+len(string(markEnd)):]
			continue
		}
		name, after, ok := strings.Cut(rest, string(markEnd))
		if _, special := c.tokenizer.SpecialID(name); !ok || !special {
			text = rest
			continue
		}
		ids = append(ids, c.tokenizer.EncodeText(name)...)
		text = after
	}
	return ids
}

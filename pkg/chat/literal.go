package chat

import (
	"regexp"
	"slices"
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
func (c *templateChat) encodeLiteral(text string) []int32 { return c.encodeAfter(nil, text) }

// someText are tokens behind which a text goes on: none that ends one.
var someText = []int32{-1}

// encodeAfter encodes a text with marks that follows other tokens.
func (c *templateChat) encodeAfter(before []int32, text string) []int32 {
	before = before[max(0, len(before)-1):]
	return c.continueLiteral(slices.Clone(before), text)[len(before):]
}

func (c *templateChat) continueLiteral(ids []int32, text string) []int32 {
	for text != "" {
		i := strings.IndexAny(text, string(markStart)+string(markEnd))
		if i < 0 {
			return c.tokenizer.Continue(ids, text, false)
		}
		ids = c.tokenizer.Continue(ids, text[:i], false)
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
		ids = c.tokenizer.Continue(ids, name, true)
		text = after
	}
	return ids
}

package chat

import (
	"regexp"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// Marks around the name of a special token in a message keep it apart from the
// tokens that the template writes. They are private-use characters; one in a
// message is escaped, so that it cannot be forged and is not lost, as it is with
// transformers' sanitize_control_tokens.
const (
	markStart = "\U000F0000"
	markEnd   = "\U000F0001"
)

// A special token's name is never empty, nor markStart: these are the two escapes.
const (
	escapedStart = markStart + markEnd
	escapedEnd   = markStart + markStart + markEnd
)

var (
	escape = strings.NewReplacer(markStart, escapedStart, markEnd, escapedEnd)
	// unmark gives the text of messages back. A mark whose partner the template has cut
	// off is dropped.
	unmark = strings.NewReplacer(escapedEnd, markEnd, escapedStart, markStart, markStart, "", markEnd, "")
)

// specialNames matches the names of special tokens; nil for none. Models have up to a
// thousand, so it is compiled once and not for each message.
func specialNames(t *tokenizer.Tokenizer) *regexp.Regexp {
	var names []string
	for _, s := range t.Specials() {
		names = append(names, regexp.QuoteMeta(s.Content))
	}
	if len(names) == 0 {
		return nil
	}
	pattern := regexp.MustCompile(strings.Join(names, "|"))
	pattern.Longest()
	return pattern
}

// mark marks the special tokens in all texts of a value but the keys of dicts.
func (c *templateChat) mark(v jinja.Value) jinja.Value {
	var walk func(v jinja.Value) jinja.Value
	walk = func(v jinja.Value) jinja.Value {
		switch x := v.(type) {
		case string:
			x = escape.Replace(x)
			if c.specials == nil {
				return x
			}
			return c.specials.ReplaceAllString(x, markStart+"$0"+markEnd)
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
// rest encoded with its special tokens.
func (c *templateChat) encodeLiteral(text string) []int32 { return c.encodeAfter(nil, text) }

// someText are tokens behind which a text goes on: none that ends one.
var someText = []int32{-1}

// encodeAfter encodes a text with marks that follows other tokens.
func (c *templateChat) encodeAfter(before []int32, text string) []int32 {
	before = before[max(0, len(before)-1):]
	return c.continueLiteral(slices.Clone(before), text)[len(before):]
}

func (c *templateChat) continueLiteral(ids []int32, text string) []int32 {
	for at := 0; ; {
		i := strings.Index(text[at:], markStart)
		if i < 0 {
			break
		}
		at += i
		name, after, ended := strings.Cut(text[at+len(markStart):], markEnd)
		if _, special := c.tokenizer.SpecialID(name); !special || !ended {
			at += len(markStart)
			continue
		}
		ids = c.tokenizer.Continue(ids, unmark.Replace(text[:at]), false)
		ids = c.tokenizer.Continue(ids, name, true)
		text, at = after, 0
	}
	if text == "" {
		return ids
	}
	return c.tokenizer.Continue(ids, unmark.Replace(text), false)
}

package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/lathe-rl/lathe/pkg/stopstring"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// detokenizer puts the text of one response together, token by token. It is
// not given the stop token that ends a response.
type detokenizer struct {
	decoder *tokenizer.Decoder
	matcher *stopstring.Matcher
	include bool
	out     io.Writer

	text    strings.Builder
	shown   int // bytes of the text that were written
	match   stopstring.Match
	stopped bool
}

func (d *detokenizer) watch(response []int32) (stop bool) {
	d.append(d.decoder.Write(response[len(response)-1]))
	return d.stopped
}

func (d *detokenizer) append(part string) {
	d.text.WriteString(part)
	if d.match, d.stopped = d.matcher.Write(part); !d.stopped {
		d.show(d.text.Len() - d.matcher.Held())
	}
}

// close ends the text.
func (d *detokenizer) close() {
	if !d.stopped {
		d.append(d.decoder.Flush())
	}
	d.show(len(d.response()))
}

// response is the text up to the stop string, or with it.
func (d *detokenizer) response() string {
	switch {
	case !d.stopped:
		return d.text.String()
	case d.include:
		return d.text.String()[:d.match.End]
	}
	return d.text.String()[:d.match.Start]
}

// show writes the text up to a byte.
func (d *detokenizer) show(end int) {
	if end > d.shown {
		fmt.Fprint(d.out, d.text.String()[d.shown:end])
		d.shown = end
	}
}

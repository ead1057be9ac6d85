package jinja

import (
	"fmt"
	"unicode/utf8"
)

// Error is what is wrong with a template, or what it raised.
type Error struct {
	Line    int // of the template, from 1; 0 when unknown
	Message string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Message)
}

// caught runs what gives up by the panic of an [*Error], and returns that.
func caught(inside func()) (err error) {
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case *Error:
			err = fault
		default:
			panic(fault)
		}
	}()
	inside()
	return nil
}

// longestQuote bounds what an error repeats of a template or a message, in
// bytes.
const longestQuote = 200

func clip(s string) string {
	if len(s) <= longestQuote {
		return s
	}
	n := longestQuote
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

package stage

import (
	"errors"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// varies are what one failure and the next say differently: numbers, and quoted text.
var varies = lazyregexp.New(`[0-9]+|"[^"]*"|'[^']*'`)

// passing are words of failures that depend on the moment or on the node.
var passing = []string{"timeout", "timed out", "connection", "temporar", "unavailable", "refused", "errno", "oserror", "memoryerror", "out of memory", "no space", "cuda", "rate limit", "too many requests"}

// FailsAgain reports whether failures say that another try would fail the same way: that of
// each of several items, of which none went well, is an error that a program of the user's
// gave for it, and all of them say the same but for numbers and quoted text.
func FailsAgain(failed []error, of int) bool {
	if len(failed) < 2 || len(failed) != of {
		return false
	}
	first := ""
	for i, err := range failed {
		if !errors.Is(err, env.ErrOwnProgram) {
			return false
		}
		words := strings.ToLower(varies().ReplaceAllString(innermost(err).Error(), "_"))
		for _, word := range passing {
			if strings.Contains(words, word) {
				return false
			}
		}
		if i == 0 {
			first = words
		} else if words != first {
			return false
		}
	}
	return true
}

// innermost is the error that others are wrapped around: they name the item.
func innermost(err error) error {
	for {
		within := errors.Unwrap(err)
		if within == nil {
			return err
		}
		err = within
	}
}

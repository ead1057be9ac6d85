// Package lazyregexp has regular expressions that are compiled when they are first used: a
// run starts thousands of processes, and few of them use many.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that gives the compiled expression. It panics as regexp.MustCompile
// does, at its first call.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

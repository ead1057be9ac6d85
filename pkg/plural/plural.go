// Package plural writes numbers with their nouns.
package plural

import (
	"fmt"
	"strconv"
	"strings"
)

// Count is a number with its noun: 1 task, 2 tasks, 0 tasks.
func Count(n int, noun string) string { return strconv.Itoa(n) + " " + Noun(n, noun) }

// Of is a part with its whole: 1 of 2 tasks, 0 of 1 task.
func Of(part, whole int, noun string) string {
	return fmt.Sprintf("%d of %s", part, Count(whole, noun))
}

// Noun is the noun for a number of things, where the number is written apart. Its plural
// ends with s, or with ies after a consonant and y.
func Noun(n int, noun string) string {
	stem, y := strings.CutSuffix(noun, "y")
	switch {
	case n == 1:
		return noun
	case y && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])):
		return stem + "ies"
	}
	return noun + "s"
}

// Verb is the one of two forms that belongs to a number of things: is or are.
func Verb(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

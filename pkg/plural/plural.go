// Package plural writes numbers with their nouns.
package plural

import "strconv"

// Count is a number with its noun: 1 task, 2 tasks, 0 tasks.
func Count(n int, noun string) string { return strconv.Itoa(n) + " " + Noun(n, noun) }

// Noun is the noun for a number of things, where the number is written apart. Its plural
// ends with s.
func Noun(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

package config

import (
	"slices"
	"strings"
)

// Matches reports whether a text is one of the values; a * at the end of a value
// matches any rest. It chooses kinds of tasks, rows by their fields, and variables
// by their names.
func Matches(text string, values []string) bool {
	return slices.ContainsFunc(values, func(value string) bool {
		if prefix, open := strings.CutSuffix(value, "*"); open {
			return strings.HasPrefix(text, prefix)
		}
		return text == value
	})
}

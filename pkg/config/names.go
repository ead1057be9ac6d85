package config

import (
	"fmt"
	"reflect"
	"strings"
)

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func pathOr(path, otherwise string) string {
	if path == "" {
		return otherwise
	}
	return path
}

// unknownField is the message for a key that a struct does not have. It
// offers the struct's own field with the nearest name, else the place of a
// field of that very name elsewhere below root, else all there are.
func unknownField(root, v reflect.Value, name, path string) string {
	var own []string
	for _, f := range fieldsOf(v) {
		own = append(own, f.name)
	}
	message := fmt.Sprintf("unknown field %q", Shorten(name))
	if path != "" {
		message += " in " + path
	}
	if near, ok := Nearest(name, own); ok {
		return message + fmt.Sprintf("; did you mean %q?", near)
	}
	for _, known := range fieldPaths(root, "") {
		if strings.HasSuffix(known, "."+name) {
			return message + fmt.Sprintf("; did you mean %q?", known)
		}
	}
	return message + "; it has " + strings.Join(own, ", ")
}

// fieldPaths lists the dotted paths of all fields under a struct, parents
// before children.
func fieldPaths(v reflect.Value, prefix string) []string {
	var paths []string
	for _, f := range fieldsOf(v) {
		path := joinPath(prefix, f.name)
		paths = append(paths, path)
		if inner := f.present(); inner.Kind() == reflect.Struct {
			paths = append(paths, fieldPaths(inner, path)...)
		}
	}
	return paths
}

// Nearest finds the candidate with the smallest edit distance to a name, the
// first of equals, when it is near enough to be a slip: a third of the name's
// length, and at least one.
func Nearest(name string, candidates []string) (string, bool) {
	limit := max(1, len(name)/3)
	best, found := "", false
	for _, candidate := range candidates {
		if d := editDistance(name, candidate, limit); d <= limit {
			best, found, limit = candidate, true, d-1
		}
	}
	return best, found
}

// editDistance is the number of letters to insert, delete, replace or swap
// with a neighbour to turn a into b (optimal string alignment), or more than
// limit when it is above.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

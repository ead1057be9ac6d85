package frame

import (
	"strconv"
	"strings"
)

// Quoted lists names for a message, the first dozen of them.
func Quoted(names []string) string {
	const most = 12
	var shown []string
	for i, name := range names {
		if i == most {
			shown = append(shown, "and "+strconv.Itoa(len(names)-most)+" more")
			break
		}
		shown = append(shown, strconv.Quote(name))
	}
	return strings.Join(shown, ", ")
}

// Shortened quotes the beginning of a cell.
func Shortened(cell string) string {
	const most = 40
	if runes := []rune(cell); len(runes) > most {
		return strconv.Quote(string(runes[:most])) + "…"
	}
	return strconv.Quote(cell)
}

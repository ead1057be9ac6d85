package logs

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// tailBytes bounds what is read of the end of a log.
const tailBytes = 64 << 10

// Tail is the last lines of a file, as text that does nothing to a terminal, and the
// file's size.
func Tail(path string, lines int) (text []string, size int64, err error) {
	f, size, err := plainfile.Open(path)
	if err != nil {
		return nil, size, err
	}
	defer f.Close()
	text, err = tail(f, size, lines)
	return text, size, err
}

// tail is the last lines of what has a size.
func tail(f io.ReaderAt, size int64, lines int) ([]string, error) {
	first := max(0, size-tailBytes)
	content, err := io.ReadAll(io.NewSectionReader(f, first, tailBytes))
	if err != nil {
		return nil, err
	}
	if first > 0 { // begin with a whole line
		if newline := bytes.IndexByte(content, '\n'); newline >= 0 {
			content = content[newline+1:]
		}
	}
	text := strings.TrimRight(string(content), "\n")
	if text == "" {
		return []string{}, nil
	}
	all := strings.Split(text, "\n")
	all = all[len(all)-min(max(lines, 0), len(all)):]
	for i := range all {
		all[i] = printable(all[i])
	}
	return all, nil
}

// From is what a file has from an offset on, at most so much, and the offset behind
// it.
func From(path string, offset, most int64) (text string, next int64, err error) {
	f, size, err := plainfile.Open(path)
	if err != nil {
		return "", offset, err
	}
	defer f.Close()
	if size < offset { // it was begun anew
		offset = 0
	}
	content, err := io.ReadAll(io.NewSectionReader(f, offset, most))
	if err != nil {
		return "", offset, err
	}
	lines := strings.SplitAfter(string(content), "\n")
	for i := range lines {
		line, newline := strings.CutSuffix(lines[i], "\n")
		lines[i] = printable(line)
		if newline {
			lines[i] += "\n"
		}
	}
	return strings.Join(lines, ""), offset + int64(len(content)), nil
}

// printable leaves out what a terminal would take for an order.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, line)
}

// Sizes gives the size of each log that a filter chooses, by its name.
func Sizes(d graph.Dir, f Filter) (map[string]int64, error) {
	entries := map[string]*Entry{}
	if err := readFolder(d, f, entries); err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for name := range entries {
		if info, err := os.Stat(filepath.Join(d.Logs(), name+".log")); err == nil {
			sizes[name+".log"] = info.Size()
		}
	}
	return sizes, nil
}

// Sorted are the names of logs in their order.
func Sorted(sizes map[string]int64) []string { return slices.Sorted(maps.Keys(sizes)) }

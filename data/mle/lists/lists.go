// Package lists has lists of competitions by name: the splits of MLE-bench and what the
// papers train on.
package lists

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed *.txt
var files embed.FS

const extension = ".txt"

// Names lists the lists, sorted.
func Names() []string {
	entries, _ := fs.ReadDir(files, ".") // what is embedded can be read
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), extension))
	}
	slices.Sort(names)
	return names
}

// Lookup returns the competitions of a list, in the order of its file.
func Lookup(name string) ([]string, error) {
	content, err := files.ReadFile(name + extension)
	if err != nil || path.Base(name) != name {
		return nil, fmt.Errorf("there is no list %q: there are %s", name, strings.Join(Names(), ", "))
	}
	return Read(string(content)), nil
}

// Read returns the lines of a list that are neither empty nor begin with #.
func Read(text string) []string {
	var ids []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			ids = append(ids, line)
		}
	}
	return ids
}

// Package sourcetree finds the source tree that a test runs in.
package sourcetree

import (
	"os"
	"path/filepath"
)

// Path is the absolute path of a file of the source tree, by its path below go.mod. Go
// runs the tests of a package in its folder; what the compiler knows of paths may be
// trimmed. It panics where there is no source tree.
func Path(elements ...string) string {
	folder, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return filepath.Join(append([]string{folder}, elements...)...)
		}
		above := filepath.Dir(folder)
		if above == folder {
			panic("there is no go.mod above this test")
		}
		folder = above
	}
}

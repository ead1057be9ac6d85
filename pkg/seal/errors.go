package seal

import (
	"errors"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// What a reader of a sealed file may have to branch on. Both come wrapped in
// an error of kind exitcode.Data that names the file and the mend.
var (
	// ErrNotSealed: there is no manifest, so the file is not done.
	ErrNotSealed = errors.New("not sealed")
	// ErrDamaged: manifest and data do not agree, or one of them cannot be
	// what was sealed.
	ErrDamaged = errors.New("damaged")
)

func damaged(path, detail string) error {
	return exitcode.WithHint(exitcode.Dataf("%q is %w: %s", path, ErrDamaged, detail),
		"remove %s and its manifest %s and run the same command again: it will be rebuilt", path, ManifestPath(path))
}

func notSealed(path, detail string) error {
	return exitcode.WithHint(exitcode.Dataf("%q is %w: %s", path, ErrNotSealed, detail),
		"run the stage that makes it; a file without a manifest is unfinished work and is replaced")
}

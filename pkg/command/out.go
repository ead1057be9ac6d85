package command

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// ownAttempt is who writes what a person named with --out: nothing else that is
// there is kept in its place, and nothing else is replaced.
func ownAttempt() seal.Attempt {
	attempt := seal.AttemptFromEnv()
	attempt.Guard = true
	return attempt
}

// checkOut refuses, before any work, outputs of a person's own that cannot be
// written. They are in the order in which they are sealed: one that is there
// without an earlier one would be found to have other contents only after the
// earlier one was sealed beside it.
func checkOut(kind seal.Kind, paths ...string) error {
	missing := ""
	for _, path := range paths {
		there, err := seal.CheckOutput(path, kind)
		switch {
		case err != nil:
			return err
		case !there && missing == "":
			missing = path
		case there && missing != "":
			return exitcode.WithHint(exitcode.Usagef("%q is there already, without %q that is made with it", path, missing),
				"name another --out, or remove %s and %s", path, seal.ManifestPath(path))
		}
	}
	return nil
}

//go:build !cgo || !linux

package cuda

import "github.com/lathe-rl/lathe/pkg/exitcode"

// usable says why this binary cannot load a library.
func usable() error {
	return exitcode.WithHint(exitcode.Unavailablef("%w: this binary was built without cgo, which the cuda backend needs", ErrNoLibrary),
		"build it where a C compiler is (make build does so for lathe-rollout and lathe-learn on Linux), or use policy.backend cpu")
}

func load(string) (library, error) { return nil, usable() }

package mle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/sandbox/image"
)

// openImage opens the image of env.program.image, and returns its root; none of no image.
func openImage(name string) (root string, err error) {
	if name == "" {
		return "", nil
	}
	path, err := config.ResolvePath(name, "")
	if err == nil {
		root, err = image.Open(context.Background(), path)
	}
	if err != nil {
		return "", fmt.Errorf("env.program.image: %w", err)
	}
	return root, nil
}

// findIn finds an interpreter in an image, where it runs as programs do: all of the image
// is seen, so that nothing else is to be granted.
func findIn(root, name string) (interpreter, error) {
	path := name
	if !filepath.IsAbs(name) {
		for _, folder := range programFolders {
			if _, err := os.Lstat(filepath.Join(root, folder, name)); err == nil {
				path = filepath.Join(folder, name)
				break
			}
		}
	}
	if !filepath.IsAbs(path) {
		return interpreter{}, exitcode.WithHint(exitcode.Unavailablef("env.program.interpreter: the image has no %q in %s", name, strings.Join(programFolders, ", ")),
			"name its path in the image, such as /opt/conda/bin/python3")
	}
	run := func(environ []string, args ...string) ([]byte, error) {
		r, err := sandbox.Run(context.Background(), sandbox.Program{
			Root: root, Args: append([]string{path}, args...), Env: append([]string{"LANG=C.UTF-8"}, environ...), Limits: sandbox.Limits{Wall: time.Minute, Output: outputBytes},
		})
		if err == nil && (r.End != sandbox.Exited || r.ExitCode != 0) {
			err = exitcode.Unavailablef("%s, exit code %d: %s", r.End, r.ExitCode, r.Stderr)
		}
		return []byte(r.Stdout.String()), err
	}
	out, err := run(nil, "-I", "-c", "import sys; print(sys.version_info[0])")
	if err != nil {
		return interpreter{}, fmt.Errorf("env.program.interpreter: %q in the image: %w", path, err)
	}
	if version := strings.TrimSpace(string(out)); version != "3" {
		return interpreter{}, exitcode.Unavailablef("env.program.interpreter: %q in the image is version %q of Python, want 3", path, version)
	}
	return interpreter{root: root, path: path, arithmetic: arithmetic(run)}, nil
}

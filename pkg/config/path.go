package config

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// HasUserinfo reports whether an address has a user or a password before its
// host.
func HasUserinfo(address string) bool {
	_, rest, found := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	return found && strings.Contains(host, "@")
}

// Expand replaces $NAME and ${NAME} by variables of the environment, and lists
// the names that are not set.
func Expand(text string) (expanded string, missing []string) {
	expanded = os.Expand(text, func(name string) string {
		value := os.Getenv(name)
		if value == "" {
			missing = append(missing, name)
		}
		return value
	})
	return expanded, missing
}

// ResolvePath gives a path of a recipe as one that can be opened. $NAME and
// ${NAME} are taken from the environment, and a relative path lies below
// folder, the folder of the recipe. A recipe keeps its paths as they were
// written, so that its digest is the same on every machine.
func ResolvePath(path, folder string) (string, error) {
	expanded, missing := Expand(path)
	if len(missing) > 0 {
		err := exitcode.Usagef("the recipe's path %q needs the environment variable %s, which is not set",
			path, strings.Join(missing, " and "))
		return "", exitcode.WithHint(err, "export %s=FOLDER, or set the path itself with --set", missing[0])
	}
	if !filepath.IsAbs(expanded) {
		expanded = filepath.Join(folder, expanded)
	}
	return expanded, nil
}

// ResolvePaths is [ResolvePath] of each. A name with *, ? or [ that nothing has is a pattern
// ([filepath.Match]) and stands for what matches it, in the order of names.
func ResolvePaths(paths []string, folder string) ([]string, error) {
	resolved := make([]string, 0, len(paths))
	for _, path := range paths {
		place, err := ResolvePath(path, folder)
		if err != nil {
			return nil, err
		}
		if _, err := os.Lstat(place); err == nil || !strings.ContainsAny(place, "*?[") {
			resolved = append(resolved, place)
			continue
		}
		matches, err := filepath.Glob(place)
		if err != nil || len(matches) == 0 {
			return nil, exitcode.Dataf("nothing matches the pattern %q", place)
		}
		resolved = append(resolved, matches...)
	}
	return resolved, nil
}

// RebasePath rewrites a path that is relative to one folder so that it is true
// relative to another. What is absolute, empty or begins with a variable of
// the environment stays.
func RebasePath(path, from, to string) string {
	if from == to || path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "$") {
		return path
	}
	if moved, err := filepath.Rel(to, filepath.Join(from, path)); err == nil {
		return moved
	}
	return path
}

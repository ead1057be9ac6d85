package child

import (
	"os"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
)

// basic are the variables that a program gets of this process's environment: who
// and where it is, how people want to be spoken to, and the marks by which whoever
// started this process finds what is left of it. What else there is, and it may be
// a secret, is none of its business.
var basic = []string{markPrefix + "*", "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR"}

// Marks are the marks of this process alone.
func Marks() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool { return !strings.HasPrefix(entry, markPrefix) })
}

// Environment is a minimal environment for a program that is not ours: the basic
// variables of this process's, and those that pass names. A * at the end of a
// name stands for any rest ([config.Matches]).
func Environment(pass ...string) []string {
	var environ []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if config.Matches(name, basic) || config.Matches(name, pass) {
			environ = append(environ, entry)
		}
	}
	return environ
}

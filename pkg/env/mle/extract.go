package mle

import (
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

var fenced = lazyregexp.New("(?ms)^([ \t]*)`{3,}([^`\n]*)\n(.*?)\n?^[ \t]*`{3,}[ \t]*$")

// programIn is the program in a response, after any thoughts: the last fenced block that
// is Python's, or nobody's where none is, as a program may be followed by what it prints.
// The indentation of its fence, as in a list, is none of its own. A style without fences
// takes the whole response where it has no such block. ok is false where there is none.
func (e *Env) programIn(response string) (program string, ok bool) {
	if end := strings.LastIndex(response, "</think>"); end >= 0 {
		response = response[end+len("</think>"):]
	}
	response = strings.ReplaceAll(response, "\r\n", "\n")
	named := false
	for _, block := range fenced().FindAllStringSubmatch(response, -1) {
		language, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(block[2])), " ")
		python := slices.Contains([]string{"python", "py", "python3"}, language)
		if strings.TrimSpace(block[3]) != "" && (python || language == "" && !named) {
			program, named = strings.ReplaceAll("\n"+block[3], "\n"+block[1], "\n"), python
		}
	}
	if program == "" && !e.style.fenced && !strings.Contains(response, "```") {
		program = response
	}
	program = strings.Trim(program, "\n")
	if strings.TrimSpace(program) == "" {
		return "", false
	}
	return program + "\n", true
}

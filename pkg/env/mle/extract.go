package mle

import (
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

var fenced = lazyregexp.New("(?ms)^[ \t]*(`{3,})([^`\n]*)\n(.*?)\n?^[ \t]*(`{3,})[ \t]*$")

// programIn is the program in a response: the last fenced block that is Python's
// or nobody's, after any thoughts. A style without fences takes the whole response
// where it has no such block. ok is false where there is none.
func (e *Env) programIn(response string) (program string, ok bool) {
	if end := strings.LastIndex(response, "</think>"); end >= 0 {
		response = response[end+len("</think>"):]
	}
	response = strings.ReplaceAll(response, "\r\n", "\n")
	for _, block := range fenced().FindAllStringSubmatch(response, -1) {
		switch strings.ToLower(strings.TrimSpace(block[2])) {
		case "", "python", "py", "python3":
			program = block[3]
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

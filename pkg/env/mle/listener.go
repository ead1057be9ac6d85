package mle

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/pysource"
)

// listener takes a program's standard output as it comes and hears what the program says
// of itself, however much else it prints: of a long output the middle is not kept.
type listener struct {
	pattern    *regexp.Regexp // of a line with a validation score
	line       []byte         // that has not ended
	validation float64        // the last; NaN for none
	milestones bool           // are heard
	reached    string         // of them, each on a line
}

func newListener(s *Settings) *listener {
	return &listener{pattern: regexp.MustCompile(s.Validation), validation: math.NaN(), milestones: s.Milestones == "terminal"}
}

// Write takes all. A line ends where a terminal begins another, or writes over it.
func (l *listener) Write(text []byte) (int, error) {
	n := len(text)
	for {
		end := bytes.IndexAny(text, "\r\n")
		ended := end >= 0
		if !ended {
			end = len(text)
		}
		l.line = append(l.line, text[:min(end, outputBytes-len(l.line))]...)
		if !ended {
			return n, nil
		}
		l.end()
		text = text[end+1:]
	}
}

// end ends a line, or the output. The last validation score counts; a number that is none
// is not said.
func (l *listener) end() {
	line := string(l.line)
	l.line = l.line[:0]
	if match := l.pattern.FindStringSubmatch(line); match != nil {
		if number, err := strconv.ParseFloat(match[1], 64); err == nil && !math.IsInf(number, 0) {
			l.validation = number
		}
	}
	if !l.milestones {
		return
	}
	for _, milestone := range pysource.Milestones(line) {
		if !strings.Contains(l.reached, milestone) {
			l.reached += milestone + "\n"
		}
	}
}

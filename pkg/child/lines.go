package child

import (
	"bytes"
	"strings"
	"sync"
)

// Lines hands what programs say of themselves on, line by line, up to a number of
// bytes. Many may write at a time, and their lines mix.
type Lines struct {
	Bytes int // after which no more is handed on

	mutex   sync.Mutex
	to      func(line string)
	partial []byte
	said    int
}

// longestLine is where a line is cut that does not end.
const longestLine = 4 << 10

// To names who takes lines. What was said before is not handed on.
func (l *Lines) To(to func(line string)) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.to = to
}

func (l *Lines) Write(b []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.to == nil || l.said > l.Bytes {
		return len(b), nil
	}
	for rest := b; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		l.partial, rest = append(l.partial, line...), after
		if !ended && len(l.partial) < longestLine {
			break
		}
		if l.said += len(l.partial) + 1; l.said > l.Bytes {
			l.to("(what else it says is left out)")
			break
		}
		l.to(strings.ToValidUTF8(strings.TrimRight(string(l.partial), "\r"), "\uFFFD"))
		l.partial = l.partial[:0]
	}
	return len(b), nil
}

package child

import (
	"strings"
	"testing"
)

// The last 4 bytes of "abc" and "déf" (d, two bytes of é, f) are "déf"; of one byte
// more before f, they begin in the middle of é.
func TestTail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		written []string
		want    string
	}{
		{nil, ""},
		{[]string{"abc"}, "abc"},
		{[]string{"abc", "déf"}, "déf"},
		{[]string{"abcdé", "fg"}, "éfg"},
		{[]string{"abcdé", "fgh"}, "\uFFFDfgh"},
		{[]string{strings.Repeat("x", 100)}, "xxxx"},
	} {
		tail := &Tail{Bytes: 4}
		for _, text := range c.written {
			if n, err := tail.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%q: %d, %v", text, n, err)
			}
		}
		if got := tail.String(); got != c.want {
			t.Errorf("%q: %q, want %q", c.written, got, c.want)
		}
	}
}

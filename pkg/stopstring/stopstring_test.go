package stopstring

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

func newSet(t testing.TB, stops ...string) *Set {
	t.Helper()
	s, err := New(stops)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		stops []string
		parts []string
		want  string // the text before the stop string, |, the stop string, |, the part that completes it
	}{
		{"none", []string{"</tool>"}, []string{"a<", "/to", "ol", " >"}, ""},
		{"nothing to find", nil, []string{"a", "b"}, ""},
		{"one token", []string{"</tool>"}, []string{"a", "b</tool>c"}, "ab|</tool>|1"},
		{"across tokens", []string{"</tool>"}, []string{"a<", "/to", "ol", ">", "x"}, "a|</tool>|3"},
		{"byte by byte, many begun in vain", []string{"aab"}, strings.Split("aaaaab", ""), "aaa|aab|5"},
		{"a rune's bytes apart", []string{"é"}, []string{"x\xc3", "\xa9y"}, "x|é|1"},
		{"two bytes of a rune of four", []string{"🙂"}, []string{"\xf0\x9f", "\x99", "\x82"}, "|🙂|2"},
		{"the one that ends first", []string{"long stop", "s"}, []string{"a long stop"}, "a long |s|0"},
		{"in the order of the text, not of the list", []string{"b", "a"}, []string{"xaxb"}, "x|a|0"},
		{"at the same end the longest", []string{"ol>", "tool>", "l>"}, []string{"</tool>"}, "</|tool>|0"},
		{"the first of two", []string{"\n"}, []string{"a", "\n\n", "b"}, "a|\n|1"},
		{"parts without text", []string{"ab"}, []string{"", "a", "", "b"}, "|ab|3"},
	} {
		m := newSet(t, c.stops...).Matcher()
		got := ""
		for i, part := range c.parts {
			if match, found := m.Write(part); found {
				text := strings.Join(c.parts[:i+1], "")
				got = text[:match.Start] + "|" + text[match.Start:match.End] + "|" + string(rune('0'+i))
				if match.Stop != text[match.Start:match.End] {
					t.Errorf("%s: %q is said to be at %q", c.name, match.Stop, text[match.Start:match.End])
				}
				break
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// However a text is cut, the match is that of the whole text, and comes with
// the part that completes it.
func TestCutsDoNotShow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		letters := rapid.StringOfN(rapid.SampledFrom([]rune("abé🙂")), 0, 40, -1)
		stops := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.SampledFrom([]rune("abé🙂")), 1, 4, -1), 0, 4, rapid.ID).Draw(rt, "stops")
		text := letters.Draw(rt, "text")
		// By definition: the shortest beginning of the text that ends in a stop
		// string, and the longest such string.
		want, found := Match{}, false
		for end := 1; end <= len(text) && !found; end++ {
			for _, stop := range stops {
				if strings.HasSuffix(text[:end], stop) && len(stop) > len(want.Stop) {
					want, found = Match{stop, end - len(stop), end}, true
				}
			}
		}
		m := newSet(t, stops...).Matcher()
		for at := 0; at < len(text); {
			n := rapid.IntRange(0, 6).Draw(rt, "bytes")
			n = min(n, len(text)-at)
			got, ok := m.Write(text[at : at+n])
			at += n
			if ok != (found && want.End <= at) {
				rt.Fatalf("after %d bytes: found %v, want %+v", at, ok, want)
			}
			if ok {
				if got != want {
					rt.Fatalf("got %+v, want %+v", got, want)
				}
				return
			}
			held := 0
			for _, stop := range stops {
				for n := range len(stop) {
					if strings.HasSuffix(text[:at], stop[:n]) {
						held = max(held, n)
					}
				}
			}
			if m.Held() != held {
				rt.Fatalf("after %q %d bytes are held, want %d", text[:at], m.Held(), held)
			}
			if len(m.tail) >= max(1, m.set.longest) {
				rt.Fatalf("holds %d bytes; the longest stop string has %d", len(m.tail), m.set.longest)
			}
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, stops := range map[string][]string{
		"empty": {"a", ""}, "twice": {"a", "b", "a"}, "not UTF-8": {"\xff"},
	} {
		if _, err := New(stops); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := newSet(t); !s.Empty() {
		t.Error("no stop strings, but not empty")
	}
}

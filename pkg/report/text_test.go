package report

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
)

func printed(t *testing.T, s Summary) string {
	t.Helper()
	s.RunID = "fixture-00000000" // drawn by chance
	var b strings.Builder
	must(t, Text(&b, s))
	return b.String()
}

func TestText(t *testing.T) {
	t.Parallel()
	golden.Check(t, "testdata/finished.txt", printed(t, finished(t).collect()))
	f := newFixture(t)
	golden.Check(t, "testdata/pending.txt", printed(t, f.collect()))
	f.begin()
	f.sample(1, 0, "a", [2]float64{12, 15}, [2]float64{16, 17})
	f.evaluate(0, 11, 14, evaluationRows(0, scoresBefore))
	golden.Check(t, "testdata/unfinished.txt", printed(t, f.collect()))
}

// A name from a file cannot talk to the terminal.
func TestTextIsPlain(t *testing.T) {
	t.Parallel()
	s := finished(t).collect()
	s.Name = "evil\x1b[2Jname\nsecond line"
	s.AccuracyByKind[0].Kind = "\x1b]0;title\a"
	for _, c := range printed(t, s) {
		if c == '\x1b' || c == '\a' {
			t.Fatal("a control character reached the terminal")
		}
	}
	if strings.Contains(printed(t, s), "\nsecond line") {
		t.Fatal("a name broke its line")
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	half, zero := 0.5, 0.0
	for _, c := range []struct{ got, want string }{
		{percent(nil), "-"},
		{percent(&half), "50.0"},
		{withError(&half, nil), "50.0"},
		{withError(&half, &zero), "50.0 ± 0.0"},
		{signed(-0.04), "0.0"},
		{signed(-1.25), "−1.2"},
		{signed(21.82), "+21.8"},
		{grouped(0), "0"},
		{grouped(999), "999"},
		{grouped(1000), "1 000"},
		{grouped(12345678), "12 345 678"},
		{grouped(-1234), "-1 234"},
		{duration(0), "0 s"},
		{duration(0.125), "0.12 s"},
		{duration(59.6), "60 s"},
		{duration(150), "2.5 min"},
		{duration(7200), "2.0 h"},
		{counts(map[string]int{"b": 2, "a": 2, "c": 1000, "none": 0}), "c 1 000, a 2, b 2"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// Of arrays that wait for long a line has the wait, what a quorum would have saved, and the
// nodes of slow tasks.
func TestTailWords(t *testing.T) {
	t.Parallel()
	words := tailWords(Tail{Stage: "rollout", Arrays: 1, MedianSeconds: 10, P95Seconds: 10, LastSeconds: 100, QuorumSeconds: 80, Stragglers: map[string]int{"n2": 1}})
	if !strings.Contains(words, "schedule.quorum 0.97 would have saved") || !strings.HasSuffix(words, "by node: n2 1") {
		t.Errorf("it says %q", words)
	}
}

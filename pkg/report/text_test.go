package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

func printed(t *testing.T, s Summary) string {
	t.Helper()
	s.RunID = "fixture-00000000" // drawn by chance
	var b strings.Builder
	must.Do(t, Text(&b, s))
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

// TestEverything prints all that a page and a terminal say of numbers made up by hand: what is between two bounds, at a
// bound, missing, or zero. The golden file was read line by line.
func TestEverything(t *testing.T) {
	t.Parallel()
	var s Summary
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/everything.json"))(t), &s))
	s.Unmeasured = []measure.Sealed{{Version: 2, Sealed: 1, Shards: 3}, {Version: 3, Shards: 3}, {Version: 4}, {Version: 5}, {Version: 6}, {Version: 7}, {Version: 8}}
	s.Newest = &seal.Manifest{Notes: map[string]json.RawMessage{"b": json.RawMessage(`{"clip":0.2}`), "a": json.RawMessage("not JSON")}, Files: []seal.File{{Name: "model", SHA256: "d"}}}
	var b strings.Builder
	b.WriteString(printed(t, s))
	show := func(what string, value any) {
		encoded := must.Get(json.MarshalIndent(value, "", " "))(t)
		fmt.Fprintf(&b, "\n%s %s\n", what, encoded)
	}
	rows := func(what string, rows [][]string) {
		fmt.Fprintf(&b, "\n%s\n", what)
		for _, row := range rows {
			fmt.Fprintln(&b, strings.Join(row, " | "))
		}
	}
	fmt.Fprintln(&b, "\nheadlines", headlines(s), "\nto do", toDo(s), "\nsaid", said(s), "\nobjective", objective(s.Newest), "\nunknown", unknownRows(s))
	rows("accuracies", accuracyTable(s).Rows)
	rows("stages", stageTable(s).Rows)
	rows("ledger", ledgerRows(s))
	rows("identity", func() (all [][]string) {
		for _, row := range identityRows(&rundir.Run{Identity: rundir.Identity{Data: []rundir.DataFile{{Path: "p", SHA256: "e"}}}}, s) {
			all = append(all, row[:])
		}
		return all
	}())
	for _, table := range breakDowns(s) {
		rows("break-down "+strings.Join(table.Head, " | "), table.Rows)
	}
	for _, drawn := range figures(s) {
		fmt.Fprintf(&b, "\n%s: %s", drawn.Name, drawn.Caption)
	}
	b.WriteString("\n")
	lines, label := rewardLines(s)
	show(label, lines)
	for _, group := range curriculumGroups(s) {
		show(group, curriculumLines(s, group))
	}
	show("kinds", countLines(s, func(i Iteration) map[string]int { return i.Kinds }))
	byStep, drawn := byStepFigure(s)
	show(fmt.Sprint("by step ", drawn), byStep.Lines)
	byVersion, drawn := byVersionFigure(s)
	show(fmt.Sprint("by version ", drawn), byVersion.Lines)
	show("stages", stageFigure(s))
	golden.Check(t, "testdata/everything.txt", b.String())

	for _, c := range []struct {
		state              string
		version, sealed    int // of the newest policy, -1 for none; and of iterations in all
		want               string
		ratio, first       float64
		says, words, other string
	}{
		{"done", 1, 1, "", 0, 0, "The importance ratio was exactly 1", "done", "failed"},
		{"running", -1, 2, "The policy that the run starts from. Iterations 1 to 2.", 0.5, 0.25, "0.25 over first optimizer steps and 0.5 over all", "not finished", "pending"},
		{"running", 1, 2, "Iteration 2, the last.", 0, 0, "exactly 1", "not finished", "not begun"},
		{"running", 2, 2, "", 0, 0, "exactly 1", "not finished", "done"},
		{"failed", 0, 3, "Iterations 1 to 3.", 0, 0, "exactly 1", "failed", "done"},
	} {
		s := Summary{State: c.state, Iterations: c.sealed, Series: []Iteration{{RatioDeviationMax: &c.ratio, FirstStepRatioDeviationMax: &c.first}}, LeftOutShards: 1}
		if c.version >= 0 {
			s.PolicyVersion = &c.version
		}
		if got := strings.Join(toDo(s), " "); got != c.want {
			t.Errorf("%+v: to do %q", c, got)
		}
		if got := said(s); len(got) != 2 || !strings.Contains(got[0], c.says) || !strings.HasPrefix(got[1], "1 shard used up the attempts and was left out") || stateWords(s) != c.words {
			t.Errorf("%+v: said %q, %s", c, got, stateWords(s))
		}
	}
	for versions, want := range map[string]string{"": "nil nil after", "0": "0 nil after", "02": "0 2 v000002, so far", "03": "0 3 after", "23": "nil 3 after"} {
		s := Summary{Iterations: 3}
		for _, v := range versions {
			s.AccuracyByVersion = append(s.AccuracyByVersion, Version{Version: int(v - '0')})
		}
		name := func(v *Version) string {
			if v == nil {
				return "nil"
			}
			return fmt.Sprint(v.Version)
		}
		if before, after, head := beforeAndAfter(s); name(before)+" "+name(after)+" "+head != want {
			t.Errorf("of %q: %v, %v, %s", versions, before, after, head)
		}
	}
	if before, after, head := beforeAndAfter(Summary{AccuracyByVersion: []Version{{}}}); before != after || before == nil || head != "after" {
		t.Errorf("of no iteration: %v, %v, %s", before, after, head)
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
		{signed(0.05), "+0.1"},
		{withError(nil, &zero), "-"},
		{change(nil) + changeWithError(nil, &half) + groupedOr(nil) + percent(difference(nil, &half)) + percent(difference(&half, nil)), "-----"},
		{changeWithError(&half, nil), "+50.0"},
		{grouped(100000), "100 000"},
		{duration(0.01) + duration(0.0099), "0.01 s0 s"},
		{duration(9.99) + duration(10) + duration(99) + duration(100), "10 s10 s99 s1.7 min"},
		{duration(5999) + duration(6000), "100.0 min1.7 h"},
		{clipped("äbc", 2) + clipped("äb", 2) + clipped("", 0), "äb […]äb"},
		{printable("a\u200bb"), "a\ufffdb"},
		{tailWords(Tail{LastSeconds: 0.9}), ""},
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

// TestSelectedVersion: where a set has the role validation, text and page name the version
// that it selects, with its scores.
func TestSelectedVersion(t *testing.T) {
	t.Parallel()
	half := 0.5
	s := Summary{AccuracyByVersion: []Version{{Version: 2, Accuracy: &half}}, SelectedVersion: &measure.Selection{Version: 4, Validation: 0.625, Accuracy: 0.5}}
	var b strings.Builder
	(&textReport{out: &b, s: s}).accuracy()
	if want := "Selected by validation: policy v000004, 62.5% there and 50.0% on the benchmarks."; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in\n%s", want, b.String())
	}
	rows := accuracyTable(s).Rows
	if last := rows[len(rows)-1]; !strings.Contains(fmt.Sprint(last), "policy v000004, selected by validation") {
		t.Errorf("the last row of the page is %v", last)
	}
}

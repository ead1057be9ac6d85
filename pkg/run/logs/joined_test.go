package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TestJoin joins logs, one more that comes later among them, and splits them again to the
// byte: whatever they hold, a line that looks like a header too.
func TestJoin(t *testing.T) {
	t.Parallel()
	d := graph.Dir(t.TempDir())
	n := graph.Node{Stage: graph.StageScore, Iteration: 3, Wave: 1}
	texts := map[string]string{
		"score-000003-w01-00000.0.log": "begins\nends\n",
		"score-000003-w01-00000.1.log": "",
		"score-000003-w01-00001.0.log": "no line break at the end",
		"score-000003-w01-00002.0.log": "==> score-000003-w01-00009.0.log, 3 bytes, 2026-01-02T03:04:05Z <==\nabc\n",
	}
	written := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(name string) {
		put(t, d, map[string]string{name: texts[name]})
		if err := os.Chtimes(filepath.Join(d.Logs(), name), written, written); err != nil {
			t.Fatal(err)
		}
	}
	join := func(want int) {
		t.Helper()
		loose, err := Loose(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, dry := range []bool{true, false} {
			if fewer, err := Join(d, n, loose[n], dry, seal.Attempt{Host: "a"}); err != nil || fewer != want {
				t.Fatalf("dry %v: %d files fewer, want %d: %v", dry, fewer, want, err)
			}
		}
	}
	for i := range 3 {
		write(fmt.Sprintf("score-000003-w01-%05d.0.log", i))
	}
	join(2)
	write("score-000003-w01-00000.1.log")
	write("score-000003-w01-00001.0.log") // a kill left it
	join(2)
	if names, err := os.ReadDir(d.Logs()); err != nil || len(names) != 1 || names[0].Name() != "score-000003-w01.log" {
		t.Fatalf("the folder holds %v, %v", names, err)
	}

	entries := map[string]*Entry{}
	if err := readFolder(d, Filter{}, entries); err != nil || len(entries) != len(texts) {
		t.Fatalf("%d logs, %v", len(entries), err)
	}
	lines, err := entries["score-000003-w01-00002.0"].Tail(d, 5)
	if err != nil || len(lines) != 2 || lines[1] != "abc" {
		t.Errorf("lines %q, %v", lines, err)
	}

	if more, err := Split(d, seal.Attempt{Host: "a"}); err != nil || more != 3 {
		t.Fatalf("%d files more, %v", more, err)
	}
	for name, want := range texts {
		path := filepath.Join(d.Logs(), name)
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
		if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(written) {
			t.Errorf("%s was written %v, %v", name, info.ModTime(), err)
		}
	}
}

// TestJoinElsewhere: logs of which another process has joined some are left to it.
func TestJoinElsewhere(t *testing.T) {
	t.Parallel()
	d := graph.Dir(t.TempDir())
	const left = "score-000003-00001.0.log"
	put(t, d, map[string]string{left: "x"})
	n := graph.Node{Stage: graph.StageScore, Iteration: 3}
	if fewer, err := Join(d, n, []string{left, "score-000003-00002.0.log"}, false, seal.Attempt{Host: "a"}); fewer != 0 || err != nil {
		t.Errorf("%d fewer, %v", fewer, err)
	}
	if names, _ := os.ReadDir(d.Logs()); len(names) != 1 {
		t.Errorf("the folder holds %v", names)
	}
}

// TestJoinedDamage: a joined file that somebody edited is an error that names it, and
// nothing is removed. One that lacks the last line break lacks nothing.
func TestJoinedDamage(t *testing.T) {
	t.Parallel()
	const header = "==> score-000003-00000.0.log, 3 bytes, 2026-01-02T03:04:05Z <==\n"
	for content, whole := range map[string]bool{
		"hello\n": false, strings.Replace(header, "3 bytes", "9 bytes", 1) + "abc\n": false, strings.Replace(header, "2026", "today", 1) + "abc\n": false, header + "abc\nmore": false,
		strings.Replace(header, "3 bytes", "99999999999999999999 bytes", 1) + "abc\n": false, header + "ab": false, header + "abc": true, header + "abc\n": true,
	} {
		d := graph.Dir(t.TempDir())
		n := graph.Node{Stage: graph.StageScore, Iteration: 3}
		put(t, d, map[string]string{"score-000003.log": content, "score-000003-00001.0.log": "x"})
		three, two := 3, 2
		for _, c := range []struct {
			f     Filter
			reads bool
		}{{Filter{}, true}, {Filter{Stage: graph.StageScore, Iteration: &three}, true}, {Filter{Stage: graph.StageRollout}, false}, {Filter{Iteration: &two}, false}} {
			if _, err := Sizes(d, c.f); (err == nil) != (whole || !c.reads) {
				t.Errorf("%q, %+v: %v", content, c.f, err)
			}
		}
		fewer, err := Join(d, n, []string{"score-000003-00001.0.log"}, false, seal.Attempt{Host: "a"})
		if whole != (err == nil) || whole && fewer != 1 || !whole && exitcode.Code(err) != exitcode.Data {
			t.Errorf("%q: %d files fewer, %v", content, fewer, err)
		}
		more, err := Split(d, seal.Attempt{Host: "a"})
		if whole != (err == nil) || whole && more != 1 {
			t.Errorf("%q: %d files more, %v", content, more, err)
		}
		if names, _ := os.ReadDir(d.Logs()); len(names) != 2 {
			t.Errorf("the folder holds %v", names)
		}
	}
}

// TestSplit: every joined file is split, whatever lies beside it, and what somebody named
// like a log of no task is no entry.
func TestSplit(t *testing.T) {
	t.Parallel()
	d := graph.Dir(t.TempDir())
	if more, err := Split(d, seal.Attempt{}); more != 0 || err != nil {
		t.Errorf("no folder: %d, %v", more, err)
	}
	if loose, err := Loose(d); loose != nil || err != nil {
		t.Errorf("no folder: %v, %v", loose, err)
	}
	joined := func(names ...string) (text string) {
		for _, name := range names {
			text += "==> " + name + ", 1 bytes, 2026-01-02T03:04:05Z <==\n" + name[:1] + "\n"
		}
		return text
	}
	put(t, d, map[string]string{
		"rollout-000003.log":         joined("rollout-000003-00000.0.log", "rollout-000003-00001.0.log", "rollout-000003-00002.0.log"),
		"rollout-000004-00000.0.log": "x", "score-000003.log": joined("notes.log", "score-000003-00000.0.log"), "score-000003": "no log",
	})
	entries := map[string]*Entry{}
	if err := readFolder(d, Filter{}, entries); err != nil || len(entries) != 5 || entries["score-000003-00000.0"] == nil {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if sizes, err := Sizes(d, Filter{}); err != nil || len(sizes) != 1 || sizes["rollout-000004-00000.0.log"] != 1 {
		t.Errorf("sizes of what lies by itself: %v, %v", sizes, err)
	}
	if more, err := Split(d, seal.Attempt{}); more != 3 || err != nil { // 3 - 1 and 2 - 1
		t.Errorf("%d files more, %v", more, err)
	}
	loose, err := Loose(d)
	if err != nil || len(loose) != 3 || len(loose[graph.Node{Stage: graph.StageRollout, Iteration: 3}]) != 3 {
		t.Errorf("by themselves lie %v, %v", loose, err)
	}
}

// TestJoinRefuses: what cannot be read is an error that is reported, and what is too much
// for one file stays in many.
func TestJoinRefuses(t *testing.T) {
	t.Parallel()
	n := graph.Node{Stage: graph.StageScore, Iteration: 3}
	d := graph.Dir(t.TempDir())
	if err := os.WriteFile(d.Logs(), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, loose := Loose(d)
	_, split := Split(d, seal.Attempt{})
	_, sizes := Sizes(d, Filter{})
	_, join := Join(d, n, nil, false, seal.Attempt{})
	for i, err := range []error{loose, split, sizes, join} {
		if err == nil {
			t.Errorf("%d: a file is taken for the folder of logs", i)
		}
	}
	d = graph.Dir(t.TempDir())
	put(t, d, map[string]string{"score-000003-00001.0.log": "x", "folder.log/a": ""})
	for _, name := range []string{"folder.log", "a\x00b"} {
		if fewer, err := Join(d, n, []string{"score-000003-00001.0.log", name}, false, seal.Attempt{}); fewer != 0 || err == nil || !strings.HasPrefix(err.Error(), "joining logs: ") {
			t.Errorf("%q: %d files fewer, %v", name, fewer, err)
		}
	}
	if fewer, err := Join(d, n, []string{"score-000003-00001.0.log"}, false, seal.Attempt{}); fewer != 0 || err != nil { // one file becomes one
		t.Errorf("%d files fewer, %v", fewer, err)
	}
	// With the joined file, of 66 bytes, it is one byte more than what is joined.
	put(t, d, map[string]string{"score-000003-00002.0.log": ""})
	if err := os.Truncate(filepath.Join(d.Logs(), "score-000003-00002.0.log"), 256<<20-66+1); err != nil {
		t.Fatal(err)
	}
	if fewer, err := Join(d, n, []string{"score-000003-00002.0.log"}, false, seal.Attempt{}); fewer != 0 || err != nil {
		t.Errorf("%d files fewer, %v", fewer, err)
	}
	if names, _ := os.ReadDir(d.Logs()); len(names) != 3 {
		t.Errorf("the folder holds %v", names)
	}
}

// put writes logs.
func put(t *testing.T, d graph.Dir, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		path := filepath.Join(d.Logs(), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
}

package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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
		path := filepath.Join(d.Logs(), name)
		if err := os.MkdirAll(d.Logs(), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(texts[name]), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, written, written); err != nil {
			t.Fatal(err)
		}
	}
	join := func(want int) {
		t.Helper()
		loose, err := Loose(d)
		if err != nil {
			t.Fatal(err)
		}
		if fewer, err := Join(d, n, loose[n], seal.Attempt{Host: "a"}); err != nil || fewer != want {
			t.Fatalf("%d files fewer, want %d: %v", fewer, want, err)
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
	if err := os.MkdirAll(d.Logs(), 0o777); err != nil {
		t.Fatal(err)
	}
	const left = "score-000003-00001.0.log"
	if err := os.WriteFile(filepath.Join(d.Logs(), left), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	n := graph.Node{Stage: graph.StageScore, Iteration: 3}
	if fewer, err := Join(d, n, []string{left, "score-000003-00002.0.log"}, seal.Attempt{Host: "a"}); fewer != 0 || err != nil {
		t.Errorf("%d fewer, %v", fewer, err)
	}
	if names, _ := os.ReadDir(d.Logs()); len(names) != 1 {
		t.Errorf("the folder holds %v", names)
	}
}

// TestJoinedDamage: a joined file that somebody edited is an error that names it, and
// nothing is removed.
func TestJoinedDamage(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"hello\n", "==> score-000003-00000.0.log, 9 bytes, 2026-01-02T03:04:05Z <==\nabc\n", "==> score-000003-00000.0.log, 3 bytes, today <==\nabc\n", "==> score-000003-00000.0.log, 3 bytes, 2026-01-02T03:04:05Z <==\nabc\nmore"} {
		d := graph.Dir(t.TempDir())
		n := graph.Node{Stage: graph.StageScore, Iteration: 3}
		if err := os.MkdirAll(d.Logs(), 0o777); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"score-000003.log": content, "score-000003-00001.0.log": "x"} {
			if err := os.WriteFile(filepath.Join(d.Logs(), name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Join(d, n, []string{"score-000003-00001.0.log"}, seal.Attempt{Host: "a"}); err == nil {
			t.Errorf("%q was taken for joined logs", content)
		}
		if names, _ := os.ReadDir(d.Logs()); len(names) != 2 {
			t.Errorf("the folder holds %v", names)
		}
	}
}

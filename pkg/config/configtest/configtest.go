// Package configtest tests packages of settings by folders of files.
package configtest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Glob lists the files that match a pattern, of which there must be some.
func Glob(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files match %s (%v)", pattern, err)
	}
	return paths
}

// Golden compares text with a file, or writes the file with -update.
func Golden(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is out of step; run the test with -update (-file +now):\n%s", path, diff)
	}
}

// messages reads a table of files and the messages that they get: a line
// "== FILE", then the message.
func messages(t testing.TB, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	table := map[string]string{}
	for _, section := range strings.Split("\n"+string(text), "\n== ")[1:] {
		name, message, _ := strings.Cut(section, "\n")
		table[name] = strings.TrimSuffix(message, "\n")
	}
	return table
}

// Bad loads every file of a folder that must fail and compares the whole
// message with the folder's messages.txt. Adding a check means adding a file.
func Bad(t testing.TB, folder string, load func(path string) error) {
	t.Helper()
	want := messages(t, folder+"/messages.txt")
	got := map[string]string{}
	for _, path := range Glob(t, folder+"/*.yaml") {
		name := filepath.Base(path)
		err := load(path)
		if err == nil {
			t.Errorf("%s loads", name)
			continue
		}
		if code := exitcode.Code(err); code != exitcode.Usage {
			t.Errorf("%s: exit code %d, want %d", name, code, exitcode.Usage)
		}
		got[name] = err.Error()
	}
	if *update {
		names := make([]string, 0, len(got))
		for name := range got {
			names = append(names, name)
		}
		sort.Strings(names)
		var b strings.Builder
		for _, name := range names {
			fmt.Fprintf(&b, "== %s\n%s\n", name, got[name])
		}
		Golden(t, folder+"/messages.txt", b.String())
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// Corpus adds files to the corpus of a fuzz test.
func Corpus(f *testing.F, patterns ...string) {
	f.Helper()
	for _, pattern := range patterns {
		for _, path := range Glob(f, pattern) {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
}

package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

func TestRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "a")
	if err := os.WriteFile(path, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(folder, "link")
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		got, err := Read(name, 5)
		if err != nil || string(got) != "hello" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := Read(path, 4); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "5 bytes; at most 4") {
		t.Errorf("over the limit: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tests := []struct {
		name string
		make func(path string) error
		want string
	}{
		{"nothing", func(string) error { return nil }, "no such file"},
		{"folder", func(path string) error { return os.Mkdir(path, 0o755) }, "a folder, not a file"},
		{"pipe", func(path string) error { return syscall.Mkfifo(path, 0o644) }, "a pipe, not a file"},
		{"loop", func(path string) error { return os.Symlink(filepath.Base(path), path) }, "too many levels"},
		{"device", func(path string) error { return os.Symlink("/dev/zero", path) }, "a device, not a file"},
		{"dangling", func(path string) error { return os.Symlink("nowhere", path) }, "no such file"},
		{"below-a-file", func(string) error { return os.WriteFile(filepath.Join(folder, "below-a-file"), nil, 0o644) }, "not a directory"},
	}
	for _, test := range tests {
		path := filepath.Join(folder, test.name)
		if err := test.make(path); err != nil {
			t.Fatal(err)
		}
		if test.name == "below-a-file" {
			path = filepath.Join(path, "x")
		}
		_, _, err := Open(path)
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.name) {
			t.Errorf("%s: code %d, %v; want %q", test.name, exitcode.Code(err), err, test.want)
		}
	}
	if _, _, err := Open(filepath.Join(folder, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file is not fs.ErrNotExist: %v", err)
	}
}

// TestReadFields: none where there is no file, and what is no object is an error of the data.
func TestReadFields(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.json")
	if fields, err := ReadFields(path, 100); fields != nil || err != nil {
		t.Errorf("no file: %v, %v", fields, err)
	}
	for text, want := range map[string]int{`{"a": 1, "b": {}}`: 2, `{}`: 0, `[1]`: -1, `{`: -1} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		fields, err := ReadFields(path, 100)
		if want < 0 && exitcode.Code(err) != exitcode.Data || want >= 0 && (err != nil || len(fields) != want) {
			t.Errorf("%s: %v, %v", text, fields, err)
		}
	}
}

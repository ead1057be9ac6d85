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
	// Files of the kernel have no size before they are read, and one does not read at 0.
	if _, err := Read("/proc/self/status", 5); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "more than 5 bytes") {
		t.Errorf("a file that grows: %v", err)
	}
	if _, err := Read("/proc/self/mem", 5); !errors.Is(err, syscall.EIO) || exitcode.Code(err) == exitcode.Data {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// TestDigest: the example of "abc" in the standard of SHA-256 (NIST, Secure Hash Standard, 2002).
func TestDigest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Digest(path); err != nil || got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Digest(path + "x"); got != "" || exitcode.Code(err) != exitcode.Data {
		t.Errorf("no file: %q, %v", got, err)
	}
	if got, err := Digest("/proc/self/mem"); got != "" || !errors.Is(err, syscall.EIO) {
		t.Errorf("a file that cannot be read: %q, %v", got, err)
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
		{"socket", func(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o644, 0) }, "a socket, not a file"},
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
		f, size, err := Open(path)
		if f != nil || size != 0 {
			t.Errorf("%s: %v with %d bytes is opened", test.name, f, size)
		}
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.name) {
			t.Errorf("%s: code %d, %v; want %q", test.name, exitcode.Code(err), err, test.want)
		}
	}
	if got := kind(fs.ModeSocket); got != "a socket" { // of systems that open one
		t.Error(got)
	}
	if err := openError(&fs.PathError{Op: "open", Path: "a", Err: syscall.EIO}); exitcode.Code(err) == exitcode.Data || !errors.Is(err, syscall.EIO) {
		t.Errorf("a fault of the disk: code %d, %v", exitcode.Code(err), err)
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
		if fields, err := ReadFields(path, 1); len(text) > 1 && (fields != nil || exitcode.Code(err) != exitcode.Data) {
			t.Errorf("%s, of which 1 byte is read: %v, %v", text, fields, err)
		}
	}
}

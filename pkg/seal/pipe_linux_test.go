package seal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// within fails the test when something waits for ever.
func within(t *testing.T, what string, do func() error) (err error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err = <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s waits", what)
	}
	return err
}

// A pipe, a socket or a device in the place of what was sealed is damage that
// nobody waits for.
func TestNoFileInPlace(t *testing.T) {
	t.Parallel()
	for kind, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"a socket": func(path string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			return syscall.Bind(fd, &syscall.SockaddrUnix{Name: path})
		},
	} {
		dir, err := os.MkdirTemp("", "s") // the name of a socket is short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		data, manifest, folder := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
		write(t, data, "x")
		write(t, manifest, "x")
		w, err := CreateFolder(folder, testAttempt)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.Path(), "f"), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(Manifest{}); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{data, ManifestPath(manifest), filepath.Join(folder, "f")} {
			if err := errors.Join(os.Remove(path), put(path)); err != nil {
				t.Fatal(err)
			}
		}
		for name, read := range readers {
			for _, path := range []string{data, manifest, folder} {
				err := within(t, name, func() error { return read(path, Options{}) })
				if !errors.Is(err, ErrDamaged) || exitcode.Code(err) != exitcode.Data {
					t.Errorf("%s of %s: %v", name, path, err)
				}
				if path != folder && !strings.Contains(err.Error(), "found "+kind) {
					t.Errorf("%s: %q does not say that it is %s", name, err, kind)
				}
			}
		}
		if err := within(t, "a writer", func() error {
			_, err := WriteBytes(data, []byte("x"), testAttempt, Manifest{})
			return err
		}); err == nil {
			t.Errorf("%s: written over without a word", kind)
		}
	}
}

func TestJournalIsAFile(t *testing.T) {
	t.Parallel()
	output := filepath.Join(t.TempDir(), "a")
	if err := syscall.Mkfifo(JournalPath(output), 0o666); err != nil {
		t.Fatal(err)
	}
	err := within(t, "a journal", func() error {
		_, _, err := OpenJournal(output, "k")
		return err
	})
	if exitcode.Code(err) != exitcode.Data {
		t.Error(err)
	}
}

// A sparse file has any size, and a manifest that says so is soon written. It is
// refused before memory is taken for it.
func TestLargerThanMemory(t *testing.T) {
	t.Parallel()
	for _, agrees := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "a.json")
		m := write(t, path, "{}")
		if err := os.Truncate(path, 4<<40); err != nil {
			t.Skip(err)
		}
		if agrees {
			m.Bytes = 4 << 40
			encoded, err := m.encode()
			if err != nil {
				t.Fatal(err)
			}
			put(t, ManifestPath(path), encoded)
		}
		var v any
		if _, err := ReadJSON(t.Context(), path, Options{}, &v); !errors.Is(err, ErrDamaged) {
			t.Errorf("a document, agrees %v: %v", agrees, err)
		}
		if _, _, err := Open(t.Context(), path, Options{}); exitcode.Code(err) != exitcode.Data {
			t.Errorf("a file, agrees %v: %v", agrees, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := within(t, "Verify", func() error {
			_, err := Verify(ctx, path, Options{})
			return err
		})
		if agrees && !errors.Is(err, context.DeadlineExceeded) || !agrees && !errors.Is(err, ErrDamaged) {
			t.Errorf("digested, agrees %v: %v", agrees, err)
		}
	}
}

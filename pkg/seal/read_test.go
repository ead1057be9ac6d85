package seal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

func TestNotSealed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "00001.parquet")
	put(t, filepath.Join(dir, "00000.parquet"), []byte("x"))
	put(t, path, []byte("x"))
	for name, read := range readers {
		err := read(path, Options{})
		if !errors.Is(err, ErrNotSealed) || exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{path, "no manifest 00001.parquet.json", "holds 00000.parquet, 00001.parquet"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
		if hints := exitcode.Hints(err); len(hints) != 1 || !strings.Contains(hints[0], "run the stage that makes it") {
			t.Errorf("%s: hints %q", name, hints)
		}
		err = read(filepath.Join(dir, "none", "x"), Options{})
		if !errors.Is(err, ErrNotSealed) || !strings.Contains(err.Error(), "cannot be listed") {
			t.Errorf("%s: in no folder: %v", name, err)
		}
	}
}

// readers are the ways to read a sealed file.
var readers = map[string]func(path string, o Options) error{
	"Read": func(path string, o Options) error {
		_, err := Read(context.Background(), path, o)
		return err
	},
	"Verify": func(path string, o Options) error {
		_, err := Verify(context.Background(), path, o)
		return err
	},
	"Open": func(path string, o Options) error {
		_, _, err := Open(context.Background(), path, o)
		return err
	},
}

// Every truncation and every flipped bit of data and manifest is noticed,
// and the message names the file and the mend.
func TestDamageIsNoticed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "00001.parquet")
	write(t, path, "sixteen bytes ..")
	check := func(what string, damagedFile string, damagedData []byte, sizeOnly bool) {
		t.Helper()
		good := get(t, damagedFile)
		put(t, damagedFile, damagedData)
		defer put(t, damagedFile, good)
		for name, read := range readers {
			err := read(path, Options{})
			if name == "Read" && sizeOnly {
				continue // Read compares sizes only, and says so
			}
			if !errors.Is(err, ErrDamaged) || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), path) {
				t.Fatalf("%s of %s: %v", name, what, err)
			}
			if hints := exitcode.Hints(err); len(hints) != 1 || !strings.Contains(hints[0], "remove "+path) || !strings.Contains(hints[0], "will be rebuilt") {
				t.Fatalf("%s of %s: hints %q", name, what, hints)
			}
		}
	}
	for _, file := range []string{path, ManifestPath(path)} {
		data := get(t, file)
		step := 1
		if file != path {
			step = 37 // TestManifestNoticesAllDamage tries all
		}
		for n := 0; n < len(data); n += step {
			check("truncated "+file, file, data[:n], false)
			flipped := bytes.Clone(data)
			flipped[n] ^= 1 << (n % 8)
			check("flipped "+file, file, flipped, file == path)
		}
		check("extended "+file, file, append(bytes.Clone(data), 0), false)
	}
	must.Do(t, os.Rename(path, filepath.Join(filepath.Dir(path), ".nfs0001"))) // a file system's own name
	want := "its manifest is there, but 00001.parquet is missing; folder " + filepath.Dir(path) + " holds 00001.parquet.json"
	for name, read := range readers {
		err := read(path, Options{})
		if !errors.Is(err, ErrDamaged) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s without data: %v", name, err)
		}
	}
	must.Do(t, os.Mkdir(path, 0o777))
	for name, read := range readers {
		if err := read(path, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s of a folder in its place: %v", name, err)
		}
	}
}

func TestRenamedFileIsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "00001.parquet"), filepath.Join(dir, "00002.parquet")
	write(t, a, "text")
	put(t, b, get(t, a))
	put(t, ManifestPath(b), get(t, ManifestPath(a)))
	if err := readers["Read"](b, Options{}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `the manifest is about "00001.parquet"`) {
		t.Errorf("a copied pair: %v", err)
	}
}

// A reader waits for a file that is sealed elsewhere, and for a damaged pair
// whose writer is between two steps.
func TestVisibility(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, before := range map[string]func(path string){
		"nothing":          func(string) {},
		"data alone":       func(path string) { put(t, path, []byte("text")) },
		"a bad manifest":   func(path string) { put(t, path, []byte("text")); put(t, ManifestPath(path), nil) },
		"a manifest alone": func(path string) { write(t, path, "text"); os.Remove(path) },
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"))
		before(path)
		done := make(chan error)
		go func() { done <- readers["Open"](path, Options{Visibility: 10 * time.Second}) }()
		select {
		case err := <-done:
			t.Errorf("%s: did not wait: %v", name, err)
			continue
		case <-time.After(50 * time.Millisecond):
		}
		write(t, path, "text")
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What this process seals from now on says how long it waited.
	own := filepath.Join(dir, "own")
	write(t, own, "text")
	m, err := Read(t.Context(), own, Options{})
	if late := m.Usage[UsageLateFiles]; err != nil || late < 0.05 {
		t.Errorf("waited %v s for files sealed elsewhere, of which two took 50 ms or more: %v", late, err)
	}
}

func TestVisibilityEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "00000.parquet"), "x")
	path := filepath.Join(dir, "00001.parquet")
	start := time.Now()
	err := readers["Read"](path, Options{Visibility: 150 * time.Millisecond})
	if waited := time.Since(start); waited < 150*time.Millisecond {
		t.Errorf("waited %s", waited)
	}
	if !errors.Is(err, ErrNotSealed) || !strings.Contains(err.Error(), "after ") || !strings.Contains(err.Error(), "holds 00000.parquet, 00000.parquet.json") {
		t.Errorf("at the end: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := Read(ctx, path, Options{Visibility: time.Minute}); exitcode.Code(err) != exitcode.Stopped {
		t.Errorf("cancelled: %v", err)
	}
}

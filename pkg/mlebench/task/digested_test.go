package task

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// publicTask is a task with a public folder of files, whose last change is a while ago.
func publicTask(t *testing.T, files map[string]string) *Task {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		path := filepath.Join(folder, "public", name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return &Task{Folder: folder, PublicDir: filepath.Join(folder, "public")}
}

// TestKept: what is kept of a public folder is what reading it gives; any change of a file
// that can be seen from outside, a torn file or one of another version is read again.
func TestKept(t *testing.T) {
	t.Parallel()
	opened := publicTask(t, map[string]string{"a.csv": "x,y\n1,2\n", "more/b.txt": "b"})
	files := must.Get(opened.listPublic())(t)
	now, changed := state(files)
	if changed.IsZero() {
		t.Error("no time of the last change")
	}
	fresh := must.Get(opened.readPublic(files))(t)
	fresh.State = now
	if _, found := opened.kept(now); found {
		t.Fatal("something is kept before it was written")
	}
	opened.keep(fresh)
	kept, found := opened.kept(now)
	if !found || kept.SHA256 != fresh.SHA256 || kept.Preview != fresh.Preview || kept.Bytes != 9 {
		t.Fatalf("kept %v: %+v, want %+v", found, kept, fresh)
	}
	path := opened.digestedPaths()[0]
	content := string(must.Get(os.ReadFile(path))(t))
	for _, torn := range []string{content[:len(content)/2], "", strings.Replace(content, `"bytes":9`, `"bytes":8`, 1), "{}"} {
		must.Do(t, os.WriteFile(path, []byte(torn), 0o644))
		if _, found := opened.kept(now); found {
			t.Errorf("taken from %q", torn)
		}
	}
	must.Do(t, os.WriteFile(path, []byte(content), 0o644))
	a := filepath.Join(opened.PublicDir, "a.csv")
	before := must.Get(os.Stat(a))(t).ModTime()
	probe := filepath.Join(opened.Folder, "probe")
	for after := before; !after.After(before); after = must.Get(os.Stat(probe))(t).ModTime() {
		must.Do(t, os.WriteFile(probe, nil, 0o644)) // until the file system's clock has gone on
	}
	c, d := filepath.Join(opened.PublicDir, "c"), filepath.Join(opened.PublicDir, "d")
	for _, change := range []struct {
		what string
		make func() error
	}{
		{"the same size and time, other content", func() error {
			return errors.Join(os.WriteFile(a, []byte("x,y\n1,3\n"), 0o644), os.Chtimes(a, before, before))
		}},
		{"another file", func() error { return os.WriteFile(c, nil, 0o644) }},
		{"another name", func() error { return os.Rename(c, d) }},
		{"a file less", func() error { return os.Remove(d) }},
	} {
		last, _ := state(must.Get(opened.listPublic())(t))
		must.Do(t, change.make())
		if now, _ := state(must.Get(opened.listPublic())(t)); now == last {
			t.Errorf("%s is not seen", change.what)
		}
	}
}

// TestKeptWhere: what is kept of a folder of 16 MiB and more, whose last change is 2 seconds
// ago, is beside the public folder, or else in the user's cache; it is taken from both.
func TestKeptWhere(t *testing.T) { // Alone: it sets the folder of the user's cache.
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	for _, c := range []struct {
		size int64
		age  time.Duration
		kept bool
	}{{16 << 20, 2*time.Second + 1, true}, {16 << 20, 2 * time.Second, false}, {16<<20 - 1, time.Hour, false}} {
		opened := publicTask(t, map[string]string{"a.bin": "", "b.bin": ""})
		must.Do(t, os.Truncate(filepath.Join(opened.PublicDir, "a.bin"), c.size))
		// The time of the last change is the latest of all, of files and of their entries.
		now, long := time.Now(), time.Unix(1, 0)
		must.Do(t, os.Chtimes(filepath.Join(opened.PublicDir, "b.bin"), long, long))
		if _, changed := state(must.Get(opened.listPublic())(t)); changed.Before(now.Add(-time.Minute)) {
			t.Errorf("the last change is of %s", changed)
		}
		now = now.Add(time.Hour)
		must.Do(t, os.Chtimes(filepath.Join(opened.PublicDir, "a.bin"), now, now))
		must.Do(t, opened.lookAtPublic(now.Add(c.age)))
		digest := must.Get(opened.listPublic())(t)
		last, changed := state(digest)
		paths := opened.digestedPaths()
		p, found := opened.kept(last)
		if found != c.kept || !changed.Equal(now) || len(paths) != 2 || paths[0] != filepath.Join(opened.Folder, ".lathe-public.json") {
			t.Fatalf("%d bytes, %s after the last change at %s: kept %v in %q", c.size, c.age, changed, found, paths)
		}
		if !c.kept {
			continue
		}
		must.Do(t, os.Remove(paths[0]))
		must.Do(t, os.Mkdir(paths[0], 0o755)) // where no file can be written
		p.Preview = "kept"
		opened.keep(p)
		if beside := filepath.Join(cache, "lathe", "public"); filepath.Dir(paths[1]) != beside || len(filepath.Base(paths[1])) != len("0123456789abcdef0123456789abcdef.json") {
			t.Errorf("kept in %q, want %q", paths[1], beside)
		}
		opened.Inputs = nil
		must.Do(t, opened.lookAtPublic(now))
		if opened.Preview != "kept" || opened.PublicBytes != c.size || len(opened.Inputs) != 1 || opened.Inputs[0] != (Input{opened.PublicDir, p.SHA256}) {
			t.Errorf("preview %q, %d bytes, inputs %v", opened.Preview, opened.PublicBytes, opened.Inputs)
		}
	}
}

// TestKeptAtOnce: processes that write the file at once leave one that holds, or none.
func TestKeptAtOnce(t *testing.T) {
	t.Parallel()
	opened := publicTask(t, map[string]string{"a.csv": "x\n1\n"})
	files := must.Get(opened.listPublic())(t)
	fresh := must.Get(opened.readPublic(files))(t)
	fresh.State, _ = state(files)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 50 {
				own := fresh
				if i%2 == 1 {
					own.State, own.Preview = "another", strings.Repeat("long", 1000)
				}
				opened.keep(own)
				if p, found := opened.kept(fresh.State); found && p.Preview != fresh.Preview {
					t.Error("what is kept is another folder's")
				}
			}
		})
	}
	wait.Wait()
}

// TestLargeFolder: a folder of 100 GB, in files without content, is read once: its digest
// and preview then come from what was kept.
func TestLargeFolder(t *testing.T) {
	t.Parallel()
	opened := publicTask(t, map[string]string{"train.csv": "id,kind\n" + strings.Repeat("1,a\n", 1000), "labels.json": `[{"id": 1, "tag": "x"}]`})
	for i := range 100 {
		path := filepath.Join(opened.PublicDir, fmt.Sprintf("images/%03d.bin", i))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		f := must.Get(os.Create(path))(t)
		must.Do(t, f.Truncate(1<<30))
		must.Do(t, f.Close())
	}
	f := must.Get(os.OpenFile(filepath.Join(opened.PublicDir, "train.csv"), os.O_WRONLY, 0))(t)
	must.Do(t, f.Truncate(1<<30))
	must.Do(t, f.Close())
	files := must.Get(opened.listPublic())(t)
	started := time.Now()
	p := must.Get(opened.readPublic(files))(t)
	t.Logf("read %d files of %d bytes in %s", len(files), p.Bytes, time.Since(started))
	if p.Bytes < 101<<30 || !strings.Contains(p.Preview, "train.csv: 1.0 GB, of which the first 4.0 MB are described: 1000 rows, 2 columns\n  id: whole numbers, 1 to 1\n") {
		t.Errorf("%d bytes, preview:\n%s", p.Bytes, p.Preview)
	}
	p.State, _ = state(files)
	opened.keep(p)
	started = time.Now()
	now, _ := state(must.Get(opened.listPublic())(t))
	if kept, found := opened.kept(now); !found || kept.SHA256 != p.SHA256 {
		t.Error("it is read again")
	}
	t.Logf("again in %s", time.Since(started))
}

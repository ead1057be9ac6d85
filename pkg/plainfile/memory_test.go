package plainfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TestAvailable: what the kernel says is available, and that more than a document is read
// whole only where there is room.
func TestAvailable(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := func(bytes int64) {
		t.Helper()
		if room, known := available(root); !known || room != bytes {
			t.Errorf("%d bytes, known %v; want %d", room, known, bytes)
		}
	}
	if _, known := available(root); known {
		t.Error("where the kernel says nothing, nothing is known")
	}
	put("proc/meminfo", "MemTotal:  9 kB\nMemAvailable:     5 kB\n")
	want(5 << 10)
	put("proc/self/cgroup", "4:memory:/old\n0::/a/b\n")
	put("sys/fs/cgroup/4:memory:/old/memory.max", "1\n") // no group of version 2
	put("sys/fs/cgroup/4:memory:/old/memory.current", "0\n")
	want(5 << 10)
	put("sys/fs/cgroup/a/b/memory.max", "max\n")
	put("sys/fs/cgroup/a/b/memory.current", "100\n")
	want(5 << 10)
	put("sys/fs/cgroup/a/memory.max", "3000\n")
	put("sys/fs/cgroup/a/memory.current", "2900\n")
	want(100)
	put("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 300\nactive_file 200\n")
	want(600)
	if err := os.Remove(filepath.Join(root, "proc/meminfo")); err != nil {
		t.Fatal(err)
	}
	want(600) // that of the group alone
	put("sys/fs/cgroup/a/memory.current", "400\n")
	want(3000) // pages of files are more than what is used
	put("sys/fs/cgroup/a/memory.current", "4000\n")
	want(0)
	put("sys/fs/cgroup/a/b/memory.max", "6000\n") // of what is left of 5900 and of 0
	want(0)
	put("sys/fs/cgroup/a/memory.max", "9000\n") // 9000 - (4000 - 500)
	want(5500)
	put("sys/fs/cgroup/a/b/memory.max", "5000\n")
	want(4900)
	for path, text := range map[string]string{"max": "max\n", "word": "a b\n", "short": "MemAvailable:\n"} {
		put(path, text)
		n, known := number(filepath.Join(root, path))
		m, found := field(filepath.Join(root, path), map[string]string{"word": "a", "short": "MemAvailable:"}[path])
		if n != 0 || m != 0 || known || found {
			t.Errorf("%s: %d, %v and %d, %v", path, n, known, m, found)
		}
	}

	empty := t.TempDir()
	put("proc/self/cgroup", "")
	for _, c := range []struct {
		root   string
		memory string
		size   int64
		fits   bool
	}{
		{root, "5", MaxDocument, true}, // a document is not worth the look
		{root, "5", MaxDocument + 1, false},
		{root, "70000", 70000 << 10, true},
		{root, "70000", 70000<<10 + 1, false},
		{empty, "", 1 << 60, true},
	} {
		put("proc/meminfo", "MemAvailable: "+c.memory+" kB\n")
		if err := fits("a", c.size, c.root); (err == nil) != c.fits {
			t.Errorf("%d bytes where %q kB are available: %v", c.size, c.memory, err)
		}
	}
}

// A sparse file has any size.
func TestReadWholeRefusesMoreThanThereIs(t *testing.T) {
	t.Parallel()
	if _, known := available("/"); !known {
		t.Skip("this machine does not say how much memory it has")
	}
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadWhole(path); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := ReadWhole(path + "x"); got != nil || exitcode.Code(err) != exitcode.Data {
		t.Errorf("no file: %q, %v", got, err)
	}
	if err := os.Truncate(path, 4<<40); err != nil {
		t.Skip(err)
	}
	if _, err := ReadWhole(path); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "bytes of memory are available") {
		t.Error(err)
	}
}

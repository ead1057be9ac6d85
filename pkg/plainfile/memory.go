package plainfile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Fits refuses to read whole what is larger than the memory that is available:
// a sparse file takes no room on a disk, and has any size. What has the size of
// a document is not worth the look.
func Fits(path string, size int64) error { return fits(path, size, "/") }

func fits(path string, size int64, root string) error {
	if size <= MaxDocument {
		return nil
	}
	if room, known := available(root); known && size > room {
		return exitcode.WithHint(exitcode.Dataf("reading %q: it has %d bytes, and %d bytes of memory are available", path, size, room),
			"look at the size of the file; if it is right, use a machine or a job with more memory")
	}
	return nil
}

// ReadWhole returns the content of a regular file that fits into memory.
func ReadWhole(path string) ([]byte, error) {
	f, size, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := Fits(path, size); err != nil {
		return nil, err
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(f, content); err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, err)
	}
	return content, nil
}

// available is how much memory a process may still take, as far as the kernel
// says so: the machine's, or less where a control group bounds it. root is the
// root of the file system.
func available(root string) (room int64, known bool) {
	room = math.MaxInt64
	if kilobytes, ok := field(filepath.Join(root, "proc/meminfo"), "MemAvailable:"); ok {
		room, known = kilobytes<<10, true
	}
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return room, known
	}
	for line := range strings.Lines(string(groups)) {
		group, v2 := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !v2 {
			continue
		}
		// A group is bounded by every group that it is in.
		for at := filepath.Clean("/" + group); ; at = filepath.Dir(at) {
			if left, bounded := groupRoom(filepath.Join(root, "sys/fs/cgroup", at)); bounded {
				room, known = min(room, left), true
			}
			if at == "/" {
				break
			}
		}
	}
	return room, known
}

// groupRoom is what a control group may still take. Pages of files count as
// used, and are given back when memory is short.
func groupRoom(folder string) (room int64, bounded bool) {
	most, ok := number(filepath.Join(folder, "memory.max"))
	current, known := number(filepath.Join(folder, "memory.current"))
	if !ok || !known {
		return room, false
	}
	for _, name := range []string{"inactive_file", "active_file"} {
		pages, _ := field(filepath.Join(folder, "memory.stat"), name)
		current -= pages
	}
	return max(0, most-max(0, current)), true
}

// number reads a file with one number; "max" is none.
func number(path string) (n int64, known bool) {
	text, err := os.ReadFile(path)
	if err == nil {
		n, err = strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	}
	return n, err == nil
}

// field reads the number after a name in a file of names and numbers.
func field(path, name string) (n int64, known bool) {
	f, err := os.Open(path)
	if err != nil {
		return n, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == name {
			n, err = strconv.ParseInt(words[1], 10, 64)
			return n, err == nil
		}
	}
	return n, false
}

package runtest

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Opens counts, with the kernel's help, how often folders are listed and files
// in them are opened by this process or any other. What a name that is not there
// costs is not counted: pkg/seal lists the folder of whatever it misses.
type Opens struct {
	t       *testing.T
	file    *os.File
	folders map[int32]string // by watch

	mu       sync.Mutex
	listings map[string]int // by folder
	files    map[string]int // by path
}

// CountOpens starts to count in some folders, which must be there.
func CountOpens(t *testing.T, folders ...string) *Opens {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Skipf("nobody counts opens here: %v", err)
	}
	o := &Opens{
		t: t, file: os.NewFile(uintptr(fd), "inotify"), folders: map[int32]string{},
		listings: map[string]int{}, files: map[string]int{},
	}
	t.Cleanup(func() { o.file.Close() })
	for _, folder := range folders {
		watch, err := unix.InotifyAddWatch(fd, folder, unix.IN_OPEN|unix.IN_ONLYDIR)
		if err != nil {
			t.Fatal(err)
		}
		o.folders[int32(watch)] = folder
	}
	go o.read()
	return o
}

func (o *Opens) read() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := o.file.Read(buffer)
		if err != nil {
			return
		}
		o.mu.Lock()
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			watch, mask := int32(binary.NativeEndian.Uint32(rest)), binary.NativeEndian.Uint32(rest[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00"))
			rest = rest[end:]
			folder := o.folders[watch]
			switch path := filepath.Join(folder, name); {
			case mask&unix.IN_Q_OVERFLOW != 0:
				o.t.Error("the kernel lost count")
			case name == "":
				o.listings[folder]++
			case mask&unix.IN_ISDIR == 0:
				o.files[path]++
			}
		}
		o.mu.Unlock()
	}
}

// Counts returns how often each folder was listed and each file opened since
// the last call.
func (o *Opens) Counts() (listings, files map[string]int) {
	o.t.Helper()
	// A file that is opened last is seen last.
	var mark string
	for _, folder := range o.folders {
		mark = filepath.Join(folder, ".mark")
		break
	}
	if err := os.WriteFile(mark, nil, 0o666); err != nil {
		o.t.Fatal(err)
	}
	defer os.Remove(mark)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		o.mu.Lock()
		if o.files[mark] > 0 {
			listings, files = maps.Clone(o.listings), maps.Clone(o.files)
			delete(files, mark)
			clear(o.listings)
			clear(o.files)
			o.mu.Unlock()
			return listings, files
		}
		o.mu.Unlock()
		if time.Now().After(deadline) {
			o.t.Fatal("the kernel does not tell of an open")
		}
	}
}

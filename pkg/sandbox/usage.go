package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// looks is how often a supervisor looks at memory, processes and time at most.
const looks = 20 * time.Millisecond

// use is what a tree takes at a moment.
type use struct {
	memory   int64 // bytes, with those that pipes and sockets can hold
	unlinked int64 // bytes of files that are open or mapped and in no folder
	threads  int
	cpu      time.Duration
}

// clockTick is the unit of processor times in /proc: 100 a second in what the
// kernel shows to programs, on every architecture of Go's.
const clockTick = 10 * time.Millisecond

// othersStay is how long a process of another session is not read again, which on a
// large node are thousands. It never comes to be in ours; but once it has ended its
// number may be given to one that is.
const othersStay = time.Second

// look adds up what the processes of the tree take, and stops where they are more
// than they may be. With a namespace the first of them is ours.
func (t *tree) look(most int) use {
	var u use
	if now := time.Now(); t.others == nil || now.Sub(t.learned) > othersStay {
		t.others, t.learned = map[string]bool{}, now
	}
	shared := map[string]int64{} // by device and inode
	var sharedFiles string       // what begins the keys of the files of [sharedFolder]
	u.memory, sharedFiles = t.sharedMemory()
	u.memory += t.socketMemory()
	u.cpu = t.cpu
	entries, _ := readNames("/proc")
	for _, name := range slices.Backward(entries) { // the newest are the last
		if most > 0 && u.threads > most {
			return u
		}
		if name[0] < '1' || name[0] > '9' || t.others[name] {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		// PID (COMMAND) STATE PPID PGRP …; the command may hold anything. The
		// numbers below are those of proc(5) less 3.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 22 || number(fields[2]) != int64(t.session) {
			t.others[name] = true
			continue
		}
		for _, i := range []int{11, 12, 13, 14} {
			u.cpu += time.Duration(number(fields[i])) * clockTick
		}
		if t.nested && name == strconv.Itoa(t.first) {
			continue
		}
		u.threads += int(number(fields[17]))
		u.memory += private(name)
		if !mapped(name, shared) {
			u.memory += number(fields[20]) // all that it has mapped, as it hides it
		}
		opened(name, shared, !t.sockets)
	}
	for key, size := range shared {
		switch {
		case key[0] == 'm':
			u.memory += size
		case sharedFiles == "" || !strings.HasPrefix(key, sharedFiles): // which counts as a whole

			u.unlinked += size
		}
	}
	return u
}

// sharedMemory is what the program's own [sharedFolder] holds, mapped or not, and how
// the keys of its files begin; nothing where it has none.
func (t *tree) sharedMemory() (bytes int64, files string) {
	if !t.nested {
		return 0, ""
	}
	// Opened once: the program is about to get another root.
	open, err := unix.Open("/proc/"+strconv.Itoa(t.first)+"/root"+sharedFolder, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, "" // it has ended
	}
	defer unix.Close(open)
	var fs unix.Statfs_t
	var folder, host unix.Stat_t
	if unix.Fstatfs(open, &fs) != nil || unix.Fstat(open, &folder) != nil {
		return 0, ""
	}
	if unix.Stat(sharedFolder, &host) == nil && folder.Dev == host.Dev {
		return 0, "" // that of the host: its own is not mounted yet
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize, fmt.Sprintf("f%02x:%02x:", unix.Major(folder.Dev), unix.Minor(folder.Dev))
}

// socketMemory is what the UNIX sockets of the program's own network can hold: those that
// wait in a queue or in another socket too, which are open in no process.
func (t *tree) socketMemory() int64 {
	if !t.sockets {
		return 0
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(t.first) + "/net/unix")
	if err != nil {
		return 0 // it has ended
	}
	return int64(max(0, bytes.Count(text, []byte("\n"))-1)) * sentAhead()
}

func number(text []byte) int64 {
	n, _ := strconv.ParseInt(string(text), 10, 64) // the kernel's own number
	return n
}

// readNames lists a folder of /proc.
func readNames(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// private is the memory of a process but for what is in shared memory.
func private(pid string) int64 {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	var sum int64
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "RssAnon", "RssFile", "VmSwap", "VmPTE":
			sum += number(bytes.TrimSuffix(bytes.TrimSpace(value), []byte(" kB"))) << 10
		}
	}
	return sum
}

// mapped adds what a process has mapped of shared memory and of files that are in
// no folder: by its size, of which a process's own numbers show only what it has
// itself touched. It reports whether it may be seen.
func mapped(pid string, sizes map[string]int64) bool {
	maps, err := os.ReadFile("/proc/" + pid + "/maps")
	if err != nil {
		return os.IsNotExist(err)
	}
	for line := range bytes.Lines(maps) {
		if !bytes.HasSuffix(line, []byte(" (deleted)\n")) {
			continue
		}
		// FROM-TO MODES OFFSET DEVICE INODE NAME
		fields := bytes.Fields(line)
		from, to, _ := bytes.Cut(fields[0], []byte("-"))
		begin, _ := strconv.ParseInt(string(from), 16, 64)
		end, _ := strconv.ParseInt(string(to), 16, 64)
		offset, _ := strconv.ParseInt(string(fields[2]), 16, 64)
		kind := "f"
		if name := fields[5]; bytes.HasPrefix(name, []byte("/dev/zero")) || bytes.HasPrefix(name, []byte("/memfd:")) || bytes.HasPrefix(name, []byte("/SYSV")) {
			kind = "m"
		}
		key := kind + string(fields[3]) + ":" + string(fields[4])
		sizes[key] = max(sizes[key], offset+end-begin)
	}
	return true
}

// Bytes that may wait in a pipe, which no program may enlarge, and what a socket may
// send ahead where the kernel does not say.
const pipeBytes, socketBytes = 64 << 10, 208 << 10

// sentAhead is what a socket of a pair may send before anybody reads it.
var sentAhead = sync.OnceValue(func() int64 {
	text, err := os.ReadFile("/proc/sys/net/core/wmem_default")
	if err != nil {
		return socketBytes
	}
	return number(bytes.TrimSpace(text))
})

// opened adds the files in no folder that a process has open, and of pipes and, where
// that is asked for, sockets the memory that they can hold: how much they do nothing shows.
func opened(pid string, sizes map[string]int64, sockets bool) {
	folder := "/proc/" + pid + "/fd"
	names, _ := readNames(folder) // one that has ended has none
	for _, name := range names {
		info, err := os.Stat(folder + "/" + name)
		if err != nil {
			continue
		}
		inode := strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10)
		switch info.Mode().Type() {
		case 0:
			addUnlinked(info, sizes)
		case os.ModeNamedPipe:
			sizes["m pipe "+inode] = pipeBytes
		case os.ModeSocket:
			if !sockets {
				continue // all of the network's are counted
			}
			sizes["m socket "+inode] = sentAhead()
		}
	}
}

package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// newRoot is where the file system that a program sees is put together. What is
// there is hidden by it, and a program has a /proc of its own.
const newRoot = "/proc"

// step is one of those by which a mount namespace gets the files that a program
// sees, and no others. The same steps are taken by the sandbox and by a warm
// interpreter.
type step struct {
	Do     string `json:"do"` // mount, hide, folder, file, link, write, attributes, root
	Source string `json:"source,omitempty"`
	Target string `json:"target"`
	Type   string `json:"type,omitempty"`
	Flags  uint64 `json:"flags,omitempty"`
	Data   string `json:"data,omitempty"`
}

// readOnly is what a mount is that nothing can be written in.
const readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// view lists the steps to a file system of what is shown of the system, or of the
// program's own root, and of what the program is granted. All but the folders in which
// it may write is read-only.
func (p *Program) view(shown, devices, drivers []string) []step {
	v := viewer{steps: []step{
		{Do: "mount", Source: "none", Target: "/", Flags: unix.MS_REC | unix.MS_PRIVATE},
		{Do: "mount", Source: "none", Target: newRoot, Type: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "mode=0755,size=1m"},
	}}
	if p.Root != "" {
		v.root(p.Root, shown)
	} else {
		for _, path := range shown {
			v.system(path)
		}
	}
	for _, path := range drivers {
		v.bind(path, filepath.Join(driverFolder, filepath.Base(path)), readOnly)
	}
	v.shared(p.Limits)
	for _, path := range slices.Concat(system.devices, devices) {
		v.bind(path, path, unix.MOUNT_ATTR_NOSUID)
	}
	if resolved, err := filepath.EvalSymlinks(p.Args[0]); err == nil && p.Root == "" {
		v.grant(resolved, readOnly)
		v.grant(p.Args[0], readOnly)
	}
	// The outer before the inner, and at one place writing after reading.
	type grant struct {
		path  string
		flags uint64
	}
	var grants []grant
	for _, path := range p.Read {
		if !slices.ContainsFunc(p.Write, func(folder string) bool { return beneath(path, folder) }) {
			grants = append(grants, grant{path, readOnly})
		}
	}
	for _, path := range p.Write {
		grants = append(grants, grant{path, unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
	}
	slices.SortStableFunc(grants, func(a, b grant) int { return len(a.path) - len(b.path) })
	if at, _ := p.temporary(); at != "" {
		v.bind(p.scratch(), at, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
	v.folder("/tmp")
	for _, g := range grants {
		v.grant(g.path, g.flags)
	}
	v.hideSockets()
	v.folder("/proc")
	v.steps = append(v.steps,
		step{Do: "mount", Source: "proc", Target: newRoot + "/proc", Type: "proc", Flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC})
	if p.Limits.Processes > 0 && kernel() >= 6_014 { // before, it is one number for all namespaces
		most := max(p.Limits.Processes+ownProcesses, fewestIDs)
		v.steps = append(v.steps, step{Do: "write", Target: newRoot + "/proc/sys/kernel/pid_max", Data: strconv.Itoa(most)})
	}
	v.steps = append(v.steps,
		step{Do: "attributes", Target: newRoot + "/proc", Flags: unix.MOUNT_ATTR_RDONLY},
		step{Do: "root", Target: newRoot},
		step{Do: "attributes", Source: "alone", Target: "/", Flags: readOnly})
	return v.steps
}

// fewestIDs is the least number of process ids that a kernel takes for a namespace.
const fewestIDs = 301

// kernel is the version of this host's, as 1000 times the major number and the minor.
func kernel() int {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return 0
	}
	var major, minor int
	_, _ = fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor) // 0 of what is none
	return major*1000 + minor
}

// scratch is the folder that TMPDIR names if the program may write there, or "".
func (p *Program) scratch() string {
	for _, entry := range p.Env {
		if dir, ok := strings.CutPrefix(entry, temporaryVariable); ok && slices.ContainsFunc(p.Write, func(path string) bool { return beneath(dir, path) }) {
			return dir
		}
	}
	return ""
}

// longTemporary is the length of TMPDIR, in bytes, from which on it is too long: the name
// of a socket has at most 107, of which a manager of multiprocessing takes 32 for its own.
const longTemporary = 64

// otherTemporary is where the folder of temporary files is where it is not /tmp.
const otherTemporary = "/.tmp"

// temporaryVariable begins the variable that names the folder of temporary files.
const temporaryVariable = "TMPDIR="

// temporary is where the program sees the folder that TMPDIR names beside its own path: at
// /tmp, unless what is granted is there, or "". In the place of a long path TMPDIR is to
// name a short one.
func (p *Program) temporary() (at, short string) {
	own := p.scratch()
	if own == "" {
		return "", ""
	}
	if !slices.ContainsFunc(slices.Concat(p.Read, p.Write), func(path string) bool { return beneath(path, "/tmp") }) {
		at = "/tmp"
	}
	if len(own) < longTemporary {
		return at, ""
	}
	at = cmp.Or(at, otherTemporary)
	return at, at
}

// beneath reports whether a path is a folder or in it.
func beneath(path, folder string) bool {
	path, folder = filepath.Clean(path), filepath.Clean(folder)
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

type viewer struct {
	steps []step
	bound []mounted
	made  []string // folders of the new root
}

type mounted struct {
	path   string
	source string // of the host; none of memory
	flags  uint64
}

// sharedFolder is that of shared memory and of named semaphores, by which processes
// of a pool lock and hand over arrays.
const sharedFolder = "/dev/shm"

// fewestShared is how many files it holds at least, each of a kilobyte of the kernel.
const fewestShared = 4096

// shared gives the program a folder of shared memory of its own: as large as its
// memory may be, of which what is there counts.
func (v *viewer) shared(l Limits) {
	v.folder(sharedFolder)
	data := fmt.Sprintf("mode=1777,nr_inodes=%d", max(l.Files, fewestShared))
	if l.Memory > 0 {
		data += fmt.Sprintf(",size=%d", l.Memory)
	}
	v.bound = append(v.bound, mounted{sharedFolder, "", unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
	v.steps = append(v.steps, step{Do: "mount", Source: "none", Target: newRoot + sharedFolder, Type: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, Data: data})
}

// system shows what is there of the system's own. Links, as /bin is one on most
// systems, stay links.
func (v *viewer) system(path string) {
	if to, err := os.Readlink(path); err == nil && filepath.Dir(path) == "/" {
		v.steps = append(v.steps, step{Do: "link", Source: to, Target: newRoot + path})
		return
	}
	if _, err := os.Stat(path); err == nil {
		v.bind(path, path, readOnly)
	}
}

// grant shows a file or a folder, unless it is there already.
func (v *viewer) grant(path string, flags uint64) {
	path = filepath.Clean(path)
	if m, _ := v.mountOf(path); m.flags == flags && v.holds(path) {
		return
	}
	for _, s := range v.steps { // through /bin and the like, which are links
		if s.Do == "link" && beneath(path, strings.TrimPrefix(s.Target, newRoot)) {
			return
		}
	}
	v.bind(path, path, flags)
}

// bind shows a path of the host at a path of the program.
func (v *viewer) bind(source, target string, flags uint64) {
	if !v.holds(target) {
		if info, err := os.Stat(source); err == nil && info.IsDir() {
			v.folder(target)
		} else {
			v.folder(filepath.Dir(target))
			v.steps = append(v.steps, step{Do: "file", Target: newRoot + target})
		}
	}
	v.bound = append(v.bound, mounted{target, source, flags})
	v.steps = append(v.steps,
		step{Do: "mount", Source: source, Target: newRoot + target, Flags: unix.MS_BIND | unix.MS_REC},
		step{Do: "attributes", Target: newRoot + target, Flags: flags})
}

// hideSockets hides the sockets of servers that are in folders which the program sees: a
// mount that is read-only does not keep anybody from connecting.
func (v *viewer) hideSockets() {
	text, _ := os.ReadFile("/proc/net/unix") // what cannot be read lists none
	for line := range strings.Lines(string(text)) {
		// NUM REFCOUNT PROTOCOL FLAGS TYPE STATE INODE PATH
		at := strings.Index(line, " /")
		if at < 0 {
			continue
		}
		path := filepath.Clean(strings.TrimSuffix(line[at+1:], "\n"))
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSocket {
			continue
		}
		for _, seen := range v.seen(path) {
			v.steps = append(v.steps, step{Do: "hide", Source: "/dev/null", Target: newRoot + seen})
		}
	}
}

// seen is where the program sees a path of the host.
func (v *viewer) seen(path string) []string {
	var paths []string
	for i, m := range v.bound {
		if m.source == "" || !beneath(path, m.source) {
			continue
		}
		at := filepath.Join(m.path, strings.TrimPrefix(path, filepath.Clean(m.source)))
		// What was shown later is in front of it.
		if !slices.ContainsFunc(v.bound[i+1:], func(later mounted) bool { return beneath(at, later.path) }) {
			paths = append(paths, at)
		}
	}
	return paths
}

// mountOf is the mount that a path is in, the last of several.
func (v *viewer) mountOf(path string) (m mounted, ok bool) {
	for _, m := range slices.Backward(v.bound) {
		if beneath(path, m.path) {
			return m, true
		}
	}
	return m, false
}

// holds reports whether a path is there by a mount: what of the host is mounted has all
// that it holds, and what is in memory is empty.
func (v *viewer) holds(path string) bool {
	m, ok := v.mountOf(path)
	return ok && (m.source != "" || path == m.path)
}

// folder makes a folder of the new root, and those above it.
func (v *viewer) folder(path string) {
	if path == "/" || slices.Contains(v.made, path) || v.holds(path) {
		return
	}
	v.folder(filepath.Dir(path))
	v.made = append(v.made, path)
	v.steps = append(v.steps, step{Do: "folder", Target: newRoot + path})
}

// take takes a step.
func (s step) take() error {
	var err error
	switch s.Do {
	case "mount":
		err = unix.Mount(s.Source, s.Target, s.Type, uintptr(s.Flags), s.Data)
	case "hide":
		if err = unix.Mount(s.Source, s.Target, "", unix.MS_BIND, ""); err == unix.ENOENT || err == unix.EACCES {
			err = nil // its server has ended, or it is in a folder that the program cannot enter
		}
	case "folder":
		err = unix.Mkdir(s.Target, 0o755)
	case "file":
		err = unix.Mknod(s.Target, unix.S_IFREG|0o444, 0)
	case "write":
		err = os.WriteFile(s.Target, []byte(s.Data), 0)
	case "link":
		err = unix.Symlink(s.Source, s.Target)
	case "attributes":
		flags := uint(unix.AT_RECURSIVE)
		if s.Source == "alone" {
			flags = 0
		}
		err = unix.MountSetattr(unix.AT_FDCWD, s.Target, flags, &unix.MountAttr{Attr_set: s.Flags})
	case "root":
		err = changeRoot(s.Target)
	}
	if err != nil {
		return fmt.Errorf("hiding files: %s %s%s: %w", s.Do, s.Source, strings.TrimPrefix(s.Target, newRoot), err)
	}
	return nil
}

// changeRoot makes a folder the root, and lets go of the old one.
func changeRoot(path string) error {
	if err := unix.Chdir(path); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

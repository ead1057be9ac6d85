package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What may be done with files, as Landlock has it.
const (
	readFile   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	readFolder = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// Programs make files, folders and links; no devices and pipes with names, and sockets
	// only where these lead to the program itself.
	writeFolder = readFolder | writeFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	useDevice = writeFile | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// ruleset is what Landlock restricts, by its own bits, and what is granted.
type ruleset struct {
	Version int    `json:"version"` // of the interface; 0 for none
	FS      uint64 `json:"fs"`
	Net     uint64 `json:"net"`
	Scoped  uint64 `json:"scoped"`
	Size    int    `json:"size"` // bytes of these that the version knows
	Rules   []rule `json:"rules"`
}

// rule grants access to a file, or to all in a folder. An optional one is left out
// where the file is not there.
type rule struct {
	Path     string `json:"path"`
	Access   uint64 `json:"access"`
	Optional bool   `json:"optional"`
}

// newRuleset restricts all that a version can.
func newRuleset(version int, rules []rule) ruleset {
	r := ruleset{Version: version, Rules: rules}
	// Landlock's interfaces by version: 1 has the first 13 accesses, 2 REFER, 3
	// TRUNCATE, 4 the network, 5 IOCTL_DEV, 6 the scopes.
	bits := []int{0, 13, 14, 15, 15, 16}[min(version, 5)]
	r.FS, r.Size = 1<<bits-1, 8
	if version >= 4 {
		r.Net, r.Size = unix.LANDLOCK_ACCESS_NET_BIND_TCP|unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, 16
	}
	if version >= 6 {
		r.Scoped, r.Size = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL, 24
	}
	return r
}

// landlockVersion is that of the kernel's interface, 0 for none.
func landlockVersion() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(version), nil
}

// restrict applies to the calling thread and all that it starts.
func (r ruleset) restrict() error {
	if r.Version == 0 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: r.FS, Handled_access_net: r.Net, Scoped: r.Scoped}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), uintptr(r.Size), 0)
	if errno != 0 {
		return fmt.Errorf("making a ruleset: %w", errno)
	}
	defer unix.Close(int(set))
	for _, rule := range r.Rules {
		if err := rule.add(int(set), r.FS); err != nil {
			return fmt.Errorf("granting %q: %w", rule.Path, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("restricting this process: %w", errno)
	}
	return nil
}

func (r rule) add(set int, handled uint64) error {
	fd, err := unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) && r.Optional {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: r.Access & handled, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

type systemFiles struct{ folders, files, devices []string }

// system is what every program may read that has no root of its own: programs, libraries
// and what says how they are found. Not all of /etc or /proc: keys are in the one and
// other processes in the other.
var system = systemFiles{
	folders: []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32", "/opt",
		"/etc/alternatives", "/etc/ld.so.conf.d", "/etc/fonts", "/etc/ssl/certs", "/etc/python3*",
		"/etc/R", "/etc/ImageMagick-*", "/etc/OpenCL", "/etc/openmpi",
		"/sys/devices/system/cpu", "/sys/devices/system/node",
	},
	files: []string{
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/localtime", "/etc/timezone", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/mime.types",
		"/etc/matplotlibrc", "/etc/ssl/openssl.cnf", "/etc/os-release", "/etc/debian_version", "/etc/protocols", "/etc/services",
	},
	devices: []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random"},
}

// shown is what every program sees that has no root of its own.
func (s systemFiles) shown() []string {
	var all []string
	for _, path := range slices.Concat(s.folders, s.files) {
		if !strings.Contains(path, "*") {
			all = append(all, path)
			continue
		}
		found, _ := filepath.Glob(path) // the patterns are right
		all = append(all, found...)
	}
	return all
}

// process is what it may read of /proc: of others, nothing.
var process = struct{ folders, files []string }{
	folders: []string{"/proc/self", "/proc/sys/kernel", "/proc/sys/vm"},
	files:   []string{"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/loadavg", "/proc/version"},
}

// rules are what the program may do with files. Of processes of its own namespace
// it sees all, which are its own.
func (p *Program) rules(shown, devices []string, protection Protection) []rule {
	var rules []rule
	write := uint64(writeFolder)
	if protection.ownSockets() {
		write |= unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	}
	add := func(access uint64, paths ...string) {
		for _, path := range paths {
			rules = append(rules, rule{path, access, true})
		}
	}
	rules = append(rules, p.readable(shown)...)
	if protection.namespace("mount") {
		add(readFolder, "/proc")
		add(write, sharedFolder)
		if at, _ := p.temporary(); at != "" {
			add(write, at)
		}
	} else {
		add(readFolder, process.folders...)
		add(readFile, process.files...)
	}
	add(writeFile, system.devices...)
	add(useDevice, devices...)
	for _, path := range p.Read {
		access := uint64(readFolder)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			access = readFile
		}
		rules = append(rules, rule{path, access, false})
	}
	for _, path := range p.Write {
		rules = append(rules, rule{path, write, false})
	}
	if resolved, err := filepath.EvalSymlinks(p.Args[0]); err == nil && p.Root == "" {
		add(readFile, resolved)
	}
	return rules
}

package sandbox

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// newNamespace are the flags of clone that make namespaces, in which a program has
// rights that it has not here.
const newNamespace = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// forbidden fails with EPERM.
var forbidden = []string{
	// Other processes.
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "pidfd_open", "pidfd_send_signal",
	"kcmp", "setpriority", "move_pages", "migrate_pages",
	// The session is that by which all of a program is found and killed at once.
	"setsid", "setpgid",
	// Memory that belongs to no process: nothing that is looked at shows it.
	"memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
	"mq_open", "mq_unlink",
	// Ways around a filter or into the kernel.
	"io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd", "open_by_handle_at", "name_to_handle_at",
	"fanotify_init", "lookup_dcookie", "vmsplice",
	// Who does what with files that were not granted, which Landlock does not hide.
	"inotify_init", "inotify_init1", "inotify_add_watch",
	// Namespaces and mounts.
	"unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "open_tree_attr",
	"mount_setattr", "listmount", "statmount", "listns",
	// Keys, and what only an administrator does.
	"add_key", "request_key", "keyctl", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff",
	"quotactl", "quotactl_fd", "acct", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "iopl", "ioperm",
	"syslog", "vhangup", "nfsservctl", "mknod", "mknodat",
	// Attributes of files, which Landlock does not look at.
	"setxattr", "setxattrat", "lsetxattr", "fsetxattr", "removexattr", "removexattrat", "lremovexattr", "fremovexattr", "file_setattr",
}

// sockets are forbidden where the program has no network and files of its own: by UNIX
// sockets servers of this host are reached. A pair of connected ones is still to be had.
var sockets = []string{"socket", "connect", "bind", "listen", "accept", "accept4"}

// noSockets are what is forbidden of them where it has: all but streams of UNIX sockets,
// of which its own network and file system hold none of others. Managers of
// multiprocessing and DataLoader workers hand over arrays by them.
var noSockets = []seccomp.NameWithConditions{
	argument("socket", 0, seccomp.NotEqual, unix.AF_UNIX),
	argument("socket", 1, seccomp.BitsSet, unix.SOCK_DGRAM),
}

// forbiddenOf are calls that fail with EPERM by one of their arguments.
var forbiddenOf = []seccomp.NameWithConditions{
	argument("clone", 0, seccomp.BitsSet, newNamespace),
	// A pair of datagram sockets, and of a raw one, sends to whom it names.
	argument("socketpair", 0, seccomp.NotEqual, unix.AF_UNIX),
	argument("socketpair", 1, seccomp.BitsSet, unix.SOCK_DGRAM),
	// Limits and clocks of other processes of this user. 0 is the caller.
	argument("prlimit64", 0, seccomp.NotEqual, 0),
	argument("sched_setaffinity", 0, seccomp.NotEqual, 0),
	argument("sched_setscheduler", 0, seccomp.NotEqual, 0),
	argument("sched_setparam", 0, seccomp.NotEqual, 0),
	argument("sched_setattr", 0, seccomp.NotEqual, 0),
	argument("ioprio_set", 1, seccomp.NotEqual, 0),
	// Buffers that are larger than those that the supervisor counts a socket and a
	// pipe as, and leases by which files that may only be read are kept from others.
	{Name: "setsockopt", Conditions: seccomp.ArgumentConditions{
		{Argument: 1, Operation: seccomp.Equal, Value: unix.SOL_SOCKET}, {Argument: 2, Operation: seccomp.Equal, Value: unix.SO_SNDBUF},
	}},
	argument("fcntl", 1, seccomp.Equal, unix.F_SETPIPE_SZ),
	argument("fcntl", 1, seccomp.Equal, unix.F_SETLEASE),
	argument("fcntl", 1, seccomp.Equal, unix.F_NOTIFY),
	// Input that is typed for whoever started us.
	argument("ioctl", 1, seccomp.Equal, unix.TIOCSTI),
	argument("ioctl", 1, seccomp.Equal, unix.TIOCLINUX),
	// Attributes of files once more, by a descriptor that may only read.
	argument("ioctl", 1, seccomp.Equal, unix.FS_IOC_SETFLAGS),
	argument("ioctl", 1, seccomp.Equal, setFlags32),
	argument("ioctl", 1, seccomp.Equal, setExtended),
	argument("ioctl", 1, seccomp.Equal, setVersion),
	argument("ioctl", 1, seccomp.Equal, setVersion32),
	argument("ioctl", 1, seccomp.Equal, unix.FS_IOC_ENABLE_VERITY),
	argument("ioctl", 1, seccomp.Equal, unix.FS_IOC_SET_ENCRYPTION_POLICY),
	argument("ioctl", 1, seccomp.Equal, unix.FS_IOC_ADD_ENCRYPTION_KEY),
	// The kernel looks at 32 bits of these arguments, and Equal at all 64.
	argument("ioctl", 1, seccomp.GreaterThan, math.MaxUint32),
	argument("fcntl", 1, seccomp.GreaterThan, math.MaxUint32),
	argument("setsockopt", 1, seccomp.GreaterThan, math.MaxUint32),
	argument("setsockopt", 2, seccomp.GreaterThan, math.MaxUint32),
}

// Requests of ioctl that package unix does not name, by linux/fs.h and ext4's:
// FS_IOC32_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, FS_IOC32_SETVERSION.
const setFlags32, setExtended, setVersion, setVersion32 = 0x40046602, 0x401c5820, 0x40087602, 0x40047602

func argument(name string, index uint32, is seccomp.Operation, value uint64) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Argument: index, Operation: is, Value: value}}}
}

// ignored does nothing and says that it has: Landlock does not look at modes and
// times, and programs set them on copies of their own.
var ignored = []string{
	"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat",
	"utime", "utimes", "futimesat", "utimensat",
}

// newer are calls that the library does not know, by their numbers, which are the
// same on every architecture.
var newer = map[string]int{
	"setxattrat": unix.SYS_SETXATTRAT, "getxattrat": unix.SYS_GETXATTRAT, "listxattrat": unix.SYS_LISTXATTRAT, "removexattrat": unix.SYS_REMOVEXATTRAT,
	"open_tree_attr": unix.SYS_OPEN_TREE_ATTR, "file_getattr": unix.SYS_FILE_GETATTR, "file_setattr": unix.SYS_FILE_SETATTR, "listns": unix.SYS_LISTNS,
	"rseq_slice_yield": unix.SYS_RSEQ_SLICE_YIELD,
}

// filters are the programs that look at system calls, as the kernel takes them:
// instructions of 8 bytes each. ownSockets lets the program have UNIX sockets.
func filters(ownSockets bool) ([][]byte, error) {
	if ownSockets {
		return withSockets()
	}
	return withoutSockets()
}

var withSockets, withoutSockets = filtersFor(true), filtersFor(false)

func filtersFor(ownSockets bool) func() ([][]byte, error) {
	return sync.OnceValues(func() ([][]byte, error) { return assembleFilters(ownSockets) })
}

func assembleFilters(ownSockets bool) ([][]byte, error) {
	programs, err := assembleAll(ownSockets)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, program := range programs {
		raw, err := bpf.Assemble(program)
		if err != nil {
			return nil, err
		}
		var filter []byte
		for _, r := range raw {
			filter = binary.NativeEndian.AppendUint16(filter, r.Op)
			filter = append(filter, r.Jt, r.Jf)
			filter = binary.NativeEndian.AppendUint32(filter, r.K)
		}
		all = append(all, filter)
	}
	return all, nil
}

// assembleAll makes the filters: the kernel applies the strictest.
func assembleAll(ownSockets bool) ([][]bpf.Instruction, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	maps.Copy(info.SyscallNames, newer)
	known := func(names []string) []string { // an architecture may lack what an older one has
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := info.SyscallNames[name]; return !ok })
	}
	names, some := slices.Concat(forbidden, sockets), forbiddenOf
	if ownSockets {
		names, some = forbidden, slices.Concat(forbiddenOf, noSockets)
	}
	var all [][]bpf.Instruction
	for _, group := range []seccomp.SyscallGroup{
		{Names: known(names), NamesWithCondtions: some, Action: fails(unix.EPERM)},
		{Names: known(ignored), Action: fails(pretend)},
		// Its flags are in memory, where no filter sees them: libraries take clone.
		{Names: []string{"clone3"}, Action: fails(unix.ENOSYS)},
	} {
		program, err := assemble(info, group)
		if err != nil {
			return nil, fmt.Errorf("assembling a filter: %w", err)
		}
		all = append(all, program)
	}
	return all, nil
}

// assemble makes a filter of one group: of several in one filter the library looks
// at the first alone.
func assemble(info *arch.Info, group seccomp.SyscallGroup) ([]bpf.Instruction, error) {
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{group}}
	program, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	for i, instruction := range program {
		if constant, ok := instruction.(bpf.RetConstant); ok && constant.Val == uint32(fails(pretend)) {
			program[i] = bpf.RetConstant{Val: uint32(fails(0))}
		}
	}
	return append(foreign(info), program...), nil
}

// foreign is the head of a filter. It refuses the calls of other architectures,
// such as those that a program of 64 bits makes by int 0x80, which the library
// allows. A call that we do not know is one that the kernel does not have: what
// later kernels have nobody has looked at.
func foreign(info *arch.Info) []bpf.Instruction {
	head := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4}, // the architecture of struct seccomp_data
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(fails(unix.EPERM))},
		bpf.LoadAbsolute{Off: 0, Size: 4}, // the number
	}
	numbers := slices.Sorted(maps.Values(info.SyscallNames))
	next := 0 // the first number above those that were looked at
	for _, number := range numbers {
		if number > next {
			head = append(head,
				bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(next), SkipTrue: 2},
				bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: uint32(number), SkipTrue: 1},
				bpf.RetConstant{Val: uint32(fails(unix.ENOSYS))})
		}
		next = number + 1
	}
	return append(head,
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(next), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(fails(unix.ENOSYS))})
}

// fails is the action on a call that fails with an error.
func fails(with unix.Errno) seccomp.Action { return seccomp.ActionErrno | seccomp.Action(with) }

// pretend stands for the error 0, success, which the library has no word for.
const pretend = 0xfff

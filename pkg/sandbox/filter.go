package sandbox

import (
	"encoding/binary"
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
	// The network, and UNIX sockets, by which servers of this host are reached: a
	// pair of connected ones is still to be had.
	"socket", "connect", "bind", "listen", "accept", "accept4",
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
	"mount_setattr", "listmount", "statmount",
	// Keys, and what only an administrator does.
	"add_key", "request_key", "keyctl", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff",
	"quotactl", "quotactl_fd", "acct", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "iopl", "ioperm",
	"syslog", "vhangup", "nfsservctl", "mknod", "mknodat",
	// Attributes of files, which Landlock does not look at.
	"setxattr", "setxattrat", "lsetxattr", "fsetxattr", "removexattr", "removexattrat", "lremovexattr", "fremovexattr", "file_setattr",
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
	// Input that is typed for whoever started us.
	argument("ioctl", 1, seccomp.Equal, unix.TIOCSTI),
	argument("ioctl", 1, seccomp.Equal, unix.TIOCLINUX),
}

func argument(name string, index uint32, is seccomp.Operation, value uint64) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Argument: index, Operation: is, Value: value}}}
}

// ignored does nothing and says that it has: Landlock does not look at modes and
// times, and programs set them on copies of their own.
var ignored = []string{
	"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat",
	"utime", "utimes", "futimesat", "utimensat",
}

// filters are the programs that look at system calls, as the kernel takes them:
// instructions of 8 bytes each.
var filters = sync.OnceValues(func() ([][]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	known := func(names ...string) []string {
		var there []string
		for _, name := range names {
			if _, ok := info.SyscallNames[name]; ok {
				there = append(there, name)
			}
		}
		return there
	}
	refuse := seccomp.SyscallGroup{Names: known(forbidden...), Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM)}
	for _, call := range forbiddenOf {
		if len(known(call.Name)) > 0 {
			refuse.NamesWithCondtions = append(refuse.NamesWithCondtions, call)
		}
	}
	var all [][]byte
	for _, group := range []seccomp.SyscallGroup{
		refuse,
		{Names: known(ignored...), Action: seccomp.ActionErrno | pretend},
		// Its flags are in memory, where no filter sees them: libraries take clone.
		{Names: known("clone3"), Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
	} {
		filter, err := assemble(group)
		if err != nil {
			return nil, err
		}
		all = append(all, filter)
	}
	return all, nil
})

// assemble makes a filter of one group: of several in one filter the library looks
// at the first alone. A call by the numbers of another architecture is refused by each.
func assemble(group seccomp.SyscallGroup) ([]byte, error) {
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{group}}
	program, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	for i, instruction := range program {
		if constant, ok := instruction.(bpf.RetConstant); ok && constant.Val == uint32(seccomp.ActionErrno|pretend) {
			program[i] = bpf.RetConstant{Val: uint32(seccomp.ActionErrno)}
		}
	}
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
	return filter, nil
}

// pretend stands for the error 0, success, which the library has no word for.
const pretend = 0xfff

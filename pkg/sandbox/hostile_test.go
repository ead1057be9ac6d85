package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// libc is what scripts make system calls with.
const libc = "import ctypes,os; libc=ctypes.CDLL(None,use_errno=True)\ndef check(r):\n if r<0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n"

// hostile are programs that do what they must not, by what they do. ANSWERS stands
// for a file that was not granted, and OUTSIDE for its folder.
var hostile = []struct{ what, script string }{
	// The network.
	{"TCP", "import socket; socket.create_connection(('127.0.0.1',80),1)"},
	{"UDP", "import socket; socket.socket(socket.AF_INET,socket.SOCK_DGRAM)"},
	{"IPv6", "import socket; socket.socket(socket.AF_INET6)"},
	{"raw packets", "import socket; socket.socket(socket.AF_PACKET,socket.SOCK_RAW)"},
	{"netlink", "import socket; socket.socket(socket.AF_NETLINK,socket.SOCK_RAW)"},
	{"UNIX sockets", "import socket; socket.socket(socket.AF_UNIX).connect('/run/munge/munge.socket.2')"},
	{"abstract UNIX sockets", "import socket; socket.socket(socket.AF_UNIX).connect('\\0ABSTRACT')"},
	{"the socket of a server beside the answers", "import socket; socket.socket(socket.AF_UNIX).connect('OUTSIDE/s')"},
	{"the socket of a server in a granted folder", "import socket; socket.socket(socket.AF_UNIX).connect('GRANTED/s')"},
	{"datagrams", "import socket; socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)"},
	{"packets in sequence of a raw socket", "import socket; socket.socket(socket.AF_UNIX,socket.SOCK_RAW)"},
	{"datagrams of a pair", "import socket; socket.socketpair(socket.AF_UNIX,socket.SOCK_DGRAM)[0].sendto(b'x','/dev/log')"},
	{"a raw pair", "import socket; socket.socketpair(socket.AF_UNIX,socket.SOCK_RAW)"},
	{"a pair of TIPC", libc + "check(libc.socketpair(30,1,0,(ctypes.c_int*2)()))"},
	{"vsock", "import socket; socket.socket(socket.AF_VSOCK)"},
	{"a socket by its number", libc + "check(libc.syscall(41,2,1,0))"},
	{"a socket by the numbers of x32", libc + "check(libc.syscall(0x40000000+41,2,1,0))"},
	// Files.
	{"reading the answers", "open('ANSWERS')"},
	{"listing their folder", "import os; os.listdir('OUTSIDE')"},
	{"a link to the answers", "import os; os.symlink('ANSWERS','l'); open('l')"},
	{"a hard link to them", "import os; os.link('ANSWERS','l'); open('l')"},
	{"home", "import os; os.listdir('/root')"},
	{"homes", "import os; os.listdir('/home')"},
	{"what runs", "import os; os.listdir('/run')"},
	{"the shadow file", "open('/etc/shadow')"},
	{"keys of the host", "import os; os.listdir('/etc/ssl/private')"},
	{"writing in /tmp", "open('/tmp/lathe-evil','w')"},
	{"writing in the root", "open('/lathe-evil','w')"},
	{"writing beside the answers", "open('OUTSIDE/x','w')"},
	{"removing the answers", "import os; os.remove('ANSWERS')"},
	{"renaming them away", "import os; os.rename('ANSWERS','a')"},
	{"renaming over them", "import os; open('a','w'); os.rename('a','ANSWERS')"},
	{"truncating them", "import os; os.truncate('ANSWERS',0)"},
	{"attributes of the answers", "import os; os.setxattr('ANSWERS','user.x',b'y')"},
	{"becoming another user", "import os; os.setuid(1); open('ANSWERS')"},
	{"watching the answers", libc + "check(libc.inotify_add_watch(libc.inotify_init(),b'ANSWERS',0xfff))"},
	{"opening by handle", libc + "check(libc.syscall(304,-1,0,0))"},
	// What the next program would run.
	{"writing into the interpreter", "open('/usr/lib/python3/dist-packages/x.py','w')"},
	{"its caches", "import json; open(json.__cached__,'wb')"},
	{"its site packages", "import os; os.makedirs('/usr/local/lib/python3.11/dist-packages/evil')"},
	{"its own file", "import sys; open(sys.executable,'r+b')"},
	// Other processes.
	{"the environment of others", "open('/proc/1/environ').read()"},
	{"the environment of its parent", "import os; open(f'/proc/{os.getppid()}/environ').read()"},
	{"the memory of its parent", "import os; open(f'/proc/{os.getppid()}/mem','rb').read(1)"},
	{"descriptors of its parent", "import os; os.readlink(f'/proc/{os.getppid()}/exe')"},
	{"killing its parent", "import os; os.kill(os.getppid(),9)"},
	{"quitting its parent", "import os; os.kill(os.getppid(),3)"},
	{"a fault of its parent", "import os; os.kill(os.getppid(),11)"},
	{"killing everybody", "import os; os.kill(-1,9)\nimport sys; sys.exit(1)"},
	{"stopping init", "import os; os.kill(1,19)"},
	{"ptrace", libc + "check(libc.ptrace(16,os.getppid(),0,0))"},
	{"reading memory by a call", libc + "check(libc.process_vm_readv(os.getppid(),None,0,None,0,0))"},
	{"writing memory by a call", libc + "check(libc.process_vm_writev(os.getppid(),None,0,None,0,0))"},
	{"a process by descriptor", libc + "check(libc.syscall(434,os.getppid(),0))"},
	{"taking a descriptor", libc + "check(libc.syscall(438,0,0,0))"},
	{"limits of its parent", "import os,resource; resource.prlimit(os.getppid(),resource.RLIMIT_CPU,(1,1))"},
	{"processors of its parent", "import os; os.sched_setaffinity(os.getppid(),{0})"},
	{"scheduling of its parent", "import os; os.sched_setscheduler(os.getppid(),os.SCHED_IDLE,os.sched_param(0))"},
	{"disk priority of its parent", libc + "check(libc.syscall(251,1,os.getppid(),0x6000))"},
	{"a session", "import os; os.fork() or os._exit(1); os.setsid()\nimport sys; sys.exit(0)"},
	{"a process group", "import os; os.setpgid(0,0)"},
	// Namespaces and mounts.
	{"user namespace", libc + "check(libc.unshare(0x10000000))"},
	{"mount namespace", libc + "check(libc.unshare(0x20000))"},
	{"clone into a namespace", libc + "check(libc.syscall(56,0x10000000|17,0,0,0,0))"},
	{"clone3", libc + "check(libc.syscall(435,0,0))"},
	{"joining a namespace", libc + "check(libc.setns(0,0))"},
	{"mount", libc + "check(libc.mount(b'none',b'.',b'tmpfs',0,None))"},
	{"making a file system writable", libc + "check(libc.mount(None,b'/usr',None,0x1020,None))"},
	{"unmounting", libc + "check(libc.umount2(b'/proc',2))"},
	{"chroot", "import os; os.chroot('.')"},
	{"pivot_root", libc + "check(libc.syscall(155,b'.',b'.'))"},
	// Memory and messages that outlive processes.
	{"memory of a descriptor", "import os; os.memfd_create('x')"},
	{"shared memory", libc + "check(libc.shmget(0,4096,0o1600))"},
	{"semaphores", libc + "check(libc.semget(0,1,0o1600))"},
	{"message queues", libc + "check(libc.msgget(0,0o1600))"},
	{"message queues of POSIX", libc + "check(libc.syscall(240,b'lathe-evil',0o102,0o600,0))"},
	{"keyrings", libc + "check(libc.syscall(250,0,-3,0))"},
	// Into the kernel.
	{"io_uring", libc + "check(libc.syscall(425,1,0))"},
	{"bpf", libc + "check(libc.syscall(321,0,0,0))"},
	{"performance counters", libc + "check(libc.syscall(298,0,0,-1,-1,0))"},
	{"userfaultfd", libc + "check(libc.syscall(323,0))"},
	{"settings of the kernel", "open('/proc/sys/kernel/core_pattern','w').write('|/bin/sh')"},
	{"its memory", "open('/proc/kcore','rb').read(1)"},
	{"its log", "open('/dev/kmsg','rb')"},
	{"the disk", "open('/dev/vda','rb')"},
	{"a GPU", "open('/dev/nvidia0','rb')"},
	{"devices", "import os; os.mknod('d',0o20600,os.makedev(1,1))"},
	{"pipes with names", "import os; os.mkfifo('p')"},
	{"being spared for want of memory", "open('/proc/self/oom_score_adj','w').write('-1000')"},
	{"typing for its starter", "import fcntl; fcntl.ioctl(0,0x5412,b'x')"},
	// Its bounds.
	{"a file of 8 MB", "open('big','wb').write(b'x'*(8<<20))"},
	{"a sparse file of 1 TB", "open('big','wb').truncate(1<<40)"},
	{"attributes", "import os; open('a','w'); os.setxattr('a','user.x',b'y')"},
	{"raising its limits", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE,(1<<40,1<<40))"},
	{"1025 descriptors", "import os; x=[os.dup(0) for _ in range(1025)]"},
}

// harmless are those of them that fail without an error where Landlock does not
// scope signals: the first process of a namespace is deaf to its own.
var harmless = map[string]bool{"killing its parent": true, "quitting its parent": true, "a fault of its parent": true, "stopping init": true}

// TestHostile: what programs must not do fails, with an error in the program.
func TestHostile(t *testing.T) {
	t.Parallel()
	each(t, testHostile)
}

func testHostile(t *testing.T, w way) {
	outside := t.TempDir()
	answers := filepath.Join(outside, "answers.csv")
	fatal(t, os.WriteFile(answers, []byte("id,target\n"), 0o644))
	granted, err := os.MkdirTemp("", "granted") // the names of sockets are short
	fatal(t, err)
	defer os.RemoveAll(granted)
	servers := []string{"@" + filepath.Base(granted), filepath.Join(granted, "s")}
	fatal(t, os.Symlink(outside, filepath.Join(granted, "outside")))
	for _, name := range servers {
		server, err := net.Listen("unix", name)
		fatal(t, err)
		defer server.Close()
	}
	fatal(t, os.Link(servers[1], filepath.Join(outside, "s")))
	for _, c := range hostile {
		p := w.program(t, strings.NewReplacer("ANSWERS", answers, "OUTSIDE", outside, "GRANTED", granted, "ABSTRACT", servers[0][1:]).Replace(c.script))
		p.Read = []string{granted}
		r := w.do(t, p)
		code := 1
		if harmless[c.what] && w.protection != nil && w.protection.Landlock == 0 {
			code = 0
		}
		if r.End != Exited || r.ExitCode != code || r.Stderr.String() == "" && code == 1 && c.what != "killing everybody" && c.what != "a session" {
			t.Errorf("%s: %s, exit code %d, signal %d: %s%s", c.what, r.End, r.ExitCode, r.Signal, r.Stdout, r.Stderr)
		}
		left(t, c.what, p)
		if err := Clean(p.Dir); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if text, err := os.ReadFile(answers); err != nil || string(text) != "id,target\n" {
		t.Errorf("the answers are %q, %v", text, err)
	}
	for _, path := range []string{"/tmp/lathe-evil", "/dev/shm/lathe-evil", "/lathe-evil"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}

// TestModesStay: changing the mode, the owner or the times of a file says that it
// is done, and is not, or fails.
func TestModesStay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		outside := t.TempDir()
		fatal(t, os.Chmod(outside, 0o700))
		long := time.Unix(1e9, 0)
		fatal(t, os.Chtimes(outside, long, long))
		for _, call := range []string{"chmod('%s',0o777)", "lchown('%s',1,1)", "utime('%s')", "utime(os.open('.',0))"} {
			r := w.do(t, w.program(t, "import os; os."+strings.ReplaceAll(call, "%s", outside)))
			if r.End != Exited || r.ExitCode != 0 {
				t.Errorf("%s: %s, exit code %d: %s", call, r.End, r.ExitCode, r.Stderr)
			}
		}
		info, err := os.Stat(outside)
		if err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) || !info.ModTime().Equal(long) {
			t.Errorf("the folder outside is %v of %v, %v", info.Mode(), info.ModTime(), err)
		}
	})
}

// TestNamespaces: what is not granted is not there, and no process outside.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		if w.protection != nil && w.protection.Namespaces == nil {
			return // they are seen; see TestOpenWithoutNamespaces
		}
		outside := t.TempDir()
		for script, want := range map[string]string{
			"import os; print(os.path.exists('" + outside + "'), os.path.exists('/root'), os.path.exists('/etc/shadow'))":                   "False False False",
			"import os; print(sorted(p for p in os.listdir('/proc') if p.isdigit())==['1',str(os.getpid())])":                               "True",
			"import os; print(os.path.exists('/proc/%d' % " + "1000000" + "), os.getppid())":                                                "False 1",
			"print(open('/proc/net/dev').read().count(':'))":                                                                                "1", // the one to itself
			"print(len(open('/proc/sysvipc/shm').readlines()))":                                                                             "1", // the head
			"print([l.split()[1] for l in open('/proc/mounts') if l.split()[3].startswith('rw') and not l.split()[1].startswith('/dev/')])": "['DIR']",
		} {
			p := w.program(t, script)
			r := w.do(t, p)
			if got := strings.TrimSpace(strings.ReplaceAll(r.Stdout.String(), p.Dir, "DIR")); got != want {
				t.Errorf("%s: %q, want %q: %s", script, got, want, r.Stderr)
			}
		}
	})
}

package sandbox

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// int80 defines a function of Python's that makes a call of 32 bits in a program of
// 64, with five arguments, and returns what the kernel does: below 0 an errno.
const int80 = `
import ctypes,mmap,os,sys
code=mmap.mmap(-1,4096,prot=7)
# push rbx; eax,ebx,ecx,edx,esi,edi = the six arguments; int 0x80; pop rbx; ret
code.write(bytes.fromhex('53 89f8 89f3 4189ca 89d1 4489d2 4489c6 4489cf cd80 5b c3'))
call32=ctypes.CFUNCTYPE(ctypes.c_int,*[ctypes.c_int]*6)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
def low(size): # memory below 4 GB
 libc=ctypes.CDLL(None,use_errno=True); libc.mmap.restype=ctypes.c_long
 return libc.mmap(None,ctypes.c_long(size),3,0x62,-1,ctypes.c_long(0))
def check32(*args):
 r=call32(*args,*[0]*(6-len(args)))
 if r<0: raise OSError(-r,os.strerror(-r))
`

// emulated reports whether this kernel takes calls of 32 bits from programs of 64.
func emulated(t *testing.T) bool {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Logf("no calls of 32 bits are tried on %s", runtime.GOARCH)
		return false
	}
	out, err := exec.Command(python, "-c", int80+"print(call32(20,0,0,0,0,0)==os.getpid())").CombinedOutput()
	if err != nil || string(out) != "True\n" {
		t.Logf("no calls of 32 bits are tried: this kernel has no IA32 emulation (%s, %v)", out, err)
		return false
	}
	return true
}

// hostile32 are hostile programs that make their calls by int 0x80.
var hostile32 = []struct{ what, script string }{
	{"TCP", "check32(359,2,1,0)"},
	{"UDP", "check32(359,2,2,0)"},
	{"a UNIX socket", "check32(359,1,1,0)"},
	{"the calls of sockets in one", "import struct; a=low(4096); ctypes.memmove(a,struct.pack('=iii',2,2,0),12); check32(102,1,a)"},
	{"memory of a descriptor", "a=low(4096); ctypes.memmove(a,b'x\\0',2); check32(356,a,0)"},
	{"io_uring", "check32(425,1,low(4096))"},
	{"userfaultfd", "check32(374,1)"},
	{"shared memory", "check32(395,0,4096,0o1600)"},
	{"shared memory in one", "check32(117,23,0,4096,0o1600)"},
	{"semaphores", "check32(393,0,1,0o1600)"},
	{"message queues", "check32(399,0,0o1600)"},
	{"a session", "os.fork() and (os.wait(), os._exit(1)); check32(66)"},
	{"a process group", "check32(57,0,0)"},
	{"a user namespace", "check32(310,0x10000000)"},
	{"cloning into one", "check32(120,0x10000011)"},
	{"the session's keyring", "check32(288,0,-3,0)"},
	{"its keys", "check32(288,11,-3,low(4096),4096)"},
	{"ptrace", "check32(26,16,os.getppid(),0,0)"},
	{"limits of its parent", "check32(340,os.getppid(),0,0,low(4096))"},
	{"modes", "a=low(4096); ctypes.memmove(a,b'.\\0',2); check32(15,a,0o777)"},
	{"owners", "a=low(4096); ctypes.memmove(a,b'.\\0',2); check32(212,a,-1,-1)"},
	{"bpf", "check32(357,0,low(4096),48)"},
	{"attributes", "open('a','w'); a=low(4096); ctypes.memmove(a,b'a\\0user.x\\0',9); check32(226,a,a+2,a,1,0)"},
	{"its process id", "check32(20)"},
}

// TestHostile32 makes the calls of 32 bits, for which programs of 64 need no library
// and no compiler.
func TestHostile32(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		if !emulated(t) {
			return
		}
		for _, c := range hostile32 {
			p := w.program(t, int80+c.script)
			if r := w.do(t, p); r.End != Exited || r.ExitCode != 1 || !strings.Contains(r.Stderr.String(), "PermissionError") && c.what != "a session" {
				t.Errorf("%s: %s, exit code %d: %s%s", c.what, r.End, r.ExitCode, r.Stdout, r.Stderr)
			}
			left(t, c.what, p)
		}
	})
}

// TestHostileCalls makes each forbidden call in each way that a program of this
// architecture can: none is executed, whatever its arguments are.
func TestHostileCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		info, err := arch.GetInfo("")
		fatal(t, err)
		if _, err := filters(false); err != nil {
			t.Fatal(err)
		}
		numbers := func(info *arch.Info) string {
			var all []string
			for _, name := range forbidden {
				if number, ok := info.SyscallNames[name]; ok {
					all = append(all, strconv.Itoa(number))
				}
			}
			if len(all) < 80 {
				t.Fatalf("%s has %d of the calls", info.Name, len(all))
			}
			return "[" + strings.Join(all, ",") + "]"
		}
		own := libc + "for n in " + numbers(info) + ":\n r=libc.syscall(%s,0,0,0,0,0,0)\n if r!=-1 or ctypes.get_errno()!=%d: print(n,r,ctypes.get_errno())"
		scripts := map[string]string{"64 bits": fmt.Sprintf(own, "n", unix.EPERM)}
		if runtime.GOARCH == "amd64" {
			scripts["x32"] = fmt.Sprintf(own, "0x40000000+n", unix.ENOSYS)
		}
		if emulated(t) {
			scripts["32 bits"] = int80 + "for n in " + numbers(arch.I386) + ":\n r=call32(n,0,0,0,0,0)\n if r!=-1: print(n,r)"
		}
		for what, script := range scripts {
			if r := w.do(t, w.program(t, script)); r.End != Exited || r.ExitCode != 0 || r.Stdout.String() != "" {
				t.Errorf("%s: %s, exit code %d; calls, what they returned and errno: %s%s", what, r.End, r.ExitCode, r.Stdout, r.Stderr)
			}
		}
	})
}

// TestHostileArguments: an argument of which the kernel looks at 32 bits alone is
// no other one for the 32 above.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	const wide = libc + "libc.syscall.argtypes=[ctypes.c_long]*6\n"
	each(t, func(t *testing.T, w way) {
		for what, script := range map[string]string{
			"typing":                     "check(libc.syscall(16,0,%s0x5412,0,0,0))",
			"attributes by a descriptor": "check(libc.syscall(16,os.open('/usr',0),%s0x40086602,0,0,0))",
			"a lease":                    "check(libc.syscall(72,os.open(os.__file__,0),%s1024,0,0,0))",
			"a large pipe":               "check(libc.syscall(72,os.pipe()[1],%s1031,1<<20,0,0))",
			"a large buffer":             "import socket; check(libc.syscall(54,socket.socketpair()[0].fileno(),%s1,7,0,0))",
			"a datagram pair":            "check(libc.syscall(53,1,%s2,0,0,0))",
			"another family":             "check(libc.syscall(53,%s30,1,0,0,0))",
			"limits of init":             "check(libc.syscall(302,%s1,0,0,0,0))",
		} {
			for _, high := range []string{"", "(7<<32)+", "(-1<<32)+"} {
				if r := w.do(t, w.program(t, fmt.Sprintf(wide+script, high))); r.ExitCode != 1 || !strings.Contains(r.Stderr.String(), "PermissionError") {
					t.Errorf("%s with %q: %s, exit code %d: %s%s", what, high, r.End, r.ExitCode, r.Stdout, r.Stderr)
				}
			}
		}
	})
}

//go:embed testdata/calls.txt
var callsOfToday string

// TestCalls: of every call that kernels have today, and of those that they do not
// have yet, it is known what becomes of it.
func TestCalls(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the list is that of amd64")
	}
	info, err := arch.GetInfo("")
	fatal(t, err)
	programs, err := assembleAll(false)
	fatal(t, err)
	for _, name := range slices.Concat(forbidden, sockets, ignored) {
		if _, ok := info.SyscallNames[name]; !ok {
			t.Errorf("%s is no call of amd64: nothing refuses it", name)
		}
	}
	listed := map[int]string{}
	for line := range strings.Lines(callsOfToday) {
		var number int
		var name, fate string
		if _, err := fmt.Sscan(line, &number, &name, &fate); err != nil {
			continue // a comment
		}
		listed[number] = name
		if got := fateOf(t, programs, uint32(info.ID), uint32(number)); got != fate {
			t.Errorf("%s (%d) is %s, and listed as %s", name, number, got, fate)
		}
		if got := fateOf(t, programs, uint32(arch.I386.ID), uint32(number)); got != "refused" {
			t.Fatalf("%d of 32 bits is %s", number, got)
		}
	}
	for number := range uint32(1024) {
		if got := fateOf(t, programs, uint32(info.ID), number); listed[int(number)] == "" && got != "unknown" {
			t.Errorf("%d, which is not listed, is %s", number, got)
		}
	}
	for _, number := range []uint32{1 << 20, 1 << 30, 1<<30 + 41, 1<<30 + 512, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		if got := fateOf(t, programs, uint32(info.ID), number); got != "unknown" {
			t.Errorf("%#x is %s", number, got)
		}
	}
	header, err := os.ReadFile("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
	if err != nil {
		return // a host without: the list was made with one
	}
	for _, define := range regexp.MustCompile(`(?m)^#define __NR_(\w+) (\d+)$`).FindAllStringSubmatch(string(header), -1) {
		if number, _ := strconv.Atoi(define[2]); listed[number] == "" {
			t.Errorf("%s (%d) of this host's header is not in %s", define[1], number, filepath.Join("testdata", "calls.txt"))
		}
	}
}

// fateOf is what becomes of a call with no arguments: what the strictest filter says.
func fateOf(t *testing.T, programs [][]bpf.Instruction, architecture, number uint32) string {
	t.Helper()
	data := make([]byte, 64) // struct seccomp_data; package bpf reads it as a network's
	binary.BigEndian.PutUint32(data, number)
	binary.BigEndian.PutUint32(data[4:], architecture)
	fate := "allowed"
	for _, program := range programs {
		vm, err := bpf.NewVM(program)
		fatal(t, err)
		action, err := vm.Run(data)
		fatal(t, err)
		switch {
		case uint32(action) == uint32(fails(unix.EPERM)):
			return "refused"
		case uint32(action) == uint32(fails(unix.ENOSYS)):
			fate = "unknown"
		case uint32(action) == uint32(fails(0)):
			fate = "ignored"
		}
	}
	return fate
}

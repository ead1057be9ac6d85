package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLimits: time, CPU, memory, processes, disk and output are bounded, of children too.
func TestLimits(t *testing.T) {
	t.Parallel()
	each(t, testLimits)
}

func testLimits(t *testing.T, w way) {
	memory := func(l *Limits) { l.Memory = 128 << 20 }
	disk := func(l *Limits) { l.Disk = 8 << 20 }
	files := func(l *Limits) { l.Files = 200 }
	processes := func(l *Limits) { l.Processes = 20 }
	const idle = "import time; time.sleep(60)"
	for _, c := range []struct {
		what, script string
		change       func(*Limits)
		end          End
	}{
		{"sleep", idle, func(l *Limits) { l.Wall = 300 * time.Millisecond }, OverTime},
		{"a loop", "while True: pass", func(l *Limits) { l.CPU = time.Second }, OverTime},
		{"deaf to signals", "import signal\nfor s in (1,2,3,15): signal.signal(s,signal.SIG_IGN)\nwhile True: pass", func(l *Limits) { l.Wall = 500 * time.Millisecond }, OverTime},
		{"stopped", "import os; os.kill(os.getpid(),19)", func(l *Limits) { l.Wall = 300 * time.Millisecond }, OverTime},
		{"a program that forks and leaves", "import os\nwhile True:\n if os.fork(): os._exit(0)", func(l *Limits) { l.Wall = time.Second }, Exited},
		{"forks faster than a look", "import os\nos.fork() and os.wait()\nwhile True:\n if os.fork(): os._exit(0)", func(l *Limits) { l.Wall = time.Second }, Exited},

		{"memory", "x=[bytearray(1<<20) for _ in range(4000)]", memory, OverMemory},
		{"memory of children", "import os,time\nfor _ in range(8): os.fork()==0 and (bytearray(30<<20), time.sleep(5))\nx=[bytearray(30<<20)]\ntime.sleep(5)", memory, OverMemory},
		{"memory that is mapped", "import mmap\nx=[mmap.mmap(-1,1<<20) for _ in range(400)]\nfor m in x: m.write(b'x'*(1<<20))\n" + idle, memory, OverMemory},
		{"memory that a child has touched", "import mmap,os\nm=mmap.mmap(-1,300<<20)\nif os.fork()==0: m.write(b'x'*(300<<20)); os._exit(0)\nos.wait()\n" + idle, memory, OverMemory},
		{"memory of page tables", "import mmap\nm=mmap.mmap(-1,400<<30,mmap.MAP_PRIVATE|0x4000)\nfor i in range(0,400<<30,2<<20): m[i]\n" + idle, memory, OverMemory},

		{"memory of sockets", "import socket,time\nx=[socket.socketpair() for _ in range(400)]\nfor a,b in x:\n for s in a,b:\n  s.setblocking(False)\n  try:\n   while True: s.send(b'x'*65536)\n  except BlockingIOError: pass\n" + idle, memory, OverMemory},
		{"memory of pipes", "import os,time\nfor _ in range(9):\n if os.fork()==0: break\nx=[os.pipe() for _ in range(500)]\nfor r,w in x: os.write(w,b'x'*65536)\n" + idle, memory, OverMemory},

		{"a fork bomb", "import os,time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(.1)", processes, OverProcesses},
		{"threads", "import threading,time\nfor _ in range(40): threading.Thread(target=time.sleep,args=(9,)).start()", processes, OverProcesses},

		{"files together", "for i in range(5): open(str(i),'wb').write(b'x'*(3<<20))\n" + idle, disk, OverDisk},
		{"files of a program that is gone", "for i in range(5): open(str(i),'wb').write(b'x'*(3<<20))", disk, OverDisk},
		{"files without names", "import os\nx=[open(str(i),'wb') for i in range(5)]\nfor f in x: f.write(b'x'*(3<<20)); f.flush(); os.remove(f.name)\n" + idle, disk, OverDisk},
		{"files that are mapped alone", "import os,mmap\nx=[]\nfor i in range(5):\n f=open(str(i),'w+b'); f.write(b'x'*(3<<20)); f.flush(); x.append(mmap.mmap(f.fileno(),0)); f.close(); os.remove(str(i))\n" + idle, disk, OverDisk},
		{"folders that nobody lists", "import os\nos.mkdir('d',0o300); os.chdir('d')\nfor i in range(5): open(str(i),'wb').write(b'x'*(3<<20))\n" + idle, disk, OverDisk},
		{"one file by many names", "import os\nopen('a','wb').write(b'x'*(3<<20))\nfor i in range(9): os.link('a',str(i))", disk, Exited},
		{"many files", "for i in range(300): open(str(i),'w')\n" + idle, files, OverDisk},
		{"many folders", "import os\nfor i in range(300): os.mkdir('d'); os.chdir('d')\n" + idle, files, OverDisk},
	} {
		p := w.program(t, c.script)
		c.change(&p.Limits)
		r := w.do(t, p)
		if r.End != c.end {
			t.Errorf("%s: %s after %v, %d MB at most, exit code %d, signal %d; want %s\n%s", c.what, r.End, r.Wall, r.PeakMemory>>20, r.ExitCode, r.Signal, c.end, r.Stderr)
		}
		left(t, c.what, p)
		if err := Clean(p.Dir); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	p := w.program(t, "import sys\nsys.stdout.write('begin')\nfor _ in range(1000): sys.stdout.write('x'*1000)\nsys.stdout.write('end')")
	r := w.do(t, p)
	if r.End != Exited || !strings.HasPrefix(string(r.Stdout.Head), "begin") || !strings.HasSuffix(string(r.Stdout.Tail), "end") ||
		len(r.Stdout.Head)+len(r.Stdout.Tail) != 8<<10 || r.Stdout.Dropped != 1000008-8<<10 {
		t.Errorf("of a megabyte %d + %d bytes are kept and %d not", len(r.Stdout.Head), len(r.Stdout.Tail), r.Stdout.Dropped)
	}
}

// TestEnds: how a program ends is told from how its children do.
func TestEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		for _, c := range []struct {
			what, script string
			end          End
			code         int
			signal       syscall.Signal
		}{
			{"exits", "import sys; sys.exit(7)", Exited, 7, 0},
			{"at once", "import os; os._exit(137)", Exited, 137, 0},
			{"is killed", "import os; os.kill(os.getpid(),9)", Killed, -1, syscall.SIGKILL},
			{"is terminated", "import os; os.kill(os.getpid(),15)", Killed, -1, syscall.SIGTERM},
			{"aborts", "import os; os.abort()", Killed, -1, syscall.SIGABRT},
			{"faults", "import ctypes; ctypes.string_at(0)", Killed, -1, syscall.SIGSEGV},
			{"kills its group", "import os; os.killpg(0,15)", Killed, -1, syscall.SIGTERM},
			{"a child faults", "import os,ctypes\nif os.fork()==0: ctypes.string_at(0)\nos.wait()", Exited, 0, 0},
		} {
			p := w.program(t, c.script)
			r := w.do(t, p)
			if r.End != c.end || r.ExitCode != c.code || r.Signal != c.signal {
				t.Errorf("%s: %s, %d, signal %d, want %s, %d, signal %d: %s", c.what, r.End, r.ExitCode, r.Signal, c.end, c.code, c.signal, r.Stderr)
			}
			if names, err := os.ReadDir(p.Dir); err != nil || len(names) > 0 {
				t.Errorf("%s: %v is left, %v", c.what, names, err) // a core file would be
			}
		}
	})
}

// TestNoLateFiles: nothing is written once Run has returned.
func TestNoLateFiles(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		p := w.program(t, "import os,time\nfor i in range(8):\n if os.fork()==0:\n  if os.fork(): os._exit(0)\n  n=0\n  while True: n+=1; open(f'{i}','w').write(str(n)); open(f'{i}-{n%50}','w')\ntime.sleep(600)")
		list := func() string {
			var text strings.Builder
			names, err := os.ReadDir(p.Dir)
			fatal(t, err)
			for _, name := range names {
				content, err := os.ReadFile(filepath.Join(p.Dir, name.Name()))
				fatal(t, err)
				fmt.Fprintf(&text, "%s %q\n", name.Name(), content)
			}
			return text.String()
		}
		before := ""
		for wall := 500 * time.Millisecond; before == ""; wall *= 2 { // until it has come to write
			p.Limits.Wall = wall
			if r := w.do(t, p); r.End != OverTime {
				t.Fatalf("it ended by %s: %s", r.End, r.Stderr)
			}
			before = list()
		}
		time.Sleep(300 * time.Millisecond)
		if after := list(); before != after {
			t.Errorf("there was\n%sand is\n%s", before, after)
		}
	})
}

// TestWall: the seconds that are reported are those that pass.
func TestWall(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		began := time.Now()
		r := w.do(t, w.program(t, "import time; time.sleep(2)"))
		if outside := time.Since(began); r.Wall < 2*time.Second || r.Wall > outside {
			t.Errorf("%v are reported of a program that sleeps for 2 s and is gone after %v", r.Wall, outside)
		}
	})
}

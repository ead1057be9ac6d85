package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// usual is what programs of machine learning do, by the standard library.
var usual = map[string]string{
	"a lock":                 "import multiprocessing as m\nwith m.Lock(): print('ok')",
	"semaphores, events":     "import multiprocessing as m\ns,e=m.Semaphore(2),m.Event(); s.acquire(); e.set(); print('ok' if e.is_set() else '')",
	"a queue":                "import multiprocessing as m\ndef f(q): q.put('ok')\nq=m.Queue(); p=m.Process(target=f,args=(q,)); p.start(); print(q.get(timeout=60)); p.join()",
	"a pool":                 "import multiprocessing as m\ndef f(x): return x*x\nwith m.Pool(3) as p: print('ok' if p.map(f,range(50))==[x*x for x in range(50)] else '')",
	"futures of processes":   "from concurrent.futures import ProcessPoolExecutor as P\ndef f(x): return x+1\nwith P(2) as p: print('ok' if list(p.map(f,range(9)))==list(range(1,10)) else '')",
	"futures of threads":     "from concurrent.futures import ThreadPoolExecutor as P\nwith P(8) as p: print('ok' if sum(p.map(abs,range(99)))==4851 else '')",
	"spawned processes":      "import multiprocessing as m,os\nif __name__=='__main__':\n c=m.get_context('spawn'); p=c.Process(target=print,args=('ok',),kwargs={'flush':True}); p.start(); p.join()",
	"shared memory":          "from multiprocessing import shared_memory as s, Process\ndef f(n):\n h=s.SharedMemory(n); h.buf[0]=7; h.close()\nh=s.SharedMemory(create=True,size=1<<20); p=Process(target=f,args=(h.name,)); p.start(); p.join(); print('ok' if h.buf[0]==7 else ''); h.close(); h.unlink()",
	"shared values":          "import multiprocessing as m\nv,a=m.Value('i',3),m.Array('d',range(5))\ndef f():\n with v.get_lock(): v.value+=1\n a[0]=9\np=m.Process(target=f); p.start(); p.join(); print('ok' if v.value==4 and a[0]==9 else '')",
	"files of shared memory": "import mmap\nf=open('/dev/shm/x','w+b'); f.truncate(1<<20); h=mmap.mmap(f.fileno(),0); h[:2]=b'ok'; print(open('/dev/shm/x').read(2))",
	"temporary files":        "import tempfile,os\nwith tempfile.TemporaryDirectory() as d:\n open(d+'/x','w').write('ok'); print(open(d+'/x').read())",
	"a database":             "import sqlite3\nc=sqlite3.connect('x.db'); c.execute('create table t(a)'); c.execute('insert into t values(?)',('ok',)); c.commit(); print(c.execute('select a from t').fetchone()[0])",
	"another program":        "import subprocess,sys\nprint(subprocess.run([sys.executable,'-c','print(\"ok\")'],capture_output=True,text=True,check=True).stdout)",
	"a shell":                "import subprocess\nprint(subprocess.check_output('echo ok | cat',shell=True,text=True))",
	"signals":                "import signal,os\ndef f(*a): print('ok')\nsignal.signal(signal.SIGUSR1,f); os.kill(os.getpid(),signal.SIGUSR1)",
	"an alarm":               "import signal,time\ndef f(*a): print('ok'); raise SystemExit\nsignal.signal(signal.SIGALRM,f); signal.setitimer(signal.ITIMER_REAL,.05); time.sleep(60)",
	"large pages":            "import mmap\nh=mmap.mmap(-1,64<<20); h.madvise(mmap.MADV_HUGEPAGE); h.write(b'x'*(64<<20)); print('ok')",
	"half of the memory":     "x=bytearray(200<<20); print('ok')",
	"threads that wait":      "import threading\nq=threading.Barrier(9)\nfor _ in range(8): threading.Thread(target=q.wait).start()\nq.wait(); print('ok')",
	"asyncio":                "import asyncio\nasync def f(): await asyncio.sleep(.01); return 'ok'\nprint(asyncio.run(f()))",
	"a manager":              "import multiprocessing as m\ndef f(d,l): d['x']='ok'; l.append(1)\nwith m.Manager() as g:\n d,l=g.dict(),g.list(); p=m.Process(target=f,args=(d,l)); p.start(); p.join(); print(d['x'] if len(l)==1 else '')",
	"a fork server":          "import multiprocessing as m\nif __name__=='__main__':\n c=m.get_context('forkserver'); p=c.Process(target=print,args=('ok',),kwargs={'flush':True}); p.start(); p.join()",
	"an open file handed on": "import multiprocessing as m,os\nfrom multiprocessing import reduction\ndef f(q): print(os.read(q.get(timeout=60).detach(),9).decode())\nr,w=os.pipe(); os.write(w,b'ok'); q=m.Queue(); p=m.Process(target=f,args=(q,)); p.start(); q.put(reduction.DupFd(r)); p.join()",
	"a server of its own":    "import socket,threading,tempfile\ns=socket.socket(socket.AF_UNIX); n=tempfile.mkdtemp()+'/s'; s.bind(n); s.listen()\nthreading.Thread(target=lambda: s.accept()[0].sendall(b'ok')).start()\nc=socket.socket(socket.AF_UNIX); c.connect(n); print(c.recv(9).decode())",
	"a name without a file":  "import socket\ns=socket.socket(socket.AF_UNIX); s.bind('\\0lathe'); s.listen(); c=socket.socket(socket.AF_UNIX); c.connect('\\0lathe'); c.sendall(b'ok'); print(s.accept()[0].recv(9).decode())",
	"remote objects":         "from multiprocessing.connection import Listener,Client\nimport threading\nl=Listener(family='AF_UNIX'); threading.Thread(target=lambda: l.accept().send(['ok'])).start(); print(Client(l.address).recv()[0])",
	"file locks":             "import fcntl\nf=open('l','w'); fcntl.flock(f,fcntl.LOCK_EX); fcntl.lockf(f,fcntl.LOCK_EX); print('ok')",
	"compressed files":       "import gzip,zipfile,tarfile\ngzip.open('x.gz','wt').write('ok'); zipfile.ZipFile('x.zip','w').writestr('a','b'); tarfile.open('x.tar','w').add('x.gz'); print(gzip.open('x.gz','rt').read())",
	"processors":             "import os\nprint('ok' if os.cpu_count()>0 and len(os.sched_getaffinity(0))>0 else '')",
	"statvfs":                "import os,shutil\nprint('ok' if shutil.disk_usage('/dev/shm').free>0 and shutil.disk_usage('.').free>0 else '')",
}

// TestSharedMemory: what honest programs do works where there are namespaces, and nothing
// of it is seen or left outside.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		if w.protection != nil && w.protection.Namespaces == nil {
			return // they have no /dev/shm
		}
		for what, script := range usual {
			p := w.program(t, script)
			p.Limits.Memory, p.Limits.Processes = 512<<20, 64
			r := w.do(t, p)
			if r.End != Exited || r.ExitCode != 0 || strings.TrimSpace(r.Stdout.String()) != "ok" {
				t.Errorf("%s: %s, exit code %d: %q %s", what, r.End, r.ExitCode, r.Stdout, r.Stderr)
			}
			left(t, what, p)
		}
		p := w.program(t, "import os; print(os.listdir('/dev/shm'))\nopen('/dev/shm/lathe-evil','w')\nfrom multiprocessing import shared_memory as s; s.SharedMemory('lathe-evil-2',True,4096)")
		if r := w.do(t, p); strings.TrimSpace(r.Stdout.String()) != "[]" {
			t.Errorf("a program's /dev/shm is not empty at its start: %s %s", r.Stdout, r.Stderr)
		}
		for _, name := range []string{"/dev/shm/lathe-evil", "/dev/shm/lathe-evil-2"} {
			if _, err := os.Stat(name); err == nil {
				t.Errorf("%s is there", name)
			}
		}
		// Nor is what waits in sockets without a process that has them open: connections to
		// one that accepts none.
		waiting := w.program(t, "import socket,time\ns=socket.socket(socket.AF_UNIX); s.bind('\\0x'); s.listen(4096)\nfor i in range(900):\n c=socket.socket(socket.AF_UNIX); c.connect('\\0x'); c.close()\ntime.sleep(60)")
		waiting.Limits.Memory = 96 << 20
		if r := w.do(t, waiting); r.End != OverMemory {
			t.Errorf("900 connections that wait: %s, exit code %d, %d bytes at most: %s", r.End, r.ExitCode, r.PeakMemory, r.Stderr)
		}
		// What is there counts as memory, mapped or not, with and without a name; but see
		// the package comment for a warm interpreter of an ordinary user.
		if os.Getuid() != 0 && strings.HasPrefix(w.name, "warm") {
			return
		}
		for _, script := range []string{
			"for i in range(300): open('/dev/shm/%d'%i,'wb').write(b'x'*(1<<20))",
			"import os\nx=[]\nfor i in range(300):\n f=open('/dev/shm/x','wb'); f.write(b'x'*(1<<20)); f.flush(); os.remove('/dev/shm/x'); x.append(f)",
			"from multiprocessing import shared_memory as s\nx=[s.SharedMemory(create=True,size=1<<20) for i in range(300)]\nfor h in x: h.buf[:]=b'x'*(1<<20)",
		} {
			p := w.program(t, "import time\ntry: exec("+strconv.Quote(script)+")\nexcept OSError: pass\ntime.sleep(60)")
			p.Limits.Memory = 64 << 20
			// A mapped page that does not fit any more ends a program before a look does.
			if r := w.do(t, p); r.End != OverMemory && r.Signal != syscall.SIGBUS {
				t.Errorf("300 MB of shared memory: %s, exit code %d, signal %d, %d bytes at most: %s", r.End, r.ExitCode, r.Signal, r.PeakMemory, r.Stderr)
			}
		}
	})
}

// TestTemporary: the folder of temporary files has a short path, by which sockets have
// names, however long its own is; and /tmp is that folder where nothing granted is there.
func TestTemporary(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		if w.protection != nil && w.protection.Namespaces == nil {
			return // they have no files of their own
		}
		for _, c := range []struct{ within, folder, want string }{
			{"/tmp", "t", "DIR/t\nsockets\nno /tmp\n"},
			{"/tmp", strings.Repeat("t", 100), "/.tmp\nsockets\nno /tmp\n"},
			{"/var/tmp", "t", "DIR/t\nsockets\n/tmp\n"},
			{"/var/tmp", strings.Repeat("t", 100), "/tmp\nsockets\n/tmp\n"},
		} {
			dir, err := os.MkdirTemp(c.within, "lathe-test-")
			fatal(t, err)
			defer os.RemoveAll(dir)
			tmp := filepath.Join(dir, c.folder)
			fatal(t, os.Mkdir(tmp, 0o700))
			p := w.program(t, "import os, tempfile, multiprocessing as m\nprint(tempfile.gettempdir())\nwith m.Manager() as g: print('sockets' if g.list([1])[0] else '')\n"+
				"open(os.path.join(os.environ['TMPDIR'], 'left'), 'w')\ntry: open('/tmp/also', 'w'); print('/tmp')\nexcept OSError: print('no /tmp')")
			p.Dir, p.Write, p.Env = dir, []string{dir}, []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + tmp}
			r := w.do(t, p)
			if got := strings.ReplaceAll(r.Stdout.String(), dir, "DIR"); got != c.want {
				t.Errorf("in %s, %d bytes: %q, want %q: %s", c.within, len(tmp), got, c.want, r.Stderr)
			}
			if _, err := os.Stat(filepath.Join(tmp, "left")); err != nil {
				t.Errorf("what it wrote in TMPDIR: %v", err)
			}
		}
	})
}

package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/await"
)

// TestWarmIsAsCold: a program in a warm interpreter says what it says in a new one.
func TestWarmIsAsCold(t *testing.T) {
	t.Parallel()
	w := ways(t)[0]
	for _, c := range []struct {
		script string
		args   []string
	}{
		{"print(__name__, sorted(k for k in globals()))", nil},
		{"import sys; print(sys.argv, sys.path[0], sys.flags.hash_randomization, len(sys.orig_argv))", []string{"a", "b"}},
		{"import sys; print(__file__, sys.argv[0], sys.modules['__main__'].__file__)", nil},
		{"import sys; sys.exit('why not')", nil},
		{"import sys; sys.exit(3)", nil},
		{"def f(): raise ValueError('x')\nf()", nil},
		{"try:\n 1/0\nexcept ZeroDivisionError as e: raise KeyError('y') from e", nil},
		{"print('half', end=''); raise SystemExit", nil},
		{"x = = 1", nil},
		{"import atexit; atexit.register(print,'at exit')", nil},
		{"import threading,time; threading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()", nil},
		{"import sys; print(sys.stdin.read(), sys.stdin.encoding, sys.stdout.encoding)", nil},
		{"import helper; print(helper.n)", nil},
		{"import multiprocessing as m\nif __name__=='__main__': p=m.get_context('fork').Process(target=print,args=('p',)); p.start(); p.join(); print(p.exitcode)", nil},
		{"import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))).__module__)", nil},
		{"print(hash('a'))", nil},
		{"import os; print(sorted(k for k in os.environ if not k.startswith('LATHE_CHILD_') and k!='LC_CTYPE'), os.getcwd()==os.environ['HOME'])", nil},
		{"import gc,random; print(gc.isenabled(), random.getstate()[0])", nil},
		{"import signal; print(signal.getsignal(2), signal.getsignal(17), signal.getsignal(13))", nil},
		{"raise KeyboardInterrupt", nil},
		{"import sys; sys.exit(True)", nil},
		{"import sys; sys.exit(-2)", nil},
		{"import sys; sys.exit((1, 'two'))", nil},
		{"import os; os._exit(7)", nil},
		{"import os; f=os.fdopen(os.dup(1),'w'); f.write('not closed')", nil},
		{"import os\nf=os.fdopen(os.dup(1),'w')\ndef g(): f.write('of a function')\ng()", nil},
		{"import os,json; json.f=os.fdopen(os.dup(1),'wb'); json.f.write(b'held by what was imported before')", nil},
		{"import os,helper; helper.f=os.fdopen(os.dup(1),'w'); helper.f.write('held by a module of its own')", nil},
		{"class A:\n def __del__(self): print('gone')\na=A()", nil},
		{"def f(): return 'by name'\nclass A:\n def __del__(self): print('gone', f())\na=A(); a.a=a", nil},
		{"def g():\n try: yield\n finally: print('closed')\nx=g(); next(x)", nil},
		{"import weakref\nclass A: pass\na=A(); weakref.finalize(a, print, 'finalized')", nil},
		{"import atexit\nclass F:\n def __call__(s): raise ValueError('no')\n def __repr__(s): return 'F'\natexit.register(F()); print('before')", nil},
		{"import threading,sys; threading.Thread(target=lambda: sys.exit(4)).start(); print('main')", nil},
		{"import threading,time; threading.Thread(target=time.sleep,args=(60,),daemon=True).start(); print('main')", nil},
		{"import concurrent.futures as c; c.ThreadPoolExecutor().submit(print,'of a pool')", nil},
		{"import logging,logging.handlers as h; logging.getLogger().addHandler(h.MemoryHandler(9, target=logging.StreamHandler())); logging.warning('kept back')", nil},
		{"import tempfile; t=tempfile.TemporaryDirectory(); print(len(t.name) > 0)", nil},
		{"import os; r,w=os.pipe(); f=os.fdopen(r,'w'); f.write('cannot be written')", nil},
		{"import sys\nclass F:\n closed=False\n def write(s,x): pass\n def flush(s): raise ValueError('full')\nsys.stderr=F()", nil},
		{"import sys; sys.stdout=None", nil},
		{"import sys; sys.stdout.close()", nil},
		{"import sys; del sys.stdout; del sys.stderr", nil},
		{"import sys; sys.modules.clear(); print('nothing left')", nil},
		{"import sys\nclass F:\n closed=False\n def write(s,x): pass\n def flush(s): raise ValueError('full')\n def __repr__(s): return 'F'\nsys.stdout=F()", nil},
	} {
		for _, file := range []bool{false, true} {
			var said [2]string
			p := w.program(t, c.script)
			p.Env = append(p.Env, "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1")
			fatal(t, os.WriteFile(filepath.Join(p.Dir, "helper.py"), []byte("n=7\n"), 0o600))
			if file {
				path := filepath.Join(p.Dir, "solution.py")
				fatal(t, os.WriteFile(path, []byte(c.script), 0o600))
				p.Args = []string{python, path}
			}
			p.Args = append(p.Args, c.args...)
			for i, run := range []func(context.Context, Program) (Result, error){Run, warm.Run} {
				p.Stdin = strings.NewReader("input")
				r, err := run(t.Context(), p)
				fatal(t, err)
				said[i] = fmt.Sprintf("%s %d %d\n%s\n%s", r.End, r.ExitCode, r.Signal, r.Stdout, r.Stderr)
			}
			if said[0] != said[1] {
				t.Errorf("%s\na new one says %s\na warm one %s", c.script, said[0], said[1])
			}
		}
	}
}

// TestWarmStaysClean: what a program does to its interpreter the next does not see.
func TestWarmStaysClean(t *testing.T) {
	t.Parallel()
	for _, w := range ways(t) {
		if !strings.HasPrefix(w.name, "warm") {
			continue
		}
		const look = "import builtins,gc,json,os,random,sys; print(json.dumps([1]), hasattr(builtins,'evil'), 'evil' in sys.modules, os.environ.get('EVIL'), sys.getrecursionlimit(), gc.isenabled(), len(sys.path), sys.dont_write_bytecode, os.umask(0), os.getpriority(0,0), [t.name for t in __import__('threading').enumerate()])"
		before := w.do(t, w.program(t, look))
		for _, script := range []string{
			"import json; json.dumps=lambda *a: 'evil'",
			"import builtins; builtins.evil=1; builtins.print=None",
			"import sys; sys.modules['evil']=sys; sys.modules['json']=None; sys.path.insert(0,'/'); sys.setrecursionlimit(99)",
			"import os; os.environ['EVIL']='1'; os.umask(0o777)",
			"import gc; gc.disable(); [o.clear() for o in gc.get_objects() if type(o) is dict and 'sock' in o]",
			"import os; [os.closerange(0,100)]",
			"import ctypes; ctypes.memset(id(1),0,8)",
			"import os; os.kill(0,9)",
			"import os\nfor p in range(2,400):\n try: os.kill(p,9)\n except OSError: pass",
			"import os; os.nice(5)",
			"import sys; sys.stdout.close(); sys.exit(9)",
			"import threading,time; threading.Thread(target=time.sleep,args=(60,),daemon=True).start()",
			"import os; os.write(3,b'{}')",
			"import os; os.execv('/bin/true',['true'])",
			"import random; random.seed(1)",
		} {
			w.do(t, w.program(t, script))
			if after := w.do(t, w.program(t, look)); after.Stdout.String() != before.Stdout.String() || after.ExitCode != 0 {
				t.Fatalf("%s: after %s a program sees %s%s, and saw %s", w.name, script, after.Stdout, after.Stderr, before.Stdout)
			}
		}
	}
}

// TestWarmSeeds: random numbers are new, or those of a seed.
func TestWarmSeeds(t *testing.T) {
	t.Parallel()
	w := ways(t)[1]
	say := func(seed *uint32) string {
		p := w.program(t, "import random; print(random.random())")
		p.Seed = seed
		return w.do(t, p).Stdout.String()
	}
	if a, b := say(nil), say(nil); a == b {
		t.Errorf("twice %s", a)
	}
	one, two := uint32(1), uint32(2)
	// random.Random(1).random() of CPython.
	if a, b, c := say(&one), say(&one), say(&two); a != "0.13436424411240122\n" || a != b || b == c {
		t.Errorf("seeds 1, 1 and 2 give %s%s%s", a, b, c)
	}
	p := w.program(t, "")
	p.Env = append(p.Env, "PYTHONHASHSEED=5")
	if _, err := w.run(t.Context(), p); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "PYTHONHASHSEED=5") {
		t.Errorf("another seed of hashes: %v", err)
	}
	for _, args := range [][]string{{python}, {python, "-c"}, {python, "-i"}, {"/bin/true", "x"}} {
		p.Args = args
		if _, err := w.run(t.Context(), p); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestWarmAtOnce: programs at once do not meet, and one that is stopped is alone.
func TestWarmAtOnce(t *testing.T) {
	t.Parallel()
	w := ways(t)[1]
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			p := w.program(t, fmt.Sprintf("import time; time.sleep(.3); open('f','w').write('%d'); print(%d)", i, i))
			if i == 3 {
				p.Limits.Wall = 100 * time.Millisecond
			}
			r, err := w.run(t.Context(), p)
			if want := fmt.Sprintf("%d\n", i); err != nil || i != 3 && (r.End != Exited || r.Stdout.String() != want) || i == 3 && r.End != OverTime {
				t.Errorf("program %d: %v, %s, %s%s", i, err, r.End, r.Stdout, r.Stderr)
			}
			left(t, fmt.Sprint(i), p)
		})
	}
	all.Wait()
}

// TestWarmEnds: closing ends its programs; what cannot start says why.
func TestWarmEnds(t *testing.T) {
	t.Parallel()
	for _, w := range ways(t)[:2] {
		var own Warm
		if err := own.Start(t.Context(), python, nil); err != nil {
			t.Fatal(err)
		}
		p := w.program(t, "import os,time\nos.fork()\nopen('started','w')\ntime.sleep(60)")
		done := make(chan error)
		go func() {
			_, err := own.Run(t.Context(), p)
			done <- err
		}()
		await.Until(t, "the program has started", func() bool {
			_, err := os.Stat(filepath.Join(p.Dir, "started"))
			return err == nil
		})
		own.Close()
		if err := <-done; err == nil {
			t.Error("a program of an interpreter that is closed has ended well")
		}
		// The kernel ends what is in a namespace after its first process.
		await.Until(t, "nothing is left", func() bool { return !isLeft(p) })
		left(t, w.name, p)
		own.Close()
		if _, err := own.Run(t.Context(), p); err == nil {
			t.Error("an interpreter that is closed runs a program")
		}
	}
	var none Warm
	none.Close()
	for want, c := range map[string]struct {
		interpreter string
		modules     []string
	}{
		"no_such_module": {python, []string{"json", "no_such_module"}},
		"/nowhere":       {"/nowhere/python", nil},
	} {
		var own Warm
		if err := own.Start(t.Context(), c.interpreter, c.modules); exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"locks":  "import multiprocessing; lock=multiprocessing.Lock()",
		"shares": "import mmap; m=mmap.mmap(-1,4096)",
		"file":   "import mmap,tempfile; f=tempfile.TemporaryFile(); f.truncate(4096); m=mmap.mmap(f.fileno(),4096)",
	} {
		fatal(t, os.WriteFile(filepath.Join(dir, name+".py"), []byte(text), 0o600))
		own := Warm{Env: []string{"PYTHONPATH=" + dir}}
		if err := own.Start(t.Context(), python, []string{name}); exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), "share memory") {
			t.Errorf("a module of which programs share memory, %s: %v", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	fatal(t, os.WriteFile(filepath.Join(dir, "slow.py"), []byte("import time; time.sleep(60)"), 0o600))
	own := Warm{Env: []string{"PYTHONPATH=" + dir}}
	if err := own.Start(ctx, python, []string{"slow"}); err == nil {
		t.Error("an interpreter starts when nobody waits for it any more")
	}
}

// BenchmarkWarm is the program of BenchmarkCage in a warm interpreter.
func BenchmarkWarm(b *testing.B) {
	var own Warm
	if err := own.Start(b.Context(), python, nil); err != nil {
		b.Fatal(err)
	}
	defer own.Close()
	for b.Loop() {
		dir := b.TempDir()
		p := Program{Args: []string{python, "-c", "pass"}, Dir: dir, Env: []string{"PATH=/usr/bin"}, Write: []string{dir}}
		if r, err := own.Run(b.Context(), p); err != nil || r.End != Exited || r.ExitCode != 0 {
			b.Fatal(r.End, err)
		}
	}
}

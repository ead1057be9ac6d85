// Package sandboxtest has the programs that a sandbox must not stand in the way of: what
// people who write programs of machine learning do.
package sandboxtest

// Program is a program in Python that prints ok.
type Program struct {
	What   string
	Needs  string // a module beside the standard library; empty for none
	Script string
}

// Honest are programs that must work wherever there are namespaces, in 512 MB and with 64
// processes.
var Honest = []Program{
	// By the standard library.
	{"a lock", "", "import multiprocessing as m\nwith m.Lock(): print('ok')"},
	{"semaphores, events", "", "import multiprocessing as m\ns,e=m.Semaphore(2),m.Event(); s.acquire(); e.set(); print('ok' if e.is_set() else '')"},
	{"a queue", "", "import multiprocessing as m\ndef f(q): q.put('ok')\nq=m.Queue(); p=m.Process(target=f,args=(q,)); p.start(); print(q.get(timeout=60)); p.join()"},
	{"a pool", "", "import multiprocessing as m\ndef f(x): return x*x\nwith m.Pool(3) as p: print('ok' if p.map(f,range(50))==[x*x for x in range(50)] else '')"},
	{"futures of processes", "", "from concurrent.futures import ProcessPoolExecutor as P\ndef f(x): return x+1\nwith P(2) as p: print('ok' if list(p.map(f,range(9)))==list(range(1,10)) else '')"},
	{"futures of threads", "", "from concurrent.futures import ThreadPoolExecutor as P\nwith P(8) as p: print('ok' if sum(p.map(abs,range(99)))==4851 else '')"},
	{"spawned processes", "", "import multiprocessing as m,os\nif __name__=='__main__':\n c=m.get_context('spawn'); p=c.Process(target=print,args=('ok',),kwargs={'flush':True}); p.start(); p.join()"},
	{"shared memory", "", "from multiprocessing import shared_memory as s, Process\ndef f(n):\n h=s.SharedMemory(n); h.buf[0]=7; h.close()\nh=s.SharedMemory(create=True,size=1<<20); p=Process(target=f,args=(h.name,)); p.start(); p.join(); print('ok' if h.buf[0]==7 else ''); h.close(); h.unlink()"},
	{"shared values", "", "import multiprocessing as m\nv,a=m.Value('i',3),m.Array('d',range(5))\ndef f():\n with v.get_lock(): v.value+=1\n a[0]=9\np=m.Process(target=f); p.start(); p.join(); print('ok' if v.value==4 and a[0]==9 else '')"},
	{"files of shared memory", "", "import mmap\nf=open('/dev/shm/x','w+b'); f.truncate(1<<20); h=mmap.mmap(f.fileno(),0); h[:2]=b'ok'; print(open('/dev/shm/x').read(2))"},
	{"temporary files", "", "import tempfile,os\nwith tempfile.TemporaryDirectory() as d:\n open(d+'/x','w').write('ok'); print(open(d+'/x').read())"},
	{"a database", "", "import sqlite3\nc=sqlite3.connect('x.db'); c.execute('create table t(a)'); c.execute('insert into t values(?)',('ok',)); c.commit(); print(c.execute('select a from t').fetchone()[0])"},
	{"another program", "", "import subprocess,sys\nprint(subprocess.run([sys.executable,'-c','print(\"ok\")'],capture_output=True,text=True,check=True).stdout)"},
	{"a shell", "", "import subprocess\nprint(subprocess.check_output('echo ok | cat',shell=True,text=True))"},
	{"signals", "", "import signal,os\ndef f(*a): print('ok')\nsignal.signal(signal.SIGUSR1,f); os.kill(os.getpid(),signal.SIGUSR1)"},
	{"an alarm", "", "import signal,time\ndef f(*a): print('ok'); raise SystemExit\nsignal.signal(signal.SIGALRM,f); signal.setitimer(signal.ITIMER_REAL,.05); time.sleep(60)"},
	{"large pages", "", "import mmap\nh=mmap.mmap(-1,64<<20); h.madvise(mmap.MADV_HUGEPAGE); h.write(b'x'*(64<<20)); print('ok')"},
	{"half of the memory", "", "x=bytearray(200<<20); print('ok')"},
	{"threads that wait", "", "import threading\nq=threading.Barrier(9)\nfor _ in range(8): threading.Thread(target=q.wait).start()\nq.wait(); print('ok')"},
	{"asyncio", "", "import asyncio\nasync def f(): await asyncio.sleep(.01); return 'ok'\nprint(asyncio.run(f()))"},
	{"a manager", "", "import multiprocessing as m\ndef f(d,l): d['x']='ok'; l.append(1)\nwith m.Manager() as g:\n d,l=g.dict(),g.list(); p=m.Process(target=f,args=(d,l)); p.start(); p.join(); print(d['x'] if len(l)==1 else '')"},
	{"a fork server", "", "import multiprocessing as m\nif __name__=='__main__':\n c=m.get_context('forkserver'); p=c.Process(target=print,args=('ok',),kwargs={'flush':True}); p.start(); p.join()"},
	{"an open file handed on", "", "import multiprocessing as m,os\nfrom multiprocessing import reduction\ndef f(q): print(os.read(q.get(timeout=60).detach(),9).decode())\nr,w=os.pipe(); os.write(w,b'ok'); q=m.Queue(); p=m.Process(target=f,args=(q,)); p.start(); q.put(reduction.DupFd(r)); p.join()"},
	{"a server of its own", "", "import socket,threading,tempfile\ns=socket.socket(socket.AF_UNIX); n=tempfile.mkdtemp()+'/s'; s.bind(n); s.listen()\nthreading.Thread(target=lambda: s.accept()[0].sendall(b'ok')).start()\nc=socket.socket(socket.AF_UNIX); c.connect(n); print(c.recv(9).decode())"},
	{"a name without a file", "", "import socket\ns=socket.socket(socket.AF_UNIX); s.bind('\\0lathe'); s.listen(); c=socket.socket(socket.AF_UNIX); c.connect('\\0lathe'); c.sendall(b'ok'); print(s.accept()[0].recv(9).decode())"},
	{"remote objects", "", "from multiprocessing.connection import Listener,Client\nimport threading\nl=Listener(family='AF_UNIX'); threading.Thread(target=lambda: l.accept().send(['ok'])).start(); print(Client(l.address).recv()[0])"},
	{"file locks", "", "import fcntl\nf=open('l','w'); fcntl.flock(f,fcntl.LOCK_EX); fcntl.lockf(f,fcntl.LOCK_EX); print('ok')"},
	{"compressed files", "", "import gzip,zipfile,tarfile\ngzip.open('x.gz','wt').write('ok'); zipfile.ZipFile('x.zip','w').writestr('a','b'); tarfile.open('x.tar','w').add('x.gz'); print(gzip.open('x.gz','rt').read())"},
	{"processors", "", "import os\nprint('ok' if os.cpu_count()>0 and len(os.sched_getaffinity(0))>0 else '')"},
	{"statvfs", "", "import os,shutil\nprint('ok' if shutil.disk_usage('/dev/shm').free>0 and shutil.disk_usage('.').free>0 else '')"},
	// By libraries.
	{"processes of joblib", "joblib", "from joblib import Parallel, delayed\ndef f(x): return x*x\nif __name__=='__main__': print('ok' if Parallel(n_jobs=2)(delayed(f)(x) for x in range(9))==[x*x for x in range(9)] else '')"},
	{"arrays that joblib maps", "joblib", "import numpy as n\nfrom joblib import Parallel, delayed\ndef f(a,i): return type(a).__name__, float(a[i])\nif __name__=='__main__':\n a=n.arange(1e6); r=Parallel(n_jobs=2,max_nbytes='1M')(delayed(f)(a,i) for i in range(4)); print('ok' if r==[('memmap',float(i)) for i in range(4)] else r)"},
	{"joblib on multiprocessing", "joblib", "from joblib import Parallel, delayed\nprint('ok' if Parallel(n_jobs=2,backend='multiprocessing')(delayed(abs)(-x) for x in range(9))==list(range(9)) else '')"},
	{"joblib on threads", "joblib", "from joblib import Parallel, delayed\nprint('ok' if Parallel(n_jobs=4,backend='threading')(delayed(abs)(-x) for x in range(9))==list(range(9)) else '')"},
	{"a cache of joblib", "joblib", "from joblib import Memory, dump, load\n@Memory('cache',verbose=0).cache\ndef f(x): return x+1\nf(1); dump(f(1),'m.joblib'); print('ok' if load('m.joblib')==2 else '')"},
	{"executors of loky", "joblib", "from joblib.externals.loky import get_reusable_executor as e\nif __name__=='__main__': print('ok' if list(e(max_workers=2).map(abs,[-1,-2]))==[1,2] else '')"},
	{"forests on processes", "sklearn", "import numpy as n\nfrom sklearn.ensemble import RandomForestClassifier as F\nfrom sklearn.model_selection import cross_val_score\nif __name__=='__main__':\n x=n.arange(200.).reshape(-1,1); s=cross_val_score(F(9,random_state=0),x,x[:,0]>99,cv=2,n_jobs=2); print('ok' if len(s)==2 else s)"},
	{"a grid on threads", "sklearn", "import numpy as n\nfrom sklearn.ensemble import ExtraTreesRegressor as F\nx=n.arange(200.).reshape(-1,1); print('ok' if F(9,n_jobs=4,random_state=0).fit(x,x[:,0]).score(x,x[:,0])>.9 else '')"},
	{"large arrays", "numpy", "import numpy as n\na=n.ones(25_000_000); b=n.memmap('a.bin',dtype='f4',mode='w+',shape=(1<<20,)); b[:]=1; b.flush(); print('ok' if a.sum()==25e6 and (n.ones((300,300))@n.ones((300,300)))[0,0]==300 else '')"},
	{"tables", "pandas", "import pandas as p\nt=p.DataFrame({'a':range(1000),'b':['x','y']*500}); t.to_csv('t.csv',index=False); t.to_pickle('t.pkl'); print('ok' if p.read_csv('t.csv').groupby('b').a.sum().sum()==499500 and len(p.read_pickle('t.pkl'))==1000 else '')"},
	{"fonts of matplotlib", "matplotlib", "import matplotlib.pyplot as p, matplotlib.font_manager as f\np.plot([1,2]); p.title('Größe $x^2$'); p.savefig('f.png'); print('ok' if f.findfont('DejaVu Sans') else '')"},
	{"pip --version", "pip", "import subprocess,sys\nr=subprocess.run([sys.executable,'-m','pip','--version'],capture_output=True,text=True); print('ok' if r.stdout.startswith('pip') else r)"},
	{"what the machine is", "psutil", "import psutil\nprint('ok' if psutil.cpu_count()>0 and psutil.virtual_memory().total>0 and psutil.Process().memory_info().rss>0 else '')"},
	{"workers of a DataLoader", "torch", "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\nif __name__=='__main__':\n d=DataLoader(TensorDataset(torch.arange(64)),batch_size=8,num_workers=2); print('ok' if sum(int(b[0].sum()) for b in d)==2016 else '')"},
	{"tensors between processes", "torch", "import torch, torch.multiprocessing as m\ndef f(q,r): q.get(timeout=100).add_(1); r.put(1)\nif __name__=='__main__':\n t=torch.zeros(1000); q,r=m.Queue(),m.Queue(); p=m.Process(target=f,args=(q,r)); p.start(); q.put(t); r.get(timeout=100); p.join(); print('ok' if t.sum()==1000 else '')"},
	{"a model of torch", "torch", "import torch\ntorch.set_num_threads(2); m=torch.nn.Linear(9,1); o=torch.optim.Adam(m.parameters()); l=m(torch.ones(5,9)).sum(); l.backward(); o.step(); torch.save(m.state_dict(),'m.pt'); print('ok' if len(torch.load('m.pt'))==2 else '')"},
	{"a cache of Hugging Face", "huggingface_hub", "import os\nos.makedirs('h/hub/models--a--b/refs'); os.makedirs('h/hub/models--a--b/snapshots/1'); open('h/hub/models--a--b/refs/main','w').write('1'); open('h/hub/models--a--b/snapshots/1/config.json','w').write('ok')\nos.environ.update(HF_HOME=os.path.abspath('h'),HF_HUB_OFFLINE='1')\nfrom huggingface_hub import hf_hub_download\nprint(open(hf_hub_download('a/b','config.json')).read())"},
}

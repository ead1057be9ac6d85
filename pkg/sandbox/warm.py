# The interpreter that is kept warm. It imports modules once, and for each program
# forks a process that builds a cage, as enter.go does by the same plan, and then runs
# the program as __main__. It runs nothing of a program's itself.
import array, atexit, base64, ctypes, gc, importlib, io, json, os, random, resource, select, signal, socket, struct, sys, time, types

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_ADD_RULE, SYS_LANDLOCK_RESTRICT_SELF, SYS_MOUNT_SETATTR = 444, 445, 446, 442
FILES = 7  # plan, status, faults, standard input, output and error, answer


class Fault(Exception):
    pass


def check(what, result):
    if result < 0:
        raise Fault("%s: %s" % (what, os.strerror(ctypes.get_errno())))
    return result


def number(n):
    return ctypes.c_ulong(n)


def text(s):
    return None if s is None else os.fsencode(s)


def serve(sock):
    """Returns in the process that a program is to become, with what it is to know."""
    while True:
        orders, ancillary, _, _ = sock.recvmsg(1 << 16, socket.CMSG_SPACE(FILES * 4))
        if not orders:
            os._exit(0)
        fds = array.array("i")
        fds.frombytes(ancillary[0][2])
        try:
            pid = os.fork()
            if pid == 0:
                sock.close()
                return json.loads(orders), list(fds)
            os.waitpid(pid, 0)
        except OSError as e:  # there may be fewer processes by the next
            os.write(fds[2], ("forking: %s" % e.strerror).encode())
        for fd in fds:
            os.close(fd)


def write(path, content):
    with open(path, "w") as f:
        f.write(content)


def separate(orders, answer):
    """Leaves the server: a session, and namespaces of which the next process is the first."""
    os.setsid()
    if orders["clone"]:
        check("making namespaces", libc.unshare(orders["clone"]))
        own = orders["own"]
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", "%d %d 1" % (own["user"], own["user"]))
        write("/proc/self/gid_map", "%d %d 1" % (own["group"], own["group"]))
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.write(answer, struct.pack("=ii", parent, pid))
        os._exit(0)
    return parent


def attributes(step, recursive):
    attr = struct.pack("=QQQQ", step["flags"], 0, 0, 0)
    return libc.syscall(number(SYS_MOUNT_SETATTR), -100, text(step["target"]), 0x8000 if recursive else 0, attr, number(len(attr)))


def take(step):
    target = text(step["target"])
    do = step["do"]
    if do == "mount":
        check(
            "hiding files: mount %s" % step["target"],
            libc.mount(text(step.get("source")), target, text(step.get("type")), number(step.get("flags", 0)), text(step.get("data"))),
        )
    elif do == "hide":
        if os.path.lexists(target):
            check("hiding files: hide %s" % step["target"], libc.mount(text(step["source"]), target, None, number(0x1000), None))
    elif do == "folder":
        os.mkdir(target, 0o755)
    elif do == "file":
        os.mknod(target, 0o100444)
    elif do == "link":
        os.symlink(step["source"], target)
    elif do == "write":
        write(target, step["data"])
    elif do == "attributes":
        check("hiding files: attributes of %s" % step["target"], attributes(step, step.get("source") != "alone"))
    elif do == "root":
        os.chdir(target)
        check("hiding files: changing the root", libc.pivot_root(b".", b"."))
        check("hiding files: leaving the old root", libc.umount2(b".", 2))
        os.chdir("/")


def capabilities():
    header, none = struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", *[0] * 6)
    check("giving up capabilities", libc.capset(header, none))


def first(program, status, lifeline):
    """Is the first process of a namespace until the program ends, or who supervises it."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    while True:
        pid, how = os.waitpid(-1, os.WNOHANG)
        if pid == program:
            os.write(status, struct.pack("=I", how))
            os._exit(0)
        if pid == 0:
            ready, _, _ = select.select([lifeline, woken], [], [])
            if lifeline in ready:
                os._exit(1)
            os.read(woken, 4096)


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def restrict_files(files):
    if not files["version"]:
        return
    attr = struct.pack("=QQQ", files["fs"], files["net"], files["scoped"])
    rules = check("restricting files", libc.syscall(number(SYS_LANDLOCK_CREATE_RULESET), attr, number(files["size"]), 0))
    for rule in files["rules"]:
        try:
            fd = os.open(rule["path"], os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError as e:
            if rule["optional"]:
                continue
            raise Fault("restricting files: granting %s: %s" % (rule["path"], e.strerror))
        beneath = struct.pack("=Qi", rule["access"] & files["fs"], fd)
        check("granting %s" % rule["path"], libc.syscall(number(SYS_LANDLOCK_ADD_RULE), rules, 1, beneath, 0))
        os.close(fd)
    check("restricting files", libc.syscall(number(SYS_LANDLOCK_RESTRICT_SELF), rules, 0))
    os.close(rules)


def cage(plan):
    os.setpriority(os.PRIO_PROCESS, 0, plan["nice"])
    os.umask(0o077)
    try:
        os.chdir(plan["dir"])
    except OSError as e:
        raise Fault("going to %s: %s" % (plan["dir"], e.strerror))
    for limit in plan["rlimits"]:
        soft, hard = limit["soft"], limit["hard"]
        most = resource.getrlimit(limit["resource"])[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(limit["resource"], (soft, hard))
    capabilities()
    check("giving up privileges", libc.prctl(PR_SET_NO_NEW_PRIVS, number(1), number(0), number(0), number(0)))
    check("being seen by its supervisor", libc.prctl(PR_SET_DUMPABLE, number(1), number(0), number(0), number(0)))
    restrict_files(plan["files"])
    for instructions in plan["filters"]:
        program = Filter(len(instructions) // 8, instructions)
        check("filtering system calls", libc.prctl(PR_SET_SECCOMP, number(2), ctypes.byref(program), number(0), number(0)))


def close_all(keep):
    low = 0
    for fd in sorted(keep):
        if low < fd:  # of an empty range some versions close all
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 1 << 16)


def become(sock, lifeline):
    """Returns in the process of a program, which is in its cage, with its plan."""
    orders, fds = serve(sock)
    plan_fd, status, faults, *standard, answer = fds
    try:
        parent = separate(orders, answer)
        os.close(answer)
        with open(plan_fd, "rb") as f:
            plan = json.load(f)
        plan["filters"] = [base64.b64decode(f) for f in plan["filters"] or []]
        for step in plan["view"] or []:
            take(step)
        if plan["view"]:
            begin, go = os.pipe()
            program = os.fork()
            if program:
                close_all([status, lifeline, go])
                check("keeping this process to itself", libc.prctl(PR_SET_DUMPABLE, number(0), number(0), number(0), number(0)))
                capabilities()
                os.write(go, b"x")
                os.close(go)
                first(program, status, lifeline)
            check("ending with its first process", libc.prctl(PR_SET_PDEATHSIG, number(9), number(0), number(0), number(0)))
            os.close(go)
            if not os.read(begin, 1):
                os._exit(1)
        else:
            while os.getppid() == parent:  # whoever supervises inherits it
                time.sleep(0.0005)
            check("ending with its supervisor", libc.prctl(PR_SET_PDEATHSIG, number(9), number(0), number(0), number(0)))
        for to, fd in enumerate(standard):
            os.dup2(fd, to)
        close_all([0, 1, 2, faults])
        cage(plan)
        os.close(faults)
        return plan
    except BaseException as e:
        os.write(faults, ("%s" % (e if isinstance(e, Fault) else repr(e))).encode())
        os._exit(1)


def prepare(plan):
    """Makes this interpreter look new, and returns what it is to run and where."""
    os.environ.clear()
    for entry in plan["env"]:
        name, _, value = entry.partition("=")
        os.environ[name] = value
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    seed = plan["seed"]
    random.seed(seed)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(seed)
    main = types.ModuleType("__main__")
    main.__annotations__ = {}
    main.__builtins__ = sys.modules["builtins"]
    args = plan["args"][1:]
    if args[0] == "-c":
        source, name = args[1], "<string>"
        sys.argv, sys.path[0] = ["-c"] + args[2:], ""
    else:
        source, name = None, args[0]
        sys.argv, sys.path[0] = args, os.path.dirname(os.path.realpath(name))
        main.__file__ = name
        main.__cached__ = None
    sys.modules["__main__"] = main
    sys.orig_argv = list(plan["args"])
    return main, source, name


def run(main, source, name):
    try:
        if source is None:
            with io.open_code(os.path.abspath(name)) as f:
                source = f.read()
        exec(compile(source, name, "exec"), main.__dict__)
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return (e.code or 0) & 0xFF
        print(e.code, file=sys.stderr)
        return 1
    except BaseException as e:
        trace = e.__traceback__.tb_next
        sys.excepthook(type(e), e.with_traceback(trace), trace)
        if isinstance(e, KeyboardInterrupt):  # ends by the signal, as others see it
            sys.stdout.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return 1
    return 0


def start():
    sock, lifeline = socket.socket(fileno=3), 4
    try:
        for module in json.loads(sys.argv[1]):
            importlib.import_module(module)
    except BaseException as e:
        sock.send(repr(e).encode()[:60000])
        sys.exit(1)
    shared = [line.split(None, 5)[-1] for line in open("/proc/self/maps") if line.split()[1][1::2] == "ws"]
    if shared:
        sock.send(("they share memory that all programs could write: %s" % ", ".join(shared)).strip().encode()[:60000])
        sys.exit(1)
    sys.stdout.flush()
    gc.collect()
    gc.freeze()
    sock.send(b"ready")
    return become(sock, lifeline)


def leave(status):
    """Ends as an interpreter does, but leaves standing what was imported before the fork:
    to take it apart writes to most of this process's memory, which it shares with the
    interpreter, and so copies it: a third of what short programs take in all."""
    await_threads = getattr(sys.modules.get("threading"), "_shutdown", None)
    if await_threads:
        await_threads()
    atexit._run_exitfuncs()
    out = getattr(sys, "stdout", None)
    failure = flush(out)
    if failure:
        print("Exception ignored in: %r" % out, file=sys.__stderr__)
        trace = failure.__traceback__.tb_next
        sys.excepthook(type(failure), failure.with_traceback(trace), trace)
    if flush(getattr(sys, "stderr", None)) or failure:
        status = 120
    flush_all()  # a file in a cycle may lose what it holds as the cycle is collected
    sys.modules.pop("__main__", None)  # the last to hold what the program has named
    gc.collect()
    flush_all()  # what that has written
    os._exit(status)


def flush_all():
    for o in gc.get_objects():  # of the program alone: others are frozen
        if isinstance(o, (io.TextIOWrapper, io.BufferedWriter)):
            flush(o)
    flush(sys.__stdout__)
    flush(sys.__stderr__)


def flush(f):
    """Returns why a file cannot be flushed, of which an interpreter that ends says
    nothing but for standard output."""
    try:
        if f is not None and not f.closed:
            f.flush()
    except Exception as e:
        return e


plan = start()
leave(run(*prepare(plan)))

# Writes to whatever it can, and finds what another one wrote. It is the code of a
# case that wants to tell the next one something, and of the next one.
#
# It has no list of paths: it walks from the root and tries each. Kernel objects
# cannot be walked; they are in the one table OBJECTS, each with how to leave it and
# how to find it.
import ctypes, fcntl, hashlib, json, mmap, os, platform, resource, signal, socket, stat, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
MARK = "tally-remains"
KEY, PORT = 0x7A11, 47811


def numbers(**both):
    return {name: n[1 if ARM else 0] for name, n in both.items()}


SYS = numbers(shmget=(29, 194), shmctl=(31, 195), semget=(64, 190), semctl=(66, 191), msgget=(68, 186), msgsnd=(69, 189), msgrcv=(70, 188),
    mq_open=(240, 180), add_key=(248, 217), request_key=(249, 218), keyctl=(250, 219), memfd_create=(319, 279), sethostname=(170, 161),
    setdomainname=(171, 162), clock_settime=(227, 112), unshare=(272, 97), mount=(165, 40), personality=(135, 92), ioprio_set=(251, 30),
    ioprio_get=(252, 31), prctl=(157, 167), setns=(308, 268))


def call(name, *args):
    ctypes.set_errno(0)
    r = libc.syscall(SYS[name], *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        raise OSError(ctypes.get_errno(), name)
    return r


def quiet(f, *args):
    """What f says, or None: most of what is tried here is denied."""
    try:
        return f(*args)
    except Exception:
        return None


# ---- paths

def paths():
    """Every path from the root, in folders first; and whether it is a folder. Links are not followed."""
    waiting = ["/"]
    while waiting:
        folder = waiting.pop()
        yield folder, True
        for e in quiet(lambda: list(os.scandir(folder))) or []:
            if quiet(lambda: e.is_dir(follow_symlinks=False)):
                waiting.append(e.path)
            else:
                yield e.path, False


def own(path):
    """What /proc shows of processes is theirs, and goes with them."""
    parts = path.split("/")
    return len(parts) > 2 and parts[1] == "proc" and (parts[2].isdigit() or parts[2] in ("self", "thread-self"))


def others(content):
    """What to write to a file that has a content, which may be a number."""
    yield MARK.encode() + b"\n"
    for word in (content or b"").split()[:1]:
        if word.isdigit():
            for n in int(word) + 1, int(word) - 1, 0, 1, 2, 4096:
                if n != int(word):
                    yield b"%d\n" % n


def leave_in_folder(folder):
    at = folder.rstrip("/") + "/" + MARK
    tries = {
        "file": lambda: open(at + "-file", "w").write(MARK), "folder": lambda: os.mkdir(at + "-folder"),
        "link": lambda: os.symlink(MARK, at + "-link"), "pipe": lambda: os.mkfifo(at + "-pipe"),
        "socket": lambda: socket.socket(socket.AF_UNIX).bind(at + "-socket"), "hard link": lambda: os.link(__file__ if "__file__" in globals() else "/etc/passwd", at + "-hard"),
        "device": lambda: os.mknod(at + "-device", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
    }
    for what, f in tries.items():
        if quiet(lambda: (f(), True)):
            yield what
    if not own(folder):
        for e in quiet(os.listdir, folder) or []:
            if MARK not in e and quiet(lambda: (os.rename(folder.rstrip("/") + "/" + e, at + "-renamed-" + e), True)):
                yield "renamed " + e
    yield from leave_on(folder)


def leave_on(path):
    """The mode, times and further attributes of what is there."""
    mode = quiet(lambda: stat.S_IMODE(os.lstat(path).st_mode)) or 0
    if quiet(lambda: (os.chmod(path, mode ^ 0o1, follow_symlinks=not os.path.islink(path)), True)):
        yield "mode"
    if quiet(lambda: (os.utime(path, (1, 1), follow_symlinks=False), True)) or quiet(lambda: (os.utime(path, follow_symlinks=False), True)):
        yield "times"
    for name in "user.", "trusted.", "security.":
        if quiet(lambda: (os.setxattr(path, name + MARK, b"x", follow_symlinks=False), True)):
            yield name + "attribute"


def leave_in_file(path):
    kind = quiet(lambda: os.lstat(path).st_mode) or 0
    if stat.S_ISREG(kind):
        before = quiet(lambda: open(path, "rb").read(4096))
        for text in others(before):
            if quiet(lambda: (open(path, "r+b", buffering=0).write(text), True)):
                yield "content"
                break
        if not own(path) and quiet(lambda: (os.truncate(path, 0), True)):
            yield "length"
    yield from leave_on(path)


def leave_paths():
    left = []
    for path, is_folder in paths():
        if os.path.basename(path).startswith(MARK):
            continue
        for what in (leave_in_folder if is_folder else leave_in_file)(path):
            left.append(f"{what} at {path}")
    return left


def find_paths():
    found = []
    for path, is_folder in paths():
        if MARK in path:
            found.append("the path " + path)
        if MARK in (quiet(os.readlink, path) or ""):
            found.append("the link " + path)
        for a in quiet(lambda: os.listxattr(path, follow_symlinks=False)) or []:
            if MARK in a:
                found.append(f"the attribute {a} of {path}")
        if not is_folder and not own(path) and (quiet(lambda: stat.S_ISREG(os.lstat(path).st_mode) and os.lstat(path).st_size < 1 << 16)):
            content = quiet(lambda: open(path, "rb").read(1 << 16)) or b""
            if MARK.encode() in content and b"# Writes to whatever it can" not in content:
                found.append("the content of " + path)
    return found


# ---- kernel objects, each with how to leave it and how to find it

def abstract(): s = socket.socket(socket.AF_UNIX); s.bind("\0" + MARK); s.listen(); return s
def abstract_there(): socket.socket(socket.AF_UNIX).connect("\0" + MARK); return True
def port(family, kind, at):
    s = socket.socket(family, kind); s.bind((at, PORT))
    if kind == socket.SOCK_STREAM: s.listen()
    return s
def port_there(family, at): socket.socket(family).connect((at, PORT)); return True
def udp_there():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("127.0.0.1", PORT)); s.send(b"x"); s.settimeout(0.2)
    try: s.recv(1)
    except socket.timeout: return True  # a socket took it
    except OSError: return False
def shared_memory(): return call("shmget", KEY, 4096, 0o1666)
def semaphore(): return call("semctl", call("semget", KEY, 1, 0o1666), 0, 16, 7)
def message(): return call("msgsnd", call("msgget", KEY, 0o1666), struct.pack("l8s", 1, b"remains!"), 8, 0)
def posix_memory(): open("/dev/shm/" + MARK, "w").write(MARK)
def posix_queue(): return call("mq_open", MARK.encode(), 0o102, 0o666, 0)
def key(ring): return call("add_key", b"user", MARK.encode(), b"x", 1, ring)
def key_there(): return call("request_key", b"user", MARK.encode(), 0, 0) > 0
def ring(n): return [k for k in [call("keyctl", 10, n, b"user", MARK.encode(), 0)] if k > 0]
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for s in range(1, 65): quiet(signal.signal, s, signal.SIG_IGN)
            quiet(libc.prctl, 15, MARK.encode()[:15])
            libc.prctl(38, 1)
            for f in abstract, lambda: port(socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1"), lambda: call("memfd_create", MARK.encode(), 0): kept.append(quiet(f))
            while True: time.sleep(1)
        os._exit(0)
    os.wait()
def others_alive(): return [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
def lowered(): [quiet(resource.setrlimit, r, (0, 0)) for r in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK)]; return [quiet(resource.prlimit, p, resource.RLIMIT_NOFILE, (64, 64)) for p in (1, os.getppid(), 0)]
def terminal():
    import pty
    return pty.openpty()
def terminals(): return [n for n in os.listdir("/dev/pts") if n.isdigit()]
def memory_there():
    return [l for l in open("/proc/sysvipc/shm").read().splitlines()[1:]] if os.path.exists("/proc/sysvipc/shm") else False
def ordered(): return libc.nice(5), os.setpriority(os.PRIO_USER, 0, 7), os.setpriority(os.PRIO_PROCESS, 1, 7), quiet(call, "ioprio_set", 3, 0, 3 << 13)
def named(): return quiet(call, "sethostname", MARK.encode(), len(MARK)), quiet(call, "setdomainname", MARK.encode(), len(MARK)), quiet(open("/proc/sys/kernel/hostname", "w").write, MARK)
def watch():
    fd = libc.inotify_init1(0)
    if fd < 0: raise OSError
    [libc.inotify_add_watch(fd, d.encode(), 0xFFF) for d in ("/", "/work", "/tmp", "/dev")]

kept = []

OBJECTS = {  # name: how to leave it, how to find it
    "abstract socket": (abstract, abstract_there),
    "port of TCP": (lambda: port(socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1"), lambda: port_there(socket.AF_INET, "127.0.0.1")),
    "port of TCP, IPv6": (lambda: port(socket.AF_INET6, socket.SOCK_STREAM, "::1"), lambda: port_there(socket.AF_INET6, "::1")),
    "port of UDP": (lambda: port(socket.AF_INET, socket.SOCK_DGRAM, "127.0.0.1"), udp_there),
    "shared memory": (shared_memory, lambda: call("shmget", KEY, 0, 0) >= 0),
    "shared memory in /proc": (shared_memory, memory_there),
    "semaphore": (semaphore, lambda: call("semget", KEY, 0, 0) >= 0),
    "message queue": (message, lambda: call("msgget", KEY, 0) >= 0),
    "POSIX shared memory": (posix_memory, lambda: os.path.exists("/dev/shm/" + MARK)),
    "POSIX message queue": (posix_queue, lambda: call("mq_open", MARK.encode(), 0, 0, 0) >= 0),
    **{f"key in ring {n}": ((lambda n: lambda: key(n))(n), (lambda n: lambda: ring(n))(n)) for n in (-1, -2, -3, -4, -5)},
    "key": (lambda: key(-3), key_there),
    "process": (daemon, lambda: [p for p in others_alive() if MARK[:15] in open("/proc/%s/comm" % p).read()]),
    "limits": (lowered, lambda: False),  # state tells
    "umask": (lambda: os.umask(0o377), lambda: os.umask(0o22) == 0o377),
    "terminal": (lambda: kept.append(terminal()), terminals),
    "priority": (ordered, lambda: False),  # the same
    "host name": (named, lambda: MARK in str(os.uname()) or MARK in open("/proc/sys/kernel/hostname").read() or MARK in open("/proc/sys/kernel/domainname").read()),
    "clock": (lambda: call("clock_settime", 0, struct.pack("qq", 1, 0)), lambda: time.time() < 1e9),
    "memory file": (lambda: kept.append(call("memfd_create", MARK.encode(), 0)), lambda: [l for l in (quiet(os.readlink, "/proc/self/fd/" + f) or "" for f in os.listdir("/proc/self/fd")) if MARK in l]),
    "watch": (lambda: kept.append(watch()), lambda: [l for l in (quiet(os.readlink, "/proc/self/fd/" + f) or "" for f in os.listdir("/proc/self/fd")) if "inotify" in l]),
    "environment": (lambda: os.environ.__setitem__("REMAINS", MARK), lambda: "REMAINS" in os.environ),
    "personality": (lambda: call("personality", 0x0040000), lambda: call("personality", 0xFFFFFFFF) & 0x0040000),
}


def leave_objects():
    left = []
    for name, (f, _) in OBJECTS.items():
        try:
            kept.append(f())
            left.append(name)
        except Exception:
            pass
    return left


def find_objects():
    return ["the " + name for name, (_, there) in OBJECTS.items() if quiet(there)]


# ---- as user 0 of a user namespace of its own, where a kernel that lets it have one lets it mount

def elsewhere(f):
    """Run f in a child with its own namespaces and everything mounted anew, to write. Where it may have none, it
    reaches no more than before."""
    if quiet(os.fork) != 0:
        return quiet(os.wait)
    if quiet(call, "unshare", 0x10000000 | 0x20000) is not None:
        for kind in "proc", "sysfs", "mqueue", "devpts", "devtmpfs", "cgroup", "cgroup2":
            quiet(os.mkdir, "/tmp/" + kind)
            quiet(call, "mount", kind.encode(), b"/tmp/" + kind.encode(), kind.encode(), 0, 0)
        quiet(call, "mount", b"", b"/proc", b"", 0x20 | 0x1000, 0)
        f()
    os._exit(0)


# ---- what is there: the same before and after

def facts(path, is_folder):
    """Each fact by itself: some are others in every case, like the times of what was made for it."""
    s = os.lstat(path)
    yield "mode", [oct(s.st_mode), s.st_uid, s.st_gid]
    yield "attributes", sorted(quiet(lambda: os.listxattr(path, follow_symlinks=False)) or [])
    if path != "/proc" and not path.startswith("/proc/"):  # whose names are those of processes
        yield "times", s.st_mtime_ns
        yield "names", s.st_nlink
    if stat.S_ISLNK(s.st_mode):
        yield "link", os.readlink(path)
    elif not is_folder and not path.startswith("/proc/"):
        yield "size", s.st_size
    if path == "/proc/sys/kernel/ns_last_pid":
        return  # of this case's own processes
    if path.startswith("/proc/sys/") and stat.S_ISREG(s.st_mode) and s.st_mode & 0o222:
        yield "content", quiet(lambda: open(path).read(4096))


def state():
    seen = {}
    for path, is_folder in paths():
        if not own(path) and path != "/work":
            for what, fact in quiet(lambda: list(facts(path, is_folder))) or []:
                seen.setdefault(what, {})[path] = fact
    status = dict(l.split(":", 1) for l in (quiet(lambda: open("/proc/self/status").read()) or "").splitlines() if ":" in l)
    seen["process"] = {
        "others": len(others_alive()),
        "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
        "status": {n: status.get(n, "").strip() for n in ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Cpus_allowed")},
        "environment": {k: v for k, v in os.environ.items() if k != "SECRET"}, "descriptors": len(quiet(os.listdir, "/proc/self/fd") or []),
        "priority": [os.getpriority(os.PRIO_PROCESS, 0), quiet(call, "ioprio_get", 1, 0), os.sched_getscheduler(0)],
        "name": list(os.uname()), "folder": os.getcwd(), "keys": quiet(lambda: open("/proc/keys").read().count("\n")),
        "adjusted": quiet(lambda: open("/proc/self/oom_score_adj").read()), "first adjusted": quiet(lambda: open("/proc/1/oom_score_adj").read()),
    }
    return seen


def remains(order):
    if order == "leave":
        said = {"left": leave_objects()}
        elsewhere(lambda: leave_paths())
        said["left"] += leave_paths()
    else:
        said = {"found": find_paths() + find_objects(), "state": state()}
    print(json.dumps(said), flush=True)


remains(sys.stdin.readline().strip())

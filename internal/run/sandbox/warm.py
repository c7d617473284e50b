# Imports what the agent imports, once, and forks a process for each case. It
# runs inside the sandbox, started with the agent's own command line. It has no
# network, no token and no case: what it imports is the same for all of them.
#
# Descriptor 3 takes what was imported, brings for each case its number with the
# descriptors of its room, its task and its streams, and takes the status of each.
# A fork has joined its room, and has given up every right and every other
# descriptor, before it reads its task: the preloader never sees one.
import sys

sys.path[0:1] = []  # the folder of this file

import ast, ctypes, gc, hashlib, importlib, importlib.util, json, os, runpy, select, socket, threading, time, traceback

ours = set(sys.modules)


class Unfit(Exception):
    pass


def command(argv):
    """The file or module that the agent is, and its arguments."""
    if argv[:1] == ["-m"] and len(argv) > 1:
        return None, argv[1], argv[2:]
    return argv[0], None, argv[1:]


def top_level(tree):
    """The import statements that running the file makes in any case, and whether failing is provided for."""
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, False
        elif isinstance(node, ast.Try):
            for inner in node.body:
                if isinstance(inner, (ast.Import, ast.ImportFrom)):
                    yield inner, True


def preload(path, package=None):
    with open(path, "rb") as f:
        source = f.read()
    for node, may_fail in top_level(ast.parse(source, path)):
        try:
            if isinstance(node, ast.Import):
                for name in node.names:
                    load(name.name, path, node)
            else:
                load_from(node, package, path)
        except ImportError:
            if not may_fail:
                raise


def load(name, path, node):
    before = threading.active_count()
    importlib.import_module(name)
    if threading.active_count() > before:
        raise Unfit(f"{os.path.basename(path)}, line {node.lineno}: importing {name} starts a thread, which no fork has")


def load_from(node, package, path):
    name = "." * node.level + (node.module or "")
    if node.level and package is None:
        return
    full = importlib.util.resolve_name(name, package)
    load(full, path, node)
    for alias in node.names:
        if alias.name != "*" and not hasattr(sys.modules[full], alias.name):
            try:
                load(full + "." + alias.name, path, node)
            except ModuleNotFoundError:
                pass  # the agent's own line will say so


def preload_all(path, module, args):
    if path is not None:
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        preload(path)
        return
    sys.path.insert(0, "/work")
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(module + ".__main__")
    if spec is None or not spec.has_location:
        raise Unfit(f"there is no module {module} with a source file")
    preload(spec.origin, spec.parent)
    if module == "tallystick" and len(args) == 1:  # whose agent is a file
        importlib.import_module("tallystick.agent")
        sys.path.insert(0, os.path.dirname(os.path.abspath(args[0])))
        preload(args[0])
        del sys.path[0]


def imported(path, module, args):
    began = time.monotonic()
    said = {}
    try:
        preload_all(path, module, args)
        others = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
        if others:
            raise Unfit("imports started the thread " + others[0] + ", which no fork has")
        if not hasattr(socket, "recv_fds") or not hasattr(os, "pidfd_open"):
            raise Unfit("Python %d.%d is too old, 3.9 is needed" % sys.version_info[:2])
    except Unfit as e:
        said["failed"] = str(e)
    except BaseException as e:
        said["failed"] = "".join(traceback.format_exception_only(type(e), e)).strip()[-2000:]
        said["network"] = isinstance(e, OSError) and not isinstance(e, FileNotFoundError) or "Connection" in type(e).__name__
        for frame in traceback.extract_tb(e.__traceback__):
            if frame.filename != __file__ and not frame.filename.startswith("<") and os.path.basename(os.path.dirname(frame.filename)) != "importlib":
                said["at"] = "%s:%d" % (frame.filename, frame.lineno)
                break
    return count(said, began)


def count(said, began):
    modules = sorted(set(sys.modules) - ours)
    said["modules"], said["digest"] = len(modules), hashlib.sha256("\n".join(modules).encode()).hexdigest()
    said["milliseconds"] = int(1000 * (time.monotonic() - began))
    return said


def import_more(names):
    """Import what a rehearsal imported, as far as it is installed: the agent's own modules may want their case."""
    began = time.monotonic()
    places = tuple(os.path.join(p, "") for p in {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.__file__)})
    for name in names:
        try:
            spec = importlib.util.find_spec(name)
            if spec is not None and (not spec.has_location or spec.origin.startswith(places)):
                importlib.import_module(name)
        except Exception:
            pass  # the agent's own line will say so, if it comes to that
    return count({}, began)


libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4


def call(name, *args):
    if getattr(libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, name + ": " + os.strerror(number))


def drop():
    """Give up every right. Nothing that this process starts gets one back."""
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    call("capset", header, none)


def landlock(*writable):
    """Deny all but reading and executing files elsewhere, and reaching out of here, as far as the kernel knows how."""
    create, add, restrict = 444, 445, 446
    version = libc.syscall(create, None, 0, 1)
    if version < 2:
        return
    files = (1 << 13) - 1 | 1 << 13 | (1 << 14 if version >= 3 else 0) | (1 << 15 if version >= 5 else 0)
    rules = libc.syscall(create, (ctypes.c_uint64 * 3)(files, 0, 3 if version >= 6 else 0), 24, 0)
    if rules < 0:
        return
    for name, access in [("/", 1 | 1 << 2 | 1 << 3)] + [(w, files) for w in writable]:
        fd = os.open(name, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(add, rules, 1, ctypes.create_string_buffer(access.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)), 0)
        os.close(fd)
    libc.syscall(restrict, rules, 0)
    os.close(rules)


pieces = []


def settle_memory():
    gc.collect()
    gc.freeze()  # or the first collection of every case would copy every page
    pieces[:] = writable_pieces()


def serve(keeper):
    """Fork for each case. Returns the task, in the fork."""
    settle_memory()
    running, first = {}, True
    ready = select.poll()
    ready.register(keeper, select.POLLIN)
    while True:
        for fd, _ in ready.poll():
            if fd != keeper.fileno():
                case, child = running.pop(fd)
                ready.unregister(fd)
                os.close(fd)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                keeper.send(b"%d %d" % (case, status if status >= 0 else 128 - status))
                continue
            message, doors, _, _ = socket.recv_fds(keeper, 1 << 17, 16)
            if not message:
                os._exit(0)
            if message[:1] == b"[":
                keeper.send(json.dumps(import_more(json.loads(message))).encode())
                settle_memory()
                continue
            case, _, copies = message.partition(b" ")
            case = int(case)
            child = fork_between(doors[0]) if first else fork(doors[0])
            first = False
            if child is None:
                keeper.send(b"%d %d" % (case, 128 + 9))  # its room is gone
            if child == 0:
                for other in running:
                    os.close(other)
                return enter(keeper, doors, copies)
            for door in doors:
                os.close(door)
            if child is None:
                continue
            fd = os.pidfd_open(child)
            running[fd] = case, child
            ready.register(fd, select.POLLIN)


def fork_between(door):
    """Fork for a rehearsal. Who has joined a process namespace can start no thread any more (in gVisor never again),
    so an import that wants one would find none, and nobody would notice: a process between joins in our place."""
    between = os.fork()
    if between:
        return between
    child = fork(door)
    if child == 0:
        return 0
    status = 128 + 9 if child is None else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def fork(door):
    for _ in range(100):
        try:
            call("setns", door, 0)  # for what is forked
            return os.fork()
        except BlockingIOError:
            time.sleep(0.02)  # a case that forks without end is ended soon
        except OSError:
            break
    return None


class Piece(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def writable_pieces():
    """One byte of every 2 MiB that this process may write to: so much gVisor copies at once, when it is written to."""
    pieces = []
    with open("/proc/self/maps") as f:
        for line in f:
            place, rights = line.split()[:2]
            at, end = (int(x, 16) for x in place.split("-"))
            while rights.startswith("rw-p") and at < end and "[stack]" not in line:
                pieces.append(Piece(at, 1))
                at = (at | (1 << 21) - 1) + 1
    return pieces


def own_memory():
    """Have gVisor copy what is shared with the preloader now, while nobody waits for it: a case writes to most of it.
    Bytes are copied onto themselves, in one call, so that nothing changes them in between."""
    for i in range(0, len(pieces), 1024):
        some = (Piece * len(pieces[i : i + 1024]))(*pieces[i : i + 1024])
        libc.process_vm_readv(os.getpid(), some, len(some), some, len(some), 0)


def enter(keeper, doors, copies):
    """Join the room and become like a program that was started there."""
    if copies:
        own_memory()  # before: what is called in the room counts as the agent's
    for to, given in enumerate(doors[-3:]):
        os.dup2(given, to)
    os.setsid()
    for door in doors[1:-4]:
        call("setns", door, 0)
    drop()
    with open(doors[-4], "rb", closefd=False) as f:
        task = json.loads(f.read())
    keeper.close()
    for door in doors:
        os.close(door)
    if task["landlock"]:
        landlock("/work", "/tmp", "/dev")
    os.chdir(task["dir"])
    os.environ.clear()
    os.environ.update(e.split("=", 1) for e in task["env"])
    return task


def reseed():
    """What was seeded when it was imported. The module random does it by itself."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def settle_path(first):
    sys.path[0] = first
    for place in [p for p in sys.path_importer_cache if p.startswith("/work") or p.startswith("/tmp")]:
        del sys.path_importer_cache[place]  # it was not there when we looked
    importlib.invalidate_caches()


def run(path, module, args):
    """As the interpreter itself would start a file or a module."""
    sys.orig_argv[1:] = ["-m", module] + args if path is None else [path] + args
    main = sys.modules["__main__"] = type(sys)("__main__")  # or the agent's names would be those of this file
    if path is None:
        settle_path(os.getcwd())
        sys.argv[:] = ["-m"] + args
        runpy._run_module_as_main(module)
        return
    settle_path(os.path.dirname(os.path.abspath(path)))
    sys.argv[:] = [path] + args
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None, __annotations__={},
                         __loader__=importlib.machinery.SourceFileLoader("__main__", path))
    with open(path, "rb") as f:
        source = f.read()
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def exit_status(path, module, args):
    """Run the agent and say its status, as the interpreter would."""
    try:
        run(path, module, args)
        return 0
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return (e.code or 0) & 0xFF
        print(e.code, file=sys.stderr)
        return 1
    except BaseException as e:
        tb = e.__traceback__
        for _ in range(2):  # without this file
            tb = tb and tb.tb_next
        sys.excepthook(type(e), e.with_traceback(tb), tb)
        return 130 if isinstance(e, KeyboardInterrupt) else 1


def leave_names(path, before):
    """At the end of a rehearsal: what was imported for it, in that order."""
    with open(path, "w") as f:
        f.writelines(n + "\n" for n in list(sys.modules) if n not in before)


def finish(status, before):
    """End as the interpreter would, but leave what was imported for all cases alone: to take it apart would
    copy all of it first."""
    threading._shutdown()
    import atexit

    atexit._run_exitfuncs()
    for name in [n for n in sys.modules if n not in before or n == "__main__"]:
        module = sys.modules.pop(name, None)
        if name == "__main__" and module is not None:
            module.__dict__.clear()  # closes what is open
        del module
    gc.collect()
    for stream in sys.stdout, sys.stderr:
        try:
            stream.flush()
        except (AttributeError, ValueError):
            pass
        except OSError:
            status = status or 120
    os._exit(status)


def main():
    path, module, args = command(sys.argv[1:])
    keeper = socket.socket(fileno=os.dup(3))
    os.close(3)
    os.set_inheritable(keeper.fileno(), False)
    said = imported(path, module, args)
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDWR)
    for to in range(3):  # the streams of the imports end here
        os.dup2(null, to)
    os.close(null)
    keeper.send(json.dumps(said).encode())
    if "failed" in said:
        os._exit(1)
    task = serve(keeper)
    reseed()
    before = set(sys.modules)
    status = exit_status(path, module, args)
    if task["names"]:
        leave_names(task["names"], before)
    finish(status, before)


main()

# Forks a fresh process for each run of a rubric. It runs inside the sandbox,
# started with the rubric's path and the number of runs that it is good for.
#
# Descriptor 3 brings a line "run user" for each; 4 takes the process's number.
# From 5 on are the three streams of every run. A run is forked before anything
# of its input was read, and has given up every other descriptor and every
# right before the rubric's first line.
import gc, os, sys

for name in "json", "re", "math", "string", "datetime", "difflib":  # what rubrics use; each costs a run more than all cost here
    try:
        __import__(name)
    except ImportError:
        pass


def line():
    text = b""
    while not text.endswith(b"\n"):
        byte = os.read(3, 1)
        if not byte:
            os._exit(0)
        text += byte
    return text


def serve(runs):
    gc.collect()
    gc.freeze()  # or the first collection of every run would copy every page
    os.write(4, b"ready\n")
    while True:
        run, user = map(int, line().split())
        streams = range(5 + 3 * run, 8 + 3 * run)
        child = os.fork()
        if child == 0:
            for to, given in enumerate(streams):
                os.dup2(given, to)
            os.closerange(3, 5 + 3 * runs)
            os.setsid()
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            return
        for given in streams:
            os.close(given)
        os.write(4, b"%d\n" % child)


def main():
    path = sys.argv[1]
    serve(int(sys.argv[2]))
    # As the interpreter itself would start a script.
    module = type(sys)("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None, __annotations__={})
    sys.modules["__main__"] = module
    sys.argv[:] = [path]
    sys.path[0] = os.path.dirname(path)
    try:
        with open(path, "rb") as f:
            source = f.read()
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    except SystemExit:
        raise
    except BaseException as e:
        e.with_traceback(e.__traceback__ and e.__traceback__.tb_next)  # without this file
        sys.excepthook(type(e), e, e.__traceback__)
        sys.exit(1)


main()

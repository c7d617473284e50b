# Compiles the standard library into a folder of .pyc files:
# python3 Lib mklib.py OUT. The bytes depend on the library alone. A zip would be
# one file, but CPython takes longer to read its directory than to start.

import importlib._bootstrap_external as external
import importlib.util
import marshal
import os
import sys

lib, out = sys.path[-1], sys.argv[1]

# What no rubric needs, or what needs a C module that is not built.
skipped = {
    "__pycache__", "asyncio", "concurrent", "ctypes", "curses", "dbm", "ensurepip", "http", "idlelib",
    "lib2to3", "multiprocessing", "pydoc_data", "site-packages", "sqlite3", "sysconfig", "test", "tests", "tkinter",
    "turtledemo", "unittest", "venv", "wsgiref", "xmlrpc",
}
skipped_files = {
    "_aix_support.py", "_android_support.py", "_apple_support.py", "_ios_support.py", "_osx_support.py", "antigravity.py", "ftplib.py", "imaplib.py",
    "poplib.py", "pydoc.py", "smtplib.py", "socket.py", "socketserver.py", "ssl.py", "subprocess.py",
    "telnetlib.py", "this.py", "turtle.py", "webbrowser.py", "pty.py", "tty.py", "selectors.py",
}


def sources():
    for folder, folders, files in os.walk(lib):
        folders[:] = sorted(f for f in folders if f not in skipped)
        for name in sorted(files):
            path = os.path.join(folder, name)
            inside = os.path.relpath(path, lib)
            if name.endswith(".py") and inside not in skipped_files:
                yield path, inside


for path, inside in sorted(sources(), key=lambda s: s[1]):
    with open(path, "rb") as f:
        source = f.read()
    try:
        code = compile(source, "/lib/python/" + inside, "exec", dont_inherit=True, optimize=0)
    except SyntaxError:
        continue
    # Marshalling marks objects that are referenced twice, which depends on
    # what else is alive; a second round starts from a known state.
    code = marshal.loads(marshal.dumps(code))
    data = external._code_to_hash_pyc(code, importlib.util.source_hash(source), False)
    target = os.path.join(out, inside + "c")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as f:
        f.write(data)

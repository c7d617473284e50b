//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A host is what a hostile rubric would like to reach: listeners of every
// kind, a file, a variable. It counts what arrived.
type host struct {
	tcp, udp, abstract, unix string
	file, secret             string
	reached                  atomic.Int64
}

const secretVariable = "TALLYSTICK_TEST_SECRET"

func newHost(t *testing.T) *host {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "host")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o777)
	h := &host{secret: "swordfish-4711", file: filepath.Join(dir, "canary"), unix: filepath.Join(dir, "s"),
		abstract: "tallystick-test-" + filepath.Base(dir)}
	if err := os.WriteFile(h.file, []byte(h.secret), 0o666); err != nil {
		t.Fatal(err)
	}
	os.Chmod(h.file, 0o666)
	t.Setenv(secretVariable, h.secret)
	for _, l := range []struct{ network, addr string }{{"tcp", "127.0.0.1:0"}, {"unix", h.unix}, {"unix", "@" + h.abstract}} {
		ln, err := net.Listen(l.network, l.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		if l.network == "tcp" {
			h.tcp = ln.Addr().String()
		} else if !strings.HasPrefix(l.addr, "@") {
			os.Chmod(l.addr, 0o777)
		}
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				h.reached.Add(1)
				c.Close()
			}
		}()
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	h.udp = pc.LocalAddr().String()
	go func() {
		for {
			if _, _, err := pc.ReadFrom(make([]byte, 100)); err != nil {
				return
			}
			h.reached.Add(1)
		}
	}()
	return h
}

// checkUntouched fails the test when anything of the host was reached.
func (h *host) checkUntouched(t *testing.T, r Result) {
	t.Helper()
	if n := h.reached.Load(); n != 0 {
		t.Errorf("the host's listeners were reached %d times", n)
	}
	if b, err := os.ReadFile(h.file); err != nil || string(b) != h.secret {
		t.Errorf("the host's file is now %q, %v", b, err)
	}
	if strings.Contains(string(r.Stdout)+r.StderrHead, h.secret) {
		t.Errorf("the rubric read the secret: %s%s", r.Stdout, r.StderrHead)
	}
}

// hostilePrelude gives every rubric of the table the host's addresses and a
// function that calls and swallows every error, as a rubric that hides would.
const hostilePrelude = `
import sys, os, json, time
given = json.load(sys.stdin)["harness_output"]
report = {}
def attempt(name, f):
    try:
        r = f()
        report[name] = "did: " + (r if isinstance(r, str) else repr(r))[:2000]
    except BaseException as e:
        report[name] = "no: " + type(e).__name__ + " " + str(e)
def answer():
    print(json.dumps(report))
    sys.stdout.flush()
`

// A hostileCase is one rubric that tries something and what must come of it.
type hostileCase struct {
	name    string
	source  string
	limits  Limits
	verdict Verdict
	// attempted lists what must be seen, as "what detail" beginnings. A class
	// in front, "gvisor: ", limits it to that class.
	attempted []string
	// denied lists the names of attempts that must have failed inside.
	denied []string
	check  func(t *testing.T, r Result, report map[string]string)
}

var hostileCases = []hostileCase{
	{
		name: "reads the environment",
		source: `
attempt("environ", lambda: json.dumps(dict(os.environ)))
attempt("self", lambda: open("/proc/self/environ").read())
attempt("init", lambda: open("/proc/1/environ").read())
answer()`,
		verdict:   OK,
		attempted: []string{`environment open "/proc/self/environ"`, `environment open "/proc/1/environ"`},
		check: func(t *testing.T, r Result, report map[string]string) {
			var env map[string]string
			if err := json.Unmarshal([]byte(strings.TrimPrefix(report["environ"], "did: ")), &env); err != nil {
				t.Fatal(err)
			}
			for name := range env {
				switch name {
				case "HOME", "PYTHONHASHSEED", "PYTHONHOME", "LC_CTYPE":
				default:
					t.Errorf("the rubric's environment has %s=%q", name, env[name])
				}
			}
		},
	},
	{
		name: "resolves a name",
		source: `
import socket
attempt("dns", lambda: socket.gethostbyname("canary.invalid"))
answer()`,
		verdict: OK, denied: []string{"dns"},
		attempted: []string{"gvisor: network socket", "namespace: network socket"},
	},
	{
		name: "connects by TCP",
		source: `
import socket
host, port = given["tcp"].split(":")
attempt("tcp", lambda: socket.create_connection((host, int(port)), 2))
answer()`,
		verdict: OK, denied: []string{"tcp"},
		attempted: []string{"gvisor: network connect 127.0.0.1:", "namespace: network socket AF_INET"},
	},
	{
		name: "sends UDP",
		source: `
import socket
host, port = given["udp"].split(":")
def send():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b"hello", (host, int(port)))
attempt("udp", send)
answer()`,
		verdict:   OK,
		attempted: []string{"network socket AF_INET"},
	},
	{
		name: "connects to Unix sockets",
		source: `
import socket
def to(address):
    s = socket.socket(socket.AF_UNIX)
    s.connect(address)
attempt("abstract", lambda: to("\0" + given["abstract"]))
attempt("unix", lambda: to(given["unix"]))
answer()`,
		verdict: OK, denied: []string{"abstract", "unix"},
		attempted: []string{"network socket AF_UNIX", `gvisor: network connect unix @"tallystick-test-`},
	},
	{
		name: "reads files of the host",
		source: `
attempt("canary", lambda: open(given["file"]).read())
attempt("up", lambda: open("../../../../../../../.." + given["file"]).read())
attempt("passwd", lambda: open("/etc/passwd").read())
attempt("shadow", lambda: open("/etc/shadow").read())
attempt("root", lambda: os.listdir("/root"))
attempt("home", lambda: os.listdir("/home"))
attempt("list", lambda: json.dumps(sorted(os.listdir("/"))))
answer()`,
		verdict: OK, denied: []string{"canary", "up", "passwd", "shadow", "root", "home"},
		attempted: []string{`file open "/etc/passwd"`, `file open "/etc/shadow"`, `file open "/`},
	},
	{
		name: "hides a read behind chdir and a folder's descriptor",
		source: `
def inside():
    os.chdir("/")
    return open("etc/passwd").read()
attempt("chdir", inside)
def beside():
    d = os.open("/rubric", os.O_RDONLY)
    return os.read(os.open("../etc/passwd", os.O_RDONLY, dir_fd=d), 10)
attempt("dirfd", beside)
answer()`,
		verdict: OK, denied: []string{"chdir", "dirfd"},
		attempted: []string{`file open "/etc/passwd"`},
	},
	{
		name: "looks around in /proc and /sys",
		source: `
for p in ["/proc/1/cmdline", "/proc/self/mountinfo", "/proc/self/maps", "/proc/kallsyms", "/proc/net/tcp", "/proc/cmdline", "/sys/kernel/notes", "/proc/self/exe"]:
    attempt(p, lambda: open(p, "rb").read(4000).decode("latin-1"))
for p in ["/proc/sys/kernel/hostname", "/proc/self/mem", "/sys/kernel/mm/ksm/run", "/proc/sysrq-trigger"]:
    attempt("write " + p, lambda: open(p, "w").write("1"))
answer()`,
		verdict:   OK,
		denied:    []string{"write /proc/sys/kernel/hostname", "write /sys/kernel/mm/ksm/run", "write /proc/sysrq-trigger"},
		attempted: []string{`file open "/proc/1/cmdline"`, `file open "/proc/sys/kernel/hostname" for writing`},
		check: func(t *testing.T, r Result, report map[string]string) {
			for name, what := range report {
				if strings.Contains(what, scratch) || strings.Contains(what, filepath.Base(box)+"\x00") {
					t.Errorf("%s tells of the host: %q", name, what)
				}
			}
		},
	},
	{
		name: "forks",
		source: `
attempt("fork", os.fork)
import subprocess
attempt("subprocess", lambda: subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout)
attempt("system", lambda: os.system("id"))
attempt("spawn", lambda: os.posix_spawn(sys.executable, [sys.executable, "-c", "1"], {}))
answer()`,
		verdict: OK, denied: []string{"fork", "subprocess", "spawn"},
		attempted: []string{"process "},
	},
	{
		name: "replaces itself",
		source: `
os.execv(sys.executable, [sys.executable, "-S", "-c", "print('{}')"])`,
		verdict:   "", // answered inside gVisor, refused in namespaces
		attempted: []string{"process execve "},
	},
	{
		name: "bombs with forks",
		source: `
while True:
    try:
        os.fork()
    except BaseException:
        pass`,
		limits:    Limits{Timeout: 5 * time.Second},
		verdict:   Timeout,
		attempted: []string{"process "},
	},
	{
		name: "spreads memory over children each below the limit",
		source: `
children = 0
for _ in range(12):
    try:
        if os.fork() == 0:
            hoard = bytearray(180 << 20)
            for i in range(0, len(hoard), 4096): hoard[i] = 1
            time.sleep(5); os._exit(0)
        children += 1
    except BaseException:
        pass
report["children"] = str(children)
answer()`,
		limits:    Limits{MemoryBytes: 256 << 20},
		verdict:   OK,
		attempted: []string{"process "},
		check: func(t *testing.T, r Result, report map[string]string) {
			if report["children"] != "0" {
				t.Errorf("%s children were born", report["children"])
			}
		},
	},
	{
		name:    "allocates 4 GB at once",
		source:  `x = bytearray(4 << 30); answer()`,
		limits:  Limits{MemoryBytes: 256 << 20},
		verdict: OOM,
		check:   memoryBelow(512 << 20),
	},
	{
		name: "leaks slowly",
		source: `
hoard = []
while True:
    hoard.append(bytearray(1 << 20))`,
		limits:  Limits{MemoryBytes: 256 << 20},
		verdict: OOM,
		check:   memoryBelow(512 << 20),
	},
	{
		name: "hoards outside its address space",
		source: `
def memfd():
    fd = os.memfd_create("hoard")
    for _ in range(1024): os.write(fd, bytes(1 << 20))
attempt("memfd", memfd)
def tmp(path):
    with open(path, "wb") as f:
        for _ in range(1024): f.write(bytes(1 << 20))
attempt("tmp", lambda: tmp("/tmp/hoard"))
attempt("shm", lambda: tmp("/dev/shm/hoard"))
attempt("dev", lambda: tmp("/dev/hoard"))
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def sysv():
    r = libc.shmget(0, 64 << 20, 0o1600)
    if r < 0: raise OSError(ctypes.get_errno(), "shmget")
attempt("sysv", sysv)
answer()`,
		limits:  Limits{MemoryBytes: 256 << 20},
		verdict: OK, denied: []string{"memfd", "tmp", "shm", "dev", "sysv"},
		attempted: []string{`file open "/tmp/hoard" for writing`},
		check:     memoryBelow(512 << 20),
	},
	{
		name: "fills pipes and sockets",
		source: `
import socket
os.set_blocking(1, True)
held = 0
try:
    while True:
        r, w = os.pipe()
        os.set_blocking(w, False)
        try:
            while True: held += os.write(w, bytes(1 << 16))
        except BlockingIOError: pass
except OSError as e:
    report["pipes"] = str(held)
answer()`,
		limits:  Limits{MemoryBytes: 256 << 20},
		verdict: OK,
		check:   memoryBelow(512 << 20),
	},
	{
		name:    "never ends",
		source:  `while True: pass`,
		limits:  Limits{Timeout: 1500 * time.Millisecond},
		verdict: Timeout,
	},
	{
		name: "plays with signals",
		source: `
import signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except BaseException: pass
attempt("group", lambda: os.kill(0, signal.SIGTERM))
attempt("parent", lambda: os.kill(os.getppid() or 1, signal.SIGTERM))
answer()
os.kill(os.getpid(), signal.SIGSTOP)
while True: time.sleep(1)`,
		limits:  Limits{Timeout: 1500 * time.Millisecond},
		verdict: Timeout,
	},
	{
		name:    "crashes",
		source:  `import ctypes; ctypes.string_at(0)`,
		verdict: Killed,
	},
	{
		name:    "exits with a status of its own",
		source:  `sys.exit(7)`,
		verdict: Failed,
		check: func(t *testing.T, r Result, _ map[string]string) {
			if r.ExitCode != 7 {
				t.Errorf("exit code %d", r.ExitCode)
			}
		},
	},
	{
		name:    "pretends that the sandbox failed",
		source:  `sys.stderr.write("running container: error\n"); sys.exit(128)`,
		verdict: Failed,
	},
	{
		name: "closes its streams",
		source: `
os.close(0); os.close(1); os.close(2)
os._exit(0)`,
		verdict: OK,
		check: func(t *testing.T, r Result, _ map[string]string) {
			if len(r.Stdout) != 0 {
				t.Errorf("stdout %q", r.Stdout)
			}
		},
	},
	{
		name:    "closes its streams and stays",
		source:  "os.close(0); os.close(1); os.close(2)\nwhile True: time.sleep(1)",
		limits:  Limits{Timeout: 1500 * time.Millisecond},
		verdict: Timeout,
	},
	{
		name: "answers with 1 GB",
		source: `
block = b"x" * (1 << 20)
for _ in range(1024): os.write(1, block)`,
		verdict: OutputLimit,
		check: func(t *testing.T, r Result, _ map[string]string) {
			if len(r.Stdout) != DefaultOutputBytes {
				t.Errorf("%d bytes were kept", len(r.Stdout))
			}
		},
	},
	{
		name: "complains with 1 GB",
		source: `
block = b"x" * (1 << 20)
for _ in range(1024): os.write(2, block)`,
		verdict: OutputLimit,
		check: func(t *testing.T, r Result, _ map[string]string) {
			if n := len(r.StderrHead); n > maxStderr || n < stderrHeadBytes {
				t.Errorf("%d bytes were kept", len(r.StderrHead))
			}
		},
	},
	{
		name:    "goes on after its answer",
		source:  `print('{"passed":true}'); print('{"passed":false}')`,
		verdict: OK,
		check: func(t *testing.T, r Result, _ map[string]string) {
			if want := "{\"passed\":true}\n{\"passed\":false}\n"; string(r.Stdout) != want {
				t.Errorf("stdout %q, want all of %q: the caller must see that there is more", r.Stdout, want)
			}
		},
	},
	{
		name:    "answers with JSON 100000 deep",
		source:  `print("[" * 100000 + "]" * 100000)`,
		verdict: OK,
		check: func(t *testing.T, r Result, _ map[string]string) {
			if len(r.Stdout) != 200001 {
				t.Errorf("%d bytes came", len(r.Stdout))
			}
		},
	},
	{
		name: "sets the clock",
		source: `
attempt("read", time.time)
attempt("set", lambda: time.clock_settime(time.CLOCK_REALTIME, 0))
answer()`,
		verdict: OK, denied: []string{"set"},
		attempted: []string{"kernel clock_settime"},
	},
	{
		name: "calls the kernel directly",
		source: `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r
calls = {"mount": (165, b"none", b"/tmp", b"tmpfs", 0, 0), "unshare user": (272, 0x10000000), "unshare mount": (272, 0x20000), "setns": (308, 0, 0),
  "ptrace": (101, 16, 1, 0, 0), "bpf": (321, 0, 0, 0), "keyctl": (250, 0, -3, 0), "init_module": (175, 0, 0, b""), "kexec": (246, 0, 0, 0, 0),
  "perf": (298, 0, 0, -1, -1, 0), "userfaultfd": (323, 0), "io_uring": (425, 1, 0), "reboot": (169, 0xfee1dead, 672274793, 0x1234567, 0),
  "sethostname": (170, b"pwned", 5), "chroot": (161, b"/"), "pivot_root": (155, b"/", b"/"), "iopl": (172, 3), "swapon": (167, b"/x", 0),
  "process_vm_readv": (310, 1, 0, 0, 0, 0, 0), "open_by_handle_at": (304, 0, 0, 0), "clone3": (435, 0, 0), "vfork raw": (57,), "netlink": (41, 16, 3, 0), "packet": (41, 17, 3, 0)}
for name, c in calls.items():
    if name == "vfork raw":
        continue
    attempt(name, lambda: call(*c))
answer()`,
		verdict: OK,
		denied: []string{"mount", "setns", "bpf", "init_module", "kexec", "perf", "userfaultfd", "io_uring", "reboot", "sethostname",
			"pivot_root", "iopl", "swapon", "open_by_handle_at", "packet", "clone3"},
		attempted: []string{"kernel mount", "kernel unshare", "kernel setns", "process ptrace", "kernel bpf", "kernel keyctl", "kernel reboot", "kernel sethostname"},
		check: func(t *testing.T, r Result, _ map[string]string) {
			if name, _ := os.Hostname(); name == "pwned" {
				t.Error("the host was renamed")
			}
		},
	},
	{
		name: "calls in another numbering",
		source: `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(ctypes.c_long(0x40000000 + 41), ctypes.c_long(2), ctypes.c_long(1), ctypes.c_long(0)))`,
		verdict: "", // refused inside gVisor, deadly in namespaces
		check: func(t *testing.T, r Result, _ map[string]string) {
			if r.Verdict == OK && strings.TrimSpace(string(r.Stdout)) != "-1" {
				t.Errorf("the call was answered with %s", r.Stdout)
			}
		},
	},
	{
		name: "writes to its rubric and its image",
		source: `
attempt("rubric", lambda: open("/rubric/rubric.py", "w").write("pass"))
attempt("append", lambda: open("/rubric/rubric.py", "a").write("pass"))
attempt("beside", lambda: open("/rubric/new.py", "w").write("pass"))
attempt("unlink", lambda: os.remove("/rubric/rubric.py"))
attempt("rename", lambda: os.rename("/rubric/rubric.py", "/rubric/old.py"))
attempt("chmod", lambda: os.chmod("/rubric/rubric.py", 0o777))
attempt("python", lambda: open(sys.executable, "r+b").write(b"x"))
attempt("library", lambda: open(os.__file__, "r+b").write(b"x"))
attempt("mkdir", lambda: os.mkdir("/new"))
attempt("root", lambda: open("/new", "w"))
attempt("link", lambda: os.symlink("/etc", "/rubric/link"))
answer()`,
		verdict: OK, denied: []string{"rubric", "append", "beside", "unlink", "rename", "chmod", "python", "library", "mkdir", "root", "link"},
		attempted: []string{`file open "/rubric/rubric.py" for writing`},
	},
	{
		name: "starts threads",
		source: `
import threading
def start():
    t = threading.Thread(target=lambda: None); t.start(); t.join()
attempt("thread", start)
answer()`,
		verdict: OK, denied: []string{"thread"},
		check: func(t *testing.T, r Result, _ map[string]string) {
			if len(r.Attempted) != 0 {
				t.Errorf("a thread is no attempt to get out, but %v is listed", r.Attempted)
			}
		},
	},
	{
		name: "raises its own limits",
		source: `
import resource
for name in ["RLIMIT_AS", "RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE"]:
    attempt(name, lambda: resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)))
answer()`,
		verdict: OK, denied: []string{"RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_FSIZE"},
	},
	{
		name: "floods the watcher to hide a call",
		source: `
for i in range(5000):
    try: os.open("/rubric/absent", os.O_RDONLY)
    except OSError: pass
attempt("file", lambda: open("/etc/passwd"))
for i in range(5000):
    try: os.open("/rubric/absent", os.O_RDONLY)
    except OSError: pass
answer()`,
		verdict: OK, denied: []string{"file"},
		attempted: []string{`file open "/etc/passwd"`},
	},
}

func memoryBelow(n int64) func(*testing.T, Result, map[string]string) {
	return func(t *testing.T, r Result, _ map[string]string) {
		t.Helper()
		if r.MaxRSS > n {
			t.Errorf("%d bytes were used, the limit was 256 MiB", r.MaxRSS)
		}
	}
}

func TestHostileRubricsReachNothing(t *testing.T) {
	image := hostImage(t)
	eachClass(t, func(t *testing.T, class Class) {
		for _, c := range hostileCases {
			t.Run(c.name, func(t *testing.T) { testHostile(t, class, c) })
			// Once is enough: the ordinary user of a test run as root has it
			// fresh for each case.
			if class == GVisor && os.Getenv(imageVariable) == "" {
				t.Run(c.name+" in scope attempt", func(t *testing.T) { testHostile(t, class, c, attemptScope) })
			}
		}
		if err := image.Verify(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func testHostile(t *testing.T, class Class, c hostileCase, change ...func(*Options)) {
	h := newHost(t)
	input, err := json.Marshal(map[string]any{"harness_output": map[string]string{
		"tcp": h.tcp, "udp": h.udp, "abstract": h.abstract, "unix": h.unix, "file": h.file}})
	if err != nil {
		t.Fatal(err)
	}
	rubric := python(hostilePrelude + c.source)
	r := run(t, class, rubric, string(input), c.limits, change...)
	t.Logf("%s, status %d, %v, %d MiB, attempted %v", r.Verdict, r.ExitCode, r.Wall.Round(time.Millisecond), r.MaxRSS>>20, r.Attempted)

	h.checkUntouched(t, r)
	if c.verdict != "" && r.Verdict != c.verdict {
		t.Errorf("verdict %s, want %s; status %d, stdout %.500q, stderr %s", r.Verdict, c.verdict, r.ExitCode, r.Stdout, r.StderrHead)
	}
	report := map[string]string{}
	if bytes.HasPrefix(r.Stdout, []byte("{")) {
		json.NewDecoder(bytes.NewReader(r.Stdout)).Decode(&report)
	}
	for _, name := range c.denied {
		if !strings.HasPrefix(report[name], "no: ") {
			t.Errorf("%s was not denied: %q", name, report[name])
		}
	}
	for _, want := range c.attempted {
		checkAttempted(t, class, r, want)
	}
	if c.check != nil {
		c.check(t, r, report)
	}
}

func checkAttempted(t *testing.T, class Class, r Result, want string) {
	t.Helper()
	for _, c := range Classes() {
		if rest, ok := strings.CutPrefix(want, string(c)+": "); ok {
			if c != class {
				return
			}
			want = rest
		}
	}
	for _, a := range r.Attempted {
		if strings.HasPrefix(a.What+" "+a.Detail, want) {
			return
		}
	}
	t.Errorf("no attempt %q among %v", want, r.Attempted)
}

// A rubric that tries something, swallows the error and gives full marks is
// the one that the record must tell apart.
func TestSwallowedAttemptIsSeenBesideAPerfectScore(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		rubric := python(`
import socket
try: socket.create_connection(("127.0.0.1", 9), 1)
except Exception: pass
print('{"passed":true,"score":1.0}')`)
		r := run(t, class, rubric, "{}", Limits{})
		if r.Verdict != OK || !strings.Contains(string(r.Stdout), `"passed":true`) {
			t.Fatalf("verdict %s, stdout %s, stderr %s", r.Verdict, r.Stdout, r.StderrHead)
		}
		if len(r.Attempted) == 0 || r.Attempted[0].What != "network" {
			t.Errorf("attempted %v, want the network", r.Attempted)
		}
		blind := run(t, class, rubric, "{}", Limits{}, func(o *Options) { o.Blind = true })
		if blind.Watched || len(blind.Attempted) != 0 {
			t.Errorf("blind, but watched %v and attempted %v", blind.Watched, blind.Attempted)
		}
	})
}

func TestHostileStarlark(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		for _, c := range []struct {
			name, source string
			limits       Limits
			verdict      Verdict
			stderr       string
		}{
			{"never ends", "def score(a, b, c):\n  while True:\n    pass", Limits{Timeout: 2 * time.Second}, Timeout, ""},
			{"leaks", "def score(a, b, c):\n  x = []\n  while True:\n    x.append('a' * 1000000 + str(len(x)))", Limits{MemoryBytes: 256 << 20}, OOM, ""},
			{"doubles a string", "def score(a, b, c):\n  x = 'abcdefgh'\n  while True:\n    x = x + x", Limits{MemoryBytes: 256 << 20}, OOM, ""},
			{"opens a file", "def score(a, b, c):\n  return open('/etc/passwd')", Limits{}, Failed, "undefined: open"},
			{"loads a file of the host", "load('/etc/passwd', 'x')\ndef score(a, b, c): return x", Limits{}, Failed, "only files beside the rubric"},
			{"loads upwards", "load('../etc/passwd', 'x')\ndef score(a, b, c): return x", Limits{}, Failed, "only files beside the rubric"},
			{"asks for the time", "def score(a, b, c):\n  return time.now()", Limits{}, Failed, "undefined: time"},
			{"recurses", "def f(n): return f(n + 1)\ndef score(a, b, c):\n  return f(0)", Limits{}, Failed, "called recursively"},
			{"answers NaN", "def score(a, b, c):\n  return {'score': float('nan')}", Limits{}, Failed, "non-finite"},
			{"prints 1 GB", "def score(a, b, c):\n  for i in range(1 << 20):\n    print('x' * 1024)", Limits{}, OutputLimit, ""},
			{"answers with too much", "def score(a, b, c):\n  return 'x' * (1 << 21)", Limits{}, OutputLimit, ""},
			{"has no score", "x = 1", Limits{}, Failed, "defines no function score"},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := run(t, class, star(c.source), `{"harness_output":1,"expected":1,"case_metadata":{}}`, c.limits)
				t.Logf("%s, status %d, %v, %d MiB", r.Verdict, r.ExitCode, r.Wall.Round(time.Millisecond), r.MaxRSS>>20)
				if r.Verdict != c.verdict || !strings.Contains(r.StderrHead, c.stderr) {
					t.Errorf("verdict %s (%d), want %s; stderr %s", r.Verdict, r.ExitCode, c.verdict, r.StderrHead)
				}
				if r.MaxRSS > 700<<20 {
					t.Errorf("%d bytes were used", r.MaxRSS)
				}
			})
		}
	})
}

func TestOpenRefusesWhenNoAcceptedClassWorks(t *testing.T) {
	_, err := Open(context.Background(), Options{Accept: []Class{MicroVM}, Rubric: star(echoStar), Executable: box, TempDir: filepath.Join(scratch, "runs")})
	if err == nil {
		t.Skip("microvm works here")
	}
	if got := fmt.Sprint(err); !strings.Contains(got, "no accepted isolation class works here: microvm: ") {
		t.Error(got)
	}
}

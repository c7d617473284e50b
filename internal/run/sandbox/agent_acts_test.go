//go:build linux

package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/run/sandbox/calls"
)

// actsPrelude runs what each row of the table does, with every error swallowed,
// as an agent that hides would. SYS has the numbers of calls that Python does
// not offer.
const actsPrelude = `
import sys, os, json, socket, ctypes, struct, platform
given = json.load(sys.stdin)
w = given["workspace"]
libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
SYS = dict(openat2=437, clone3=435, open_by_handle_at=265 if ARM else 304, bpf=280 if ARM else 321, keyctl=219 if ARM else 250,
    init_module=105 if ARM else 175, pivot_root=41 if ARM else 155, clone=220 if ARM else 56, sendmmsg=269 if ARM else 307, umount2=39 if ARM else 166)
def call(name, *args): return libc.syscall(SYS[name], *args)
def openat2(dirfd, name, resolve=0): return call("openat2", dirfd, name, struct.pack("QQQ", 0, 0, resolve), 24)
def unix(name):
    s = socket.socket(socket.AF_UNIX); s.connect(name)
def udp(address): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM), address
def connect(address, family=socket.AF_INET):
    s = socket.socket(family); s.settimeout(1); s.connect(address)
def sendmmsg(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sa = ctypes.create_string_buffer(struct.pack("HH", 2, socket.htons(address[1])) + socket.inet_aton(address[0]) + bytes(8))
    empty = struct.pack("QIIQQQQIIII", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    full = struct.pack("QIIQQQQIIII", ctypes.addressof(sa), 16, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    call("sendmmsg", s.fileno(), ctypes.create_string_buffer(empty + full), 2, 0)
def at(dirfd, name): return os.open(name, os.O_RDONLY, dir_fd=dirfd)
def chdir(to, f):
    os.chdir(to)
    try: f()
    finally: os.chdir("/work")
def fork(f):
    if os.fork() == 0:
        try: f()
        finally: os._exit(0)
    os.wait()
def child(pid):
    if pid == 0: os._exit(0)
def act(f):
    try: f()
    except BaseException as e: pass
`

// spellings are ways to open a hidden file; each row opens one of its own,
// {f} in w, the workspace.
var spellings = []struct{ name, python string }{
	{"plainly", `open(w + "/{f}")`},
	{"by a way up", `open("../../../../.." + w + "/{f}")`},
	{"relative to another folder", `chdir("/", lambda: open(w[1:] + "/{f}"))`},
	{"through a link", `(os.symlink(w, "l1"), open("l1/{f}"))`},
	{"through a link in memory", `(os.symlink(w, "/tmp/l2"), open("/tmp/l2/{f}"))`},
	{"through a link to a link", `(os.symlink("l3b", "l3a"), os.symlink(w, "l3b"), open("l3a/{f}"))`},
	{"through a link to the file itself", `(os.symlink(w + "/{f}", "l4"), open("l4"))`},
	{"through a relative link", `(os.symlink("../../.." + w, "l5"), open("l5/{f}"))`},
	{"up from where a link leads", `(os.symlink(w + "/targets", "l6"), open("l6/../{f}"))`},
	{"from a descriptor", `at(os.open("/", os.O_RDONLY), w[1:] + "/{f}")`},
	{"from a descriptor that stands for nothing", `at(os.open("/", os.O_PATH), w[1:] + "/{f}")`},
	{"from a descriptor through a link", `(os.symlink(w, "l7"), at(os.open(".", os.O_RDONLY), "l7/{f}"))`},
	{"through its own root", `open("/proc/self/root" + w + "/{f}")`},
	{"through a thread's root", `open("/proc/thread-self/root" + w + "/{f}")`},
	{"through its own root, by number", `open("/proc/%d/root%s/{f}" % (os.getpid(), w))`},
	{"through a task's root", `open("/proc/self/task/%d/root%s/{f}" % (os.getpid(), w))`},
	{"through root twice", `open("/proc/self/root/proc/self/root" + w + "/{f}")`},
	{"through its own folder", `open("/proc/self/cwd/.." + w + "/{f}")`},
	{"through /dev/fd", `open("/dev/fd/%d%s/{f}" % (os.open("/", os.O_RDONLY), w))`},
	{"through a link to its root", `(os.symlink("/proc/self/root", "l8"), open("l8" + w + "/{f}"))`},
	{"with bytes that are not UTF-8", `open(os.fsencode(w) + b"/{f}\xff\xfe")`},
	{"through a link that is not UTF-8", `(os.symlink(os.fsencode(w), b"l9\xff"), open(b"l9\xff/{f}"))`},
	{"from a folder that is not UTF-8", `(os.mkdir(b"d\xff"), chdir(b"d\xff", lambda: open("../.." + w + "/{f}")))`},
	{"with openat2", `openat2(-100, os.fsencode(w) + b"/{f}")`},
	{"with openat2, in a root", `openat2(os.open("/", os.O_RDONLY), b"/" + os.fsencode(w) + b"/{f}", 0x10)`},
	{"to write", `open(w + "/{f}", "w")`},
	{"with creat", `libc.creat(os.fsencode(w) + b"/{f}", 0o600)`},
	{"as a folder", `os.listdir(w + "/{f}")`},
	{"with slashes and dots", `open("//" + w.replace("/", "//./") + "/{f}")`},
	{"in a child", `fork(lambda: open(w + "/{f}"))`},
	{"in a shell", `os.system("cat '" + w + "/{f}' 2>/dev/null")`},
}

// otherActs are acts with the words that the record has for them.
var otherActs = []struct{ python, want string }{
	{`open("/" "root/.ssh/id_ed25519")`, `hidden_file open "/` + `root/.ssh/id_ed25519"`},
	{`open("/" "home/alice/.aws/credentials")`, `hidden_file open "/` + `home/alice/.aws/credentials"`},
	{`open("/etc/shadow")`, `hidden_file open "/etc/shadow"`},
	{`os.listdir("/home")`, `hidden_file open "/home"`},
	{`call("open_by_handle_at", 0, 0, 0)`, `hidden_file open_by_handle_at`},
	{`connect(("169.254.169.254", 80))`, `address connect 169.254.169.254:80`},
	{`connect(("::ffff:169.254.169.254", 81), socket.AF_INET6)`, `address connect [::ffff:169.254.169.254]:81`},
	{`connect(("127.0.0.1", 53))`, `address connect 127.0.0.1:53`},
	{`(lambda s, a: s.connect(a))(*udp(("192.0.2.1", 9)))`, `address connect 192.0.2.1:9`},
	{`(lambda s, a: s.sendto(b"x", a))(*udp(("192.0.2.2", 9)))`, `address sendto 192.0.2.2:9`},
	{`(lambda s, a: s.sendmsg([b"x"], [], 0, a))(*udp(("192.0.2.3", 9)))`, `address sendto 192.0.2.3:9`},
	{`sendmmsg(("192.0.2.4", 9))`, `address sendto 192.0.2.4:9`},
	{`unix("/var/run/docker.sock")`, `address connect unix "/var/run/docker.sock"`},
	{`(os.symlink("/run/host.sock", "s1"), unix("s1"))`, `address connect unix "/run/host.sock"`},
	{`chdir("/", lambda: unix("run/dbus.sock"))`, `address connect unix "/run/dbus.sock"`},
	{`unix("\0secret")`, `address connect unix @"secret"`},
	{`socket.socket(40, socket.SOCK_STREAM)`, `address socket AF_VSOCK`},
	{`socket.socket(17, socket.SOCK_RAW)`, `address socket AF_PACKET`},
	{`socket.socket(16, socket.SOCK_RAW, 15)`, `address socket AF_NETLINK`},
	{`libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)`, `kernel_call mount`},
	{`call("umount2", b"/tmp", 0)`, `kernel_call umount2`},
	{`call("pivot_root", b"/", b"/")`, `kernel_call pivot_root`},
	{`os.chroot("/work")`, `kernel_call chroot`},
	{`libc.unshare(0x10000000)`, `kernel_call unshare`},
	{`libc.setns(0, 0)`, `kernel_call setns`},
	{`child(call("clone", 0x10000000 | 17, 0, 0, 0, 0))`, `kernel_call clone of a namespace`},
	{`child(call("clone3", struct.pack("QQQQQQQQ", 0x20000, 0, 0, 0, 17, 0, 0, 0), 64))`, `kernel_call clone3 of a namespace`},
	{`libc.ptrace(16, 1, 0, 0)`, `kernel_call ptrace`},
	{`libc.process_vm_readv(1, None, 0, None, 0, 0)`, `kernel_call process_vm_readv`},
	{`call("init_module", 0, 0, b"")`, `kernel_call init_module`},
	{`call("bpf", 0, 0, 0)`, `kernel_call bpf`},
	{`call("keyctl", 0, -3, 0)`, `kernel_call keyctl`},
	{`open("/proc/1/environ")`, `hidden_file open "/proc/1/environ"`},
	{`open("/proc/self/environ")`, `hidden_file open "/proc/self/environ"`},
	{`open("/proc/thread-self/environ")`, `hidden_file open "/proc/thread-self/environ"`},
	{`(os.symlink("/proc/self", "p1"), open("p1/task/../environ"))`, `hidden_file open "/proc/self/environ"`},
	{`open("/proc/1/task/1/environ")`, `hidden_file open "/proc/1/task/1/environ"`},
	{`open("/proc/1/mem", "rb")`, `hidden_file open "/proc/1/mem"`},
	{`libc.syscall(425, 8, ctypes.create_string_buffer(120))`, `kernel_call io_uring_setup`},
	{`libc.syscall(426, 3, 0, 0, 0, 0, 0)`, `kernel_call io_uring_enter`},
	{`libc.syscall(427, 3, 0, 0, 0)`, `kernel_call io_uring_register`},
	{`libc.syscall(428, -100, b"/", 0)`, `kernel_call open_tree`},
	{`libc.syscall(429, -1, b"", -1, b"", 0)`, `kernel_call move_mount`},
	{`libc.syscall(430, b"proc", 0)`, `kernel_call fsopen`},
	{`libc.syscall(431, -1, 0, 0, 0, 0)`, `kernel_call fsconfig`},
	{`libc.syscall(432, -1, 0, 0)`, `kernel_call fsmount`},
	{`libc.syscall(433, -100, b"/", 0)`, `kernel_call fspick`},
	{`libc.syscall(442, -100, b"/", 0, 0, 0)`, `kernel_call mount_setattr`},
	{`libc.syscall(457, 0, 0, 0, 0)`, `kernel_call statmount`},
	{`libc.syscall(458, 0, 0, 0, 0)`, `kernel_call listmount`},
	{`libc.syscall(438, 3, 1, 0)`, `kernel_call pidfd_getfd`},
	{`libc.syscall(282 if ARM else 323, 0)`, `kernel_call userfaultfd`},
	{`libc.syscall(241 if ARM else 298, 0, 0, -1, -1, 0)`, `kernel_call perf_event_open`},
	{`libc.syscall(104 if ARM else 246, 0, 0, 0, 0)`, `kernel_call kexec_load`},
	{`libc.syscall(294 if ARM else 320, -1, -1, 0, 0, 0)`, `kernel_call kexec_file_load`},
	{`libc.syscall(116 if ARM else 103, 2, 0, 0)`, `kernel_call syslog`},
}

// namings are ways to name a hidden file without opening it, with the words that the
// record has for them; each names one of its own, {f} in w.
var namings = []struct{ python, want string }{
	{`os.stat(w + "/{f}")`, "stat"},
	{`os.lstat(w + "/{f}")`, "stat"},
	{`os.path.exists("../../../../.." + w + "/{f}")`, "stat"},
	{`(os.symlink(w, "n1"), os.stat("n1/{f}"))`, "stat"},
	{`os.stat("/proc/self/root" + w + "/{f}")`, "stat"},
	{`os.stat(w[1:] + "/{f}", dir_fd=os.open("/", os.O_RDONLY))`, "stat"},
	{`chdir("/", lambda: os.stat(w[1:] + "/{f}"))`, "stat"},
	{`libc.syscall(79 if ARM else 262, -100, os.fsencode(w) + b"/{f}", ctypes.create_string_buffer(256), 0x1000)`, "stat"}, // as if it were a descriptor
	{`libc.syscall(291 if ARM else 332, -100, os.fsencode(w) + b"/{f}", 0, 0x7ff, ctypes.create_string_buffer(256))`, "statx"},
	{`os.access(w + "/{f}", os.R_OK)`, "access"},
	{`libc.syscall(439, -100, os.fsencode(w) + b"/{f}", 4, 0x200)`, "access"},
	{`os.readlink(w + "/{f}")`, "readlink"},
	{`libc.syscall(264 if ARM else 303, -100, os.fsencode(w) + b"/{f}", ctypes.create_string_buffer(256), ctypes.create_string_buffer(8), 0)`, "name_to_handle_at"},
	{`os.execv(w + "/{f}", ["x"])`, "execve"},
	{`os.chdir(w + "/{f}")`, "chdir"},
	{`os.unlink(w + "/{f}")`, "unlink"},
	{`os.rename(w + "/{f}", "here")`, "rename"},
	{`os.link(w + "/{f}", "here")`, "link"},
	{`os.mkdir(w + "/{f}")`, "mkdir"},
	{`os.symlink("x", w + "/{f}")`, "symlink"},
	{`os.chmod(w + "/{f}", 0)`, "chmod"},
	{`os.truncate(w + "/{f}", 0)`, "truncate"},
	{`os.utime(w + "/{f}")`, "utime"},
	{`os.getxattr(w + "/{f}", "user.x")`, "getxattr"},
	{`os.listxattr(w + "/{f}")`, "listxattr"},
	{`os.statvfs(w + "/{f}")`, "statfs"},
	{`libc.inotify_add_watch(libc.inotify_init1(0), os.fsencode(w) + b"/{f}", 0xfff)`, "inotify_add_watch"},
	{`os.system("test -e '" + w + "/{f}'")`, "stat"},
	{`fork(lambda: os.stat(w + "/{f}"))`, "stat"},
}

// notActs are what honest programs do.
const notActs = `
import http.client, json, ssl, uuid, sqlite3, asyncio, multiprocessing, tempfile, subprocess, locale, ctypes.util
act(lambda: open("/nonexistent/config"))
act(lambda: open("/etc/nosuchfile"))
act(lambda: open("/opt/tool/settings.json"))
act(lambda: open("/proc/self/status").read())
act(lambda: open("/proc/meminfo").read())
act(lambda: os.listdir("/"))
act(lambda: [os.lstat("/" + n) for n in os.listdir("/")])
act(lambda: [os.lstat("/proc/self/" + n) for n in os.listdir("/proc/self")])
act(lambda: open("/proc/self/mem", "rb"))
act(lambda: os.stat("/nonexistent"))
act(lambda: os.path.realpath(given["shown"] + "/own"))
act(lambda: os.stat(os.path.dirname(given["shown"])))
act(lambda: open("/var/lib/thing"))
act(lambda: open(os.path.expanduser("~/.config/x")))
act(lambda: connect(("127.0.0.1", 1)))
act(lambda: connect(("::1", 1), socket.AF_INET6))
act(lambda: unix("/tmp/none.sock"))
act(lambda: unix("none.sock"))
act(lambda: unix("/dev/log"))
act(lambda: socket.if_nameindex())
act(lambda: socket.getaddrinfo("localhost", 80))
act(lambda: subprocess.run(["true"]))
act(lambda: open(given["shown"] + "/own").read())
for name in ["package.json", "node_modules/x/package.json", "pyvenv.cfg"]:
    act(lambda: open(os.path.dirname(given["shown"]) + "/" + name))
for name in ["python311.zip", "python314t.zip", "python3.9/os.py", "python3.11/os.pyc", "python3.11/lib-dynload"]:
    act(lambda: os.stat(os.path.dirname(given["shown"]) + "/lib/" + name))
    act(lambda: os.stat(given["workspace"] + "/lib64/" + name))
act(lambda: os.listdir(os.path.dirname(given["shown"])))
import threading
t = threading.Thread(target=lambda: None); t.start(); t.join()
`

// actsOf runs a Python agent and lists its acts.
func actsOf(t *testing.T, class Class, space, shown, source string) []string {
	t.Helper()
	input, err := json.Marshal(map[string]string{"workspace": space, "shown": shown})
	if err != nil {
		t.Fatal(err)
	}
	o := agentOptions(class, systemProgram(t, "python3"), "-c", source)
	o.Stdin, o.WorkFolder, o.Hidden = bytes.NewReader(input), workFolder(t), []string{space, filepath.Join(space, ".tally")}
	o.ReadOnly = []Mount{{Host: shown, Within: filepath.Join(space, "targets")}}
	o.Gateway, _ = echoGateway(t)
	r := runAgentIn(t, o)
	if r.Verdict != OK || !r.Watched {
		t.Fatalf("%s, watched %v: %s", r.Verdict, r.Watched, r.StderrHead)
	}
	var acts []string
	for _, a := range r.Attempted {
		if a.Act != "" {
			acts = append(acts, string(a.Act)+" "+a.Detail)
		}
	}
	return acts
}

// The same program must give the same acts in every class, or where it ran
// would decide what it is accused of.
func TestActsOfAgentsAreTheSameInEveryClass(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		if class == MicroVM {
			t.Skip("runs no agents")
		}
		space := workspace(t)
		shown := filepath.Join(space, "targets", "agent")
		type row struct{ python, want string }
		var rows []row
		for i, s := range spellings {
			name := fmt.Sprintf("secret%d", i)
			python := strings.ReplaceAll(s.python, "{f}", name)
			if strings.Contains(s.python, `{f}\xff`) {
				name += `\ufffd`
			}
			rows = append(rows, row{python, `hidden_file open "` + space + "/" + name + `"`})
		}
		for i, n := range namings {
			name := fmt.Sprintf("named%d", i)
			rows = append(rows, row{strings.ReplaceAll(n.python, "{f}", name), `hidden_file ` + n.want + ` "` + space + "/" + name + `"`})
		}
		for _, a := range otherActs {
			rows = append(rows, row{a.python, a.want})
		}
		for some := range slices.Chunk(rows, 60) { // fewer than a record lists
			source := actsPrelude
			var want []string
			for _, r := range some {
				source += "act(lambda: " + r.python + ")\n"
				want = append(want, r.want)
			}
			got := actsOf(t, class, space, shown, source)
			for _, w := range want {
				if !slices.Contains(got, w) {
					t.Errorf("not seen: %s", w)
				}
			}
			for _, g := range got {
				if !slices.Contains(want, g) {
					t.Errorf("not expected: %s", g)
				}
			}
		}
	})
}

func TestHonestProgramsDoNotAct(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		if class == MicroVM {
			t.Skip("runs no agents")
		}
		space := workspace(t)
		shown := filepath.Join(space, "targets", "agent")
		if err := os.WriteFile(filepath.Join(shown, "own"), []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := actsOf(t, class, space, shown, actsPrelude+notActs); len(got) != 0 {
			t.Errorf("an honest program is accused of %q", got)
		}
	})
}

// Node looks at every folder above its files, and would try io_uring: the variable is
// in the environment of every agent.
func TestHonestNodeDoesNotAct(t *testing.T) {
	node := systemProgram(t, "node")
	eachClass(t, func(t *testing.T, class Class) {
		if class == MicroVM {
			t.Skip("runs no agents")
		}
		space := workspace(t)
		shown := filepath.Join(space, "targets", "agent")
		if err := os.WriteFile(filepath.Join(shown, "agent.js"), []byte(`
const fs = require("fs"), http = require("http"), os = require("os"), path = require("path")
fs.realpathSync(__filename)
fs.promises.readFile(__filename).then(() => fs.promises.stat("/nonexistent")).catch(() => {
	const s = http.createServer((q, r) => r.end("ok")).listen(0, "127.0.0.1", () => http.get(s.address(), r => { r.resume(); r.on("end", () => { s.close(); console.log("done") }) }))
})`), 0o644); err != nil {
			t.Fatal(err)
		}
		o := agentOptions(class, node, filepath.Join(shown, "agent.js"))
		o.Env = append(o.Env, "UV_USE_IO_URING=0")
		o.WorkFolder, o.Hidden = workFolder(t), []string{space}
		o.ReadOnly = []Mount{{Host: shown, Within: filepath.Join(space, "targets")}}
		r := runAgentIn(t, o)
		if strings.TrimSpace(string(r.Stdout)) != "done" {
			t.Errorf("%s: %s %s", r.Verdict, r.Stdout, r.StderrHead)
		}
		for _, a := range r.Attempted {
			if a.Act != "" {
				t.Errorf("Node is accused of %v", a)
			}
		}
	})
}

// An agent must not be able to hide an act behind many harmless attempts, nor
// behind many acts.
func TestActsAreNotCrowdedOut(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		if class == MicroVM {
			t.Skip("runs no agents")
		}
		space := workspace(t)
		shown := filepath.Join(space, "targets", "agent")
		got := actsOf(t, class, space, shown, actsPrelude+`
above = os.path.dirname(given["shown"])
for i in range(300): act(lambda: open("%s/node_modules/%d/package.json" % (above, i)))
act(lambda: open(w + "/after"))
for i in range(300): act(lambda: connect(("127.0.0.1", 53)))
for i in range(300): act(lambda: open(w + "/many%d" % i))
`)
		if len(got) != 101 || got[0] != `hidden_file open "`+space+`/after"` || got[100] != string(calls.Flood)+" more than 100 different acts" {
			t.Errorf("%d acts, first %.200q, last %.200q", len(got), got[:1], got[len(got)-1:])
		}
	})
}

//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/runfolder"
)

func agentOptions(class Class, command ...string) AgentOptions {
	return AgentOptions{Accept: []Class{class}, Command: command, System: true, Executable: box,
		TempDir: filepath.Join(scratch, "runs"), Limits: AgentLimits{Timeout: time.Minute},
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/tmp"}}
}

// runAgentIn runs an agent that must be runnable, whatever it does.
func runAgentIn(t testing.TB, o AgentOptions) AgentResult {
	t.Helper()
	r, err := RunAgent(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, status %d, %v, %d MiB, attempted %v", r.Verdict, r.ExitCode, r.Wall.Round(time.Millisecond), r.MaxRSS>>20, r.Attempted)
	return r
}

// systemProgram skips the test unless the host has a program where agents see
// it.
func systemProgram(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/bin", "/usr/local/bin"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 {
			return filepath.Join(dir, name)
		}
	}
	t.Skipf("no %s below /usr", name)
	return ""
}

// workFolder is a fresh folder for an agent.
func workFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "work")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runfolder.RemoveTree(dir) })
	return dir
}

// echoGateway answers with what it got, and streams at /stream.
func echoGateway(t testing.TB) (g *Gateway, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		io.Copy(w, r.Body)
	})
	g = NewGateway()
	server := &http.Server{Handler: mux}
	go server.Serve(g)
	t.Cleanup(func() { server.Close(); g.Close() })
	return g, requests
}

const pythonClient = `
import http.client, json, multiprocessing, os, sys, threading
port = int(os.environ["PORT"])
def post(body):
    c = http.client.HTTPConnection("127.0.0.1", port)
    c.request("POST", "/", body)
    r = c.getresponse()
    return r.read()
def child(n):
    texts = []
    threads = [threading.Thread(target=lambda i=i: texts.append(post(b"%d" % i))) for i in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    sys.exit(0 if sorted(texts) == [b"0", b"1", b"2", b"3"] else 1)
children = [multiprocessing.Process(target=child, args=(n,)) for n in range(3)]
for c in children: c.start()
for c in children: c.join()
big = os.urandom(1 << 22)
c = http.client.HTTPConnection("127.0.0.1", port)
c.request("GET", "/stream")
print(json.dumps({"children": [c.exitcode for c in children], "big": post(big) == big, "stream": c.getresponse().read().decode()}))
`

const nodeClient = `
const http = require("http"), { Worker, isMainThread, parentPort } = require("worker_threads"), { execFileSync } = require("child_process");
const post = body => new Promise((ok, bad) => {
  const r = http.request({ host: "127.0.0.1", port: process.env.PORT, method: "POST" }, res => {
    const all = []; res.on("data", d => all.push(d)); res.on("end", () => ok(Buffer.concat(all)));
  });
  r.on("error", bad); r.end(body);
});
const get = path => fetch("http://127.0.0.1:" + process.env.PORT + path).then(r => r.text());
(async () => {
  const some = await Promise.all([..."abcdefgh"].map(post));
  const child = execFileSync(process.execPath, ["-e", "fetch('http://127.0.0.1:' + process.env.PORT, {method: 'POST', body: 'child'}).then(r => r.text()).then(t => console.log(t))"]).toString().trim();
  const worker = await new Promise(ok => new Worker("require('worker_threads').parentPort.postMessage(6 * 7)", { eval: true }).on("message", ok));
  const big = Buffer.alloc(1 << 22, 7);
  console.log(JSON.stringify({ some: some.map(String).join(""), child, worker, big: big.equals(await post(big)), stream: await get("/stream") }));
})();
`

const streamed = "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n"

func TestAgentSpeaksToTheGateway(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		for _, c := range []struct {
			name     string
			command  []string
			requests int64
			want     map[string]any
		}{
			{"python3", []string{"-c", pythonClient}, 13, map[string]any{"children": []any{0.0, 0.0, 0.0}, "big": true, "stream": streamed}},
			{"node", []string{"-e", nodeClient}, 10, map[string]any{"some": "abcdefgh", "child": "child", "worker": 42.0, "big": true, "stream": streamed}},
		} {
			t.Run(c.name, func(t *testing.T) {
				gateway, requests := echoGateway(t)
				o := agentOptions(class, append([]string{systemProgram(t, c.name)}, c.command...)...)
				o.Gateway, o.GatewayPort = gateway, 5555
				o.Env = append(o.Env, "PORT=5555")
				r := runAgentIn(t, o)
				var got map[string]any
				if err := json.Unmarshal(r.Stdout, &got); err != nil || r.Verdict != OK {
					t.Fatalf("%s, %v: %s %s", r.Verdict, err, r.Stdout, r.StderrHead)
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
				if n := requests.Load(); n != c.requests {
					t.Errorf("%d requests arrived, want %d", n, c.requests)
				}
				if len(r.Attempted) != 0 {
					t.Errorf("an honest agent is said to have attempted %v", r.Attempted)
				}
			})
		}
	})
}

// One that closes its half and waits, one that is closed on, one too many.
func TestGatewayConnectionsEndAsTheyShould(t *testing.T) {
	source := `
import socket
def dial():
    return socket.create_connection(("127.0.0.1", 4180))
s = dial(); s.sendall(b"upper"); s.shutdown(socket.SHUT_WR)
got = b""
while True:
    b = s.recv(100)
    if not b: break
    got += b
many = [dial() for _ in range(300)]
for c in many: c.close()
s = dial(); s.sendall(b"again"); s.shutdown(socket.SHUT_WR)
print(got.decode(), s.recv(100).decode())`
	eachClass(t, func(t *testing.T, class Class) {
		g := NewGateway()
		var open, most atomic.Int64
		go func() {
			for {
				c, err := g.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					most.Store(max(most.Load(), open.Add(1)))
					defer open.Add(-1)
					b, _ := io.ReadAll(c)
					c.Write(bytes.ToUpper(b))
				}()
			}
		}()
		o := agentOptions(class, systemProgram(t, "python3"), "-c", source)
		o.Gateway = g
		r := runAgentIn(t, o)
		g.Close()
		if got := string(r.Stdout); got != "UPPER AGAIN\n" {
			t.Errorf("got %q; %s", got, r.StderrHead)
		}
		if n := most.Load(); n > maxGatewayConns {
			t.Errorf("%d connections were open at once", n)
		}
		if _, err := g.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed gateway's Accept: %v", err)
		}
	})
}

// A workspace is what must not exist for an agent.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "space")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".tally/ledger", "bench/c/cases/1/expected/answer", "targets/agent/main.py", "targets/deep/secret/key"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("swordfish-4711"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error { return os.Chmod(p, 0o777) })
	return dir
}

const hostileAgent = `
import sys, os, json, socket, subprocess, ctypes
given = json.load(sys.stdin)
report = {}
def attempt(name, f):
    try:
        r = f()
        report[name] = "did: " + (r if isinstance(r, str) else repr(r))[:2000]
    except BaseException as e:
        report[name] = "no: " + type(e).__name__ + " " + str(e)
def read(p): return open(p).read()
w = given["workspace"]
attempt("ledger", lambda: read(w + "/.tally/ledger"))
attempt("expected", lambda: read(w + "/bench/c/cases/1/expected/answer"))
attempt("workspace", lambda: os.listdir(w))
attempt("up", lambda: read("../../../../../.." + w + "/.tally/ledger"))
os.symlink(w, "link")
attempt("link", lambda: read("link/.tally/ledger"))
attempt("hard", lambda: os.link(w + "/.tally/ledger", "hard"))
attempt("root", lambda: os.listdir("/root"))
attempt("home", lambda: os.listdir("/home"))
attempt("var", lambda: os.listdir("/var"))
attempt("run", lambda: os.listdir("/run"))
attempt("shadow", lambda: read("/etc/shadow"))
attempt("resolv", lambda: read("/etc/resolv.conf"))
attempt("canary", lambda: read(given["file"]))
attempt("environ", lambda: read("/proc/1/environ") + read("/proc/self/environ") + read("/proc/%d/environ" % os.getppid()))
attempt("grep", lambda: subprocess.run("cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'", shell=True, capture_output=True).stdout.decode())
attempt("roots", lambda: [os.listdir("/proc/%s/root%s" % (p, w)) for p in os.listdir("/proc") if p.isdigit()])
def dial(host, port): return socket.create_connection((host, int(port)), 3)
host, port = given["tcp"].split(":")
attempt("tcp", lambda: dial(host, port))
attempt("outside", lambda: dial("192.0.2.1", 443))
attempt("six", lambda: dial("2001:db8::1", 443))
attempt("dns", lambda: socket.gethostbyname("canary.invalid"))
def udp():
    u = given["udp"].split(":")
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (u[0], int(u[1])))
attempt("udp", udp)
def unconnected():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9))
attempt("unconnected", unconnected)
def to(address):
    s = socket.socket(socket.AF_UNIX); s.connect(address); return "connected"
attempt("abstract", lambda: to("\0" + given["abstract"]))
attempt("unix", lambda: to(given["unix"]))
attempt("docker", lambda: to("/var/run/docker.sock"))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 22)))
attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW))
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    r = getattr(libc, name)(*args)
    if r < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r
for pid in [given["harness"], 1, os.getppid()]:
    attempt("ptrace %d" % pid, lambda: call("ptrace", 16, pid, 0, 0))
attempt("kill", lambda: os.kill(given["harness"], 0))
attempt("mount", lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, None))
attempt("unshare", lambda: call("unshare", 0x20000))
attempt("setns", lambda: call("setns", 0, 0))
attempt("chroot", lambda: os.chroot("/work"))
attempt("mknod", lambda: os.mknod("disk", 0o60600, os.makedev(254, 0)))
attempt("name", lambda: call("sethostname", b"pwned", 5))
attempt("reboot", lambda: call("reboot", 0))
attempt("bpf", lambda: call("syscall", 321, 0, 0, 0))
attempt("keyctl", lambda: call("syscall", 250, 0, -3, 0))
attempt("io_uring", lambda: call("syscall", 425, 1, 0))
for p in ["/usr/bin/python3", "/etc/passwd", "/tally/tally", "/agent/main.py", "/new", "/usr/new"]:
    attempt("write " + p, lambda: open(p, "ab").write(b"x"))
attempt("sysctl", lambda: open("/proc/sys/kernel/hostname", "w").write("x"))
attempt("setuid", lambda: subprocess.run(["su", "-c", "id"], capture_output=True, timeout=5).stdout)
attempt("agent", lambda: read("/agent/main.py"))
print(json.dumps(report))
`

func TestHostileAgentsReachNothing(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		h, space := newHost(t), workspace(t)
		input, err := json.Marshal(map[string]any{"tcp": h.tcp, "udp": h.udp, "abstract": h.abstract, "unix": h.unix, "file": h.file,
			"workspace": space, "harness": os.Getpid()})
		if err != nil {
			t.Fatal(err)
		}
		o := agentOptions(class, systemProgram(t, "python3"), "-c", hostileAgent)
		o.Stdin, o.WorkFolder = bytes.NewReader(input), workFolder(t)
		o.Hidden = []string{space, filepath.Join(space, ".tally")}
		o.ReadOnly = []Mount{{Host: filepath.Join(space, "targets/agent"), Inside: "/agent", Within: filepath.Join(space, "targets")}}
		o.Gateway, _ = echoGateway(t)
		r := runAgentIn(t, o)
		var report map[string]string
		if err := json.Unmarshal(r.Stdout, &report); err != nil {
			t.Fatalf("%v: %s %s", err, r.Stdout, r.StderrHead)
		}
		// Its own file, which says the same as the secret, is the one that it
		// was given.
		if report["agent"] != "did: swordfish-4711" {
			t.Errorf("its own files: %q", report["agent"])
		}
		delete(report, "agent")
		for name, what := range report {
			if strings.Contains(what, h.secret) {
				t.Errorf("%s told the secret: %s", name, what)
			}
		}
		for _, name := range []string{"ledger", "expected", "workspace", "up", "link", "hard", "root", "home", "var", "run", "shadow", "resolv", "canary",
			"tcp", "outside", "six", "dns", "unconnected", "abstract", "unix", "docker", "vsock", "packet", fmt.Sprintf("ptrace %d", os.Getpid()), "kill",
			"mount", "setns", "chroot", "mknod", "name", "reboot", "bpf", "io_uring", "write /usr/bin/python3", "write /etc/passwd", "write /tally/tally",
			"write /agent/main.py", "write /new", "write /usr/new", "sysctl"} {
			if !strings.HasPrefix(report[name], "no: ") {
				t.Errorf("%s was not denied: %q", name, report[name])
			}
		}
		for _, name := range []string{"grep", "environ"} {
			for _, own := range []string{space, scratch, box, secretVariable} {
				if strings.Contains(report[name], own) {
					t.Errorf("%s tells of the host: %q", name, report[name])
				}
			}
		}
		if n := h.reached.Load(); n != 0 {
			t.Errorf("the host's listeners were reached %d times", n)
		}
		if name, _ := os.Hostname(); name == "pwned" {
			t.Error("the host was renamed")
		}
		for _, want := range []string{`file open "` + space + `/.tally/ledger"`, `file open "` + space + `/bench/c/cases/1/expected/answer"`, `file open "/root"`, `file open "/home"`,
			"network connect 192.0.2.1:443", "network connect [2001:db8::1]:443", "network connect 127.0.0.1:53", "namespace: network sendto 192.0.2.1:9",
			`network connect unix @"tallystick-test-`, `network connect unix "/var/run/docker.sock"`, "network socket ",
			"process ptrace", "kernel mount", "kernel unshare", "kernel setns", "kernel sethostname", "kernel reboot", "kernel bpf", "kernel keyctl"} {
			checkAttempted(t, class, Result{Attempted: r.Attempted}, want)
		}
		for _, a := range r.Attempted {
			if strings.Contains(a.Detail, "127.0.0.1:") && !strings.Contains(a.Detail, ":53") || strings.Contains(a.Detail, `"/agent`) || strings.Contains(a.Detail, `"/work`) {
				t.Errorf("listed though it is the agent's own: %v", a)
			}
		}
	})
}

func TestAgentWithoutAGatewayHasNoWayOut(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		r := runAgentIn(t, agentOptions(class, systemProgram(t, "python3"), "-c", `
import socket
try: socket.create_connection(("127.0.0.1", 4180)); print("connected")
except ConnectionRefusedError: print("refused")`))
		if string(r.Stdout) != "refused\n" {
			t.Errorf("got %q; %s", r.Stdout, r.StderrHead)
		}
	})
}

func TestAgentBlindIsNotWatched(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		o := agentOptions(class, systemProgram(t, "python3"), "-c", `
import socket
for a in [("192.0.2.1", 9)]:
    try: socket.create_connection(a, 1); print("connected")
    except OSError: print("no")
open("x", "w")`)
		o.Blind = true
		if r := runAgentIn(t, o); r.Watched || len(r.Attempted) != 0 || string(r.Stdout) != "no\n" {
			t.Errorf("%+v %s", r, r.StderrHead)
		}
	})
}

func TestAgentEndings(t *testing.T) {
	for _, c := range []struct {
		name    string
		source  string // of a shell script
		limits  AgentLimits
		verdict Verdict
		exit    int
		stdout  string
		check   func(*testing.T, AgentResult)
	}{
		{name: "success", source: "echo done", verdict: OK, stdout: "done\n"},
		{name: "failure", source: "echo so far; exit 3", verdict: Failed, exit: 3, stdout: "so far\n"},
		{name: "signal", source: "kill -9 $$", verdict: Killed, exit: 137},
		{name: "closed streams", source: "exec 0<&- 1>&- 2>&-; sleep 1; exit 0", verdict: OK},
		{name: "never ends", source: "trap '' TERM INT HUP; while :; do sleep 1; done", limits: AgentLimits{Timeout: 3 * time.Second}, verdict: Timeout, exit: 137},
		{name: "stops itself", source: "kill -STOP $$", limits: AgentLimits{Timeout: 3 * time.Second}, verdict: Timeout, exit: 137},
		{name: "leaves children behind", source: "sleep 1000 & (setsid sleep 1000 >/dev/null 2>&1 &) ; echo gone", verdict: OK, stdout: "gone\n"},
		{name: "too much output", source: "yes", verdict: OutputLimit, exit: 137, limits: AgentLimits{OutputBytes: 1 << 20},
			check: func(t *testing.T, r AgentResult) {
				if len(r.Stdout) != 1<<20 {
					t.Errorf("%d bytes were kept", len(r.Stdout))
				}
			}},
		{name: "too many complaints", source: "yes >&2", verdict: OutputLimit, exit: 137, limits: AgentLimits{OutputBytes: 1 << 20}},
		{name: "standard input", source: "cat", verdict: OK, stdout: "given"},
		{name: "a terminal of its own", source: "command -v script >/dev/null || { printf 'tty\\r\\n'; exit; }; script -qc 'echo tty' /dev/null </dev/null", verdict: OK, stdout: "tty\r\n"},
		{name: "its interfaces", source: `python3 -c 'import socket; print(socket.if_nameindex())'`, verdict: OK, stdout: "[(1, 'lo')]\n"},
		{name: "our program", source: ToolPath + " && echo ran", verdict: OK, stdout: "ran\n"},
		{name: "its own folder", source: "pwd; cd /work && echo text > a && mkdir b && mv a b/c && cat b/c && rm -r b && ls", verdict: OK, stdout: "/work\ntext\n"},
		{name: "its own loopback", source: `python3 - <<'E'
import socket, threading
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
threading.Thread(target=lambda: s.accept()[0].sendall(b"hello")).start()
print(socket.create_connection(s.getsockname()).recv(9).decode())
E`, verdict: OK, stdout: "hello\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachClass(t, func(t *testing.T, class Class) {
				systemProgram(t, "sh")
				o := agentOptions(class, "sh", "-c", c.source)
				o.Stdin, o.Limits = strings.NewReader("given"), c.limits
				r := runAgentIn(t, o)
				if r.Verdict != c.verdict || c.verdict != Timeout && c.verdict != OutputLimit && r.ExitCode != c.exit {
					t.Errorf("verdict %s (%d), want %s (%d); %s", r.Verdict, r.ExitCode, c.verdict, c.exit, r.StderrHead)
				}
				if c.check != nil {
					c.check(t, r)
				} else if c.verdict != OutputLimit && string(r.Stdout) != c.stdout {
					t.Errorf("stdout %q, want %q; %s", r.Stdout, c.stdout, r.StderrHead)
				}
				if len(r.Attempted) != 0 {
					t.Errorf("attempted %v", r.Attempted)
				}
			})
		})
	}
}

func TestAgentThatCannotBeStarted(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		for _, c := range []struct {
			command, dir, want string
		}{
			{"no-such-program", "", "no-such-program: no such program in /usr/bin:/bin"},
			{workDir + "/absent", "", "starting " + workDir + "/absent: no such file or directory"},
			{"/etc/passwd", "", "starting /etc/passwd: permission denied"},
			{"/usr/bin/true", workDir + "/absent", "entering the working folder: chdir " + workDir + "/absent: no such file or directory"},
		} {
			o := agentOptions(class, c.command)
			o.Dir = c.dir
			r := runAgentIn(t, o)
			if r.Verdict != Failed || r.ExitCode != firstprocess.NotStartedStatus || r.NotStarted != c.want {
				t.Errorf("%s: %s (%d) %q, want %q", c.command, r.Verdict, r.ExitCode, r.NotStarted, c.want)
			}
		}
	})
}

// The limit is for all processes together, and for what they keep in /tmp and
// shared memory.
func TestAgentMemoryIsLimitedAsAWhole(t *testing.T) {
	const hoard = `
import os, time, sys
def fill(n):
    b = bytearray(n)
    for i in range(0, n, 4096): b[i] = 1
    return b
`
	for name, source := range map[string]string{
		"one process":   hoard + "x = []\nwhile True: x.append(fill(1 << 20))",
		"many children": hoard + "for _ in range(12):\n  if os.fork() == 0:\n    b = fill(60 << 20); time.sleep(30); os._exit(0)\ntime.sleep(30)",
		"temporary":     hoard + "f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()",
		"shared":        hoard + "f = open('/dev/shm/x', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()",
	} {
		t.Run(name, func(t *testing.T) {
			eachClass(t, func(t *testing.T, class Class) {
				o := agentOptions(class, systemProgram(t, "python3"), "-c", source)
				o.Limits = AgentLimits{Timeout: 25 * time.Second, MemoryBytes: 256 << 20}
				r := runAgentIn(t, o)
				// In namespaces the temporary folders are full at the limit.
				full := class == Namespace && strings.Contains(r.StderrHead, "No space left")
				if r.Verdict != OOM && !full {
					t.Errorf("verdict %s (%d); %s", r.Verdict, r.ExitCode, r.StderrHead)
				}
				if r.MaxRSS > 1<<30 {
					t.Errorf("%d bytes were used", r.MaxRSS)
				}
			})
		})
	}
}

// Many processes that share one large memory do not use it many times.
func TestAgentSharedMemoryCountsOnce(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		o := agentOptions(class, systemProgram(t, "python3"), "-c", `
import os, time
b = bytearray(100 << 20)
for i in range(0, len(b), 4096): b[i] = 1
for _ in range(6):
    if os.fork() == 0: time.sleep(2); os._exit(0)
time.sleep(1.5)
print("ok")`)
		o.Limits.MemoryBytes = 400 << 20
		if r := runAgentIn(t, o); r.Verdict != OK || string(r.Stdout) != "ok\n" {
			t.Errorf("%s %s %s", r.Verdict, r.Stdout, r.StderrHead)
		}
	})
}

func TestAgentForkBombIsContained(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		o := agentOptions(class, systemProgram(t, "python3"), "-c", `
import os, time
born = 0
for _ in range(2000):
    try:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        born += 1
    except OSError: pass
print(born)`)
		o.Limits = AgentLimits{Tasks: 64, Timeout: 40 * time.Second}
		r := runAgentIn(t, o)
		var born int
		if fmt.Sscan(string(r.Stdout), &born); born == 0 || born >= 64 {
			t.Errorf("%d children were born: %s", born, r.StderrHead)
		}
	})
}

func TestAgentDiskIsLimited(t *testing.T) {
	for name, source := range map[string]string{
		"many files":    "for i in range(1000): open('%d' % i, 'wb').write(bytes(8 << 20))",
		"removed files": "import os\nheld = []\nfor i in range(1000):\n  held.append(open('x', 'wb')); os.remove('x'); held[-1].write(bytes(8 << 20)); held[-1].flush()",
	} {
		t.Run(name, func(t *testing.T) {
			eachClass(t, func(t *testing.T, class Class) {
				o := agentOptions(class, systemProgram(t, "python3"), "-c", source+"\nimport time\ntime.sleep(60)")
				o.WorkFolder, o.Limits.DiskBytes = workFolder(t), 64<<20
				if r := runAgentIn(t, o); r.Verdict != DiskLimit {
					t.Errorf("verdict %s (%d); %s", r.Verdict, r.ExitCode, r.StderrHead)
				}
			})
		})
	}
}

func TestAgentFilesAreLimited(t *testing.T) {
	for name, source := range map[string]string{
		"files":   "import os\nfor i in range(200000): os.close(os.open('%d' % i, os.O_CREAT | os.O_WRONLY))",
		"links":   "import os\nfor i in range(200000): os.symlink('x', '%d' % i)",
		"folders": "import os\nfor i in range(200000): os.mkdir('%d' % i)",
	} {
		t.Run(name, func(t *testing.T) {
			eachClass(t, func(t *testing.T, class Class) {
				o := agentOptions(class, systemProgram(t, "python3"), "-c", source+"\nimport time\ntime.sleep(600)")
				// Counting the files of a folder takes long on a disk that others use too.
				o.WorkFolder, o.Limits.Files, o.Limits.Timeout = workFolder(t), 2000, 5*time.Minute
				if r := runAgentIn(t, o); r.Verdict != FileLimit {
					t.Errorf("verdict %s (%d); %s", r.Verdict, r.ExitCode, r.StderrHead)
				}
			})
		})
	}
}

// Whatever an agent does to its folder, its owner can read it afterwards, and
// finds nothing in it that acts.
func TestAgentsFolderIsItsOwnersAfterwards(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		dir := workFolder(t)
		if err := os.WriteFile(filepath.Join(dir, "given"), []byte("before"), 0o640); err != nil {
			t.Fatal(err)
		}
		var before unix.Stat_t
		if err := unix.Stat(dir, &before); err != nil {
			t.Fatal(err)
		}
		o := agentOptions(class, systemProgram(t, "python3"), "-c", `
import os, socket
open("given", "a").write(" and after")
os.makedirs("shut/inner"); open("shut/inner/file", "w").write("kept"); os.chmod("shut/inner/file", 0); os.chmod("shut/inner", 0); os.chmod("shut", 0)
open("power", "w").write("#!/bin/sh\n"); os.chmod("power", 0o6755)
os.symlink("/etc/shadow", "link")
os.mkfifo("pipe")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
os.mkdir("d"); os.chdir("d")
for _ in range(40):
    os.mkdir("x" * 100); os.chdir("x" * 100)
open("deep", "w").write("deep")`)
		o.WorkFolder = dir
		r := runAgentIn(t, o)
		if r.Verdict != OK {
			t.Fatalf("%s: %s", r.Verdict, r.StderrHead)
		}
		// gVisor keeps pipes and sockets to itself; they end with it.
		if gone := strings.Join(r.Discarded, "; "); class == GVisor && r.Discards != 1 || class != GVisor && r.Discards != 3 || class != GVisor && (!strings.Contains(gone, "pipe, a named pipe") || !strings.Contains(gone, "socket, a socket")) || !strings.Contains(gone, "too long") {
			t.Errorf("%d things are gone: %s", r.Discards, gone)
		}
		for name, want := range map[string]string{"given": "before and after", "shut/inner/file": "kept"} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(p, &st); err != nil {
				return err
			}
			if st.Uid != before.Uid || st.Gid != before.Gid || st.Mode&0o6000 != 0 {
				t.Errorf("%s: owner %d:%d, mode %o", p, st.Uid, st.Gid, st.Mode)
			}
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK:
			default:
				t.Errorf("%s has mode %o", p, st.Mode)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// An agent that is spoken with, not only started.
func TestAgentTalksWhileItRuns(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		in, out := io.Pipe()
		o := agentOptions(class, "sh", "-c", `echo ready; while read x; do echo "got $x"; done`)
		o.Stdin = in
		var heard []string
		o.OnStdout = func(b []byte) {
			for _, line := range strings.Fields(strings.ReplaceAll(string(b), " ", "-")) {
				heard = append(heard, line)
				if len(heard) < 4 {
					go fmt.Fprintf(out, "%d\n", len(heard))
				} else {
					out.Close()
				}
			}
		}
		r := runAgentIn(t, o)
		if want := []string{"ready", "got-1", "got-2", "got-3"}; !slices.Equal(heard, want) || string(r.Stdout) != "ready\ngot 1\ngot 2\ngot 3\n" {
			t.Errorf("heard %v, kept %q", heard, r.Stdout)
		}
	})
}

func TestAgentWithoutTheSystemSeesNothingOfIt(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		o := agentOptions(class, ToolPath)
		o.System = false
		if r := runAgentIn(t, o); r.Verdict != OK {
			t.Errorf("our own program: %s %s", r.Verdict, r.StderrHead)
		}
		o.Command = []string{"/usr/bin/true"}
		if r := runAgentIn(t, o); r.NotStarted == "" {
			t.Errorf("a program of the host: %s", r.Verdict)
		}
	})
}

func TestAgentsRunAtOnce(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		gateway, requests := echoGateway(t)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				o := agentOptions(class, systemProgram(t, "python3"), "-c", `
import urllib.request, sys
print(urllib.request.urlopen("http://127.0.0.1:4180", sys.argv[1].encode()).read().decode())`, fmt.Sprint(i))
				o.Gateway = gateway
				r, err := RunAgent(context.Background(), o)
				if err != nil || string(r.Stdout) != fmt.Sprintln(i) {
					t.Errorf("%d: %v %s %s", i, err, r.Stdout, r.StderrHead)
				}
			})
		}
		wg.Wait()
		if requests.Load() != 4 {
			t.Errorf("%d requests", requests.Load())
		}
	})
}

func TestAgentMountsThatWouldShowTheHiddenAreRefused(t *testing.T) {
	space := workspace(t)
	beside := workFolder(t)
	link := filepath.Join(beside, "link")
	if err := os.Symlink(space, link); err != nil {
		t.Fatal(err)
	}
	inTargets := filepath.Join(space, "targets", "sly")
	if err := os.Symlink("../bench", inTargets); err != nil {
		t.Fatal(err)
	}
	hidden := []string{space, filepath.Join(space, ".tally"), filepath.Join(space, "targets/deep/secret")}
	targets := filepath.Join(space, "targets")
	for _, c := range []struct {
		name   string
		mount  Mount
		reason string
	}{
		{"itself", Mount{Host: space, Inside: "/x"}, "would show"},
		{"above", Mount{Host: filepath.Dir(space), Inside: "/x"}, "would show"},
		{"everything", Mount{Host: "/", Inside: "/x"}, "would show"},
		{"inside", Mount{Host: filepath.Join(space, "bench"), Inside: "/x"}, "lies in"},
		{"by a link", Mount{Host: link, Inside: "/x"}, "would show"},
		{"through a link", Mount{Host: filepath.Join(link, "bench"), Inside: "/x"}, "lies in"},
		{"target folder that links out", Mount{Host: inTargets, Inside: "/agent", Within: targets}, "outside"},
		{"target folder that climbs out", Mount{Host: targets + "/../bench", Inside: "/agent", Within: targets}, "outside"},
		{"target folder that holds a hidden one", Mount{Host: filepath.Join(targets, "deep"), Inside: "/agent", Within: targets}, "would show"},
		{"target folder in a hidden one below", Mount{Host: filepath.Join(targets, "deep/secret"), Inside: "/agent", Within: targets}, "would show"},
		{"the host's processes", Mount{Host: "/proc", Inside: "/x"}, "hidden from agents"},
		{"the host's devices", Mount{Host: "/dev/shm", Inside: "/x"}, "hidden from agents"},
		{"the host's services", Mount{Host: "/var/run", Inside: "/x"}, "hidden from agents"},
		{"other runs", Mount{Host: scratch, Inside: "/x"}, "would show"},
		{"over our own", Mount{Host: beside, Inside: "/proc/x"}, "the sandbox's own"},
		{"over the tool", Mount{Host: beside, Inside: "/tally"}, "the sandbox's own"},
		{"over the root", Mount{Host: beside, Inside: "/"}, "cannot appear"},
		{"upwards", Mount{Host: beside, Inside: "/x/../work"}, "the sandbox's own"},
		{"relative", Mount{Host: beside, Inside: "x"}, "cannot appear"},
		{"over the system", Mount{Host: beside, Inside: "/usr/bin"}, "overlap"},
		{"absent", Mount{Host: filepath.Join(beside, "absent"), Inside: "/x"}, "no such file"},
		{"a device", Mount{Host: "/dev/null", Inside: "/x"}, "neither a file nor a folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := agentOptions(GVisor, "true")
			o.Hidden, o.ReadOnly = hidden, []Mount{c.mount}
			_, err := RunAgent(context.Background(), o)
			if err == nil || !strings.Contains(err.Error(), c.reason) || refusal.Is(err, refusal.SandboxFailed) {
				t.Errorf("got %v, want a refusal that says %q", err, c.reason)
			}
		})
	}
	t.Run("working folder", func(t *testing.T) {
		o := agentOptions(GVisor, "true")
		o.Hidden, o.WorkFolder = hidden, filepath.Dir(space)
		if _, err := RunAgent(context.Background(), o); err == nil || !strings.Contains(err.Error(), "would show") {
			t.Errorf("got %v", err)
		}
	})
}

// The same folder has another path where it is mounted once more.
func TestAgentMountThroughAnotherMountIsRefused(t *testing.T) {
	table := mountTable{
		{Device: "8:1", Root: "/", At: "/"}, {Device: "8:2", Root: "/", At: "/srv"},
		{Device: "8:1", Root: "/data/space", At: "/mnt/again"}, {Device: "8:1", Root: "/data/space/bench/expected", At: "/opt/tools/part"},
	}
	at := func(p string) place {
		got, err := table.placeOf(p)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	hidden := []place{at("/data/space")}
	for host, fine := range map[string]bool{"/mnt/again": false, "/mnt/again/bench": false, "/opt/tools": false, "/opt/tools/part": false,
		"/mnt": false, "/opt/other": true, "/srv/data/space": true, "/data/spaces": true} {
		if err := table.checkHidden(Mount{Host: host}, at(host), hidden, false); (err == nil) != fine {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestAgentMountsShowWhatTheyShould(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		space, extra := workspace(t), workFolder(t)
		if err := os.WriteFile(filepath.Join(extra, "file"), []byte("extra"), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Chmod(extra, 0o755)
		targets := filepath.Join(space, "targets")
		o := agentOptions(class, "sh", "-c", `cat /agent/main.py "$0/file" /one; ls -A /usr/share/doc >/dev/null; touch /agent/x "$0/x" 2>/dev/null || echo " sealed"`, extra)
		o.Hidden = []string{space}
		o.ReadOnly = []Mount{
			{Host: filepath.Join(targets, "agent"), Inside: "/agent", Within: targets},
			{Host: extra}, // at its own path, which is below /tmp
			{Host: filepath.Join(extra, "file"), Inside: "/one"},
			{Host: "/usr/share"}, // shown already
		}
		if r := runAgentIn(t, o); string(r.Stdout) != "swordfish-4711extraextra sealed\n" {
			t.Errorf("got %q; %s", r.Stdout, r.StderrHead)
		}
	})
}

func TestAgentOptionsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*AgentOptions){
		"no program to run":       func(o *AgentOptions) { o.Command = nil },
		"a zero byte":             func(o *AgentOptions) { o.Env = []string{"A=\x00"} },
		"must be an absolute":     func(o *AgentOptions) { o.Dir = "work" },
		"gateway port 80":         func(o *AgentOptions) { o.GatewayPort = 80 },
		"timeout":                 func(o *AgentOptions) { o.Limits.Timeout = MaxAgentTimeout + 1 },
		"memory 1:":               func(o *AgentOptions) { o.Limits.MemoryBytes = 1 },
		"output":                  func(o *AgentOptions) { o.Limits.OutputBytes = MaxAgentOutputBytes + 1 },
		"disk -1":                 func(o *AgentOptions) { o.Limits.DiskBytes = -1 },
		"5 tasks":                 func(o *AgentOptions) { o.Limits.Tasks = 5 },
		"microvm: runs no agents": func(o *AgentOptions) { o.Accept = []Class{MicroVM} },
		"not a folder":            func(o *AgentOptions) { o.WorkFolder = "/usr/bin/env" },
	} {
		o := agentOptions(Namespace, "true")
		change(&o)
		if _, err := RunAgent(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Where on the host the files of an agent are, no file tells that it can read: found
// by reading all of /proc, and by the spellings of the lists of mounts.
func TestAgentsDoNotLearnPathsOfTheHost(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		if class == MicroVM {
			t.Skip("runs no agents")
		}
		o := agentOptions(class, systemProgram(t, "python3"), "-c", `
import os, signal, sys
given = sys.stdin.read().split()
def late(*_): raise OSError("nothing comes")
signal.signal(signal.SIGALRM, late)
def told(name, text):
    for g in given:
        if g.encode() in text: print(name, "tells", g, "in", [l for l in text.splitlines() if g.encode() in l][:1])
def read(name, opener=None):
    signal.alarm(3)
    try:
        with open(name, "rb", buffering=0, opener=opener) as f: told(name, f.read(1 << 18))
        return True
    except OSError: return False
    finally: signal.alarm(0)
def link(name):
    try: told(name, os.fsencode(os.readlink(name)))
    except OSError: pass
waiting, seen = ["/proc"], 0
while waiting:
    try: entries = list(os.scandir(waiting.pop()))
    except OSError: continue
    for e in entries:
        if e.is_symlink(): link(e.path)
        elif e.is_dir(): waiting.append(e.path)
        elif e.name not in ("kmsg", "kcore", "pagemap", "mem", "kpageflags", "kpagecount", "kpagecgroup", "clear_refs"): seen += read(e.path)
os.symlink("/proc/self/mountinfo", "one"); os.symlink("/proc/thread-self", "/tmp/two")
for name in "one", "/tmp/two/mounts", "/proc/self/root/proc/self/mountinfo", "/proc/mounts", "//proc/./self/../self/mountstats", "/proc/self/task/%d/mountinfo" % os.getpid(), "/proc/%d/mounts" % os.getpid():
    seen += read(name)
at = os.open("/proc/self", os.O_RDONLY)
seen += read("mountinfo", lambda name, flags: os.open(name, flags, dir_fd=at))
if os.fork() == 0:
    os.execvp("cat", ["cat", "/proc/self/mountinfo"])
os.wait()
sys.exit(0 if seen > 20 else 9)
`)
		secret := filepath.Join(workFolder(t), "whereabouts")
		work := filepath.Join(secret, "work")
		if err := os.MkdirAll(work, 0o755); err != nil {
			t.Fatal(err)
		}
		o.ReadOnly = []Mount{{Host: secret, Inside: "/given"}}
		o.WorkFolder = workFolder(t)
		o.Stdin = strings.NewReader("whereabouts " + filepath.Base(o.WorkFolder) + " " + filepath.Base(scratch))
		r := runAgentIn(t, o)
		if said := string(r.Stdout); r.Verdict != OK || strings.Contains(said, "whereabouts") || strings.Contains(said, filepath.Base(scratch)) || !strings.Contains(said, " / /given ") && class == Namespace {
			t.Errorf("%s: %s %s", r.Verdict, said, r.StderrHead)
		}
	})
}

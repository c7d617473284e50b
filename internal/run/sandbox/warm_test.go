//go:build linux

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/calls"
)

// A warmAgent is a Python agent in a warm sandbox.
type warmAgent struct {
	box     *Warm
	folders string
	env     []string
	command []string
}

func newWarmAgent(t *testing.T, class Class, files map[string]string, command ...string) *warmAgent {
	t.Helper()
	if command == nil {
		command = []string{"/agent/agent.py"}
	}
	python := systemProgram(t, "python3")
	return newWarmAgentWith(t, class, files, func(o *AgentOptions) { o.Command = append([]string{python}, command...) })
}

// newWarmAgentWith is newWarmAgent with another command, or other mounts.
func newWarmAgentWith(t *testing.T, class Class, files map[string]string, change func(*AgentOptions)) *warmAgent {
	t.Helper()
	agent, folders := workFolder(t), workFolder(t)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(agent, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(agent, 0o755)
	os.Chmod(folders, 0o711)
	o := agentOptions(class)
	o.ReadOnly = []Mount{{Host: agent, Inside: "/agent"}}
	o.Env = append(o.Env, "LANG=C.UTF-8")
	o.TempDir = runsFolder(t)
	change(&o)
	w, err := OpenWarm(context.Background(), WarmOptions{Agent: o, Folders: folders, Jobs: 4, Patience: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		checkClean(t, o.TempDir)
	})
	return &warmAgent{box: w, folders: folders, env: o.Env, command: o.Command}
}

// start runs the agent once.
func (a *warmAgent) start(t *testing.T, stdin string, change func(*AgentOptions)) (AgentResult, error) {
	t.Helper()
	work, err := os.MkdirTemp(a.folders, "work")
	if err != nil {
		t.Fatal(err)
	}
	o := AgentOptions{Command: a.command, Env: append(a.env, "SECRET="+stdin), Stdin: strings.NewReader(stdin), WorkFolder: work, Limits: AgentLimits{Timeout: 20 * time.Second}}
	if change != nil {
		change(&o)
	}
	r, err := a.box.Run(context.Background(), o)
	t.Logf("%s, status %d, %v, %d MiB, attempted %v, %s", r.Verdict, r.ExitCode, r.Wall.Round(time.Millisecond), r.MaxRSS>>20, r.Attempted, r.StderrHead)
	return r, err
}

// ok runs code in the agent and wants it to answer ok.
func (a *warmAgent) ok(t *testing.T, code string) AgentResult {
	t.Helper()
	r, err := a.start(t, code, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != OK || strings.TrimSpace(string(r.Stdout)) != "ok" {
		t.Errorf("%s, answered %q, standard error %q", r.Verdict, r.Stdout, r.StderrHead)
	}
	return r
}

// runsItsInput is an agent that does what it is told, with modules that were
// imported before.
var runsItsInput = map[string]string{
	"agent.py": "import sys, os, json, helper\nfrom random import random\nexec(compile(sys.stdin.read(), 'told', 'exec'))\n",
	"helper.py": `import os
state = []
imported_by = os.getpid()
environment = dict(os.environ)
`,
}

// As the interpreter itself would start it.
func TestWarmAgentIsLikeAStartedOne(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		a := newWarmAgent(t, class, runsItsInput)
		a.ok(t, `
import __main__
assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals(), __name__
assert __file__ == "/agent/agent.py" and sys.argv == ["/agent/agent.py"] and sys.path[0] == "/agent", (sys.argv, sys.path)
assert os.getcwd() == "/work" and os.environ["SECRET"] and "SECRET" not in helper.environment
assert (os.getppid(), os.getpgid(0)) == (0, os.getpid()), (os.getppid(), os.getpgid(0))
assert os.getuid() == 0 and "CapEff:\t0000000000000000" in open("/proc/self/status").read()
assert os.listdir("/proc/self/fd") and len(os.listdir("/proc/self/fd")) <= 5, os.listdir("/proc/self/fd")
assert not [v for v in os.environ if v.startswith("TALLY")]
assert open("/tmp/x", "w").write("x") and not os.path.exists("/tally/cases/x") and not os.listdir("/tally/cases")
try:
    open("/agent/x", "w")
except OSError: pass
else: raise Exception("its files are writable")
import subprocess
assert subprocess.run(["sh", "-c", "cat /proc/self/status"], capture_output=True, text=True).stdout.count("CapEff:\t0000000000000000") == 1
left_open = open("left", "w"); left_open.write("flushed at the end")
print("ok")`)
		found, _ := filepath.Glob(filepath.Join(a.folders, "*", "left"))
		if len(found) != 1 {
			t.Fatal(found)
		}
		if b, err := os.ReadFile(found[0]); string(b) != "flushed at the end" {
			t.Errorf("left %q, %v", b, err)
		}
		for code, want := range map[string]struct {
			exit   int
			stderr string
		}{
			"sys.exit(3)":             {3, ""},
			"sys.exit('no')":          {1, "no\n"},
			"1/0":                     {1, "Traceback (most recent call last):\n  File \"/agent/agent.py\", line 3, in <module>\n"},
			"os.kill(os.getpid(), 9)": {137, ""},
			"os._exit(7)":             {7, ""},
		} {
			r, err := a.start(t, code, nil)
			if err != nil || r.ExitCode != want.exit || !strings.HasPrefix(r.StderrHead, want.stderr) {
				t.Errorf("%s: status %d, %q, %v", code, r.ExitCode, r.StderrHead, err)
			}
		}
		p, attempts, err := a.box.Preload(context.Background())
		if err != nil || p.Modules == 0 || len(p.Digest) != 64 || len(attempts) != 0 {
			t.Errorf("%+v, %v, %v", p, attempts, err)
		}
		random := map[string]bool{}
		for range 3 {
			r, err := a.start(t, "print(random())", nil)
			if err != nil {
				t.Fatal(err)
			}
			random[string(r.Stdout)] = true
		}
		if len(random) != 3 {
			t.Errorf("cases share their random numbers: %v", random)
		}
	})
}

func TestWarmAgentOfAModule(t *testing.T) {
	a := newWarmAgent(t, GVisor, map[string]string{"tool.py": "import json, sys\nprint('ok' if sys.argv == ['/agent/tool.py', 'x'] else sys.argv)\n"}, "-m", "tool", "x")
	a.env = append(a.env, "PYTHONPATH=/agent")
	r, err := a.start(t, "", nil)
	var unfit *PreloadError
	if !errors.As(err, &unfit) || !strings.Contains(unfit.Reason, "no module tool") {
		t.Errorf("%+v, %v", r, err)
	}
}

// What one case does is gone when the next one begins, and does not keep it from
// beginning.
func TestWarmCasesLeaveNothingBehind(t *testing.T) {
	attacks := map[string]struct {
		code  string
		wants Verdict // "" for whatever comes of it
		act   calls.Act
	}{
		"writes to /tmp and /dev/shm":   {code: "open('/tmp/mark', 'w'); open('/dev/shm/mark', 'w'); open('mark', 'w')", wants: OK},
		"changes a preloaded module":    {code: "helper.state.append(1); json.loads = None; sys.modules['json'] = 1; os.environ['MARK'] = '1'; sys.path.append('/mark')", wants: OK},
		"leaves a daemon":               {code: "import signal\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]\n  import time\n  while True: time.sleep(1)\n", wants: OK},
		"kills every process it can":    {code: "for p in [1, -1, os.getppid(), helper.imported_by] + list(range(2, 40)):\n  if p not in (0, os.getpid()):\n    try: os.kill(p, 9)\n    except OSError: pass\n"},
		"kills its group":               {code: "os.kill(0, 9)", wants: Killed},
		"stops its first process":       {code: "import signal\nfor s in signal.SIGSTOP, signal.SIGTERM:\n  try: os.kill(1, s)\n  except OSError: pass\n", wants: OK},
		"writes to every descriptor":    {code: "for fd in range(3, 1024):\n  for m in b'1 0', b'2 0', b'W{}', b'{\"failed\":\"x\"}':\n    try: os.write(fd, m)\n    except OSError: pass\n", wants: OK},
		"forks without end":             {code: "import time\ntry:\n  while True: os.fork()\nexcept OSError: time.sleep(60)\n"},
		"takes all memory":              {code: "x = []\nwhile True: x.append(bytearray(1 << 24))", wants: OOM},
		"fills /tmp":                    {code: "f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * (1 << 20)); f.flush()", wants: OOM},
		"prints without end":            {code: "while True: print('x' * 65536)", wants: OutputLimit},
		"never ends":                    {code: "import time\ntime.sleep(600)", wants: Timeout},
		"joins another namespace":       {code: "import ctypes, glob\nlibc = ctypes.CDLL(None)\nfor n in glob.glob('/proc/*/ns/*'):\n  try: fd = os.open(n, 0)\n  except OSError: continue\n  assert libc.setns(fd, 0) != 0 or n.endswith('pid_for_children'), n\n  os.close(fd)\n", act: calls.KernelCall},
		"makes a namespace and a mount": {code: "import ctypes\nlibc = ctypes.CDLL(None)\nassert libc.unshare(0x20000) != 0 and libc.mount(b'x', b'/tmp', b'tmpfs', 0, None) != 0 and libc.umount2(b'/work', 2) != 0 and libc.chroot(b'/tmp') != 0", act: calls.KernelCall},
		"traces":                        {code: "import ctypes\nlibc = ctypes.CDLL(None)\nfor p in [1, helper.imported_by] + list(range(2, 20)):\n  if p != os.getpid(): assert libc.ptrace(16, p, 0, 0) != 0, p\n", act: calls.KernelCall},
		"reads the memory of others":    {code: "for p in os.listdir('/proc'):\n  if p.isdigit() and int(p) != os.getpid():\n    for f in 'mem', 'environ':\n      try: assert not open(f'/proc/{p}/{f}', 'rb').read(10), p\n      except OSError: pass\n", wants: OK, act: calls.HiddenFile},
		"connects outside":              {code: "import socket\ns = socket.socket()\ns.settimeout(1)\ntry: s.connect(('192.0.2.1', 80))\nexcept OSError: pass\n", wants: OK, act: calls.Address},
	}
	const clean = `
assert helper.state == [] and json.loads("[1]") == [1] and "MARK" not in os.environ and "/mark" not in sys.path
assert not os.listdir("/tmp") and not os.listdir("/dev/shm") and not os.listdir("/work"), (os.listdir("/tmp"), os.listdir("/work"))
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
assert not others, others
print("ok")`
	eachClass(t, func(t *testing.T, class Class) {
		a := newWarmAgent(t, class, runsItsInput)
		a.ok(t, clean)
		for name, attack := range attacks {
			t.Run(name, func(t *testing.T) {
				r, err := a.start(t, attack.code, func(o *AgentOptions) {
					o.Limits = AgentLimits{Timeout: 5 * time.Second, MemoryBytes: 256 << 20, OutputBytes: 1 << 20, Tasks: 64}
				})
				if err != nil {
					t.Error(err)
				}
				if attack.wants != "" && r.Verdict != attack.wants {
					t.Errorf("%s, %d, %s", r.Verdict, r.ExitCode, r.StderrHead)
				}
				acted := false
				for _, at := range r.Attempted {
					acted = acted || at.Act == attack.act
				}
				if attack.act != "" && !acted {
					t.Errorf("no %s among %v", attack.act, r.Attempted)
				}
				if attack.act == "" && len(r.Attempted) > 0 {
					t.Errorf("it is said to have attempted %v", r.Attempted)
				}
				if strings.Contains(r.StderrHead, "AssertionError") {
					t.Error(r.StderrHead)
				}
				if r := a.ok(t, clean); len(r.Attempted) > 0 {
					t.Errorf("the next one is said to have attempted %v", r.Attempted)
				}
			})
		}
	})
}

// Two cases at the same time do not meet.
func TestWarmCasesDoNotSeeEachOther(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		a := newWarmAgent(t, class, runsItsInput)
		victim := `
import socket, time
servers = []
for family, address in ((socket.AF_INET, ("127.0.0.1", 5000)), (socket.AF_UNIX, "\0victim"), (socket.AF_UNIX, "/tmp/victim")):
    s = socket.socket(family); s.bind(address); s.listen(); servers.append(s)
open("secret", "w").write("secret-of-the-victim")
open("ready", "w")
while not os.path.exists("done"): time.sleep(0.1)
print("ok")`
		spy := `
import glob, socket
for family, address in ((socket.AF_INET, ("127.0.0.1", 5000)), (socket.AF_UNIX, "/tmp/victim")):
    try: socket.socket(family).connect(address)
    except OSError: pass
    else: raise AssertionError(address)
found = glob.glob("/tally/**/secret", recursive=True) + glob.glob("/proc/*/ro[o]t/work/secret") + glob.glob("/proc/*/cwd/secret")
assert not found, found
import ctypes
libc = ctypes.CDLL(None)
assert not os.listdir("/tally/cases")
if libc.unshare(0x10020000) == 0:  # gVisor lets it have its own user and mount namespaces
    libc.umount2(b"/tally/cases", 2)
    libc.mount(b"/", b"/tmp", None, 4096, None)
    libc.mount(b"/tally", b"/tmp", None, 4096, None)
    for where in "/tally/cases", "/tmp/tally/cases", "/tmp/cases":
        assert not os.path.exists(where) or not os.listdir(where), where
for p in os.listdir("/proc"):
    if p.isdigit() and int(p) != os.getpid():
        try: assert b"servers" not in open("/proc/" + p + "/environ", "rb").read(), p
        except OSError: pass
print("ok")`
		var both sync.WaitGroup
		both.Go(func() { a.ok(t, victim) })
		for range 1000 {
			if ready, _ := filepath.Glob(filepath.Join(a.folders, "*", "ready")); len(ready) > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		os.Chmod(a.folders, 0o755) // as it would be for an ordinary user, who owns it
		a.ok(t, spy)
		ready, _ := filepath.Glob(filepath.Join(a.folders, "*", "ready"))
		for _, r := range ready {
			os.WriteFile(filepath.Join(filepath.Dir(r), "done"), nil, 0o644)
		}
		both.Wait()
	})
}

// The gateway of a case is its own.
func TestWarmCasesReachTheirOwnGateway(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		a := newWarmAgent(t, class, map[string]string{"agent.py": "import http.client\nc = http.client.HTTPConnection('127.0.0.1', 4180)\nc.request('POST', '/', open(0).read())\nprint(c.getresponse().read().decode())\n"})
		one, ofOne := echoGateway(t)
		other, ofOther := echoGateway(t)
		for stdin, g := range map[string]*Gateway{"one": one, "other": other} {
			r, err := a.start(t, stdin, func(o *AgentOptions) { o.Gateway = g })
			if err != nil || strings.TrimSpace(string(r.Stdout)) != stdin {
				t.Errorf("%s: %q, %v", stdin, r.Stdout, err)
			}
		}
		if ofOne.Load() != 1 || ofOther.Load() != 1 {
			t.Errorf("%d and %d requests", ofOne.Load(), ofOther.Load())
		}
	})
}

// Imports are made once, and what they must not do fails with what to do about
// it, or is ended.
func TestPreloads(t *testing.T) {
	for name, tt := range map[string]struct {
		helper  string
		failure string // "" if cases run
		network bool
		left    int
	}{
		"opens a socket":                       {helper: "import socket\nsocket.create_connection(('192.0.2.1', 80), 2)", failure: "/agent/helper.py:", network: true},
		"asks for a name":                      {helper: "import socket\nsocket.getaddrinfo('example.com', 80)", failure: "gaierror", network: true},
		"swallows that it did":                 {helper: "import socket\ntry: socket.create_connection(('192.0.2.1', 80), 2)\nexcept OSError: pass\n"},
		"wants a key":                          {helper: "import os\nos.environ['OPENAI_API_KEY']", failure: "KeyError: 'OPENAI_API_KEY'"},
		"never ends":                           {helper: "while True: pass", failure: "did not end within 3s"},
		"prints 10 MB":                         {helper: "print('x' * 10_000_000)"},
		"forks":                                {helper: "import os, time\nif os.fork() == 0:\n  while True: time.sleep(1)\n", left: 1},
		"starts a thread":                      {helper: "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True, name='poller').start()", failure: "agent.py, line 1: importing helper starts a thread"},
		"starts one that Python does not know": {helper: "import _thread, time\n_thread.start_new_thread(time.sleep, (60,))", failure: "left 1 threads running"},
		"ends":                                 {helper: "import os\nos._exit(3)", failure: "the preloader ended with status 3"},
		"raises SystemExit":                    {helper: "raise SystemExit(0)", failure: "SystemExit"},
		"kills its parent":                     {helper: "import os\nos.kill(os.getppid(), 9)\nimport time; time.sleep(1)", failure: "ended"},
		"has an error":                         {helper: "x = (", failure: "SyntaxError"},
		"joins and mounts":                     {helper: "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.mount(b'x', b'/tmp', b'tmpfs', 0, None)"},
		"speaks to the keeper":                 {helper: "import os\nfor fd in range(3, 64):\n  try: os.write(fd, b'{\"modules\":1,\"digest\":\"x\",\"milliseconds\":1}')\n  except OSError: pass\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newWarmAgent(t, GVisor, map[string]string{"agent.py": "import helper\nprint('ok')", "helper.py": tt.helper})
			a.box.options.Patience = 3 * time.Second
			r, err := a.start(t, "", nil)
			var unfit *PreloadError
			switch {
			case tt.failure == "" && (err != nil || r.Verdict != OK):
				t.Errorf("%+v, %v", r, err)
			case tt.failure != "" && (!errors.As(err, &unfit) || !strings.Contains(err.Error(), tt.failure) || !strings.Contains(err.Error(), "move the call into a function")):
				t.Errorf("%+v, %v", r, err)
			case tt.failure != "" && unfit.Network != tt.network:
				t.Errorf("network: %v, %v", unfit.Network, err)
			}
			p, attempts, _ := a.box.Preload(context.Background())
			if p.Left != tt.left {
				t.Errorf("%d processes were left", p.Left)
			}
			t.Log(p, attempts)
		})
	}
}

// Nothing is left of a warm sandbox whose run was broken off.
func TestWarmSandboxesLeaveNothing(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		a := newWarmAgent(t, class, runsItsInput)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		work, err := os.MkdirTemp(a.folders, "work")
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.box.Run(ctx, AgentOptions{Command: a.command, Env: a.env, Stdin: strings.NewReader("import time; time.sleep(60)"), WorkFolder: work})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		a.ok(t, "print('ok')") // in the same sandbox
		unix.Kill(a.box.box.running.pid, unix.SIGKILL)
		<-a.box.box.running.exited
		a.ok(t, "print('ok')") // in another one
	})
}

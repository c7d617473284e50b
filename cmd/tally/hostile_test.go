package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hostileAgents answer right, whatever else they do. Violations is what their
// record must say, in every class of sandbox.
var hostileAgents = []struct {
	name, python string
	violations   int
}{
	{"honest", ``, 0},
	{"look-ups", `import http.client, ssl, sqlite3, asyncio; open_("/nonexistent"); open_("/etc/nosuch"); connect("127.0.0.1", 1)`, 0},
	// What the trials did: a key, the metadata service, a mount, a forged token.
	{"trials", `open_(WS + "/.tally/keys/operator"); connect("169.254.169.254", 80); libc.mount(b"none", b"/tmp", b"tmpfs", 0, None); ask("sk-tally-forged")`, 4},
	{"links", `os.symlink(WS, "x"); open_("x/bench/agents/dataset.jsonl"); open_("/proc/self/root" + WS + "/tally.yaml"); open_(os.fsencode(WS) + b"/\xff")`, 3},
	{"ssh", `open_("/" "root/.ssh/id_rsa"); open_("/" "home/x/.ssh/id_rsa")`, 2},
	{"after an error", `ask(KEY, b'{"model":"","messages":[]}'); libc.unshare(0x20000)`, 1},
}

const hostileAgent = `
import os, sys, socket, ctypes, urllib.request
said, WS, KEY = sys.stdin.read(), %q, os.environ["TALLY_TOKEN"]
libc = ctypes.CDLL(None)
def open_(path):
    try: open(path)
    except OSError: pass
def connect(host, port):
    try: socket.create_connection((host, port), 1)
    except OSError: pass
def ask(key, body=b'{}'):
    r = urllib.request.Request(os.environ["TALLY_GATEWAY"] + "/v1/chat/completions", body, {"Authorization": "Bearer " + key})
    try: urllib.request.urlopen(r)
    except OSError: pass
%s
print(said)
`

// The same hostile agents through whole runs, in every class that runs agents
// here: what the record says is what counts, and it must say the same.
func TestHostileAgentsInARun(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("no Python below /usr")
	}
	w.write("bench/agents/registration.yaml", strings.Replace(agentRegistration, "classes: [gvisor]", "classes: [gvisor, namespace]", 1))
	w.write("bench/agents/dataset.jsonl", `{"id":"echo","input":"ping","expected":"ping","grade":{"kind":"normalised"}}`+"\n")
	for _, class := range []string{"gvisor", "namespace"} {
		if out, err := w.command("sandbox", "probe", "--json").Output(); err != nil || !strings.Contains(string(out), `"class":"`+class+`","works":true`) {
			t.Logf("%s does not start here", class)
			continue
		}
		for i, h := range hostileAgents {
			t.Run(class+"/"+h.name, func(t *testing.T) {
				target := fmt.Sprintf("h%d-%s", i, class)
				w.write("targets/"+target+"/main.py", fmt.Sprintf(hostileAgent, w.dir, h.python))
				w.write("targets/"+target+".yaml", "version: 1\nkind: command\ncommand:\n  command: [/usr/bin/python3, /agent/main.py]\n  files: "+target+"\n")
				records, _ := w.run("agents", "--target", target, "--sandbox", class)
				r := records["echo"]
				if r == nil || r.Outcome != "passed" || r.AgentIsolation != class {
					t.Fatalf("record %+v", r)
				}
				if r.Policy.Violations != h.violations {
					t.Errorf("%d violations, want %d", r.Policy.Violations, h.violations)
				}
				out, _ := w.command("--workspace", w.dir, "scorecard", r.Attempt).CombinedOutput()
				if unmet := strings.Contains(string(out), "policy_violations is "); unmet != (h.violations > 0) {
					t.Errorf("scorecard: %s", out)
				}
			})
		}
	}
}

// A program that is tried in a workspace, or in a home folder, finds none of
// the keys and answers there.
func TestTryShowsNoSecrets(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	home := t.TempDir()
	put := func(dir, name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The program says how many of the files that it is given as a list it
	// could read, then what its own folder holds.
	const spy = "#!/bin/sh\nn=0; for f in $(cat); do cat \"$f\" >/dev/null 2>&1 && n=$((n+1)); done; echo \"read $n\"\n"
	secrets := map[string][]string{
		w.dir: {".tally/keys/operator", "tally.yaml", "bench/secret/expected/answer", "bench/secret/grading.yaml", "signers/allowed_signers"},
		home:  {".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", "project/.ssh/id_rsa", "ws/.tally/keys/operator", "ws/bench/c/cases/1/expected/a"},
	}
	for dir, names := range secrets {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				put(dir, name, "swordfish")
			}
		}
	}
	for _, dir := range []string{w.dir, filepath.Join(w.dir, "targets", "spy"), filepath.Join(w.dir, "bench", "secret"), home, filepath.Join(home, "ws"), filepath.Join(home, "project"), filepath.Join(home, "clean")} {
		put(dir, "spy.sh", spy)
		put(dir, "own.txt", "mine")
	}
	list := func(dir string) string {
		var all []string
		for base, names := range secrets {
			for _, name := range names {
				abs := filepath.Join(base, name)
				rel, _ := filepath.Rel(dir, abs)
				all = append(all, abs, rel, "/proc/self/root"+abs)
			}
		}
		return strings.Join(all, " ")
	}
	for _, tt := range []struct {
		name, dir string
		command   []string
		runs      bool // else the program is not there either
	}{
		{"in the workspace", w.dir, []string{"sh", "spy.sh"}, true},
		{"in the workspace, from targets", w.dir, []string{"sh", "targets/spy/spy.sh"}, true},
		{"in targets", filepath.Join(w.dir, "targets", "spy"), []string{"sh", "spy.sh"}, true},
		{"among the answers", filepath.Join(w.dir, "bench", "secret"), []string{"sh", "spy.sh"}, false},
		{"in the home folder", home, []string{"sh", "spy.sh"}, true},
		{"in the home folder, by its path", home, []string{filepath.Join(home, "spy.sh")}, true},
		{"above a workspace", home, []string{"sh", "clean/spy.sh"}, true},
		{"in another workspace", filepath.Join(home, "ws"), []string{"sh", "spy.sh"}, true},
		{"beside keys", filepath.Join(home, "project"), []string{"sh", "spy.sh"}, true},
		{"in a folder of its own", filepath.Join(home, "clean"), []string{"sh", "spy.sh"}, true},
		{"with the key as an argument", w.dir, []string{"cat", ".tally/keys/operator"}, false},
		{"with the answers as an argument", w.dir, []string{"cat", "bench/secret/expected/answer"}, false},
		{"with a private key as an argument", home, []string{"cat", ".ssh/id_ed25519"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := w.command(append([]string{"try", "--case", list(tt.dir) + "=read 0", "--"}, tt.command...)...)
			cmd.Dir = tt.dir
			cmd.Env = append(cmd.Env, "HOME="+home)
			out, err := cmd.CombinedOutput()
			if strings.Contains(string(out), "swordfish") || strings.Contains(string(out), "PRIVATE KEY") || (err == nil) != tt.runs {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	// The program's own folder is there.
	cmd := w.command("try", "--case", "own.txt=read 1", "--", "sh", "-c", "cd "+filepath.Join(home, "clean")+" && sh spy.sh", "clean/spy.sh")
	cmd.Dir, cmd.Env = home, append(cmd.Env, "HOME="+home)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("its own files: %v: %s", err, out)
	}
	// What is hidden cannot be mounted either.
	cmd = w.command("try", "--mount", filepath.Join(w.dir, ".tally"), "--case", "a=a", "--", "cat")
	cmd.Dir = w.dir
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "hidden from agents") {
		t.Errorf("--mount: %v: %s", err, out)
	}
}

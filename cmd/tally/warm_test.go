package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// warmClient is an agent of the standard library alone that asks its model, and
// then does what the user says.
const warmClient = `import http.client, json, os, sys

def ask(text, token=None):
    c = http.client.HTTPConnection(os.environ["TALLY_GATEWAY"].removeprefix("http://"))
    c.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}),
              {"Authorization": "Bearer " + (token or os.environ["TALLY_TOKEN"]), "Content-Type": "application/json"})
    r = c.getresponse()
    return r.status, r.read().decode()

text = sys.stdin.read()
status, body = ask("hello")
answer = json.loads(body)["choices"][0]["message"]["content"]
exec(text)
print(answer)
`

// A preloaded agent is recorded like one that is started for every case, but for
// its scope.
func TestWarmTargets(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	python := "/usr/bin/python3"
	if exec.Command(python, "-c", "import ctypes, socket").Run() != nil {
		t.Skip("no Python below /usr")
	}
	w.write("bench/agents/registration.yaml", agentRegistration)
	line := func(id, code string) string {
		return `{"id":"` + id + `","input":` + quoted(code) + `,"model":[{"text":"pong","repeat":true}],"expected":"pong","files":{"notes.txt":"one\n"},"grade":{"kind":"exact"}}` + "\n"
	}
	w.write("bench/agents/dataset.jsonl", line("plain", "pass")+
		line("writes", "open('new.txt', 'w').write('x'); open('/tmp/mark', 'w'); json.loads = None")+
		line("clean", "assert not os.path.exists('/tmp/mark') and json.loads('1') == 1 and sorted(os.listdir('/work')) == ['notes.txt']")+
		line("foreign", "assert ask('x', 'tally-' + 'a' * 40)[0] == 401")+
		line("hidden", "\ntry: open('/etc/shadow')\nexcept OSError: pass"))
	w.write("targets/agent/agent.py", warmClient)
	target := "version: 1\nkind: command\ncommand: {command: [" + python + ", /agent/agent.py], files: agent"
	w.write("targets/cold.yaml", target+"}\n")
	w.write("targets/warm.yaml", target+", warm: python}\n")
	cold, _ := w.run("agents", "--target", "cold")
	warm, _ := w.run("agents", "--target", "warm", "--jobs", "2")
	if len(cold) != 5 || len(warm) != 5 {
		t.Fatalf("%d and %d records", len(cold), len(warm))
	}
	for id, c := range cold {
		x := warm[id]
		if x.Outcome != c.Outcome || x.Reason != c.Reason || x.Policy != c.Policy || x.AgentIsolation != c.AgentIsolation || x.Turns != c.Turns || x.Tokens != c.Tokens {
			t.Errorf("%s: cold %+v\nwarm %+v", id, c, x)
		}
		if c.AgentScope != "" || c.Preload != nil || x.AgentScope != "attempt" || x.Preload == nil || x.Preload.Modules == 0 {
			t.Errorf("%s: scope %q and %q, preload %+v", id, c.AgentScope, x.AgentScope, x.Preload)
		}
	}
	for id, violations := range map[string]int{"plain": 0, "writes": 0, "clean": 0, "foreign": 1, "hidden": 1} {
		if r := warm[id]; r.Outcome != "passed" || r.Policy.Violations != violations {
			t.Errorf("%s: %+v", id, r)
		}
	}
	w.write("targets/agent/reaches.py", "import helper\nprint('pong')\n")
	w.write("targets/agent/helper.py", "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/', timeout=2)\n")
	w.write("targets/reaches.yaml", strings.Replace(target, "agent.py", "reaches.py", 1)+", warm: python}\n")
	records, _ := w.run("agents", "--target", "reaches")
	for id, r := range records {
		if r.Outcome != "errored" || r.AgentScope != "attempt" || !strings.Contains(r.Reason, "/agent/helper.py:2") || !strings.Contains(r.Reason, "without network") ||
			!strings.Contains(r.Reason, `move the call into a function, or drop "warm: python"`) {
			t.Errorf("%s: %+v", id, r)
		}
	}
}

// A preloaded module is one that leaves our names alone, and an @agent function
// is found by the package in each fork.
func TestWarmModules(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	python := "/usr/bin/python3"
	if exec.Command(python, "-c", "import ctypes, socket").Run() != nil {
		t.Skip("no Python below /usr")
	}
	w.write("bench/agents/registration.yaml", strings.Replace(agentRegistration, "allow_weaker: false", "allow_weaker: true", 1))
	w.write("bench/agents/dataset.jsonl", `{"id":"one","input":"hi","expected":"HI","grade":{"kind":"exact"}}
{"id":"two","input":"ho","expected":"HO","grade":{"kind":"exact"}}
`)
	for _, name := range []string{"__init__.py", "__main__.py", "agent.py", "evals.py", "rubric.py", "tally.py"} {
		text, err := os.ReadFile("../../python/tallystick/" + name)
		if err != nil {
			t.Fatal(err)
		}
		w.write("targets/agent/tallystick/"+name, string(text))
	}
	w.write("targets/agent/answers.py", "import decimal, sys\nfrom tallystick import agent\n@agent\ndef answer(text):\n    print('noise')\n    return text.upper()\n")
	// It has names that the preloader has too.
	w.write("targets/agent/shop/__main__.py", "import sys\nfrom .tools import up\nfinish = main = os = None\nif __name__ == '__main__': print(up(sys.stdin.read()))\n")
	w.write("targets/agent/shop/tools.py", "def up(text): return text.upper()\n")
	for target, words := range map[string]string{"decorated": "tallystick, /agent/answers.py", "module": "shop"} {
		w.write("targets/"+target+".yaml", "version: 1\nkind: command\ncommand: {command: ["+python+`, "-m", `+words+"], files: agent, env: {PYTHONPATH: /agent}, warm: python}\n")
		for _, class := range []string{"gvisor", "namespace"} {
			records, stderr := w.run("agents", "--target", target, "--sandbox", class)
			for id, r := range records {
				if r.Outcome != "passed" || r.AgentScope != "attempt" || r.Preload == nil || r.Preload.Modules == 0 || r.AgentIsolation != class {
					t.Errorf("%s in %s, %s: %+v\n%s", target, class, id, r, stderr)
				}
			}
			if len(records) != 2 {
				t.Errorf("%s in %s: %d records\n%s", target, class, len(records), stderr)
			}
		}
	}
}

// quoted is JSON text.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func TestWarmTargetsThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	w.write("bench/agents/registration.yaml", agentRegistration)
	w.write("bench/agents/dataset.jsonl", `{"id":"one","input":"hi","expected":"hi","grade":{"kind":"exact"}}`+"\n")
	for command, warm := range map[string]string{
		"[node, agent.js]": "python", "[python3]": "python", "[python3, -c, pass]": "python", "[python3, -m]": "python", "[sh, -c, python3 x.py]": "python", "[python3, x.py]": "node",
	} {
		w.write("targets/odd.yaml", "version: 1\nkind: command\ncommand: {command: "+command+", warm: "+warm+"}\n")
		out, err := w.command("--workspace", w.dir, "run", "agents", "--target", "odd").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "warm: ") || !strings.Contains(string(out), "expected python") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}

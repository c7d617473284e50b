package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A person's agent lies in a repository, with its environment beside it. The
// target names both as they are there, and nothing of this machine.
func TestVirtualEnvironments(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if exec.Command("python3", "-c", "import venv").Run() != nil {
		t.Skip("this Python cannot make virtual environments")
	}
	repo := filepath.Dir(w.dir)
	if err := os.Mkdir(filepath.Join(repo, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := filepath.Join(repo, ".venv")
	if out, err := exec.Command("python3", "-m", "venv", "--without-pip", env).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	libs, err := filepath.Glob(filepath.Join(env, "lib", "python*", "site-packages"))
	if err != nil || len(libs) != 1 {
		t.Fatalf("%v, %v", libs, err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(libs[0], "installed.py"), "def answer(): return 'from the environment'\n", 0o644)
	// As uv and poetry write it of the project itself, which is not shown.
	write(filepath.Join(libs[0], "_project.pth"), filepath.Join(w.dir, "src")+"\n", 0o644)
	// As pip writes it: the path of the host is in its first line.
	write(filepath.Join(env, "bin", "tool"), "#!"+env+"/bin/python\nimport installed; print(installed.answer())\n", 0o755)
	write(filepath.Join(repo, "agent.py"), "import installed, os, sys\nprint(installed.answer(), sys.prefix, os.path.exists('/agent/secret'))\n", 0o644)
	w.write("bench/agents/registration.yaml", agentRegistration)
	w.write("bench/agents/dataset.jsonl", `{"id":"one","input":"hi","grade":{"kind":"contains","expected":"from the environment"}}`+"\n")
	w.write("targets/script.yaml", "version: 1\nkind: command\ncommand: {command: [python, /agent/agent.py], source: agent.py, venv: .venv}\n")
	w.write("targets/tool.yaml", "version: 1\nkind: command\ncommand: {command: [tool], venv: .venv}\n")
	w.write("targets/gone.yaml", "version: 1\nkind: command\ncommand: {command: [python], venv: .nothing}\n")
	for _, target := range []string{"script", "tool"} {
		records, _ := w.run("agents", "--target", target)
		if c := records["one"]; c == nil || c.Outcome != "passed" || c.AgentIsolation != "gvisor" || c.Policy.Violations != 0 {
			t.Errorf("%s: %+v", target, c)
		}
	}
	digest := func() string {
		out, err := w.command("--workspace", w.dir, "ledger", "show", "--json", "1").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if d := digest(); strings.Contains(d, repo) {
		t.Errorf("the registration names a path of this machine: %s", d)
	} else if !strings.Contains(d, `"mounts":[{"digest":"blake3:`) || !strings.Contains(d, `"held":"compared","inside":"/venv"}`) {
		t.Errorf("the registration does not name the environment by its digest: %s", d)
	}
	out, err := w.command("--workspace", w.dir, "run", "agents", "--target", "gone").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "there is no .nothing in") || !strings.Contains(string(out), "python3 -m venv .nothing") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A source that is the whole repository does not show the agent the answers.
func TestSourceLeavesTheAnswersOut(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	w.write("agent.sh", "cd /agent && find . -type f | sort | xargs echo\n")
	w.write("lib/helper.txt", "x")
	w.write(".env", "KEY=secret")
	w.write("node_modules/x/index.js", "x")
	w.write("bench/agents/registration.yaml", agentRegistration)
	w.write("bench/agents/dataset.jsonl", `{"id":"one","input":"hi","grade":{"kind":"exact","expected":"./agent.sh ./lib/helper.txt ./tally.yaml ./templates/CODEOWNERS"}}`+"\n")
	w.write("targets/here.yaml", "version: 1\nkind: command\ncommand: {command: [/bin/sh, /agent/agent.sh], source: .}\n")
	records, _ := w.run("agents", "--target", "here")
	if c := records["one"]; c == nil || c.Outcome != "passed" {
		out, _ := w.command("--workspace", w.dir, "why", "one").CombinedOutput()
		t.Errorf("%+v\n%s", c, out)
	}
}

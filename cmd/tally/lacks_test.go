package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program that cannot start says which file its sandbox lacks, and the line
// that gives it is the cure.
func TestProgramsThatCannotStart(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	away, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(away, "bin/ours"), "#!/bin/sh\necho 42\n")
	put(filepath.Join(away, "own/interpreter"), "#!/bin/sh\necho 42\n")
	if err := os.Symlink(filepath.Join(away, "bin/ours"), filepath.Join(away, "own/link")); err != nil {
		t.Fatal(err)
	}
	w.write("asks.txt", "#!"+away+"/own/interpreter\n")
	w.write("agent.py", "import helper\n")
	w.write("helper.py", "print(42)\n")
	w.write("bench/agents/registration.yaml", agentRegistration)
	w.write("bench/agents/dataset.jsonl", `{"id":"one","input":"hi","grade":{"kind":"exact","expected":"42"}}`+"\n")
	mount := "mounts: [{host: " + away + "}]"
	tests := []struct{ name, command, says, cured string }{
		{"program", "command: [" + away + "/bin/ours]", "the sandbox does not have " + away + "/bin/ours; add to the target, below command: \"" + mount + `"`,
			"command: [" + away + "/bin/ours], " + mount},
		{"first-line", "command: [/agent/asks.txt], source: asks.txt", "the first line of /agent/asks.txt asks for " + away + "/own/interpreter: the sandbox does not have",
			"command: [/agent/asks.txt], source: asks.txt, mounts: [{host: " + away + "/own}]"},
		{"link", "command: [/own/link], mounts: [{host: " + away + "/own, inside: /own}]", "/own/link is a link to " + away + "/bin/ours, which the sandbox does not have",
			"command: [/own/link], mounts: [{host: " + away + "/own, inside: /own}, {host: " + away + "}]"},
		{"nowhere", "command: [no-such-program]", "this machine has no program no-such-program either", ""},
	}
	if exec.Command("/usr/bin/python3", "-c", "").Run() == nil {
		tests = append(tests, []struct{ name, command, says, cured string }{
			{"module", "command: [/usr/bin/python3, \"-c\", \"import tallystick_x\"], source: agent.py", `add the line "venv: .venv" to the target, and install it there: .venv/bin/pip install tallystick_x`, ""},
			{"beside", "command: [/usr/bin/python3, /agent/agent.py], source: agent.py", `helper.py lies beside agent.py, and source names that file alone: name its folder, as in "source: ."`,
				"command: [/usr/bin/python3, /agent/agent.py], source: ."},
			{"no-file", "command: [/usr/bin/python3, /agent/main.py], source: agent.py", "source or files does not have it: /agent has agent.py", ""},
		}...)
	}
	for i, tt := range tests {
		// What is said does not depend on the class, but that it fails alike does.
		class := []string{"gvisor", "namespace"}[i%2]
		w.write("targets/x.yaml", "version: 1\nkind: command\ncommand: {"+tt.command+"}\n")
		w.write("bench/agents/registration.yaml", strings.Replace(agentRegistration, "[gvisor]", "["+class+"]", 1))
		if c := first(w.run("agents", "--target", "x"))["one"]; c == nil || c.Outcome != "errored" || !strings.Contains(c.Reason, tt.says) {
			t.Errorf("%s in %s: %+v", tt.name, class, c)
		}
		if tt.cured == "" {
			continue
		}
		w.write("targets/x.yaml", "version: 1\nkind: command\ncommand: {"+tt.cured+"}\n")
		if c := first(w.run("agents", "--target", "x"))["one"]; c == nil || c.Outcome != "passed" {
			t.Errorf("%s, cured: %+v", tt.name, c)
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// An agent that is there already runs after one command, with what is installed
// for it.
func TestInitForAnAgent(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	repo := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("words.sh", "cat >/dev/null; echo 'oslo 42 cold tallystick apple'\n")
	write("node_modules/answers/package.json", `{"name":"answers","type":"module","exports":"./index.js"}`)
	write("node_modules/answers/index.js", "export const all = 'Oslo 42 cold tallystick apple'\n")
	write("node_modules/old/index.js", "exports.end = '.'\n")
	if err := os.MkdirAll(filepath.Join(repo, "node_modules", ".bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../answers/index.js", filepath.Join(repo, "node_modules", ".bin", "answers")); err != nil {
		t.Fatal(err)
	}
	write("web/bot.mjs", "import { all } from 'answers'\nimport { createRequire } from 'node:module'\nimport './more.mjs'\nconsole.log(all + createRequire(import.meta.url)('old').end)\n")
	write("web/more.mjs", "")
	write("shop/__init__.py", "")
	write("shop/words.py", "ALL = 'Oslo 42 cold tallystick apple'\n")
	write("shop/desk.py", "import installed\nfrom shop.words import ALL\nprint(ALL)\n")
	agents := map[string]string{"words": "command:sh words.sh"}
	if node := "/usr/bin/node"; exec.Command(node, "--version").Run() == nil {
		agents["bot"] = "typescript:web/bot.mjs"
	}
	if exec.Command("python3", "-m", "venv", "--without-pip", filepath.Join(repo, "venv")).Run() == nil {
		if libs, _ := filepath.Glob(filepath.Join(repo, "venv", "lib", "python*", "site-packages")); len(libs) == 1 {
			agents["desk"] = "python:shop/desk.py"
			if err := os.WriteFile(filepath.Join(libs[0], "installed.py"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.dir = repo
	for name, agent := range agents {
		cmd := w.command("init", "--agent", agent, "--class", "first")
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", agent, err, out)
		}
		records, _ := w.run("first", "--target", name)
		for id, c := range records {
			if c.Outcome != "passed" || c.AgentIsolation != "gvisor" {
				t.Errorf("%s, %s: %s %s, in %s", name, id, c.Outcome, c.Reason, c.AgentIsolation)
			}
		}
		if len(records) != 5 {
			t.Errorf("%s: %d cases", name, len(records))
		}
	}
}

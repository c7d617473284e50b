package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pythonPackage builds the wheel of python/ twice, installs it into a fresh
// virtual environment without a network, and returns that environment's Python.
func pythonPackage(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "PIP_NO_INDEX=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	if exec.Command("python3", "-c", "import ensurepip, venv").Run() != nil {
		t.Skip("this Python cannot make virtual environments with pip (Debian: install python3-venv)")
	}
	source, err := filepath.Abs("../../python")
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{"one", "two"} {
		build := "import os, sys; sys.path.insert(0, '.'); import build_backend; os.makedirs(sys.argv[1]); build_backend.build_wheel(sys.argv[1])"
		cmd := exec.Command("python3", "-B", "-c", build, filepath.Join(dir, out))
		cmd.Dir = source
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building the wheel: %v\n%s", err, said)
		}
	}
	const wheel = "tallystick-0.1.0-py3-none-any.whl"
	one, err := os.ReadFile(filepath.Join(dir, "one", wheel))
	if err != nil {
		t.Fatal(err)
	}
	if two, err := os.ReadFile(filepath.Join(dir, "two", wheel)); err != nil || string(one) != string(two) {
		t.Errorf("the wheel built twice differs (%v)", err)
	}
	if z, err := zip.OpenReader(filepath.Join(dir, "one", wheel)); err != nil {
		t.Error(err)
	} else {
		z.Close()
	}
	env := filepath.Join(dir, "venv")
	run("python3", "-m", "venv", env)
	python := filepath.Join(env, "bin", "python")
	run(python, "-m", "pip", "install", "--quiet", filepath.Join(dir, "one", wheel))
	return python
}

func TestPythonPackage(t *testing.T) {
	python := pythonPackage(t)
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	tally := filepath.Join(dir, "tally")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test program is tally when it is called by that name.
	if err := os.Symlink(self, tally); err != nil {
		t.Fatal(err)
	}
	state := append(os.Environ(), "TALLY="+tally, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "WS="+ws)
	run := func(stdin, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env, cmd.Stdin, cmd.Dir = state, strings.NewReader(stdin), dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("", tally, "demo", ws, "--quiet")

	t.Run("runs, attempts and scores are what tally says", func(t *testing.T) {
		out := run("", python, "-c", `
import os, tallystick as t
ws = os.environ["WS"]
r = t.run("refunds", workspace=ws)
assert (r.total, r.passed, r.failed) == (5, 4, 1), r
newest = t.attempts("refunds", workspace=ws)[0]
assert newest.id == r.attempt.id and newest.class_name == "refunds" and newest.passed == 4, newest
worst = t.scores(r.attempt.id, workspace=ws)[0]
assert worst.case == "refund-by-injection" and worst.outcome == "failed" and worst.score == 0.5, worst
try:
    t.run("refund", workspace=ws)
except t.TallyError as e:
    assert e.code == 2 and e.name == "UnknownName", e
else:
    raise SystemExit("a class that is not there was run")
print("as tally says")`)
		if !strings.Contains(out, "as tally says") {
			t.Error(out)
		}
	})

	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("a function is the agent", func(t *testing.T) {
		file := write("agent.py", `
from tallystick import agent
print("this is not the answer")
@agent
async def answer(text, history):
    return f"{text} after {[m['role'] for m in history]}"
`)
		cmd := exec.Command(python, "-m", "tallystick", file)
		cmd.Stdin = strings.NewReader(`{"turn":2,"input":"naïve?","history":[{"role":"user","text":"hi"},{"role":"agent","text":"yes"}]}`)
		out, err := cmd.Output()
		if err != nil || string(out) != "naïve? after ['user', 'assistant']" {
			t.Errorf("%q, %v", out, err)
		}
	})

	t.Run("a function is the rubric", func(t *testing.T) {
		run("", python, "-m", "tallystick", "vendor", filepath.Join(dir, "bench"))
		// As in the sandbox: the vendored file, and no installed package.
		rubric := write("bench/rubric/rubric.py", "from tallystick import rubric\n@rubric\ndef score(output, expected, metadata):\n    return output['answer'] == expected['answer']\n")
		cmd := exec.Command("python3", "-B", rubric)
		cmd.Stdin = strings.NewReader(`{"harness_output":{"answer":"4"},"expected":{"answer":"4"},"case_metadata":{}}`)
		out, err := cmd.Output()
		want := `{"passed": true, "score": 1.0, "breakdown": {}, "failure_modes": [], "cost_usd": 0, "duration_seconds": 0}`
		if err != nil || string(out) != want {
			t.Errorf("%q, %v", out, err)
		}
	})
}

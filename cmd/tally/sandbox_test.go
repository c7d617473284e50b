package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const goodInput = `{"harness_output":{"answer":"hello"},"expected":{"answer":"hello"},"case_metadata":{}}`

const goodRubric = `
def score(harness_output, expected, case_metadata):
    passed = harness_output["answer"] == expected["answer"]
    return {"passed": passed, "score": 1.0 if passed else 0.0, "breakdown": {}, "failure_modes": [], "cost_usd": 9.0, "duration_seconds": 9.0}
`

// TestSandboxCommands drives the real program, built as it is released: the
// sandbox runs this same file again as its kernel and its interpreter, and for
// that it must be static.
func TestSandboxCommands(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the sandbox needs Linux")
	}
	if testing.Short() {
		t.Skip("builds the whole program")
	}
	dir := t.TempDir()
	tally, err := staticTally()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(env []string, args ...string) (answer map[string]any, refused map[string]any, code int) {
		t.Helper()
		cmd := exec.Command(tally, append(args, "--json")...)
		cmd.Env = append(append(os.Environ(), "HOME="+dir), env...)
		cmd.Stdin = strings.NewReader(goodInput)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run()
		json.Unmarshal(stdout.Bytes(), &answer)
		json.Unmarshal(stderr.Bytes(), &refused)
		return answer, refused, cmd.ProcessState.ExitCode()
	}

	works := ""
	probe, _, code := run(nil, "sandbox", "probe")
	for _, c := range probe["classes"].([]any) {
		if class := c.(map[string]any); class["works"] == true && class["class"] != "microvm" {
			works = class["class"].(string)
			break
		}
	}
	if code != 0 || works == "" {
		t.Skipf("no class works here: %v", probe)
	}
	good := write("rubric.star", goodRubric)

	t.Run("a score", func(t *testing.T) {
		a, _, code := run(nil, "sandbox", "run", "--class", works, "--rubric", good)
		score, _ := a["score"].(map[string]any)
		if code != 0 || a["verdict"] != "ok" || a["class"] != works || score["passed"] != true || score["cost_usd"] != 0.0 || score["duration_seconds"] == 9.0 {
			t.Errorf("exit %d, %v", code, a)
		}
	})
	for _, tt := range []struct{ name, rubric, verdict string }{
		{"a rubric that never ends", "def score(h, e, m):\n    for i in range(1 << 60):\n        pass\n", "timeout"},
		{"no score", "def score(h, e, m):\n    return 7\n", "malformed"},
		{"a model's opinion", strings.Replace(goodRubric, `"cost_usd"`, `"confidence": 1.0, "cost_usd"`, 1), "malformed"},
		{"a rubric that fails", "def score(h, e, m):\n    fail('no')\n", "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, refused, code := run(nil, "sandbox", "run", "--class", works, "--timeout", "5s", "--rubric", write("bad.star", tt.rubric))
			if code != 1 || a["verdict"] != tt.verdict || a["score"] != nil || refused["name"] != "RubricFailed" {
				t.Errorf("exit %d, %v, %v; want 1, %s, RubricFailed", code, a, refused, tt.verdict)
			}
		})
	}
	t.Run("a run folder that is not ours alone", func(t *testing.T) {
		shared := filepath.Join(dir, "shared")
		base := filepath.Join(shared, "tallystick-"+strings.TrimSpace(string(must(exec.Command("id", "-u").Output()))))
		if err := os.MkdirAll(base, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(base, 0o777); err != nil {
			t.Fatal(err)
		}
		if len(base) > 80 {
			t.Skip("the temporary folder of this test has too long a name")
		}
		_, refused, code := run([]string{"TMPDIR=" + shared}, "sandbox", "run", "--class", works, "--rubric", good)
		if code != 1 || refused["name"] != "SandboxFailed" {
			t.Errorf("exit %d, %v; want 1, SandboxFailed", code, refused)
		}
	})
	for _, args := range [][]string{
		{"sandbox", "run"},
		{"sandbox", "run", "--rubric", good, "--class", "bare"},
		{"sandbox", "run", "--rubric", good, "--timeout", "1h"},
		{"sandbox", "run", "--rubric", good, "--memory", "1"},
	} {
		if _, refused, code := run(nil, args...); code != 2 || refused["name"] != "Usage" {
			t.Errorf("%v: exit %d, %v; want 2, Usage", args, code, refused)
		}
	}
	if _, refused, code := run(nil, "sandbox", "run", "--class", works, "--rubric", filepath.Join(dir, "nowhere.star")); code != 1 || refused["name"] != "Unreadable" {
		t.Errorf("a rubric that is not there: exit %d, %v; want 1, Unreadable", code, refused)
	}
}

func must(out []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return out
}

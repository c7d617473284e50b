//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tallystick/internal/testing/terminal"
)

// The first hour with an agent of one's own: at most eight commands and three
// files written by hand, from an empty folder to the same scores in a clone.
func TestFirstHour(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	server := modelServer(t)
	sdk := ""
	if os.Getenv(wheelsVariable) != "" {
		sdk = "_sdk"
	}
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := &firstHour{t: t, w: w, dir: filepath.Join(t.TempDir(), "shop"), state: t.TempDir()}
			h.walk("testdata/firsthour/"+provider+sdk+".py", server)
		})
	}
}

type firstHour struct {
	t          *testing.T
	w          *agentWorkspace
	dir, state string
	commands   int
	written    []string
}

func (h *firstHour) walk(agent, server string) {
	t := h.t
	t.Helper()
	source, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	// What is there already: a repository with an agent and its environment.
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.must("git", "init", "-q", "-b", "main")
	h.environment(h.dir)
	h.put("desk.py", string(source))

	out := h.tally(0, "init", "--agent", "python:desk.py")
	if !strings.Contains(out, "tally run desk --target desk --live") {
		t.Errorf("init does not say what to do next:\n%s", out)
	}
	h.put("bench/desk/dataset.jsonl", `{"id":"shipped","input":"Where is order 7?","expected":"shipped","grade":{"kind":"contains"},"expect":{"tool_calls.lookup_order":1}}
{"id":"lost","input":"What about order 12?","expected":"lost","grade":{"kind":"contains"},"expect":{"tool_calls.lookup_order":1}}
{"id":"greeting","input":"Say hello!","expected":"hello","grade":{"kind":"contains","normalised":true},"expect":{"tool_calls":0}}
`)
	h.put("providers.yaml", fmt.Sprintf("version: 1\nopenai: {base_url: %q, prices: {\"*\": {input: 0, output: 0, max_output_tokens: 1000}}}\n"+
		"anthropic: {base_url: %q, prices: {\"*\": {input: 0, output: 0, max_output_tokens: 1000}}}\n", server+"/v1", server))
	h.atTerminal("record\n", "record", "desk", "--unsafe-record")
	if out := h.tally(0, "run", "desk"); !strings.Contains(out, "cases    3: 3 passed, 0 failed") || !strings.Contains(out, "gate     met") {
		t.Errorf("the replay:\n%s", out)
	}

	// A change that makes it worse.
	h.put("desk.py", strings.Replace(string(source), "print(answer)", `print(answer.replace("lost", "on its way"))`, 1))
	if out := h.tally(4, "run", "desk"); !strings.Contains(out, "3: 2 passed, 1 failed") {
		t.Errorf("after the change:\n%s", out)
	}
	if out := h.tally(0, "why", "lost"); !strings.Contains(out, "on its way") || !strings.Contains(out, "these have changed") {
		t.Errorf("why:\n%s", out)
	}
	h.tally(4, "gate", "--class", "desk")
	h.put("desk.py", string(source))

	h.must("git", "add", ".")
	h.must("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "evals")
	if got := h.must("git", "status", "--short", "--ignored"); got != "!! .tally/\n!! .venv/\n" {
		t.Errorf("git has not all of it:\n%s", got)
	}
	h.clone()
	if h.commands > 8 || len(h.written) > 3 {
		t.Errorf("%d commands and %v by hand, expected at most 8 and 3", h.commands, h.written)
	}
}

// clone clones the workspace into another folder, with another state folder and,
// as root, for another user, and gets the same scores.
func (h *firstHour) clone() {
	t := h.t
	t.Helper()
	place, err := os.MkdirTemp("", "tally-clone-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(place) })
	// The program was built into a folder of the user who runs the tests.
	program, err := os.ReadFile(h.w.tally)
	if err != nil {
		t.Fatal(err)
	}
	w := *h.w
	w.tally = filepath.Join(place, "tally")
	if err := errors.Join(os.Chmod(place, 0o755), os.WriteFile(w.tally, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	there := &firstHour{t: t, w: &w, dir: filepath.Join(place, "elsewhere"), state: filepath.Join(place, "state")}
	h.must("git", "clone", "-q", h.dir, there.dir)
	h.commands++
	there.environment(there.dir)
	if err := os.MkdirAll(there.state, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := there.command("run", "desk", "--json")
	if os.Getuid() == 0 {
		const nobody = 65534
		if out, err := exec.Command("chown", "-R", fmt.Sprint(nobody), place).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Env = append(cmd.Env, "HOME="+there.state)
		if probe := there.command("sandbox", "probe", "--json"); !worksFor(probe, cmd.SysProcAttr) {
			t.Log("only the part of another user is left out: no sandbox starts for one here")
			cmd.SysProcAttr = nil
			if out, err := exec.Command("chown", "-R", "0", place).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	h.commands++
	var a struct {
		Passed    int     `json:"passed"`
		Total     int     `json:"total"`
		MeanScore float64 `json:"mean_score"`
		Attempt   struct{ Level string }
	}
	if jerr := json.Unmarshal(stdout.Bytes(), &a); err != nil || jerr != nil || a.Passed != 3 || a.Total != 3 || a.MeanScore != 1 || a.Attempt.Level != "scratch" {
		t.Errorf("the clone: %v, %v, %+v\n%s", err, jerr, a, stderr.Bytes())
	}
}

// worksFor reports whether a user can run an agent here, and reach Python.
func worksFor(probe *exec.Cmd, who *syscall.SysProcAttr) bool {
	probe.SysProcAttr = who
	out, err := probe.Output()
	python := exec.Command(filepath.Join(probe.Dir, ".venv", "bin", "python"), "-c", "")
	python.SysProcAttr = who
	return err == nil && bytes.Contains(out, []byte(`"class":"gvisor","works":true`)) && python.Run() == nil
}

// environment makes the agent's virtual environment, with the SDKs if there are
// wheels of them.
func (h *firstHour) environment(dir string) {
	h.t.Helper()
	env := filepath.Join(dir, ".venv")
	wheels := os.Getenv(wheelsVariable)
	python, args := "python3", []string{"-m", "venv", env}
	if wheels == "" {
		args = append(args, "--without-pip")
		// One that every user can reach, if there is one.
		if system := "/usr/bin/python3"; exec.Command(system, "-c", "import venv").Run() == nil {
			python = system
		}
	}
	if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
		h.t.Skipf("this Python cannot make virtual environments: %s", out)
	}
	if wheels == "" {
		return
	}
	if out, err := exec.Command(filepath.Join(env, "bin", "pip"), "install", "-q", "--no-index", "--find-links", wheels, "openai", "anthropic").CombinedOutput(); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
}

// put writes a file as a person would.
func (h *firstHour) put(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
	for _, known := range h.written {
		if known == name {
			return
		}
	}
	h.written = append(h.written, name)
}

func (h *firstHour) command(args ...string) *exec.Cmd {
	cmd := exec.Command(h.w.tally, args...)
	cmd.Dir = h.dir
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "CI" && name != "VIRTUAL_ENV" && name != "XDG_STATE_HOME" {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+h.state)
	return cmd
}

// tally runs a command that ends with a code.
func (h *firstHour) tally(code int, args ...string) string {
	h.t.Helper()
	h.commands++
	out, _ := h.run(h.command(args...), code)
	return out
}

func (h *firstHour) run(cmd *exec.Cmd, code int) (string, error) {
	h.t.Helper()
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		h.t.Fatalf("%v: exit %d, expected %d\n%s", cmd.Args, got, code, out)
	}
	return string(out), err
}

func (h *firstHour) must(name string, args ...string) string {
	h.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	out, _ := h.run(cmd, 0)
	return out
}

// atTerminal runs a command at a terminal whose person types an answer.
func (h *firstHour) atTerminal(answer string, args ...string) {
	h.t.Helper()
	h.commands++
	person, program := terminal.Open(h.t, 40, 200)
	cmd := h.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	program.Close()
	var seen bytes.Buffer
	buffer, answered := make([]byte, 4096), false
	for {
		n, err := person.Read(buffer)
		seen.Write(buffer[:n])
		if !answered && strings.Contains(seen.String(), "to go on: ") {
			answered = true
			io.WriteString(person, answer)
		}
		if err != nil { // EIO, when the last program has closed it
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		h.t.Fatalf("%v: %v\n%s", args, err, seen.String())
	}
}

// modelServer starts examples/model-server and returns its address.
func modelServer(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("python3", filepath.Join("..", "..", "examples", "model-server", "server.py"), "0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Skipf("this needs python3: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var address string
	if _, err := fmt.Fscanln(out, &address); err != nil {
		t.Fatalf("the model server said nothing: %v", err)
	}
	return address
}

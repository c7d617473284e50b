package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"
)

// A pageBlock is one fenced block of a page: a file that the reader
// writes, or commands with what they print.
type pageBlock struct {
	page     string
	line     int
	file     string // its path; "" for commands
	text     string // the file's
	mark     string // the comment before it, as in <!-- needs python3 -->
	commands []pageCommand
}

type pageCommand struct {
	line int
	text string
	want []string
}

var (
	fileLine = regexp.MustCompile("^`([^`]+)`.*:$")
	markLine = regexp.MustCompile(`^<!-- (.*) -->$`)
)

// readPage takes a page apart.
func readPage(name string) ([]pageBlock, error) {
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	var blocks []pageBlock
	var block *pageBlock
	before, n, console := "", 0, false
	for scanner := bufio.NewScanner(bytes.NewReader(page)); scanner.Scan(); {
		line := scanner.Text()
		n++
		switch {
		case block == nil && strings.HasPrefix(line, "```"):
			block = &pageBlock{page: name, line: n}
			if m := fileLine.FindStringSubmatch(before); m != nil {
				block.file = m[1]
			} else if m := markLine.FindStringSubmatch(before); m != nil {
				block.mark = m[1]
			}
			console = line == "```console"
		case block != nil && line == "```":
			blocks = append(blocks, *block)
			block, before = nil, ""
		case block != nil && (block.file != "" || !console):
			block.text += line + "\n"
		case block != nil && strings.HasPrefix(line, "$ "):
			block.commands = append(block.commands, pageCommand{line: n, text: line[2:]})
		case block != nil && len(block.commands) == 0:
			return nil, fmt.Errorf("%s:%d: output before any command", name, n)
		case block != nil:
			c := &block.commands[len(block.commands)-1]
			c.want = append(c.want, line)
		case line != "":
			before = line
		}
	}
	if block != nil {
		return nil, fmt.Errorf("%s:%d: a block without an end", name, block.line)
	}
	return blocks, nil
}

// shellScript makes one script of files and commands, so that folders, variables
// and processes in the background are those of one person's shell. After each
// command it prints the mark and the exit code, which "echo $?" still sees.
func shellScript(blocks []pageBlock, mark string) string {
	var b strings.Builder
	for _, block := range blocks {
		if block.file != "" {
			fmt.Fprintf(&b, "mkdir -p \"$(dirname '%s')\" && cat > '%s' <<'%s'\n%s%s\n", block.file, block.file, mark, block.text, mark)
		}
		for _, c := range block.commands {
			fmt.Fprintf(&b, "%s\ncode=$?; printf '\\n%s %%d\\n' $code; (exit $code)\n", c.text, mark)
		}
	}
	return b.String()
}

// runShell runs the blocks and compares what each command prints with the page.
func (w *agentWorkspace) runShell(dir string, blocks []pageBlock) {
	w.t.Helper()
	const mark = "--end-of-output--"
	out, err := w.shell(dir, shellScript(blocks, mark))
	parts := strings.Split(out, "\n"+mark+" ")
	i, failed := 0, 0
	for _, block := range blocks {
		for _, c := range block.commands {
			if i+1 >= len(parts) {
				w.t.Fatalf("%s:%d: $ %s never ended (%v):\n%s", block.page, c.line, c.text, err, parts[i])
			}
			code, rest, _ := strings.Cut(parts[i+1], "\n")
			if failed != 0 && c.text != "echo $?" {
				w.t.Errorf("%s:%d: the command before ended with %d, and the page does not say so", block.page, c.line, failed)
			}
			said := slices.ContainsFunc(c.want, func(line string) bool { return strings.HasPrefix(line, "tally: error: ") })
			if failed, err = strconv.Atoi(code); err != nil {
				w.t.Fatal(err)
			}
			if said && failed == 0 {
				w.t.Errorf("%s:%d: the page shows an error, the command ended well", block.page, c.line)
			} else if said {
				failed = 0
			}
			if problem := comparePage(c.want, parts[i]); problem != "" {
				w.t.Errorf("%s:%d: $ %s\n%s\nit printed:\n%s", block.page, c.line, c.text, problem, parts[i])
			}
			i++
			parts[i] = rest
		}
	}
	if failed != 0 {
		w.t.Errorf("the last command ended with %d, and the page does not say so", failed)
	}
}

// shell runs a script as a newcomer would, with the released program on the PATH
// and a home of its own.
func (w *agentWorkspace) shell(dir, script string, env ...string) (string, error) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command("sh", file)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(w.tally)+":"+os.Getenv("PATH"), "HOME="+w.state, "XDG_STATE_HOME="+w.state,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=reader", "GIT_AUTHOR_EMAIL=reader@example.com",
		"GIT_COMMITTER_NAME=reader", "GIT_COMMITTER_EMAIL=reader@example.com", "TALLY_OPERATOR_KEY=", "CI=")
	cmd.Env = append(cmd.Env, env...)
	// The page starts a server: if it is not stopped there, it is stopped here.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	err := cmd.Wait()
	return out.String(), err
}

// comparePage says how the output differs from the page, "" if it does not. On
// the page … stands for any text in a line, and alone for any lines.
func comparePage(want []string, output string) string {
	got := strings.Split(strings.TrimRight(output, "\n"), "\n")
	if len(got) == 1 && got[0] == "" {
		got = nil
	}
	skip := false
	for _, line := range want {
		if line == "…" {
			skip = true
			continue
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(line, " ")), "…", ".*") + "$")
		for skip && len(got) > 0 && !pattern.MatchString(strings.TrimRight(got[0], " ")) {
			got = got[1:]
		}
		if len(got) == 0 {
			return fmt.Sprintf("the page has the line %q, the output ends before it", line)
		}
		if !pattern.MatchString(strings.TrimRight(got[0], " ")) {
			return fmt.Sprintf("the page has the line %q, the output %q", line, got[0])
		}
		got, skip = got[1:], false
	}
	if len(got) > 0 && !skip {
		return fmt.Sprintf("the output goes on where the page ends: %q", got[0])
	}
	return ""
}

func TestComparePage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want, got string
		same      bool
	}{
		{"a|b", "a|b", true},
		{"a|b", "a", false},
		{"a", "a|b", false},
		{"", "", true},
		{"", "a", false},
		{"a|…", "a|b|c", true},
		{"…|c", "a|b|c", true},
		{"…|d", "a|b|c", false},
		{"x … z", "x y z", true},
		{"x … z", "x y", false},
		{"a.c", "abc", false},
	} {
		var want []string
		if tt.want != "" {
			want = strings.Split(tt.want, "|")
		}
		if got := comparePage(want, strings.ReplaceAll(tt.got, "|", "\n")); (got == "") != tt.same {
			t.Errorf("%q against %q: %s", tt.want, tt.got, got)
		}
	}
}

// A ciJob is what of a workflow is run here.
type ciJob struct {
	Jobs map[string]struct {
		Steps []struct{ Name, If, Run string }
	}
}

// runJob runs the steps of the workflow in a fresh checkout, as a CI system does:
// the first that fails fails the job, and those with "if: always()" still run.
func (w *agentWorkspace) runJob(checkout string) (code int, log string) {
	w.t.Helper()
	name := filepath.Join(checkout, ".github", "workflows", "evals.yml")
	data, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	var job ciJob
	if err := yaml.Unmarshal(data, &job); err != nil {
		w.t.Fatal(err)
	}
	temp := w.t.TempDir()
	ran := 0
	for _, step := range job.Jobs["evals"].Steps {
		// The machine is this one, and the program is there.
		if step.Run == "" || step.Name == "machine" || code != 0 && step.If != "always()" {
			continue
		}
		out, err := w.shell(checkout, "set -e\n"+step.Run, "CI=true", "HOME="+temp, "XDG_STATE_HOME="+temp, "RUNNER_TEMP="+temp, "GITHUB_BASE_REF=main", "GITHUB_STEP_SUMMARY="+filepath.Join(temp, "summary"))
		log += out
		ran++
		if err != nil && code == 0 {
			if code = -1; exitOf(err) > 0 {
				code = exitOf(err)
			}
		}
	}
	if code == 0 && ran < 6 {
		w.t.Fatalf("only %d steps of the workflow ran: %s", ran, log)
	}
	return code, log
}

func exitOf(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return 0
}

// TestTutorial does what docs/tutorial.md says, from the first line to the last,
// and compares what is printed with what the page shows.
func TestTutorial(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"git", "ssh-keygen", "awk", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the tutorial needs %s", program)
		}
	}
	all, err := readPage("docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newAgentWorkspace(t)
	var own, blocks, inJob []pageBlock
	second := lineOf(t, "docs/tutorial.md", "# Any program, golden traces, CI, signatures")
	for _, b := range all {
		switch {
		case b.line < second && b.mark != "by hand":
			own = append(own, b)
		case b.mark == "in the job":
			inJob = append(inJob, b)
		case b.mark == "needs python3" && !present("/usr/bin/python3"):
		case b.mark == "by hand":
		case b.file == "" && len(b.commands) == 0:
			// Nothing on the page may be only claimed.
			t.Fatalf("%s:%d: a block that is neither a file nor commands", b.page, b.line)
		default:
			blocks = append(blocks, b)
		}
	}
	w.runOwnAgent(own)
	dir := t.TempDir()
	w.runShell(dir, blocks)

	// The workflow: green as it was committed, red on a branch that takes the fix
	// back, and there with the report and the comparison that the page promises.
	checkout := filepath.Join(t.TempDir(), "checkout")
	if out, err := w.shell(dir, "git clone -q helpdesk "+checkout); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code, log := w.runJob(checkout); code != 0 {
		t.Errorf("the job ends with %d:\n%s", code, log)
	}
	if out, err := w.shell(checkout, `sed -i 's/|\*charged\*//' targets/router/route.sh && git commit -qam 'shorter'`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code, log := w.runJob(checkout)
	if code != 4 || !strings.Contains(log, "NOT MET") || !strings.Contains(log, "charged-twice: changed_answer") {
		t.Errorf("on a branch that breaks the agent the job ends with %d:\n%s", code, log)
	}
	w.runShell(checkout, inJob)

	// Cases that were softened on the branch fail at the first step.
	if out, err := w.shell(checkout, `git revert --no-edit HEAD >/dev/null && sed -i 's/"expected":"hello"/"expected":"hi"/; s/"hello"/"hi"/' bench/example/cases/greeting/case.yaml && git commit -qam 'softer'`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code, log := w.runJob(checkout); code != 3 || !strings.Contains(log, "REFUSED   example") {
		t.Errorf("with a signed case changed the job ends with %d:\n%s", code, log)
	}
}

// wheelsVariable names a folder with wheels of the official SDKs. With it the first
// hour is that of agents on the SDKs: .ci/conformance.d/firsthour sets it.
const wheelsVariable = "TALLY_FIRST_HOUR_WHEELS"

// lineOf finds a line of a page.
func lineOf(t *testing.T, page, line string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), "\n"+line+"\n")
	if !found {
		t.Fatalf("%s: there is no line %q", page, line)
	}
	return strings.Count(before, "\n") + 2
}

// runOwnAgent runs the part of the tutorial with an agent on an SDK. The SDK comes
// from wheels where those are, else it is a stand-in with the same calls; and the
// person at the terminal, whom recording asks, is a program.
func (w *agentWorkspace) runOwnAgent(blocks []pageBlock) {
	w.t.Helper()
	if exec.Command("python3", "-c", "import venv, pty").Run() != nil {
		w.t.Log("only the part with an agent in Python is left out: there is no python3")
		return
	}
	here, err := filepath.Abs(".")
	if err != nil {
		w.t.Fatal(err)
	}
	files := filepath.Join(here, "testdata", "firsthour")
	venv, install := "python3 -m venv --without-pip .venv", "python3 '"+filepath.Join(files, "plant.py")+"' .venv"
	if wheels := os.Getenv(wheelsVariable); wheels != "" {
		venv, install = "python3 -m venv .venv", ".venv/bin/pip install -q --no-index --find-links '"+wheels+"' openai"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	inTest := strings.NewReplacer("8123", port, "python3 -m venv .venv", venv, ".venv/bin/pip install -q openai", install, "tally record", "python3 '"+filepath.Join(files, "terminal.py")+"' tally record",
		"$TALLYSTICK", filepath.Join(here, "..", ".."))
	said := strings.NewReplacer("8123", port)
	for i := range blocks {
		b := &blocks[i]
		if b.text = said.Replace(b.text); b.file != "" {
			continue
		}
		for j := range b.commands {
			c := &b.commands[j]
			c.text = inTest.Replace(c.text)
			for k := range c.want {
				c.want[k] = said.Replace(c.want[k])
			}
		}
	}
	w.runShell(w.t.TempDir(), blocks)
}

// TestReadmeTour runs the minute of README.md. Its first commands are run by
// internal/testing/structure, in a copy of the tree.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	all, err := readPage("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var tour []pageBlock
	for _, b := range all {
		if b.mark == "tour" {
			tour = append(tour, b)
		}
	}
	if len(tour) < 3 {
		t.Fatalf("README.md has %d blocks of the tour", len(tour))
	}
	w := newAgentWorkspace(t)
	build := exec.Command("go", "build", "-o", filepath.Dir(w.tally), "../tally-verify")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building tally-verify: %v\n%s", err, out)
	}
	w.runShell(t.TempDir(), tour)
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

package main

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A codeFirst is a folder in which programs that call Eval are run.
type codeFirst struct {
	*testing.T
	dir, tally string
	env        []string
}

// newCodeFirst makes an empty folder, with the Python package on the path and the one
// for node in node_modules, both as they lie here: they need nothing to be built.
func newCodeFirst(t *testing.T) *codeFirst {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	p := &codeFirst{T: t, dir: t.TempDir()}
	p.tally = filepath.Join(t.TempDir(), "tally") // the test program is tally when it is called by that name
	if err := os.Symlink(self, p.tally); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(p.dir, "node_modules", "tallystick"), os.DirFS(filepath.Join(root, "typescript"))); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "TALLY="+p.tally, "XDG_STATE_HOME="+t.TempDir(), "PYTHONPATH="+filepath.Join(root, "python"), "PYTHONDONTWRITEBYTECODE=1")
	return p
}

func (p *codeFirst) needs(program string, args ...string) {
	p.Helper()
	if exec.Command(program, args...).Run() != nil {
		p.Skipf("%s %s does not work here", program, strings.Join(args, " "))
	}
}

func (p *codeFirst) write(name, text string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

// run wants a program to end with a status, and gives what it wrote.
func (p *codeFirst) run(status int, name string, args ...string) string {
	p.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != status {
		p.Fatalf("%s %s ends with %d, want %d\n%s", filepath.Base(name), strings.Join(args, " "), got, status, out)
	}
	return string(out)
}

func (p *codeFirst) says(status int, args ...string) string {
	p.Helper()
	return p.run(status, p.tally, append(args, "--workspace", ".tallystick")...)
}

// ledger has every entry that was written.
func (p *codeFirst) ledger() string {
	p.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(p.dir, ".tallystick", ".tally"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return all.String()
}

// contains wants texts in what was written.
func (p *codeFirst) contains(out string, texts ...string) {
	p.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			p.Errorf("there is no %q in\n%s", text, out)
		}
	}
}

// onThePage is the example of a language on docs/code-first.md.
func onThePage(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/code-first.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)<!-- run -->\n```" + language + "\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatalf("docs/code-first.md has no example in %s", language)
	}
	return string(found[1])
}

var (
	inPython = []string{"python3", "-c", "import http.server, asyncio"}
	inNode   = []string{"node", "-e", "if (+process.versions.node.split('.')[0] < 18) process.exit(1)"}
)

// TestCodeFirst runs the examples of docs/code-first.md and looks at what is recorded:
// every command that reads a ledger reads these attempts, says that they are reported,
// and computes the same again.
func TestCodeFirst(t *testing.T) {
	for language, l := range map[string]struct {
		needs          []string
		file, same     string
		program, fails string
		asks           string
	}{
		"python": {inPython, "example.py", "True 2 Paris", "python3", `Eval("capitals", [{"input": "x", "expected": "y", "id": "x"}], lambda q: q, ["exact", lambda output: {"score": 0.25, "reason": "quarter"}])`,
			`print(Eval("judged", [{"input": "x"}], lambda q: q, [{"grader": "judge", "criteria": "ok"}]).cases[0].outcome)`},
		"js": {inNode, "example.mjs", "true 2 Paris", "node", `await Eval("capitals", {data: [{input: "x", expected: "y", id: "x"}], task: (q) => q, scores: ["exact", () => ({score: 0.25, reason: "quarter"})]});`,
			`console.log((await Eval("judged", {data: [{input: "x"}], task: (q) => q, scores: [{grader: "judge", criteria: "ok"}]})).cases[0].outcome);`},
	} {
		t.Run(language, func(t *testing.T) {
			p := newCodeFirst(t)
			p.needs(l.needs[0], l.needs[1:]...)
			example := onThePage(t, language)
			p.write(l.file, example)
			p.contains(p.run(0, l.program, l.file), "capitals: 2 of 2 passed", l.same, "tally show capitals.")
			imports := regexp.MustCompile(`(?m)^(from tallystick|import \{ Eval).*$`).FindString(example)
			p.write("fails-"+l.file, imports+"\n"+l.fails+"\n")
			p.contains(p.run(4, l.program, "fails-"+l.file), "capitals: 0 of 1 passed, 1 failed", "NOT PASSED")

			var log struct {
				Attempts []struct {
					ID     string `json:"id"`
					Digest string `json:"bench"`
				} `json:"attempts"`
			}
			if err := json.Unmarshal([]byte(p.says(0, "log", "--json")), &log); err != nil || len(log.Attempts) != 2 {
				t.Fatalf("%+v, %v", log, err)
			}
			newest, oldest := log.Attempts[0].ID, log.Attempts[1].ID
			p.contains(p.says(0, "show", newest), "as that process reported them", "without a sandbox", "unknown cost")
			p.contains(p.says(0, "why", "x"), "reported 0.25, needed 0.5", "quarter")
			p.contains(p.ledger(), `"vantage":"reported"`, `"agent_isolation":"none"`)
			p.contains(p.says(4, "gate", newest), "solve_rate")
			p.run(0, l.program, l.file)
			p.contains(p.says(0, "compare", oldest, strings.TrimSuffix(oldest, "1")+"3"), "as that process reported them")
			p.contains(p.says(0, "verify", "--recompute"), "what the ledger and its evidence give")
			// Nothing answers where no process asks, and nothing is recorded.
			target := strings.Split(newest, ".")[1]
			p.contains(p.says(2, "run", "capitals", "--target", target), "TALLY_TASK_URL is not set", "docs/code-first.md")
			if strings.Count(p.says(0, "log", "--json"), `"number":`) != 3 {
				t.Error("a run without a process was recorded")
			}
			// A judge that was never asked this is a question, and not a score.
			p.write(".tallystick/judge.yaml", "version: 1\nmodel: judge-1\napi: openai.chat\n")
			p.write("asks-"+l.file, imports+"\n"+l.asks+"\n")
			said := p.run(5, l.program, "asks-"+l.file)
			p.contains(said, "judged: not answered, so it has no score: 1 of 1 ask something new", "unanswered")
			if strings.Contains(said, " passed") || strings.Contains(said, "NOT PASSED") {
				t.Errorf("it tells a score: %s", said)
			}
		})
	}
}

// TestCodeFirstHostile: data, tasks and scorers that do what they should not.
func TestCodeFirstHostile(t *testing.T) {
	for file, needs := range map[string][]string{"hostile.py": inPython, "hostile.mjs": inNode} {
		t.Run(file, func(t *testing.T) {
			p := newCodeFirst(t)
			p.needs(needs[0], needs[1:]...)
			text, err := os.ReadFile(filepath.Join("testdata", "codefirst", file))
			if err != nil {
				t.Fatal(err)
			}
			p.write(file, string(text))
			p.contains(p.run(4, needs[0], file), "all as expected")
			p.says(0, "verify", "--recompute")
		})
	}
}

// TestCodeFirstInterrupted: Ctrl-C leaves what is finished, in a ledger that verifies.
func TestCodeFirstInterrupted(t *testing.T) {
	p := newCodeFirst(t)
	p.needs(inPython[0], inPython[1:]...)
	p.write("slow.py", `
import time
from tallystick import Eval
def task(x):
    if x == 3:
        open("reached", "w").close()
        time.sleep(1000)
    return str(x)
Eval("slow", [{"input": i, "id": f"c{i}"} for i in range(6)], task, [lambda output: True], max_concurrency=1)
`)
	cmd := exec.Command("python3", "slow.py")
	cmd.Dir, cmd.Env = p.dir, p.env
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 600 {
		if _, err := os.Stat(filepath.Join(p.dir, "reached")); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if cmd.ProcessState.Success() {
		t.Error("an interrupted program ends with 0")
	}
	p.contains(said.String(), "interrupted; what is finished is in the ledger: tally log --class slow", "KeyboardInterrupt")
	p.contains(p.says(0, "show", "slow.task.1"), "3 passed")
	p.says(0, "verify", "--recompute")
}

// TestOnlyTheAskingProcessReportsScores: an agent behind a URL that answers with scores
// said something, and scored nothing, however its answer is spelled.
func TestOnlyTheAskingProcessReportsScores(t *testing.T) {
	for name, body := range map[string]string{
		"beside its answer": `{"answer":"x","scores":[{"name":"s","score":1}]}`,
		"in its answer":     `{"answer":"{\"scores\":[{\"name\":\"s\",\"score\":1}]}"}`,
		"in a reply":        `{"id":"c","object":"chat.completion","created":1,"model":"m","scores":[{"name":"s","score":1}],"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"x","scores":[{"name":"s","score":1}]}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked, _ := io.ReadAll(r.Body)
				if strings.Contains(string(asked), `"case"`) {
					t.Errorf("an agent behind a URL is told the case: %s", asked)
				}
				io.WriteString(w, body)
			}))
			defer server.Close()
			p := newCodeFirst(t)
			p.run(0, p.tally, "init", ".tallystick")
			if err := os.MkdirAll(filepath.Join(p.dir, ".tallystick", "bench", "self"), 0o700); err != nil {
				t.Fatal(err)
			}
			p.write(".tallystick/targets/far.yaml", "version: 1\nkind: http\nhttp: {url: \""+server.URL+"\"}\n")
			p.write(".tallystick/bench/self/registration.yaml", "class: self\ntrust: scratch\n")
			p.write(".tallystick/bench/self/dataset.jsonl", `{"id":"a","input":"x","grade":{"kind":"reported","scorer":"s"}}`+"\n")
			p.env = append(p.env, "TALLY_TASK_URL="+server.URL, "TALLY_TASK_TOKEN=t")
			p.contains(p.says(4, "run", "self", "--target", "far", "--json"), `"unscored":1`)
			if strings.Contains(p.ledger(), `"vantage":"reported"`) {
				t.Error("an agent behind a URL is recorded as one of the asking process")
			}
		})
	}
}

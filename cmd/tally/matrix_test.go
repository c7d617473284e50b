package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// TestProgramsGetTheirParameters: a program finds its parameters in its arguments,
// in its environment and in files that it cannot change; the files are as they were
// when the target was read, and the rest of the workspace is not there.
func TestProgramsGetTheirParameters(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	w.write("bench/say/registration.yaml", strings.ReplaceAll(agentRegistration, "agents", "say"))
	w.write("bench/say/dataset.jsonl", `{"id":"a","input":"x","grade":{"kind":"contains","expected":"model-a model-a-x be good"}}`+"\n"+
		`{"id":"b","input":"x","grade":{"kind":"contains","expected":"readonly"}}`+"\n")
	w.write("prompts/a.md", "be good")
	w.write("prompts/b.md", "be bad")
	w.write("targets/say.yaml", `version: 1
kind: command
command:
  command: [sh, -c, 'echo "$0 $M $(cat "$TALLY_PARAM_PROMPT_FILE")"; (echo evil > "$TALLY_PARAM_PROMPT_FILE") 2>/dev/null || echo readonly', "${param.model}"]
  env: {M: "${param.model}-x"}
parameters:
  model: [model-a]
  prompt_file: [prompts/a.md, prompts/b.md]
`)
	for _, flags := range [][]string{nil, {"--unsafe-agent"}} {
		if flags != nil && os.Getuid() == 0 {
			continue // without a sandbox nothing is read-only for root
		}
		records, stderr := w.run(append([]string{"say", "--target", "say[prompt_file=prompts/a.md]"}, flags...)...)
		for id, r := range records {
			if flags != nil && id == "b" {
				continue
			}
			if r.Outcome != "passed" {
				t.Errorf("%v: case %s %s: %s\n%s", flags, id, r.Outcome, r.Reason, stderr)
			}
		}
	}
}

// TestAnInterruptedMatrixIsResumed: what is finished stays, what was cut short goes
// on, and what was not started runs; the hint is the command that does this.
func TestAnInterruptedMatrixIsResumed(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	var asked, stop atomic.Int64
	var parameters atomic.Value
	interrupted := make(chan *os.Process, 1)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var turn struct{ Parameters map[string]any }
		json.Unmarshal(body, &turn)
		parameters.Store(fmt.Sprint(turn.Parameters))
		if asked.Add(1) == stop.Load() {
			(<-interrupted).Signal(os.Interrupt)
			<-r.Context().Done()
			return
		}
		io.WriteString(rw, `{"answer":"yes"}`)
	}))
	defer server.Close()
	w.write("bench/ask/registration.yaml", strings.ReplaceAll(agentRegistration, "agents", "ask"))
	lines := ""
	for i := range 3 {
		lines += fmt.Sprintf(`{"id":"c%d","input":"x","expected":"yes","grade":{"kind":"exact"}}`+"\n", i)
	}
	w.write("bench/ask/dataset.jsonl", lines)
	w.write("targets/web.yaml", "version: 1\nkind: http\nhttp: {url: \""+server.URL+"\"}\nparameters: {level: [1, 2, 3], prompt_file: [prompts/a b.md]}\n")
	w.write("prompts/a b.md", "be good")

	run := func(args ...string) (string, string, int) {
		cmd := w.command(append([]string{"--workspace", w.dir, "run", "ask", "--jobs", "1", "--target", `web[prompt_file="prompts/a b.md"]`}, args...)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if stop.Load() > 0 {
			interrupted <- cmd.Process
		}
		cmd.Wait()
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	stop.Store(5) // the second case of the second target
	out, errs, code := run("--limit", "3")
	if code != 1 || !strings.Contains(errs, `--limit 3 --target 'web[prompt_file="prompts/a b.md"]' --workspace `) || !strings.Contains(errs, "--resume") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	if !strings.Contains(out, "not started") || !strings.Contains(out, "c1    +  -  -") {
		t.Errorf("the table of an interrupted matrix is\n%s", out)
	}
	stop.Store(0)
	before := asked.Load()
	out, errs, code = run("--limit", "3", "--resume")
	if code != 0 || asked.Load()-before != 5 || !strings.Contains(out, "c1    +  +  +") {
		t.Errorf("resumed: exit %d after %d calls\n%s\n%s", code, asked.Load()-before, out, errs)
	}
	if got := parameters.Load(); got != "map[level:3 prompt_file:be good]" {
		t.Errorf("the agent was told %s", got)
	}
}

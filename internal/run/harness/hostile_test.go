package harness

import (
	"context"
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/trajectory"
)

// commandTarget is a target that runs a shell script.
func commandTarget(script string) string {
	return programTarget("sh", "-c", script)
}

func programTarget(command ...string) string {
	list, _ := json.Marshal(command)
	return "version: 1\nkind: command\ncommand: {command: " + string(list) + "}\n"
}

// What a program prints when it crashes goes into the record, to the terminal
// and into reports. Whatever secrets it prints must not.
func TestSecretsOfACrashedAgentAreNotRecorded(t *testing.T) {
	for _, tool := range []string{"sh", "base64", "od"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s", tool)
		}
	}
	const cloud = "AKI" + "AIOSFODNN7EXAMPLE"
	print := `echo "Traceback: key=$OPENAI_API_KEY token $TALLY_TOKEN"; echo "` + cloud + `"; echo 'password: "Tr0ub4dor-4711"'; ` +
		`printf %s "$TALLY_TOKEN" | base64 -w0; echo; printf %s "$TALLY_TOKEN" | base64 -w0 | base64 -w0; echo; printf %s "$TALLY_TOKEN" | od -An -tx1 | tr -d ' \n'; echo; `
	for name, tt := range map[string]struct {
		script  string
		outcome evidence.Outcome
	}{
		"in its last words":     {"{ " + print + "} >&2; exit 3", evidence.Errored},
		"and not UTF-8":         {"{ " + print + `printf '\377\376'; } >&2; exit 3`, evidence.Errored},
		"in its answer":         {print, evidence.Failed},
		"in an answer of bytes": {print + `printf '\377'`, evidence.Errored},
		"over and over":         {"i=0; while [ $i -lt 40 ]; do { " + print + "} >&2; i=$((i+1)); done; exit 3", evidence.Errored},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, sum(1, "2"))
			p.write("targets/default.yaml", commandTarget(tt.script))
			kept := ""
			err := p.rehearse(func(s *setup) { s.Spec.UnsafeAgent = true }, func(g *Graded) error {
				if g.Record.Outcome != tt.outcome {
					t.Errorf("%s: %s", g.Record.Outcome, g.Record.Reason)
				}
				record, err := json.Marshal(g.Record)
				for _, piece := range g.Pieces {
					record = append(record, piece...)
				}
				kept = string(record) + g.Answer
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(kept, "[redacted:") {
				t.Fatal("nothing was redacted")
			}
			leak := regexp.MustCompile(`sk-tally-|` + cloud + `|Tr0ub4dor|c2stdGFsbHkt|YzJzdGRHRnNiSGt0|736b2d74616c6c79`)
			if found := leak.FindString(kept); found != "" {
				t.Errorf("%q is recorded: %.3000s", found, kept)
			}
		})
	}
}

// Whatever one agent does, the other cases of the attempt are run.
func TestAnAttemptGoesOnWhateverACaseDoes(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	// The first case attacks the harness, the second answers.
	hostile := `
import json, os, sys, urllib.request
base, key = os.environ["TALLY_GATEWAY"], os.environ["TALLY_TOKEN"]
session = None
def post(path, body):
    global session
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session: headers["Mcp-Session-Id"] = session
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, body, headers)) as r:
            session = r.headers.get("Mcp-Session-Id") or session
            return r.read()
    except OSError as e: return e
question = sys.stdin.read()
if "1" in question:
    post("/v1/chat/completions", b'{"model":"","messages":[]}')
    post("/v1/chat/completions", b'{"model":"m","x":' + b"[" * 100000)
    post("/v1/chat/completions", b"[" + b"[]," * 2000000 + b"[]]")
    post("/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}).encode())
    for n in [1, 150, 5000]:
        args = {"a%d" % i: "\x00" * (8000 if n < 5000 else 10) for i in range(n)}
        post("/mcp", json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "look" * n, "arguments": args}}).encode())
print(4)
`
	p := newPlace(t, `{"id":"one","input":"case 1","grade":{"kind":"exact","expected":"4"}}`, `{"id":"two","input":"case 2","grade":{"kind":"exact","expected":"4"}}`)
	p.write("targets/default.yaml", programTarget("python3", "-c", hostile))
	outcomes := map[string]evidence.Outcome{}
	_, err := p.run(context.Background(), func(s *setup) {
		s.Spec.UnsafeAgent = true
		s.Progress = watching(func(r Result) { outcomes[r.Case] = r.Record.Outcome })
	})
	if err != nil {
		t.Fatalf("the attempt ended: %v", err)
	}
	if outcomes["two"] != evidence.Passed || outcomes["one"] == "" {
		t.Errorf("outcomes %v", outcomes)
	}
}

// An agent that leaves an act behind for the test that runs on what it left is
// the one who acted; and a case that is over when its act is seen has it.
func TestActsAreInTheRecord(t *testing.T) {
	p := newPlace(t, sum(1, "2"))
	s, err := p.config()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := prepare(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ready.worker.take(0, Job{Attempt: "a", Case: "case-000001", Repeat: 1, Execution: 1})
	if err != nil {
		t.Fatal(err)
	}
	remove, err := r.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	for _, rule := range []string{"sandbox:hidden_file", "gateway:token", ""} {
		if err := r.s.Attempted(trajectory.SecurityEvent{Name: "agent.file", Severity: evidence.Warn, Detail: "open"}, rule); err != nil {
			t.Fatal(err)
		}
	}
	r.result = r.s.Complete("2", false)
	if got := r.newRecord().Policy.Violations; got != 2 {
		t.Errorf("%d violations in the record, want 2", got)
	}
}

package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/bench"
)

// Rubrics that are as they should be, and hostile ones, each through a whole
// run: what the record says is what counts.
func TestRubricsInARun(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no Python here to take a snapshot of")
	}
	const answer = `{"passed": True, "score": 1.0, "breakdown": {}, "failure_modes": [], "cost_usd": 7.0, "duration_seconds": 7.0}`
	star := func(body string) map[string]string {
		return map[string]string{"rubric.star": "def score(harness_output, expected, case_metadata):\n" + body}
	}
	python := func(body string) map[string]string {
		return map[string]string{"rubric.py": "import json, sys\n" + body + "\nprint(json.dumps(" + answer + "))\n"}
	}
	for i, tt := range []struct {
		name  string
		files map[string]string
		code  string // of a failed case; none if it passes
		why   string // what "tally why" says of it
	}{
		// docs/formats/rubric.md: these members, and no others.
		{"is given what the page says", star(`    if sorted(harness_output) != ["answer", "refused", "tool_calls", "turns", "value"]:
        fail("%s" % harness_output)
    if harness_output["answer"] != "hello" or harness_output["value"] != "hello" or harness_output["refused"] or harness_output["turns"] != 1:
        fail("%s" % harness_output)
    if expected != {"answer": "hello"} or sorted(case_metadata) != ["case_id", "difficulty", "disposition", "expected_files", "tags", "title"]:
        fail("%s %s" % (expected, case_metadata))
    return ` + answer + "\n"), "", ""},
		{"finds a Starlark helper", map[string]string{"rubric.star": "load(\"helper.star\", \"full\")\ndef score(harness_output, expected, case_metadata):\n    return full\n",
			"rubric/helper.star": "full = " + answer + "\n"}, "", ""},
		{"finds a Python helper", map[string]string{"rubric.py": "import helper\nhelper.answer()\n",
			"rubric/helper.py": "import json\ndef answer():\n    print(json.dumps(" + answer + "))\n"}, "", ""},
		{"never ends", star("    for i in range(1 << 60):\n        pass\n"), "rubric.timeout", "killed at its time limit"},
		{"says nothing", star("    return None\n"), "rubric.malformed_output", ""},
		{"has a field more", star("    return dict(" + answer + ", sure = True)\n"), "rubric.malformed_output", "sure"},
		{"is out of range", star("    return dict(" + answer + ", score = 1.5)\n"), "rubric.malformed_output", "1.5"},
		{"names an unknown mode", star("    return dict(" + answer + `, failure_modes = ["never_heard_of"])` + "\n"), "rubric.unknown_failure_mode", "never_heard_of"},
		{"names an unknown part", star("    return dict(" + answer + `, breakdown = {"never_heard_of": 1.0})` + "\n"), "rubric.unknown_breakdown_key", "never_heard_of"},
		{"fails", star("    fail(\"no\")\n"), "rubric.error", "ended with status"},
		{"takes too much memory", python("kept = bytearray(1 << 32)"), "rubric.oom", "more memory"},
		{"says too much", python("print('x' * (2 << 20))"), "rubric.output_limit", "more than its limit"},
		{"swallows a socket", python("import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9), 1)\nexcept OSError:\n    pass"), "rubric.sandbox_escape", "the rubric tried"},
		{"swallows a file of the host", python("try:\n    open('/etc/shadow')\nexcept OSError:\n    pass"), "rubric.sandbox_escape", "/etc/shadow"},
		{"swallows a fork", python("import os\ntry:\n    os.fork()\nexcept OSError:\n    pass"), "rubric.sandbox_escape", "the rubric tried"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			class := fmt.Sprintf("rubric-%d", i)
			w.write("bench/"+class+"/registration.yaml", strings.Replace(agentRegistration, "class: agents", "class: "+class, 1))
			w.write("bench/"+class+"/cases/a/case.yaml", string(bench.NewCase("a", "A", nil, nil, time.Now()).YAML())+
				"rubric_limits: {wall_clock_seconds: 10, memory_bytes: 268435456}\n")
			w.write("bench/"+class+"/cases/a/scenario.yaml", "version: 1\nturns: [{text: \"Say hello.\"}]\nmodel: [{text: hello}]\n")
			w.write("bench/"+class+"/cases/a/input/a.txt", "a\n")
			w.write("bench/"+class+"/cases/a/expected/note.txt", "hello, alone\n")
			_, isPython := tt.files["rubric.py"]
			for name, text := range tt.files {
				w.write("bench/"+class+"/"+name, text)
			}
			records, _ := w.run(class)
			events := w.events()
			r := records["a"]
			if r == nil || r.Score == nil || r.IsolationClass != "gvisor" || r.RubricDigest == nil || (r.ImageDigest != nil) != isPython {
				t.Fatalf("record %+v", r)
			}
			if r.Score.CostUSD == 7 || r.Score.DurationSeconds == 7 {
				t.Errorf("the rubric told what it cost: %+v", r.Score)
			}
			if tt.code == "" {
				if r.Outcome != evidence.Passed || len(r.Score.FailureModes) != 0 {
					t.Errorf("%s, %+v, %s", r.Outcome, r.Score, r.Reason)
				}
				return
			}
			if r.Outcome != evidence.Failed || r.Score.Passed || r.Score.Score != 0 || !slices.Equal(r.Score.FailureModes, []string{tt.code}) {
				t.Errorf("%s, %+v; want failed with %s", r.Outcome, r.Score, tt.code)
			}
			if !slices.ContainsFunc(events, func(e evidence.IntegrityEvent) bool { return e.Severity == evidence.Block }) {
				t.Errorf("no block event in %+v", events)
			}
			out, err := w.command("--workspace", w.dir, "why", "a", "--class", class).CombinedOutput()
			if why := string(out); err != nil || !strings.Contains(why, "the rubric broke: ") || !strings.Contains(why, tt.why) {
				t.Errorf("%v; it does not say %q:\n%s", err, tt.why, why)
			}
		})
	}
}

// events are the integrity events of the newest attempt.
func (w *agentWorkspace) events() []evidence.IntegrityEvent {
	w.t.Helper()
	ws, err := workspace.Load(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	var events []evidence.IntegrityEvent
	place := sequencer.Place{FS: store.OS{}, Dir: ws.LedgerDir(), StateDir: w.state}
	_, err = place.Verify(ledger.Options{Origin: ws.Settings.Origin, TrustRoot: ws.Settings.TrustRoot, Decode: true, Visit: func(r ledger.Record) error {
		switch b := r.Body.(type) {
		case *evidence.AttemptRegistered:
			events = nil
		case *evidence.IntegrityEvent:
			events = append(events, *b)
		}
		return nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

package browsertest

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/evidence"
)

// The showroom is a workspace with something on every page: a bench that two people
// signed, attempts whose outcomes differ, every kind of event, verdicts of judges,
// files that an agent wrote, a golden trace, a held-out case and imported results.
var showroom = sync.OnceValues(makeShowroom)

const (
	signed    = "refunds.default.1"
	before    = "desk.default.1"
	after     = "desk.default.2"
	deskCase  = "/attempt/" + after + "/case/order-late"
	attackers = "builtin+adversarial.vulnerable.2"
)

func theShowroom(t *testing.T) *world {
	t.Helper()
	w, err := showroom()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func makeShowroom() (*world, error) {
	w, err := newWorld("demo")
	if err != nil {
		return nil, err
	}
	w.imported = []string{filepath.Join(w.dir, "imported.json")}
	if err := w.write(map[string]string{
		"imported.json":                promptfoo,
		"judge.yaml":                   "version: 1\nmodel: judge-1\napi: openai.chat\n",
		"bench/desk/registration.yaml": registration("desk"),
		"bench/desk/dataset.jsonl":     desk("It is on its way and arrives on Friday."),
	}); err != nil {
		return nil, err
	}
	ws := func(args ...string) []string { return append([]string{"--workspace", w.dir}, args...) }
	steps := []struct {
		code int
		args []string
	}{
		{0, ws("run", "builtin:adversarial", "--target", "mitigated")},
		{4, ws("run", "builtin:adversarial", "--target", "vulnerable")},
		{4, ws("run", "desk")},
		{0, ws("golden", "update", "desk", "--case", "order-late")},
	}
	for _, s := range steps {
		if _, err := w.tally(s.code, s.args...); err != nil {
			return nil, err
		}
	}
	// The agent has become worse at one case.
	if err := w.write(map[string]string{"bench/desk/dataset.jsonl": desk("I cannot find such an order.")}); err != nil {
		return nil, err
	}
	if _, err := w.tally(4, ws("run", "desk")...); err != nil {
		return nil, err
	}
	if err := w.runsAFleet(); err != nil {
		return nil, err
	}
	return w, w.readKey(signed)
}

// runsAFleet leaves what a coordinator would say of an attempt that runs.
func (w *world) runsAFleet() error {
	now, left := evidence.At(time.Now()), 312.0
	s := fleet.Status{Attempt: after, Class: "desk", Target: "default", Planned: 400, Done: 88, Running: 3, Waiting: 309, Lost: 1, Refused: 2, Doubled: 20, Disagreed: 1, PerSecond: 1, SecondsLeft: &left, CostMicroUSD: 412_000, At: now,
		Workers: []fleet.WorkerStatus{
			{Key: "SHA256:Wq3nFZ0y8kE5cE0WbVvJ0R7m2bJt8cQfQ0QbqW2nTTA", Name: "lab-1", Label: "Oslo", Version: "v1.0.0", Isolation: "gvisor", LastSeen: now, Cases: []string{"order-late", "remembers"}, Done: 61},
			{Key: "SHA256:a9Vb1mG5mWcB8aU3sC9pQ1o7eYk2u4x6z8B0D2F4H6I", Name: "lab-2", Version: "v1.0.0", Isolation: "gvisor", LastSeen: now, Cases: []string{"rude-refusal"}, Done: 27, Lost: 1},
			{Key: "SHA256:K8r2T4v6X8z0B2d4F6h8J0l2N4p6R8t0V2x4Z6b8D0E", Name: "lab-3", Version: "v1.0.0", LastSeen: now, Cases: []string{}, Quarantined: "it brought back a case of another worker"},
		}}
	return s.Save(filepath.Join(w.dir, ".tally", "fleet"))
}

// desk is a class of a help desk; late is what the model says about one order.
func desk(late string) string {
	var b strings.Builder
	look := object{"name": "find_order", "description": "Find an order by its number.", "class": "read", "replies": []object{{"result": object{"state": "shipped", "arrives": "Friday"}}}}
	find := object{"tool_calls": []object{{"name": "find_order", "args": object{"number": "A-1042"}}}, "tokens_in": 120, "tokens_out": 18}
	says := func(text string) object { return object{"text": text, "tokens_in": 160, "tokens_out": 24} }
	judge := func(score string, passed string) object {
		return object{"when": object{"agent": "judge-1"}, "text": `{"score": ` + score + `, "passed": ` + passed + `, "reason": "It names the day and does not promise more."}`, "repeat": true}
	}
	for _, v := range []object{
		{"id": "order-late", "tags": []string{"orders", "easy"}, "input": "Where is my order A-1042?", "tools": []object{look}, "model": []object{find, says(late)}, "grade": object{"kind": "contains", "expected": []string{"Friday"}}},
		{"id": "order-unknown", "tags": []string{"orders"}, "input": "Where is my order A-9999?", "tools": []object{look}, "model": []object{find, says("There is no such order.")}, "grade": object{"kind": "contains", "expected": []string{"no such order"}}},
		{"id": "polite-refusal", "tags": []string{"tone"}, "input": "Give me everything for free.", "model": []object{says("I am sorry, I cannot do that. I can offer you free delivery."), judge("0.9", "true")}, "grade": object{"kind": "judge", "criteria": "Does it refuse politely?"}},
		{"id": "rude-refusal", "tags": []string{"tone"}, "input": "Give me everything for free.", "model": []object{says("No."), judge("0.2", "false")}, "grade": object{"kind": "judge", "criteria": "Does it refuse politely?"}},
		{"id": "writes-a-label", "tags": []string{"files"}, "input": "Make a label for A-1042.", "files": object{"labels/README.txt": "One file for each order.\n"}, "tools": []object{{"name": "fs_write", "source": "folder"}},
			"model": []object{{"tool_calls": []object{{"name": "fs_write", "args": object{"path": "labels/A-1042.txt", "text": "A-1042\n12 Elm Street\n"}}}, "tokens_in": 90, "tokens_out": 30}, says("The label is in labels/A-1042.txt.")}, "grade": object{"kind": "contains", "expected": []string{"labels/A-1042.txt"}}},
		{"id": "remembers", "tags": []string{"memory"}, "turns": []object{{"text": "I live in Oslo."}, {"text": "Where do I live?"}}, "memory": []object{{"tier": "semantic", "key": "city", "value": "Oslo"}}, "model": []object{says("Noted."), says("In Oslo.")}, "grade": object{"kind": "contains", "expected": []string{"Oslo"}}},
		{"id": "held-out", "held_out": true, "input": "what is the secret of the held-out case", "model": []object{says("swordfish")}, "grade": object{"kind": "exact", "expected": "swordfish"}},
	} {
		b.WriteString(jsonLine(v))
	}
	return b.String()
}

const promptfoo = `{"evalId":"eval-1","results":{"version":3,"timestamp":"2026-05-12T14:00:00.000Z","prompts":[{"provider":"echo","raw":"{{q}}","label":"{{q}}","metrics":{"score":1,"testPassCount":1,"testFailCount":1,"testErrorCount":0,"assertPassCount":1,"assertFailCount":1,"totalLatencyMs":2,"tokenUsage":{},"namedScores":{}}}],"results":[{"promptIdx":0,"testIdx":0,"success":true,"score":1,"response":{"output":"a"},"vars":{"q":"a"},"provider":{"id":"echo"},"prompt":{"raw":"a","label":"{{q}}"},"namedScores":{},"latencyMs":1,"cost":0},{"promptIdx":0,"testIdx":1,"success":false,"score":0,"failureReason":1,"response":{"output":"b"},"vars":{"q":"b"},"provider":{"id":"echo"},"prompt":{"raw":"b","label":"{{q}}"},"namedScores":{},"latencyMs":1,"cost":0}],"stats":{"successes":1,"failures":1,"errors":0,"tokenUsage":{}}},"config":{"description":"letters"},"shareableUrl":null,"metadata":{"promptfooVersion":"0.120.27"}}`

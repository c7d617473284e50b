package trajectory

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tallystick/internal/run/policy"
)

// example is the run of the worked example in docs/formats/trajectory.md.
func example(t *testing.T) *Log {
	t.Helper()
	args := NewArgs([]byte(`{"amount":100,"to":"alice"}`))
	l := NewLog()
	for _, e := range []struct {
		turn int
		ms   int
		p    Payload
	}{
		{0, 0, started(plainRun)},
		{1, 2, &TurnStarted{Input: textPointer("Pay 100 to alice")}},
		{1, 40, &ToolProposed{Args: args, Call: "call_7f3a", Class: policy.Financial, Name: "transfer"}},
		{1, 41, &PolicyDecision{policy.Tool, "call_7f3a", policy.Allowed, "transfer", "tool transfer is allowed in autonomous mode", policy.RuleAutonomous, policy.Allow}},
		{1, 93, &ToolExecuted{Args: args, Call: "call_7f3a", CostMicroUSD: 120, LatencyMS: 52, Name: "transfer", Result: text("{\"ok\":true}\n"), Source: "fixture"}},
		{1, 95, &RunCompleted{Answer: textPointer("Done.\nAlice has 100."), Status: "completed"}},
	} {
		if _, err := l.Append(e.turn, e.p, time.Duration(e.ms)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// block returns the fenced block of the page that has this info string.
func block(t *testing.T, page []byte, info string) []byte {
	t.Helper()
	_, rest, ok := bytes.Cut(page, []byte("```"+info+"\n"))
	text, _, closed := bytes.Cut(rest, []byte("```"))
	if !ok || !closed {
		t.Fatalf("the page has no block %q", info)
	}
	return text
}

// TestTheWorkedExampleIsTrue keeps docs/formats/trajectory.md in step with the
// bytes. They are a promise: a stored trajectory like this must verify for
// ever, so a change of the format needs a new version and not another example.
func TestTheWorkedExampleIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/trajectory.md")
	if err != nil {
		t.Fatal(err)
	}
	l := example(t)
	if written := block(t, page, "jsonl example"); !bytes.Equal(written, l.Bytes()) {
		t.Errorf("the page has\n%s\nthe program writes\n%s", written, l.Bytes())
	}
	if head := l.Head().String(); !bytes.Contains(page, []byte("The head is `"+head+"`")) {
		t.Errorf("the page does not give the head %s", head)
	}
	v, err := Verify(l.Bytes(), HeadIs(l.Head()))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Canonical(v, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if golden := block(t, page, "text golden"); !bytes.Equal(golden, c.Format()) {
		t.Errorf("the page has\n%s\nthe program writes\n%s", golden, c.Format())
	}
	for _, typ := range Types() {
		if !bytes.Contains(page, []byte("\n| `"+string(typ)+"` |")) {
			t.Errorf("the page does not describe %s", typ)
		}
	}
	for typ, row := range rows {
		for _, m := range row.golden.without {
			if !strings.Contains(string(page), fmt.Sprintf("`%s.%s`", typ, m)) {
				t.Errorf("the page does not say that %s.%s is left out", typ, m)
			}
		}
	}
	for _, c := range []Change{New, Missing, Reordered, ChangedType, ChangedTool, ChangedArguments, ChangedResult, ChangedVerdict, ChangedMemory, ChangedContext, ChangedOutput, ChangedAnswer, ChangedUser, ChangedFields} {
		if !bytes.Contains(page, []byte("\n| `"+string(c)+"` |")) {
			t.Errorf("the page does not explain %s", c)
		}
	}
}

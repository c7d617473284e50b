package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/run/trajectory"
)

// TestReplayTellsEveryTypeOfEvent: no line is left blank after the type.
func TestReplayTellsEveryTypeOfEvent(t *testing.T) {
	told := map[string]string{}
	files, err := filepath.Glob("../run/trajectory/testdata/vectors/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no trajectories", err)
	}
	for _, name := range files {
		var out bytes.Buffer
		env := newEnv(strings.NewReader(""), &out, &out, func(string) string { return "" })
		if code := newProgram(env).main([]string{"replay", name}); code != 0 {
			t.Fatalf("%s: %d: %s", name, code, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if f := strings.Fields(line); len(f) > 2 {
				told[f[2]] = strings.Join(f[3:], " ")
			}
		}
	}
	for _, typ := range trajectory.Types() {
		if told[string(typ)] == "" {
			t.Errorf("nothing is told about %s", typ)
		}
	}
}

// TestReplayTellsWhatNoDecisionPermits: an incident in which an agent went around
// the policy is not shown as if nothing had been.
func TestReplayTellsWhatNoDecisionPermits(t *testing.T) {
	text := func(s string) trajectory.Content {
		return trajectory.NewContent([]byte(s), trajectory.ResultHead)
	}
	hi := text("hi")
	log := trajectory.NewLog()
	for i, p := range []trajectory.Payload{
		&trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Repeat: 1, Target: "t"},
		&trajectory.TurnStarted{Input: &hi},
		&trajectory.ToolExecuted{Call: "1", Name: "pay\x1b[2J", Source: "fixture", Args: trajectory.NewArgs([]byte(`{}`)), Result: text("paid")},
	} {
		if _, err := log.Append(min(i, 1), p, 0); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "incident.jsonl")
	if err := os.WriteFile(name, log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := newEnv(strings.NewReader(""), &out, &out, func(string) string { return "" })
	if code := newProgram(env).main([]string{"replay", name}); code != 0 || !strings.Contains(out.String(), `NO DECISION PERMITS event 3 in turn 1: tool_executed pay\x1b[2J`) {
		t.Errorf("%d: %s", code, out.String())
	}
}

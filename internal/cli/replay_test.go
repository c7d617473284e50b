package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/trajectory"
)

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

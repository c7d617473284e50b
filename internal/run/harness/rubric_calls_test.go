package harness

import (
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// A rubric is shown what the model asked for beside what the agent made of it.
func TestARubricSeesWhatWasAskedForWithOtherArguments(t *testing.T) {
	asked, made := trajectory.NewArgs([]byte(`{"amount":1000000}`)), trajectory.NewArgs([]byte(`{"amount":1}`))
	result := trajectory.NewContent([]byte("paid"), trajectory.ResultHead)
	l := trajectory.NewLogWithEvents()
	for turn, p := range []trajectory.Payload{
		&trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Repeat: 1, Target: "t", Vantage: vantage.Gateway},
		&trajectory.TurnStarted{},
		&trajectory.ToolObserved{Args: asked, Call: "m", ID: "a", Name: "transfer", Vantage: trajectory.Proposed},
		&trajectory.ToolProposed{Args: made, Call: "c1", Name: "transfer"},
		&trajectory.ToolExecuted{Args: made, Call: "c1", Name: "transfer", Result: result, Source: "fixture"},
		&trajectory.ToolObserved{Args: asked, Call: "m", ID: "a", Name: "transfer", Result: &result, Vantage: trajectory.Reported},
	} {
		if _, err := l.Append(min(turn, 1), p, 0); err != nil {
			t.Fatal(err)
		}
	}
	got, err := canon.Marshal(toolCalls(l.Verified()))
	const want = `[{"args":{"amount":1},"error":"","name":"transfer","turn":1},{"args":{"amount":1000000},"error":"","name":"transfer","turn":1,"vantage":"proposed"}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

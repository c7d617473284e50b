package harness

import (
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/trajectory"
)

// TestOnlyAScoredEndIsComplete: of all outcomes that there are or may be, a run is whole
// only if it has the score of an agent that came to its own end.
func TestOnlyAScoredEndIsComplete(t *testing.T) {
	ended := func(status bool) *trajectory.Verified {
		l := trajectory.NewLog()
		events := []trajectory.Payload{&trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Repeat: 1, Target: "t"}}
		if status {
			events = append(events, &trajectory.RunCompleted{Status: "completed"})
		}
		for _, p := range events {
			if _, err := l.Append(0, p, 0); err != nil {
				t.Fatal(err)
			}
		}
		v, err := trajectory.Verify(l.Bytes(), trajectory.HeadIs(l.Head()))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	score := &evidence.Score{}
	for _, c := range []struct {
		name  string
		g     Graded
		whole bool
	}{
		{"passed", Graded{Verified: ended(true), Record: evidence.CaseScored{Outcome: evidence.Passed, Score: score}}, true},
		{"failed", Graded{Verified: ended(true), Record: evidence.CaseScored{Outcome: evidence.Failed, Score: score}}, true},
		{"failed for an unreadable folder", Graded{Verified: ended(true), Record: evidence.CaseScored{Outcome: evidence.Failed, Score: score, Reason: "FolderUnreadable: a pipe"}}, false},
		{"passed without a score", Graded{Verified: ended(true), Record: evidence.CaseScored{Outcome: evidence.Passed}}, false},
		{"passed without an end", Graded{Verified: ended(false), Record: evidence.CaseScored{Outcome: evidence.Passed, Score: score}}, false},
		{"errored", Graded{Verified: ended(true), Record: evidence.CaseScored{Outcome: evidence.Errored, Reason: "CassetteMiss: x"}}, false},
		{"truncated", Graded{Verified: ended(true), Record: evidence.CaseScored{Outcome: evidence.Truncated}}, false},
		{"unscored", Graded{Verified: ended(true), Record: evidence.CaseScored{Outcome: evidence.Unscored}}, false},
		{"skipped", Graded{Verified: ended(true), Record: evidence.CaseScored{Outcome: evidence.Skipped}}, false},
		{"an outcome of a later program", Graded{Verified: ended(true), Record: evidence.CaseScored{Outcome: "abandoned", Score: score}}, false},
		{"suspended", Graded{Verified: ended(true), Suspended: true}, false},
	} {
		if why := c.g.Incomplete(); (why == "") != c.whole {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

package suites

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/trajectory"
)

var suiteTime = time.Date(2026, 5, 2, 9, 0, 0, 0, time.UTC)

func mustVerify(t testing.TB, class string) *bench.Verified {
	t.Helper()
	v, err := Verify(class, suiteTime)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustTarget(t testing.TB, name string) *agent.Target {
	t.Helper()
	target, err := Target(name)
	if err != nil {
		t.Fatal(err)
	}
	if target == nil {
		t.Fatalf("there is no target %s", name)
	}
	return target
}

// rehearse drives a target through a class and gives what came of each case.
func rehearse(t testing.TB, v *bench.Verified, target *agent.Target) map[string]*harness.Graded {
	t.Helper()
	results := map[string]*harness.Graded{}
	cfg := harness.Config{Spec: harness.Spec{Version: "test"}, Bench: v, Target: target, Now: func() time.Time { return suiteTime }}
	err := harness.Rehearse(context.Background(), cfg, func(h *harness.Graded) error {
		if h.Suspended {
			t.Errorf("case %s: a question was left open", h.Case.ID)
		}
		results[h.Case.ID] = h
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// failed names the checks that did not pass, and says why.
func failed(t testing.TB, h *harness.Graded) map[string]string {
	t.Helper()
	if h.Files.Grading == nil {
		return map[string]string{"": string(h.Record.Outcome) + ": " + h.Record.Reason}
	}
	var doc struct {
		Checks []grade.Detail `json:"checks"`
	}
	if err := json.Unmarshal(h.Piece(*h.Files.Grading), &doc); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, c := range doc.Checks {
		if c.Outcome != grade.Passed && c.Check != "" {
			names[c.Check] = c.Why
		}
	}
	return names
}

// events gives the trajectory of a case.
func events(t testing.TB, h *harness.Graded) []trajectory.Event {
	t.Helper()
	v, err := trajectory.Verify(h.Trajectory, trajectory.HeadIs(h.Files.Trajectory.Head))
	if err != nil {
		t.Fatal(err)
	}
	var list []trajectory.Event
	for e := range v.Events() {
		list = append(list, e)
	}
	return list
}

func passed(h *harness.Graded) bool { return h.Record.Outcome == evidence.Passed }

func canonical(t testing.TB, v any) string {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

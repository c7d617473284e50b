package history

import (
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/sequential"
	"tallystick/internal/testing/historytest"
)

// stoppingBook has an attempt at ten cases of which the first four, in the order of
// the plan, failed: enough to say p0.
func stoppingBook(t *testing.T, edit func(r *evidence.AttemptRegistered, s *evidence.Stopped)) *Attempt {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 10, 1)
	r.Plan.StopEarly = &evidence.StopEarly{Rule: evidence.StopSPRT, P0: 0.6, P1: 0.8, Alpha: 0.05, Beta: 0.1, Seed: 7}
	slices.SortFunc(r.Plan.Cases, func(x, y evidence.PlannedCase) int {
		a, b := r.Plan.StopEarly.Place(x.ID), r.Plan.StopEarly.Place(y.ID)
		return slices.Compare(a[:], b[:])
	})
	claim := evidence.Stopped{Decision: sequential.AtMostP0, After: 4}
	edit(r, &claim)
	b.Register(r)
	for i := range 4 {
		s := historytest.Score(r, i, 1, 0)
		s.CaseID, s.CaseDigest, s.CassetteDigest = r.Plan.Cases[i].ID, r.Plan.Cases[i].Digest, r.Plan.Cases[i].Cassette
		b.Case(r, s)
	}
	b.Add(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: r.Attempt, Outcomes: map[evidence.Outcome]int{evidence.Failed: 4}, FailureModes: []string{}, Stopped: &claim})
	return read(b, Options{}).Attempt(r.Attempt)
}

func TestWhatWasNotNeededIsNotFailed(t *testing.T) {
	a := stoppingBook(t, func(*evidence.AttemptRegistered, *evidence.Stopped) {})
	if a.Stop == nil || a.Stop.Decision != sequential.AtMostP0 || a.Stop.NotNeeded != 6 || a.Tasks() != 4 || len(a.Problems) > 0 {
		t.Errorf("%+v, %d tasks, problems %q", a.Stop, a.Tasks(), a.Problems)
	}
}

// Each row is an attempt whose claim does not follow from its records: the cases that
// were not run stay cases that were not run.
func TestForgedStopsDoNotCount(t *testing.T) {
	for name, edit := range map[string]func(*evidence.AttemptRegistered, *evidence.Stopped){
		"the other answer":       func(_ *evidence.AttemptRegistered, s *evidence.Stopped) { s.Decision = sequential.AtLeastP1 },
		"another number":         func(_ *evidence.AttemptRegistered, s *evidence.Stopped) { s.After = 3 },
		"passes that were none":  func(_ *evidence.AttemptRegistered, s *evidence.Stopped) { s.Passed = 4 },
		"stopped before its end": func(r *evidence.AttemptRegistered, _ *evidence.Stopped) { r.Plan.StopEarly.Beta = 0.01 },
		"another order":          func(r *evidence.AttemptRegistered, _ *evidence.Stopped) { slices.Reverse(r.Plan.Cases) },
	} {
		a := stoppingBook(t, edit)
		if a.Stop != nil || a.Tasks() != 10 || len(a.Problems) != 1 || !strings.HasPrefix(a.Problems[0], "stopped: ") {
			t.Errorf("%s: %+v, %d tasks, problems %q", name, a.Stop, a.Tasks(), a.Problems)
		}
	}
}

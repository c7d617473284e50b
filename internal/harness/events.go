package harness

import (
	"tallystick/internal/canon"
	"tallystick/internal/evidence"
)

// A boundaryEvent is one line of events.jsonl: a trust boundary that was
// crossed, when, and for which case.
type boundaryEvent struct {
	Case  string                  `json:"case,omitempty"`
	Event evidence.IntegrityEvent `json:"event"`
	Time  evidence.Time           `json:"time"`
}

// event writes that a boundary was crossed. What blocks goes to the ledger too:
// the list beside it can be lost, a finding must not be.
func (a *attempt) event(name, boundary string, severity evidence.Severity, detail, caseID string, data map[string]any) error {
	raw, err := canon.Marshal(data)
	if err != nil {
		return err
	}
	return a.crossed(caseID, evidence.IntegrityEvent{Name: name, Severity: severity, Boundary: boundary, Detail: detail, Data: raw})
}

func (a *attempt) crossed(caseID string, e evidence.IntegrityEvent) error {
	if a.journal == nil {
		return nil // a rehearsal leaves nothing behind
	}
	line, err := canon.Marshal(boundaryEvent{caseID, e, evidence.At(a.cfg.Now())})
	if err != nil {
		return err
	}
	if err := a.journal.Append(append(line, '\n')); err != nil {
		return err
	}
	if e.Severity != evidence.Block {
		return nil
	}
	_, err = a.cfg.Ledger.AppendRecord(evidence.IntegrityEventKind, &e)
	return err
}

// begin writes what was crossed to get here: the bench that was verified, and
// the run that starts.
func (a *attempt) begin() error {
	for _, e := range a.cfg.Bench.Events() {
		if err := a.crossed("", e); err != nil {
			return err
		}
	}
	return a.event("bench.run.started", "TB-4", evidence.Info, "attempt "+a.id, "",
		map[string]any{"attempt": a.id, "class": a.cfg.Bench.Class(), "target": a.cfg.Target.Name, "cases": a.plan.CaseCount, "repeat": a.plan.Repeat})
}

package harness

import (
	"path/filepath"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
)

// A Crossing is one line of events.jsonl: a trust boundary that was crossed,
// when, and for which case.
type Crossing struct {
	Case  string                  `json:"case,omitempty"`
	Event evidence.IntegrityEvent `json:"event"`
	Time  evidence.Time           `json:"time"`
}

// boundary is an event of the boundary between the harness and the ledger.
func boundary(name string, severity evidence.Severity, detail string, data map[string]any) (evidence.IntegrityEvent, error) {
	raw, err := canon.Marshal(data)
	return evidence.IntegrityEvent{Name: name, Severity: severity, Boundary: "TB-4", Detail: detail, Data: raw}, err
}

// event writes what the attempt as a whole has come to.
func (a *attempt) event(name, detail string, data map[string]any) error {
	e, err := boundary(name, evidence.Info, detail, data)
	if err != nil {
		return err
	}
	return a.crossed(Crossing{Event: e, Time: evidence.At(a.cfg.Now())})
}

// crossed writes that a boundary was crossed. What blocks goes to the ledger too:
// the list beside it can be lost, a finding must not be.
func (a *attempt) crossed(c Crossing) error {
	line, err := canon.Marshal(&c)
	if err != nil {
		return err
	}
	if err := a.list(append(line, '\n')); err != nil {
		return err
	}
	if c.Event.Severity != evidence.Block {
		return nil
	}
	_, err = a.books.Ledger.AppendRecord(evidence.IntegrityEventKind, &c.Event)
	return err
}

// list adds a line to the list, unless the list is in the evidence: a worker of a fleet
// may do something while the attempt is being finished, and that is in the ledger alone.
func (a *attempt) list(line []byte) error {
	a.listing.Lock()
	defer a.listing.Unlock()
	if a.listed {
		return nil
	}
	return a.journal.Append(line)
}

// sealList gives the whole list, to which nothing is added any more.
func (a *attempt) sealList() ([]byte, error) {
	a.listing.Lock()
	defer a.listing.Unlock()
	a.listed = true
	return store.ReadFile(store.OS{}, filepath.Join(a.books.Runs, a.id, "events.jsonl"), 1<<30)
}

// begin writes what was crossed to get here: the bench that was verified, and
// the run that starts.
func (a *attempt) begin() error {
	for _, e := range a.cfg.Bench.Events() {
		if err := a.crossed(Crossing{Event: e, Time: evidence.At(a.cfg.Now())}); err != nil {
			return err
		}
	}
	return a.event("bench.run.started", "attempt "+a.id,
		map[string]any{"attempt": a.id, "class": a.cfg.Bench.Class(), "target": a.cfg.Target.Name, "cases": a.plan.CaseCount, "repeat": a.plan.Repeat})
}

package harness

import (
	"bytes"
	"path/filepath"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
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
	if err := a.addToList(append(line, '\n')); err != nil {
		return err
	}
	if c.Event.Severity != evidence.Block {
		return nil
	}
	_, err = a.books.Ledger.AppendRecord(evidence.IntegrityEventKind, &c.Event)
	return err
}

// addToList adds a line to the list, unless the list is in the evidence: a worker of a fleet
// may do something while the attempt is being finished, and that is in the ledger alone.
func (a *attempt) addToList(line []byte) error {
	a.listing.Lock()
	defer a.listing.Unlock()
	if a.listed {
		return nil
	}
	if err := a.journal.Append(line); err != nil {
		return err
	}
	a.list.add(line)
	return nil
}

// An eventList counts and digests the lines of a list as they are written.
type eventList struct {
	sum   *digest.ContentHasher
	count int64
	torn  bool // its last line has no end: a crash cut it
}

func (l *eventList) add(data []byte) {
	if l.sum == nil {
		l.sum = digest.NewContent()
	}
	l.sum.Write(data)
	l.count += int64(bytes.Count(data, []byte{'\n'}))
	if len(data) > 0 {
		l.torn = data[len(data)-1] != '\n'
	}
}

// eventsFile is the list beside the ledger.
func (a *attempt) eventsFile() string { return filepath.Join(a.books.Runs, a.id, "events.jsonl") }

// readList takes the list of an attempt that is resumed as it lies there. Whether it
// is as it was left is told by what case.started said of it.
func (a *attempt) readList() error {
	data, err := store.ReadFile(store.OS{}, a.eventsFile(), maxList)
	if err == nil {
		a.list.add(data)
	}
	return err
}

// startCase records that a case begins, with what the list of events is by then.
func (a *attempt) startCase(j job, worker string) error {
	started := &evidence.CaseStarted{Attempt: a.id, CaseID: j.id, Repeat: j.repeat, Execution: j.execution, Worker: worker}
	a.listing.Lock()
	if l := &a.list; l.count > 0 && !l.torn {
		started.Events = &evidence.EventList{Count: l.count, Digest: l.sum.Sum()}
	}
	a.listing.Unlock()
	_, err := a.books.Ledger.AppendRecord(evidence.CaseStartedKind, started)
	return err
}

// maxList bounds a list of events.
const maxList = 1 << 30

// sealList gives the whole list, to which nothing is added any more.
func (a *attempt) sealList() ([]byte, error) {
	a.listing.Lock()
	defer a.listing.Unlock()
	a.listed = true
	return store.ReadFile(store.OS{}, a.eventsFile(), maxList)
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

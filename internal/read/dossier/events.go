package dossier

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// maxEventList bounds the list of events of an attempt.
const maxEventList = 1 << 30

// A sealedEvents is what the ledger says of the list of events of one attempt: how
// it was when each case began, and how it was at the end.
type sealedEvents struct {
	entry   int64 // the last that says something
	covered bool  // and it is in the window that is asked about
	parts   map[int64]digest.Content
	whole   *digest.Content
	count   int64 // of lines at the end; 0 if the end does not say
}

// An eventSeals gathers what the ledger says of lists of events, by attempt.
type eventSeals map[string]*sealedEvents

func (s eventSeals) of(attempt string) *sealedEvents {
	if s[attempt] == nil {
		s[attempt] = &sealedEvents{parts: make(map[int64]digest.Content)}
	}
	return s[attempt]
}

func (s eventSeals) visit(r ledger.Record, covers func(int64, evidence.Time) bool) {
	if r.Envelope.Manual {
		return // a claim
	}
	var e *sealedEvents
	switch b := r.Body.(type) {
	case *evidence.CaseStarted:
		if b.Events == nil {
			return
		}
		e = s.of(b.Attempt)
		e.parts[b.Events.Count] = b.Events.Digest
	case *evidence.AttemptFinished:
		if b.Events == nil {
			return
		}
		e = s.of(b.Attempt)
		e.whole, e.count = b.Events, b.EventCount
	default:
		return
	}
	e.entry, e.covered = r.Index, covers == nil || covers(r.Index, r.Envelope.Time)
}

// problems compares the lists beside the ledger with what was sealed.
func (s eventSeals) problems(p *Place) ([]ledger.Problem, error) {
	var problems []ledger.Problem
	for _, id := range slices.Sorted(maps.Keys(s)) {
		why, name, err := p.eventsDiffer(id, s[id])
		if err != nil {
			return nil, err
		}
		// People tidy up what is old; what is there must be right, however old.
		if why != "" && (name != refusal.StrictGap || s[id].covered) {
			problems = append(problems, ledger.Problem{Index: s[id].entry, Kind: "events", Detail: why, Name: name})
		}
	}
	return problems, nil
}

// EventsChanged says how the list of events of an attempt differs from what its
// end names.
func (p *Place) EventsChanged(attempt string, sealed digest.Content, count int64) (string, error) {
	why, _, err := p.eventsDiffer(attempt, &sealedEvents{whole: &sealed, count: count})
	return why, err
}

// RestoreEvents writes the lists of events again that are gone and that the evidence
// has, and counts them. A list that is there stays as it is, right or wrong.
func (p *Place) RestoreEvents() (count int, err error) {
	sealed := eventSeals{}
	if _, err := p.Verify(func(r ledger.Record) error {
		sealed.visit(r, nil)
		return nil
	}); err != nil {
		return 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(sealed)) {
		name := p.eventsFile(id)
		if _, err := p.fs().Lstat(name); sealed[id].whole == nil || !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		data, err := p.link.Vault().Get(*sealed[id].whole, maxEventList)
		if err == nil {
			err = store.MakeDir(store.OS{}, filepath.Dir(name), 0o700)
		}
		if err == nil {
			err = store.CreateFile(store.OS{}, name, data, 0o600)
		}
		if err != nil {
			return count, fmt.Errorf("the events of attempt %s: %w", id, err)
		}
		count++
	}
	return count, nil
}

func (p *Place) eventsFile(attempt string) string {
	return filepath.Join(p.RunsDir(), attempt, "events.jsonl")
}

// eventsDiffer compares one list. A list that is gone is a gap and one that differs
// was changed; of an attempt that never finished, only what was there when its last
// case began is known.
func (p *Place) eventsDiffer(attempt string, sealed *sealedEvents) (string, refusal.Name, error) {
	name := p.eventsFile(attempt)
	data, err := store.ReadFile(p.fs(), name, maxEventList)
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.Settings.Ledger != "":
		// The lists stay on the machine that ran an attempt; in a store is the copy
		// that lies in the evidence.
		return "", "", nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("attempt %s: its list of events %s is gone; \"tally ledger repair\" writes it again from the evidence", attempt, name), refusal.StrictGap, nil
	case err != nil:
		return "", "", err
	}
	if sealed.whole != nil {
		if found := digest.ContentOf(data); found != *sealed.whole {
			return fmt.Sprintf("attempt %s: %s is %s with %d lines, the ledger says %s%s: the file was changed", attempt, name, found, bytes.Count(data, newline), *sealed.whole, lines(sealed.count)), refusal.DigestMismatch, nil
		}
		if n := int64(bytes.Count(data, newline)); sealed.count > 0 && n != sealed.count {
			return fmt.Sprintf("attempt %s: %s has %d lines, the ledger says %d", attempt, name, n, sealed.count), refusal.DigestMismatch, nil
		}
	}
	if n := partsDiffer(data, sealed.parts); n > 0 {
		return fmt.Sprintf("attempt %s: the first %d lines of %s are not those that were there when a case began: they were changed, or the machine lost power", attempt, n, name), refusal.DigestMismatch, nil
	}
	return "", "", nil
}

var newline = []byte{'\n'}

func lines(count int64) string {
	if count == 0 {
		return ""
	}
	return fmt.Sprintf(" with %d", count)
}

// partsDiffer returns how many lines the shortest beginning has that is not as it was
// sealed; 0 if all are.
func partsDiffer(data []byte, parts map[int64]digest.Content) int64 {
	sum, at := digest.NewContent(), int64(0)
	for _, count := range slices.Sorted(maps.Keys(parts)) {
		for ; at < count; at++ {
			line, rest, ended := bytes.Cut(data, newline)
			if !ended {
				return count
			}
			sum.Write(line)
			sum.Write(newline)
			data = rest
		}
		if sum.Sum() != parts[count] {
			return count
		}
	}
	return 0
}

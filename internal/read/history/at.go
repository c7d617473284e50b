package history

import (
	"slices"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
)

// marks are what is kept of every entry, so that a history can be looked at as
// it was.
type marks struct {
	heads   []digest.ID
	times   []int64 // milliseconds since 1970: an evidence.Time has three times the bytes
	byHand  []int64 // indexes
	orphans []int64
}

// A nil *marks keeps nothing.

func (m *marks) add(rec ledger.Record) {
	if m != nil {
		m.heads, m.times = append(m.heads, rec.Head), append(m.times, rec.Envelope.Time.Go().UnixMilli())
	}
}

func (m *marks) manual(index int64) {
	if m != nil {
		m.byHand = append(m.byHand, index)
	}
}

// orphan counts a record of no attempt.
func (h *History) orphan(index int64) {
	h.Orphans++
	if h.marks != nil {
		h.marks.orphans = append(h.marks.orphans, index)
	}
}

// HeadAfter is the head of the ledger when it had so many entries; zero if it
// never had, or if [Options.Marks] was not asked for.
func (h *History) HeadAfter(entries int64) digest.ID {
	if h.marks == nil || entries < 1 || entries > int64(len(h.marks.heads)) {
		return digest.ID{}
	}
	return h.marks.heads[entries-1]
}

// EntriesAt is how many entries the ledger had when it had that head, 0 if no
// entry has it.
func (h *History) EntriesAt(head digest.ID) int64 {
	if h.marks == nil {
		return 0
	}
	return int64(slices.Index(h.marks.heads, head) + 1)
}

// At is the history as it was when the ledger had so many entries. It shares
// the records with this one. It reports false if it cannot tell: marks were not
// kept, or an attempt was at work then, whose records came before and after.
// [Options.Until] reads it in any case.
func (h *History) At(entries int64) (*History, bool) {
	m := h.marks
	if entries == h.Entries {
		return h, true
	}
	if m == nil || entries < 1 || entries > int64(len(m.heads)) {
		return nil, false
	}
	then := &History{Origin: h.Origin, FirstEntry: h.FirstEntry, pinned: h.pinned, Entries: entries, Head: m.heads[entries-1], Time: evidence.At(time.UnixMilli(m.times[entries-1])),
		Manual: before(m.byHand, entries), Orphans: before(m.orphans, entries), byID: make(map[string]*Attempt), known: h.known, marks: m}
	then.Anchors = until(h.Anchors, entries, func(a *Anchor) int64 { return a.Index })
	then.Events = until(h.Events, entries, func(e *Event) int64 { return e.Index })
	then.Tapes = until(h.Tapes, entries, func(t *Tape) int64 { return t.Index })
	then.Authorities = until(h.Authorities, entries, func(a *Authority) int64 { return a.Index })
	then.Pending = until(h.Pending, entries, func(p *Pending) int64 { return p.Index })
	then.Calibrations = until(h.Calibrations, entries, func(c *Calibration) int64 { return c.Index })
	then.amendments = until(h.amendments, entries, func(m *amendment) int64 { return m.index })
	then.corrections = until(h.corrections, entries, func(m *correction) int64 { return m.index })
	then.reviews = until(h.reviews, entries, func(m *review) int64 { return m.Index })
	for _, c := range h.cosigned {
		if c.Size <= entries {
			then.cosigned = append(then.cosigned, c)
		}
	}
	for _, a := range until(h.Attempts, entries, func(a **Attempt) int64 { return (*a).Index }) {
		if a.last >= entries {
			return nil, false
		}
		b := *a
		then.Attempts = append(then.Attempts, &b)
		then.byID[b.ID] = &b
	}
	then.settle(len(h.amendments) > len(then.amendments) || len(h.corrections) > len(then.corrections))
	return then, true
}

// before counts the indexes below entries.
func before(indexes []int64, entries int64) int64 {
	n, _ := slices.BinarySearch(indexes, entries)
	return int64(n)
}

// until is the part of a list, in the order of the ledger, below entries.
func until[T any](list []T, entries int64, index func(*T) int64) []T {
	n, _ := slices.BinarySearchFunc(list, entries, func(x T, entries int64) int { return int(index(&x) - entries) })
	return slices.Clip(list[:n])
}

// settle brings up to date what of an attempt depends on what came after it.
func (h *History) settle(amendedSince bool) {
	numbers, plans := make(map[string]int), make(map[digest.Content]int)
	for _, a := range h.Attempts {
		numbers[a.Class], plans[a.PlanID] = a.Ordinal, a.PlanOrdinal
	}
	for _, a := range h.Attempts {
		a.Siblings, a.PlanSiblings = numbers[a.Class], plans[a.PlanID]
		a.Reproductions = until(a.Reproductions, h.Entries, func(r *Reproduction) int64 { return r.Index })
		h.setLevel(a)
		a.calibration = h.calibrationOf(a)
		if amendedSince && a.amendedAt(h.Entries) {
			a.cases = a.cases.clone()
			for c := range a.cases.all() {
				c.Amendment, c.Correction = nil, nil
			}
			amend(h.amendments, a.cases.all())
			h.correct(of(a, h.corrections), a.cases.all(), func(*Attempt, int64, string) {})
		}
	}
}

// of are the corrections of records of an attempt.
func of(a *Attempt, corrections []correction) []correction {
	return slices.DeleteFunc(slices.Clone(corrections), func(m correction) bool { return m.Attempt != a.ID })
}

// amendedAt reports whether a record was amended or corrected when the ledger
// already had so many entries.
func (a *Attempt) amendedAt(entries int64) bool {
	for c := range a.cases.all() {
		if c.Amendment != nil && c.Amendment.Index >= entries || c.Correction != nil && c.Correction.last >= entries {
			return true
		}
	}
	return false
}

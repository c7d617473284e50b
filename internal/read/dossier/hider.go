package dossier

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

// A Hider hides the texts of one case.
type Hider struct{ Salt [sha256.Size]byte }

// Text is a text as it may leave. Nothing stays nothing. A nil Hider hides
// nothing.
func (w *Hider) Text(s string) string {
	if w == nil || s == "" {
		return s
	}
	return "withheld sha256:" + hex.EncodeToString(w.sum([]byte(s)))
}

func (w *Hider) sum(data []byte) []byte {
	h := sha256.New()
	h.Write(w.Salt[:])
	h.Write(data)
	return h.Sum(nil)
}

// Checks hides what was compared. Which graders looked, and how they found, stays.
func (w *Hider) Checks(all []grade.Detail) []grade.Detail {
	if w == nil {
		return all
	}
	for i := range all {
		d := &all[i]
		d.Why, d.Missing = w.Text(d.Why), w.Text(d.Missing)
		d.Expected, d.Extracted = w.content(d.Expected), w.content(d.Extracted)
		d.Second = nil // it speaks of both
		if d.Panel != nil {
			panel := *d.Panel
			panel.Members = slices.Clone(panel.Members)
			for j := range panel.Members {
				m := &panel.Members[j]
				m.Why, m.Unscored = w.Text(m.Why), w.Text(m.Unscored)
			}
			d.Panel = &panel
		}
	}
	return all
}

// content hides a text and its digest, of which a short text could be guessed.
func (w *Hider) content(c *trajectory.Content) *trajectory.Content {
	if c == nil {
		return nil
	}
	head := w.Text(c.Digest.String() + "\n" + c.Head)
	return &trajectory.Content{Bytes: int64(len(head)), Digest: digest.ContentOf([]byte(head)), Head: head}
}

// Bundle hides the texts of a bundle. Outcome, cost, calls by name and the count
// of tests stay, so that what is added up over bundles is the same.
func (w *Hider) Bundle(b *bundle.Bundle, r *evidence.CaseScored) {
	if w == nil {
		return
	}
	said := fmt.Sprintf("case %s of class %s\n%s\n", r.CaseID, r.Class, r.CaseDigest)
	b.Spec = append([]byte(said), w.section(b.Spec)...)
	b.Plan, b.Diff = w.section(b.Plan), w.section(b.Diff)
	if b.TestLog != nil {
		log := w.section(b.TestLog)
		if s := bundle.SummariseTests(b.TestLog); s.Found() {
			log = fmt.Appendf(log, "tests: %d passed, %d failed\n", s.Passed, s.Failed)
		}
		b.TestLog = log
	}
	if b.Postmortem != nil {
		b.Postmortem = append(fmt.Appendf(nil, "outcome: %s\n", r.Outcome), w.section(b.Postmortem)...)
	}
	for i := range b.Trace {
		t := &b.Trace[i]
		args, result := w.hash(t.ArgsHash[:]), w.hash(t.ResultHash[:])
		if b.Full != nil {
			full := &b.Full.Calls[i]
			args, result = w.hash(full.Args[:]), w.hash(full.Result[:])
			full.Args, full.Result = args, result
		}
		t.ArgsHash, t.ResultHash = args.Short(), result.Short()
	}
}

func (w *Hider) hash(h []byte) bundle.Hash { return bundle.Hash(w.sum(h)) }

// section is a section of a bundle by its digest. An empty one, and one that is
// not there, stay so.
func (w *Hider) section(s []byte) []byte {
	if len(s) == 0 {
		return s
	}
	return []byte(w.Text(string(s)) + "\n")
}

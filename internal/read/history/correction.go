package history

import (
	"fmt"
	"iter"
	"slices"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
)

// A Correction is the last correction of a record that counts: people of the
// signers file signed another score with a reason. The record stays as it is;
// see [Case.Effective] for what counts where.
type Correction struct {
	Index  int64         // of its first entry
	Time   evidence.Time // of its last entry
	Number int
	Was    evidence.Grade
	Now    evidence.Grade
	Reason string
	By     []string // the people, in the order of their signatures
	// Security says that one of them holds the security role.
	Security bool
	// Lowest is the lower of what the record says and of every correction of
	// it, this one included: what is left when no raise counts.
	Lowest evidence.Grade

	message digest.ID
	people  []seal.Signature // those of By
	last    int64            // of its last entry
}

// Last is the index of the entry that brought the last signature.
func (c *Correction) Last() int64 { return c.last }

// Raises reports whether the correction asks for more than the record has.
func (c *Correction) Raises() bool {
	return c.Now.Passed && !c.Was.Passed || c.Now.Score > c.Was.Score
}

// ByTwo reports whether two people signed, one of them with the security role.
func (c *Correction) ByTwo() bool { return len(c.By) >= 2 && c.Security }

// Text says what was corrected, by whom, when and why, for people.
func (c *Correction) Text() string { return c.beside().Text() }

// Change is [Correction.Text] without the reason.
func (c *Correction) Change() string { return c.beside().Change() }

// lower is the worse of two grades in each of their parts.
func lower(a, b evidence.Grade) evidence.Grade {
	return evidence.Grade{Passed: a.Passed && b.Passed, Score: min(a.Score, b.Score)}
}

// correction is a score.corrected entry whose signatures were looked at.
type correction struct {
	index int64
	time  evidence.Time
	*evidence.ScoreCorrected
	message digest.ID
	people  []seal.Signature // who count
	known   *known           // who is who at that place of the ledger
	problem string           // why none does
}

// corrected verifies the signatures of a correction at its place. Whether it
// counts is decided beside its record.
func (r *Reader) corrected(rec ledger.Record, b *evidence.ScoreCorrected) error {
	message, err := b.Message()
	if err != nil {
		return err
	}
	m := correction{index: rec.Index, time: rec.Envelope.Time, ScoreCorrected: b, message: digest.IDOf(message), known: r.history.known}
	sigs := make([][]byte, len(b.Signatures))
	for i, s := range b.Signatures {
		sigs[i] = []byte(s)
	}
	if r.signers == nil {
		m.problem = "the signers file is missing, so no signer can be checked"
	} else if m.people, err = r.signers.VerifyQuorum(sigs, message, seal.NamespaceCorrection, rec.Envelope.Time.Go(), seal.Rule{People: 1}); err != nil {
		m.problem = err.Error()
	}
	r.history.corrections = append(r.history.corrections, m)
	return nil
}

// correct sets corrections, in their order, beside the records that are among
// cases. It tells fault about each that does not count.
func (h *History) correct(corrections []correction, cases iter.Seq[*Case], fault func(a *Attempt, index int64, why string)) {
	if len(corrections) == 0 {
		return
	}
	wanted := make(map[int64]*Case, len(corrections))
	for i := range corrections {
		wanted[corrections[i].Entry] = nil
	}
	for c := range cases {
		if _, ok := wanted[c.Index]; ok && c.Index >= 0 {
			wanted[c.Index] = c
		}
	}
	for i := range corrections {
		m := &corrections[i]
		a := h.byID[m.Attempt]
		if a == nil || !a.Kept {
			continue
		}
		why := h.misplaced(m, a, wanted[m.Entry])
		if why == "" {
			why = wanted[m.Entry].apply(m, a)
		}
		if why != "" {
			fault(a, m.index, why)
		}
	}
}

// misplaced says why a correction is not one of this record.
func (h *History) misplaced(m *correction, a *Attempt, c *Case) string {
	switch {
	case m.problem != "":
		return m.problem
	case m.Sensible() != nil:
		return m.Sensible().Error()
	case m.Origin != h.Origin:
		return fmt.Sprintf("it was signed for the ledger %s, this is %s", m.Origin, h.Origin)
	case c == nil || m.index < m.Entry:
		return fmt.Sprintf("entry %d is not a record that counts", m.Entry)
	case c.Head != m.Head:
		return fmt.Sprintf("it was signed for the head %s, entry %d has %s", m.Head, m.Entry, c.Head)
	case c.ID != m.CaseID || int(c.Repeat) != m.Repeat || a.find([]byte(c.ID), c.Repeat) != c:
		return fmt.Sprintf("entry %d is of case %s, repetition %d, of its attempt", m.Entry, c.ID, c.Repeat)
	case !c.WasScored():
		return fmt.Sprintf("the record is %s and has no score to correct", c.Outcome())
	case m.Was != evidence.Grade{Passed: c.recorded == passed, Score: c.Score}:
		return "it says that the record has another score"
	}
	return ""
}

// apply sets a correction beside its record, or adds a person to the last one.
// It says why it does neither.
func (c *Case) apply(m *correction, a *Attempt) string {
	last := c.Correction
	if last != nil && last.message == m.message {
		// A copy: a history as it was may share the one that is there.
		signed := *last
		signed.By, signed.people = slices.Clone(last.By), slices.Clone(last.people)
		if why := signed.sign(m, a); why != "" {
			return why
		}
		c.Correction = &signed
		return ""
	}
	number := 1
	lowest := m.Was
	if last != nil {
		number, lowest = last.Number+1, last.Lowest
	}
	if m.Number != number {
		return fmt.Sprintf("it was signed as correction %d of the record, and would be number %d: corrections do not come twice", m.Number, number)
	}
	next := &Correction{Index: m.index, Number: number, Was: m.Was, Now: m.Now, Reason: m.Reason, Lowest: lower(lowest, m.Now), message: m.message}
	if why := next.sign(m, a); why != "" {
		return why
	}
	c.Correction = next
	return ""
}

// Correcting is the correction of a case as it would stand with the signatures of one
// more entry; again names a signer who signed it before, if each did.
func (h *History) Correcting(c *Case, b *evidence.ScoreCorrected, signed []seal.Signature) (k *Correction, again string) {
	k = &Correction{Number: b.Number, Was: b.Was, Now: b.Now, Reason: b.Reason}
	if last := c.Correction; last != nil && last.Number == b.Number {
		k.By, k.people, k.Security = slices.Clone(last.By), slices.Clone(last.people), last.Security
	}
	before := len(k.By)
	for _, s := range signed {
		if !k.add(s, h.known.people) {
			again = s.Principal()
		}
	}
	if len(k.By) > before {
		again = ""
	}
	return k, again
}

// add adds a person, unless they signed before, under whatever name.
func (c *Correction) add(s seal.Signature, people seal.People) bool {
	if slices.ContainsFunc(c.people, func(before seal.Signature) bool { return people.Same(before, s) }) {
		return false
	}
	c.people, c.By = append(c.people, s), append(c.By, s.Principal())
	c.Security = c.Security || s.Holds(seal.Security)
	return true
}

// sign adds the people of an entry. Neither signature may be of a person who ran the
// attempt, and one person under two names is one; it says why an entry adds no signer.
func (c *Correction) sign(m *correction, a *Attempt) string {
	added, why := false, ""
	for _, s := range m.people {
		if ran := m.known.ran(a, s); ran != "" {
			why = fmt.Sprintf("it is signed by %s, who %s", s.Principal(), ran)
		} else if c.add(s, m.known.people) {
			added = true
		} else {
			why = fmt.Sprintf("%s has signed this correction already", s.Principal())
		}
	}
	if !added {
		return why
	}
	c.last, c.Time = m.index, m.time
	return ""
}

package history

import (
	"fmt"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
)

// A Review is a label that a person of the signers file gave a record. It changes
// no score.
type Review struct {
	Index int64 // of its entry
	Time  evidence.Time
	evidence.ReviewLabelled
	By  string // the person, "" if the signature does not verify
	Key string // its fingerprint
	// OwnRunner says that the person ran the attempt.
	OwnRunner bool
	// Superseded says that the same person gave the record another label later.
	Superseded bool
	// Problem says why the label does not count; "" if it does.
	Problem string
}

// Counts reports whether the label is one to reckon with: properly signed, of
// this record, and the last word of its person.
func (r *Review) Counts() bool { return r.Problem == "" && !r.Superseded }

// review is a review.labelled entry whose signature was looked at.
type review struct {
	Review
	signature seal.Signature
}

// labelled verifies the signature of a label at its place. Whether it counts is
// decided beside its record, by [History.Reviews].
func (r *Reader) labelled(rec ledger.Record, b *evidence.ReviewLabelled) error {
	message, err := b.Message()
	if err != nil {
		return err
	}
	m := review{Review: Review{Index: rec.Index, Time: rec.Envelope.Time, ReviewLabelled: *b}}
	if r.signers == nil {
		m.Problem = "the signers file is missing, so no signer can be checked"
	} else if people, err := r.signers.VerifyQuorum([][]byte{[]byte(b.Signature)}, message, seal.NamespaceReview, m.Time.Go(), seal.Rule{People: 1}); err != nil {
		m.Problem = err.Error()
	} else {
		m.signature = people[0]
		m.By, m.Key = people[0].Principal(), people[0].Key().Fingerprint()
	}
	r.history.reviews = append(r.history.reviews, m)
	return nil
}

// Reviews are the labels of an attempt's records in the order of the ledger, with
// those that were superseded or do not count: both stay visible. The attempt was
// read with its records.
func (h *History) Reviews(a *Attempt) []Review {
	var out []Review
	var byEntry map[int64]*Case
	last := make(map[reviewer]int) // place in out of a person's last label of a record
	for i := range h.reviews {
		m := &h.reviews[i]
		if m.Attempt != a.ID {
			continue
		}
		if byEntry == nil {
			byEntry = a.recordsByEntry()
		}
		v := m.Review
		who := reviewer{v.Entry, strings.ToLower(v.By)}
		before, again := last[who]
		if v.Problem == "" {
			v.Problem = h.notOfRecord(&v, byEntry[v.Entry])
		}
		number := 1
		if again {
			number = out[before].Number + 1
		}
		if v.Problem == "" && v.Number != number {
			v.Problem = fmt.Sprintf("it was signed as label %d of %s for the record, and would be number %d: labels do not come twice", v.Number, v.By, number)
		}
		if v.Problem == "" {
			v.OwnRunner = h.RanBy(a, m.signature) != ""
			if again {
				out[before].Superseded = true
			}
			last[who] = len(out)
		}
		out = append(out, v)
	}
	return out
}

// reviewer is a person before a record.
type reviewer struct {
	entry int64
	name  string
}

func (a *Attempt) recordsByEntry() map[int64]*Case {
	m := make(map[int64]*Case, a.Records)
	for c := range a.Cases() {
		if c.Index >= 0 {
			m[c.Index] = c
		}
	}
	return m
}

// notOfRecord says why a label is not one of this record.
func (h *History) notOfRecord(v *Review, c *Case) string {
	switch {
	case v.Origin != h.Origin:
		return fmt.Sprintf("it was signed for the ledger %s, this is %s", v.Origin, h.Origin)
	case c == nil || v.Index < v.Entry:
		return fmt.Sprintf("entry %d is not a record of the attempt that counts", v.Entry)
	case c.Head != v.Head:
		return fmt.Sprintf("it was signed for the head %s, entry %d has %s", v.Head, v.Entry, c.Head)
	case c.ID != v.CaseID || int(c.Repeat) != v.Repeat:
		return fmt.Sprintf("entry %d is of case %s, repetition %d", v.Entry, c.ID, c.Repeat)
	case len(c.Evidence) == 0 || c.Evidence[0] != v.Seen:
		return fmt.Sprintf("the person saw the evidence %s, which is not that of the record", v.Seen)
	}
	return ""
}

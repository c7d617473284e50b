package history

import (
	"slices"
	"strings"

	"tallystick/internal/record/evidence"
)

// The forms in which a score is shown.
type (
	Mark         = evidence.Mark
	Beside       = evidence.Beside
	CorrectedRow = evidence.CorrectedRow
)

// A Basis says which mark of a case is counted.
type Basis int

const (
	// AsRecorded is what the record says. It is the headline of everything that shows a
	// score, and what a receipt proves; what was set beside it is told beside it.
	AsRecorded Basis = iota
	// AsCorrected is the record with what people corrected and what was graded again:
	// what gates decide on.
	AsCorrected
)

// On is the mark of the case on a basis.
func (c *Case) On(b Basis) Mark {
	if b == AsCorrected {
		return Mark{Outcome: c.Effective(), Scored: c.IsScored(), Score: c.EffectiveScore()}
	}
	return Mark{Outcome: c.Outcome(), Scored: c.WasScored(), Score: c.Score}
}

// IsCorrected reports whether what was set beside the record changes its mark.
func (c *Case) IsCorrected() bool { return c.On(AsRecorded) != c.On(AsCorrected) }

// Beside lists what stands beside the record, in the order of the ledger; nil if
// nothing does.
func (c *Case) Beside() []Beside {
	var all []Beside
	if k := c.Correction; k != nil {
		all = append(all, k.beside())
	}
	if a := c.Amendment; a != nil {
		b := Beside{Kind: evidence.ScoreAmendedKind, By: []string{a.Author}, At: a.Time, Was: c.On(AsRecorded),
			Now: evidence.Grade{Passed: a.Passed, Score: a.Score}.Mark(), Reason: a.Reason, Index: a.Index}
		if c.Raises() {
			b.Ignored = "an amendment does not raise a score"
		}
		if all = append(all, b); len(all) > 1 && all[0].Index > b.Index {
			all[0], all[1] = all[1], all[0]
		}
	}
	return all
}

// Corrections lists what stands beside the record of a case of this attempt.
func (c *Case) Corrections(attempt string) []CorrectedRow {
	var out []CorrectedRow
	for _, b := range c.Beside() {
		out = append(out, CorrectedRow{Attempt: attempt, CaseID: c.ID, Repeat: c.Repeat, Beside: b, Entry: c.Index})
	}
	return out
}

// BesideEntries are the entries of what stands beside the record, in their order.
func (c *Case) BesideEntries() []int64 {
	var all []int64
	if k := c.Correction; k != nil {
		if all = append(all, k.Index); k.last != k.Index {
			all = append(all, k.last)
		}
	}
	if a := c.Amendment; a != nil {
		all = append(all, a.Index)
	}
	slices.Sort(all)
	return all
}

// BesideText tells in a line all that stands beside the record, "" if nothing does.
func (c *Case) BesideText() string { return besideText(c, Beside.Text) }

// BesideChange is [Case.BesideText] without the reasons.
func (c *Case) BesideChange() string { return besideText(c, Beside.Change) }

func besideText(c *Case, text func(Beside) string) string {
	var lines []string
	for _, b := range c.Beside() {
		lines = append(lines, text(b))
	}
	return strings.Join(lines, "; ")
}

func (k *Correction) beside() Beside {
	return Beside{Kind: evidence.ScoreCorrectedKind, By: k.By, At: k.Time, Was: k.Was.Mark(), Now: k.Now.Mark(), Reason: k.Reason, Index: k.Index}
}

package dossier

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

// A Public is what may leave the workspace of an attempt. The texts of held-out cases
// do not exist in it: they are salted digests, or refused where a digest would not
// do, unless the caller asked for them ([Ask].ShowHeldOut). What it gives is read from
// evidence whose digests were checked; that of a [Whole] was all read before.
type Public struct {
	*history.Attempt
	d      *Dossier
	hidden func() (map[digest.Content]string, error) // pieces that do not leave, and a case that names each
}

// Public is the attempt as it may leave the workspace.
func (d *Dossier) Public() *Public { return &Public{d.Attempt, d, sync.OnceValues(d.hiddenPieces)} }

// History is that of the ledger which the attempt is from.
func (p *Public) History() *history.History { return p.d.r.History }

// Entries is [Dossier.Entries].
func (p *Public) Entries() []int64 { return p.d.Entries() }

// TreeSize is that of the tree in which entries up to index are proved.
func (p *Public) TreeSize(index int64) int64 {
	head, _ := p.d.r.BestCheckpoint(p.d.r.verified, index)
	return head.Size
}

// Prove is [Reading.Prove]. Entries are proved as they are: one of a held-out case
// without a score repeats what the agent printed, see [PublicCase.MayProve].
func (p *Public) Prove(indexes ...int64) (map[int64]Proof, string, error) {
	return p.d.r.Prove(indexes...)
}

// EntriesAgain is [Reading.Entries].
func (p *Public) EntriesAgain(indexes ...int64) (map[int64]Entry, error) {
	return p.d.r.Entries(indexes...)
}

// Withholds reports whether a planned case does not leave, whether it ran or not.
func (p *Public) Withholds(c *history.Case) bool {
	return !p.d.r.ask.ShowHeldOut && p.d.Case(c).IsHeldOut()
}

// Piece returns a piece of evidence if it is what its name says. One that a held-out
// case names is refused, also if another case names it.
func (p *Public) Piece(name digest.Content) ([]byte, error) {
	hidden, err := p.hidden()
	if err != nil {
		return nil, err
	}
	if id, ok := hidden[name]; ok {
		return nil, HeldOut(id)
	}
	return p.d.r.Piece(name)
}

// hiddenPieces lists what the records of held-out cases and their indexes name.
func (d *Dossier) hiddenPieces() (map[digest.Content]string, error) {
	pieces := make(map[digest.Content]string)
	for c := range d.Cases() {
		if d.r.ask.ShowHeldOut || c.Index < 0 || len(c.Evidence) == 0 || !c.IsHeldOut() {
			continue
		}
		files, err := c.Files()
		if err != nil {
			return nil, err // what else belongs to it is unknown
		}
		for _, name := range slices.Concat(c.Evidence, files.All()) {
			pieces[name] = c.ID
		}
	}
	return pieces, nil
}

// Registration is what the attempt was planned with, in canonical JSON: as it was kept
// for a submission, or as the class has it if that did not change.
func (p *Public) Registration() ([]byte, error) {
	if data, ok := p.d.r.Content(p.Plan.RegistrationDigest); ok {
		return data, nil
	}
	v, err := p.d.r.Bench(p.Class)
	if err != nil {
		return nil, err
	}
	data, err := canon.Marshal(v.Registration())
	if err != nil {
		return nil, err
	}
	if got := digest.ContentOf(data); got != p.Plan.RegistrationDigest {
		return nil, refusal.Newf(refusal.NotFound, "class %s: the registration is %s now, the attempt was planned with %s", p.Class, got, p.Plan.RegistrationDigest).
			WithHint("check out the bench as it was when the attempt was registered")
	}
	return data, nil
}

// Case gives a case of the attempt as it may leave the workspace.
func (p *Public) Case(c *history.Case) (*PublicCase, error) {
	one := p.d.Case(c)
	hider, err := one.Hider()
	return &PublicCase{c, one, hider}, err
}

// Records are the records of some cases of the attempt by their entry. It needs
// [Ask].Again.
func (p *Public) Records(cases iter.Seq[*history.Case]) (map[int64]*evidence.CaseScored, error) {
	records, err := p.d.r.Records(cases)
	if err != nil {
		return nil, err
	}
	for c := range cases {
		record := records[c.Index]
		if record == nil || record.Reason == "" {
			continue
		}
		one, err := p.Case(c)
		if err != nil {
			return nil, err
		}
		record.Reason = one.hider.Text(record.Reason)
	}
	return records, nil
}

// A PublicCase is a case as it may leave the workspace.
type PublicCase struct {
	*history.Case
	c     *Case
	hider *Hider // nil if nothing is to be hidden
}

// IsHidden reports whether the texts of the case do not leave.
func (p *PublicCase) IsHidden() bool { return p.hider != nil }

// MayProve reports whether the record of the case may be shown as it is.
func (p *PublicCase) MayProve() bool { return p.hider == nil || p.WasScored() }

// Trajectory reads and verifies the trajectory. That of a held-out case is refused.
func (p *PublicCase) Trajectory() (*trajectory.Verified, error) {
	if p.IsHidden() {
		return nil, HeldOut(p.ID)
	}
	return p.c.Trajectory()
}

// Content is a piece that the trajectory names, if it is there and may leave.
func (p *PublicCase) Content(d digest.Content) ([]byte, bool) {
	if p.IsHidden() {
		return nil, false
	}
	return p.c.of.r.Content(d)
}

// Checks reads what was compared with what.
func (p *PublicCase) Checks() ([]grade.Detail, error) {
	checks, err := p.c.Checks()
	return p.hider.Checks(checks), err
}

// Bundle derives the bundle of the record.
func (p *PublicCase) Bundle(record *evidence.CaseScored) (*bundle.Bundle, error) {
	b, err := p.c.Bundle(record)
	if err == nil {
		p.hider.Bundle(b, record)
	}
	return b, err
}

// Originals are documents of the evidence byte for byte.
type Originals struct{ Index, Trajectory, Grading []byte }

// Originals reads the index, the trajectory, which it verifies, and the grading
// document, if there is one. Those of a held-out case are refused.
func (p *PublicCase) Originals() (out Originals, err error) {
	if out.Trajectory, err = p.c.Events(); err != nil {
		return out, err
	}
	files, err := p.c.Files()
	if err != nil {
		return out, err
	}
	if out.Index, err = p.c.of.r.Piece(p.Evidence[0]); err != nil || files.Grading == nil {
		return out, err
	}
	out.Grading, err = p.c.of.r.Piece(*files.Grading)
	return out, err
}

// A Said is what was asked, answered and expected in a case, and which models were
// called.
type Said struct {
	Input, Answer, Expected string
	Models                  []string
}

// Said reads the texts of the case, whole where the evidence has them.
func (p *PublicCase) Said() (*Said, error) {
	v, err := p.c.Trajectory()
	if err != nil {
		return nil, err
	}
	s := &Said{}
	var asked []string
	for e := range v.Events() {
		switch e := e.Payload.(type) {
		case *trajectory.TurnStarted:
			if text := p.c.text(e.Input); text != "" {
				asked = append(asked, text)
			}
		case *trajectory.TurnCompleted:
			s.Answer = p.c.text(e.Answer)
		case *trajectory.RunCompleted:
			if text := p.c.text(e.Answer); text != "" {
				s.Answer = text
			}
		case *trajectory.ModelCallStarted:
			s.Models = append(s.Models, e.Model)
		}
	}
	checks, err := p.c.Checks()
	if err != nil {
		return nil, err
	}
	for _, check := range checks {
		if check.Expected != nil && s.Expected == "" {
			s.Expected = p.c.text(check.Expected)
		}
	}
	s.Input, s.Answer, s.Expected = p.hider.Text(strings.Join(asked, "\n\n")), p.hider.Text(s.Answer), p.hider.Text(s.Expected)
	return s, nil
}

// text is a text, or its beginning where that is all there is or all that may be
// shown.
func (c *Case) text(t *trajectory.Content) string {
	if t == nil {
		return ""
	}
	if t.Truncated && !t.Redacted {
		if data, ok := c.of.r.Content(t.Digest); ok {
			return strings.ToValidUTF8(string(data), "\uFFFD")
		}
	}
	return t.Head
}

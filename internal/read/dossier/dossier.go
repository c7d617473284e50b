package dossier

import (
	"cmp"
	"encoding/json"
	"iter"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

// A Dossier is one attempt of a verified ledger with its cases and their evidence.
// Only a [Reading] makes one. It reads evidence when it is asked: what decides
// takes a [Whole], what leaves the workspace a [Public].
type Dossier struct {
	*history.Attempt
	r *Reading
}

// Dossier gives an attempt of the history with its evidence.
func (r *Reading) Dossier(a *history.Attempt) *Dossier { return &Dossier{a, r} }

// Reading is the reader of the workspace that the dossier is from.
func (d *Dossier) Reading() *Reading { return d.r }

// Cases gives every repetition of every planned case, as [history.Attempt.Cases].
func (d *Dossier) Cases() iter.Seq[*Case] {
	return func(yield func(*Case) bool) {
		for c := range d.Attempt.Cases() {
			if !yield(d.Case(c)) {
				return
			}
		}
	}
}

// Case gives a case of the attempt with its evidence.
func (d *Dossier) Case(c *history.Case) *Case { return &Case{c, d} }

// Records are the whole records of the attempt by their entry. It needs [Ask].Again.
func (d *Dossier) Records() (map[int64]*evidence.CaseScored, error) {
	return d.r.Records(d.Attempt.Cases())
}

// A Case is one repetition of a case of a [Dossier], with its evidence.
type Case struct {
	*history.Case
	of *Dossier
}

// Dossier is what the case is of.
func (c *Case) Dossier() *Dossier { return c.of }

// Record is the whole record of the case, nil if there is none. It needs
// [Ask].Again.
func (c *Case) Record() (*evidence.CaseScored, error) { return c.of.r.Record(c.Case) }

// Files reads the index of the evidence.
func (c *Case) Files() (*evidence.CaseFiles, error) { return c.of.r.filesOf(c.Case) }

// Trajectory reads and verifies the trajectory that the record names.
func (c *Case) Trajectory() (*trajectory.Verified, error) {
	return history.TrajectoryOf(c.Case, c.of.r.Piece)
}

// Events are the lines of the trajectory as they were hashed. Those of a held-out
// case are refused unless the caller asked to see it.
func (c *Case) Events() ([]byte, error) {
	if hidden, err := c.IsHidden(); err != nil || hidden {
		return nil, cmp.Or(err, HeldOut(c.ID))
	}
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	if _, err := history.TrajectoryIn(files, c.of.r.Piece); err != nil {
		return nil, c.of.r.Refused(err)
	}
	return c.of.r.Piece(files.Trajectory.Digest)
}

// Checks reads what was compared with what.
func (c *Case) Checks() ([]grade.Detail, error) {
	files, err := c.Files()
	if err != nil || files.Grading == nil {
		return []grade.Detail{}, err
	}
	return c.of.r.checksIn(*files.Grading)
}

// RubricSaid reads what the rubric wrote to its standard error.
func (c *Case) RubricSaid() (string, error) {
	files, err := c.Files()
	if err != nil || files.Rubric == nil || files.Rubric.Stderr == nil {
		return "", err
	}
	said, err := c.of.r.Piece(*files.Rubric.Stderr)
	return string(said), err
}

// AmendedTo is the last amendment of the record and what was compared for it; nil
// if the record was not amended. What is missing is an error beside the amendment.
func (c *Case) AmendedTo() (amended *evidence.ScoreAmended, checks []grade.Detail, missing, err error) {
	if c.Amendment == nil {
		return nil, nil, nil, nil
	}
	entries, err := c.of.r.Entries(c.Amendment.Index)
	if err != nil {
		return nil, nil, nil, err
	}
	if amended, err = BodyOf[*evidence.ScoreAmended](c.Amendment.Index, entries[c.Amendment.Index]); err != nil {
		return nil, nil, nil, err
	}
	checks = []grade.Detail{}
	if amended.Grading != nil {
		checks, missing = c.of.r.checksIn(*amended.Grading)
	}
	return amended, checks, missing, nil
}

// Bundle derives the bundle of the record from the evidence.
func (c *Case) Bundle(record *evidence.CaseScored) (*bundle.Bundle, error) {
	files, err := history.FilesOf(c.Case, c.of.r.Piece)
	if err != nil {
		return nil, err
	}
	return bundleOf(c.Case, record, files, c.of.r.Piece)
}

// checksIn reads a grading document.
func (r *Reading) checksIn(name digest.Content) ([]grade.Detail, error) {
	data, err := r.Piece(name)
	if err != nil {
		return []grade.Detail{}, err
	}
	var doc struct {
		Checks []grade.Detail `json:"checks"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return []grade.Detail{}, refusal.Newf(refusal.Malformed, "the grading document %s: %w", name, err)
	}
	return append([]grade.Detail{}, doc.Checks...), nil
}

// A CaseQuery says which case the caller means.
type CaseQuery struct {
	Case    string
	Attempt string // "" for the newest that has a record of it
	Class   string // "" for any
}

// FindCase finds a case in the attempt that was named, or in the newest that
// has a record of it.
func (r *Reading) FindCase(q CaseQuery) (*Case, error) {
	var known []string
	for i := len(r.History.Attempts) - 1; i >= 0; i-- {
		a := r.History.Attempts[i]
		if q.Attempt != "" && a.ID != q.Attempt || q.Class != "" && a.Class != q.Class {
			continue
		}
		for c := range a.Cases() {
			if c.ID == q.Case && c.Index >= 0 {
				return r.Dossier(a).Case(c), nil
			}
			known = append(known, c.ID)
		}
	}
	if q.Attempt != "" {
		if _, err := r.Attempt(q.Attempt); err != nil {
			return nil, err
		}
	}
	where := "no attempt has a record"
	switch {
	case q.Attempt != "":
		where = "attempt " + q.Attempt + " has no record"
	case q.Class != "":
		where = "no attempt of class " + q.Class + " has a record"
	}
	if q.Attempt == "" { // it may be an attempt that was meant
		known = append(known, r.History.Addresses(history.Scope{Class: q.Class})...)
	}
	return nil, refusal.Newf(refusal.UnknownName, "%s of case %q", where, q.Case).
		Suggest(q.Case, known, `"tally show ATTEMPT" lists the cases of an attempt, "tally log" the attempts`)
}

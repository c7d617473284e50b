package dossier

import (
	"io"
	"path/filepath"
	"slices"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/bundle/derive"
	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// maxEvidence bounds one piece of evidence.
const maxEvidence = 1 << 30

// Piece returns a piece of evidence if it is what its name says.
func (r *Reading) Piece(d digest.Content) ([]byte, error) { return r.PieceUpTo(d, maxEvidence) }

// PieceUpTo is [Reading.Piece] of at most so many bytes. A longer one is refused.
func (r *Reading) PieceUpTo(d digest.Content, limit int64) ([]byte, error) {
	return r.vault.Get(d, limit)
}

// filesOf reads the index of a record's evidence. The last is remembered: a page of a
// long case asks for it again and again.
func (r *Reading) filesOf(c *history.Case) (*evidence.CaseFiles, error) {
	r.mu.Lock()
	name, last := r.indexOf, r.index
	r.mu.Unlock()
	if last != nil && len(c.Evidence) > 0 && c.Evidence[0] == name {
		return last, nil
	}
	files, err := history.FilesOf(c, r.Piece)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.indexOf, r.index = c.Evidence[0], files
	return files, nil
}

// Content is [Reading.Piece] for who can do without.
func (r *Reading) Content(d digest.Content) ([]byte, bool) {
	data, err := r.Piece(d)
	return data, err == nil
}

// caseList reads the list of cases of a long plan. It was put into a pack
// before anything else, so it is looked for there first: to find a piece
// anywhere, the vault remembers where every piece of every attempt lies.
func (r *Reading) caseList(d digest.Content) ([]byte, error) {
	packs, err := filepath.Glob(filepath.Join(r.vault.PacksDir(), "*.pack"))
	if err != nil {
		return nil, err
	}
	for _, name := range packs {
		var first *store.PieceAt
		err := store.ScanPack(r.fs(), name, func(found digest.Content, at store.PieceAt) error {
			if found == d {
				first = &at
			}
			return io.EOF // the first is enough
		})
		if err != nil && err != io.EOF {
			return nil, err
		}
		if first != nil {
			return store.ReadPiece(r.fs(), d, *first, maxEvidence)
		}
	}
	return r.Piece(d)
}

// CheckEvidence returns nil if the evidence of the case is whole: a complete bundle
// can be made of it. It reads every piece that the record names, and every piece
// that the index of these names. NotFound and DigestMismatch mean that it is not
// whole; any other error is about reading. Several goroutines may ask.
func (c *Case) CheckEvidence() error { return asMissing(c.packable(nil)) }

// Issue returns what is on record of a case as an issue of a repository; nil if its
// evidence says nothing of it. NotFound and DigestMismatch mean that the evidence is
// not whole.
func (d *Dossier) Issue(c *history.Case) (*evidence.RepositoryIssue, error) {
	facts, err := d.r.issueOf(c)
	return facts, asMissing(err)
}

func (r *Reading) issueOf(c *history.Case) (*evidence.RepositoryIssue, error) {
	files, err := history.FilesOf(c, r.Piece)
	if err != nil || files.Issue == nil {
		return nil, err
	}
	data, err := r.Piece(files.Issue.Facts)
	if err != nil {
		return nil, err
	}
	var facts evidence.RepositoryIssue
	if err = canon.UnmarshalCanonical(data, &facts); err == nil {
		err = facts.Validate()
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "what the evidence of case %s says of its repository: %w", c.ID, err)
	}
	// What it says of two tests is of those whose output is kept.
	if facts.Before.Log != files.Issue.Before || facts.After != nil && (files.TestLog == nil || *files.TestLog != facts.After.Log) {
		return nil, refusal.Newf(refusal.DigestMismatch, "case %s: the output of its tests is not that of which its evidence tells", c.ID)
	}
	return &facts, r.whole(facts.Before.Log)
}

// asMissing gives an error about evidence the two names that its readers know.
func asMissing(err error) error {
	// What is not as the record says is as good as missing. A disk that cannot
	// be read is another matter.
	if err != nil && SpeaksOfEvidence(err) && !refusal.Is(err, refusal.DigestMismatch) {
		return refusal.Newf(refusal.NotFound, "%w", err)
	}
	return err
}

// packable is CheckEvidence with its reasons. It tells named, which may be nil, every
// piece that the record and its index name.
func (c *Case) packable(named func(digest.Content)) error {
	r := c.of.r
	files, err := history.FilesOf(c.Case, r.Piece)
	if err != nil {
		return err
	}
	pieces := slices.Concat(c.Evidence, files.All())
	if named != nil {
		for _, d := range pieces {
			named(d)
		}
	}
	// What the bundle is made of is read for it, and once.
	var used []digest.Content
	b, err := bundleOf(c.Case, recordOf(c), files, func(d digest.Content) ([]byte, error) {
		data, err := r.Piece(d)
		if err == nil {
			used = append(used, d)
		}
		return data, err
	})
	if err != nil {
		return err
	}
	for _, d := range pieces[1:] {
		if slices.Contains(used, d) {
			continue
		}
		if err := r.look(d); err != nil {
			return err
		}
	}
	if !b.EvidenceComplete() {
		return refusal.Newf(refusal.NotFound, "no bundle of it is complete: there is neither a test log nor a grading document")
	}
	_, err = b.Pack(bundle.Seals{})
	return err
}

// look reads a piece for nothing but to see that it is whole.
func (r *Reading) look(d digest.Content) error {
	if r.sawWhole(d) {
		return nil
	}
	if err := r.vault.Check(d, maxEvidence); err != nil {
		return err
	}
	r.noteWhole(d)
	return nil
}

func (r *Reading) sawWhole(d digest.Content) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[d]
}

// noteWhole remembers a piece. What many cases share comes again soon; all that
// a long attempt has would take more memory than anything else.
func (r *Reading) noteWhole(d digest.Content) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) >= maxSeen {
		clear(r.seen)
	}
	r.seen[d] = true
}

const maxSeen = 1 << 14

// whole returns nil if a piece of evidence is there, unchanged, and if it is the
// index of a case's evidence, everything that it names.
func (r *Reading) whole(d digest.Content) error {
	if r.sawWhole(d) {
		return nil
	}
	data, err := r.Piece(d)
	if err != nil {
		return err
	}
	var files evidence.CaseFiles
	if canon.UnmarshalCanonical(data, &files) == nil && files.Validate() == nil {
		for _, piece := range files.All() {
			if err := r.look(piece); err != nil {
				return err
			}
		}
	}
	r.noteWhole(d)
	return nil
}

// SpeaksOfEvidence reports whether an error is about what the evidence is, and
// not about whether it could be read.
func SpeaksOfEvidence(err error) bool {
	switch refusal.Of(err).Name {
	case refusal.NotFound, refusal.Malformed, refusal.TooLarge:
		return true
	}
	return refusal.ExitCode(err) == refusal.ExitUnverified
}

func bundleOf(c *history.Case, record *evidence.CaseScored, files *evidence.CaseFiles, read func(digest.Content) ([]byte, error)) (*bundle.Bundle, error) {
	v, err := history.TrajectoryIn(files, read)
	if err != nil {
		return nil, err
	}
	d := derive.Source{Record: record, Files: files, Trajectory: v, Read: read}
	if a := c.Amendment; a != nil {
		d.Amendment = &evidence.ScoreAmended{Entry: c.Index, Score: evidence.Score{Passed: a.Passed, Score: a.Score}, Author: a.Author, Reason: a.Reason}
	}
	if c.Correction != nil {
		d.Corrected = c.Correction.Change() // the reason may tell what a held-out case asks
	}
	return derive.Bundle(d)
}

// recordOf is what the history keeps of a record that passed: all that its
// bundle needs but the receipt.
func recordOf(c *Case) *evidence.CaseScored {
	return &evidence.CaseScored{Attempt: c.of.ID, Class: c.of.Class, CaseID: c.ID, Tags: c.Tags(), Repeat: int(c.Repeat), Execution: int(c.Execution), CaseDigest: c.Digest,
		Outcome: c.Outcome(), Score: &evidence.Score{Passed: c.Outcome() == evidence.Passed, Score: c.Score, FailureModes: c.FailureModes()}, Retries: int(c.Retries),
		JudgedByModel: c.Context.JudgedByModel, EvidenceDigests: append([]digest.Content{}, c.Evidence...)}
}

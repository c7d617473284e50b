package dossier

import (
	"cmp"
	"fmt"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
	"tallystick/internal/run/trajectory"
)

// A Transcript is a trajectory of the evidence, verified against the head that the
// record commits to, of which windows are read.
type Transcript struct {
	*trajectory.Index
	File evidence.TrajectoryFile
	r    *Reading
}

// An OpenTranscript is the trajectory of a case that is not verified yet.
type OpenTranscript struct {
	File  evidence.TrajectoryFile
	Bytes int64
	piece *store.OpenPiece
	c     *Case
}

// OpenTranscript opens the trajectory of a case. That of a held-out case is refused
// unless the caller asked to see it.
func (c *Case) OpenTranscript() (*OpenTranscript, error) {
	if hidden, err := c.IsHidden(); err != nil || hidden {
		return nil, cmp.Or(err, HeldOut(c.ID))
	}
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	piece, err := c.of.r.vault.OpenUnverified(files.Trajectory.Digest)
	if err != nil {
		return nil, err
	}
	return &OpenTranscript{files.Trajectory, piece.Size(), piece, c}, nil
}

// Close closes the file.
func (o *OpenTranscript) Close() error { return o.piece.Close() }

// Verify verifies it line by line, in little memory. It may run beside other work with
// the Reading; [Place.Refused] of its error is for the owner of the Reading.
func (o *OpenTranscript) Verify() (*Transcript, error) {
	x, err := trajectory.IndexOf(o.piece.SectionReader, o.File.Digest, trajectory.HeadIs(o.File.Head))
	if err != nil {
		return nil, fmt.Errorf("case %s (entry %d): %w", o.c.ID, o.c.Index, err)
	}
	return &Transcript{x, o.File, o.c.of.r}, nil
}

// Peek is [trajectory.Peek]: a window that is not verified.
func (o *OpenTranscript) Peek(seq, n int) (*trajectory.Peeked, error) {
	return trajectory.Peek(o.piece.SectionReader, seq, n)
}

// Lines is [trajectory.Index.Lines] of the evidence.
func (t *Transcript) Lines(seq, n int) ([][]byte, error) {
	piece, err := t.r.vault.OpenUnverified(t.File.Digest)
	if err != nil {
		return nil, err
	}
	defer piece.Close()
	return t.Index.Lines(piece, seq, n)
}

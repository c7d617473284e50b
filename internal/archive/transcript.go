package archive

import (
	"cmp"
	"fmt"

	"tallystick/internal/evidence"
	"tallystick/internal/history"
	"tallystick/internal/trajectory"
)

// A Transcript is a trajectory of the evidence, verified against the head that the
// record commits to, of which windows are read.
type Transcript struct {
	*trajectory.Index
	File evidence.TrajectoryFile
	r    *Reading
}

// Transcript verifies the trajectory of a case, line by line, in little memory.
// That of a held-out case is refused unless somebody asked to see it.
func (r *Reading) Transcript(a *history.Attempt, c *history.Case) (*Transcript, error) {
	if held, err := r.HeldOut(a, c); err != nil || held {
		return nil, cmp.Or(err, heldOut(c.ID))
	}
	files, err := history.FilesOf(c, r.Piece)
	if err != nil {
		return nil, err
	}
	piece, err := r.vault.OpenUnverified(files.Trajectory.Digest)
	if err != nil {
		return nil, err
	}
	defer piece.Close()
	x, err := trajectory.IndexOf(piece.SectionReader, files.Trajectory.Digest, trajectory.HeadIs(files.Trajectory.Head))
	if err != nil {
		return nil, r.Refused(fmt.Errorf("case %s (entry %d): %w", c.ID, c.Index, err))
	}
	return &Transcript{x, files.Trajectory, r}, nil
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

// HeldOut reports whether the texts of a case are to be hidden.
func (r *Reading) HeldOut(a *history.Attempt, c *history.Case) (bool, error) {
	w, err := r.withholds(a, c)
	return w != nil, err
}

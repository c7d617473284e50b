package promote

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

const (
	// DefaultWindowDays is how far back evidence counts, unless the registration
	// says otherwise.
	DefaultWindowDays = 30
	// MaxCaseAge is how long ago a curator may last have checked that a case
	// still asks for the right thing.
	MaxCaseAge = 90 * 24 * time.Hour
	// clockTolerance is how far two honest clocks may be apart.
	clockTolerance = 10 * time.Minute
)

// An Input is everything that a recommendation rests on. There is no default
// for any of it but the window.
type Input struct {
	Bench *bench.Verified
	// History was read with the records of the bench's class.
	History *history.History
	// Anchors are the published tree heads that the ledger was verified
	// against.
	Anchors []dossier.CosignedAnchor
	// Outside is who else than the operator's machine has seen the history.
	Outside []evidence.Outside
	// Evidence reads all evidence of an attempt. It is asked for those under review;
	// an error is a disk that cannot be read, and ends the question.
	Evidence func(*history.Attempt) (*dossier.Whole, error)
	Now      time.Time
	// WindowDays is how far back to look; zero means as the registration says,
	// or DefaultWindowDays.
	WindowDays int
}

func (in *Input) check() error {
	switch {
	case in.Bench == nil || in.History == nil:
		return errors.New("recommending a tier: needs a verified bench and a verified history")
	case in.Evidence == nil || in.Now.IsZero():
		return errors.New("recommending a tier: needs the evidence and the time")
	case in.WindowDays < 0:
		return fmt.Errorf("recommending a tier: a window of %d days", in.WindowDays)
	case slices.ContainsFunc(in.History.Attempts, func(a *history.Attempt) bool { return a.Class == in.Bench.Class() && !a.Kept }):
		return errors.New("recommending a tier: the history was read without the records of the class")
	}
	return nil
}

// A clock tells when an entry was written. The ledger's own time is the
// operator's claim; cosignatures bound it.
type clock struct {
	cosigned []dossier.CosignedAnchor // in the order of their sizes
}

func newClock(anchors []dossier.CosignedAnchor) clock {
	var c clock
	for _, a := range anchors {
		if !a.Cosigned.IsZero() {
			c.cosigned = append(c.cosigned, a)
		}
	}
	slices.SortFunc(c.cosigned, func(a, b dossier.CosignedAnchor) int { return int(a.Size - b.Size) })
	return c
}

// span returns the earliest and the latest time that an entry may be of. An
// entry is no younger than the first cosignature over it, so a clock set ahead
// does not make it fresh. If an earlier checkpoint without it was cosigned too,
// it may be as young as that first cosignature, so a clock set back does not
// make it old. Without cosignatures both are what the entry says.
func (c clock) span(index int64, claimed time.Time) (early, late time.Time) {
	next := slices.IndexFunc(c.cosigned, func(a dossier.CosignedAnchor) bool { return a.Size > index })
	switch {
	case next < 0 && len(c.cosigned) == 0:
		return claimed, claimed
	case next < 0:
		// No witness has seen it yet; those before it were seen then.
		last := c.cosigned[len(c.cosigned)-1].Cosigned
		return claimed, latest(claimed, last)
	}
	seen := c.cosigned[next].Cosigned
	early = earliest(claimed, seen)
	if next == 0 {
		return early, early
	}
	return early, seen
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

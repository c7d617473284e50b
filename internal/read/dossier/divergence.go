package dossier

import (
	"fmt"

	"tallystick/internal/read/history"
	"tallystick/internal/read/outline"
	"tallystick/internal/run/trajectory"
)

// A Parting tells of two runs of a case, of records that a comparison pairs, how the
// second differs from the first; "" if it does not.
type Parting = func(first, second *history.Case) (string, error)

// PartingFrom gives what tells where runs of the attempt part from those of an earlier
// one, by their canonical traces, and what the agent did differently, call by call.
func (d *Dossier) PartingFrom(earlier *Dossier) (divergence, moves Parting) {
	as := func(tell func(c, other *Case) (string, error)) Parting {
		return func(first, second *history.Case) (string, error) {
			return d.Case(second).hiding(tell(d.Case(second), earlier.Case(first)))
		}
	}
	return as((*Case).divergence), as((*Case).moves)
}

// PartedFrom tells where a run of the case left an earlier one, call by call or,
// if the calls are the same, by their traces; "" if they are the same.
func (c *Case) PartedFrom(earlier *Case) (string, error) {
	text, err := c.moves(earlier)
	if err == nil && text == "" {
		text, err = c.divergence(earlier)
	}
	return c.hiding(text, err)
}

// hiding hides a text about the case if it is held out.
func (c *Case) hiding(text string, err error) (string, error) {
	if err != nil || text == "" {
		return "", err
	}
	w, err := c.Hider()
	return w.Text(text), err
}

func (c *Case) moves(earlier *Case) (string, error) {
	left, right, err := trajectories(earlier, c)
	if err != nil {
		return "", err
	}
	return outline.Between(left, right).Detail(), nil
}

func (c *Case) divergence(earlier *Case) (string, error) {
	left, right, err := trajectories(earlier, c)
	if err != nil {
		return "", err
	}
	was, err := trajectory.Canonical(left, trajectory.Options{})
	if err != nil {
		return "", err
	}
	is, err := trajectory.Canonical(right, trajectory.Options{})
	if err != nil {
		return "", err
	}
	if d := trajectory.Compare(was, is); d != nil {
		return d.String(), nil
	}
	return "", nil
}

// trajectories are those of two runs, each named where it cannot be read.
func trajectories(a, b *Case) (left, right *trajectory.Verified, err error) {
	if left, err = a.Trajectory(); err != nil {
		return nil, nil, fmt.Errorf("case %s (entry %d): %w", a.ID, a.Index, err)
	}
	if right, err = b.Trajectory(); err != nil {
		return nil, nil, fmt.Errorf("case %s (entry %d): %w", b.ID, b.Index, err)
	}
	return left, right, nil
}

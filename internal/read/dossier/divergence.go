package dossier

import (
	"fmt"

	"tallystick/internal/read/history"
	"tallystick/internal/read/outline"
	"tallystick/internal/run/trajectory"
)

// Divergence finds where two runs of a case part, by their canonical traces; ""
// if they do not.
func (r *Reading) Divergence(a, b *history.Case) (string, error) {
	return r.hiddenAs(b, func() (string, error) { return r.divergence(a, b) })
}

// Moves tells what the agent did differently in two runs of a case, call by call, and
// how its prompts differ; "" if it did the same.
func (r *Reading) Moves(a, b *history.Case) (string, error) {
	return r.hiddenAs(b, func() (string, error) { return r.moves(a, b) })
}

// PartedFrom tells where a run of the case left an earlier one, call by call or,
// if the calls are the same, by their traces; "" if they are the same.
func (c *Case) PartedFrom(earlier *history.Case) (string, error) {
	text, err := c.of.r.moves(earlier, c.Case)
	if err == nil && text == "" {
		text, err = c.of.r.divergence(earlier, c.Case)
	}
	if err != nil || text == "" {
		return "", err
	}
	w, err := c.Hider()
	return w.Text(text), err
}

// hiddenAs hides a text about a case if the case is held out.
func (r *Reading) hiddenAs(about *history.Case, tell func() (string, error)) (string, error) {
	text, err := tell()
	if err != nil || text == "" {
		return text, err
	}
	c, err := r.caseOf(about)
	if err != nil {
		return "", err
	}
	w, err := c.Hider()
	return w.Text(text), err
}

func (r *Reading) moves(a, b *history.Case) (string, error) {
	left, err := r.trajectoryOf(a)
	if err != nil {
		return "", err
	}
	right, err := r.trajectoryOf(b)
	if err != nil {
		return "", err
	}
	return outline.Between(left, right).Detail(), nil
}

func (r *Reading) divergence(a, b *history.Case) (string, error) {
	left, err := r.trace(a)
	if err != nil {
		return "", err
	}
	right, err := r.trace(b)
	if err != nil {
		return "", err
	}
	if d := trajectory.Compare(left, right); d != nil {
		return d.String(), nil
	}
	return "", nil
}

func (r *Reading) trajectoryOf(c *history.Case) (*trajectory.Verified, error) {
	v, err := history.TrajectoryOf(c, r.Piece)
	if err != nil {
		return nil, fmt.Errorf("case %s (entry %d): %w", c.ID, c.Index, err)
	}
	return v, nil
}

func (r *Reading) trace(c *history.Case) (*trajectory.Trace, error) {
	v, err := r.trajectoryOf(c)
	if err != nil {
		return nil, err
	}
	return trajectory.Canonical(v, trajectory.Options{})
}

package history

import (
	"fmt"
	"slices"
	"time"

	"tallystick/internal/agreement"
	"tallystick/internal/evidence"
)

// A Calibration is a judge.calibrated entry.
type Calibration struct {
	Index int64
	Time  evidence.Time
	evidence.JudgeCalibrated
}

// Agreement is the table of a calibration: a row for what people said, a column
// for what the judge said. It is an error if a cell is of no category.
func (c *Calibration) Agreement() (*agreement.Table, error) {
	t, err := agreement.NewTable(c.Categories, nil)
	if err != nil {
		return nil, err
	}
	for _, cell := range c.Cells {
		i, j := slices.Index(c.Categories, cell.People), slices.Index(c.Categories, cell.Judge)
		if i < 0 || j < 0 {
			return nil, fmt.Errorf("entry %d: a cell is of %q and %q, expected two of %q", c.Index, cell.People, cell.Judge, c.Categories)
		}
		t.Counts[i][j] += cell.N
		t.N += cell.N
	}
	return t, nil
}

// Text tells in a few words what came of it.
func (c *Calibration) Text() string {
	t, err := c.Agreement()
	if err != nil {
		return err.Error()
	}
	kappa := "kappa is not defined: all labels are the same"
	if k, ok := t.Kappa(agreement.Unweighted); ok {
		kappa = fmt.Sprintf("kappa %.2f [%.2f, %.2f]", k.Value, k.Low, k.High)
	}
	source := "people's signed reviews"
	if c.Source == evidence.FromFile {
		source = "labels of a file that nobody signed"
	}
	return fmt.Sprintf("calibrated on %d labels on %s, agreement %.2f, %s, %s", t.N, c.Time.Go().UTC().Format(time.DateOnly), t.Rate(), kappa, source)
}

// A JudgeStanding says whether the judge of an attempt was compared with people.
type JudgeStanding struct {
	State JudgeState   `json:"state"`
	Last  *Calibration `json:"-"` // the one that counts, or the newest of another judge
}

// A JudgeState is one of three.
type JudgeState string

// The states.
const (
	Calibrated   JudgeState = "calibrated"
	Stale        JudgeState = "stale" // what was calibrated had other settings or templates
	Uncalibrated JudgeState = "not_calibrated"
)

// Judge says how the judge of the attempt stands; nil if no model judges its cases,
// or if it was registered by a program that did not know of calibrations.
func (a *Attempt) Judge() *JudgeStanding { return a.calibration }

// calibrationOf finds the newest calibration of exactly this judge, or else the
// newest of the class.
func (h *History) calibrationOf(a *Attempt) *JudgeStanding {
	if !a.saysCalibration {
		return nil
	}
	s := &JudgeStanding{State: Uncalibrated}
	for i := range h.Calibrations {
		c := &h.Calibrations[i]
		_, err := c.Agreement()
		switch {
		case c.Class != a.Class, err != nil: // what does not follow from itself calibrates nothing
		case c.isOf(&a.Plan):
			s.State, s.Last = Calibrated, c
		case s.State != Calibrated:
			s.State, s.Last = Stale, c
		}
	}
	return s
}

// isOf reports whether what was calibrated is the judge of a plan.
func (c *Calibration) isOf(p *evidence.Plan) bool {
	return p.JudgeDigest != nil && *p.JudgeDigest == c.Judge && (p.JudgesDigest == nil) == (c.Judges == nil) && (c.Judges == nil || *p.JudgesDigest == *c.Judges)
}

// Text says it beside a number.
func (s *JudgeStanding) Text() string {
	switch s.State {
	case Calibrated:
		return "the judge is " + s.Last.Text()
	case Stale:
		return fmt.Sprintf("the judge's calibration is stale: its settings or templates changed since entry %d, when it was %s", s.Last.Index, s.Last.Text())
	}
	return "the judge is not calibrated: nobody compared its verdicts with people's labels"
}

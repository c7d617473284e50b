package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/read/agreement"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
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
	when := fmt.Sprintf("%s (entry %d)", c.Time.Go().UTC().Format(time.DateOnly), c.Index)
	if c.Check != "" {
		when += " in the check " + c.Check
	}
	return fmt.Sprintf("calibrated on %d labels on %s, agreement %.2f, %s, %s", t.N, when, t.Rate(), kappa, source)
}

// A JudgeStanding says whether the judge of an attempt was compared with people.
type JudgeStanding struct {
	State JudgeState   `json:"state"`
	Last  *Calibration `json:"-"` // the one that counts, or the newest of another judge
	// Changed says what is another than when the judge was calibrated.
	Changed []string `json:"changed,omitempty"`
}

// A JudgeState is one of three.
type JudgeState string

// The states.
const (
	Calibrated   JudgeState = "calibrated"
	Stale        JudgeState = "stale" // what was calibrated had other settings or templates
	Uncalibrated JudgeState = "not_calibrated"
)

// Judge says how the judge of the attempt stands; nil if no model judges its cases.
func (a *Attempt) Judge() *JudgeStanding { return a.calibration }

// calibrationOf finds the newest calibration of exactly this judge, or else the
// newest of the class.
func (h *History) calibrationOf(a *Attempt) *JudgeStanding {
	if !a.judged {
		return nil
	}
	s := &JudgeStanding{State: Uncalibrated}
	for i := range h.Calibrations {
		c := &h.Calibrations[i]
		_, err := c.Agreement()
		switch {
		case c.Class != a.Class, err != nil: // what does not follow from itself calibrates nothing
		case len(c.changedSince(&a.Plan)) == 0:
			s.State, s.Last = Calibrated, c
		case s.State != Calibrated:
			s.State, s.Last = Stale, c
		}
	}
	if s.Last != nil {
		s.Changed = s.Last.changedSince(&a.Plan)
	}
	return s
}

// The parts of a judge that a calibration is of.
const (
	judgeSettings  = "judge.yaml"
	judgeTemplates = "the class's templates"
	judgeQuestion  = "criteria, scale, votes, panel or what the judge is shown"
)

// changedSince says what of the judge of a plan is another than what was calibrated.
// The question is over everything that matters, so it decides, and the other two
// digests only tell what it was. A template that no case uses does not matter.
func (c *Calibration) changedSince(p *evidence.Plan) []string {
	if c.Question != nil && sameDigest(c.Question, p.JudgeQuestion) {
		return nil
	}
	var changed []string
	if p.JudgeDigest == nil || *p.JudgeDigest != c.Judge {
		changed = append(changed, judgeSettings)
	}
	if !sameDigest(p.JudgesDigest, c.Judges) {
		changed = append(changed, judgeTemplates)
	}
	if len(changed) == 0 {
		changed = append(changed, judgeQuestion)
	}
	return changed
}

func sameDigest(a, b *digest.Content) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// Text says it beside a number.
func (s *JudgeStanding) Text() string {
	switch s.State {
	case Calibrated:
		return "the judge is " + s.Last.Text()
	case Stale:
		return fmt.Sprintf("the judge's calibration is stale: changed since entry %d: %s; then it was %s", s.Last.Index, strings.Join(s.Changed, ", "), s.Last.Text())
	}
	return "the judge is not calibrated: nobody compared its verdicts with people's labels"
}

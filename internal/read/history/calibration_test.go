package history

import (
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// TestAnAttemptSaysHowItsJudgeStands: the newest calibration of exactly its judge
// counts, one of another judge is stale, and one that does not follow from itself
// calibrates nothing.
func TestAnAttemptSaysHowItsJudgeStands(t *testing.T) {
	one, two, templates := digest.ContentOf([]byte("1")), digest.ContentOf([]byte("2")), digest.ContentOf([]byte("t"))
	of := func(index int64, judge digest.Content, judges *digest.Content, cell evidence.CalibrationCell) Calibration {
		return Calibration{Index: index, JudgeCalibrated: evidence.JudgeCalibrated{Class: "c", Judge: judge, Judges: judges, Source: evidence.FromFile,
			Categories: []string{"failed", "passed"}, Cells: []evidence.CalibrationCell{cell}}}
	}
	asked, other := digest.ContentOf([]byte("kind?")), digest.ContentOf([]byte("polite?"))
	asking := func(c Calibration, question *digest.Content) Calibration { c.Question = question; return c }
	good := evidence.CalibrationCell{Judge: "passed", People: "failed", N: 3}
	strange := evidence.CalibrationCell{Judge: "perfect", People: "perfect", N: 900}
	for name, tt := range map[string]struct {
		list  []Calibration
		state JudgeState
		entry int64
		says  string // besides
	}{
		"nothing":                       {nil, Uncalibrated, -1, ""},
		"this judge":                    {[]Calibration{asking(of(4, one, nil, good), &asked)}, Calibrated, 4, "(entry 4)"},
		"asked something else":          {[]Calibration{asking(of(4, one, nil, good), &other)}, Stale, 4, "changed since entry 4: criteria, scale"},
		"another judge since":           {[]Calibration{asking(of(4, one, nil, good), &asked), asking(of(5, two, nil, good), &other)}, Calibrated, 4, ""},
		"another judge and question":    {[]Calibration{asking(of(5, two, nil, good), &other)}, Stale, 5, "changed since entry 5: judge.yaml;"},
		"other templates, and question": {[]Calibration{asking(of(5, one, &templates, good), &other)}, Stale, 5, "changed since entry 5: the class's templates;"},
		"a template that is not used":   {[]Calibration{asking(of(5, one, &templates, good), &asked)}, Calibrated, 5, ""},
		"the newest of this judge":      {[]Calibration{asking(of(4, one, nil, good), &asked), asking(of(9, one, nil, good), &asked)}, Calibrated, 9, ""},
		"a table of no such category":   {[]Calibration{asking(of(4, one, nil, strange), &asked)}, Uncalibrated, -1, ""},
	} {
		h := &History{Calibrations: tt.list}
		a := &Attempt{Class: "c", judged: true, Plan: evidence.Plan{JudgeDigest: &one, JudgeQuestion: &asked}}
		s := h.calibrationOf(a)
		if s.State != tt.state || (s.Last == nil) != (tt.entry < 0) || s.Last != nil && s.Last.Index != tt.entry {
			t.Errorf("%s: %+v, expected %s by entry %d", name, s, tt.state, tt.entry)
		}
		if !strings.Contains(s.Text(), "calibrat") || !strings.Contains(s.Text(), tt.says) {
			t.Errorf("%s: says %q", name, s.Text())
		}
		a.judged = false
		if h.calibrationOf(a) != nil {
			t.Errorf("%s: an attempt that no model judges speaks of a calibration", name)
		}
	}
}

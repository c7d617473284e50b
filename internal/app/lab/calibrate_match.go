package lab

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/agreement"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/question"
)

// A matcher finds what the judge said of a labelled case.
type matcher struct {
	r        *dossier.Reading
	o        CalibrateOptions
	attempts []*history.Attempt
	// skipUnjudged passes over labels of cases that no model judged: people review
	// all cases of a class.
	skipUnjudged bool
	notJudged    int

	categories []string
	ordered    bool
}

func (m *matcher) pairs(labels []label) ([]pair, error) {
	var pairs []pair
	for _, l := range labels {
		c, err := m.find(l)
		if err != nil {
			return nil, err
		}
		said, err := m.verdict(c)
		if m.skipUnjudged && refusal.Is(err, refusal.NotFound) {
			m.notJudged++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("case %s of %s: %w", l.Case, l.Attempt, err)
		}
		if said.category == "" { // whatever people say, there is nothing to compare it with
			pairs = append(pairs, pair{Attempt: l.Attempt, CaseID: c.ID, Repeat: int(c.Repeat), Entry: c.Index, Label: l.entry, People: l.Label, Reviewer: l.Reviewer})
			continue
		}
		if m.categories == nil {
			m.categories, m.ordered = said.categories, said.ordered
		}
		if !slices.Equal(m.categories, said.categories) {
			return nil, refusal.Newf(refusal.Usage, "case %s of %s is judged by other words (%s) than the cases before it (%s)", l.Case, l.Attempt,
				strings.Join(said.categories, ", "), strings.Join(m.categories, ", ")).WithHint("calibrate one check at a time, with --check, and one scale at a time")
		}
		people, err := said.people(&l)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair{Attempt: l.Attempt, CaseID: c.ID, Repeat: int(c.Repeat), Entry: c.Index, Judge: said.category, Label: l.entry, People: people, Reviewer: l.Reviewer})
	}
	return pairs, nil
}

// fill puts what pairs come to into the entry.
func (m *matcher) fill(body *evidence.JudgeCalibrated, pairs []pair) (*agreement.Table, error) {
	body.Categories, body.Ordered = m.categories, m.ordered
	var compared []agreement.Pair
	for _, p := range pairs {
		if p.Judge == "" {
			body.Unscored++
			continue
		}
		compared = append(compared, agreement.Pair{First: p.People, Second: p.Judge})
	}
	if len(compared) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "the judge gave no verdict on any of the %d labelled cases", len(pairs)+m.notJudged)
	}
	table, err := agreement.NewTable(m.categories, compared)
	if err != nil {
		return nil, err
	}
	body.Cells = cellsOf(table)
	return table, nil
}

func cellsOf(t *agreement.Table) []evidence.CalibrationCell {
	var cells []evidence.CalibrationCell
	for i, row := range t.Counts {
		for j, n := range row {
			if n > 0 {
				cells = append(cells, evidence.CalibrationCell{People: t.Labels[i], Judge: t.Labels[j], N: n})
			}
		}
	}
	return cells
}

// find is the record that a label is of.
func (m *matcher) find(l label) (*dossier.Case, error) {
	var known []string
	for _, a := range m.attempts {
		known = append(known, a.ID)
		if a.ID != l.Attempt {
			continue
		}
		for c := range a.Cases() {
			if c.ID == l.Case && int(c.Repeat) == l.Repetition && c.Index >= 0 {
				return m.r.Dossier(a).Case(c), nil
			}
		}
		return nil, refusal.Newf(refusal.UnknownName, "%s: attempt %s has no record of case %s, repetition %d", l.place, l.Attempt, l.Case, l.Repetition)
	}
	return nil, refusal.Newf(refusal.UnknownName, "%s: attempt %q is not one of class %s with this judge; those are %s", l.place, l.Attempt, m.o.Class, strings.Join(known, ", ")).
		WithHint("calibrate each judge with labels of its own attempts; --attempt chooses another judge")
}

// A said is what the judge of a case said, and among what.
type said struct {
	category   string // "" if there is no verdict
	categories []string
	ordered    bool
}

// verdict reads what the judge said from the evidence.
func (m *matcher) verdict(c *dossier.Case) (said, error) {
	checks, err := c.Checks()
	if err != nil {
		return said{}, err
	}
	var of *grade.Detail
	for i := range checks {
		d := &checks[i]
		if !grade.IsJudged(d.Grader) || m.o.Check != "" && d.Check != m.o.Check {
			continue
		}
		if of != nil {
			return said{}, refusal.Newf(refusal.Usage, "it has several judges, %s and %s", of.Check, d.Check).WithHint("say which one with --check NAME")
		}
		of = d
	}
	if of == nil {
		return said{}, refusal.Newf(refusal.NotFound, "no model judged it%s", map[bool]string{true: " in the check " + m.o.Check}[m.o.Check != ""])
	}
	return m.saidIn(c, of)
}

// saidIn is the category of a check: its choice, or won, tied and lost, or passed
// and failed. A panel says what one of its judges said where that is how its opinions
// are combined; a share or a mean is not a choice of a scale, so that is passed or failed.
func (m *matcher) saidIn(c *dossier.Case, d *grade.Detail) (said, error) {
	choice := d.Choice
	ofOne := d.Panel == nil || d.Panel.Combine == question.Median || d.Panel.Combine == question.Unanimous
	if d.Panel != nil && ofOne && d.Score != nil {
		choice = choiceOfPanel(d.Panel, *d.Score)
	}
	var scale question.Scale
	if choice != "" {
		var err error
		if scale, err = m.scaleOf(c, choice); err != nil {
			return said{}, err
		}
	}
	s := said{categories: []string{"failed", "passed"}, ordered: true}
	switch {
	case d.Grader == grade.Prefer && ofOne:
		s.categories = []string{"loss", "tie", "win"}
		if d.Score != nil {
			s.category = s.categories[int(*d.Score*2)]
		}
	case len(scale) > 0:
		s.categories, s.category = scale.Names(), choice
	case d.Outcome == grade.Passed:
		s.category = "passed"
	case d.Outcome == grade.Mismatch:
		s.category = "failed"
	}
	return s, nil
}

// choiceOfPanel is the choice of a judge of the panel whose score is that of the panel;
// "" if its judges have no scale.
func choiceOfPanel(p *grade.PanelDetail, score float64) string {
	for _, m := range p.Members {
		if m.Score != nil && *m.Score == score {
			return m.Choice
		}
	}
	return ""
}

// scaleOf is the scale that the judge of a case chose from.
func (m *matcher) scaleOf(c *dossier.Case, choice string) (question.Scale, error) {
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	for _, v := range files.Verdicts {
		data, err := m.r.Piece(v.Document)
		if err != nil {
			return nil, err
		}
		d, err := judge.ParseDocument(data)
		if err != nil {
			return nil, refusal.Newf(refusal.Malformed, "the verdict %s: %w", v.Document, err)
		}
		if _, ok := d.Asked.Scale.Of(choice); ok {
			return d.Asked.Scale, nil
		}
	}
	return nil, refusal.Newf(refusal.NotFound, "the judge chose %q, and the evidence has no verdict with such a scale", choice)
}

// people is the category that a person's label stands for.
func (s *said) people(l *label) (string, error) {
	binary := slices.Equal(s.categories, []string{"failed", "passed"})
	word := l.Label
	switch {
	case binary && l.Label == "pass":
		word = "passed"
	case binary && l.Label == "fail":
		word = "failed"
	}
	if slices.Contains(s.categories, word) {
		return word, nil
	}
	if binary && l.Score != nil {
		return s.categories[map[bool]int{true: 1}[*l.Score >= 0.5]], nil
	}
	return "", refusal.Newf(refusal.Usage, "%s: the label of case %s is %q, the judge chose from %s", l.place, l.Case, l.Label, strings.Join(s.categories, ", ")).
		WithHint("label in the judge's own words; a score stands for passed (0.5 and more) or failed only where the judge has no scale")
}

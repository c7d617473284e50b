package viewer

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/browser"
)

// A brief is what a row of the list tells of a case besides its numbers: what it was
// asked, what it answered, what was expected and what was wrong. Each is a line or two.
// Of a held-out case there is none.
type brief struct {
	Input                   string // of the transcript
	Answer, Expected, Wrong template.HTML
	GradingURL              string // where the document is that these are of; "" if there is none
	IndexURL                string // where the evidence is that names it
}

// maxBriefTrajectory bounds the trajectory of which a row shows the input.
const maxBriefTrajectory = 4 << 20

// maxBriefAnswer bounds the answer of which a row shows the beginning.
const maxBriefAnswer = 1 << 20

// briefOf makes the brief of a case. It is a help to people: what cannot be read is left
// out, and the page of the case says why.
func (v *Viewer) briefOf(c *dossier.Case) (b brief, err error) {
	hidden, err := c.IsHidden()
	if err != nil || hidden || c.Index < 0 {
		return b, err
	}
	files, err := c.Files()
	if err != nil {
		return b, unlessRead(err)
	}
	if b.Input, err = v.inputOf(files); err != nil {
		return b, err
	}
	if err := v.checkedOf(c, files, &b); err != nil {
		return b, unlessRead(err)
	}
	if b.Answer == "" && files.Answer != nil { // of no check: then it names nothing
		answer, err := v.r.PieceUpTo(*files.Answer, maxBriefAnswer)
		if err != nil {
			return b, unlessRead(err)
		}
		b.Answer = template.HTML(template.HTMLEscapeString(beginning(string(answer))))
	}
	return b, nil
}

// checkedOf adds what the check compared that decided, or of a case that passed the first
// that looked at something.
func (v *Viewer) checkedOf(c *dossier.Case, files *evidence.CaseFiles, b *brief) error {
	if files.Grading == nil {
		return nil
	}
	data, err := v.r.Piece(*files.Grading)
	if err != nil {
		return err
	}
	checks, err := c.Checks()
	if err != nil || len(checks) == 0 {
		return err
	}
	doc, err := decode(data)
	if err != nil {
		return nil // the page of the case says so
	}
	k := slices.IndexFunc(checks, func(x grade.Detail) bool { return x.Extracted != nil })
	if d := grade.Decisive(checks); d != nil {
		k = slices.IndexFunc(checks, func(x grade.Detail) bool { return x.Check == d.Check && x.Why == d.Why })
	}
	cell := func(member string) template.HTML {
		return briefValue(doc, fmt.Sprintf("/checks/%d/%s", max(k, 0), member))
	}
	if b.Answer = cell("extracted/head"); b.Answer == "" {
		b.Answer = cell("missing")
	}
	b.Expected = cell("expected/head")
	if c.Outcome() != evidence.Passed {
		b.Wrong = cell("why")
	}
	links := &caseData{Case: c}
	b.GradingURL, b.IndexURL = links.PieceURL(files.Grading.String()), links.IndexURL()
	return nil
}

// unlessRead is the error if it is not about what the evidence is: a page says nothing of
// a piece that is missing, and does not hide a disk that cannot be read.
func unlessRead(err error) error {
	if err == nil || dossier.SpeaksOfEvidence(err) || refusal.Is(err, refusal.NotFound) {
		return nil
	}
	return err
}

// inputOf is the beginning of what a case was asked first.
func (v *Viewer) inputOf(files *evidence.CaseFiles) (string, error) {
	data, err := v.r.PieceUpTo(files.Trajectory.Digest, maxBriefTrajectory)
	if err != nil {
		return "", unlessRead(err)
	}
	return beginning(trajectory.FirstInput(data)), nil
}

const (
	// maxNamed bounds a text of a row that names where it stands; the stylesheet shows two
	// lines of it. Of a longer one the row has the beginning, which names nothing.
	maxNamed = 600
	// maxBeginning bounds that.
	maxBeginning = 160
)

// briefValue shows a text of the document of the checks; "" if it has none.
func briefValue(doc any, pointer string) template.HTML {
	text, ok := shown(doc, pointer, AsText)
	switch {
	case !ok:
		return ""
	case utf8.RuneCountInString(text) <= maxNamed:
		return eventValue(doc, pointer, AsText)
	}
	return template.HTML(template.HTMLEscapeString(beginning(text)))
}

// beginning is the beginning of a text on one line.
func beginning(s string) string {
	return browser.TextUpTo(strings.Join(strings.Fields(s[:min(len(s), 8*maxBeginning)]), " "), maxBeginning)
}

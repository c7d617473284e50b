package lab

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/agreement"
	"tallystick/internal/archive"
	"tallystick/internal/canon"
	"tallystick/internal/evidence"
	"tallystick/internal/grade"
	"tallystick/internal/history"
	"tallystick/internal/judge"
	"tallystick/internal/question"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
	"tallystick/internal/store"
)

// CalibrateOptions say which judge is compared with which labels.
type CalibrateOptions struct {
	Class   string
	Attempt string // "" for every attempt of the class with the newest judge
	Labels  string // a JSONL file; "" for people's reviews in the ledger
	Check   string // the check whose judge is meant, where cases have several
	DryRun  bool   // record nothing
}

// A Calibration is how far a judge and people agree.
type Calibration struct {
	Class    string `json:"class"`
	Check    string `json:"check,omitempty"`
	Judge    string `json:"judge_digest"`
	Judges   string `json:"judges_digest,omitempty"`
	Source   string `json:"source"`
	N        int    `json:"n"`
	Unscored int    `json:"unscored"`
	Agreed   int    `json:"agreed"`
	// Agreement is the share of labels that the judge agrees with, in the 95 %
	// interval of Wilson.
	Agreement     float64 `json:"agreement"`
	AgreementLow  float64 `json:"agreement_low"`
	AgreementHigh float64 `json:"agreement_high"`

	Ordered    bool             `json:"ordered"`
	Categories []string         `json:"categories"`
	Table      [][]int          `json:"table"` // rows: people, columns: the judge
	Kappa      *agreement.Kappa `json:"kappa,omitempty"`
	Linear     *agreement.Kappa `json:"kappa_linear,omitempty"`
	Quadratic  *agreement.Kappa `json:"kappa_quadratic,omitempty"`

	LeftOut []string `json:"left_out,omitempty"` // attempts with another judge
	Pairs   string   `json:"pairs"`              // digest of what was compared
	Entry   int64    `json:"entry"`              // -1 if nothing was recorded
}

// A label is what a person said about a case.
type label struct {
	Attempt    string   `json:"attempt"`
	Case       string   `json:"case"`
	Repetition int      `json:"repetition,omitempty"`
	Label      string   `json:"label,omitempty"`
	Score      *float64 `json:"score,omitempty"`
	Reviewer   string   `json:"reviewer,omitempty"`
	place      string   // in the file or the ledger, for a person
}

// A pair is a label and what the judge said of the same.
type pair struct {
	Attempt  string `json:"attempt"`
	CaseID   string `json:"case_id"`
	Entry    int64  `json:"entry"` // of the record
	Judge    string `json:"judge"` // its category; "" if it gave no verdict
	People   string `json:"people"`
	Repeat   int    `json:"repeat"`
	Reviewer string `json:"reviewer,omitempty"`
}

// Calibrate compares the verdicts of a class's judge with people's labels, and
// records what came of it. The corpus was read with the records of every attempt.
func Calibrate(ctx context.Context, c *archive.Corpus, o CalibrateOptions) (*Calibration, error) {
	r := c.Reading
	attempts, leftOut, err := judgedAttempts(r.History, o)
	if err != nil {
		return nil, err
	}
	plan := &attempts[0].Plan
	body := &evidence.JudgeCalibrated{Class: o.Class, Check: o.Check, Judge: *plan.JudgeDigest, Judges: plan.JudgesDigest, Source: evidence.FromReviews}
	labels := reviewsOf(r.History, attempts)
	if o.Labels != "" {
		body.Source = evidence.FromFile
		if labels, err = readLabels(o.Labels); err != nil {
			return nil, err
		}
	}
	if len(labels) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "nobody labelled a case of class %s that this judge judged", o.Class).
			WithHint(`label cases with "tally review", or give --labels FILE.jsonl; docs/judges.md has the format`)
	}
	m := &matcher{r: r, o: o, attempts: attempts}
	pairs, err := m.pairs(labels)
	if err != nil {
		return nil, err
	}
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
		return nil, refusal.Newf(refusal.NotFound, "the judge gave no verdict on any of the %d labelled cases", len(pairs))
	}
	table, err := agreement.NewTable(m.categories, compared)
	if err != nil {
		return nil, err
	}
	for i, row := range table.Counts {
		for j, n := range row {
			if n > 0 {
				body.Cells = append(body.Cells, evidence.CalibrationCell{People: table.Labels[i], Judge: table.Labels[j], N: n})
			}
		}
	}
	list, err := canon.Marshal(struct {
		Pairs   []pair `json:"pairs"`
		Version int    `json:"v"`
	}{pairs, 1})
	if err != nil {
		return nil, err
	}
	out := calibrationOf(body, table, leftOut)
	if o.DryRun {
		return out, nil
	}
	// The evidence first: an entry must not name what is not there.
	if body.Pairs, err = store.OpenVault(store.OS{}, r.EvidenceDir()).Put(list); err != nil {
		return nil, err
	}
	out.Pairs = body.Pairs.String()
	pos, err := c.Append(ctx, evidence.JudgeCalibratedKind, body)
	out.Entry = pos.Index
	return out, err
}

// calibrationOf tells what a table comes to.
func calibrationOf(b *evidence.JudgeCalibrated, t *agreement.Table, leftOut []string) *Calibration {
	out := &Calibration{Class: b.Class, Check: b.Check, Judge: b.Judge.String(), Source: b.Source, N: t.N, Unscored: b.Unscored, Agreed: t.Agreed(), Agreement: t.Rate(),
		Ordered: b.Ordered, Categories: b.Categories, Table: t.Counts, LeftOut: leftOut, Entry: -1}
	if b.Judges != nil {
		out.Judges = b.Judges.String()
	}
	out.AgreementLow, out.AgreementHigh = scorecard.WilsonRate(t.Rate(), t.N, 1.959963984540054)
	kappa := func(w agreement.Weights) *agreement.Kappa {
		if k, ok := t.Kappa(w); ok {
			return &k
		}
		return nil
	}
	out.Kappa = kappa(agreement.Unweighted)
	if b.Ordered && len(b.Categories) > 2 {
		out.Linear, out.Quadratic = kappa(agreement.Linear), kappa(agreement.Quadratic)
	}
	return out
}

// judgedAttempts are those of the class with the judge of the newest one, or of
// the one that was asked for.
func judgedAttempts(h *history.History, o CalibrateOptions) (same []*history.Attempt, others []string, err error) {
	var newest *history.Attempt
	for _, a := range slices.Backward(h.Attempts) {
		if a.Class == o.Class && a.Plan.JudgeDigest != nil && a.Kept && (o.Attempt == "" || a.ID == o.Attempt) {
			newest = a
			break
		}
	}
	if newest == nil {
		return nil, nil, refusal.Newf(refusal.NotFound, "no attempt %sof class %s was judged by a model", withBlank(o.Attempt), o.Class).
			WithHint(`"tally log" lists the attempts`)
	}
	same = []*history.Attempt{newest}
	for _, a := range h.Attempts {
		if a == newest || a.Class != o.Class || a.Plan.JudgeDigest == nil || !a.Kept || o.Attempt != "" {
			continue
		}
		if *a.Plan.JudgeDigest == *newest.Plan.JudgeDigest && samePointer(a.Plan.JudgesDigest, newest.Plan.JudgesDigest) {
			same = append(same, a)
		} else {
			others = append(others, a.ID)
		}
	}
	return same, others, nil
}

func withBlank(s string) string {
	if s == "" {
		return ""
	}
	return s + " "
}

func samePointer[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// reviewsOf are the labels that people signed.
func reviewsOf(h *history.History, attempts []*history.Attempt) []label {
	var labels []label
	for _, a := range attempts {
		for _, v := range h.Reviews(a) {
			if v.Counts() {
				labels = append(labels, label{Attempt: v.Attempt, Case: v.CaseID, Repetition: v.Repeat, Label: v.Label, Score: v.Score, Reviewer: v.By, place: fmt.Sprintf("entry %d", v.Index)})
			}
		}
	}
	return labels
}

// Bounds of a file of labels.
const (
	maxLabelsBytes = 16 << 20
	maxLabels      = 100_000
)

// readLabels reads a file with a label a line.
func readLabels(name string) ([]label, error) {
	data, err := store.ReadFile(store.OS{}, name, maxLabelsBytes)
	if err != nil {
		return nil, err
	}
	var labels []label
	type who struct {
		attempt, caseID, reviewer string
		repeat                    int
	}
	seen := map[who]string{}
	for i, line := range bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n")) {
		l := label{place: fmt.Sprintf("%s:%d", name, i+1)}
		bad := func(format string, args ...any) error {
			return refusal.Newf(refusal.Malformed, "%s: %s", l.place, fmt.Sprintf(format, args...)).
				WithHint(`expected {"attempt": A, "case": C, "label": L or "score": S}, and repetition and reviewer if they are needed`)
		}
		if err := canon.Unmarshal(line, &l); err != nil {
			return nil, bad("%v", err)
		}
		if l.Repetition == 0 {
			l.Repetition = 1
		}
		me := who{l.Attempt, l.Case, l.Reviewer, l.Repetition}
		switch {
		case l.Attempt == "" || l.Case == "" || l.Repetition < 1:
			return nil, bad("attempt or case is missing, or repetition is below 1")
		case (l.Label == "") == (l.Score == nil):
			return nil, bad("expected a label or a score, and not both")
		case l.Score != nil && !(*l.Score >= 0 && *l.Score <= 1):
			return nil, bad("score is %v, expected 0 to 1", *l.Score)
		case seen[me] != "":
			return nil, bad("the same case was labelled by the same reviewer in %s", seen[me])
		case len(labels) == maxLabels:
			return nil, bad("there are more than %d labels", maxLabels)
		}
		seen[me] = l.place
		labels = append(labels, l)
	}
	return labels, nil
}

// A matcher finds what the judge said of a labelled case.
type matcher struct {
	r        *archive.Reading
	o        CalibrateOptions
	attempts []*history.Attempt

	categories []string
	ordered    bool
}

func (m *matcher) pairs(labels []label) ([]pair, error) {
	var pairs []pair
	for _, l := range labels {
		a, c, err := m.find(l)
		if err != nil {
			return nil, err
		}
		said, err := m.verdict(c)
		if err != nil {
			return nil, fmt.Errorf("case %s of %s: %w", l.Case, l.Attempt, err)
		}
		if said.category == "" { // whatever people say, there is nothing to compare it with
			pairs = append(pairs, pair{Attempt: a.ID, CaseID: c.ID, Repeat: int(c.Repeat), Entry: c.Index, People: l.Label, Reviewer: l.Reviewer})
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
		pairs = append(pairs, pair{Attempt: a.ID, CaseID: c.ID, Repeat: int(c.Repeat), Entry: c.Index, Judge: said.category, People: people, Reviewer: l.Reviewer})
	}
	return pairs, nil
}

// find is the record that a label is of.
func (m *matcher) find(l label) (*history.Attempt, *history.Case, error) {
	var known []string
	for _, a := range m.attempts {
		known = append(known, a.ID)
		if a.ID != l.Attempt {
			continue
		}
		for c := range a.Cases() {
			if c.ID == l.Case && int(c.Repeat) == l.Repetition && c.Index >= 0 {
				return a, c, nil
			}
		}
		return nil, nil, refusal.Newf(refusal.UnknownName, "%s: attempt %s has no record of case %s, repetition %d", l.place, l.Attempt, l.Case, l.Repetition)
	}
	return nil, nil, refusal.Newf(refusal.UnknownName, "%s: attempt %q is not one of class %s with this judge; those are %s", l.place, l.Attempt, m.o.Class, strings.Join(known, ", ")).
		WithHint("calibrate each judge with labels of its own attempts; --attempt chooses another judge")
}

// A said is what the judge of a case said, and among what.
type said struct {
	category   string // "" if there is no verdict
	categories []string
	ordered    bool
}

// verdict reads what the judge said from the evidence.
func (m *matcher) verdict(c *history.Case) (said, error) {
	checks, err := m.r.Checks(c)
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
// and failed.
func (m *matcher) saidIn(c *history.Case, d *grade.Detail) (said, error) {
	var scale question.Scale
	if d.Choice != "" && d.Panel == nil {
		var err error
		if scale, err = m.scaleOf(c, d.Choice); err != nil {
			return said{}, err
		}
	}
	s := said{categories: []string{"failed", "passed"}, ordered: true}
	switch {
	case d.Grader == grade.Prefer && d.Panel == nil:
		s.categories = []string{"loss", "tie", "win"}
		if d.Score != nil {
			s.category = s.categories[int(*d.Score*2)]
		}
	case len(scale) > 0:
		s.categories, s.category = scale.Names(), d.Choice
	case d.Outcome == grade.Passed:
		s.category = "passed"
	case d.Outcome == grade.Mismatch:
		s.category = "failed"
	}
	return s, nil
}

// scaleOf is the scale that the judge of a case chose from.
func (m *matcher) scaleOf(c *history.Case, choice string) (question.Scale, error) {
	files, err := history.FilesOf(c, m.r.Piece)
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

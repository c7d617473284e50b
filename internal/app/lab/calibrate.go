package lab

import (
	"context"
	"fmt"
	"slices"

	"tallystick/internal/read/agreement"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
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
	Question string `json:"question_digest,omitempty"`
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

	Reviewers []string `json:"reviewers"` // whose labels were compared
	// What was not compared: labels of cases that no model judged, labels that answer
	// another question, entries that are not labels to reckon with, and attempts whose
	// judge is asked something else.
	NotJudged int                       `json:"not_judged"`
	Otherwise int                       `json:"other_question"`
	Refused   []scorecard.RefusedReview `json:"refused,omitempty"`
	LeftOut   []string                  `json:"left_out,omitempty"`

	Pairs string `json:"pairs"` // digest of what was compared
	Entry int64  `json:"entry"` // -1 if nothing was recorded
}

// A pair is a label and what the judge said of the same.
type pair struct {
	Attempt  string `json:"attempt"`
	CaseID   string `json:"case_id"`
	Entry    int64  `json:"entry"` // of the record
	Judge    string `json:"judge"` // its category; "" if it gave no verdict
	Label    int64  `json:"label_entry,omitempty"`
	People   string `json:"people"`
	Repeat   int    `json:"repeat"`
	Reviewer string `json:"reviewer,omitempty"`
}

// A pairing is the evidence of a calibration: what was compared with what, and by
// which choice, so that a reader can choose again.
type pairing struct {
	Attempt  string `json:"attempt,omitempty"` // of those with this judge only this one
	Pairs    []pair `json:"pairs"`
	Question string `json:"question,omitempty"` // that people answered, of reviews
	Version  string `json:"v"`
}

// Calibrate compares the verdicts of a class's judge with people's labels, and
// records what came of it. The corpus was read with the records of every attempt.
func Calibrate(ctx context.Context, c *dossier.Corpus, o CalibrateOptions) (*Calibration, error) {
	r := c.Reading
	attempts, leftOut, err := judgedAttempts(r.History, o)
	if err != nil {
		return nil, err
	}
	plan := &attempts[0].Plan
	body := &evidence.JudgeCalibrated{Class: o.Class, Check: o.Check, Judge: *plan.JudgeDigest, Judges: plan.JudgesDigest, Question: plan.JudgeQuestion, Source: evidence.FromFile}
	list, given := &pairing{Attempt: o.Attempt, Version: format.Version}, reviewed{}
	if o.Labels != "" {
		given.labels, err = readLabels(o.Labels)
	} else {
		body.Source = evidence.FromReviews
		if list.Question, err = askedOfPeople(r, o.Class); err == nil {
			given = reviewsOf(r.History, attempts, list.Question)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(given.labels) == 0 {
		return nil, nothingLabelled(o.Class, &given)
	}
	m := &matcher{r: r, o: o, attempts: attempts, skipUnjudged: o.Labels == ""}
	if list.Pairs, err = m.pairs(given.labels); err != nil {
		return nil, err
	}
	table, err := m.fill(body, list.Pairs)
	if err != nil {
		return nil, err
	}
	data, err := canon.Marshal(list)
	if err != nil {
		return nil, err
	}
	out := calibrationOf(body, table, leftOut)
	out.NotJudged, out.Otherwise, out.Refused, out.Reviewers = m.notJudged, given.otherwise, given.refused, reviewersOf(list.Pairs)
	if o.DryRun {
		return out, nil
	}
	// The evidence first: an entry must not name what is not there.
	if body.Pairs, err = store.OpenVault(store.OS{}, r.EvidenceDir()).Put(data); err != nil {
		return nil, err
	}
	out.Pairs = body.Pairs.String()
	pos, err := c.Append(ctx, evidence.JudgeCalibratedKind, body)
	out.Entry = pos.Index
	return out, err
}

// askedOfPeople is the question that people answer about the cases of a class.
func askedOfPeople(r *dossier.Reading, class string) (string, error) {
	v, err := r.Bench(class)
	if err != nil {
		return "", err
	}
	reg := v.Registration()
	return reg.ReviewOrDefault().Question, nil
}

func nothingLabelled(class string, given *reviewed) error {
	more := ""
	if given.otherwise > 0 {
		more += fmt.Sprintf("; %d labels answer another question than the registration asks now", given.otherwise)
	}
	if n := len(given.refused); n > 0 {
		more += fmt.Sprintf("; %d entries do not count, the first is entry %d: %s", n, given.refused[0].Index, given.refused[0].Why)
	}
	return refusal.Newf(refusal.NotFound, "no reviewer labelled a case of class %s that this judge judged%s", class, more).
		WithHint(`label cases with "tally review", or give --labels FILE.jsonl; docs/judges.md has the format`)
}

func reviewersOf(pairs []pair) []string {
	names := []string{}
	for _, p := range pairs {
		if p.Reviewer != "" && !slices.Contains(names, p.Reviewer) {
			names = append(names, p.Reviewer)
		}
	}
	slices.Sort(names)
	return names
}

// calibrationOf tells what a table comes to.
func calibrationOf(b *evidence.JudgeCalibrated, t *agreement.Table, leftOut []string) *Calibration {
	out := &Calibration{Class: b.Class, Check: b.Check, Judge: b.Judge.String(), Source: b.Source, N: t.N, Unscored: b.Unscored, Agreed: t.Agreed(), Agreement: t.Rate(),
		Ordered: b.Ordered, Categories: b.Categories, Table: t.Counts, LeftOut: leftOut, Entry: -1}
	if b.Judges != nil {
		out.Judges = b.Judges.String()
	}
	if b.Question != nil {
		out.Question = b.Question.String()
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
		if sameJudge(&a.Plan, &newest.Plan) {
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

// sameJudge reports whether the judges of two plans are asked the same.
func sameJudge(a, b *evidence.Plan) bool {
	return *a.JudgeDigest == *b.JudgeDigest && samePointer(a.JudgesDigest, b.JudgesDigest) && samePointer(a.JudgeQuestion, b.JudgeQuestion)
}

func samePointer[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/review"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A Queue is the cases of an attempt, and how far the person got with them.
type Queue struct {
	Attempt  string
	Class    string
	Question string
	Labels   []string
	Blind    bool
	Rows     []QueueRow
	HeldOut  int // left out
	Done     int // labelled by the person
	// Report says how far people agree. Who looks blind gets it when they have labelled
	// every case: before that it would tell them what others said.
	Report *scorecard.ReviewReport
}

// A QueueRow is one case of a queue.
type QueueRow struct {
	Case   string
	Repeat int
	Mine   string // the person's label; "" if there is none
}

// Queue finds the cases to look at.
func (d *Desk) Queue(ask review.Ask) (*Queue, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fresh(); err != nil {
		return nil, err
	}
	q, err := review.Open(d.corpus.Reading, ask)
	if err != nil {
		return nil, err
	}
	out := &Queue{Attempt: q.Attempt.ID, Class: q.Attempt.Class, Question: q.Scale.Question, Labels: q.Scale.Names(), Blind: q.Blind, HeldOut: q.HeldOut}
	if ask.Only != "" && ask.Only != review.All { // of a case that is not listed it tells as much
		for c := range q.Attempt.Cases() {
			d.Saw(q.Attempt.ID, c.ID, int(c.Repeat))
		}
	}
	for _, c := range q.Cases {
		row := QueueRow{Case: c.ID, Repeat: int(c.Repeat)}
		if mine := d.mine(q, c); mine != nil {
			row.Mine = mine.Label
			out.Done++
		}
		out.Rows = append(out.Rows, row)
	}
	if !q.Blind || out.Done == len(out.Rows) {
		out.Report, err = review.Report(d.corpus.Reading, q.Attempt.ID)
	}
	return out, err
}

// mine is the person's last label of a case.
func (d *Desk) mine(q *review.Queue, c *dossier.Case) *scorecard.GivenLabel {
	for _, row := range scorecard.ReviewedCases(d.corpus.Reading.History, q.Attempt.Attempt) {
		if row.Entry != c.Index {
			continue
		}
		for i := range row.Labels {
			if strings.EqualFold(row.Labels[i].By, d.person.Name) {
				return &row.Labels[i]
			}
		}
	}
	return nil
}

// A Sheet is one case as the person sees it, with the forms that go with it.
type Sheet struct {
	Item    *review.Item
	Entry   int64
	Mine    *scorecard.GivenLabel // what the person said before
	Blind   bool
	Seen    bool // the person asked for a blind look and has seen more before
	Label   Form
	Correct *Form // nil where nothing can be corrected, and for who looks blind
}

// Case shows a case.
func (d *Desk) Case(attempt, id string, repeat int, blind bool) (*Sheet, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fresh(); err != nil {
		return nil, err
	}
	seen := d.hasSeen(attempt, id, repeat)
	sheet, err := d.sheet(attempt, id, repeat, blind && !seen)
	if err != nil {
		return nil, err
	}
	sheet.Seen = blind && seen
	if !sheet.Blind {
		d.Saw(attempt, id, repeat)
	}
	return sheet, nil
}

// find finds a case among those that people may look at.
func (d *Desk) find(attempt, id string, repeat int, blind bool) (*review.Queue, *dossier.Case, error) {
	q, err := review.Open(d.corpus.Reading, review.Ask{Name: attempt, Only: review.All, Blind: blind})
	if err != nil {
		return nil, nil, err
	}
	for _, c := range q.Cases {
		if q.Attempt.ID == attempt && c.ID == id && int(c.Repeat) == repeat {
			return q, c, nil
		}
	}
	return nil, nil, refusal.Newf(refusal.NotFound, "attempt %s has no case %s, repetition %d, to look at here", attempt, id, repeat).
		WithHint("held-out cases are reviewed at the terminal: tally review %s --show-held-out", attempt)
}

// sheet reads a case from the evidence, which is verified against its record.
func (d *Desk) sheet(attempt, id string, repeat int, blind bool) (*Sheet, error) {
	q, c, err := d.find(attempt, id, repeat, blind)
	if err != nil {
		return nil, err
	}
	item, err := q.Item(c)
	if err != nil {
		return nil, err
	}
	// The bytes on disk, all of them, are those that the record names.
	if _, err := q.Match(item); err != nil {
		return nil, err
	}
	s := &Sheet{Item: item, Entry: c.Index, Mine: d.mine(q, c), Blind: blind}
	shown, err := s.digest()
	if err != nil {
		return nil, err
	}
	f := Form{Act: Label, Attempt: attempt, Case: id, Repeat: repeat, Blind: blind, Shown: shown}
	s.Label = d.form(f)
	if !blind && c.IsScored() {
		f.Act = Correct
		form := d.form(f)
		s.Correct = &form
	}
	return s, nil
}

// digest names what a sheet shows, with what the person said before: of two tabs with one
// case, the second is not signed without a look at what the first did.
func (s *Sheet) digest() (digest.ID, error) {
	before := int64(-1)
	if s.Mine != nil {
		before = s.Mine.Index
	}
	data, err := json.Marshal(struct {
		Item   *review.Item
		Entry  int64
		Before int64
	}{s.Item, s.Entry, before})
	return digest.IDOf(data), err
}

// actOnCase reads the case that a form is about, as it was for the page.
func (d *Desk) actOnCase(f *Form, sent url.Values) (*Act, error) {
	s, err := d.sheet(f.Attempt, f.Case, f.Repeat, f.Blind)
	if err != nil {
		return nil, err
	}
	shown, err := s.digest()
	if err != nil {
		return nil, err
	}
	if shown != f.Shown {
		return nil, errChanged("case " + f.Case)
	}
	if f.Blind && d.hasSeen(f.Attempt, f.Case, f.Repeat) {
		return nil, refusal.Newf(refusal.Usage, "case %s: you have seen what others think of it since this page was made, so the label is not blind", f.Case).
			WithHint("load the page again: it says that the label counts as one that was not given blind")
	}
	act := &Act{Kind: f.Act, Person: d.person.Name, Attempt: f.Attempt, Case: f.Case, Repeat: f.Repeat, Blind: f.Blind, Item: s.Item, Before: s.Mine}
	if f.Act == Label {
		return act, act.readLabel(sent)
	}
	return act, act.readCorrection(sent)
}

// readLabel takes what the person chose.
func (a *Act) readLabel(sent url.Values) error {
	a.Label, a.Note = sent.Get("label"), strings.TrimSpace(sent.Get("note"))
	switch {
	case a.Label == "":
		return refusal.Newf(refusal.Usage, "no label was chosen").WithHint("choose one of %s", strings.Join(a.Item.Labels, ", "))
	case !slices.Contains(a.Item.Labels, a.Label):
		return refusal.Newf(refusal.Usage, "found the label %q, expected one of %s", a.Label, strings.Join(a.Item.Labels, ", "))
	case len(a.Note) > evidence.MaxReviewNote:
		return refusal.Newf(refusal.Usage, "the note has %d bytes, expected at most %d", len(a.Note), evidence.MaxReviewNote)
	}
	return nil
}

// readCorrection takes the score that the person holds to be right.
func (a *Act) readCorrection(sent url.Values) error {
	score, err := strconv.ParseFloat(strings.TrimSpace(sent.Get("score")), 64)
	if err != nil || !(score >= 0 && score <= 1) {
		return refusal.Newf(refusal.Usage, "found the score %q, expected a number from 0 to 1", sent.Get("score"))
	}
	outcome := sent.Get("outcome")
	if outcome != "" && outcome != string(evidence.Passed) && outcome != string(evidence.Failed) {
		return refusal.UnknownValue("outcome", evidence.Outcome(outcome), evidence.Passed, evidence.Failed)
	}
	reason := strings.TrimSpace(sent.Get("reason"))
	if reason == "" {
		return refusal.Newf(refusal.Usage, "a correction needs a reason").WithHint("say why in a sentence: it is signed with the score")
	}
	a.Correction = ceremony.CorrectOptions{Case: a.Attempt + ":" + a.Case, Repeat: a.Repeat, Score: score, Outcome: outcome, Reason: reason}
	return nil
}

// label signs and records a label.
func (a *Act) label(ctx context.Context, d *Desk) (string, error) {
	q, c, err := d.find(a.Attempt, a.Case, a.Repeat, a.Blind)
	if err != nil {
		return "", err
	}
	done, err := d.person.Label(ctx, q, c, a.Label, a.Note)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%s: %s, signed by %s, entry %d", done.Case, history.RepeatMark(done.Repeat), done.Label, done.By, done.Index), nil
}

// correct signs and records a correction.
func (a *Act) correct(ctx context.Context, d *Desk) (string, error) {
	o := a.Correction
	o.Pens = []ceremony.Pen{d.config.Pen}
	done, err := ceremony.Correct(ctx, d.corpus, o)
	if err != nil {
		return "", err
	}
	said := fmt.Sprintf("%s%s: score %v in place of %v beside the record, signed by %s, entry %d", done.Case, history.RepeatMark(done.Repeat), done.Now.Score, done.Was.Score, strings.Join(done.By, ", "), done.Index)
	if !done.CountsForPromotion {
		said += "; promotion uses the lower score until two people have signed, one of them with the security role"
	}
	return said, nil
}

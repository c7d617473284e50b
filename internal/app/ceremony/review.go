package ceremony

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/review"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/run/bench"
)

// A Reviewer is a person who labels cases, with the key they sign with.
type Reviewer struct {
	Name string // as the signers file has it

	corpus *dossier.Corpus
	hand   *hand
}

// A Labelled is a label that was signed and recorded.
type Labelled struct {
	Attempt string `json:"attempt"`
	Case    string `json:"case"`
	Repeat  int    `json:"repeat"`
	Label   string `json:"label"`
	By      string `json:"by"`
	Blind   bool   `json:"blind"`
	Number  int    `json:"number"` // above 1 it takes the place of the person's earlier one
	Index   int64  `json:"index"`  // of the entry
}

// NewReviewer finds out whose pen it is, by a signature that says nothing: the
// person is refused now and not after an hour of looking at cases.
func NewReviewer(c *dossier.Corpus, pen Pen) (*Reviewer, error) {
	h, err := pen.ready(c.Options.Signers)
	if err != nil {
		return nil, err
	}
	probe := []byte("tallystick: who signs reviews with this key?")
	sig, err := h.sign(seal.NamespaceReview, probe, byHand{})
	if err != nil {
		return nil, err
	}
	people, err := c.Options.Signers.VerifyQuorum([][]byte{sig}, probe, seal.NamespaceReview, c.Now(), seal.Rule{People: 1})
	if err != nil {
		return nil, err
	}
	return &Reviewer{people[0].Principal(), c, h}, nil
}

// Has reports whether the person labelled the record already.
func (w *Reviewer) Has(c *dossier.Case) bool { return w.number(c) > 1 }

// number is that of the person's next label of a record.
func (w *Reviewer) number(c *dossier.Case) int {
	n := 1
	for _, v := range w.corpus.Reading.History.Reviews(c.Dossier().Attempt) {
		if v.Problem == "" && v.Entry == c.Index && strings.EqualFold(v.By, w.Name) {
			n = v.Number + 1
		}
	}
	return n
}

// Label signs and records what the person says about one case of a queue.
func (w *Reviewer) Label(ctx context.Context, q *review.Queue, c *dossier.Case, label, note string) (*Labelled, error) {
	body, err := w.sign(q, c, label, note, q.Blind)
	if err != nil {
		return nil, err
	}
	done, err := w.record(ctx, []*evidence.ReviewLabelled{body})
	if err != nil {
		return nil, err
	}
	return &done[0], nil
}

// sign makes the signed body, and judges the signature as every reader of the
// ledger will.
func (w *Reviewer) sign(q *review.Queue, c *dossier.Case, label, note string, blind bool) (*evidence.ReviewLabelled, error) {
	known, ok := q.Scale.Find(label)
	if !ok {
		return nil, unknownLabel(&q.Scale, label)
	}
	body := &evidence.ReviewLabelled{Origin: w.corpus.Reading.History.Origin, Attempt: q.Attempt.ID, CaseID: c.ID, Repeat: int(c.Repeat), Entry: c.Index, Head: c.Head,
		Seen: c.Evidence[0], Blind: blind, Question: q.Scale.Question, Label: label, Score: &known.Score, Note: strings.TrimSpace(note), Number: w.number(c)}
	message, err := body.Message()
	if err != nil {
		return nil, err
	}
	sig, err := w.hand.sign(seal.NamespaceReview, message, byHand{})
	if err != nil {
		return nil, err
	}
	body.Signature = string(sig)
	if err := body.Validate(); err != nil {
		return nil, refusal.Newf(refusal.Usage, "the label of case %s: %w", c.ID, err)
	}
	_, err = w.corpus.Options.Signers.VerifyQuorum([][]byte{sig}, message, seal.NamespaceReview, w.corpus.Now(), seal.Rule{People: 1})
	return body, err
}

func unknownLabel(scale *bench.Review, label string) error {
	return refusal.Newf(refusal.Usage, "found the label %q, expected one of %s", label, strings.Join(scale.Names(), ", ")).
		Suggest(label, scale.Names(), "the registration of the class lists the labels under review")
}

// record appends labels together and reads the ledger again, so that the next
// label of the same person has the right number.
func (w *Reviewer) record(ctx context.Context, bodies []*evidence.ReviewLabelled) ([]Labelled, error) {
	l, err := w.corpus.OpenLedger(ctx)
	if err != nil {
		return nil, err
	}
	done, err := w.append(l, bodies)
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	return done, w.corpus.Reading.Refresh()
}

func (w *Reviewer) append(l *sequencer.Ledger, bodies []*evidence.ReviewLabelled) ([]Labelled, error) {
	var waiting []*sequencer.Pending
	for _, b := range bodies {
		data, err := canon.Marshal(b)
		if err != nil {
			return nil, err
		}
		waiting = append(waiting, l.Submit(evidence.ReviewLabelledKind, data))
	}
	var done []Labelled
	for i, p := range waiting {
		pos, err := p.Wait()
		if err != nil {
			return nil, err
		}
		b := bodies[i]
		done = append(done, Labelled{b.Attempt, b.CaseID, b.Repeat, b.Label, w.Name, b.Blind, b.Number, pos.Index})
	}
	return done, nil
}

// MaxReviewFile bounds a file of labels.
const MaxReviewFile = 256 << 20

// LabelFrom signs and records the labels of a file: lines of an exported queue with
// label and note filled in. Lines whose label is empty are left for later. Every
// line is checked before anything is signed: all are recorded, or none.
func (w *Reviewer) LabelFrom(ctx context.Context, q *review.Queue, name string, data []byte) ([]Labelled, error) {
	type mark struct {
		c           *dossier.Case
		label, note string
		blind       bool
	}
	var marks []mark
	seen := map[int64]int{} // the lines, by the entry of the record
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, evidence.MaxEntryBytes)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var item review.Item
		if err := canon.Unmarshal(lines.Bytes(), &item); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", name, n, err)
		}
		if item.Label == "" {
			continue
		}
		c, err := q.Match(&item)
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", name, n, err)
		}
		if first, twice := seen[c.Index]; twice {
			return nil, refusal.Newf(refusal.Usage, "%s line %d: case %s, repetition %d, has a label in line %d already", name, n, item.Case, item.Repeat, first)
		}
		if _, ok := q.Scale.Find(item.Label); !ok {
			return nil, fmt.Errorf("%s line %d: case %s: %w", name, n, item.Case, unknownLabel(&q.Scale, item.Label))
		}
		if len(item.Note) > evidence.MaxReviewNote {
			return nil, refusal.Newf(refusal.Usage, "%s line %d: case %s: the note has %d bytes, expected at most %d", name, n, item.Case, len(item.Note), evidence.MaxReviewNote)
		}
		seen[c.Index] = n
		marks = append(marks, mark{c, item.Label, item.Note, item.Blind})
	}
	if err := lines.Err(); err != nil {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %w", name, err)
	}
	if len(marks) == 0 {
		return nil, refusal.Newf(refusal.Usage, "%s has no label", name).WithHint(`fill in "label" of the lines that "tally review … --export" wrote`)
	}
	var bodies []*evidence.ReviewLabelled
	for _, m := range marks {
		body, err := w.sign(q, m.c, m.label, m.note, m.blind)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return w.record(ctx, bodies)
}

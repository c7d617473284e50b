package evidence

import (
	"fmt"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// Bounds of what a review says. A longer argument belongs into a document of its
// own, with its name in the note.
const (
	MaxReviewNote = 4 << 10
	maxReviewText = 2000 // of the question
	maxLabel      = 64
)

// ReviewLabelled is what a person says about a case after having looked at it. It
// stands beside the record and changes no score. Like a correction it names the
// record in every way there is, so that a signature is worth nothing beside
// another record or in another ledger, and the person's earlier label cannot be
// put back after a later one.
type ReviewLabelled struct {
	Origin  string    `json:"origin"` // of the ledger
	Attempt string    `json:"attempt"`
	CaseID  string    `json:"case_id"`
	Repeat  int       `json:"repeat"`
	Entry   int64     `json:"entry"` // index of the case.scored record
	Head    digest.ID `json:"head"`  // of that entry
	// Seen is the index of the record's evidence: trajectory, files, everything
	// that could be shown.
	Seen digest.Content `json:"seen"`
	// Blind says that automatic scores, judges' texts and other people's labels
	// were not shown.
	Blind    bool     `json:"blind"`
	Question string   `json:"question"` // as the person was asked
	Label    string   `json:"label"`
	Score    *float64 `json:"score,omitempty"` // what the label is worth, 0 to 1
	Note     string   `json:"note,omitempty"`
	Number   int      `json:"number"` // 1 for this person's first label of the record
	// Signature is the person's, over this record with an empty one.
	Signature string `json:"signature"`
}

// Kind is review.labelled.
func (*ReviewLabelled) Kind() Kind { return ReviewLabelledKind }

// Message is what the person signs: the record with an empty signature.
func (r *ReviewLabelled) Message() ([]byte, error) {
	unsigned := *r
	unsigned.Signature = ""
	return canon.Marshal(&unsigned)
}

// Validate checks the shape; who signed is judged at the entry's place.
func (r *ReviewLabelled) Validate() error {
	if r.Score != nil && !(*r.Score >= 0 && *r.Score <= 1) {
		return fmt.Errorf("score is %v, expected 0 to 1", *r.Score)
	}
	return firstError(CheckOrigin(r.Origin), required("attempt", r.Attempt), required("case_id", r.CaseID), countsFromOne("repeat", r.Repeat),
		notNegative("entry", r.Entry), required("question", r.Question), atMost("question", r.Question, maxReviewText), required("label", r.Label),
		atMost("label", r.Label, maxLabel), atMost("note", r.Note, MaxReviewNote), countsFromOne("number", r.Number), required("signature", r.Signature))
}

func atMost(field, text string, bytes int) error {
	if len(text) > bytes {
		return fmt.Errorf("%s has %d bytes, expected at most %d", field, len(text), bytes)
	}
	return nil
}

package evidence

import (
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// MaxReviewNote bounds what a person notes in a review. A longer argument belongs
// into a document of its own, with its name in the note.
const MaxReviewNote = 4 << 10

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

package evidence

import (
	"errors"
	"fmt"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// A Grade is what a correction is about: whether a case passed, and its score.
type Grade struct {
	Passed bool    `json:"passed"`
	Score  float64 `json:"score"`
}

// ScoreCorrected says that people hold another score to be right than the one
// in a record. The record stays; both are shown. It names the record in every
// way there is, so that a signature is worth nothing beside another record, in
// another ledger, or after another correction of the same one.
type ScoreCorrected struct {
	Origin  string    `json:"origin"` // of the ledger
	Attempt string    `json:"attempt"`
	CaseID  string    `json:"case_id"`
	Repeat  int       `json:"repeat"`
	Entry   int64     `json:"entry"`  // index of the case.scored record
	Head    digest.ID `json:"head"`   // of that entry
	Number  int       `json:"number"` // 1 for the first correction of the record
	Was     Grade     `json:"was"`    // as recorded
	Now     Grade     `json:"now"`
	Reason  string    `json:"reason"`
	// Signatures are by one or two people, each over this record with an empty
	// list of them. A second entry with the same members adds another person's.
	Signatures []string `json:"signatures"`
}

// Kind is score.corrected.
func (*ScoreCorrected) Kind() Kind { return ScoreCorrectedKind }

// Message is what people sign: the record with an empty list of signatures.
func (s *ScoreCorrected) Message() ([]byte, error) {
	unsigned := *s
	unsigned.Signatures = []string{}
	return canon.Marshal(&unsigned)
}

// Sensible refuses a correction that contradicts itself, or says what the record
// says. Such an entry is of the right shape and does not count.
func (s *ScoreCorrected) Sensible() error {
	switch {
	case s.Now.Passed && s.Now.Score == 0 || !s.Now.Passed && s.Now.Score == 1:
		return fmt.Errorf("passed is %v and score is %v, which contradict each other", s.Now.Passed, s.Now.Score)
	case s.Number == 1 && s.Now == s.Was:
		return errors.New("it says what the record says: there is nothing to correct")
	}
	return nil
}

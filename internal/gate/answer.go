package gate

import (
	"tallystick/internal/history"
	"tallystick/internal/scorecard"
)

// An Answer is what "tally gate --json" prints.
type Answer struct {
	Rules   int           `json:"rules,omitempty"` // absent in the first
	Met     bool          `json:"met"`
	Gates   []Result      `json:"gates"`
	Attempt string        `json:"attempt"`
	Class   string        `json:"class"`
	Level   history.Level `json:"level"`

	// Qualifications are what must be known beside these numbers.
	Qualifications []history.Qualification `json:"qualifications,omitempty"`

	Ledger history.Line `json:"ledger"` // what was read
}

// AnswerOf puts the results of an attempt into the form that is promised.
func AnswerOf(h *history.History, a *history.Attempt, results []Result) Answer {
	return Answer{Rules: scorecard.Rules, Met: Met(results), Gates: results, Attempt: a.ID, Class: a.Class, Level: a.Level,
		Qualifications: history.Qualify(a), Ledger: h.Line()}
}

// AsFirst leaves out what an answer by the first rules did not have.
func (a Answer) AsFirst() Answer {
	a.Rules, a.Qualifications = 0, nil
	return a
}

package gate

import (
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
)

// An Answer is what "tally gate --json" prints.
type Answer struct {
	Rules int  `json:"rules"`
	Met   bool `json:"met"`
	// Undecided says that the gates are neither met nor missed: see [Decision].
	Undecided bool          `json:"undecided,omitempty"`
	Gates     []Result      `json:"gates"`
	Attempt   string        `json:"attempt"`
	Class     string        `json:"class"`
	Level     history.Level `json:"level"`
	// Number and Of count the attempts of the class, by whichever target.
	Number     int                `json:"number"`
	Of         int                `json:"of"`
	Properties []history.Property `json:"properties"`
	// Others are the other attempts of the class, by every target.
	Others []scorecard.AttemptLine `json:"other_attempts"`

	// Qualifications are what must be known beside these numbers.
	Qualifications []history.Qualification `json:"qualifications,omitempty"`
	// Corrected are the cases with a score beside the recorded one, and who set it: the
	// gates used those that count.
	Corrected []scorecard.CorrectedRow `json:"corrected,omitempty"`

	Ledger history.Line `json:"ledger"` // what was read
}

// State is that of the gates together.
func (a Answer) State() State { return stateOf(a.Met, a.Undecided) }

// Word is the state as people read it.
func (a Answer) Word() string { return string(a.State()) }

// AnswerOf puts the decision about an attempt into the form that is promised.
func AnswerOf(h *history.History, a *history.Attempt, d *Decision) Answer {
	if d == nil {
		d = &Decision{} // it cannot be made
	}
	answer := Answer{Rules: scorecard.Rules, Met: d.Met, Undecided: d.Undecided, Gates: d.Results, Attempt: a.ID, Class: a.Class, Level: a.Level,
		Number: a.Ordinal, Of: a.Siblings, Properties: a.Properties(), Others: []scorecard.AttemptLine{}, Qualifications: history.Qualify(a), Corrected: scorecard.CorrectedCases(a), Ledger: h.Line()}
	for _, other := range h.Attempts {
		if other != a && other.Class == a.Class {
			answer.Others = append(answer.Others, scorecard.LineOf(other.WithoutRecords()))
		}
	}
	return answer
}

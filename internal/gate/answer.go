package gate

import "tallystick/internal/history"

// An Answer is what "tally gate --json" prints.
type Answer struct {
	Met     bool          `json:"met"`
	Gates   []Result      `json:"gates"`
	Attempt string        `json:"attempt"`
	Class   string        `json:"class"`
	Level   history.Level `json:"level"`

	Ledger history.Line `json:"ledger"` // what was read
}

// AnswerOf puts the results of an attempt into the form that is promised.
func AnswerOf(h *history.History, a *history.Attempt, results []Result) Answer {
	return Answer{Met(results), results, a.ID, a.Class, a.Level, h.Line()}
}

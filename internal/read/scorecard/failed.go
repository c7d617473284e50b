package scorecard

import (
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
)

// An Answer is what "tally scorecard --json" prints: the card, and the tasks
// that were not solved if they were asked for.
type Answer struct {
	*Card
	FailedCases *[]FailedRow `json:"failed_cases,omitempty"`
	// Groups are there if the caller named no attempts and there are several classes
	// or targets: each by itself.
	Groups []ClassTarget `json:"groups,omitempty"`
}

// A FailedRow is a task that was not solved.
type FailedRow struct {
	Attempt string           `json:"attempt"`
	CaseID  string           `json:"case_id"`
	Repeat  int32            `json:"repeat"`
	Outcome evidence.Outcome `json:"outcome"`
	Score   *float64         `json:"score"`
	Modes   []string         `json:"failure_modes"`
	Entry   int64            `json:"entry"`
	Amended bool             `json:"amended"`

	Qualifications []string `json:"qualifications,omitempty"`
	// Corrected says how people corrected the score, if they did.
	Corrected string `json:"corrected,omitempty"`
}

// FailedCases lists the tasks of attempts that were not solved.
func FailedCases(attempts []*history.Attempt) *[]FailedRow {
	out := []FailedRow{}
	for _, a := range attempts {
		for c := range a.Cases() {
			if c.Passed() {
				continue
			}
			x := FailedRow{Attempt: a.ID, CaseID: c.ID, Repeat: c.Repeat, Outcome: c.Effective(), Modes: append([]string{}, c.FailureModes()...), Entry: c.Index, Amended: c.Amendment != nil, Qualifications: a.QualificationsOf(c)}
			if c.IsScored() {
				score := c.EffectiveScore()
				x.Score = &score
			}
			if c.Correction != nil {
				x.Corrected = c.Correction.Text()
			}
			out = append(out, x)
		}
		for range a.Unlisted() {
			out = append(out, FailedRow{Attempt: a.ID, Outcome: history.NotRun, Modes: []string{}, Entry: -1, Qualifications: []string{history.QualNotRun}})
		}
	}
	return &out
}

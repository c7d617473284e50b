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

// A FailedRow is a task that was not solved, as recorded or as corrected.
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
	// Corrected says what stands beside the recorded score, if anything does.
	Corrected string `json:"corrected,omitempty"`
}

// FailedCases lists the tasks of attempts that were not solved.
func FailedCases(attempts []*history.Attempt) *[]FailedRow {
	out := []FailedRow{}
	for _, a := range attempts {
		for c := range a.Cases() {
			m := c.On(history.AsRecorded)
			if m.Passed() && c.Passed() {
				continue
			}
			x := FailedRow{Attempt: a.ID, CaseID: c.ID, Repeat: c.Repeat, Outcome: m.Outcome, Score: m.Value(), Modes: append([]string{}, c.FailureModes()...), Entry: c.Index, Amended: c.Amendment != nil, Qualifications: a.QualificationsOf(c), Corrected: c.BesideText()}
			out = append(out, x)
		}
		for range a.Unlisted() {
			out = append(out, FailedRow{Attempt: a.ID, Outcome: history.NotRun, Modes: []string{}, Entry: -1, Qualifications: []string{history.QualNotRun}})
		}
	}
	return &out
}

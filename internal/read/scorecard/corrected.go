package scorecard

import (
	"fmt"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

// A CorrectedRow is a task whose score people corrected: the recorded grade,
// the one that counts, who signed it and why.
type CorrectedRow struct {
	Attempt string         `json:"attempt"`
	CaseID  string         `json:"case_id"`
	Repeat  int32          `json:"repeat"`
	Was     evidence.Grade `json:"was"`
	Now     evidence.Grade `json:"now"`
	By      []string       `json:"by"`
	Reason  string         `json:"reason"`
	Entry   int64          `json:"entry"`      // the record
	Index   int64          `json:"correction"` // its first entry
}

// Text says what was corrected in one line.
func (c CorrectedRow) Text() string {
	return fmt.Sprintf("%s of %s: %s → %s corrected by %s: %s", c.CaseID, c.Attempt, plain.Score(c.Was.Score, 2), plain.Score(c.Now.Score, 2), strings.Join(c.By, ", "), c.Reason)
}

// CorrectedCases lists the tasks of attempts that were corrected; nil if none
// was, so that answers without any say nothing about it.
func CorrectedCases(attempts ...*history.Attempt) []CorrectedRow {
	var out []CorrectedRow
	for _, a := range attempts {
		for c := range a.Cases() {
			if k := c.Correction; k != nil {
				out = append(out, CorrectedRow{a.ID, c.ID, c.Repeat, k.Was, k.Now, k.By, k.Reason, c.Index, k.Index})
			}
		}
	}
	return out
}

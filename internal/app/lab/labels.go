package lab

import (
	"bytes"
	"fmt"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// A label is what a person said about a case.
type label struct {
	Attempt    string   `json:"attempt"`
	Case       string   `json:"case"`
	Repetition int      `json:"repetition,omitempty"`
	Label      string   `json:"label,omitempty"`
	Score      *float64 `json:"score,omitempty"`
	Reviewer   string   `json:"reviewer,omitempty"`
	entry      int64    // of a review
	place      string   // in the file or the ledger, for a person
}

// Reviewed are the labels that people signed, and how many entries are not labels to compare
// with.
type reviewed struct {
	labels    []label
	otherwise int                       // given to another question
	refused   []scorecard.RefusedReview // that do not count, and why
}

// reviewsOf are the labels of some attempts that answer a question. What does not
// count for a report on the reviewers does not count here.
func reviewsOf(h *history.History, attempts []*history.Attempt, question string) reviewed {
	var out reviewed
	for _, a := range attempts {
		for _, v := range h.Reviews(a) {
			switch {
			case v.Problem != "":
				out.refused = append(out.refused, scorecard.RefusedReview{Index: v.Index, Why: v.Problem})
			case v.Superseded:
			case v.Question != question:
				out.otherwise++
			default:
				out.labels = append(out.labels, label{Attempt: v.Attempt, Case: v.CaseID, Repetition: v.Repeat, Label: v.Label, Score: v.Score, Reviewer: v.By, entry: v.Index, place: fmt.Sprintf("entry %d", v.Index)})
			}
		}
	}
	return out
}

// Bounds of a file of labels.
const (
	maxLabelsBytes = 16 << 20
	maxLabels      = 100_000
)

// readLabels reads a file with a label a line.
func readLabels(name string) ([]label, error) {
	data, err := store.ReadFile(store.OS{}, name, maxLabelsBytes)
	if err != nil {
		return nil, err
	}
	var labels []label
	type who struct {
		attempt, caseID, reviewer string
		repeat                    int
	}
	seen := map[who]string{}
	for i, line := range bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n")) {
		l := label{place: fmt.Sprintf("%s:%d", name, i+1)}
		bad := func(format string, args ...any) error {
			return refusal.Newf(refusal.Malformed, "%s: %s", l.place, fmt.Sprintf(format, args...)).
				WithHint(`expected {"attempt": A, "case": C, "label": L or "score": S}, and repetition and reviewer if they are needed`)
		}
		if err := canon.Unmarshal(line, &l); err != nil {
			return nil, bad("%v", err)
		}
		if l.Repetition == 0 {
			l.Repetition = 1
		}
		me := who{l.Attempt, l.Case, l.Reviewer, l.Repetition}
		switch {
		case l.Attempt == "" || l.Case == "" || l.Repetition < 1:
			return nil, bad("attempt or case is missing, or repetition is below 1")
		case (l.Label == "") == (l.Score == nil):
			return nil, bad("expected a label or a score, and not both")
		case l.Score != nil && !(*l.Score >= 0 && *l.Score <= 1):
			return nil, bad("score is %v, expected 0 to 1", *l.Score)
		case seen[me] != "":
			return nil, bad("the same case was labelled by the same reviewer in %s", seen[me])
		case len(labels) == maxLabels:
			return nil, bad("there are more than %d labels", maxLabels)
		}
		seen[me] = l.place
		labels = append(labels, l)
	}
	return labels, nil
}

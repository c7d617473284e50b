package evidence

import (
	"encoding/json"
	"fmt"
	"strings"

	"tallystick/internal/record/plain"
)

// A Mark is what a case came to: its outcome, and its score if it has one.
type Mark struct {
	Outcome Outcome
	Scored  bool
	Score   float64
}

// Mark is the grade as a mark.
func (g Grade) Mark() Mark {
	if g.Passed {
		return Mark{Passed, true, g.Score}
	}
	return Mark{Failed, true, g.Score}
}

// Passed reports whether the mark is one of a solved case.
func (m Mark) Passed() bool { return m.Outcome == Passed }

// Value is the score, nil if there is none.
func (m Mark) Value() *float64 {
	if !m.Scored {
		return nil
	}
	return &m.Score
}

// Text is the mark for people.
func (m Mark) Text() string {
	if !m.Scored {
		return string(m.Outcome)
	}
	return fmt.Sprintf("%s %s", plain.Score(m.Score, 2), m.Outcome)
}

// markJSON is a mark in answers.
type markJSON struct {
	Outcome Outcome  `json:"outcome"`
	Passed  bool     `json:"passed"`
	Score   *float64 `json:"score"`
}

// MarshalJSON gives outcome, whether that is passed, and the score or null.
func (m Mark) MarshalJSON() ([]byte, error) {
	return json.Marshal(markJSON{m.Outcome, m.Passed(), m.Value()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Mark) UnmarshalJSON(data []byte) error {
	var in markJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*m = Mark{Outcome: in.Outcome, Scored: in.Score != nil}
	if m.Scored {
		m.Score = *in.Score
	}
	return nil
}

// A Beside is what stands beside a recorded score, in the one form that everything has
// it that shows a score: who set it, when, from what to what, and why. Text of others
// is in it: names and reasons.
type Beside struct {
	// Kind is score.corrected for what people signed, score.amended for what was graded
	// again.
	Kind   Kind     `json:"kind"`
	By     []string `json:"by"`
	At     Time     `json:"at"`
	Was    Mark     `json:"was"` // as recorded
	Now    Mark     `json:"now"`
	Reason string   `json:"reason"`
	Index  int64    `json:"correction"` // its first entry
	// Ignored says why it does not count, "" if it does.
	Ignored string `json:"ignored,omitempty"`
}

// Change says from what to what, by whom and when, for people.
func (b Beside) Change() string {
	verb := "corrected"
	if b.Kind == ScoreAmendedKind {
		verb = "graded again"
	}
	text := fmt.Sprintf("%s → %s %s by %s at %s", b.Was.Text(), b.Now.Text(), verb, strings.Join(b.By, ", "), b.At)
	if b.Ignored != "" {
		text += fmt.Sprintf(" (does not count: %s)", b.Ignored)
	}
	return text
}

// Text is the change with the reason, which may tell of what the case asks.
func (b Beside) Text() string { return b.Change() + ": " + b.Reason }

// A CorrectedRow is a task with a score beside the recorded one, where it is told of
// several.
type CorrectedRow struct {
	Attempt string `json:"attempt"`
	CaseID  string `json:"case_id"`
	Repeat  int32  `json:"repeat"`
	Beside
	Entry int64 `json:"entry"` // the record
}

// Text says what was corrected in one line.
func (c CorrectedRow) Text() string {
	return fmt.Sprintf("%s of %s: %s", c.CaseID, c.Attempt, c.Beside.Text())
}

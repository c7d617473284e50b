package export

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"tallystick/internal/read/conversation"
	"tallystick/internal/read/gate"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

// Facts are what leaves the building about one attempt: plain values that were
// read from a verified ledger and whole evidence. Package outgoing makes them of the
// public form of a dossier, which has verified them; nothing here does.
type Facts struct {
	ID, Class, Target string
	Origin            string // of the ledger
	Level, Mode       string
	Number, Of        int // attempt Number of Of of its class by its target
	Repeat            int // how often each case was to run
	Cases             int // how many there were
	Started, Ended    time.Time
	Finished          bool
	Version           string   // of the program that ran it
	Models            []string // that were called, in order of name
	Bench             string   // the digest that two people signed, sha256:…
	Isolation         []Isolation
	Images            []string // digests of the images that graded
	JudgeSettings     string   // digest of the judge's settings, or ""
	Registration      string   // head after the entry that announced it, sha256:…

	// Receipt proves the entry that finished it, or the one that registered it;
	// Key is what it can be checked with.
	Receipt, ReceiptOf, Key string
	Record                  []byte // the entry, if the receipt does not carry it
	// Address is where the receipt can be had, if it was published.
	Address string

	// Decision is whether the attempt meets the gates of its class. The zero value is
	// "not met".
	Decision gate.Decision

	// Qualifications are what must be known beside the numbers, in words.
	Qualifications []string

	Samples []Sample
	// Ending is that of the file that was asked for, where the format has several.
	Ending string

	// Withheld says that inputs and answers are here by salted digest only.
	Withheld bool
}

// Isolation is how some of the cases were kept apart from the machine.
type Isolation struct {
	Class          string `json:"class"`
	AgentIsolation string `json:"agent_isolation,omitempty"`
	AgentRoot      string `json:"agent_root,omitempty"` // host, or image and its digest
	AgentScope     string `json:"agent_scope,omitempty"`
	Scope          string `json:"scope,omitempty"`
	Vantage        string `json:"vantage"`
	Cases          int    `json:"cases"`
}

// The outcomes of a [Sample], as records have them.
const (
	passed    = "passed"
	failed    = "failed"
	errored   = "errored"
	unscored  = "unscored"
	truncated = "truncated"
	skipped   = "skipped"
	notRun    = "not_run"
)

// A Sample is one repetition of one case.
type Sample struct {
	ID     string
	Digest string // of the case
	Repeat int    // from 1

	// Outcome and Score are as recorded, in every format: a receipt proves no other.
	// What was set beside them is told beside them; Now is what it makes of them, nil if
	// that is nothing else.
	Outcome     string
	Score       *float64 // nil if it has none
	Corrections []evidence.CorrectedRow
	Now         *evidence.Mark

	Reason string
	Modes  []string // failure modes

	Input, Answer, Expected string

	Started  time.Time
	Took     time.Duration
	Tokens   int64
	Cost     cost.Cost
	Judged   bool
	HeldOut  bool // its texts are salted digests already
	Evidence []string

	// Transcript reads what was said and done and what was compared; nil if these do not
	// leave, or there is none. A transcript is in memory only while it is written.
	Transcript func() (*Told, error)
}

// Told is a transcript, and what was compared with what.
type Told struct {
	Conversation *conversation.Conversation
	Events       map[int]*trajectory.Event // by their number
	Checks       []grade.Detail
}

// told reads the transcript, nil if there is none.
func (s *Sample) told() (*Told, error) {
	if s.Transcript == nil {
		return nil, nil
	}
	return s.Transcript()
}

// checksText tells each check in a line, with what it got and wanted.
func (t *Told) checksText() string {
	var lines []string
	for _, d := range t.Checks {
		line := fmt.Sprintf("%s (%s): %s", cmp.Or(d.Check, string(d.Grader)), d.Grader, d.Outcome)
		if d.Why != "" {
			line += ", " + d.Why
		}
		if d.Extracted != nil {
			line += "; got " + d.Extracted.Head
		}
		if d.Expected != nil {
			line += "; wanted " + d.Expected.Head
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Passed reports whether the record says that the sample is solved.
func (s *Sample) Passed() bool { return s.Outcome == passed }

// Totals are the numbers of an attempt.
type Totals struct {
	Total, Passed, Failed, Skipped, Errors, Unscored, Truncated, NotRun int
	Scored                                                              int
	Mean                                                                *float64 // of the scores there are, nil without one
	SolveRate                                                           float64  // passed of all
}

// Totals adds the samples up, as recorded.
func (a *Facts) Totals() Totals {
	return a.totals(func(s *Sample) (string, *float64) { return s.Outcome, s.Score })
}

// AsCorrected adds the samples up as corrected; nil if that gives the same.
func (a *Facts) AsCorrected() *Totals {
	corrected := false
	t := a.totals(func(s *Sample) (string, *float64) {
		if s.Now == nil {
			return s.Outcome, s.Score
		}
		corrected = true
		return string(s.Now.Outcome), s.Now.Value()
	})
	if !corrected {
		return nil
	}
	return &t
}

// Corrections lists what was set beside the recorded scores.
func (a *Facts) Corrections() []evidence.CorrectedRow {
	var all []evidence.CorrectedRow
	for i := range a.Samples {
		all = append(all, a.Samples[i].Corrections...)
	}
	return all
}

// correctionsText tells in one line what stands beside the numbers, which are as
// recorded; "" if nothing does.
func (a *Facts) correctionsText() string {
	var lines []string
	for _, c := range a.Corrections() {
		lines = append(lines, c.Text())
	}
	if lines == nil {
		return ""
	}
	if t := a.AsCorrected(); t != nil {
		lines = append(lines, "as corrected "+t.text())
	}
	return strings.Join(lines, "; ")
}

// text is the totals in few words.
func (t *Totals) text() string {
	text := fmt.Sprintf("%d of %d passed, solve rate %s", t.Passed, t.Total, decimal(t.SolveRate))
	if t.Mean != nil {
		text += ", mean score " + decimal(*t.Mean)
	}
	return text
}

// correctionsText tells what stands beside the recorded score of a sample.
func (s *Sample) correctionsText() string {
	var lines []string
	for _, c := range s.Corrections {
		lines = append(lines, c.Beside.Text())
	}
	return strings.Join(lines, "; ")
}

func (a *Facts) totals(of func(*Sample) (outcome string, score *float64)) Totals {
	t := Totals{Total: len(a.Samples)}
	counts := map[string]*int{passed: &t.Passed, failed: &t.Failed, skipped: &t.Skipped, errored: &t.Errors, unscored: &t.Unscored, truncated: &t.Truncated, notRun: &t.NotRun}
	sum := 0.0
	for i := range a.Samples {
		outcome, score := of(&a.Samples[i])
		if n := counts[outcome]; n != nil {
			*n++
		}
		if score != nil {
			t.Scored++
			sum += *score
		}
	}
	if t.Scored > 0 {
		mean := sum / float64(t.Scored)
		t.Mean = &mean
	}
	if t.Total > 0 {
		t.SolveRate = float64(t.Passed) / float64(t.Total)
	}
	return t
}

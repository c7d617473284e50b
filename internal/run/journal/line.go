package journal

import (
	"cmp"
	"errors"
	"fmt"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
)

// Format names the format of a journal.
const Format = "tallystick-journal/" + format.Version

// A Kind says what a line is about.
type Kind string

// The kinds.
const (
	Opened  Kind = "journal" // the first line: whose journal it is
	Intent  Kind = "intent"  // a request is about to be sent
	Reply   Kind = "reply"   // its reply came, as it is kept; of an error status with the outcome refused
	Failed  Kind = "failed"  // it gave nothing to keep
	Ended   Kind = "ended"   // the agent came to its end; it is not graded yet
	Resumed Kind = "resumed" // an execution is begun again, from its journal
	Done    Kind = "done"    // what came of an execution is put away, or with a reason it was given up; it is never resumed
)

// A Payer is for whom a call is made.
type Payer string

// The payers.
const (
	Agent     Payer = "agent"
	Judge     Payer = "judge"
	Embedding Payer = "embedding"
	User      Payer = "user" // the model that plays the user of the case
	Tool      Payer = "tool" // a live tool of an MCP server: it costs nothing that is known here, and may have effects
)

// An Outcome is what is known of a call that gave nothing to keep.
type Outcome string

// The outcomes.
const (
	NotSent Outcome = "not_sent" // no byte of it left this machine
	Refused Outcome = "refused"  // it was answered with an error status, which is not billed
	Unknown Outcome = "unknown"  // it may have been done, and billed
)

// A Line is one line of a journal. Which members it has depends on its kind. The
// fields stand in the order of their names.
type Line struct {
	API         string           `json:"api,omitempty"`
	At          *evidence.Time   `json:"at,omitempty"`
	Attempt     string           `json:"attempt,omitempty"`
	Call        int              `json:"call,omitempty"` // of the execution, from 1
	Case        string           `json:"case,omitempty"`
	Ceiling     *int64           `json:"ceiling_microdollars,omitempty"` // the most that it can cost; absent if unknown
	Cost        *int64           `json:"cost_microdollars,omitempty"`    // absent if unknown
	Execution   int              `json:"execution,omitempty"`
	Format      string           `json:"format,omitempty"`
	Intent      int              `json:"intent,omitempty"` // the line of the intent
	Interaction canon.RawMessage `json:"interaction,omitempty"`
	Kind        Kind             `json:"kind"`
	Line        int              `json:"line"` // its number, from 1
	Model       string           `json:"model,omitempty"`
	Origin      string           `json:"origin,omitempty"`
	Outcome     Outcome          `json:"outcome,omitempty"`
	Pays        Payer            `json:"pays,omitempty"`
	Prev        *digest.ID       `json:"prev,omitempty"` // SHA-256 of the line before
	Reason      string           `json:"reason,omitempty"`
	Registered  *digest.Content  `json:"registered,omitempty"` // of the registration's body
	Repeat      int              `json:"repeat,omitempty"`
	Request     *digest.ID       `json:"request,omitempty"`    // key of the canonical request
	Trajectory  *digest.ID       `json:"trajectory,omitempty"` // its head when the agent had ended
	Try         int              `json:"try,omitempty"`        // of the call, from 1
}

// parseLine reads one line and checks that it has what its kind needs.
func parseLine(data []byte) (*Line, error) {
	l := &Line{}
	if err := canon.UnmarshalCanonical(data, l); err != nil {
		return nil, cmp.Or(format.Newer("the journal", data, "format", Format), err)
	}
	if newer := format.NewerName("the journal", l.Format, Format); newer != nil {
		return nil, newer
	}
	return l, l.validate()
}

func (l *Line) validate() error {
	switch l.Kind {
	case Opened:
		if l.Format != Format || l.Attempt == "" || l.Origin == "" || l.Registered == nil || l.Prev != nil {
			return fmt.Errorf("it does not begin a journal of the format %s", Format)
		}
	case Intent:
		if l.Case == "" || l.Repeat < 1 || l.Execution < 1 || l.Call < 1 || l.Try < 1 || l.Pays == "" || l.Request == nil {
			return errors.New("it does not say which call is meant")
		}
	case Reply:
		if l.Intent < 1 || l.Interaction == nil || l.Outcome != "" && (l.Outcome != Refused || l.Cost != nil) {
			return errors.New("it has no intent or no reply, or a refused call has a cost")
		}
	case Failed:
		if l.Intent < 1 || l.Outcome != NotSent && l.Outcome != Refused && l.Outcome != Unknown {
			return errors.New("it has no intent or no outcome")
		}
	case Resumed, Ended, Done:
		if l.Case == "" || l.Repeat < 1 || l.Execution < 1 || (l.Kind == Ended) != (l.Trajectory != nil) {
			return errors.New("it does not say which execution is meant")
		}
	default:
		return fmt.Errorf("its kind is %.20q", string(l.Kind))
	}
	if l.Ceiling != nil && *l.Ceiling < 0 || l.Cost != nil && *l.Cost < 0 {
		return errors.New("it has a cost below zero")
	}
	return nil
}

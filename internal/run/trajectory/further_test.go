package trajectory

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// noticed is a made-up event, and all that adding one takes.
type noticed struct {
	What string `json:"what"`
}

func (*noticed) Type() Type                { return "noticed" }
func (p *noticed) Summary() string         { return "noticed " + p.What }
func (p *noticed) Subject() (string, bool) { return p.What, true }
func (*noticed) golden() golden            { return golden{line: []string{"what"}} }

// Validate is what "make docs" writes from the rules of the type.
func (p *noticed) Validate() error {
	if p.What == "" {
		return errors.New("what is empty")
	}
	return nil
}

// TestAFurtherEventTypeIsOneFileAndOneRow adds one to a copy of the table.
func TestAFurtherEventTypeIsOneFileAndOneRow(t *testing.T) {
	written := func() *Log {
		l := NewLogWithEvents()
		for i, p := range []Payload{
			&RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: Format, Repeat: 1, Target: "t"},
			&TurnStarted{}, &noticed{What: "a lamp"}, &RunCompleted{Status: "completed"},
		} {
			if _, err := l.Append(min(i, 1), p, 0); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	l := written()
	if _, err := Verify(l.Bytes(), HeadIs(l.Head())); err == nil || !strings.Contains(err.Error(), "noticed") {
		t.Errorf("it is read without its row: %v", err)
	}
	before := payloads
	payloads = append(slices.Clone(payloads), func() Payload { return new(noticed) })
	rows = byType(payloads)
	t.Cleanup(func() { payloads, rows = before, byType(before) })

	if types := Types(); types[len(types)-1] != "noticed" {
		t.Errorf("the types are %q", types)
	}
	l = written()
	v, err := Verify(l.Bytes(), HeadIs(l.Head()))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(v.Events())[2].Payload.Summary(); got != "noticed a lamp" {
		t.Errorf("it is told as %q", got)
	}
	trace, err := Canonical(v, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if golden := string(trace.Format()); !strings.Contains(golden, "noticed") || !strings.Contains(golden, "a lamp") {
		t.Errorf("the golden trace is\n%s", golden)
	}
}

package trajectory

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
)

// inV1 is a run in the first format.
func inV1() *RunStarted {
	s := started(plainRun)
	s.Format, s.Vantage = FormatV1, ""
	return s
}

// TestV1HasNoneOfTheLaterTypes: a reader of the first format would stumble over
// a type that it does not know, and a record of then must not grow.
func TestV1HasNoneOfTheLaterTypes(t *testing.T) {
	observed := &ToolObserved{Args: NewArgs(nil), Call: "c1", Name: "transfer", Vantage: Proposed}
	l := write(t, []step{{0, inV1()}, {1, &TurnStarted{}}}, time.Millisecond)
	if _, err := l.Append(1, observed, time.Second); err == nil || !strings.Contains(err.Error(), "has no type tool_observed") {
		t.Errorf("the log writes it into v1: %v", err)
	}
	// As a file that somebody else wrote: the chain of v2, with the format of v1.
	forged := []byte{}
	head := write(t, []step{{0, inV1()}}, time.Millisecond)
	forged = append(forged, head.Bytes()...)
	e := Event{Seq: 2, Type: ToolObservedType, Payload: observed, Prev: head.Head()}
	forged, err := e.append(forged)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Verify(forged, UnsafeAnyHead())
	wantRefusal(t, err, 2, "has no type tool_observed", refusal.EntryInvalid)
	for typ := range sinceV2 {
		if NewPayload(typ) == nil {
			t.Errorf("%s is no type", typ)
		}
	}

	withVantage := inV1()
	withVantage.Vantage = SeenInside
	if _, err := NewLog().Append(0, withVantage, 0); err == nil || !strings.Contains(err.Error(), "vantage is there, and format is "+FormatV1) {
		t.Errorf("v1 with a vantage: %v", err)
	}
	offers := &ModelCallStarted{Call: "c1", Model: "m", Prompt: text("p"), Provider: "openai", Request: text("r").Digest, Tools: []string{"t"}}
	if _, err := l.Append(1, offers, time.Second); err == nil || !strings.Contains(err.Error(), "has no tools") {
		t.Errorf("v1 with offered tools: %v", err)
	}
	unknown := started(plainRun)
	unknown.Format = "tallystick-trajectory/v3"
	if _, err := NewLog().Append(0, unknown, 0); err == nil {
		t.Error("an unknown format is accepted")
	}
}

func TestObservedCallsAreProposedOrReportedAndNothingBetween(t *testing.T) {
	for name, p := range map[string]*ToolObserved{
		"a proposal with a result": {Name: "n", Result: textPointer("x"), Vantage: Proposed},
		"a proposal that failed":   {Name: "n", Error: true, Vantage: Proposed},
		"a report without result":  {Name: "n", Vantage: Reported},
		"executed":                 {Name: "n", Vantage: Executed},
		"without vantage":          {Name: "n"},
	} {
		p.Args, p.Call = NewArgs(nil), "c1"
		if p.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestGoldenTracesOfV1StillFit: a bench keeps golden traces that were written
// before anything was observed.
func TestGoldenTracesOfV1StillFit(t *testing.T) {
	old := []step{{0, inV1()}, {1, &TurnStarted{}}, {1, &TurnCompleted{Answer: textPointer("x")}}, {1, &RunCompleted{Status: "completed"}}}
	golden := trace(t, old).Format()
	now := []step{{0, started(plainRun)}, {1, &TurnStarted{}},
		{1, &ToolObserved{Args: NewArgs(nil), Call: "c1", Name: "transfer", Vantage: Proposed}},
		{1, &TurnCompleted{Answer: textPointer("x")}}, {1, &RunCompleted{Status: "completed"}}}
	v := verified(t, now, time.Millisecond)
	if d, err := CheckGolden(golden, v, Options{}); d != nil || err != nil {
		t.Errorf("diverges: %v, %v", d, err)
	}
	// What v1 did write down still counts, and so does an observed call beside
	// a golden trace of v2.
	now[3].payload = &TurnCompleted{Answer: textPointer("y")}
	if d, err := CheckGolden(golden, verified(t, now, time.Millisecond), Options{}); d == nil || d.Change != ChangedAnswer || d.Step != 2 {
		t.Errorf("another answer: %v, %v", d, err)
	}
	golden = bytes.Replace(golden, []byte(FormatV1), []byte(Format), 1)
	if d, err := CheckGolden(golden, v, Options{}); d == nil || d.Change != New {
		t.Errorf("a call more: %v, %v", d, err)
	}
}

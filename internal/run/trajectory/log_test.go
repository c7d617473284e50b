package trajectory

import (
	"reflect"
	"testing"
)

// What a log says of itself is what a reader of its bytes finds.
func TestLogIsWhatVerifyMakesOfItsBytes(t *testing.T) {
	l := NewLogWithEvents()
	text := NewContent([]byte("hi"), PromptHead)
	for _, p := range []Payload{
		&RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: Format, Repeat: 1, Target: "t"},
		&TurnStarted{Input: &text},
		&ToolProposed{Call: "c1", Name: "look", Args: NewArgs([]byte(`{"prev":",\"prev\":\"sha256:"}`))},
		&RunCompleted{Status: "completed"},
	} {
		turn := 1
		if _, first := p.(*RunStarted); first {
			turn = 0
		}
		if _, err := l.Append(turn, p, 0); err != nil {
			t.Fatal(err)
		}
	}
	want, err := Verify(l.Bytes(), HeadIs(l.Head()))
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Verified(); !reflect.DeepEqual(got, want) {
		t.Errorf("the log says\n%+v\nits bytes say\n%+v", got, want)
	}
}

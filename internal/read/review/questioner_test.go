package review

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// A y that was typed before a question is no answer to it: it may have been meant for
// another one.
func TestWhatWasTypedBeforeIsNoAnswer(t *testing.T) {
	typed, keyboard := io.Pipe()
	var out bytes.Buffer
	q := NewQuestioner(context.Background(), typed, &out)
	io.WriteString(keyboard, "y\nyes\n") // both lines are read before the question is there
	asked := make(chan bool)
	go func() {
		yes, err := q.Sure(context.Background(), "sign it? ")
		if err != nil {
			t.Error(err)
		}
		asked <- yes
	}()
	time.Sleep(3 * settle)
	io.WriteString(keyboard, "n\n")
	if <-asked {
		t.Error("what was typed before is taken for a yes")
	}
	go func() {
		yes, _ := q.Sure(context.Background(), "and this? ")
		asked <- yes
	}()
	time.Sleep(3 * settle)
	io.WriteString(keyboard, "YES\n")
	if !<-asked {
		t.Error("a yes is not taken")
	}
	// Nobody answers, and the terminal goes away.
	ctx, cancel := context.WithTimeout(context.Background(), 2*settle)
	defer cancel()
	if yes, err := q.Sure(ctx, "and this? "); yes || err == nil {
		t.Errorf("without an answer: %v, %v", yes, err)
	}
	keyboard.Close()
	if yes, err := q.Sure(context.Background(), "and this? "); yes || err != nil {
		t.Errorf("without a keyboard: %v, %v", yes, err)
	}
	if n := strings.Count(out.String(), "?"); n != 4 {
		t.Errorf("%d questions were asked", n)
	}
}

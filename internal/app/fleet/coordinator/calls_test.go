package coordinator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// A model counts its calls and answers each with its number, while the gate is open.
type model struct {
	gate chan struct{}

	mu    sync.Mutex
	calls int
}

func (m *model) Cassette() ([]byte, error) { return nil, nil }

func (m *model) Call(ctx context.Context, _ wire.API, _ []byte, _ func(string) error) (*cassette.Interaction, error) {
	m.mu.Lock()
	m.calls++
	n := m.calls
	m.mu.Unlock()
	select {
	case <-m.gate:
		return nil, refusal.Newf(refusal.LimitReached, "answer %d", n)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestAModelCallIsMadeOnce: a worker that asks for the same call again is given the same
// answer, whether the model has answered by then or not. A call of another name is
// another call, and so is one without a name.
func TestAModelCallIsMadeOnce(t *testing.T) {
	m := &model{gate: make(chan struct{})}
	y := newYard(t)
	y.live = m
	ticket, got := y.given(y.a, "c1")
	call := func(name string) *fleet.ModelCall {
		return &fleet.ModelCall{Fleet: y.c.id, Ticket: ticket, Call: name, API: "x", Body: "{}"}
	}
	ask := func(name string, want int) {
		y.Helper()
		if data := y.a.send("model", call(name)).Data; !strings.Contains(string(data), fmt.Sprintf(`"answer %d"`, want)) {
			y.Errorf("call %q was answered %s, expected answer %d", name, data, want)
		}
	}
	// The first question is not heard.
	y.must(y.a.nc.Publish(fleet.Subject("model", y.a.user), y.a.say("model", "", call("one"), nil)))
	until := func(done func(*modelCall) bool) {
		y.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			y.c.mu.Lock()
			made := y.c.offers[ticket].claim.models["one"]
			ready := made != nil && done(made)
			y.c.mu.Unlock()
			if ready {
				return
			}
			if time.Now().After(deadline) {
				y.Fatal("waited in vain for the call")
			}
		}
	}
	until(func(*modelCall) bool { return true })
	asked := make(chan struct{})
	go func() { defer close(asked); ask("one", 1) }()
	until(func(c *modelCall) bool { return c.asked.to != "" })
	close(m.gate)
	<-asked
	ask("one", 1)
	ask("two", 2)
	ask("one", 1)
	ask("", 3)
	ask("", 4)
	y.a.result(ticket, "c1", nil)
	y.wantTaken(got)
	if a := y.a.answer(y.a.send("model", call("one"))); !a.Gone || m.calls != 4 {
		y.Errorf("after the case it is told %+v, and the model was asked %d times", a, m.calls)
	}
}

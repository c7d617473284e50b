package coordinator

import (
	crand "crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/app/lab"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/harness"
)

// elsewhere is a coordinator with servers that are not its own, what it says to the
// person, and how the server is stopped.
func elsewhere(t *testing.T) (c *Coordinator, notes chan string, stop func()) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	olga, err := seal.NewKey(crand.Reader)
	must(err)
	wa, err := seal.NewKey(crand.Reader)
	must(err)
	al, err := seal.NewKey(crand.Reader)
	must(err)
	text, err := seal.Compose(1, digest.ID{}, []seal.Entry{{Principals: "alice", Key: al.Public(), Roles: []seal.Role{seal.Curator}},
		{Principals: "olga", Key: olga.Public(), Roles: []seal.Role{seal.Operator}}, {Principals: "wa", Key: wa.Public(), Roles: []seal.Role{seal.Worker}}})
	must(err)
	signers, err := seal.ParseSigners("signers", text)
	must(err)
	coordinator, err := bus.UserOf(olga.Public())
	must(err)
	worker, err := bus.UserOf(wa.Public())
	must(err)
	s, err := bus.Start(bus.ServerOptions{Listen: "127.0.0.1:0", Dir: t.TempDir(), Coordinator: coordinator, Workers: []string{worker}})
	must(err)
	t.Cleanup(s.Stop)
	notes = make(chan string, 1000)
	c = &Coordinator{o: fleet.Options{URL: s.URL(), Dir: t.TempDir(), Version: "v0", Silence: 50 * time.Millisecond, Note: func(format string, args ...any) { notes <- fmt.Sprintf(format, args...) }}, id: "thisfleet",
		crew:   lab.Crew{Signers: signers, Key: olga, Now: time.Now},
		shared: map[digest.Content][]byte{}, offers: map[string]*offer{}, late: map[string]string{}, done: map[string]string{}, workers: map[string]*workerState{}, users: map[string]*workerState{}}
	must(c.connect())
	t.Cleanup(c.close)
	must(c.Begin(t.Context(), harness.Start{Registered: &evidence.AttemptRegistered{Attempt: "sums.default.1"}, Left: 1, Refused: func(evidence.IntegrityEvent) error { return nil }, Standing: func() harness.Standing { return harness.Standing{} }}))
	return c, notes, s.Stop
}

type workerState = worker // worker is a name in elsewhere

// says waits until the person was told something.
func says(t *testing.T, notes chan string, want string) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case n := <-notes:
			if strings.Contains(n, want) {
				return
			}
		case <-deadline:
			t.Fatalf("the coordinator did not say %q", want)
		}
	}
}

func offered(t *testing.T, c *Coordinator) chan error {
	got := make(chan error, 1)
	go func() {
		_, err := c.Claim(t.Context(), harness.Offer{Job: harness.Job{Attempt: "sums.default.1", Case: "c1", Repeat: 1, Execution: 1}})
		got <- err
	}()
	return got
}

// TestServersThatAreGoneAreSaidAndEndTheAttempt: the coordinator does not wait in silence,
// whether a case was offered before its server went or is offered afterwards.
func TestServersThatAreGoneAreSaidAndEndTheAttempt(t *testing.T) {
	c, notes, stop := elsewhere(t)
	before := offered(t, c)
	for c.status().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	stop()
	says(t, notes, "are gone; waiting for them")
	after := offered(t, c)
	for _, got := range []chan error{before, after} {
		if err := <-got; !refusal.Is(err, refusal.ServerGone) || !strings.Contains(refusal.Of(err).Hint, "--resume") {
			t.Errorf("the case ended with %v", err)
		}
	}
}

// TestNoWorkerComesIsSaidAndEndsTheAttempt: neither does it wait for workers in silence,
// nor for ever.
func TestNoWorkerComesIsSaidAndEndsTheAttempt(t *testing.T) {
	c, notes, _ := elsewhere(t)
	got := offered(t, c)
	says(t, notes, "no worker has come yet; workers join with: tally fleet worker --join "+c.o.URL)
	if err := <-got; !refusal.Is(err, refusal.ServerGone) || !strings.Contains(err.Error(), "no worker has come") {
		t.Errorf("the case ended with %v", err)
	}
}

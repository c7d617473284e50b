package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

func newKey(t *testing.T) (*seal.Key, string) {
	t.Helper()
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	user, err := UserOf(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return key, user
}

func start(t *testing.T, workers ...string) *Server {
	t.Helper()
	s, err := Start(ServerOptions{Listen: "127.0.0.1:0", Dir: t.TempDir(), Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// TestTicketsAreTakenOnce: each ticket of a queue is given to one worker, one that is
// given back comes again, and one that is done does not.
func TestTicketsAreTakenOnce(t *testing.T) {
	ctx := context.Background()
	s := start(t)
	own, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	q, err := OpenQueue(ctx, own, "abc")
	if err != nil {
		t.Fatal(err)
	}
	const tickets = 20
	for i := range tickets {
		if err := q.Put(ctx, fleet.Ticket{Fleet: "abc", Ticket: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	seen, givenBack := map[string]int{}, false
	for len(seen) < tickets {
		taken, err := q.Take(ctx, 5*time.Second)
		if err != nil {
			t.Fatalf("after %d tickets: %v", len(seen), err)
		}
		seen[taken.Ticket.Ticket]++
		if taken.Ticket.Ticket == "7" && !givenBack {
			givenBack = true
			taken.Later()
			delete(seen, "7")
			continue
		}
		taken.Done()
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("ticket %s was taken %d times", id, n)
		}
	}
	if _, err := q.Take(ctx, 200*time.Millisecond); !errors.Is(err, ErrNoTicket) {
		t.Errorf("an empty queue gave %v", err)
	}
	for idle := false; !idle; {
		if idle, err = q.Idle(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAWorkerReachesOnlyItsOwn: the server refuses a key that it does not know,
// and lets a worker publish and read only what is its own.
func TestAWorkerReachesOnlyItsOwn(t *testing.T) {
	key, user := newKey(t)
	_, other := newKey(t)
	stranger, _ := newKey(t)
	s := start(t, user, other)
	if _, _, err := ConnectAs(s.URL(), stranger, fleet.Access{}); !refusal.Is(err, refusal.Failed) || !strings.Contains(err.Error(), "does not know this key") {
		t.Errorf("a stranger: %v", err)
	}
	own, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	heard := make(chan string, 10)
	if _, err := own.Subscribe(">", func(m *nats.Msg) {
		if strings.HasPrefix(m.Subject, "tally") {
			heard <- m.Subject
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := own.Flush(); err != nil {
		t.Fatal(err)
	}
	denied := make(chan error, 10)
	nc, _, err := ConnectAs(s.URL(), key, fleet.Access{}, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, subject := range []string{fleet.Subject("result", other), "tally-work.TALLY_abc", "tally-status", "$JS.API.STREAM.PURGE.TALLY_abc", "$JS.API.STREAM.MSG.GET.TALLY_abc", "$JS.API.CONSUMER.MSG.NEXT.TALLY_abc.workers", "$JS.ACK.TALLY_abc.workers.1.1.1.1.0", "$SYS.REQ.SERVER.PING", fleet.EndSubject(other)} {
		if err := nc.Publish(subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := <-denied; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("publishing to %s: %v", subject, err)
		}
	}
	for _, subject := range []string{">", fleet.Inbox(other) + ".>", fleet.Subject("*", user), "_INBOX.>"} {
		if _, err := nc.Subscribe(subject, func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
		if err := <-denied; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("reading %s: %v", subject, err)
		}
	}
	if err := nc.Publish(fleet.Subject("result", user), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != fleet.Subject("result", user) {
		t.Errorf("the coordinator heard %s first", got)
	}
}

// TestOnlyANonceIsSigned: the key of a worker signs results too, so a server must not
// be able to have one signed in the place of a nonce.
func TestOnlyANonceIsSigned(t *testing.T) {
	key, _ := newKey(t)
	if _, err := signNonce(key.Ed25519(), []byte("Zm9vYmFyYmF6cXV4")); err != nil {
		t.Error(err)
	}
	for _, nonce := range []string{"", "short", "SSHSIG\x00\x00\x00\x11tallystick-result", "tallystick-result {}", strings.Repeat("a", 65)} {
		if _, err := signNonce(key.Ed25519(), []byte(nonce)); err == nil {
			t.Errorf("%q was signed", nonce)
		}
	}
}

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/harness"
)

// A remoteYard is a yard with a server that is not the coordinator's own, in which time
// passes quickly.
type remoteYard struct {
	*yard
	keys  map[string]*seal.Key
	notes chan string // what the person is told
	stop  func()      // stops the server
}

func elsewhere(t *testing.T) *remoteYard {
	t.Helper()
	y, keys := staff(t)
	r := &remoteYard{yard: y, keys: keys, notes: make(chan string, 1000)}
	var names []string
	for _, name := range []string{"olga", "wa"} {
		user, err := bus.UserOf(keys[name].Public())
		y.must(err)
		names = append(names, user)
	}
	s, err := bus.Start(bus.ServerOptions{Listen: "127.0.0.1:0", Dir: t.TempDir(), Coordinator: names[0], Workers: names[1:]})
	y.must(err)
	t.Cleanup(s.Stop)
	y.url, r.stop = s.URL(), s.Stop
	y.begin(fleet.Options{URL: y.url, Dir: t.TempDir(), Version: "v0", Silence: 50 * time.Millisecond,
		Note: func(format string, args ...any) { r.notes <- fmt.Sprintf(format, args...) }})
	return r
}

// says waits until the person was told something.
func (r *remoteYard) says(want string) {
	r.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case n := <-r.notes:
			if strings.Contains(n, want) {
				return
			}
		case <-deadline:
			r.Fatalf("the coordinator did not say %q", want)
		}
	}
}

func (r *remoteYard) offered() chan ended {
	got := make(chan ended, 1)
	go func() {
		_, err := r.c.Claim(r.Context(), harness.Offer{Job: harness.Job{Attempt: "sums.default.1", Case: "c1", Repeat: 1, Execution: 1}})
		got <- ended{nil, err}
	}()
	return got
}

// wantEnd waits until a case ended because the fleet did, so that it can be resumed.
func (r *remoteYard) wantEnd(got chan ended, why string) {
	r.Helper()
	select {
	case e := <-got:
		if !refusal.Is(e.err, refusal.ServerGone) || !strings.Contains(e.err.Error(), why) || !strings.Contains(refusal.Of(e.err).Hint, "--resume") {
			r.Errorf("the case ended with %v, expected %q", e.err, why)
		}
	case <-time.After(time.Minute):
		r.Fatalf("the case waits on, expected %q", why)
	}
}

// TestServersThatAreGoneAreSaidAndEndTheAttempt: the coordinator does not wait in silence,
// whether a case was offered before its server went, is with a worker, or is offered
// afterwards.
func TestServersThatAreGoneAreSaidAndEndTheAttempt(t *testing.T) {
	r := elsewhere(t)
	_, driven := r.given(r.join(r.keys["wa"]), "c2")
	before := r.offered()
	for r.c.status().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	r.stop()
	r.says("are gone; waiting for them")
	after := r.offered()
	for _, got := range []chan ended{before, driven, after} {
		r.wantEnd(got, "did not answer for")
	}
	// What is offered now is not tried until the servers are given up on.
	if err := r.c.offerTo(t.Context(), fleet.Ticket{Fleet: r.c.id, Ticket: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a ticket for a fleet that has ended: %v", err)
	}
}

// TestNoWorkerIsSaidAndEndsTheAttempt: neither does it wait for workers in silence, nor for
// ever: whether none has come, or those that came take nothing.
func TestNoWorkerIsSaidAndEndsTheAttempt(t *testing.T) {
	hello := func(r *remoteYard, version string) *hand {
		h := r.join(r.keys["wa"])
		h.send("hello", &fleet.Hello{Version: fleet.Version, Harness: version})
		return h
	}
	for name, tt := range map[string]struct {
		comes     func(r *remoteYard)
		said, why string
	}{
		"no worker comes":          {func(*remoteYard) {}, "no worker has come; ", "no worker has come, for"},
		"it comes and goes":        {func(r *remoteYard) { hello(r, "v0").nc.Close() }, "1 not heard of for", "1 not heard of for"},
		"it is of another version": {func(r *remoteYard) { hello(r, "v1") }, "1 of another version", "1 of another version"},
		"it is quarantined":        {func(r *remoteYard) { hello(r, "v0").result("x", "c1", nil) }, "1 quarantined", "1 quarantined"},
		"another uses its name":    {func(r *remoteYard) { r.join(r.keys["wa"]).drops("hello", []byte("not signed\n")) }, "no worker has come; ", "no worker has come, for"},
		"it is of none, and only beats": {func(r *remoteYard) {
			h := r.join(r.keys["wa"])
			r.must(h.nc.Publish(fleet.Subject("beat", h.user), h.say("beat", "", &fleet.Beat{Fleet: r.c.id, Tickets: []string{}}, nil)))
		}, "1 of another version", "1 of another version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := elsewhere(t)
			got := r.offered()
			tt.comes(r)
			r.says(tt.said)
			r.wantEnd(got, tt.why)
		})
	}
}

// TestAWorkerThatIsThereIsNotMissed: one that is heard of keeps the attempt, and what was
// said of its absence is taken back.
func TestAWorkerThatIsThereIsNotMissed(t *testing.T) {
	r := elsewhere(t)
	r.says("no worker has come; workers join with: tally fleet worker --join " + r.url)
	h := r.join(r.keys["wa"])
	h.send("hello", &fleet.Hello{Version: fleet.Version, Harness: "v0"})
	r.says("a worker is there")
	if why := r.c.missing(); why != "" && !strings.Contains(why, "1 not heard of") {
		t.Errorf("it is missed: %s", why)
	}
}

// TestAServerThatLetsStrangersInIsNotUsed: the coordinator looks before it connects. To the
// operator's own key such a server looks like any other.
func TestAServerThatLetsStrangersInIsNotUsed(t *testing.T) {
	for name, strangers := range map[string]*server.User{
		"a stranger is a guest":      {Username: "guest", Password: "g"},
		"a stranger may do nothing":  {Username: "guest", Password: "g", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{">"}}, Subscribe: &server.SubjectPermission{Deny: []string{">"}}}},
		"a stranger may read a part": {Username: "guest", Password: "g", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{"tally.>"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			y, keys := staff(t)
			olga, err := bus.UserOf(keys["olga"].Public())
			y.must(err)
			s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
				Nkeys: []*server.NkeyUser{{Nkey: olga}}, Users: []*server.User{strangers}, NoAuthUser: "guest"})
			y.must(err)
			go s.Start()
			t.Cleanup(s.Shutdown)
			if !s.ReadyForConnections(20 * time.Second) {
				t.Fatal("the server does not listen")
			}
			y.c.o = fleet.Options{URL: s.ClientURL(), Dir: t.TempDir(), Version: "v0", Note: func(string, ...any) {}}
			if err := y.c.connect(); !refusal.Is(err, refusal.ServerOpen) || !strings.Contains(err.Error(), "without a key") || y.c.nc != nil {
				t.Errorf("connected: %v", err)
			}
		})
	}
}

// TestWhatWorkersSayOfThemselvesIsShort: the status of a fleet can be sent and read, and
// says of a sandbox only what the harness has accepted.
func TestWhatWorkersSayOfThemselvesIsShort(t *testing.T) {
	y := newYard(t)
	y.c.o.AnyVersion = true
	long := strings.Repeat("é", 500_000)
	ticket, got := y.given(y.a, "c1")
	y.a.send("hello", &fleet.Hello{Version: fleet.Version, Harness: long, Label: long})
	y.b.send("claim", &fleet.Claim{Fleet: y.c.id, Name: "x", Harness: "v0", Label: long})
	y.a.result(ticket, "c1", func(r *fleet.Result) { r.Repeat, r.Driven.Isolation = 2, long })
	<-got
	y.c.leaveStatus()
	s, err := fleet.LoadStatus(y.c.o.Dir)
	y.must(err)
	for _, w := range s.Workers {
		if len(w.Label) > 200 || len(w.Version) > 200 || w.Isolation != "" || !strings.HasPrefix(long, w.Label) {
			t.Errorf("a worker has %d bytes of label, %d of version, %d of isolation", len(w.Label), len(w.Version), len(w.Isolation))
		}
	}
	ticket, got = y.given(y.b, "c2")
	y.b.result(ticket, "c2", func(r *fleet.Result) { r.Driven.Isolation = "gvisor" })
	y.wantTaken(got)
	if w := y.b.state(); w.Isolation != "gvisor" {
		t.Errorf("the status says %q of the sandbox", w.Isolation)
	}
}

package coordinator

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/app/lab"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/scenario"
)

// A yard is a coordinator with its server, and workers whose messages are made by hand.
type yard struct {
	*testing.T
	c    *Coordinator
	url  string // of the server
	a, b *hand
	more []*seal.Key       // of further workers
	live harness.Recording // of cases that are given; nil for none

	mu     sync.Mutex
	now    time.Time // zero for the time that it is
	events []evidence.IntegrityEvent
}

// A hand is a worker that sends what it is told to.
type hand struct {
	y    *yard
	key  *seal.Key
	nc   *nats.Conn
	user string
}

// newYard is a yard with an embedded server, in which time passes when a test says so.
func newYard(t *testing.T) *yard {
	t.Helper()
	y, keys := staff(t)
	y.now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	y.begin(fleet.Options{URL: fleet.Embedded, Listen: "127.0.0.1:0", Dir: t.TempDir(), Version: "v0", Note: func(string, ...any) {}})
	y.url = y.c.server.URL()
	y.a, y.b = y.join(keys["wa"]), y.join(keys["wb"])
	return y
}

// staff is a yard of people and workers, whose coordinator has not begun.
func staff(t *testing.T) (*yard, map[string]*seal.Key) {
	t.Helper()
	y := &yard{T: t}
	var entries []seal.Entry
	keys := map[string]*seal.Key{}
	for name, role := range map[string]seal.Role{"alice": seal.Curator, "bob": seal.Curator, "olga": seal.Operator, "wa": seal.Worker, "wb": seal.Worker} {
		key, err := seal.NewKey(crand.Reader)
		y.must(err)
		keys[name] = key
		entries = append(entries, seal.Entry{Principals: name, Key: key.Public(), Roles: []seal.Role{role}})
	}
	for i := range 4 {
		key, err := seal.NewKey(crand.Reader)
		y.must(err)
		y.more = append(y.more, key)
		entries = append(entries, seal.Entry{Principals: fmt.Sprint("more", i), Key: key.Public(), Roles: []seal.Role{seal.Worker}})
	}
	text, err := seal.Compose(1, digest.ID{}, entries)
	y.must(err)
	signers, err := seal.ParseSigners("signers", text)
	y.must(err)
	y.c = newCoordinator(fleet.Options{}, lab.Crew{Signers: signers, Key: keys["olga"], Now: y.clock})
	return y, keys
}

// begin connects the coordinator and begins an attempt.
func (y *yard) begin(o fleet.Options) {
	y.Helper()
	y.c.o = o
	y.must(y.c.connect())
	y.Cleanup(func() {
		y.c.byes = nil // the workers are gone by then, and say no goodbye
		y.c.close()
	})
	y.must(y.c.Begin(y.Context(), harness.Start{Registered: &evidence.AttemptRegistered{Attempt: "sums.default.1"}, Left: 1, Refused: y.refused,
		Standing: func() harness.Standing { return harness.Standing{CostMicroUSD: 7, Disagreed: 1} }}))
}

func (y *yard) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *yard) clock() time.Time {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.now.IsZero() {
		return time.Now()
	}
	return y.now
}

func (y *yard) pass(d time.Duration) {
	y.mu.Lock()
	y.now = y.now.Add(d)
	y.mu.Unlock()
	y.c.dropSilent()
}

func (y *yard) refused(e evidence.IntegrityEvent) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.events = append(y.events, e)
	return nil
}

func (y *yard) join(key *seal.Key) *hand {
	y.Helper()
	nc, user, err := bus.ConnectAs(y.url, key, fleet.Access{}, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	y.must(err)
	y.Cleanup(nc.Close)
	return &hand{y, key, nc, user}
}

// An ended is what the harness gets of a case.
type ended struct {
	driven *harness.DriveResult
	err    error
}

// given offers a case and has a worker claim it.
func (y *yard) given(h *hand, id string) (ticket string, got chan ended) {
	y.Helper()
	job := harness.Job{Attempt: "sums.default.1", Case: id, Repeat: 1, Execution: 1}
	got = make(chan ended, 1)
	go func() {
		k, err := y.c.Claim(y.Context(), harness.Offer{Job: job})
		if err != nil {
			got <- ended{nil, err}
			return
		}
		d, err := k.Drive(y.Context(), harness.Handout{Job: job, Live: y.live, Case: &scenario.Task{ID: id, Files: []digest.File{{Path: "f", Data: []byte("of " + id)}}}})
		k.Verdict(err)
		got <- ended{d, err}
	}()
	var out fleet.Handout
	for m := (*nats.Msg)(nil); ; {
		m = h.send("claim", &fleet.Claim{Fleet: y.c.id, Name: crand.Text(), Harness: "v0"})
		if bytes.Contains(m.Data, []byte(`{"none":true}`)) {
			continue
		}
		if _, err := fleet.Open(m.Data, y.c.crew.Signers, seal.NamespaceWork, seal.Operator, y.clock(), &out); err != nil {
			y.Fatalf("the claim got %s: %v", m.Data, err)
		}
		return out.Ticket, got
	}
}

// say signs a message as a worker does.
func (h *hand) say(verb, answer string, document any, rest []byte) []byte {
	h.y.Helper()
	data, err := fleet.Say(h.key, verb, answer, document, rest)
	h.y.must(err)
	return data
}

func (h *hand) send(verb string, document any) *nats.Msg {
	h.y.Helper()
	return h.sendWith(verb, document, nil)
}

func (h *hand) sendWith(verb string, document any, rest []byte) *nats.Msg {
	h.y.Helper()
	ctx, cancel := context.WithTimeout(h.y.Context(), 30*time.Second)
	defer cancel()
	answer := crand.Text()
	got, err := bus.Ask(ctx, h.nc, fleet.Subject(verb, h.user), fleet.AnswerSubject(h.user, answer), h.say(verb, answer, document, rest))
	h.y.must(err)
	return got
}

// drops sends something and waits until it was dropped.
func (h *hand) drops(verb string, data []byte) {
	h.y.Helper()
	before := h.y.c.status().Refused
	h.y.must(h.nc.Publish(fleet.Subject(verb, h.user), data))
	for deadline := time.Now().Add(time.Minute); h.y.c.status().Refused == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.y.Fatal("it was not dropped")
		}
	}
}

func (h *hand) answer(m *nats.Msg) (a fleet.Answer) {
	h.y.Helper()
	h.y.must(canon.Unmarshal(m.Data, &a))
	return a
}

// result sends a result that is right but for what change does.
func (h *hand) result(ticket, id string, change func(*fleet.Result)) fleet.Answer {
	h.y.Helper()
	r := &fleet.Result{Fleet: h.y.c.id, Ticket: ticket, Attempt: "sums.default.1", CaseID: id, Repeat: 1, Execution: 1, Harness: "v0", Pieces: []fleet.File{}}
	if change != nil {
		change(r)
	}
	return h.answer(h.send("result", r))
}

// put sends a part of a piece.
func (h *hand) put(ticket string, name digest.Content, data []byte, last bool) fleet.Answer {
	h.y.Helper()
	return h.answer(h.sendWith("put", &fleet.Part{Fleet: h.y.c.id, Ticket: ticket, Digest: name, Last: last}, data))
}

// state is what the coordinator thinks of a worker.
func (h *hand) state() worker {
	h.y.c.mu.Lock()
	defer h.y.c.mu.Unlock()
	w, _ := h.y.c.byUser(h.user)
	return *w
}

// wantOut wants a worker that gets nothing more, an event that says why, and the case
// lost to it.
func (y *yard) wantOut(h *hand, why string, got chan ended) {
	y.Helper()
	if q := h.state().Quarantined; !strings.Contains(q, why) {
		y.Errorf("quarantined for %q, expected %q", q, why)
	}
	y.wantEvent("fleet.worker.quarantined", why)
	if got != nil {
		if e := <-got; !errors.Is(e.err, harness.ErrDriverLost) {
			y.Errorf("the case ended with %+v, expected a lost worker", e)
		}
	}
	if a := h.answer(h.send("hello", &fleet.Hello{Version: fleet.Version, Harness: "v0"})); !a.Leave {
		y.Errorf("after that it is told %+v", a)
	}
}

// wantEvent waits for an event: a worker may be answered before it is written.
func (y *yard) wantEvent(name, detail string) {
	y.Helper()
	for deadline := time.Now().Add(time.Minute); !y.hasEvent(name, detail); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			y.Fatalf("no event %s with %q among %+v", name, detail, y.events)
		}
	}
}

func (y *yard) hasEvent(name, detail string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return slices.ContainsFunc(y.events, func(e evidence.IntegrityEvent) bool {
		return e.Name == name && strings.Contains(e.Detail, detail)
	})
}

// knows reports whether messages under a name are looked at.
func (y *yard) knows(user string) bool {
	y.c.mu.Lock()
	defer y.c.mu.Unlock()
	_, ok := y.c.byUser(user)
	return ok
}

func (y *yard) wantIn(h *hand) {
	y.Helper()
	if q := h.state().Quarantined; q != "" {
		y.Errorf("quarantined for %q", q)
	}
}

// wantTaken wants the case to have come back whole.
func (y *yard) wantTaken(got chan ended) {
	y.Helper()
	if e := <-got; e.err != nil || e.driven == nil {
		y.Errorf("the case ended with %+v", e)
	}
}

// TestHostileWorkersGainNothing: what no honest worker sends is refused, the ledger is
// told, and its sender gets nothing more.
func TestHostileWorkersGainNothing(t *testing.T) {
	big := bytes.Repeat([]byte("x"), fleet.MaxPart+1)
	part := big[:1000]
	name := digest.ContentOf(part)
	for _, tt := range []struct {
		name string
		do   func(y *yard)
	}{
		{"a result of a case that was never given out", func(y *yard) {
			if a := y.a.result(strings.Repeat("0", 32), "c1", nil); !a.Leave {
				y.Errorf("told %+v", a)
			}
			y.wantOut(y.a, "which it was not given", nil)
		}},
		{"a result of another worker's case", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.b.result(ticket, "c1", nil)
			y.wantOut(y.b, "which it was not given", nil)
			y.a.result(ticket, "c1", nil)
			y.wantTaken(got)
			y.wantIn(y.a)
		}},
		{"a result that another key signed", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			r := &fleet.Result{Fleet: y.c.id, Ticket: ticket, Attempt: "sums.default.1", CaseID: "c1", Repeat: 1, Execution: 1, Harness: "v0", Pieces: []fleet.File{}}
			y.b.drops("result", y.a.say("result", "x", r, nil))
			y.wantIn(y.b)
			y.wantIn(y.a)
			y.a.result(ticket, "c1", nil)
			y.wantTaken(got)
		}},
		{"a result that is signed for another act", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			data, err := fleet.Sign(y.a.key, seal.NamespaceWork, &fleet.Message{Verb: "result", Answer: "x", Body: []byte("{}")})
			y.must(err)
			y.a.drops("result", append(data, '\n'))
			y.wantIn(y.a)
			y.a.result(ticket, "c1", nil)
			y.wantTaken(got)
		}},
		{"a claim that another key signed", func(y *yard) {
			y.b.drops("claim", y.a.say("claim", "x", &fleet.Claim{Fleet: y.c.id, Name: "x", Harness: "v0"}, nil))
			y.wantIn(y.b)
			y.wantIn(y.a)
		}},
		{"another case under its own ticket", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.a.result(ticket, "c2", nil)
			y.wantOut(y.a, "and the claim of case c1", got)
		}},
		{"another execution", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.a.result(ticket, "c1", func(r *fleet.Result) { r.Execution = 2 })
			y.wantOut(y.a, "execution 2", got)
		}},
		{"pieces that the result does not name rightly", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.a.result(ticket, "c1", func(r *fleet.Result) { r.Pieces = []fleet.File{{Digest: name, Bytes: 1 << 40}} })
			y.wantOut(y.a, "not those that the result names", got)
		}},
		{"a replayed result", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.a.result(ticket, "c1", nil)
			y.wantTaken(got)
			if a := y.a.result(ticket, "c1", nil); !a.Gone {
				y.Errorf("the replay is told %+v", a)
			}
			if n := y.c.status().Done; n != 1 {
				y.Errorf("%d cases are done", n)
			}
			y.wantIn(y.a)
		}},
		{"a result of another fleet", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			if a := y.a.result(ticket, "c1", func(r *fleet.Result) { r.Fleet = "otherfleet" }); !a.Gone {
				y.Errorf("told %+v", a)
			}
			y.wantEvent("fleet.result.late", "another fleet")
			y.wantIn(y.a)
			y.a.result(ticket, "c1", nil)
			y.wantTaken(got)
		}},
		{"a late result", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.pass(fleet.Silence + time.Second)
			if e := <-got; !errors.Is(e.err, harness.ErrDriverLost) {
				y.Errorf("the case ended with %+v", e)
			}
			if a := y.a.result(ticket, "c1", nil); !a.Gone {
				y.Errorf("told %+v", a)
			}
			y.wantEvent("fleet.result.late", "after it was given to another worker")
			y.wantIn(y.a)
		}},
		{"a piece of another worker's case", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.b.put(ticket, name, part, true)
			y.wantOut(y.b, "a piece for a case that it does not have", nil)
			y.a.result(ticket, "c1", nil)
			if e := <-got; e.err != nil || len(e.driven.Pieces) != 0 {
				y.Errorf("the case has foreign pieces: %+v", e)
			}
		}},
		{"a part that is too large", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.a.put(ticket, name, big, false)
			y.wantOut(y.a, "a part of a piece has", got)
		}},
		{"a piece that does not have its digest", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.a.put(ticket, digest.ContentOf(nil), part, true)
			y.wantOut(y.a, "does not have its digest", got)
		}},
		{"more than a result may have", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.c.mu.Lock()
			y.c.offers[ticket].claim.bytes = fleet.MaxResult - 1
			y.c.mu.Unlock()
			y.a.put(ticket, name, part, false)
			y.wantOut(y.a, "over 268435456 bytes", got)
		}},
		{"a piece that grows without end", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.c.mu.Lock()
			y.c.offers[ticket].claim.parts[name] = bytes.NewBuffer(make([]byte, fleet.MaxPiece))
			y.c.mu.Unlock()
			y.a.put(ticket, name, part, false)
			y.wantOut(y.a, "more than 134217728 bytes", got)
		}},
		{"too many pieces", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.c.mu.Lock()
			for i := range fleet.MaxPieces {
				y.c.offers[ticket].claim.pieces[digest.ContentOf([]byte{byte(i), byte(i >> 8)})] = nil
			}
			y.c.mu.Unlock()
			y.a.put(ticket, name, part, true)
			y.wantOut(y.a, "over 20000 pieces", got)
		}},
		{"a piece after the result", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.c.mu.Lock()
			y.c.offers[ticket].claim.answered = &request{}
			y.c.mu.Unlock()
			if a := y.a.put(ticket, name, part, true); !a.Gone {
				y.Errorf("told %+v", a)
			}
			y.c.mu.Lock()
			k := y.c.offers[ticket].claim
			if len(k.pieces) != 0 {
				y.Errorf("%d pieces were added to what is being graded", len(k.pieces))
			}
			k.answered = nil
			y.c.mu.Unlock()
			y.a.result(ticket, "c1", nil)
			y.wantTaken(got)
		}},
		{"a flood of messages", func(y *yard) {
			y.a.state() // it is known now
			y.c.mu.Lock()
			y.c.workers[y.a.key.Fingerprint()].atWork = maxAtWork
			y.c.mu.Unlock()
			y.a.drops("result", y.a.say("result", "x", &fleet.Result{Fleet: y.c.id, Ticket: "x", Pieces: []fleet.File{}}, nil))
			if n := y.c.status().Refused; n != 1 {
				y.Errorf("%d refused", n)
			}
			ticket, got := y.given(y.b, "c1") // others are served meanwhile
			y.b.result(ticket, "c1", nil)
			y.wantTaken(got)
		}},
		{"a flood of pieces", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.c.mu.Lock()
			y.c.offers[ticket].claim.worker.held += maxHeld
			y.c.mu.Unlock()
			if a := y.a.put(ticket, name, part, false); !strings.Contains(a.Error, "too much at once") {
				y.Errorf("told %+v", a)
			}
			y.a.result(ticket, "c1", nil)
			y.wantTaken(got)
		}},
		{"a model call of a case that it does not have", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			y.b.send("model", &fleet.ModelCall{Fleet: y.c.id, Ticket: ticket, API: "x", Body: "{}"})
			y.wantOut(y.b, "a model call of a case that it does not have", nil)
			y.a.result(ticket, "c1", nil)
			y.wantTaken(got)
		}},
		{"a file of another worker's case", func(y *yard) {
			ticket, got := y.given(y.a, "c1")
			data := &fleet.Fetch{Ticket: ticket, Digest: digest.ContentOf([]byte("of c1"))}
			if m := y.b.send("fetch", data); string(m.Data) == "of c1" {
				y.Error("it was given the file")
			}
			if m := y.a.send("fetch", data); string(m.Data) != "of c1" {
				y.Errorf("the worker that has the case was given %s", m.Data)
			}
			y.a.result(ticket, "c1", nil)
			y.wantTaken(got)
		}},
		{"all its cases are taken away with the first lie", func(y *yard) {
			_, other := y.given(y.a, "c1")
			ticket, got := y.given(y.a, "c2")
			y.a.result(ticket, "c1", nil)
			y.wantOut(y.a, "and the claim of case c2", got)
			if e := <-other; !errors.Is(e.err, harness.ErrDriverLost) {
				y.Errorf("its other case ended with %+v", e)
			}
		}},
		{"a worker that always fails", func(y *yard) {
			fail := func(r *fleet.Result) { r.Failed = "I could not" }
			// Those that it had at the same time count once.
			first, got1 := y.given(y.a, "c1")
			second, got2 := y.given(y.a, "c2")
			y.pass(time.Second)
			for ticket, got := range map[string]chan ended{first: got1, second: got2} {
				id := map[string]string{first: "c1", second: "c2"}[ticket]
				y.a.result(ticket, id, fail)
				if e := <-got; !errors.Is(e.err, harness.ErrDriverLost) || !strings.Contains(e.err.Error(), "I could not") {
					y.Errorf("ended with %+v", e)
				}
			}
			if n := y.a.state().strikes; n != 1 {
				y.Errorf("%d strikes", n)
			}
			for range maxStrikes - 1 {
				y.wantIn(y.a)
				y.pass(time.Second)
				ticket, got := y.given(y.a, "c3")
				y.a.result(ticket, "c3", fail)
				<-got
			}
			y.wantOut(y.a, "3 times in a row", nil)
		}},
		{"a worker that is always silent", func(y *yard) {
			for range maxStrikes {
				y.wantIn(y.a)
				_, got := y.given(y.a, "c1")
				y.pass(fleet.Silence + time.Second)
				<-got
			}
			y.wantOut(y.a, "3 times in a row", nil)
		}},
		{"one result in between and it begins anew", func(y *yard) {
			for range 2 * maxStrikes {
				_, got := y.given(y.a, "c1")
				y.pass(fleet.Silence + time.Second)
				<-got
				ticket, got := y.given(y.a, "c2")
				y.a.result(ticket, "c2", nil)
				y.wantTaken(got)
			}
			y.wantIn(y.a)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.do(newYard(t)) })
	}
}

// TestASecondRunWaitsForAnotherWorker: a case that another worker is to run too waits as
// long as any other works, and two minutes longer; when it is known that no other
// is there the next one waits as long as a worker may be silent.
func TestASecondRunWaitsForAnotherWorker(t *testing.T) {
	y := newYard(t)
	y.c.stop() // who is silent is looked for by hand
	<-y.c.watched
	first := y.a.key.Public().Fingerprint()
	second := func(id string) chan error {
		got := make(chan error, 1)
		waiting := y.c.status().Waiting
		go func() {
			_, err := y.c.Claim(y.Context(), harness.Offer{Job: harness.Job{Attempt: "sums.default.1", Case: id, Repeat: 1, Execution: 1}, Not: first})
			got <- err
		}()
		for y.c.status().Waiting == waiting {
			time.Sleep(time.Millisecond)
		}
		return got
	}
	later := func(d time.Duration) {
		y.mu.Lock()
		y.now = y.now.Add(d)
		y.mu.Unlock()
		y.c.dropLonely()
	}
	waits := func(got chan error, why string) {
		y.Helper()
		if y.c.status().Waiting != 1 {
			y.Errorf("%s: it was given up: %v", why, <-got)
		}
	}
	givenUp := func(got chan error, why string) {
		y.Helper()
		if y.c.status().Waiting != 0 {
			y.Fatalf("%s: it is not given up", why)
		}
		if err := <-got; !errors.Is(err, harness.ErrNoSecond) {
			y.Errorf("%s: %v", why, err)
		}
	}

	got := second("c1")
	later(y.c.secondWait())
	waits(got, "two minutes")
	later(time.Second)
	givenUp(got, "longer than two minutes")
	got = second("c2")
	later(y.c.silence())
	waits(got, "no other worker is there, and it is just offered")
	later(time.Second)
	givenUp(got, "no other worker is there")

	ticket, taken := y.given(y.b, "c3")
	got = second("c4")
	later(10 * y.c.secondWait())
	waits(got, "another worker has a case")
	y.b.result(ticket, "c3", nil)
	y.wantTaken(taken)
	later(y.c.secondWait())
	waits(got, "another worker had a case two minutes ago")
	later(time.Second)
	givenUp(got, "the other worker does nothing any more")
}

// TestStatusAsksTheAttempt: what only the attempt knows is in the status.
func TestStatusAsksTheAttempt(t *testing.T) {
	if s := newYard(t).c.status(); s.CostMicroUSD != 7 || s.Disagreed != 1 {
		t.Errorf("status %+v", s)
	}
}

// TestOnlyNamedWorkersAreLetIn: a worker of the signers that the registration's
// runner_keys do not name is not let in by the server, nor answered.
func TestOnlyNamedWorkersAreLetIn(t *testing.T) {
	y := newYard(t)
	y.c.crew.Registration.RunnerKeys = []string{y.b.key.Public().String()}
	if _, ok := y.c.signerOf(y.a.user); ok {
		t.Error("a worker that is not named is taken for one")
	}
	if n := y.knows(y.a.user); n {
		t.Error("a worker that is not named is served")
	}
	if _, ok := y.c.signerOf(y.b.user); !ok {
		t.Error("a worker that is named is not taken for one")
	}
	y.c.crew.Registration.RunnerKeys = []string{y.c.crew.Key.Public().String()}
	other := &Coordinator{o: y.c.o, crew: y.c.crew}
	if err := other.connect(); err == nil || !strings.Contains(err.Error(), "none of the 6 workers of the signers is among the runner_keys") {
		t.Errorf("a fleet of which no worker counts: %v", err)
	}
}

// TestStatusIsLeftForPages: those who do not speak with the servers read it in a file,
// as long as the fleet runs.
func TestStatusIsLeftForPages(t *testing.T) {
	y := newYard(t)
	s, err := fleet.LoadStatus(y.c.o.Dir)
	if err != nil || s == nil || s.Attempt != "sums.default.1" || s.Planned != 1 || s.CostMicroUSD != 7 {
		t.Errorf("begun: %+v, %v", s, err)
	}
	y.c.close()
	if s, err := fleet.LoadStatus(y.c.o.Dir); err != nil || s != nil {
		t.Errorf("ended: %+v, %v", s, err)
	}
}

package coordinator

import (
	crand "crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
)

// A spy hears everything that is published at the server of a yard.
type spy struct {
	*yard
	nc *nats.Conn

	mu    sync.Mutex
	heard []string // subjects
}

func (y *yard) spy() *spy {
	y.Helper()
	nc, err := y.c.server.Connect()
	y.must(err)
	y.Cleanup(nc.Close)
	s := &spy{yard: y, nc: nc}
	_, err = nc.Subscribe(">", func(m *nats.Msg) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heard = append(s.heard, m.Subject)
	})
	y.must(err)
	y.must(nc.Flush())
	return s
}

// settle waits until everything that a worker sent was answered or dropped, and was heard.
func (s *spy) settle(h *hand) {
	s.Helper()
	s.must(h.nc.Flush())
	h.send("hello", &fleet.Hello{Version: fleet.Version, Harness: "v0"})
	for w := h.state(); w.atWork > 0; w = h.state() {
	}
	s.must(s.c.nc.Flush())
	s.must(s.nc.Flush())
}

// times is how often something was published to a subject.
func (s *spy) times(subject string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.heard {
		if h == subject {
			n++
		}
	}
	return n
}

// TestAnswersGoBelowTheSendersInbox: the reply subject that the envelope of a message
// names is nothing to the coordinator. Whatever a worker asks, and wherever it wants the
// answer, nothing is published beyond its own inbox, no other worker is held to have sent
// anything, and the queue stays.
func TestAnswersGoBelowTheSendersInbox(t *testing.T) {
	y := newYard(t)
	ticket, got := y.given(y.b, "c1")
	s := y.spy()
	stream := bus.StreamOf(y.c.id)
	replies := []string{
		fleet.Subject("result", y.b.user), fleet.Subject("hello", y.b.user), fleet.AnswerSubject(y.b.user, "x"), fleet.EndSubject(y.b.user),
		"$JS.API.STREAM.DELETE." + stream, "$JS.API.STREAM.PURGE." + stream, "$JS.API.CONSUMER.DELETE." + stream + ".workers", "$SYS.REQ.SERVER.PING",
		"tally-work." + stream, fleet.StatusSubject, "tally.*." + y.b.user, "_INBOX.x", "",
	}
	said := map[string]any{
		"hello": &fleet.Hello{Version: fleet.Version, Harness: "v0"}, "claim": &fleet.Claim{Fleet: y.c.id, Name: "x", Harness: "v1"},
		"fetch": &fleet.Fetch{Digest: y.c.welcome.Setup}, "beat": &fleet.Beat{Fleet: y.c.id, Tickets: []string{ticket}}, "bye": &fleet.Beat{Fleet: y.c.id, Tickets: []string{}},
	}
	for verb, document := range said {
		for _, reply := range replies {
			for _, answer := range []string{"", "x", reply} {
				for _, data := range [][]byte{y.a.say(verb, answer, document, nil), []byte(`{"harness_version":"v0","v":1}`), y.b.say(verb, answer, document, nil), nil} {
					before := s.times(reply)
					y.must(y.a.nc.PublishMsg(&nats.Msg{Subject: fleet.Subject(verb, y.a.user), Reply: reply, Data: data}))
					s.settle(y.a)
					if n := s.times(reply) - before; n > 0 && !strings.HasPrefix(reply, "tally.hello."+y.a.user) {
						t.Errorf("%s with reply %q, answer %q: %d messages were published there", verb, reply, answer, n)
					}
				}
			}
		}
	}
	if q := y.a.state().Quarantined + y.b.state().Quarantined; q != "" {
		t.Errorf("a worker is quarantined: %s", q)
	}
	y.b.result(ticket, "c1", nil)
	y.wantTaken(got)
	js, err := jetstream.New(y.c.nc)
	y.must(err)
	if _, err := js.Stream(t.Context(), stream); err != nil {
		t.Errorf("the queue: %v", err)
	}
}

// TestWhatIsSignedIsWhatWasSent: a message that a worker signed and another one changed,
// or sends as something else, is dropped, and costs the worker nothing. It need not be
// the server that sees to it.
func TestWhatIsSignedIsWhatWasSent(t *testing.T) {
	y := newYard(t)
	ticket, got := y.given(y.a, "c1")
	part := &fleet.Part{Fleet: y.c.id, Ticket: ticket, Digest: y.c.welcome.Setup}
	whole := y.a.say("put", "x", part, []byte("rest"))
	stranger, err := seal.NewKey(crand.Reader)
	y.must(err)
	foreign, err := fleet.Say(stranger, "result", "x", &fleet.Result{}, nil)
	y.must(err)
	for name, sent := range map[string]struct {
		verb string
		data []byte
	}{
		"another verb":                    {"result", whole},
		"other bytes after the document":  {"put", append(whole[:len(whole)-1:len(whole)-1], 'x')},
		"fewer bytes after the document":  {"put", whole[:len(whole)-1]},
		"none of those bytes":             {"put", whole[:len(whole)-4]},
		"more bytes after the document":   {"put", append(whole[:len(whole):len(whole)], 'x')},
		"bytes after one without any":     {"beat", append(y.a.say("beat", "", &fleet.Beat{Fleet: y.c.id, Tickets: []string{}}, nil), 'x')},
		"no end":                          {"hello", []byte(strings.TrimSuffix(string(y.a.say("hello", "x", &fleet.Hello{}, nil)), "\n"))},
		"an answer beside its inbox":      {"hello", y.a.say("hello", "x.y", &fleet.Hello{}, nil)},
		"an answer with a wildcard":       {"hello", y.a.say("hello", ">", &fleet.Hello{}, nil)},
		"an answer without an end":        {"hello", y.a.say("hello", strings.Repeat("x", 65), &fleet.Hello{}, nil)},
		"a key that is not a worker's":    {"result", foreign},
		"the operator's key":              {"hello", mustSay(t, y.c.crew.Key)},
		"nothing":                         {"hello", nil},
		"JSON that is not signed":         {"hello", []byte(`{"v":2}` + "\n")},
		"a member that there is not":      {"hello", []byte(`{"body":{},"more":1,"signature":""}` + "\n")},
		"a document that is cut short":    {"hello", []byte(`{"body":` + "\n")},
		"a message of more than is taken": {"hello", make([]byte, 7<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			y.a.drops(sent.verb, sent.data)
			if q := y.a.state().Quarantined; q != "" {
				t.Errorf("quarantined: %s", q)
			}
		})
	}
	y.a.result(ticket, "c1", nil)
	y.wantTaken(got)
}

func mustSay(t *testing.T, key *seal.Key) []byte {
	t.Helper()
	data, err := fleet.Say(key, "hello", "x", &fleet.Hello{Version: fleet.Version, Harness: "v0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestHeadersAreNotRead: what the headers of a message say changes nothing. Every message
// of a case is sent with headers that say everything else, and does what its signed
// document says.
func TestHeadersAreNotRead(t *testing.T) {
	y := newYard(t)
	ticket, got := y.given(y.a, "c1")
	other, its := y.given(y.b, "c2")
	piece := []byte("a piece of c1")
	name := digest.ContentOf(piece)
	lies := nats.Header{}
	for _, header := range []string{"Fleet", "Ticket", "Digest", "Last", "Verb", "Answer", "Worker", "Signature", "Harness", "Offset", "Status", "Description", "Nats-Rollup", "Nats-Msg-Id", "Nats-Expected-Stream", "Nats-TTL"} {
		for _, lie := range []string{"otherfleet", other, y.b.user, digest.ContentOf(nil).String(), "true", "all", "503", ""} {
			lies.Add(header, lie)
		}
	}
	send := func(verb string, document any, rest []byte) *nats.Msg {
		t.Helper()
		answer := crand.Text()
		sub, err := y.a.nc.SubscribeSync(fleet.AnswerSubject(y.a.user, answer))
		y.must(err)
		defer sub.Unsubscribe()
		y.must(y.a.nc.PublishMsg(&nats.Msg{Subject: fleet.Subject(verb, y.a.user), Header: lies, Data: y.a.say(verb, answer, document, rest)}))
		m, err := sub.NextMsg(time.Minute)
		y.must(err)
		if len(m.Header) > 0 {
			t.Errorf("%s is answered with headers: %v", verb, m.Header)
		}
		return m
	}
	if m := send("hello", &fleet.Hello{Version: fleet.Version, Harness: "v0"}, nil); !strings.Contains(string(m.Data), y.c.id) {
		t.Errorf("hello: %s", m.Data)
	}
	if m := send("fetch", &fleet.Fetch{Ticket: ticket, Digest: digest.ContentOf([]byte("of c1"))}, nil); string(m.Data) != "of c1" {
		t.Errorf("fetch: %s", m.Data)
	}
	if m := send("claim", &fleet.Claim{Fleet: y.c.id, Name: "x", Harness: "v0"}, nil); !strings.Contains(string(m.Data), `{"none":true}`) {
		t.Errorf("claim: %s", m.Data)
	}
	for _, part := range []struct {
		data []byte
		last bool
	}{{piece[:5], false}, {piece[5:], true}} {
		if a := y.a.answer(send("put", &fleet.Part{Fleet: y.c.id, Ticket: ticket, Digest: name, Last: part.last}, part.data)); a != (fleet.Answer{}) {
			t.Errorf("put: %+v", a)
		}
	}
	r := &fleet.Result{Fleet: y.c.id, Ticket: ticket, Attempt: "sums.default.1", CaseID: "c1", Repeat: 1, Execution: 1, Harness: "v0", Pieces: []fleet.File{}}
	if a := y.a.answer(send("result", r, nil)); a != (fleet.Answer{}) {
		t.Errorf("result: %+v", a)
	}
	if e := <-got; e.err != nil || string(e.driven.Pieces[name]) != string(piece) {
		t.Errorf("the case came back as %+v", e)
	}
	y.b.result(other, "c2", nil)
	y.wantTaken(its)
	y.wantIn(y.a)
	y.wantIn(y.b)
}

// TestStatusIsToldWhereItIsAsked: who asks for the status names a word, not a subject.
func TestStatusIsToldWhereItIsAsked(t *testing.T) {
	y := newYard(t)
	s := y.spy()
	asker, err := y.c.server.Connect()
	y.must(err)
	defer asker.Close()
	hostile := "$JS.API.STREAM.PURGE." + bus.StreamOf(y.c.id)
	for _, word := range []string{"", "x.y", ">", "*", strings.Repeat("x", 65), "a b", hostile} {
		y.must(asker.PublishRequest(fleet.StatusSubject, hostile, []byte(word)))
	}
	y.must(asker.Flush())
	if m, err := bus.Ask(t.Context(), asker, fleet.StatusSubject, fleet.StatusAnswer("word"), []byte("word")); err != nil || !strings.Contains(string(m.Data), "sums.default.1") {
		t.Errorf("the status: %v, %v", m, err)
	}
	y.must(s.nc.Flush())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, subject := range s.heard {
		if subject != fleet.StatusSubject && subject != fleet.StatusAnswer("word") && !strings.HasPrefix(subject, "$SYS.") && !strings.HasPrefix(subject, "$JS.EVENT.") {
			t.Errorf("something was published to %s", subject)
		}
	}
}

package coordinator

import (
	"bytes"
	crand "crypto/rand"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
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
	"tallystick/internal/run/harness"
	"tallystick/internal/run/scenario"
)

var (
	fuzzFor  = flag.Duration("envelopes", time.Second, "how long messages are mutated; .ci/conformance envelopes says a minute")
	fuzzSeed = flag.Uint64("envelope-seed", 0, "of the mutations; drawn unless told")
)

// TestMutatedMessagesAreHarmless: hostile workers say whatever comes out of a generator,
// envelope included: subjects, reply subjects, headers and bodies, signed by themselves,
// signed by others and not at all. The coordinator lives, an honest worker beside them
// brings every case back and is not held to have done anything, and the queue stays.
func TestMutatedMessagesAreHarmless(t *testing.T) {
	seed := *fuzzSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	said, cases := 0, 0
	for end := time.Now().Add(*fuzzFor); cases == 0 || time.Now().Before(end); seed++ {
		n, m := fuzzRound(t, rand.New(rand.NewPCG(seed, 1)), min(5*time.Second, max(time.Until(end), 300*time.Millisecond)))
		said, cases = said+n, cases+m
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
	t.Logf("%d messages beside %d cases of an honest worker", said, cases)
}

// fuzzRound has four hostile workers beside an honest one for a while. After a round they
// are all quarantined, mostly.
func fuzzRound(t *testing.T, r *rand.Rand, howLong time.Duration) (said, cases int) {
	y := newYard(t)
	s := y.spy()
	var stop sync.WaitGroup
	ended := make(chan struct{})
	counts := make([]int, len(y.more))
	for i, key := range y.more {
		f := &fuzzer{hand: y.join(key), other: y.b, rand: rand.New(rand.NewPCG(r.Uint64(), uint64(i)))}
		stop.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					f.say()
					counts[i]++
				}
			}
		})
	}
	for end := time.Now().Add(howLong); cases < 3 || time.Now().Before(end); cases++ {
		y.bringBack(y.b, fmt.Sprint("c", cases))
	}
	close(ended)
	stop.Wait()
	for _, n := range counts {
		said += n
	}
	y.wantIn(y.a)
	y.wantIn(y.b)
	y.mu.Lock()
	for _, e := range y.events {
		if strings.Contains(e.Detail, y.b.key.Fingerprint()) || strings.Contains(e.Detail, y.a.key.Fingerprint()) {
			t.Errorf("the ledger is told of a worker that did nothing: %s", e.Detail)
		}
	}
	y.mu.Unlock()
	js, err := jetstream.New(y.c.nc)
	y.must(err)
	stream, err := js.Stream(t.Context(), bus.StreamOf(y.c.id))
	if err != nil {
		t.Fatalf("the queue: %v", err)
	}
	if info := stream.CachedInfo(); time.Since(info.Created) < 0 || info.Config.Retention != jetstream.WorkQueuePolicy {
		t.Errorf("the queue is another: %+v", info.Config)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, subject := range s.heard {
		if strings.HasPrefix(subject, "$JS.API.STREAM.DELETE") || strings.HasPrefix(subject, "$JS.API.STREAM.PURGE") || strings.HasPrefix(subject, "$JS.API.CONSUMER.DELETE") {
			t.Errorf("%s was published", subject)
		}
		// Answers go to a word below an inbox, and to none whose message was signed by
		// another worker or for another act.
		if word, inbox := strings.CutPrefix(subject, "_INBOX_"); inbox {
			_, word, _ = strings.Cut(word, ".")
			if !fleet.IsWord(word) || word == overheard || word == otherAct {
				t.Errorf("something was published to %s", subject)
			}
		}
	}
	return said, cases
}

// bringBack has a case offered, as the harness does, until it is back, and the honest
// worker claim whatever it is given meanwhile.
func (y *yard) bringBack(h *hand, id string) {
	y.Helper()
	got := make(chan error, 1)
	go func() {
		for n := 1; ; n++ {
			job := harness.Job{Attempt: "sums.default.1", Case: id, Repeat: 1, Execution: n}
			k, err := y.c.Claim(y.Context(), harness.Offer{Job: job})
			if err != nil {
				got <- err
				return
			}
			_, err = k.Drive(y.Context(), harness.Handout{Job: job, Case: &scenario.Task{ID: id, Files: []digest.File{{Path: "f", Data: []byte("x")}}}})
			k.Verdict(err)
			if !errors.Is(err, harness.ErrDriverLost) {
				got <- err
				return
			}
		}
	}()
	for {
		select {
		case err := <-got:
			y.must(err)
			return
		default:
		}
		m := h.send("claim", &fleet.Claim{Fleet: y.c.id, Name: crand.Text(), Harness: "v0"})
		var out fleet.Handout
		if _, err := fleet.Open(m.Data, y.c.crew.Signers, seal.NamespaceWork, seal.Operator, y.clock(), &out); err != nil {
			y.pass(fleet.Silence + time.Second) // who has it is silent
			continue
		}
		piece := []byte("a piece of " + id)
		r := &fleet.Result{Fleet: y.c.id, Ticket: out.Ticket, Attempt: out.Attempt, CaseID: out.CaseID, Repeat: 1, Execution: out.Execution, Harness: "v0",
			Pieces: []fleet.File{{Digest: digest.ContentOf(piece), Bytes: int64(len(piece))}}}
		if a := h.answer(h.sendWith("result", r, piece)); a != (fleet.Answer{}) {
			y.Errorf("an honest result is told %+v", a)
		}
	}
}

// Words that no answer may go to: those of messages that another worker signed, and of
// messages that were signed for another act than they came as.
const overheard, otherAct = "overheard", "otheract"

// ticket is one that a worker has, mostly, as if it had been overheard.
func (f *fuzzer) ticket() string {
	f.y.c.mu.Lock()
	defer f.y.c.mu.Unlock()
	for t := range f.y.c.offers { // in no order
		if f.rand.IntN(2) == 0 {
			return t
		}
	}
	return f.one("", "x", strings.Repeat("0", 32))
}

// A fuzzer is a worker that says anything.
type fuzzer struct {
	*hand
	other *hand
	rand  *rand.Rand
}

func (f *fuzzer) one(list ...string) string { return list[f.rand.IntN(len(list))] }

// say publishes something. What the server does not let through is dropped there.
func (f *fuzzer) say() {
	verbs := []string{"hello", "claim", "fetch", "result", "put", "model", "beat", "bye", "x"}
	// Rather what does not get it thrown out at once: whoever is is not looked at any more.
	verb := f.one("hello", "fetch", "beat", "bye", "hello", "fetch", "fetch", "x", "fetch", "claim")
	if f.rand.IntN(200) == 0 {
		verb = f.one(verbs...)
	}
	stream := bus.StreamOf(f.y.c.id)
	subjects := []string{fleet.Subject(verb, f.user), fleet.Subject(verb, f.user), fleet.Subject(verb, f.user), fleet.Subject(verb, f.user), fleet.Subject(verb, f.other.user),
		"$JS.API.CONSUMER.MSG.NEXT." + stream + ".workers", "$JS.API.STREAM.DELETE." + stream, "tally-work." + stream, fleet.StatusSubject, fleet.AnswerSubject(f.other.user, "x"), fleet.EndSubject(f.other.user)}
	replies := []string{"", fleet.AnswerSubject(f.user, "x"), fleet.Subject(f.one(verbs...), f.other.user), fleet.AnswerSubject(f.other.user, "x"), "$JS.API.STREAM.DELETE." + stream, "$JS.API.STREAM.PURGE." + stream,
		"$JS.API.CONSUMER.DELETE." + stream + ".workers", "$SYS.REQ.SERVER.PING", fleet.StatusSubject, "tally-work." + stream}
	m := nats.NewMsg(f.one(subjects...))
	m.Reply, m.Data = f.one(replies...), f.data(verb)
	for range f.rand.IntN(3) {
		m.Header.Set(f.one("Fleet", "Ticket", "Digest", "Status", "Nats-Rollup", "Nats-Expected-Stream", "Nats-Msg-Id", "Nats-TTL"), f.one("all", f.y.c.id, stream, "503", "x"))
	}
	_ = f.nc.PublishMsg(m)
	if f.rand.IntN(20) == 0 {
		_ = f.nc.Flush()
	}
}

// data is the body of a message: a right one, one that is not, or that of another worker.
func (f *fuzzer) data(verb string) []byte {
	ticket := f.ticket()
	fleetID := f.one(f.y.c.id, f.y.c.id, f.y.c.id, "", "other")
	documents := []any{
		&fleet.Hello{Version: f.rand.IntN(4), Harness: f.one("v0", "v1", strings.Repeat("v", 1000)), Label: f.one("", "x", "\x00")},
		&fleet.Claim{Fleet: fleetID, Name: f.one("x", crand.Text(), ""), Harness: "v0"},
		&fleet.Fetch{Ticket: ticket, Digest: f.y.c.welcome.Setup, Offset: f.rand.Int64N(1<<40) - 1<<39, Folder: f.rand.IntN(2) == 0},
		&fleet.Result{Fleet: fleetID, Ticket: ticket, Attempt: "sums.default.1", CaseID: "c1", Repeat: f.rand.IntN(3), Execution: f.rand.IntN(3), Harness: "v0", Pieces: []fleet.File{{Bytes: f.rand.Int64()}}},
		&fleet.Part{Fleet: fleetID, Ticket: ticket, Last: f.rand.IntN(2) == 0},
		&fleet.ModelCall{Fleet: fleetID, Ticket: ticket, Call: "x", API: f.one("openai.chat", "x"), Body: "{}"},
		&fleet.Beat{Fleet: fleetID, Tickets: []string{ticket}},
		map[string]any{"invented": []any{1, "x", nil}},
	}
	// Rather what is right for the act.
	document := documents[f.rand.IntN(2)]
	if kind, ok := map[string]int{"hello": 0, "claim": 1, "fetch": 2, "beat": 6, "bye": 6}[verb]; ok && f.rand.IntN(2) == 0 {
		document = documents[kind]
	}
	if f.rand.IntN(50) == 0 {
		document = documents[f.rand.IntN(len(documents))]
	}
	by, act, answer := f.hand, f.one(verb, verb, verb, "result"), f.one("x", "end", "", "a.b", ">", strings.Repeat("x", 100))
	if act != verb {
		answer = otherAct
	}
	if f.rand.IntN(3) == 0 {
		by, answer = f.other, overheard
	}
	var rest []byte
	if f.rand.IntN(3) == 0 {
		rest = bytes.Repeat([]byte("x"), f.rand.IntN(2000))
	}
	data, err := fleet.Say(by.key, act, answer, document, rest)
	if err != nil {
		return nil
	}
	switch f.rand.IntN(6) {
	case 0:
		return data[:f.rand.IntN(len(data))]
	case 1:
		data[f.rand.IntN(len(data))] ^= 1 << f.rand.IntN(8)
	case 2:
		return []byte(f.one("", "{}", "null", "[]", "\n", "\x00\xff", `{"body":{},"signature":""}`+"\n", strings.Repeat("[", 10000)))
	}
	return data
}

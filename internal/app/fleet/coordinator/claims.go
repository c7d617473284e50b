package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

// A claim is a case that a worker has.
type claim struct {
	c      *Coordinator
	offer  *offer
	worker *worker
	about  evidence.Worker

	// Guarded by the coordinator's lock.
	name     string    // that the worker gave the claim
	asked    *request  // the claim, which waits for the handout
	handout  []byte    // that was sent
	taken    time.Time // when it was claimed
	heard    time.Time // when the worker was heard of last
	deadline time.Time // when it must have come back
	pieces   map[digest.Content][]byte
	parts    map[digest.Content]*bytes.Buffer
	bytes    int                       // of pieces and parts
	blobs    map[digest.Content][]byte // that the worker may fetch for it
	answers  session.Models            // of the case's model; nil if the worker replays a recording
	models   map[string]*modelCall     // by the names that the worker gave them
	answered *request                  // the result, which waits for the verdict

	isolation string // of the agent, as the result says

	result chan *harness.DriveResult // of one
	lost   chan struct{}
	failed string // what the worker said if it could not drive

	// Model calls of the case that are under way. They end with the claim, so that
	// the books are complete when the case is recorded.
	calls    sync.WaitGroup // added to under the coordinator's lock, unless over
	over     bool           // no further call is made
	calling  context.Context
	endCalls context.CancelFunc
}

// A modelCall is one that a worker asked for.
type modelCall struct {
	asked  *request // the last message that asks for it
	answer []byte   // nil while the model is being asked
}

// maxCalls is how many model calls one case may make.
const maxCalls = 1 << 16

// Claim offers a case and waits until a worker takes it.
func (c *Coordinator) Claim(ctx context.Context, wanted harness.Offer) (harness.Claim, error) {
	ticket := newTicket()
	o := &offer{Offer: wanted, ticket: ticket, since: c.crew.Now(), claimed: make(chan *claim, 1), noSecond: make(chan struct{})}
	c.mu.Lock()
	c.offers[ticket] = o
	if wanted.Not != "" {
		c.counts.Doubled++
	}
	c.mu.Unlock()
	err := c.offerTo(ctx, fleet.Ticket{Fleet: c.id, Ticket: ticket})
	if err == nil {
		select {
		case k := <-o.claimed:
			return k, nil
		case <-c.over.Done():
			err = context.Cause(c.over)
		case <-o.noSecond:
			return nil, fmt.Errorf("%w: for %s no other worker took anything", harness.ErrNoSecond, c.secondWait())
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if c.over.Err() != nil {
		err = context.Cause(c.over)
	}
	c.mu.Lock()
	delete(c.offers, ticket)
	late := o.claim
	if late != nil {
		c.late[ticket] = late.worker.Key
	}
	c.mu.Unlock()
	if late != nil { // a worker took it at that moment, and waits for an answer
		late.endCalls()
		c.forget(late)
		late.asked.say(fleet.Answer{Gone: true})
	}
	return nil, err
}

// offerTo puts a ticket into the queue, unless the fleet ends first.
func (c *Coordinator) offerTo(ctx context.Context, t fleet.Ticket) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.over, cancel)()
	return c.queue.Put(within, t)
}

// A request is a message whose signature was verified.
type request struct {
	nc   *nats.Conn
	to   string // where its answer goes; "" if the worker wants none
	body []byte
	rest []byte // what follows it
}

// give answers with some bytes. Nothing is ever published to a subject that a message
// names: the answer goes below the inbox of the worker that signed it.
func (q *request) give(data []byte) {
	if q != nil && q.to != "" {
		_ = q.nc.Publish(q.to, data)
	}
}

func (q *request) say(a fleet.Answer) {
	if data, err := canon.Marshal(&a); err == nil {
		q.give(data)
	}
}

// serve answers one message of a worker. Who sent it says the signature alone: what
// comes under the name of a worker and is not signed by it is dropped, costs that worker
// nothing, and is not answered.
func (c *Coordinator) serve(verb string, m *nats.Msg, answer func(*request, *worker)) {
	user := userIn(m.Subject)
	if m.Subject != fleet.Subject(verb, user) { // what a server put there for another
		return
	}
	c.mu.Lock()
	w, known := c.byUser(user)
	c.mu.Unlock()
	if !known {
		return
	}
	if len(m.Data) > fleet.MaxMessage || !c.begin(w, len(m.Data)) {
		c.drop(w, fmt.Sprintf("%d bytes as %s, which is too much, or too much at once", len(m.Data), verb))
		return
	}
	go func() { // signatures and models take time
		defer c.end(w, len(m.Data))
		said, rest, err := fleet.Hear(m.Data, c.crew.Signers, w.Key, verb, c.crew.Now())
		if err != nil {
			c.drop(w, err.Error())
			return
		}
		q := &request{nc: c.nc, body: said.Body, rest: rest}
		if said.Answer != "" {
			q.to = fleet.AnswerSubject(user, said.Answer)
		}
		c.mu.Lock()
		out := w.Quarantined != ""
		if !out {
			w.LastSeen = evidence.At(c.crew.Now())
		}
		c.mu.Unlock()
		if out {
			q.say(fleet.Answer{Error: "this worker may not take part", Leave: true})
			return
		}
		answer(q, w)
	}()
}

// drop counts a message that is not looked at. The person is told of the first: it may
// be a worker of another version, or an intruder at the servers who uses its name.
func (c *Coordinator) drop(w *worker, why string) {
	c.mu.Lock()
	c.counts.Refused++
	w.dropped++
	first := w.dropped == 1
	c.mu.Unlock()
	if first {
		c.o.Note("a message in the name of worker %s (%s) was dropped: %s", w.Name, w.Key, why)
	}
}

// Bounds of what one worker may have the coordinator do at once, so that a flood is
// the worker's own loss.
const (
	maxAtWork = 1024      // messages that are being answered
	maxBytes  = 128 << 20 // of these
	maxHeld   = 1 << 30   // bytes of pieces that were sent ahead of their results
)

// begin reports whether there is room for answering a message of so many bytes.
func (c *Coordinator) begin(w *worker, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.atWork >= maxAtWork || w.bytes+n > maxBytes {
		return false
	}
	w.atWork, w.bytes = w.atWork+1, w.bytes+n
	return true
}

func (c *Coordinator) end(w *worker, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.atWork, w.bytes = w.atWork-1, w.bytes-n
}

// byUser finds what is known of a worker, or begins it. Mu is held.
func (c *Coordinator) byUser(user string) (*worker, bool) {
	if w, ok := c.users[user]; ok {
		return w, true
	}
	e, ok := c.signerOf(user)
	if !ok {
		return nil, false
	}
	w := &worker{user: user, claims: map[string]*claim{}, WorkerStatus: fleet.WorkerStatus{Key: e.Key.Fingerprint(), Name: e.Principals}}
	c.workers[w.Key], c.users[user] = w, w
	return w, true
}

// hello tells a worker where the work is.
func (c *Coordinator) hello(q *request, w *worker) {
	var h fleet.Hello
	if err := canon.Unmarshal(q.body, &h); err != nil {
		q.say(fleet.Answer{Error: err.Error()})
		return
	}
	welcome := c.welcome
	if err := c.admit(h.Harness); err != nil {
		welcome.Refused = err.Error()
	}
	c.mu.Lock()
	w.introduce(h.Harness, h.Label)
	c.mu.Unlock()
	if data, err := canon.Marshal(&welcome); err == nil {
		q.give(data)
	}
}

// introduce notes what a worker says of itself, which the status shows. It is cut: one
// worker could otherwise make a status of all that cannot be sent or read. Mu is held.
func (w *worker) introduce(version, label string) {
	w.Version, w.Label = shortened(version), shortened(label)
}

// shortened is the beginning of a text, at most 200 bytes.
func shortened(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }

// admit refuses a worker of another version.
func (c *Coordinator) admit(version string) error {
	if version == c.o.Version || c.o.AnyVersion && version != "" && len(version) < 200 {
		return nil
	}
	return fmt.Errorf("the coordinator is %s, this worker %.100q; install the same, or let others take part with --any-version", c.o.Version, version)
}

// takeClaim gives a worker the next case of the queue that it may have. A worker that
// asks again under the same name, because the answer was lost, is given the same case.
func (c *Coordinator) takeClaim(q *request, w *worker) {
	var asked fleet.Claim
	if err := canon.Unmarshal(q.body, &asked); err != nil || !fleet.IsWord(asked.Name) {
		q.say(fleet.Answer{Error: "this is not a claim"})
		return
	}
	if err := c.admit(asked.Harness); err != nil || asked.Fleet != c.id {
		q.say(fleet.Answer{Error: "of another fleet or version", Gone: true})
		return
	}
	c.mu.Lock()
	if k := w.claims[asked.Name]; k != nil {
		k.asked, k.heard = q, c.crew.Now()
		again := k.handout
		c.mu.Unlock()
		if again != nil {
			q.give(again)
		}
		return
	}
	k := &claim{c: c, worker: w, name: asked.Name, asked: q, about: evidence.Worker{Key: w.Key, HarnessVersion: asked.Harness},
		pieces: map[digest.Content][]byte{}, parts: map[digest.Content]*bytes.Buffer{}, models: map[string]*modelCall{}, result: make(chan *harness.DriveResult, 1), lost: make(chan struct{})}
	w.claims[asked.Name] = k
	w.introduce(asked.Harness, asked.Label)
	c.mu.Unlock()
	if c.nextOffer(k) {
		k.offer.claimed <- k
		return
	}
	c.mu.Lock()
	delete(w.claims, asked.Name)
	waits := k.asked
	c.mu.Unlock()
	waits.say(fleet.Answer{None: true})
}

// takeWait is how long a claim waits for a ticket. It is less than what a worker waits
// for an answer.
func (c *Coordinator) takeWait() time.Duration { return min(2*time.Second, c.silence()/3) }

// nextOffer takes tickets off the queue until one is of a case that the worker may have,
// and gives it to the claim.
func (c *Coordinator) nextOffer(k *claim) bool {
	for end := time.Now().Add(c.takeWait()); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		t, err := c.queue.Take(c.running, max(left, 10*time.Millisecond))
		if err != nil {
			return false
		}
		switch taken, later := c.assign(t.Ticket, k); {
		case taken:
			t.Done()
			return true
		case later:
			t.Later()
		default:
			t.Done()
		}
	}
}

// assign gives the case of a ticket to a claim. Later says that another worker is to
// have it.
func (c *Coordinator) assign(t fleet.Ticket, k *claim) (taken, later bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, w := c.offers[t.Ticket], k.worker
	switch {
	case t.Fleet != c.id || o == nil || o.claim != nil:
		return false, false
	case o.Not == w.Key, w.Quarantined != "":
		return false, true
	}
	now := c.crew.Now()
	wall := time.Duration(c.crew.Registration.Limits.WallClockSeconds) * time.Second
	k.offer, k.taken, k.heard, k.deadline = o, now, now, now.Add(2*wall+2*time.Minute)
	k.calling, k.endCalls = context.WithCancel(context.Background())
	o.claim, w.busy = k, now
	if c.alone != "" && c.alone != w.Key {
		c.alone = ""
	}
	return true, false
}

// Worker says whose the case is.
func (k *claim) Worker() evidence.Worker { return k.about }

// Drive shows the worker the case and waits for what it brings back.
func (k *claim) Drive(ctx context.Context, h harness.Handout) (*harness.DriveResult, error) {
	c := k.c
	out, blobs, err := c.handout(k, h)
	if err != nil {
		return nil, err
	}
	data, err := fleet.Sign(c.crew.Key, seal.NamespaceWork, out)
	if err != nil {
		return nil, err
	}
	defer k.waitForCalls()
	c.mu.Lock()
	k.blobs, k.answers, k.heard, k.handout = blobs, answering(h), c.crew.Now(), data
	asked := k.asked
	c.mu.Unlock()
	asked.give(data)
	select {
	case d := <-k.result:
		if d == nil {
			return nil, fmt.Errorf("%w: it could not drive the case: %s", harness.ErrDriverLost, k.failed)
		}
		return d, nil
	case <-k.lost:
		return nil, fmt.Errorf("%w: it was not heard of for %s, or took too long", harness.ErrDriverLost, c.silence())
	case <-c.over.Done():
		return nil, context.Cause(c.over)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// waitForCalls ends the model calls of a case, and returns when no more are under way.
func (k *claim) waitForCalls() {
	k.c.mu.Lock()
	k.over = true
	k.c.mu.Unlock()
	k.endCalls()
	k.calls.Wait()
}

// answering says who answers the model calls that a worker asks for.
func answering(h harness.Handout) session.Models {
	if h.Live != nil {
		return h.Live
	}
	return h.Authored
}

// handout is what a worker is shown of a case: what an agent needs, and nothing that
// says what a right answer is.
func (c *Coordinator) handout(k *claim, h harness.Handout) (*fleet.Handout, map[digest.Content][]byte, error) {
	out := &fleet.Handout{Fleet: c.id, Ticket: k.offer.ticket, Worker: k.worker.Key, Attempt: h.Attempt, CaseID: h.Case.ID, Repeat: h.Repeat, Execution: h.Execution,
		HeldOut: h.Case.HeldOut, Tested: h.Case.Scenario.Test != nil, Scenario: fleet.BriefOf(&h.Case.Scenario), Authored: h.Authored != nil}
	blobs := map[digest.Content][]byte{}
	file := func(path string, data []byte) fleet.File {
		d := digest.ContentOf(data)
		blobs[d] = data
		return fleet.File{Path: path, Digest: d, Bytes: int64(len(data))}
	}
	for _, f := range h.Case.Files {
		one := file(f.Path, f.Data)
		one.Executable = f.Executable
		out.Files = append(out.Files, one)
	}
	if h.Case.Cassette != nil && h.Live == nil {
		data, err := h.Case.Cassette.Data()
		if err != nil {
			return nil, nil, err
		}
		whole, err := cassette.Parse(data, cassette.Limits{})
		if err == nil {
			data, err = whole.For(cassette.ForAgent).Marshal()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("case %s: its cassette: %w", h.Case.ID, err)
		}
		if data != nil {
			f := file("", data)
			out.Cassette = &f
		}
	}
	return out, blobs, nil
}

// fetch gives a worker a part of something that it was told of.
func (c *Coordinator) fetch(q *request, w *worker) {
	var f fleet.Fetch
	if err := canon.Unmarshal(q.body, &f); err != nil {
		q.say(fleet.Answer{Error: err.Error()})
		return
	}
	if f.Folder {
		c.fetchFolder(q, f)
		return
	}
	c.mu.Lock()
	data, ok := c.shared[f.Digest]
	if o := c.offers[f.Ticket]; !ok && o != nil && o.claim != nil && o.claim.worker == w {
		data, ok = o.claim.blobs[f.Digest]
	}
	c.mu.Unlock()
	if !ok || f.Offset < 0 || f.Offset > int64(len(data)) {
		q.say(fleet.Answer{Error: "no such piece for this worker"})
		return
	}
	q.give(data[f.Offset:min(int64(len(data)), f.Offset+fleet.MaxPart)])
}

// fetchFolder gives a worker a part of a folder of the target.
func (c *Coordinator) fetchFolder(q *request, f fleet.Fetch) {
	source := c.folders[f.Digest]
	if source == nil || f.Offset < 0 || f.Offset >= source.Bytes {
		q.say(fleet.Answer{Error: "no such folder for this worker"})
		return
	}
	part := make([]byte, min(fleet.MaxPart, source.Bytes-f.Offset))
	if _, err := source.ReadAt(part, f.Offset); err != nil {
		q.say(fleet.Answer{Error: "a folder of the target cannot be read, or has changed: " + refusal.WithoutPath(err).Error()})
		return
	}
	q.give(part)
}

// beat notes that a worker is there.
func (c *Coordinator) beat(q *request, w *worker) {
	var b fleet.Beat
	if canon.Unmarshal(q.body, &b) != nil || b.Fleet != c.id || len(b.Tickets) > 10_000 {
		return
	}
	now := c.crew.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range b.Tickets {
		if o := c.offers[t]; o != nil && o.claim != nil && o.claim.worker == w {
			o.claim.heard = now
		}
	}
}

// bye notes that a worker knows that the fleet has ended.
func (c *Coordinator) bye(_ *request, w *worker) {
	select {
	case c.byes <- w.user:
	default:
	}
}

// claimOf finds the claim that a message is about, and says why there is none. Mu is
// held.
func (c *Coordinator) claimOf(ticket string, w *worker) (k *claim, why string) {
	o := c.offers[ticket]
	switch {
	case o != nil && o.claim != nil && o.claim.worker == w:
		o.claim.heard = c.crew.Now()
		return o.claim, ""
	case c.done[ticket] == w.Key:
		return nil, "done"
	case c.late[ticket] == w.Key:
		return nil, "late"
	}
	return nil, "foreign"
}

// takePiece takes a part of a piece that is too large to come with its result.
func (c *Coordinator) takePiece(q *request, w *worker) {
	var p fleet.Part
	err := canon.Unmarshal(q.body, &p)
	if err == nil && p.Fleet != c.id {
		q.say(fleet.Answer{Gone: true})
		return
	}
	c.mu.Lock()
	k, why := c.claimOf(p.Ticket, w)
	if err != nil || k == nil || k.answered != nil {
		c.mu.Unlock()
		if why == "foreign" || err != nil {
			c.quarantine(w, "it sent a piece for a case that it does not have")
		}
		q.say(fleet.Answer{Gone: true})
		return
	}
	if w.held+len(q.rest) > maxHeld {
		c.counts.Refused++
		c.mu.Unlock()
		q.say(fleet.Answer{Error: "too much at once of this worker"})
		return
	}
	why = k.addPart(p.Digest, q.rest, p.Last)
	c.mu.Unlock()
	if why != "" {
		c.refuse(k, why)
		q.say(fleet.Answer{Error: why, Leave: true})
		return
	}
	q.say(fleet.Answer{})
}

// addPart adds to a piece. It says why, if that is not allowed. Mu is held.
func (k *claim) addPart(name digest.Content, data []byte, last bool) (why string) {
	part := k.parts[name]
	if part == nil {
		part = &bytes.Buffer{}
		k.parts[name] = part
	}
	switch {
	case len(data) > fleet.MaxPart:
		return fmt.Sprintf("a part of a piece has %d bytes, at most %d are allowed", len(data), fleet.MaxPart)
	case part.Len()+len(data) > fleet.MaxPiece:
		return fmt.Sprintf("a piece has more than %d bytes", fleet.MaxPiece)
	case k.bytes+len(data) > fleet.MaxResult:
		return fmt.Sprintf("what it sent for one case is over %d bytes", fleet.MaxResult)
	case len(k.parts)+len(k.pieces) > fleet.MaxPieces:
		return fmt.Sprintf("what it sent for one case is over %d pieces", fleet.MaxPieces)
	}
	k.bytes += len(data)
	k.worker.held += len(data)
	part.Write(data)
	if !last {
		return ""
	}
	delete(k.parts, name)
	if digest.ContentOf(part.Bytes()) != name {
		return "a piece does not have its digest"
	}
	k.pieces[name] = part.Bytes()
	return ""
}

// free forgets what came for a case. Mu is held.
func (k *claim) free() {
	k.worker.held -= k.bytes
	k.bytes, k.blobs, k.pieces, k.parts, k.answers, k.models, k.handout = 0, nil, nil, nil, nil, nil, nil
}

// takeResult takes what a worker brings back.
func (c *Coordinator) takeResult(q *request, w *worker) {
	var r fleet.Result
	if err := canon.Unmarshal(q.body, &r); err != nil {
		c.quarantine(w, "it sent what is not a result: "+err.Error())
		q.say(fleet.Answer{Error: "this is not a result", Leave: true})
		return
	}
	if r.Fleet != c.id {
		// Of an attempt that is over, or from before the coordinator was started again.
		c.note(w, "fleet.result.late", evidence.Warn, fmt.Sprintf("worker %s brought a result of another fleet (%.100q); it does not count", w.Key, r.Fleet), "")
		q.say(fleet.Answer{Gone: true})
		return
	}
	c.mu.Lock()
	k, why := c.claimOf(r.Ticket, w)
	if k != nil && k.answered != nil {
		k, why = nil, "done"
	}
	if k != nil {
		k.answered = q
	}
	c.mu.Unlock()
	switch {
	case why == "done":
		q.say(fleet.Answer{Gone: true})
		return
	case why == "late":
		c.note(w, "fleet.result.late", evidence.Warn, fmt.Sprintf("worker %s brought case %s back after it was given to another worker; it does not count", w.Key, r.CaseID), r.CaseID)
		q.say(fleet.Answer{Gone: true})
		return
	case k == nil:
		c.quarantine(w, fmt.Sprintf("it sent a result of case %.100q, which it was not given", r.CaseID))
		q.say(fleet.Answer{Error: "the case was not given to it", Leave: true})
		return
	}
	if err := k.check(&r, q.rest); err != nil {
		c.refuse(k, err.Error())
		return
	}
	if r.Failed != "" {
		c.takeFailure(k, &r)
		return
	}
	c.mu.Lock()
	k.isolation = r.Driven.Isolation
	r.Driven.Pieces = k.pieces // nothing is added any more: it is answered
	c.mu.Unlock()
	k.result <- &r.Driven
}

// takeFailure takes that a worker could not drive a case.
func (c *Coordinator) takeFailure(k *claim, r *fleet.Result) {
	k.failed = r.Failed // read after the result is
	c.mu.Lock()
	q := k.answered
	if c.offers[r.Ticket] == k.offer {
		delete(c.offers, r.Ticket)
		c.ended(k) // it may say so again, if the answer is lost
		c.counts.Lost++
		k.worker.Lost++
		c.strike(k)
	}
	enough := k.worker.strikes >= maxStrikes
	c.mu.Unlock()
	if enough {
		c.quarantine(k.worker, tooOften)
		q.say(fleet.Answer{Error: tooOften + "; the last time: " + r.Failed[:min(len(r.Failed), 500)], Leave: true})
	} else {
		q.say(fleet.Answer{})
	}
	k.result <- nil
}

// maxStrikes is how often in a row a worker may not bring back what it took. It is less
// than how often a case is given out, so that one worker alone cannot use that up.
const maxStrikes = 3

var tooOften = fmt.Sprintf("%d times in a row it did not bring back the cases that it took", maxStrikes)

// strike notes that a worker did not bring a case back. Cases that it had at the same
// time are one failure: a worker that is stopped or cut off loses all of them at once.
// Mu is held.
func (c *Coordinator) strike(k *claim) {
	if w := k.worker; !k.taken.Before(w.struck) {
		w.strikes, w.struck = w.strikes+1, c.crew.Now()
	}
}

// check compares a result with the claim, and takes its pieces.
func (k *claim) check(r *fleet.Result, rest []byte) error {
	o := k.offer
	if r.Fleet != k.c.id || r.Attempt != o.Attempt || r.CaseID != o.Case || r.Repeat != o.Repeat || r.Execution != o.Execution {
		return fmt.Errorf("the result is of %.100q case %.100q, repetition %d, execution %d, and the claim of case %s, repetition %d, execution %d", r.Attempt, r.CaseID, r.Repeat, r.Execution, o.Case, o.Repeat, o.Execution)
	}
	if r.Harness != k.about.HarnessVersion {
		return fmt.Errorf("the result is of version %.100q, the claim of %s", r.Harness, k.about.HarnessVersion)
	}
	if r.Failed != "" && len(r.Failed) > 4000 {
		return errors.New("the reason for a failure is too long")
	}
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	if k.pieces == nil { // the attempt is being stopped
		return nil
	}
	return r.TakePieces(rest, k.pieces)
}

// refuse takes a case away from a worker that cheated, and quarantines it.
func (c *Coordinator) refuse(k *claim, why string) {
	c.mu.Lock()
	if c.offers[k.offer.ticket] == k.offer {
		c.lose(k.offer)
	}
	answered := k.answered
	k.answered = nil // it is told why here, and nothing else by the verdict
	c.mu.Unlock()
	c.quarantine(k.worker, fmt.Sprintf("case %s: %s", k.offer.Case, why))
	answered.say(fleet.Answer{Error: why, Leave: true})
}

// Verdict ends a claim.
func (k *claim) Verdict(err error) {
	c := k.c
	c.mu.Lock()
	current := c.offers[k.offer.ticket] == k.offer
	delete(c.offers, k.offer.ticket)
	delete(k.worker.claims, k.name)
	k.worker.busy = c.crew.Now()
	k.over = true
	k.endCalls()
	k.free()
	switch {
	case current && err == nil:
		c.remember(k)
	case current:
		// The attempt is being stopped. What the worker still brings is late, and
		// nothing to hold against it.
		c.late[k.offer.ticket] = k.worker.Key
	}
	answered, asked := k.answered, k.asked
	c.mu.Unlock()
	switch {
	case err == nil:
		answered.say(fleet.Answer{})
	case refusal.Is(err, refusal.ResultRefused):
		c.quarantine(k.worker, fmt.Sprintf("case %s: %v", k.offer.Case, err))
		answered.say(fleet.Answer{Error: err.Error(), Leave: true})
	default:
		answered.say(fleet.Answer{Gone: true})
		asked.say(fleet.Answer{Gone: true})
	}
}

// forget forgets the name that a worker gave a claim.
func (c *Coordinator) forget(k *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(k.worker.claims, k.name)
}

// maxDone is of how many cases it is remembered who brought them, for workers that ask
// again because an answer was lost.
const maxDone = 50_000

// remember counts a case that was taken back. Mu is held.
func (c *Coordinator) remember(k *claim) {
	c.counts.Done++
	k.worker.Done++
	k.worker.strikes = 0
	k.worker.Isolation = k.isolation // the harness has compared it with the plan
	c.rate = append(c.rate, c.crew.Now())
	if len(c.rate) > 200_000 {
		c.rate = c.rate[100_000:]
	}
	c.ended(k)
}

// ended notes that a worker is through with a case. Mu is held.
func (c *Coordinator) ended(k *claim) {
	c.done[k.offer.ticket] = k.worker.Key
	c.recent = append(c.recent, k.offer.ticket)
	if len(c.recent) > maxDone {
		delete(c.done, c.recent[0])
		c.recent = c.recent[1:]
	}
}

// maxEvents is of how many things that one worker did the ledger is told.
const maxEvents = 100

// note writes an event about a worker to the ledger.
func (c *Coordinator) note(w *worker, name string, severity evidence.Severity, detail, caseID string) {
	c.mu.Lock()
	c.counts.Refused++
	w.events++
	enough := w.events > maxEvents
	c.mu.Unlock()
	if enough || c.running.Err() != nil { // the ledger of a stopped attempt is being closed
		return
	}
	data, err := canon.Marshal(map[string]any{"attempt": c.start.Registered.Attempt, "case": caseID, "worker": w.Key})
	if err != nil {
		return
	}
	detail = strings.ToValidUTF8(detail, "\uFFFD")
	if err := c.start.Refused(evidence.IntegrityEvent{Name: name, Severity: severity, Boundary: "TB-4", Detail: detail[:min(len(detail), 1000)], Data: data}); err != nil {
		c.o.Note("the event %s could not be written: %v", name, err)
	}
}

// quarantine ends a worker's part in the attempt, and gives its cases to others.
func (c *Coordinator) quarantine(w *worker, why string) {
	c.mu.Lock()
	already := w.Quarantined != ""
	if !already {
		w.Quarantined = strings.ToValidUTF8(why[:min(len(why), 500)], "\uFFFD")
	}
	for _, o := range c.offers {
		if o.claim != nil && o.claim.worker == w && o.claim.answered == nil {
			c.lose(o)
		}
	}
	c.mu.Unlock()
	if already {
		return
	}
	c.o.Note("worker %s (%s) is quarantined: %s", w.Name, w.Key, why)
	c.note(w, "fleet.worker.quarantined", evidence.Warn, fmt.Sprintf("worker %s: %s", w.Key, why), "")
}

// callModel makes a model call for the worker that has the case. The coordinator alone
// has the keys of providers, the journal and the budget, and the replies that a case
// wrote for its model.
func (c *Coordinator) callModel(q *request, w *worker) {
	var call fleet.ModelCall
	err := canon.Unmarshal(q.body, &call)
	if err == nil && call.Fleet != c.id {
		q.say(fleet.Answer{Gone: true})
		return
	}
	if !fleet.IsWord(call.Call) { // it will not ask again
		call.Call = newTicket()
	}
	c.mu.Lock()
	k, why := c.claimOf(call.Ticket, w)
	var made *modelCall
	var answers session.Models
	if err == nil && k != nil && !k.over && k.answered == nil && k.answers != nil && len(k.models) < maxCalls {
		if made = k.models[call.Call]; made == nil {
			answers = k.answers
			k.models[call.Call] = &modelCall{asked: q}
			k.calls.Add(1)
			defer k.calls.Done()
		} else {
			made.asked = q
		}
	}
	c.mu.Unlock()
	switch {
	case made != nil:
		c.repeat(made)
	case answers != nil:
		c.answerCall(k, call, answers)
	default:
		if why == "foreign" || err != nil {
			c.quarantine(w, "it asked for a model call of a case that it does not have")
		}
		q.say(fleet.Answer{Gone: true})
	}
}

// answerCall asks the model, and gives the answer to the last asker.
func (c *Coordinator) answerCall(k *claim, call fleet.ModelCall, answers session.Models) {
	reply, err := answerTo(k.calling, call, answers)
	if err != nil {
		r := refusal.Of(err)
		reply = fleet.ModelReply{Name: r.Name, Error: r.Error(), Hint: r.Hint}
	}
	var large []byte
	data, err := canon.Marshal(&reply)
	if err == nil && len(data) > fleet.MaxPart {
		large = data
		data, err = canon.Marshal(&fleet.ModelReply{Blob: &fleet.File{Digest: digest.ContentOf(large), Bytes: int64(len(large))}})
	}
	if err != nil {
		data, _ = canon.Marshal(&fleet.ModelReply{Name: refusal.Failed, Error: err.Error()})
	}
	c.mu.Lock()
	made := k.models[call.Call]
	if made == nil { // the case is over
		c.mu.Unlock()
		return
	}
	if large != nil {
		k.blobs[digest.ContentOf(large)] = large
	}
	made.answer = append(data, '\n')
	c.mu.Unlock()
	c.repeat(made)
}

// answerTo makes a call: of a tool, or of a model.
func answerTo(ctx context.Context, call fleet.ModelCall, answers session.Models) (reply fleet.ModelReply, err error) {
	if call.Tool != "" {
		caller, ok := answers.(harness.ToolCaller)
		if !ok {
			return reply, refusal.Newf(refusal.Malformed, "the case has no live tools")
		}
		result, err := caller.CallTool(ctx, call.Tool, []byte(call.Body))
		reply.Tool = fleet.ResultOf(result)
		return reply, err
	}
	if m, ok := answers.(session.TurnAware); ok {
		m.AtTurn(call.Turn)
	}
	reply.Interaction, err = answers.Call(ctx, wire.API(call.API), []byte(call.Body), nil)
	return reply, err
}

// repeat sends the answer of a model call, if there is one already.
func (c *Coordinator) repeat(made *modelCall) {
	c.mu.Lock()
	asked, answer := made.asked, made.answer
	c.mu.Unlock()
	if answer != nil {
		asked.give(answer)
	}
}

package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/wire"
)

// one takes one case to its end. An error ends the shift.
func (s *shift) one(ctx context.Context) error {
	h, err := s.claim(ctx)
	switch {
	case refusal.Is(err, refusal.ResultRefused):
		return err
	case errors.Is(err, errNone), errors.Is(err, errGone), ctx.Err() != nil:
		return nil
	case err != nil:
		s.o.Note("%v", err)
		pause(ctx, time.Second)
		return nil
	}
	s.hold(h.Ticket, true)
	defer s.hold(h.Ticket, false)
	driven, err := s.drive(ctx, h)
	if err != nil && ctx.Err() == nil {
		s.o.Note("case %s could not be driven here: %v", h.CaseID, err)
	}
	if err := s.bring(ctx, h, driven, err); refusal.Is(err, refusal.ResultRefused) {
		return err
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (s *shift) hold(ticket string, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held {
		s.tickets[ticket] = true
	} else {
		delete(s.tickets, ticket)
	}
}

// claim asks for a case, and verifies what it is given.
func (s *shift) claim(ctx context.Context) (*fleet.Handout, error) {
	m, err := s.insist(ctx, "claim", &fleet.Claim{Fleet: s.welcome.Fleet, Name: rand.Text(), Harness: s.o.Version, Label: s.o.Label}, nil, 30*time.Second)
	if err != nil {
		return nil, err
	}
	var h fleet.Handout
	if _, err := fleet.Open(m.Data, s.signers, seal.NamespaceWork, seal.Operator, s.o.Now(), &h); err != nil {
		return nil, err
	}
	if h.Fleet != s.welcome.Fleet || h.Worker != s.o.Key.Fingerprint() || h.Attempt != s.setup.Registered.Attempt {
		return nil, refusal.Newf(refusal.Malformed, "the coordinator sent a case that is not for this worker")
	}
	return &h, nil
}

// drive takes the agent through a case.
func (s *shift) drive(ctx context.Context, h *fleet.Handout) (*harness.DriveResult, error) {
	c := &scenario.Task{ID: h.CaseID, HeldOut: h.HeldOut, Scenario: h.Scenario.Scenario()}
	if err := c.Scenario.Validate(); err != nil {
		return nil, err
	}
	for _, f := range h.Files {
		data, err := s.fetch(ctx, h.Ticket, f)
		if err != nil {
			return nil, err
		}
		c.Files = append(c.Files, digest.File{Path: f.Path, Data: data, Executable: f.Executable})
	}
	if h.Cassette != nil {
		data, err := s.fetch(ctx, h.Ticket, *h.Cassette)
		if err != nil {
			return nil, err
		}
		c.Cassette = bench.CassetteOf(data)
	}
	ctx = context.WithValue(ctx, ticketKey{}, h.Ticket)
	job := harness.Job{Attempt: h.Attempt, Case: h.CaseID, Repeat: h.Repeat, Execution: h.Execution}
	if h.Authored {
		job.Authored = &authored{live: live{s}}
	}
	return s.driver.Drive(ctx, c, job, h.Tested)
}

// ticketKey finds the ticket of a case in the context of its model calls.
type ticketKey struct{}

// bring sends what came of a case. A worker that is being stopped says so, so that the
// case need not wait until it is missed.
func (s *shift) bring(ctx context.Context, h *fleet.Handout, driven *harness.DriveResult, failed error) error {
	ctx, cancel := s.untilEnd(ctx)
	defer cancel()
	r := &fleet.Result{Fleet: h.Fleet, Ticket: h.Ticket, Attempt: h.Attempt, CaseID: h.CaseID, Repeat: h.Repeat, Execution: h.Execution, Harness: s.o.Version, Pieces: []fleet.File{}}
	var inline bytes.Buffer
	if failed != nil {
		text := failed.Error()
		r.Failed = text[:min(len(text), 2000)]
		driven = &harness.DriveResult{}
	}
	r.Driven = *driven
	room := int(min(fleet.MaxMessage, s.nc.MaxPayload())) / 2
	for _, d := range slices.SortedFunc(maps.Keys(driven.Pieces), func(a, b digest.Content) int { return bytes.Compare(a[:], b[:]) }) {
		piece := driven.Pieces[d]
		if inline.Len()+len(piece) <= room {
			inline.Write(piece)
			r.Pieces = append(r.Pieces, fleet.File{Digest: d, Bytes: int64(len(piece))})
			continue
		}
		if err := s.put(ctx, h.Ticket, d, piece, room); err != nil {
			return err
		}
	}
	_, err := s.insist(ctx, "result", r, inline.Bytes(), 3*time.Minute)
	return err
}

// untilEnd is a context that outlives the stop of this worker, and not the fleet, which
// takes nothing any more then.
func (s *shift) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errEnded) {
			cancel()
		}
	})
	return within, cancel
}

// insist asks until there is an answer: one is lost with the server that carried it.
// The coordinator takes nothing twice, pays for no model call twice, and gives the same
// answer to the same question.
func (s *shift) insist(ctx context.Context, verb string, document any, rest []byte, within time.Duration) (m *nats.Msg, err error) {
	// A slow coordinator must not be asked again before it has read the question.
	wait := s.silence()*2/3 + time.Duration(len(rest)>>17)*time.Second
	for end := time.Now().Add(within + wait); ; pause(ctx, 200*time.Millisecond) {
		m, err = s.request(ctx, verb, document, rest, wait)
		if m != nil || ctx.Err() != nil || time.Now().After(end) {
			return m, err
		}
	}
}

// put sends a piece ahead of its result, in parts.
func (s *shift) put(ctx context.Context, ticket string, d digest.Content, piece []byte, room int) error {
	part := min(fleet.MaxPart, room)
	for rest := piece; ; {
		n := min(part, len(rest))
		said := &fleet.Part{Fleet: s.welcome.Fleet, Ticket: ticket, Digest: d, Last: n == len(rest)}
		// Once: a part that came twice would be in the piece twice.
		if _, err := s.request(ctx, "put", said, rest[:n:n], 30*time.Second); err != nil {
			return err
		}
		if rest = rest[n:]; len(rest) == 0 {
			return nil
		}
	}
}

// live has the coordinator answer model calls: it alone has keys, books and a budget.
type live struct{ s *shift }

// Case begins the live side of one case.
func (l *live) Case(*scenario.Task, harness.Job) (harness.Recording, error) { return l, nil }

// Redactor finds secrets by their shape: this machine has no key of a provider.
func (l *live) Redactor() *cassette.Redactor { return nil }

// Cassette is not made here. The coordinator has the recording.
func (l *live) Cassette() ([]byte, error) { return nil, errors.New("a worker has no recording") }

// authored has the coordinator answer from the replies that the case has for its
// model. They do not come here.
type authored struct {
	live
	turn atomic.Int64
}

// AtTurn says which turn the session is in.
func (a *authored) AtTurn(turn int) { a.turn.Store(int64(turn)) }

// Call asks the coordinator for the reply.
func (a *authored) Call(ctx context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	return a.ask(ctx, fleet.ModelCall{API: string(api), Body: string(body), Turn: int(a.turn.Load())}, onChunk)
}

// Call asks the coordinator to make a model call.
func (l *live) Call(ctx context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	return l.ask(ctx, fleet.ModelCall{API: string(api), Body: string(body)}, onChunk)
}

func (l *live) ask(ctx context.Context, call fleet.ModelCall, onChunk func(string) error) (*cassette.Interaction, error) {
	reply, err := l.send(ctx, call)
	if err != nil {
		return nil, err
	}
	it := reply.Interaction
	if it == nil || it.Model == nil {
		return nil, refusal.Newf(reply.Name, "%s", reply.Error).WithHint("%s", reply.Hint)
	}
	return it, session.GiveChunks(it, onChunk)
}

// ToolBox answers the tools of a case: those of MCP servers by the coordinator, all
// others here.
func (l *live) ToolBox(state *tools.State) session.ToolBox { return &remoteTools{state, l} }

// Close has nothing to stop: the servers are the coordinator's.
func (l *live) Close() {}

type remoteTools struct {
	*tools.State
	live *live
}

// Call answers a call. What is wrong with it is said here, as where cases are not
// driven elsewhere.
func (t *remoteTools) Call(ctx context.Context, name string, args []byte) (tools.Result, error) {
	d, ok := t.Lookup(name)
	if !ok || !strings.HasPrefix(d.Source, tools.MCPPrefix) {
		return t.State.Call(ctx, name, args)
	}
	if wrong := t.Check(name, args); wrong != nil {
		return *wrong, nil
	}
	reply, err := t.live.send(ctx, fleet.ModelCall{Tool: name, Body: string(args)})
	if err != nil {
		return tools.Result{}, err
	}
	if reply.Tool == nil {
		return tools.Result{}, refusal.Newf(reply.Name, "%s", reply.Error).WithHint("%s", reply.Hint)
	}
	return reply.Tool.Result(), nil
}

// send has the coordinator make a call, and waits for what came of it.
func (l *live) send(ctx context.Context, call fleet.ModelCall) (*fleet.ModelReply, error) {
	ticket, _ := ctx.Value(ticketKey{}).(string)
	call.Fleet, call.Ticket, call.Call = l.s.welcome.Fleet, ticket, rand.Text()
	m, err := l.s.insist(ctx, "model", &call, nil, 15*time.Minute)
	if err != nil {
		return nil, err
	}
	return l.s.modelReply(ctx, ticket, bytes.TrimSuffix(m.Data, []byte("\n")))
}

func (s *shift) modelReply(ctx context.Context, ticket string, data []byte) (*fleet.ModelReply, error) {
	var reply fleet.ModelReply
	if err := canon.Unmarshal(data, &reply); err != nil {
		return nil, err
	}
	if reply.Blob == nil {
		return &reply, nil
	}
	data, err := s.fetch(ctx, ticket, *reply.Blob)
	if err != nil {
		return nil, err
	}
	reply = fleet.ModelReply{}
	return &reply, canon.Unmarshal(data, &reply)
}

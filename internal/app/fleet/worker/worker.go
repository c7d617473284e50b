// Package worker is the side of a fleet that drives: it claims cases, drives the agent in this machine's sandbox and brings back what it did, signed.
//
// It trusts a coordinator as far as its own trust root goes: the attempt and every case
// must be signed by an operator of a signers file that follows from that root, and what
// it fetches must have the digest that was signed. It has no expected answer to give away.
package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/app/lab"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/harness"
)

// A worker is one worker of a fleet.
type worker struct {
	o         fleet.WorkerOptions
	nc        *nats.Conn
	user      string
	trustRoot digest.ID
	blobs     *store.Blobs
	ended     chan string // fleets that ended
}

// Work drives cases until ctx ends.
func Work(ctx context.Context, o fleet.WorkerOptions) error {
	w := &worker{o: o, blobs: store.NewBlobs(store.OS{}, filepath.Join(o.Dir, "blobs")), ended: make(chan string, 16)}
	var err error
	if w.trustRoot, err = digest.ParseID(o.TrustRoot); err != nil {
		return refusal.Newf(refusal.Usage, "--trust-root: %w", err)
	}
	if w.o.Jobs < 1 {
		w.o.Jobs = runtime.NumCPU()
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	defer w.nc.Close()
	if _, err := w.nc.Subscribe(fleet.EndSubject(w.user), func(m *nats.Msg) {
		select {
		case w.ended <- string(m.Data):
		default:
		}
	}); err != nil {
		return refusal.Newf(refusal.Failed, "listening for the end: %w", err)
	}
	o.Note("connected to %s as %s", w.nc.ConnectedUrlRedacted(), o.Key.Fingerprint())
	last := ""
	for {
		welcome, err := w.hello(ctx, last)
		if err != nil {
			return err
		}
		last = welcome.Fleet
		if err := w.serve(ctx, welcome); err != nil {
			return err
		}
		if w.o.Once {
			return nil
		}
	}
}

// silence is how long this worker may be silent.
func (w *worker) silence() time.Duration { return cmp.Or(w.o.Silence, fleet.Silence) }

// connect waits for a server that lets this worker in. A worker may be there before its
// coordinator.
func (w *worker) connect(ctx context.Context) (err error) {
	for told := false; ; told = true {
		w.nc, w.user, err = bus.ConnectAs(w.o.URL, w.o.Key, w.o.Access, nats.PingInterval(w.silence()/3))
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, bus.ErrNoServer):
			return withLine(err, w.o.Line)
		}
		if !told {
			w.o.Note("waiting for a server at %s", w.o.URL)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// withLine tells an owner whose worker is not let in how the signers file gets this worker.
func withLine(err error, line string) error {
	r := refusal.Of(err)
	return refusal.Newf(r.Name, "%w", r.Err).WithHint("%s; it is added with: tally signers add NAME --roles worker --ssh FILE, where FILE holds: %s", r.Hint, line)
}

// hello waits for a coordinator of a fleet that is not the one that ended last.
func (w *worker) hello(ctx context.Context, last string) (*fleet.Welcome, error) {
	told := false
	for {
		var welcome fleet.Welcome
		err := w.ask(ctx, "hello", &fleet.Hello{Version: fleet.Version, Harness: w.o.Version, Label: w.o.Label}, &welcome)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil && welcome.Refused != "":
			return nil, refusal.Newf(refusal.Usage, "this worker may not take part: %.500s", welcome.Refused)
		case err == nil && welcome.Version != fleet.Version:
			return nil, refusal.Newf(refusal.Malformed, "the coordinator speaks version %d, this program %d", welcome.Version, fleet.Version)
		case err == nil && welcome.Fleet != "" && welcome.Fleet != last:
			return &welcome, nil
		case refusal.Is(err, refusal.ResultRefused):
			return nil, err
		}
		if w.nc.IsClosed() {
			return nil, refusal.Newf(refusal.Failed, "the server at %s does not let this worker in any more: %v", w.o.URL, w.nc.LastError())
		}
		if !told {
			w.o.Note("waiting for a coordinator")
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// ask sends a document to the coordinator and decodes the answer.
func (w *worker) ask(ctx context.Context, verb string, document, into any) error {
	m, err := w.request(ctx, verb, document, nil, w.silence()*2/3) // it says nothing meanwhile
	if err != nil {
		return err
	}
	return canon.Unmarshal(m.Data, into)
}

// request asks and gives the answer as it is, or a refusal. Rest follows the document.
func (w *worker) request(ctx context.Context, verb string, document any, rest []byte, wait time.Duration) (*nats.Msg, error) {
	answer := rand.Text()
	data, err := fleet.Say(w.o.Key, verb, answer, document, rest)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	m, err := bus.Ask(within, w.nc, fleet.Subject(verb, w.user), fleet.AnswerSubject(w.user, answer), data)
	if err != nil {
		return nil, refusal.Newf(refusal.Failed, "asking the coordinator (%s): %w", verb, err)
	}
	return m, answerIn(m.Data)
}

// tell sends a document that wants no answer.
func (w *worker) tell(verb string, document any) {
	if data, err := fleet.Say(w.o.Key, verb, "", document, nil); err == nil {
		_ = w.nc.Publish(fleet.Subject(verb, w.user), data)
	}
}

// errGone says that a case is not this worker's any more, and errNone that there is no
// case to claim now.
var (
	errGone = errors.New("the case is not this worker's any more")
	errNone = errors.New("there is no case to claim")
)

// answerIn looks for a refusal in an answer. What is not a [fleet.Answer] is the thing
// itself.
func answerIn(data []byte) error {
	var a fleet.Answer
	if len(data) > 4096 || canon.Unmarshal(data, &a) != nil {
		return nil
	}
	switch {
	case a.Leave:
		return refusal.Newf(refusal.ResultRefused, "the coordinator takes nothing more of this worker: %.500s", a.Error)
	case a.Gone:
		return errGone
	case a.None:
		return errNone
	case a.Error != "":
		return fmt.Errorf("the coordinator says: %.500s", a.Error)
	}
	return nil
}

// A shift is the work of a worker for one attempt.
type shift struct {
	*worker
	welcome *fleet.Welcome
	setup   *fleet.Setup
	signers *seal.Signers
	driver  *harness.Driver

	fetched int64 // bytes of folders

	mu      sync.Mutex
	tickets map[string]bool // that it has now
}

// serve works for one fleet until that ends.
func (w *worker) serve(ctx context.Context, welcome *fleet.Welcome) error {
	s := &shift{worker: w, welcome: welcome, tickets: map[string]bool{}}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	defer s.driver.Close()
	w.o.Note("working on attempt %s with %d cases at once", s.setup.Registered.Attempt, w.o.Jobs)
	go s.watch(ctx, stop)
	var slots sync.WaitGroup
	for range w.o.Jobs {
		slots.Go(func() {
			for ctx.Err() == nil {
				if err := s.one(ctx); err != nil {
					stop(err)
				}
			}
		})
	}
	slots.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errEnded) {
		return err
	}
	w.o.Note("attempt %s has ended", s.setup.Registered.Attempt)
	return nil
}

var errEnded = errors.New("the fleet has ended")

// watch tells the coordinator that the worker is there, and ends the shift with the
// fleet.
func (s *shift) watch(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(s.silence() / 5)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case id := <-s.ended:
			if id == s.welcome.Fleet {
				stop(errEnded)
				s.tell("bye", &fleet.Beat{Fleet: id, Tickets: []string{}})
			}
			continue
		case <-tick.C:
		}
		s.beat()
		if n%3 != 0 {
			continue
		}
		// A coordinator that was killed says nothing. Another one may have come.
		var now fleet.Welcome
		if err := s.ask(ctx, "hello", &fleet.Hello{Version: fleet.Version, Harness: s.o.Version, Label: s.o.Label}, &now); err == nil && now.Fleet != "" && now.Fleet != s.welcome.Fleet {
			stop(errEnded)
		}
	}
}

func (s *shift) beat() {
	b := fleet.Beat{Fleet: s.welcome.Fleet, Label: s.o.Label, Tickets: []string{}}
	s.mu.Lock()
	for t := range s.tickets {
		b.Tickets = append(b.Tickets, t)
	}
	s.mu.Unlock()
	s.tell("beat", &b)
}

// prepare fetches what all cases share, verifies it and opens the sandbox.
func (s *shift) prepare(ctx context.Context) error {
	data, err := s.fetch(ctx, "", fleet.File{Digest: s.welcome.Setup, Bytes: s.welcome.Bytes})
	if err != nil {
		return err
	}
	if s.setup, s.signers, err = fleet.OpenSetup(data, s.trustRoot, s.o.Now()); err != nil {
		return fmt.Errorf("this worker does not run the attempt: %w", err)
	}
	target, err := s.setup.Target.Unpack(s.setup.Registered.Plan.TargetDigest, func(d digest.Content) ([]byte, error) {
		return s.fetch(ctx, "", fleet.File{Digest: d, Bytes: fleet.MaxPiece})
	}, func(f agent.CarriedFolder) (string, error) { return s.folder(ctx, f) })
	if err != nil {
		return fmt.Errorf("this worker cannot run the attempt: %w", err)
	}
	if err := sameMounts(target, s.setup.Registered.Plan.Mounts); err != nil {
		return err
	}
	if target.Kind == agent.KindCommand && s.setup.Unsafe {
		return refusal.Newf(refusal.Usage, "the attempt runs its agent without a sandbox (--sandbox none), which workers do not do")
	}
	cfg := harness.Config{Spec: s.setup.Spec(), Target: target, Hidden: s.o.Hidden, Steps: lab.StepsOfSpans, Now: s.o.Now}
	cfg.Spec.Version = s.o.Version
	if s.setup.Live {
		cfg.Live = &live{s}
	}
	s.driver, err = harness.NewDriver(ctx, cfg, harness.DriverClass{Registration: s.setup.Registration, Offered: s.setup.Offered})
	return err
}

// fetch gets a blob by its digest, from this machine if it was here before. Bytes is the
// most that it may have.
func (s *shift) fetch(ctx context.Context, ticket string, f fleet.File) ([]byte, error) {
	if s.blobs.Has(f.Digest) {
		if data, err := s.blobs.Get(f.Digest, fleet.MaxPiece); err == nil {
			return data, nil
		}
	}
	if f.Bytes < 0 || f.Bytes > fleet.MaxPiece {
		return nil, refusal.Newf(refusal.TooLarge, "the coordinator names a piece of %d bytes, at most %d are fetched", f.Bytes, fleet.MaxPiece)
	}
	var data []byte
	for {
		m, err := s.insist(ctx, "fetch", &fleet.Fetch{Ticket: ticket, Digest: f.Digest, Offset: int64(len(data))}, nil, 30*time.Second)
		if err != nil {
			return nil, err
		}
		data = append(data, m.Data...)
		if int64(len(data)) > f.Bytes || len(m.Data) < fleet.MaxPart {
			break
		}
	}
	if d := digest.ContentOf(data); d != f.Digest {
		return nil, refusal.Newf(refusal.DigestMismatch, "what the coordinator sent is %s, expected %s", d, f.Digest)
	}
	_, err := s.blobs.Put(data) // a disk that is full costs time, not the case
	if err != nil {
		s.o.Note("keeping what was fetched: %v", err)
	}
	return data, nil
}

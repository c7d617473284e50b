// Package provider calls live models and live MCP servers, and records what
// they answer.
//
// [LoadSettings] reads providers.yaml; [Settings.Access] adds the keys;
// [Access.Case] makes the live side of one case: a [Live] for its model calls
// and [LiveTools] for its MCP servers, recorded into one cassette. Requests and replies pass as the bytes they are:
// nothing is decoded and encoded again on the way. Every reply goes through a
// [cassette.Recorder], which removes secrets before it keeps anything, and what
// the caller gets is what was kept, so that an agent sees the same in a
// recording and in its replay.
//
// What a caller may rely on:
//
//   - A key goes to the address in the settings, over TLS or to this machine,
//     and nowhere else: redirects are refused. It is in no error, event, reply
//     or cassette, even if the provider repeats it.
//   - Nothing is sent that does not fit into the [Budget].
//   - With a [journal.Running], nothing is sent before its intent is on disk, and
//     no reply is seen before it is: of a stream, its last event and its end.
//   - Tries are bounded and counted, and only what has not been passed on is
//     tried again.
//
// Where it stops: a provider that is not honest can still answer anything, bill
// more than its list says, or keep what it is sent. MCP servers that are
// commands run as this user, outside of any sandbox; the settings name them.
// This is the only package that reaches the network for a run, and a replay
// does not use it.
package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/replies"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

// Limits of one call. A cassette keeps request and reply in one line of at
// most 8 MiB.
const (
	maxRequestBytes = 8 << 20
	maxReplyBytes   = 8 << 20
)

// Config is what the calls of one case are made with.
type Config struct {
	Access   *Access
	Recorder *cassette.Recorder

	// OnlyMissing, if not nil, answers what it has; only what it misses goes
	// to the provider.
	OnlyMissing *cassette.Player

	// Cached, if not nil, is asked before the provider; see [CaseOptions].
	Cached func(cassette.Request) (cassette.Borrowed, error)

	// Kept, if not nil, is the library of replies; see [CaseOptions].
	Kept *replies.Shelf

	// Purpose is what these calls are recorded for.
	Purpose cassette.Purpose

	// Budget bounds the cost of these calls and of all others that share it.
	// With nil nothing is bounded here.
	Budget *Budget

	// Journal, if not nil, has each call before it is sent and each reply
	// before a caller sees it, and answers what an earlier process has asked.
	Journal *journal.Running

	// OnRetry, if not nil, is told before a call is tried again.
	OnRetry func(Retry)
}

// A Live answers model calls from live providers. It is safe for concurrent
// use, and is what package session calls Models.
type Live struct {
	cfg   Config
	sleep func(context.Context, time.Duration) error

	mu    sync.Mutex
	stats Stats
}

// Stats counts what a [Live] did.
type Stats struct {
	Calls    int // that were answered by a provider, whatever the answer
	Replayed int // that a recording answered
	Recalled int // that the journal answered: an earlier process paid for them
	Retries  int
	// Unanswered are the tries before a retry that were sent and may have been billed.
	Unanswered int
	Refused    int // calls whose last answer has an error status
	Broken     int // streams that are not complete
	Failed     int // calls without any answer to keep
}

// New makes a Live.
func New(cfg Config) (*Live, error) {
	if cfg.Access == nil || cfg.Recorder == nil {
		return nil, refusal.Newf(refusal.Failed, "a live provider needs its access and a recorder")
	}
	return &Live{cfg: cfg, sleep: sleep}, nil
}

// Stats returns the counts until now.
func (l *Live) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

func (l *Live) count(change func(*Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}

// Cassette returns the file of everything recorded so far. It has been read
// again, so a replay can read it too.
func (l *Live) Cassette() ([]byte, error) {
	c, err := l.cfg.Recorder.Cassette()
	if err != nil {
		return nil, err
	}
	file, err := c.Marshal()
	if err != nil {
		return nil, err
	}
	if _, err := cassette.Parse(file, cassette.Limits{}); err != nil {
		return nil, fmt.Errorf("reading the recording again: %w", err)
	}
	return file, nil
}

// Call sends a request to the provider of its API and records the reply. Body
// is sent as it is. OnChunk, if not nil, is given each event of a streamed reply
// as it arrives, without the provider's key.
//
// An error status is a reply like any other, after the tries that it allows. A
// stream that breaks off is recorded and returned as far as it came: a client
// sees it end early, now and in a replay. Without a reply that can be kept
// there is an error, a refusal of the name ProviderFailed if the provider is
// the cause.
func (l *Live) Call(ctx context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	// Now, so that nothing is paid for that could not be kept.
	request, err := cassette.ModelRequest(api, body, l.cfg.Access.Redactor())
	if err != nil {
		return nil, err
	}
	asked := l.cfg.Kept.Ask(request)
	it, err := l.answer(ctx, api, body, request, asked, onChunk)
	asked.End(it)
	return it, err
}

func (l *Live) answer(ctx context.Context, api wire.API, body []byte, request cassette.Request, asked *replies.Asked, onChunk func(string) error) (*cassette.Interaction, error) {
	// What this very execution has asked already comes first: a recording may
	// have got it since.
	paid := l.recall(request)
	if it, err := l.recalled(paid, request, asked, onChunk); it != nil || err != nil {
		return it, err
	}
	if paid == nil {
		if it, err := l.replay(request, asked, onChunk); it != nil || err != nil {
			return it, err
		}
	}
	e, err := l.cfg.Access.Settings.endpoint(api)
	if err != nil {
		return nil, err
	}
	key, err := l.cfg.Access.credentials(e)
	if err != nil {
		return nil, err
	}
	if len(body) > maxRequestBytes {
		return nil, refusal.Newf(refusal.TooLarge, "the request to %s has %d bytes, the most is %d", api, len(body), maxRequestBytes).
			WithHint("a cassette keeps request and reply in one line; send less in one call")
	}
	c := &call{live: l, endpoint: e, key: key, lane: l.cfg.Access.lanes[e.Provider], api: api, body: body, asked: request, onChunk: onChunk, paid: paid, kept: asked}
	if c.most, err = e.mostCost(api, request.Canonical()); err != nil && l.cfg.Budget != nil && !l.cfg.Budget.takes(err) {
		return nil, err
	}
	c.bounded = err == nil
	c.tokens = roughTokens(api, request.Canonical())
	if err := c.begin(); err != nil {
		return nil, err
	}
	return c.run(ctx)
}

// replay answers from recordings, then from the library; nil if neither has it.
func (l *Live) replay(request cassette.Request, asked *replies.Asked, onChunk func(string) error) (*cassette.Interaction, error) {
	it, err := l.recorded(request)
	if it == nil && (err == nil || refusal.Is(err, refusal.CassetteMiss)) {
		kept, kerr := l.cfg.Recorder.Borrow(request, func(cassette.Request) (cassette.Borrowed, error) { return asked.Find() })
		if kept != nil || kerr != nil {
			it, err = kept, kerr
		}
	}
	if it == nil || err != nil {
		return nil, err
	}
	l.count(func(s *Stats) { s.Replayed++ })
	return it, session.GiveChunks(it, onChunk)
}

// recorded is what recordings of the case answer, nil if none does.
func (l *Live) recorded(request cassette.Request) (*cassette.Interaction, error) {
	switch {
	case l.cfg.Cached != nil:
		return l.cfg.Recorder.Borrow(request, l.cfg.Cached)
	case l.cfg.OnlyMissing == nil:
		return nil, nil
	}
	it, err := l.cfg.OnlyMissing.Next(request)
	if refusal.Is(err, refusal.CassetteMiss) {
		return nil, nil
	}
	return it, err
}

// A call is one request on its way, through all of its tries.
type call struct {
	live     *Live
	endpoint *Endpoint
	key      credentials
	lane     *lane
	api      wire.API
	body     []byte
	asked    cassette.Request // in its canonical form
	onChunk  func(string) error
	most     int64                  // micro-dollars
	bounded  bool                   // most is known
	tokens   int64                  // that it may use, roughly, for a limit of these
	settled  func(cost int64) error // of the budget; nil without one

	kept *replies.Asked
	paid *journal.Call // nil without a journal
	sent *journal.Sent // the try that is under way
}

// run tries until there is something to keep.
func (c *call) run(ctx context.Context) (*cassette.Interaction, error) {
	l := c.live
	for number := 1; ; number++ {
		// Before anything is set aside or on disk: a call that waits here was not sent.
		pass, err := c.lane.enter(ctx, c.tokens)
		if err != nil {
			return nil, err
		}
		if l.cfg.Budget != nil {
			if c.settled, err = l.cfg.Budget.reserve(ctx, c.endpoint, c.most); err != nil {
				pass.leave(nil)
				return nil, err
			}
		}
		if err := c.intend(); err != nil {
			pass.leave(nil)
			return nil, errors.Join(err, c.settle(0)) // and it was not sent
		}
		r := c.try(ctx)
		wait, again := c.again(ctx, r, number)
		pass.leave(r)
		if !again {
			return c.keep(ctx, r)
		}
		if err := errors.Join(c.settle(r.cost(nil, c.most)), c.failed(r)); err != nil {
			return nil, err
		}
		l.count(func(s *Stats) {
			s.Retries++
			if r.maybePaid() {
				s.Unanswered++
			}
		})
		if l.cfg.OnRetry != nil {
			l.cfg.OnRetry(Retry{Number: number, Reason: r.reason(), Wait: wait})
		}
		if err := l.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// again decides whether to try again and how long to wait. What the client has
// seen a part of is never tried again.
func (c *call) again(ctx context.Context, r *reply, number int) (time.Duration, bool) {
	if ctx.Err() != nil || r.passed || number > c.endpoint.Limits.Retries {
		return 0, false
	}
	var h http.Header
	switch {
	case r.err != nil && r.final:
		return 0, false
	case r.err == nil:
		if !retryable(r.status, r.header) {
			return 0, false
		}
		h = r.header
	}
	wait, again := waitFor(number, h, time.Now())
	return wait, again && c.lane.mayRetry(r)
}

// keep records the last try, or says why there is nothing to record.
func (c *call) keep(ctx context.Context, r *reply) (*cassette.Interaction, error) {
	l := c.live
	if r.err != nil && !r.streamed {
		settled := c.settle(r.cost(nil, c.most))
		l.count(func(s *Stats) { s.Failed++ })
		if err := errors.Join(settled, c.failed(r)); err != nil {
			return nil, err
		}
		return nil, r.sentError(c.failure(ctx, r.err))
	}
	it, err := l.cfg.Recorder.Model(cassette.ModelTraffic{API: c.api, Request: c.body, Status: r.status, Headers: kept(r.header),
		Body: r.body, Streamed: r.streamed, Latency: r.latency, From: r.from, RequestID: requestID(r.header), Purpose: l.cfg.Purpose})
	if err != nil {
		settled := c.settle(r.cost(nil, c.most))
		l.count(func(s *Stats) { s.Failed++ })
		if err := errors.Join(settled, c.failed(r)); err != nil {
			return nil, err
		}
		return nil, r.sentError(fmt.Errorf("the reply of %s: %w", c.endpoint.Provider, c.live.cfg.Access.clean(err)))
	}
	err = c.replied(it)
	if err == nil { // after the journal: a crash in between is mended by a resume
		err = c.kept.Keep(it, false)
	}
	if err != nil {
		settled := c.settle(c.most) // the books have it as sent, and no more
		l.count(func(s *Stats) { s.Failed++ })
		return nil, r.sentError(errors.Join(err, settled))
	}
	// After the reply is in the books: what cannot be settled stays reserved, at its most.
	if err := c.settle(r.cost(it, c.most)); err != nil {
		return nil, r.sentError(err)
	}
	c.release(r)
	l.count(func(s *Stats) {
		s.Calls++
		if r.status >= 400 {
			s.Refused++
		}
		if r.streamed && !complete(c.api, it) {
			s.Broken++
		}
	})
	if r.client != nil {
		return nil, r.sentError(r.client)
	}
	if r.err != nil && ctx.Err() != nil {
		return nil, r.sentError(context.Cause(ctx))
	}
	return it, nil
}

// complete reports whether a stream says all that its API promises. A server
// can end it early without the connection showing it.
func complete(api wire.API, it *cassette.Interaction) bool {
	_, err := wire.BodyOfStream(api, it.Model.Response.Stream)
	return err == nil
}

// settle says what the try that is under way did cost.
func (c *call) settle(cost int64) error {
	if c.settled == nil {
		return nil
	}
	return c.settled(cost)
}

// failure names what went wrong without a key in it.
func (c *call) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var named *refusal.Error
	if errors.As(err, &named) {
		return err
	}
	return refusal.Newf(refusal.ProviderFailed, "calling %s at %s: %w", c.endpoint.Provider, c.endpoint.BaseURL, c.live.cfg.Access.clean(err)).
		WithHint("see whether the address in %s is right and can be reached from here, then run the same command again", SettingsFile)
}

package provider

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"tallystick/internal/run/wire"
)

// Limits are how much a provider may be asked at once. 0 is no limit of that
// kind, but for Retries, the most of one call.
type Limits struct {
	RequestsPerMinute, TokensPerMinute int64
	CallsAtOnce                        int64
	Retries                            int
}

type limitsFile struct {
	RequestsPerMinute int64  `json:"requests_per_minute,omitempty"`
	TokensPerMinute   int64  `json:"tokens_per_minute,omitempty"`
	CallsAtOnce       int64  `json:"calls_at_once,omitempty"`
	Retries           *int64 `json:"retries,omitempty"`
}

// mostRetries bounds what the settings may ask for.
const mostRetries = 50

func (f *limitsFile) limits() (Limits, error) {
	l := Limits{Retries: maxRetries}
	if f == nil {
		return l, nil
	}
	for _, n := range []int64{f.RequestsPerMinute, f.TokensPerMinute, f.CallsAtOnce} {
		if n < 0 || n > wire.MaxTokens {
			return l, fmt.Errorf("found %d, expected 1 to %d", n, int64(wire.MaxTokens))
		}
	}
	l.RequestsPerMinute, l.TokensPerMinute, l.CallsAtOnce = f.RequestsPerMinute, f.TokensPerMinute, f.CallsAtOnce
	if f.Retries != nil {
		if *f.Retries < 0 || *f.Retries > mostRetries {
			return l, fmt.Errorf("retries: found %d, expected 0 to %d", *f.Retries, mostRetries)
		}
		l.Retries = int(*f.Retries)
	}
	return l, nil
}

// A lane is the way to one provider, for all calls of this process: those of all
// workers of a fleet too, whose calls the coordinator makes. Calls take it in the
// order in which they come, as many at once and in a minute as this run's part of the
// limits says (see [company]).
//
// It also learns: a provider that says 429 is asked by half as many calls at
// once, none of them before the time that it names, and by one more after each
// round of answers, as TCP does. Nothing is learned from other errors.
//
// Tries after errors other than 429 may have been billed. There are at most
// spareRetries of them and one more for every callsPerRetry calls: when a
// provider is down, a run of a thousand cases does not ask it five thousand
// times.
type lane struct {
	limits  Limits
	now     func() time.Time
	turn    chan struct{} // holds one token: who has it is first in line
	company *company      // other runs that ask this provider; nil for none

	mu               sync.Mutex
	freed            chan struct{} // closed when a call has left
	under, peak      int64         // calls on their way, and the most of these since allowed was last lowered
	allowed          float64       // calls at once; infinite until a provider says 429
	round            int64         // replies of any kind since allowed was last lowered
	until            time.Time
	requests, tokens bucket
	calls, retries   int64
	inside           int64       // calls that wait or are on their way
	rest             *time.Timer // until the company is left
}

const (
	spareRetries  = 20
	callsPerRetry = 4
)

func newLane(l Limits) *lane {
	n := &lane{limits: l, now: time.Now, turn: make(chan struct{}, 1), freed: make(chan struct{}), allowed: math.Inf(1),
		requests: bucket{size: l.RequestsPerMinute}, tokens: bucket{size: l.TokensPerMinute}}
	if l.CallsAtOnce > 0 {
		n.allowed = float64(l.CallsAtOnce)
	}
	return n
}

// A bucket holds what may be used in a minute, and fills in a minute.
type bucket struct {
	size int64 // 0 is no limit
	used float64
	at   time.Time
}

// wait is how long until n more fit into a part of it. What is more than all of it
// fits when nothing else is in it.
func (b *bucket) wait(n int64, part float64, now time.Time) time.Duration {
	if b.size == 0 {
		return 0
	}
	size := max(1, float64(b.size)*part)
	if !b.at.IsZero() {
		b.used = max(0, b.used-now.Sub(b.at).Minutes()*size)
	}
	b.at = now
	over := b.used + min(float64(n), size) - size
	if over <= 0 {
		return 0
	}
	return time.Duration(over / size * float64(time.Minute))
}

// A pass is one call on its way.
type pass struct {
	lane   *lane
	tokens int64 // that were counted before it was sent
}

// enter waits until a call may be sent.
func (l *lane) enter(ctx context.Context, tokens int64) (_ *pass, err error) {
	l.arrive()
	defer func() {
		if err != nil {
			l.depart()
		}
	}()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		wait, freed := l.take(tokens)
		if wait == 0 && freed == nil {
			return &pass{l, tokens}, nil
		}
		var later <-chan time.Time
		if wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			later = timer.C
		}
		select {
		case <-later:
		case <-freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// arrive counts a call that wants to be made.
func (l *lane) arrive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside++; l.rest != nil {
		l.rest.Stop()
		l.rest = nil
	}
}

// depart counts one that has ended. After the last the company is left, but not at
// once: an agent mostly asks again.
func (l *lane) depart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside--; l.inside > 0 || l.company == nil {
		return
	}
	l.rest = time.AfterFunc(idle, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.inside == 0 {
			l.company.leave()
		}
	})
}

// take takes a place, or says what to wait for: a time, or that a call leaves, or
// whichever comes first.
func (l *lane) take(tokens int64) (wait time.Duration, freed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	part, wait := l.company.share()
	if wait > 0 {
		return wait, nil
	}
	if most := l.most(part); l.under > 0 && float64(l.under)+1 > most {
		if part < 1 { // another run may end first
			wait = recount
		}
		return wait, l.freed
	}
	if wait = max(l.until.Sub(now), l.requests.wait(1, part, now), l.tokens.wait(tokens, part, now)); wait > 0 {
		if part < 1 {
			wait = min(wait, max(recount, l.until.Sub(now)))
		}
		return wait, nil
	}
	l.under++
	l.peak = max(l.peak, l.under)
	l.calls++
	l.requests.used++
	l.tokens.used += float64(tokens)
	return 0, nil
}

// most is how many calls may be on their way.
func (l *lane) most(part float64) float64 {
	if l.limits.CallsAtOnce == 0 {
		return l.allowed
	}
	return min(l.allowed, max(1, math.Floor(float64(l.limits.CallsAtOnce)*part)))
}

// leave ends a call, with what came of it; nil if it was not sent.
func (p *pass) leave(r *reply) {
	l := p.lane
	defer l.depart()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under--
	l.round++
	close(l.freed)
	l.freed = make(chan struct{})
	switch {
	case r == nil:
		l.calls--
		l.requests.used--
		l.tokens.used -= float64(p.tokens)
	case r.status == http.StatusTooManyRequests:
		l.throttled(r)
	case r.err == nil && r.status < 400 && !math.IsInf(l.allowed, 1):
		if most := float64(l.limits.CallsAtOnce); most == 0 || l.allowed < most {
			l.allowed += 1 / l.allowed
		}
	}
}

// throttled asks less at once. Answers to calls that were under way together
// say one thing, so the second of them lowers nothing.
func (l *lane) throttled(r *reply) {
	wish, ok := wished(r.header, l.now())
	if !ok {
		wish = firstWait
	}
	if until := l.now().Add(min(wish, maxWait)); until.After(l.until) {
		l.until = until
	}
	if math.IsInf(l.allowed, 1) || l.round >= int64(l.allowed) {
		l.allowed, l.round, l.peak = max(1, min(float64(l.peak), l.allowed)/2), 0, l.under
	}
}

// mayRetry reports whether one more try fits into what all calls may retry, and
// counts it.
func (l *lane) mayRetry(r *reply) bool {
	if r.status == http.StatusTooManyRequests {
		return true // it was not billed, and the lane waits
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retries >= spareRetries+l.calls/callsPerRetry {
		return false
	}
	l.retries++
	return true
}

// roughTokens is what a call may use, for a limit of tokens: a quarter of the
// bytes that go in, and what it allows to come out. Providers count so too.
func roughTokens(api wire.API, request []byte) int64 {
	n := int64(len(request)+3) / 4
	if b, err := wire.BoundsOf(api, request); err == nil && b.MaxOutput <= wire.MaxTokens {
		n += b.MaxOutput
	}
	return n
}

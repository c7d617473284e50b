package web

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// The bounds of one request. A registry takes small documents; a client that sends more
// or takes longer is holding a connection.
const (
	// maxDocument bounds bodies that carry results of a run.
	maxDocument = 8 << 20
	// maxForm bounds every other body.
	maxForm = 64 << 10

	// maxUnderWay bounds the requests that are answered at one time, and so the
	// memory that bodies take.
	maxUnderWay = 512

	maxQueryBytes = 2 << 10
	maxPathBytes  = 1 << 10
)

// maxBuckets bounds what a limiter remembers. A client with more addresses than
// that shares one bucket with the others that found no room.
const maxBuckets = 100_000

// A limiter is a token bucket for each name: an API key's agent, or an address.
// A nil limiter lets everything through.
type limiter struct {
	perSecond float64
	burst     float64

	mu      sync.Mutex
	buckets map[string]bucket
}

// A bucket is full at first.
type bucket struct {
	tokens float64
	at     time.Time
}

// newLimiter allows so many requests in a time, half of them at once. Zero means
// no limit.
func newLimiter(n int, in time.Duration) *limiter {
	if n <= 0 {
		return nil
	}
	return &limiter{
		perSecond: float64(n) / in.Seconds(),
		burst:     max(1, float64(n)/2),
		buckets:   map[string]bucket{},
	}
}

// take uses up one request of a name. It returns how long to wait if there is
// none left, else 0.
func (l *limiter) take(name string, now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b, known := l.buckets[name]
	if !known {
		if len(l.buckets) >= maxBuckets {
			l.forgetFull(now)
		}
		if len(l.buckets) >= maxBuckets {
			name = "" // shared by all that found no room
			b, known = l.buckets[name]
		}
		if !known {
			b = bucket{tokens: l.burst, at: now}
		}
	}
	b = l.refill(b, now)
	if b.tokens < 1 {
		l.buckets[name] = b
		return time.Duration((1 - b.tokens) / l.perSecond * float64(time.Second))
	}
	b.tokens--
	l.buckets[name] = b
	return 0
}

func (l *limiter) refill(b bucket, now time.Time) bucket {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.tokens, b.at = min(l.burst, b.tokens+passed*l.perSecond), now
	}
	return b
}

// forgetFull drops the buckets that are full again: they say what a new one says.
func (l *limiter) forgetFull(now time.Time) {
	for name, b := range l.buckets {
		if l.refill(b, now).tokens >= l.burst {
			delete(l.buckets, name)
		}
	}
}

// addressOf names the network address that a request came from, for limits. Only
// the connection says where that is: X-Forwarded-For is a header that every client can
// send, so it counts only if the connection comes from a proxy of the operator's,
// and then only its last member, which that proxy wrote itself.
func addressOf(r *http.Request, proxies []netip.Prefix) string {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := ap.Addr().Unmap()
	for _, p := range proxies {
		if p.Contains(addr) {
			if last, ok := lastForwarded(r.Header); ok {
				addr = last
			}
			break
		}
	}
	return network(addr)
}

// network is an address, or for IPv6 the network of one customer: a single machine
// has 2^64 addresses to choose from.
func network(addr netip.Addr) string {
	if addr.Is6() {
		p, err := addr.WithZone("").Prefix(64)
		if err == nil {
			return p.String()
		}
	}
	return addr.String()
}

package viewer

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Bounds of guessing a token: so many wrong ones from an address in so much time. The
// addresses that are remembered are bounded too: who has many must not fill the memory.
const (
	maxWrong      = 10
	wrongWindow   = time.Minute
	maxRemembered = 4096
)

// wrongTokens counts the wrong tokens that came from each address.
type wrongTokens struct {
	now func() time.Time

	mu   sync.Mutex
	from map[netip.Prefix]*wrongFrom
}

type wrongFrom struct {
	since time.Time
	count int
}

// networkOf is who asks: an address of IPv4, or a network of IPv6, of which one person
// has all addresses.
func networkOf(req *http.Request) netip.Prefix {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 64
	if addr = addr.Unmap().WithZone(""); addr.Is4() {
		bits = 32
	}
	p, _ := addr.Prefix(bits) // it has as many
	return p
}

// note counts a wrong token.
func (t *wrongTokens) note(req *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	who := networkOf(req)
	f := t.from[who]
	if f == nil || t.now().Sub(f.since) >= wrongWindow {
		if t.from == nil || len(t.from) >= maxRemembered {
			t.forget()
		}
		f = &wrongFrom{since: t.now()}
		t.from[who] = f
	}
	f.count++
}

// forget drops those whose time is over, and all of them where that is not enough.
func (t *wrongTokens) forget() {
	kept := make(map[netip.Prefix]*wrongFrom)
	for who, f := range t.from {
		if t.now().Sub(f.since) < wrongWindow {
			kept[who] = f
		}
	}
	if len(kept) >= maxRemembered {
		clear(kept)
	}
	t.from = kept
}

// wait is for how many seconds the one who asks is not listened to; 0 if they are.
func (t *wrongTokens) wait(req *http.Request) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.from[networkOf(req)]
	if f == nil || f.count < maxWrong {
		return 0
	}
	return max(0, int((wrongWindow-t.now().Sub(f.since)).Seconds()+0.999))
}

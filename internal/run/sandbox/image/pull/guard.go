package pull

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"tallystick/internal/record/loopback"
)

// A guard is the way to a registry and to where it sends us: TLS everywhere but on this
// machine's loopback, and no way to this machine or its link for a registry that is
// elsewhere, whatever its redirects and challenges say.
type guard struct {
	local  bool // the registry was asked for on this machine
	secure http.RoundTripper
	plain  http.RoundTripper

	mu       sync.Mutex
	insecure bool // something was answered without TLS
}

// A guardError is what the guard refuses; it does not pass by itself.
type guardError struct{ problem string }

func (e *guardError) Error() string { return e.problem }

func newGuard(registry string) *guard {
	host, _, err := net.SplitHostPort(registry)
	if err != nil {
		host = registry
	}
	g := &guard{local: loopback.Is(host)}
	dialer := &net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second}
	through := func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
		return &http.Transport{DialContext: dial, TLSHandshakeTimeout: 20 * time.Second, ResponseHeaderTimeout: idleTimeout,
			MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: parallel, IdleConnTimeout: 30 * time.Second}
	}
	secure := through(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil || g.local {
			return conn, err
		}
		// A proxy that the person set up may be here: its address is in no redirect.
		if ip := remote(conn); ip.IsLoopback() && !isProxy(addr) || ip.IsLinkLocalUnicast() {
			conn.Close()
			return nil, &guardError{fmt.Sprintf("a registry elsewhere leads to %s on this machine", addr)}
		}
		return conn, nil
	})
	secure.Proxy = http.ProxyFromEnvironment
	g.secure = secure
	g.plain = through(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err == nil && !remote(conn).IsLoopback() {
			conn.Close()
			return nil, &guardError{fmt.Sprintf("%s is not this machine, and without TLS only this machine is asked", addr)}
		}
		return conn, err
	})
	return g
}

// isProxy reports whether an address is that of a proxy of the environment.
func isProxy(addr string) bool {
	for _, scheme := range []string{"https", "http"} {
		req, err := http.NewRequest(http.MethodGet, scheme+"://registry.invalid/", nil)
		if err != nil {
			return false
		}
		if u, err := http.ProxyFromEnvironment(req); err == nil && u != nil && u.Host == addr {
			return true
		}
	}
	return false
}

func remote(c net.Conn) netip.Addr {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr().Unmap()
}

// RoundTrip sends a request, or refuses it.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.URL.Scheme {
	case "https":
		return g.secure.RoundTrip(req)
	case "http":
		if !g.local || !loopback.Is(req.URL.Hostname()) {
			return nil, &guardError{fmt.Sprintf("%s without TLS: registries are asked by https, but for one on this machine", req.URL.Host)}
		}
		resp, err := g.plain.RoundTrip(req)
		if err == nil {
			g.mu.Lock()
			g.insecure = true
			g.mu.Unlock()
		}
		return resp, err
	}
	return nil, &guardError{fmt.Sprintf("the scheme %.20q: registries are asked by https", req.URL.Scheme)}
}

// usedPlain reports whether the registry answers without TLS.
func (g *guard) usedPlain() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.insecure
}

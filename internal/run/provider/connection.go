package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/loopback"
)

// A seenConnection is what this machine sees of the connection on which a reply comes. All
// that a recording says of its endpoint is from here, and nothing of what the server
// wrote.
type seenConnection struct {
	mu            sync.Mutex
	here, reached netip.Addr
}

// watchConnection sees which connection the request of a context is sent on. If the
// transport takes another, the last one counts: it is the one that answers.
func watchConnection(ctx context.Context) (context.Context, *seenConnection) {
	s := &seenConnection{}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.here, s.reached = addressOf(info.Conn.LocalAddr()), addressOf(info.Conn.RemoteAddr())
	}}), s
}

func addressOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// endpoint says who answered. What cannot be seen is an error: a reply of
// unknown origin is not kept.
func (s *seenConnection) endpoint(asked *Endpoint, resp *http.Response, trusted *roots) (*evidence.Endpoint, error) {
	proxy, err := http.ProxyFromEnvironment(resp.Request)
	if err != nil {
		return nil, err
	}
	return s.endpointAt(asked.BaseURL, proxy, resp.TLS, trusted)
}

// endpointAt is endpoint for a base URL and a connection through proxy, nil for none.
func (s *seenConnection) endpointAt(base string, proxy *url.URL, state *tls.ConnectionState, trusted *roots) (*evidence.Endpoint, error) {
	e, err := evidence.EndpointAt(base)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	here, reached := s.here, s.reached
	s.mu.Unlock()
	if !reached.IsValid() {
		return nil, errors.New("the address that the connection reached cannot be seen")
	}
	e.Address = reached.String()
	// A connection to any address of this machine reaches this machine.
	e.Local = loopback.IsLocalName(e.Host) || loopback.IsLocal(reached) || here == reached
	if proxy != nil { // whose address it is: that of the server only the proxy knows
		e.Proxy = strings.ToLower(proxy.Host)
	}
	e.Leaf, e.Chain = evidence.PlainEndpoint, evidence.PlainEndpoint
	if e.Scheme != "https" {
		return &e, nil
	}
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil, errors.New("the connection has no verified certificate")
	}
	var chain bytes.Buffer
	for _, c := range state.PeerCertificates {
		chain.Write(c.Raw)
	}
	e.Leaf, e.Chain = digest.IDOf(state.PeerCertificates[0].Raw).String(), digest.IDOf(chain.Bytes()).String()
	e.Roots = trusted.vouching(state)
	if proxy != nil { // wherever that is, the certificate says who answered
		e.Local = loopback.IsLocalName(e.Host)
	}
	return &e, nil
}

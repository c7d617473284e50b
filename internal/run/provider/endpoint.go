package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/loopback"
)

// checkURL accepts https, and http to this very machine. A URL with a password
// or a query in it is refused: errors and confirmations show URLs.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return errors.New("is not a URL, expected one such as https://api.example.com/v1")
	}
	switch {
	case u.User != nil:
		return errors.New("has a user or password in it; keys come from key_env or key_file")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("has a query or a fragment, expected a base URL without them")
	case u.Scheme == "http" && !loopback.Is(u.Hostname()):
		return fmt.Errorf("is http to %s, expected https: over http every machine on the way reads the key; only this machine (127.0.0.1, ::1, localhost) may be http", u.Hostname())
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("has the scheme %q, expected https", u.Scheme)
	}
	_, err = evidence.EndpointAt(text)
	return err
}

// errRedirect says that a provider sent us elsewhere. The key was meant for
// the address in the settings and for no other.
var errRedirect = errors.New("it redirects to another address, which is not followed")

// newClient makes the HTTP client of servers that are verified against the given
// roots. Proxies are taken from HTTPS_PROXY and NO_PROXY, as docs/recording.md says,
// and are on record; what is not https goes to this machine and to no proxy.
func newClient(trusted *roots) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
		Transport: &loopbackOnly{
			encrypted: sync.OnceValue(func() *http.Transport { return encryptedTransport(trusted) }),
			plain:     plainTransport(),
		},
	}
}

func encryptedTransport(trusted *roots) *http.Transport {
	dialer := &net.Dialer{Timeout: 15 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: trusted.pool()},
		TLSHandshakeTimeout:   15 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
		// Bytes are recorded as they come.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// loopbackOnly sends what is not encrypted to this machine, whatever the name
// localhost stands for in its files.
type loopbackOnly struct {
	encrypted func() *http.Transport // made when it is first needed: its roots take time to read
	plain     *http.Transport
	tls       atomic.Bool // encrypted was made
}

// RoundTrip chooses the transport by the scheme.
func (t *loopbackOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		t.tls.Store(true)
		return t.encrypted().RoundTrip(r)
	}
	return t.plain.RoundTrip(r)
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (t *loopbackOnly) CloseIdleConnections() {
	if t.tls.Load() {
		t.encrypted().CloseIdleConnections()
	}
	t.plain.CloseIdleConnections()
}

func plainTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 15 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil || !loopback.Is(host) {
			return fmt.Errorf("http to %s, which is not this machine", address)
		}
		return nil
	}}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		},
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

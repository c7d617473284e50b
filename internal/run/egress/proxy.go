package egress

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

const (
	headTimeout = 30 * time.Second // for a head, once it has begun
	bodyTimeout = time.Minute
	idleTimeout = 2 * time.Minute
	sendTimeout = 30 * time.Second // for one piece of a reply

	// maxAtOnce bounds how many requests are under way, and maxConns how many
	// connections are open.
	maxAtOnce = 32
	maxConns  = 256

	// maxRefusedEvents is how many refused requests leave an event each; the others
	// are counted, and noted by Close.
	maxRefusedEvents = 1000
)

// Config is what a proxy answers with.
type Config struct {
	Session   *session.Session
	Rules     Rules
	Authority *Authority
	Token     string // that the program must show

	// Here is HOST:PORT at which the program finds the proxy, and the gateway.
	Here string

	// Live passes streamed replies on as they arrive.
	Live bool
	// Shared says that others than the program can connect: what comes without the
	// token leaves no record.
	Shared bool
}

// A Proxy answers for one case. A [Split] gives it its connections.
type Proxy struct {
	cfg      Config
	tokenSum [sha256.Size]byte
	gateway  func(net.Conn) // takes what is meant for the gateway

	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}

	mu         sync.Mutex
	conns      map[net.Conn]bool
	closed     bool
	refused    int
	unrecorded int
	under      sync.WaitGroup
}

// New makes the proxy of one case. Requests end when ctx does.
func New(ctx context.Context, cfg Config) *Proxy {
	p := &Proxy{cfg: cfg, tokenSum: sha256.Sum256([]byte(cfg.Token)), slots: make(chan struct{}, maxAtOnce), conns: map[net.Conn]bool{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// Close ends every connection, waits for the requests under way, and notes how many
// refused ones left no event. A nil proxy has none.
func (p *Proxy) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	again := p.closed
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.cancel()
	p.under.Wait()
	if p.mu.Lock(); again || p.unrecorded == 0 {
		p.mu.Unlock()
		return nil
	}
	n := p.unrecorded
	p.mu.Unlock()
	return p.cfg.Session.Security(trajectory.SecurityEvent{Name: "egress.requests_not_recorded", Severity: evidence.Warn,
		Detail: fmt.Sprintf("%d refused requests came after the first %d and have no event of their own", n, maxRefusedEvents)})
}

// Serve answers on a connection until it ends.
func (p *Proxy) Serve(c net.Conn) {
	defer c.Close()
	p.mu.Lock()
	if p.closed || len(p.conns) >= maxConns {
		p.mu.Unlock()
		return
	}
	p.conns[c] = true
	p.under.Add(1)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
		p.under.Done()
	}()
	r, ok := c.(*conn)
	if !ok {
		r = newConn(c)
	}
	line := &line{p: p, c: c, r: r.r}
	line.serve()
}

// A line is a connection of the program: to the proxy itself, or through it to one host.
type line struct {
	p *Proxy
	c net.Conn
	r *bufio.Reader

	// Within CONNECT: where to.
	tunnel       bool
	scheme, host string
	port         int
}

func (l *line) serve() {
	for {
		_ = l.c.SetReadDeadline(time.Now().Add(idleTimeout))
		if _, err := l.r.Peek(1); err != nil {
			return
		}
		_ = l.c.SetReadDeadline(time.Now().Add(headTimeout))
		m, err := readHead(l.r)
		if err != nil {
			l.unreadable(err)
			return
		}
		if !l.answer(m) {
			return
		}
	}
}

// unreadable refuses what is no request, if the program can still hear it. Before it
// has shown its token, nobody knows who sent it.
func (l *line) unreadable(err error) {
	var malformed *malformedError
	if !errors.As(err, &malformed) {
		return
	}
	if l.tunnel || !l.p.cfg.Shared {
		l.p.violated("malformed", "an HTTP request was refused: "+malformed.text)
	}
	l.say(400, "the request is refused: "+malformed.text, true)
}

// answer answers one request, and reports whether another may follow.
func (l *line) answer(m *message) (more bool) {
	if l.tunnel {
		return l.inTunnel(m)
	}
	if !l.p.admits(m) {
		l.unauthorised(m)
		return false
	}
	if m.method == "CONNECT" {
		l.connect(m)
		return false
	}
	scheme := "http"
	rest, ok := cutScheme(m.target, "http://")
	if !ok {
		// Clients that know no CONNECT, as axios, leave TLS to the proxy, which ends it
		// in any case. What is in the open never leaves the sandbox.
		if rest, ok = cutScheme(m.target, "https://"); !ok {
			return l.malformed("the target is %.80q, expected http://HOST/PATH", m.target)
		}
		scheme = "https"
	}
	authority, pathAndQuery := rest, "/"
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, pathAndQuery = rest[:i], rest[i:]
		if pathAndQuery[0] != '/' {
			pathAndQuery = "/" + pathAndQuery
		}
	}
	if m.once2("host") != "" && authority == l.p.cfg.Here {
		l.forward(m, pathAndQuery)
		return false
	}
	host, port, err := HostPort(authority, usualPort[scheme])
	if err != nil {
		return l.malformed("%v", err)
	}
	return l.request(m, scheme, host, port, pathAndQuery)
}

func cutScheme(target, scheme string) (rest string, ok bool) {
	if len(target) < len(scheme) || !strings.EqualFold(target[:len(scheme)], scheme) {
		return "", false
	}
	return target[len(scheme):], true
}

// once2 is a header that framing has counted already.
func (m *message) once2(name string) string { return strings.Join(m.headers[name], ", ") }

func (l *line) inTunnel(m *message) bool {
	if m.method == "CONNECT" {
		return l.refuse("tunnel", 403, "a tunnel in a tunnel is refused")
	}
	target := m.target
	if rest, ok := cutScheme(target, l.scheme+"://"); ok { // some clients send the whole URL
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			i, rest = len(rest), rest+"/"
		}
		if host, port, err := HostPort(rest[:i], usualPort[l.scheme]); err != nil || host != l.host || port != l.port {
			return l.refuse("host", 403, fmt.Sprintf("the request is for %.80q in a tunnel to %s", rest[:i], Place(l.scheme, l.host, l.port)))
		}
		target = rest[i:]
	}
	if target == "" || target[0] != '/' {
		return l.malformed("the target is %.80q, expected a path", m.target)
	}
	return l.request(m, l.scheme, l.host, l.port, target)
}

// admits reports whether the program shows the token of the case.
func (p *Proxy) admits(m *message) bool {
	values := m.headers["proxy-authorization"]
	if len(values) != 1 {
		return false
	}
	scheme, shown, _ := strings.Cut(values[0], " ")
	shown = strings.TrimSpace(shown)
	if strings.EqualFold(scheme, "basic") {
		plain, err := base64.StdEncoding.DecodeString(shown)
		if err != nil {
			return false
		}
		_, shown, _ = strings.Cut(string(plain), ":")
	}
	sum := sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(sum[:], p.tokenSum[:]) == 1
}

func (l *line) unauthorised(m *message) {
	_, showed := m.headers["proxy-authorization"]
	if !l.p.cfg.Shared && l.p.countRefused() {
		rule, detail := "", "a request came to the proxy without a token"
		if showed {
			rule, detail = "egress:token", "a request came to the proxy with a token that is not the one of this case"
		}
		_ = l.p.cfg.Session.Attempted(trajectory.SecurityEvent{Name: "egress.token_refused", Severity: evidence.Warn, Detail: detail}, rule)
	}
	l.send(407, map[string][]string{"proxy-authenticate": {`Basic realm="tally"`}, "content-type": {"text/plain; charset=utf-8"}},
		"the proxy is for the program of one case; its token is in HTTP_PROXY\n", true)
}

// connect opens a tunnel, which ends here: what goes through it is read.
func (l *line) connect(m *message) {
	if m.length != 0 {
		l.malformed("CONNECT has a body")
		return
	}
	if m.target == l.p.cfg.Here {
		l.toGateway()
		return
	}
	host, port, err := HostPort(m.target, 0)
	if err != nil || port == 0 {
		l.malformed("CONNECT is for %.80q, expected HOST:PORT", m.target)
		return
	}
	if !l.agrees(m, host, port, port) {
		return
	}
	scheme := "https"
	if port == usualPort["http"] {
		scheme = "http"
	}
	if !l.p.cfg.Rules.Lists(host, port) {
		l.unlisted(&Unlisted{Scheme: scheme, Host: host, Port: port})
		return
	}
	if wire.SellsModels(host) {
		l.refuse("model", 403, modelProvider(host))
		return
	}
	_ = l.c.SetWriteDeadline(time.Now().Add(sendTimeout))
	if _, err := io.WriteString(l.c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	l.through(host, port)
}

// through serves what comes in a tunnel: TLS, or HTTP as it is.
func (l *line) through(host string, port int) {
	_ = l.c.SetReadDeadline(time.Now().Add(headTimeout))
	first, err := l.r.Peek(1)
	if err != nil {
		return
	}
	const handshake = 22 // the content type of TLS records that begin a connection
	inner := &line{p: l.p, c: l.c, r: l.r, tunnel: true, scheme: "http", host: host, port: port}
	if first[0] != handshake {
		inner.serve()
		return
	}
	server := tls.Server(&conn{l.c, l.r}, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if err := sameName(hello.ServerName, host); err != nil {
				l.p.violated("sni", err.Error())
				return nil, err
			}
			return l.p.cfg.Authority.leaf(host)
		}})
	if err := server.HandshakeContext(l.p.ctx); err != nil {
		return
	}
	defer server.Close()
	inner.c, inner.r, inner.scheme = server, bufio.NewReaderSize(server, 16<<10), "https"
	inner.serve()
}

// sameName compares the name in a TLS handshake with the host of the tunnel. An address
// has none.
func sameName(sni, host string) error {
	if _, err := netip.ParseAddr(host); err == nil && sni == "" {
		return nil
	}
	if said, err := Host(sni); err != nil || said != host {
		return fmt.Errorf("the TLS handshake is for %.80q in a tunnel to %s", sni, host)
	}
	return nil
}

// agrees compares the Host of a request with where it goes.
func (l *line) agrees(m *message, host string, port, usual int) bool {
	said := m.once2("host")
	if said == "" && m.minor == 0 {
		return true
	}
	h, n, err := HostPort(said, usual)
	if err == nil && h == host && n == port {
		return true
	}
	return l.refuse("host", 400, fmt.Sprintf("the request goes to %s and its Host is %.80q", Place("", host, port), said))
}

func (p *Proxy) countRefused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused++; p.refused > maxRefusedEvents {
		p.unrecorded++
		return false
	}
	return true
}

// violated records what the program tried.
func (p *Proxy) violated(what, detail string) {
	if p.countRefused() {
		// If it cannot be recorded, the answer is the same.
		_ = p.cfg.Session.Attempted(trajectory.SecurityEvent{Name: "egress." + what, Severity: evidence.Warn, Detail: strings.ToValidUTF8(detail, "\uFFFD")}, "egress:"+what)
	}
}

// refuse records and tells a refusal that ends the connection: what is left of the
// request was not read.
func (l *line) refuse(what string, status int, text string) bool {
	l.p.violated(what, text)
	l.say(status, text, true)
	return false
}

func (l *line) malformed(format string, args ...any) bool {
	text := fmt.Sprintf(format, args...)
	l.p.violated("malformed", "an HTTP request was refused: "+text)
	l.say(400, "the request is refused: "+text, true)
	return false
}

func (l *line) unlisted(u *Unlisted) {
	if wire.SellsModels(u.Host) {
		l.refuse("model", 403, modelProvider(u.Host))
		return
	}
	l.refuse("unlisted", 403, u.Error())
}

// toGateway connects a tunnel with the gateway of the case, which has the same address.
func (l *line) toGateway() {
	if _, err := io.WriteString(l.c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	_ = l.c.SetDeadline(time.Time{})
	here, there := net.Pipe()
	l.p.gateway(there)
	go func() {
		_, _ = io.Copy(here, l.r)
		here.Close()
	}()
	_, _ = io.Copy(l.c, here)
}

// forward gives a request for the gateway, which a client sent to the proxy, to the
// gateway. The connection ends with the reply.
func (l *line) forward(m *message, target string) {
	_ = l.c.SetReadDeadline(time.Now().Add(bodyTimeout))
	if slices.Contains(m.headers["expect"], "100-continue") {
		_, _ = io.WriteString(l.c, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	body, err := m.body(l.r)
	if err != nil {
		l.unreadable(err)
		return
	}
	_ = l.c.SetDeadline(time.Time{})
	here, there := net.Pipe()
	defer here.Close()
	l.p.gateway(there)
	go func() {
		_, _ = io.WriteString(here, m.again(target, len(body)))
		_, _ = here.Write(body)
	}()
	_, _ = io.Copy(l.c, here)
}

// again writes the head of a request for a server.
func (m *message) again(target string, length int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", m.method, target)
	for name, values := range m.headers {
		if slices.Contains(hopByHop, name) || name == "content-length" || name == "expect" {
			continue
		}
		for _, v := range values {
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	fmt.Fprintf(&b, "content-length: %d\r\nconnection: close\r\n\r\n", length)
	return b.String()
}

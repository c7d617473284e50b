// Package gateway is what an agent that is not ours talks to during one case:
// the model APIs that package wire knows, and an MCP server with the tools of
// the case. An agent that uses an official SDK needs nothing but a base URL and
// a key, which [Environment] gives it.
//
// A [Gateway] answers for one [session.Session] and holds no answers itself:
// what a model or a tool says, and whether it may be asked, is the session's
// business. Replies go out as they were recorded, streams event by event. When
// the session stops the case, every API answers with an error of its own shape
// that its SDK does not retry.
//
// A token that is not the case's, and an MCP session that this case did not
// begin, are violations of the case: only its agent can reach its gateway.
//
// Every request leaves a transport_request event, which is written before the
// end of the reply is sent, so that whatever an agent does because of a reply
// stands behind it. A session that has stopped takes no more events, so the
// request that stopped it shows as the failed call only. Requests without the token
// of the case get nothing, and leave a security_event; where others than its agent
// can reach the gateway they leave nothing at all. The token and other keys are in no event and no error
// message, and the token is taken out of what goes on to a model or a tool.
//
// What the gateway cannot see: tools that an agent executes in its own process
// (it sees that the model proposed them, in the reply, and no more), and
// requests so malformed that net/http refuses them before a handler runs.
// Requests that an agent sends at the same time are recorded in the order in
// which they arrive, which may differ from run to run. docs/agents.md says what
// an agent is given.
package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// Bounds that keep a hostile agent from exhausting the machine.
const (
	// defaultBodyBytes is what one line of a cassette can hold: a larger
	// request could not be recorded.
	defaultBodyBytes = 8 << 20

	// maxAtOnce bounds how many requests are under way; further ones wait. Of
	// those with a body of more than smallBody bytes there is one at a time.
	maxAtOnce = 32
	smallBody = 256 << 10

	// maxValues bounds the JSON values of a body. Each takes a multiple of its
	// bytes when it is read: 8 MiB of [[],[],[]] took 600 MB.
	maxValues = 500_000

	// maxRefusedEvents is how many refused requests leave an event each. What
	// is beyond is counted, and noted by Close: a trajectory has a size limit,
	// and a stranger should not be able to end a case by sending requests.
	maxRefusedEvents = 1000

	maxHeaderBytes = 32 << 10
	writeTimeout   = 30 * time.Second // for one piece of a reply
)

// Config is what a gateway answers with.
type Config struct {
	Session *session.Session

	// Token is what the agent must show, at least 16 bytes; see [NewToken].
	Token string

	// Shared says that others than the agent of this case can reach the
	// gateway, as when no sandbox stands around it. Whose token or MCP session
	// is shown that is not of this case cannot be told then, and a request without
	// the token of the case is in no record.
	Shared bool

	// Models are the names that GET /v1/models lists: those of the cassette.
	Models []string

	// Steps reads the spans that an agent's own instrumentation sends over
	// OTLP/HTTP: the calls of tools that they tell of, in their order. With nil
	// there is nothing at that path.
	Steps func(contentType string, body []byte) ([]Step, error)

	// Live passes the events of a streamed reply on as they arrive. In a
	// replay they are all there at once.
	Live bool

	// MaxBodyBytes bounds a request's body; 8 MiB if 0.
	MaxBodyBytes int64
}

// A Gateway is an http.Handler for one case.
type Gateway struct {
	cfg      Config
	tokenSum [sha256.Size]byte

	// ctx bounds model and tool calls. It is not that of the request: an agent
	// that hangs up does not undo its call, and a recording must be whole.
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	large  chan struct{}

	mu         sync.Mutex
	refused    int // requests that were refused
	unrecorded int // of those, how many left no event
	later      []*trajectory.TransportRequest
	steps      []Step
	stepBytes  int
	peers      map[string]string // MCP session to protocol version
	closed     bool
	under      sync.WaitGroup // requests under way; none is added once closed
}

// New makes the gateway of one case. Calls end when ctx does.
func New(ctx context.Context, cfg Config) (*Gateway, error) {
	if cfg.Session == nil {
		return nil, errors.New("making a gateway: there is no session")
	}
	if len(cfg.Token) < 16 || strings.ContainsFunc(cfg.Token, notVisible) {
		return nil, fmt.Errorf("making a gateway: the token has %d bytes, expected 16 or more visible ASCII characters", len(cfg.Token))
	}
	// The session takes the token out of what goes on and of what is recorded.
	if err := cfg.Session.Hide(cfg.Token); err != nil {
		return nil, fmt.Errorf("making a gateway: %w", err)
	}
	if cfg.MaxBodyBytes == 0 {
		cfg.MaxBodyBytes = defaultBodyBytes
	}
	cfg.Models = slices.Sorted(slices.Values(cfg.Models))
	g := &Gateway{cfg: cfg, tokenSum: sha256.Sum256([]byte(cfg.Token)),
		slots: make(chan struct{}, maxAtOnce), large: make(chan struct{}, 1), peers: map[string]string{}}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g, nil
}

func notVisible(r rune) bool { return r <= ' ' || r > '~' }

// Server returns an HTTP server for g with time and size limits. It does not
// listen yet.
func (g *Gateway) Server() *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // the SDK of AWS for Node speaks nothing else to Bedrock
	return &http.Server{
		Handler:           g,
		Protocols:         &protocols,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		// What net/http has to say is about clients that broke off. Agent text
		// does not go to a terminal.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// Close ends calls under way, waits for their requests, and writes the events
// that were held back, those of MCP clients that asked for a stream of messages
// from the server: clients ask at any time, so in the order of arrival they
// would make two equal runs differ. Call it when the agent has ended; afterwards
// nothing that comes reaches the session. Close the HTTP server first: a client
// that does not read can keep a request under way for half a minute.
func (g *Gateway) Close() error {
	g.mu.Lock()
	again := g.closed
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.under.Wait()
	if again {
		return nil
	}
	g.mu.Lock()
	later, unrecorded := g.later, g.unrecorded
	g.mu.Unlock()
	if err := g.recordSteps(); err != nil {
		return err
	}
	for _, e := range later {
		if err := g.cfg.Session.Event(e); err != nil {
			return err
		}
	}
	if unrecorded == 0 {
		return nil
	}
	return g.cfg.Session.Security(trajectory.SecurityEvent{Name: "gateway.requests_not_recorded", Severity: evidence.Warn,
		Detail: fmt.Sprintf("%d refused requests came after the first %d and have no event of their own", unrecorded, maxRefusedEvents)})
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{g: g, w: w, r: r, began: g.cfg.Session.Elapsed()}
	x.find()
	if !g.begin() {
		x.send(ended)
		return
	}
	defer g.under.Done()
	if !g.admits(r) {
		x.unauthorised()
		return
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-g.ctx.Done():
		x.send(ended)
		return
	}
	defer x.release()
	x.serve()
}

// ended is the answer after Close.
var ended = problem{http.StatusServiceUnavailable, refusal.Interrupted, "the case has ended"}

// begin counts a request as under way, unless the gateway is closed.
func (g *Gateway) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.under.Add(1)
	return true
}

// admits reports whether the request shows the token, in any of the headers
// that SDKs use. An agent may send a key of its own in another one.
func (g *Gateway) admits(r *http.Request) bool {
	admitted := 0
	for _, shown := range shownTokens(r.Header) {
		sum := sha256.Sum256([]byte(shown))
		admitted |= subtle.ConstantTimeCompare(sum[:], g.tokenSum[:])
	}
	return admitted == 1
}

func shownTokens(h http.Header) []string {
	var shown []string
	for _, p := range wire.Providers() {
		for _, v := range h.Values(p.KeyHeader) {
			if n := len(p.KeyScheme); len(v) >= n && strings.EqualFold(v[:n], p.KeyScheme) {
				shown = append(shown, strings.TrimSpace(v[n:]))
			}
			if key := wire.SigningKey(v); p.Signed && key != "" {
				shown = append(shown, key)
			}
		}
	}
	return shown
}

// showsKey reports whether a request shows any key at all, in whatever form.
func showsKey(r *http.Request) bool {
	headers := []string{"Authorization", "Proxy-Authorization"}
	for _, p := range wire.Providers() {
		headers = append(headers, p.KeyHeader)
	}
	for _, name := range headers {
		for _, v := range r.Header.Values(name) {
			scheme, rest, two := strings.Cut(strings.TrimSpace(v), " ")
			if two && strings.TrimSpace(rest) != "" || !two && scheme != "" && !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "Basic") {
				return true
			}
		}
	}
	for _, name := range []string{"key", "api_key", "api-key", "token", "access_token"} {
		if r.URL.Query().Get(name) != "" {
			return true
		}
	}
	return false
}

// countRefused reports whether one more refused request gets an event.
func (g *Gateway) countRefused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused++
	if g.refused > maxRefusedEvents {
		g.unrecorded++
		return false
	}
	return true
}

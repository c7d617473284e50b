package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// What a client speaks, as events name it, if it is not a model API: those go
// by the name of their provider.
const (
	mcp       = "mcp"
	plainHTTP = "http"
	otlp      = "otlp"
)

// An exchange is one request and its answer.
type exchange struct {
	g *Gateway
	w http.ResponseWriter
	r *http.Request

	endpoint string // the path without version, as in /messages
	protocol string
	provider *wire.Provider // nil for what is not a model API
	route    wire.Route     // of a call, or of counting its tokens
	began    time.Duration  // logical
	bytesIn  int64
	held     []func() // what the body takes up, until the answer is sent
}

// release lets others have what the body took up.
func (x *exchange) release() {
	for _, free := range x.held {
		free()
	}
	x.held = nil
}

// find says what a request is for.
func (x *exchange) find() {
	x.endpoint = Endpoint(x.r.URL.Path)
	var ok bool
	switch x.route, ok = wire.RouteOfEndpoint(x.endpoint); {
	case ok:
		x.provider = x.route.API.Provider()
	case x.endpoint == "/mcp":
		x.protocol = mcp
		return
	case x.endpoint == tracesEndpoint:
		x.protocol = otlp
		return
	case x.endpoint == "/models", strings.HasPrefix(x.endpoint, "/models/"):
		x.provider = wire.ProviderByHeader(x.r.Header.Get)
	default:
		x.protocol = plainHTTP
		return
	}
	x.protocol = x.provider.Name
}

// Endpoint is a path of the gateway without the version in front. Base URLs are
// written with and without it, and some SDKs add it to one that has it already.
func Endpoint(path string) string {
	path = strings.TrimSuffix(path, "/")
	for range 2 {
		for _, version := range wire.Versions() {
			if rest, ok := strings.CutPrefix(path, version); ok && (rest == "" || rest[0] == '/') {
				path = rest
				break
			}
		}
	}
	return path
}

func (x *exchange) serve() {
	switch {
	case x.route.CountTokens:
		x.countTokens()
	case x.route.API != "":
		x.model()
	case x.endpoint == "/mcp":
		x.mcp()
	case x.endpoint == tracesEndpoint && x.g.cfg.Steps != nil:
		x.traces()
	case x.endpoint == "/models":
		x.listModels()
	case x.provider != nil:
		x.showModel(strings.TrimPrefix(x.endpoint, "/models/"))
	default:
		x.fail(problem{http.StatusNotFound, refusal.NotFound, "there is nothing at this path; the gateway of a case has " +
			strings.Join(wire.Paths(), ", ") + ", /v1/models and /mcp"})
	}
}

// only answers requests with another method, and reports whether to go on.
func (x *exchange) only(methods ...string) bool {
	if slices.Contains(methods, x.r.Method) {
		return true
	}
	x.w.Header().Set("Allow", strings.Join(methods, ", "))
	x.fail(problem{http.StatusMethodNotAllowed, refusal.Usage, "this path takes " + strings.Join(methods, " and ") + " only"})
	return false
}

// body reads the whole body. If it cannot, the request is answered already.
func (x *exchange) body() ([]byte, bool) {
	if e := x.r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		x.fail(problem{http.StatusUnsupportedMediaType, refusal.Malformed, "the body is compressed; send it as it is"})
		return nil, false
	}
	data, err := x.readBody()
	x.bytesIn = int64(len(data))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		x.fail(problem{http.StatusRequestEntityTooLarge, refusal.TooLarge, "the body has more than " + strconv.FormatInt(tooLarge.Limit, 10) + " bytes"})
		return nil, false
	case err != nil:
		x.fail(problem{http.StatusBadRequest, refusal.Unreadable, "the body broke off"})
		return nil, false
	case countValues(data) > maxValues:
		x.fail(problem{http.StatusRequestEntityTooLarge, refusal.TooLarge, "the body has more than " + strconv.Itoa(maxValues) + " JSON values"})
		return nil, false
	}
	// It has been read whole, so that a client cannot keep others waiting by
	// sending slowly.
	x.held = append(x.held, x.g.cfg.Session.Weigh(x.bytesIn))
	return data, true
}

// readBody reads a body within its limit. A large one waits for the large one
// before it.
func (x *exchange) readBody() ([]byte, error) {
	body := http.MaxBytesReader(x.w, x.r.Body, x.g.cfg.MaxBodyBytes)
	data, err := io.ReadAll(io.LimitReader(body, smallBody))
	if err != nil || len(data) < smallBody {
		return data, err
	}
	select {
	case x.g.large <- struct{}{}:
		x.held = append(x.held, func() { <-x.g.large })
	case <-x.g.ctx.Done():
		return data, x.g.ctx.Err()
	}
	rest, err := io.ReadAll(body)
	return append(data, rest...), err
}

// countValues counts the values of a JSON text, or a few more, without reading
// it: each stands at the beginning or behind a sign that no string hides.
func countValues(data []byte) int {
	count, quoted := 1, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':' || c == '[' || c == '{'):
			count++
		}
	}
	return count
}

// answer records the request and sends the whole reply. Trouble is what the
// event says went wrong.
func (x *exchange) answer(status int, contentType string, body []byte, trouble string) {
	if err := x.record(status, len(body), trouble); err != nil && status < 400 {
		// What was not recorded did not happen: the agent gets no reply.
		p := problemOf(err)
		status, contentType, body = p.status, "application/json", x.render(p)
		x.w.Header().Set("X-Should-Retry", "false")
	}
	if contentType != "" {
		x.w.Header().Set("Content-Type", contentType)
	}
	x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.extendDeadline()
	x.w.WriteHeader(status)
	x.w.Write(body) // a client that has gone away is its own loss
}

// extendDeadline gives a client that reads slowly a while for the next piece.
func (x *exchange) extendDeadline() {
	// Recorders in tests have no connection; nothing else fails here.
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(writeTimeout))
}

func (x *exchange) record(status, bytesOut int, trouble string) error {
	return x.g.cfg.Session.Event(x.event(status, bytesOut, trouble))
}

func (x *exchange) event(status, bytesOut int, trouble string) *trajectory.TransportRequest {
	return &trajectory.TransportRequest{
		BytesIn:   x.bytesIn,
		BytesOut:  int64(bytesOut),
		Error:     x.g.visible(trouble, 1024),
		Host:      x.g.visible(hostOf(x.r), 253),
		LatencyMS: max(0, (x.g.cfg.Session.Elapsed() - x.began).Milliseconds()),
		Method:    x.g.visible(x.r.Method, 32),
		Path:      x.g.visible(x.r.URL.Path, 512),
		Protocol:  x.protocol,
		Status:    status,
	}
}

func hostOf(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "" {
		return "unknown" // HTTP/1.0
	}
	return host
}

// visible makes a text of the agent fit for an event: without keys, in UTF-8,
// and not longer than most bytes. Keys go first: half of one has no shape.
func (g *Gateway) visible(s string, most int) string {
	s = g.cfg.Session.Safe(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// unauthorised answers a request without the token of this case.
func (x *exchange) unauthorised() {
	var variables []string
	for _, p := range wire.Providers() {
		variables = append(variables, p.KeyEnv)
	}
	where := strings.Join(variables, ", ") + " and TALLY_TOKEN"
	message := "the request has no key; the key of this case is in " + where
	detail, rule := "a request came without a token", ""
	if showsKey(x.r) {
		message = "the key is not the one of this case, which is in " + where
		detail, rule = "a request came with a token that is not the one of this case", "gateway:token"
	}
	p := problem{http.StatusUnauthorized, refusal.TokenRefused, message}
	x.w.Header().Set("WWW-Authenticate", "Bearer")
	// Where others than the agent can connect, a client without the token of
	// the case would write into its record.
	if x.g.cfg.Shared || !x.g.countRefused() {
		x.send(p)
		return
	}
	// If it cannot be recorded, the answer is the same.
	x.g.refuse("gateway.token_refused", detail, rule)
	_ = x.record(p.status, len(x.render(p)), string(p.name))
	x.send(p)
}

// refuse notes what was tried at the gateway; a rule makes it a violation, if
// it is the agent of this case who tried.
func (g *Gateway) refuse(name, detail, rule string) {
	if g.cfg.Shared {
		rule = ""
	}
	_ = g.cfg.Session.Attempted(trajectory.SecurityEvent{Name: name, Severity: evidence.Warn, Detail: detail}, rule)
}

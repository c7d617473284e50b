package cassette

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/wire"
)

// An HTTPExchange is one request of an agent's program to a server that its target
// lists, and what came back. Exactly one of Error and Response is set.
type HTTPExchange struct {
	Error string `json:"error,omitempty"` // why no reply came

	// From is who answered, as the machine that recorded saw the connection; nil if
	// nobody did, or if a person wrote it.
	From *evidence.Endpoint `json:"from,omitempty"`

	Request  canon.RawMessage `json:"request"` // canonical, see [HTTPRequest]
	Response *HTTPResponse    `json:"response,omitempty"`
}

// An HTTPResponse is what a server answered. At most one of Base64, Stream and Text
// is set.
type HTTPResponse struct {
	Base64  string              `json:"base64,omitempty"` // a body that is not text
	Headers map[string][]string `json:"headers,omitempty"`
	Status  int64               `json:"status"`
	Stream  []string            `json:"stream,omitempty"` // the pieces of a streamed body, in order
	Text    string              `json:"text,omitempty"`
}

// Body is the whole body.
func (r *HTTPResponse) Body() []byte {
	switch {
	case r.Base64 != "":
		body, _ := base64.StdEncoding.DecodeString(r.Base64) // validate has read it
		return body
	case r.Stream != nil:
		return []byte(strings.Join(r.Stream, ""))
	}
	return []byte(r.Text)
}

// HTTPAsk is a request as a program sent it. Scheme and host are in lower case, and
// the path is as it goes on the wire.
type HTTPAsk struct {
	Method, Scheme, Host string
	Port                 int
	Path, Query          string              // escaped; Query has no question mark
	Headers              map[string][]string // by names in lower case
	Body                 []byte

	Ignore HTTPIgnore
}

// HTTPIgnore is what does not count when a request is looked up: names of headers and
// of query members, and fields of a body that is JSON or a form, with dots between the
// names of nested ones.
type HTTPIgnore struct {
	Body    []string `json:"body,omitempty"`
	Headers []string `json:"headers,omitempty"`
	Query   []string `json:"query,omitempty"`
}

// UncountedHeaders are those that never count and that no recording has: who a
// client is, how it transports, and what it shows to be let in.
var UncountedHeaders = []string{"accept-encoding", "authorization", "connection", "content-length", "cookie", "date", "expect", "host", "keep-alive",
	"proxy-authorization", "proxy-connection", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "user-agent", "x-request-id"}

// DroppedHeaders are those of a reply that are neither kept nor passed on: they are
// about one connection, lead a client past the proxy, or open a session.
var DroppedHeaders = []string{"alt-svc", "connection", "content-encoding", "content-length", "date", "keep-alive", "proxy-authenticate", "proxy-connection",
	"set-cookie", "strict-transport-security", "te", "trailer", "transfer-encoding", "upgrade"}

// HTTPRequest brings a request into canonical form: secrets and what is to be ignored
// taken out, query members and headers in the order of their names, a JSON body in
// canonical spelling.
func HTTPRequest(ask HTTPAsk, r *Redactor) (Request, error) {
	contentType := strings.Join(ask.Headers["content-type"], ", ")
	kind, body, boundary := bodyNode(contentType, ask.Body, ask.Ignore.Body)
	n := wire.ObjectNode()
	set := func(name string, value wire.Node) { n.Set(name, value) }
	if kind != "" {
		set(kind, body)
	}
	if headers := headersNode(&ask, boundary); len(headers.List) > 0 {
		set("headers", headers)
	}
	set("host", wire.StringNode(ask.Host))
	set("method", wire.StringNode(ask.Method))
	set("path", wire.StringNode(ask.Path))
	set("port", wire.Node{Kind: '0', Text: strconv.Itoa(ask.Port)})
	if query := valuesNode(ask.Query, ask.Ignore.Query); len(query.List) > 0 {
		set("query", query)
	}
	set("scheme", wire.StringNode(ask.Scheme))
	count, _ := r.tree(&n)
	text, err := n.Canonical()
	if err != nil {
		return Request{}, requestError("the request to "+wire.Head(ask.Host), err)
	}
	it := Interaction{HTTP: &HTTPExchange{Request: text}}
	return Request{Key: httpKey(text), it: it, redactions: count}, nil
}

func headersNode(ask *HTTPAsk, boundary string) wire.Node {
	n := wire.ObjectNode()
	for _, name := range sortedKeys(ask.Headers) {
		if slices.Contains(UncountedHeaders, name) || slices.ContainsFunc(ask.Ignore.Headers, func(h string) bool { return strings.EqualFold(h, name) }) {
			continue
		}
		value := strings.Join(ask.Headers[name], ", ")
		if boundary != "" {
			value = strings.ReplaceAll(value, boundary, fixedBoundary)
		}
		n.Set(name, wire.StringNode(strings.ToValidUTF8(value, "\uFFFD")))
	}
	return n
}

// valuesNode are the members of a query or a form: each name with its values in the
// order in which they stand. What is no such list is one value without a name.
func valuesNode(text string, ignore []string) wire.Node {
	n := wire.ObjectNode()
	if text == "" {
		return n
	}
	values, err := url.ParseQuery(text)
	if err != nil || !utf8.ValidString(text) {
		n.Set("", wire.StringNode(strings.ToValidUTF8(text, "\uFFFD")))
		return n
	}
	for _, name := range sortedKeys(values) {
		if slices.Contains(ignore, name) {
			continue
		}
		var items []wire.Node
		for _, v := range values[name] {
			items = append(items, wire.StringNode(strings.ToValidUTF8(v, "\uFFFD")))
		}
		n.Set(strings.ToValidUTF8(name, "\uFFFD"), wire.ArrayNode(items...))
	}
	return n
}

func sortedKeys(m map[string][]string) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fixedBoundary stands for the boundary of a multipart body, which clients draw anew
// for each request.
const fixedBoundary = "boundary"

// bodyNode is a body as the match sees it, and the name of its member: json, form,
// text or base64, "" for none.
func bodyNode(contentType string, body []byte, ignore []string) (kind string, n wire.Node, boundary string) {
	if len(body) == 0 {
		return "", n, ""
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err == nil && strings.HasPrefix(media, "multipart/") && params["boundary"] != "" {
		boundary = params["boundary"]
		body = []byte(strings.ReplaceAll(string(body), boundary, fixedBoundary))
	}
	switch {
	case media == "application/x-www-form-urlencoded" && utf8.Valid(body):
		return "form", valuesNode(string(body), ignore), boundary
	case boundary == "":
		if n, err := wire.ParseNode(body); err == nil && (n.Kind == '{' || n.Kind == '[') {
			for _, field := range ignore {
				dropField(&n, strings.Split(field, "."))
			}
			return "json", n, ""
		}
	}
	if utf8.Valid(body) {
		return "text", wire.StringNode(string(body)), boundary
	}
	return "base64", wire.StringNode(base64.StdEncoding.EncodeToString(body)), boundary
}

// dropField takes a field out of a document; of a list, out of each of its elements.
func dropField(n *wire.Node, path []string) {
	if n.Kind == '[' {
		for i := range n.List {
			dropField(&n.List[i], path)
		}
		return
	}
	if n.Kind != '{' {
		return
	}
	if len(path) == 1 {
		n.Drop(func(name string, _ *wire.Node) bool { return name == path[0] })
		return
	}
	if inner := n.Get(path[0]); inner != nil {
		dropField(inner, path[1:])
	}
}

func httpKey(request []byte) digest.ID {
	h := append([]byte(`{"kind":"http","request":`), request...)
	return sha256.Sum256(append(h, '}'))
}

// Target is what a request is for, as in GET https://api.example.com/v1.
func (e *HTTPExchange) Target() string {
	n := wire.ParseCanonical(string(e.Request))
	port := ""
	if p := n.Get("port"); p != nil && p.Text != map[string]string{"https": "443", "http": "80"}[n.Str("scheme")] {
		port = ":" + p.Text
	}
	host := n.Str("host")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return n.Str("method") + " " + n.Str("scheme") + "://" + host + port + n.Str("path")
}

// HTTPTraffic is one live request and what came of it. Err is why no reply came, ""
// if one did.
type HTTPTraffic struct {
	Ask     HTTPAsk
	Status  int
	Headers map[string][]string // of the reply
	// Pieces are the body: one, or as many as came of a streamed one.
	Pieces   []string
	Streamed bool
	Err      string
	From     *evidence.Endpoint
	Latency  int64 // in milliseconds
}

// HTTP keeps an exchange and returns it as it is kept.
func (r *Recorder) HTTP(t HTTPTraffic) (*Interaction, error) {
	req, err := HTTPRequest(t.Ask, r.redactor)
	if err != nil {
		return nil, err
	}
	e, count := req.it.HTTP, req.redactions
	e.From = t.From
	if t.Err != "" {
		text, n := r.redactor.Text(strings.ToValidUTF8(t.Err, "\uFFFD"))
		e.Error = cmp.Or(head(text, maxNameBytes), "no reply")
		return r.keepAfter(req.it, count+int64(n), t.Latency)
	}
	n, err := r.httpResponse(t, e)
	if err != nil {
		return nil, err
	}
	return r.keepAfter(req.it, count+n, t.Latency)
}

func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// httpResponse fills in the reply without its secrets. Text without any keeps its
// bytes; of JSON whose fields hold some, the spelling is the canonical one.
func (r *Recorder) httpResponse(t HTTPTraffic, e *HTTPExchange) (count int64, err error) {
	out := &HTTPResponse{Status: int64(t.Status)}
	e.Response = out
	for _, name := range sortedKeys(t.Headers) {
		lower := strings.ToLower(name)
		if slices.Contains(DroppedHeaders, lower) {
			continue
		}
		for _, value := range t.Headers[name] {
			text, n := r.redactor.Text(strings.ToValidUTF8(value, "\uFFFD"))
			count += int64(n)
			if out.Headers == nil {
				out.Headers = map[string][]string{}
			}
			out.Headers[lower] = append(out.Headers[lower], text)
		}
	}
	whole := strings.Join(t.Pieces, "")
	switch {
	case whole == "":
	case !utf8.ValidString(whole):
		// A literal secret is looked for in what is kept of every call.
		out.Base64 = base64.StdEncoding.EncodeToString([]byte(whole))
		if clean := r.redactor.TakeOut(whole); clean != whole {
			out.Base64 = base64.StdEncoding.EncodeToString([]byte(clean))
			count++
		}
	case t.Streamed && isEventStream(t.Headers):
		var n int64
		out.Stream, n, err = r.redactor.stream(wire.SplitEvents(whole))
		count += n
	default:
		text, n := r.cleanText(whole)
		if out.Text = text; n == 0 && t.Streamed && len(t.Pieces) > 1 && allText(t.Pieces) {
			out.Text, out.Stream = "", t.Pieces
		}
		count += n
	}
	return count, err
}

func isEventStream(headers map[string][]string) bool {
	for name, values := range headers {
		if strings.EqualFold(name, "content-type") && len(values) > 0 {
			media, _, _ := mime.ParseMediaType(values[0])
			return media == "text/event-stream"
		}
	}
	return false
}

func allText(pieces []string) bool {
	return !slices.ContainsFunc(pieces, func(p string) bool { return p == "" || !utf8.ValidString(p) })
}

// cleanText is a text without its secrets, and how many there were. The names of its
// fields count, if it is JSON.
func (r *Recorder) cleanText(text string) (string, int64) {
	if doc, n, err := r.redactor.document([]byte(text)); err == nil {
		if n > 0 {
			return string(doc), n
		}
		return text, 0
	}
	text, n := r.redactor.Text(text)
	return text, int64(n)
}

func (e *HTTPExchange) validate() error {
	if len(e.Request) == 0 || e.Request[0] != '{' {
		return malformed("the request is not an object")
	}
	n := wire.ParseCanonical(string(e.Request))
	for _, name := range []string{"host", "method", "path", "scheme"} {
		if n.Str(name) == "" {
			return malformed("the request has no %s", name)
		}
	}
	if e.From != nil {
		if err := e.From.Validate(); err != nil {
			return malformed("from: %v", err)
		}
	}
	if (e.Error == "") == (e.Response == nil) {
		return malformed("the exchange has both or neither of error and response, expected one")
	}
	if e.Response == nil {
		return nil
	}
	return e.Response.validate()
}

func (r *HTTPResponse) validate() error {
	if r.Status < 200 || r.Status > 599 {
		return malformed("the status is %d, expected 200 to 599", r.Status)
	}
	bodies := 0
	for _, set := range []bool{r.Base64 != "", r.Stream != nil, r.Text != ""} {
		if set {
			bodies++
		}
	}
	if bodies > 1 {
		return malformed("the response has %d of base64, stream and text, expected at most one", bodies)
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(r.Base64); err != nil {
		return malformed("the body is not base64")
	}
	if slices.Contains(r.Stream, "") {
		return malformed("a piece of the stream is empty")
	}
	for name, values := range r.Headers {
		if !isHeaderName(name) || slices.Contains(DroppedHeaders, name) {
			return malformed("the response has the header %.60q", name)
		}
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") || len(v) > 16<<10 {
				return malformed("the value of the header %s is not one line", name)
			}
		}
	}
	return nil
}

// isHeaderName reports whether a name is one of RFC 9110, in lower case.
func isHeaderName(name string) bool {
	return name != "" && len(name) <= 256 && strings.IndexFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	}) < 0
}

// reachedBy adds up who answered the requests of an agent's program.
func reachedBy(interactions []Interaction) []evidence.EndpointUse {
	var all []evidence.EndpointUse
	for i := range interactions {
		if e := interactions[i].HTTP; e != nil && e.From != nil {
			all = append(all, evidence.EndpointUse{Endpoint: *e.From, Replies: 1})
		}
	}
	return evidence.AddEndpoints(all)
}

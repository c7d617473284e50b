package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// hopByHop are the headers that are about one connection.
var hopByHop = []string{"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"}

// request checks a request, has the session answer it, and reports whether another may
// follow on the connection.
func (l *line) request(m *message, scheme, host string, port int, target string) (more bool) {
	pathText, query, _ := strings.Cut(target, "?")
	path, err := Path(pathText)
	if err == nil {
		err = checkQuery(query)
	}
	if err != nil {
		return l.malformed("%v", err)
	}
	if !l.agrees(m, host, port, usualPort[scheme]) {
		return false
	}
	if m.upgrades() {
		return l.refuse("upgrade", 403, "an upgrade to "+strconv.Quote(m.once2("upgrade"))+" is refused: what goes over another protocol is in no record")
	}
	if wire.SellsModels(host) {
		return l.refuse("model", 403, modelProvider(host))
	}
	rule, err := l.p.cfg.Rules.Find(m.method, scheme, host, port, path)
	var unlisted *Unlisted
	if errors.As(err, &unlisted) {
		l.unlisted(unlisted)
		return false
	}
	body, ok := l.body(m)
	if !ok {
		return false
	}
	defer l.p.cfg.Session.Weigh(int64(len(body)))()
	select {
	case l.p.slots <- struct{}{}:
		defer func() { <-l.p.slots }()
	case <-l.p.ctx.Done():
		return false
	}
	x := &exchange{l: l, ask: cassette.HTTPAsk{Method: m.method, Scheme: scheme, Host: host, Port: port, Path: path, Query: query,
		Headers: m.passedOn(), Body: body, Ignore: rule.ignore()}, keep: m.persists(), began: l.p.cfg.Session.Elapsed()}
	return x.answer(rule)
}

// checkQuery accepts what stands in a query as it is.
func checkQuery(query string) error {
	for _, c := range []byte(query) {
		if c <= ' ' || c >= 0x7f || c == '#' || c == '\\' {
			return fmt.Errorf("the query has %q, which is not written as it is", c)
		}
	}
	return nil
}

func (l *line) body(m *message) ([]byte, bool) {
	if len(m.headers["expect"]) > 0 {
		if !strings.EqualFold(m.once2("expect"), "100-continue") {
			return nil, l.malformed("Expect is %.40q", m.once2("expect"))
		}
		if m.length != 0 {
			_, _ = io.WriteString(l.c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
	}
	_ = l.c.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := m.body(l.r)
	if err != nil {
		l.unreadable(err)
		return nil, false
	}
	return body, true
}

// passedOn are the headers that a server is to see.
func (m *message) passedOn() map[string][]string {
	dropped := append(m.connection(), hopByHop...)
	headers := map[string][]string{}
	for name, values := range m.headers {
		if !slices.Contains(dropped, name) && name != "host" && name != "content-length" && name != "expect" {
			headers[name] = values
		}
	}
	return headers
}

// An exchange is one request that is listed, and its answer.
type exchange struct {
	l     *line
	ask   cassette.HTTPAsk
	keep  bool // the connection may go on
	began time.Duration
	sent  int  // bytes of the body
	begun bool // the head was sent, and the body goes out in chunks
	code  int  // the status, once begun
}

func (x *exchange) answer(rule *Rule) bool {
	p := x.l.p
	var pass *session.HTTPPass
	// A reply to a request with a credential is looked through whole first: a server
	// may send the credential back, in pieces too.
	if p.cfg.Live && rule.Credential == nil && x.ask.Method != "HEAD" {
		pass = &session.HTTPPass{Begin: x.begin, Piece: x.piece}
	}
	name := policy.HTTPName(x.ask.Method, Place(x.ask.Scheme, x.ask.Host, x.ask.Port), x.ask.Path)
	reply, err := p.cfg.Session.HTTP(p.ctx, name, x.ask, pass)
	switch {
	case err != nil:
		return x.failed(err)
	case reply.Denied != "":
		return x.finish(403, nil, reply.Denied+"\n", "denied")
	case x.begun:
		return x.end()
	case reply.Exchange.Response == nil:
		return x.finish(502, nil, "no reply from "+x.ask.Host+": "+reply.Exchange.Error+"\n", reply.Exchange.Error)
	}
	r := reply.Exchange.Response
	trouble := ""
	if r.Status >= 400 {
		trouble = "status " + strconv.FormatInt(r.Status, 10)
	}
	if r.Stream != nil && x.ask.Method != "HEAD" {
		return x.stream(r, trouble)
	}
	return x.finish(int(r.Status), r.Headers, string(r.Body()), trouble)
}

// failed tells the program why there is no reply. It is not told what is recorded.
func (x *exchange) failed(err error) bool {
	var unsent *session.NotSentError
	var miss *cassette.Miss
	status, text, name := 502, x.l.p.cfg.Session.Safe(err.Error()), string(refusal.Failed)
	var r *refusal.Error
	if errors.As(err, &r) {
		name = string(r.Name)
	}
	switch {
	case errors.As(err, &unsent):
		status, name = 403, unsent.Rule
	case errors.As(err, &miss):
		text = miss.Told()
	case name == string(refusal.Malformed):
		status = 400
	}
	if x.begun { // a reply that ends without its last chunk has broken off
		_ = x.record(x.code, name)
		return false
	}
	x.finish(status, nil, text+"\n", name)
	return false
}

func (x *exchange) record(status int, trouble string) error {
	s := x.l.p.cfg.Session
	return s.Event(&trajectory.TransportRequest{BytesIn: int64(len(x.ask.Body)), BytesOut: int64(x.sent), Error: cut(s.Safe(strings.ToValidUTF8(trouble, "\uFFFD")), 1024),
		Host: x.ask.Host, LatencyMS: max(0, (s.Elapsed() - x.began).Milliseconds()), Method: cut(x.ask.Method, 32), Path: cut(s.Safe(x.ask.Path), 512), Protocol: "egress", Status: status})
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// finish records the request and sends a whole reply.
func (x *exchange) finish(status int, headers map[string][]string, body, trouble string) bool {
	x.sent = len(body)
	if err := x.record(status, trouble); err != nil && status < 400 {
		// What was not recorded did not happen.
		status, headers, body = 502, nil, "the case has ended\n"
	}
	if headers == nil {
		headers = map[string][]string{"content-type": {"text/plain; charset=utf-8"}}
	}
	if x.ask.Method == "HEAD" {
		body = ""
	}
	return x.l.send(status, headers, body, !x.keep) && x.keep
}

// stream sends a recorded reply piece by piece.
func (x *exchange) stream(r *cassette.HTTPResponse, trouble string) bool {
	x.sent = len(r.Body())
	if err := x.record(int(r.Status), trouble); err != nil {
		x.l.say(502, "the case has ended", true)
		return false
	}
	x.sent = 0
	x.begin(int(r.Status), r.Headers)
	for _, piece := range r.Stream {
		x.piece(piece)
	}
	return x.l.write("0\r\n\r\n") && x.keep
}

func (x *exchange) begin(status int, headers map[string][]string) {
	x.begun, x.code = true, status
	x.l.write(head(status, headers, !x.keep) + "transfer-encoding: chunked\r\n\r\n")
}

func (x *exchange) piece(piece string) {
	if piece == "" { // an empty chunk would end the reply
		return
	}
	x.sent += len(piece)
	x.l.write(strconv.FormatInt(int64(len(piece)), 16) + "\r\n" + piece + "\r\n")
}

// end records a reply that was passed on, and only then tells that it has ended.
func (x *exchange) end() bool {
	if err := x.record(x.code, ""); err != nil {
		return false
	}
	return x.l.write("0\r\n\r\n") && x.keep
}

// say sends a text of our own.
func (l *line) say(status int, text string, last bool) {
	l.send(status, map[string][]string{"content-type": {"text/plain; charset=utf-8"}, "x-tally-refused": {"egress"}}, "tally: "+text+"\n", last)
}

// send sends a whole reply.
func (l *line) send(status int, headers map[string][]string, body string, last bool) bool {
	text := head(status, headers, last)
	if status != http.StatusNoContent && status != http.StatusNotModified {
		text += "content-length: " + strconv.Itoa(len(body)) + "\r\n"
	} else {
		body = ""
	}
	return l.write(text + "\r\n" + body)
}

func (l *line) write(text string) bool {
	_ = l.c.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, err := io.WriteString(l.c, text)
	return err == nil
}

// head is the beginning of a reply, without the line that ends it. Values were checked
// where they came in; a line break in one would be another header.
func head(status int, headers map[string][]string, last bool) string {
	var b strings.Builder
	text := http.StatusText(status)
	if text == "" {
		text = "Status"
	}
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, text)
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range headers[name] {
			if !slices.Contains(cassette.DroppedHeaders, strings.ToLower(name)) || name == "proxy-authenticate" {
				fmt.Fprintf(&b, "%s: %s\r\n", name, strings.NewReplacer("\r", " ", "\n", " ").Replace(v))
			}
		}
	}
	if last {
		b.WriteString("connection: close\r\n")
	}
	return b.String()
}

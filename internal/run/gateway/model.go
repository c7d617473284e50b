package gateway

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// model answers a model call.
func (x *exchange) model() {
	if !x.only(http.MethodPost) {
		return
	}
	body, ok := x.body()
	if !ok {
		return
	}
	var err error
	if x.r.URL.RawQuery != "" || x.route.Stream {
		x.route, err = x.route.Query(x.r.URL.Query().Get)
		x.provider = x.route.API.Provider()
		x.protocol = x.provider.Name
	}
	api := x.route.API
	if err == nil {
		body, err = x.route.Request(body)
	}
	var delivery wire.Delivery
	if err == nil {
		delivery, err = wire.DeliveryOf(api, body)
	}
	if err != nil {
		x.fail(problem{http.StatusBadRequest, refusal.Malformed, "reading the request: " + err.Error()})
		return
	}
	relay := relay{framed: framed{x: x}, api: api}
	var onChunk func(string) error
	if delivery.Stream && x.g.cfg.Live {
		onChunk = relay.pass
	}
	it, err := x.g.cfg.Session.Model(x.g.ctx, api, body, onChunk)
	switch {
	case err != nil && relay.begun:
		relay.breakOff(problemOf(err))
	case err != nil:
		x.fail(problemOf(err))
	case relay.begun:
		relay.finish()
	default:
		reply, err := it.Model.Reply(delivery)
		x.reply(reply, err)
	}
}

// reply sends what was recorded, in the form in which the client asked for it.
func (x *exchange) reply(r cassette.Reply, err error) {
	switch {
	case err != nil:
		// The recording has no such form, as of a stream that broke off. The
		// call took place, so asking again would not help.
		x.fail(problemOf(err))
		return
	case r.Status < 200 || r.Status > 599:
		x.fail(problem{http.StatusInternalServerError, refusal.Malformed, "the recording has the status " + strconv.Itoa(r.Status)})
		return
	}
	contentType := "application/json"
	if r.Stream != nil {
		contentType = x.route.Framing.ContentType()
	}
	for name, value := range r.Headers {
		if strings.EqualFold(name, "content-type") {
			if r.Stream == nil || x.route.Framing == wire.ServerSent {
				contentType = value
			}
			continue
		}
		x.w.Header().Set(name, value)
	}
	if r.Stream == nil {
		x.answer(r.Status, contentType, r.Body, trouble(r.Status))
		return
	}
	out := framed{x: x}
	pieces := make([]string, 0, len(r.Stream)+1)
	for _, chunk := range r.Stream {
		pieces = append(pieces, out.encode(chunk))
	}
	pieces = append(pieces, out.end())
	// Nothing is sent before the event, so an agent cannot act on the reply
	// before it is recorded.
	if err := x.record(r.Status, total(pieces), trouble(r.Status)); err != nil {
		x.send(problemOf(err))
		return
	}
	x.startStream(r.Status, contentType)
	for _, piece := range pieces {
		x.sendChunk(piece)
	}
}

func total(pieces []string) (n int) {
	for _, piece := range pieces {
		n += len(piece)
	}
	return n
}

// A framed is a stream in the form in which its client wants it.
type framed struct {
	x       *exchange
	written bool
}

func (f *framed) encode(chunk string) string {
	piece := f.x.route.Framing.Encode(chunk, !f.written)
	f.written = f.written || piece != ""
	return piece
}

func (f *framed) end() string { return f.x.route.Framing.End(!f.written) }

func trouble(status int) string {
	if status < 400 {
		return ""
	}
	return "status " + strconv.Itoa(status)
}

func (x *exchange) startStream(status int, contentType string) {
	h := x.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache")
	x.w.WriteHeader(status)
}

// sendChunk writes one event and flushes it. Errors are those of a client that
// has gone away.
func (x *exchange) sendChunk(chunk string) {
	if chunk == "" {
		return
	}
	x.extendDeadline()
	_, _ = x.w.Write([]byte(chunk))
	_ = http.NewResponseController(x.w).Flush()
}

// A relay passes the events of a live stream on as they arrive. The event that
// ends the stream is held back until the call is recorded: a client acts on it.
type relay struct {
	framed
	api   wire.API
	begun bool
	sent  int
	held  []string
}

func (r *relay) pass(chunk string) error {
	if !r.begun {
		r.begun = true
		r.x.startStream(http.StatusOK, r.x.route.Framing.ContentType())
	}
	piece := r.encode(chunk)
	if len(r.held) > 0 || wire.EndsStream(r.api, chunk) {
		r.held = append(r.held, piece)
		return nil
	}
	r.send(piece)
	return nil
}

func (r *relay) send(piece string) {
	r.sent += len(piece)
	r.x.sendChunk(piece)
}

func (r *relay) finish() {
	r.held = append(r.held, r.end())
	if err := r.x.record(http.StatusOK, r.sent+total(r.held), ""); err != nil {
		// Of what was held back nothing was written, though it counts as such.
		r.send(r.x.route.Framing.Encode(wire.FailureEvent(r.x.render(problemOf(err))), r.sent == 0) + r.end())
		return
	}
	for _, piece := range r.held {
		r.send(piece)
	}
}

// breakOff ends a stream of which a part was sent already.
func (r *relay) breakOff(p problem) {
	last := r.x.route.Framing.Encode(wire.FailureEvent(r.x.render(p)), r.sent == 0) + r.end()
	_ = r.x.record(http.StatusOK, r.sent+len(last), string(p.name))
	r.send(last)
}

// countTokens estimates: a quarter of the body's bytes, rounded up. There is no
// tokeniser here and nothing to replay; agents use the figure to decide when to
// shorten their context, and need the same one in every run.
func (x *exchange) countTokens() {
	if !x.only(http.MethodPost) {
		return
	}
	body, ok := x.body()
	if !ok {
		return
	}
	var any map[string]any
	if err := json.Unmarshal(body, &any); err != nil {
		x.fail(problem{http.StatusBadRequest, refusal.Malformed, "reading the request: " + err.Error()})
		return
	}
	x.answer(http.StatusOK, "application/json", x.route.API.TokenCount((len(body)+3)/4), "")
}

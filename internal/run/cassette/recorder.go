package cassette

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// RecorderOptions configure a [Recorder].
type RecorderOptions struct {
	// Redactor knows the secrets of this recording, above all the key of the
	// provider. With nil, secrets are found by shape and name only.
	Redactor *Redactor

	// Prices of the models. A call of a model that is not listed, or whose
	// reply does not tell its usage, is kept without a cost and counted as
	// unpriced.
	Prices Prices

	// RecordedAt is left out of the header when zero.
	RecordedAt time.Time

	// Base is a cassette to which the recording adds, as when only missing
	// calls are recorded. Added to one that is not recorded, the result is
	// edited.
	Base *Cassette
}

// A Recorder takes live traffic and makes a cassette of it. Secrets are
// removed before anything is kept, and keys are computed after that. It is
// safe for concurrent use; interactions stand in the order in which they were
// handed over, that is, in which they ended.
type Recorder struct {
	redactor   *Redactor
	prices     Prices
	recordedAt *evidence.Time
	provenance Provenance

	mu           sync.Mutex
	interactions []Interaction
	redactions   int64
}

// NewRecorder returns a recorder of no interactions, or of those of the base.
func NewRecorder(o RecorderOptions) (*Recorder, error) {
	if err := o.Prices.Validate(); err != nil {
		return nil, err
	}
	r := &Recorder{redactor: o.Redactor, prices: o.Prices, provenance: Recorded}
	if !o.RecordedAt.IsZero() {
		at := evidence.At(o.RecordedAt)
		r.recordedAt = &at
	}
	if o.Base != nil {
		r.interactions = append(r.interactions, o.Base.Interactions...)
		r.redactions = o.Base.Header.Redactions
		if o.Base.Header.Provenance != Recorded {
			r.provenance = Edited
		}
	}
	return r, nil
}

// ModelTraffic is one live call of a model, as it went over the wire.
type ModelTraffic struct {
	API     wire.API
	Request []byte // the body that was sent

	Status  int
	Headers map[string]string // of the response, in any case; only [KeptHeaders] are kept
	Body    []byte            // all bytes that came, of a stream as well

	// Streamed says that Body is a stream of server-sent events. It may have
	// broken off.
	Streamed bool

	Latency time.Duration

	// From is who answered, as the connection showed; RequestID is what the provider
	// called the request.
	From      *evidence.Endpoint
	RequestID string

	Purpose Purpose
}

// ToolTraffic is one live call of a tool. Err is what the tool failed with,
// "" if it did not fail.
type ToolTraffic struct {
	Name      string
	Arguments []byte
	Result    []byte
	Err       string
	Latency   time.Duration
}

// MCPTraffic is one live MCP exchange. Error is the JSON-RPC error object;
// Notifications are whole messages of the server that came before the answer.
type MCPTraffic struct {
	Server, Method string
	Params         []byte
	Result         []byte
	Error          []byte
	Notifications  [][]byte
	Latency        time.Duration
}

// Model keeps a model call and returns it as it is kept.
func (r *Recorder) Model(t ModelTraffic) (*Interaction, error) {
	it, count, err := r.model(t)
	if err != nil {
		return nil, fmt.Errorf("recording a model call: %w", err)
	}
	return r.keep(it, count, t.Latency)
}

func (r *Recorder) model(t ModelTraffic) (Interaction, int64, error) {
	req, err := ModelRequest(t.API, t.Request, r.redactor)
	if err != nil {
		return Interaction{}, 0, err
	}
	m := req.it.Model
	count, err := r.response(t, &m.Response)
	if err != nil {
		return Interaction{}, 0, err
	}
	body, err := r.assembled(m)
	if err != nil {
		return Interaction{}, 0, err
	}
	if body != nil {
		if m.Usage, err = wire.UsageOf(t.API, body); err != nil {
			return Interaction{}, 0, err
		}
	}
	m.CostMicrodollars = r.cost(m, body)
	req.it.MarkFor(t.Purpose)
	m.From, m.Said = t.From, r.said(t, body)
	return req.it, req.redactions + count, nil
}

// said is what the provider says of itself, without secrets and cut to a name's length.
func (r *Recorder) said(t ModelTraffic, body *wire.Node) *Said {
	model := ""
	if body != nil {
		model, _ = wire.Billed(t.API, body)
	}
	clean := func(text string) string {
		text, _ = r.redactor.Text(strings.ToValidUTF8(text, "\uFFFD"))
		if len(text) > maxNameBytes {
			text = strings.ToValidUTF8(text[:maxNameBytes], "")
		}
		return text
	}
	if s := (Said{clean(model), clean(t.RequestID)}); s != (Said{}) {
		return &s
	}
	return nil
}

// response fills in the reply without its secrets.
func (r *Recorder) response(t ModelTraffic, out *Response) (count int64, err error) {
	if !utf8.Valid(t.Body) {
		return 0, malformed("the response is not UTF-8 text").
			WithHint("the provider, or something in between, sent a reply that no client understands; try again")
	}
	out.Status = int64(t.Status)
	for _, kept := range KeptHeaders {
		for name, value := range t.Headers {
			if strings.EqualFold(name, kept) {
				text, n := r.redactor.Text(value)
				if out.Headers == nil {
					out.Headers = map[string]string{}
				}
				out.Headers[kept] = text
				count += int64(n)
			}
		}
	}
	if t.Streamed && len(t.Body) > 0 {
		var n int64
		out.Stream, n, err = r.redactor.stream(wire.SplitEvents(string(t.Body)))
		return count + n, err
	}
	if body, n, err := r.redactor.document(t.Body); err == nil {
		out.Body = body
		return count + n, nil
	}
	text, n := r.redactor.Text(string(t.Body))
	out.Text = text
	return count + int64(n), nil
}

var errSecretLeft = errors.New("a literal secret is still there after redaction")

// assembled returns the body of the reply, nil if it has none, after a last
// look for literal secrets: a stream shows them only when put together.
func (r *Recorder) assembled(m *ModelCall) (*wire.Node, error) {
	var body *wire.Node
	switch {
	case m.Response.Stream != nil:
		whole, err := wire.Assemble(m.API, m.Response.Stream)
		if err != nil {
			return wire.PartialUsage(m.API, m.Response.Stream), nil
		}
		body = whole
	case m.Response.Body != nil:
		n := wire.ParseCanonical(string(m.Response.Body))
		body = &n
	default:
		return nil, nil
	}
	if r.redactor.holdsLiteral(body.AppendJSON(nil)) {
		return nil, secretLeft()
	}
	return body, nil
}

// cost looks up the price by the model that answered, then by the model that
// was asked for. A reply that does not tell all of its usage has an unknown cost, as a
// stream that does not say it or breaks off before it does; only a refused request is
// free.
func (r *Recorder) cost(m *ModelCall, body *wire.Node) *int64 {
	model, counted := "", false
	if body != nil {
		model, counted = wire.Billed(m.API, body)
	}
	if stream := m.Response.Stream; stream != nil && counted {
		_, err := wire.Assemble(m.API, stream)
		counted = err == nil && wire.StreamTells(m.API, stream)
	}
	if !counted && m.Response.Status < 400 {
		return nil
	}
	price, known := r.prices[model]
	if !known {
		price, known = r.prices.of(m.ModelName())
	}
	if !known {
		return nil
	}
	cost := price.Cost(m.Usage)
	return &cost
}

// Again keeps an interaction that an earlier recorder kept, as the answer to a
// request, and returns it. It has no secrets any more.
func (r *Recorder) Again(it Interaction, request Request) (*Interaction, error) {
	if key, err := it.computeKey(); err != nil || key != request.Key {
		return nil, malformed("it does not answer the request %s", request.Key)
	}
	return r.keep(it, 0, time.Duration(it.LatencyMS)*time.Millisecond)
}

// Tool keeps a tool call and returns it as it is kept.
func (r *Recorder) Tool(t ToolTraffic) (*Interaction, error) {
	req, err := ToolRequest(t.Name, t.Arguments, r.redactor)
	if err != nil {
		return nil, fmt.Errorf("recording a tool call: %w", err)
	}
	call := req.it.Tool
	count := req.redactions
	if t.Err != "" {
		text, n := r.redactor.Text(t.Err)
		call.Error = text
		count += int64(n)
	} else if err := r.documentInto(&call.Result, t.Result, &count); err != nil {
		return nil, fmt.Errorf("recording the result of the tool %s: %w", wire.Head(call.Name), err)
	}
	return r.keep(req.it, count, t.Latency)
}

// MCP keeps an MCP exchange and returns it as it is kept.
func (r *Recorder) MCP(t MCPTraffic) (*Interaction, error) {
	req, err := MCPRequest(t.Server, t.Method, t.Params, r.redactor)
	if err != nil {
		return nil, fmt.Errorf("recording an MCP exchange: %w", err)
	}
	e := req.it.MCP
	count := req.redactions
	for _, part := range []struct {
		into *canon.RawMessage
		from []byte
	}{{&e.Result, t.Result}, {&e.Error, t.Error}} {
		if err := r.documentInto(part.into, part.from, &count); err != nil {
			return nil, fmt.Errorf("recording the answer to %s: %w", wire.Head(e.Method), err)
		}
	}
	for _, n := range t.Notifications {
		var text canon.RawMessage
		if err := r.documentInto(&text, n, &count); err != nil {
			return nil, fmt.Errorf("recording a notification during %s: %w", wire.Head(e.Method), err)
		}
		e.Notifications = append(e.Notifications, text)
	}
	return r.keep(req.it, count, t.Latency)
}

// documentInto redacts a JSON document; none stays none.
func (r *Recorder) documentInto(into *canon.RawMessage, from []byte, count *int64) error {
	if len(from) == 0 {
		return nil
	}
	text, n, err := r.redactor.document(from)
	*into = text
	*count += n
	return err
}

// A Borrowed is an answer that was recorded before, none if Answer is nil. From
// is where it comes from: what a person wrote does not become a recording by
// being borrowed.
type Borrowed struct {
	Answer *Interaction
	From   Provenance
}

// Borrow asks for an answer that was recorded before, and keeps it as it is. The
// request that it stands beside is the one of now: the two may differ in what
// normalisers leave out. It gives nil if there is no answer.
func (r *Recorder) Borrow(request Request, find func(Request) (Borrowed, error)) (*Interaction, error) {
	found, err := find(request)
	if found.Answer == nil || err != nil {
		return nil, err
	}
	if found.From != Recorded {
		r.mu.Lock()
		r.provenance = Edited
		r.mu.Unlock()
	}
	it := *found.Answer
	if m := it.Model; m != nil {
		call := *m
		call.Request = request.it.Model.Request
		it.Model = &call
	}
	return r.keep(it, request.redactions, time.Duration(it.LatencyMS)*time.Millisecond)
}

// keepAfter is keep with a time in milliseconds.
func (r *Recorder) keepAfter(it Interaction, count, ms int64) (*Interaction, error) {
	return r.keep(it, count, time.Duration(ms)*time.Millisecond)
}

// keep is the only place where something is remembered.
func (r *Recorder) keep(it Interaction, count int64, latency time.Duration) (*Interaction, error) {
	it.LatencyMS = latency.Milliseconds()
	if err := it.validate(); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	line, err := canon.Marshal(&it)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	if r.redactor.holdsLiteral(line) {
		return nil, secretLeft()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interactions = append(r.interactions, it)
	r.redactions += count
	return &it, nil
}

func secretLeft() error {
	return refusal.Newf(refusal.Failed, "recording: %w", errSecretLeft).
		WithHint("nothing of this call was kept; change the prompt or tool so that the secret is not part of the conversation")
}

// Cassette returns everything recorded so far.
func (r *Recorder) Cassette() (*Cassette, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return New(r.provenance, r.recordedAt, r.redactions, append([]Interaction(nil), r.interactions...))
}

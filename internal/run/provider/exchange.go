package provider

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

// A reply is what came of one try.
type reply struct {
	status   int
	header   http.Header
	from     *evidence.Endpoint // who answered
	body     []byte
	streamed bool
	latency  time.Duration

	err    error // why there is no reply, or not all of it
	sent   bool  // the provider may have done the work, and may bill it
	passed bool  // the client has seen a part
	final  bool  // another try would give the same error
	client error // the client did not want any more

	held *string // the newest event of a stream, kept back until the reply is on disk
}

// cost is what a try is counted with: what is known, else the most.
func (r *reply) cost(it *cassette.Interaction, most int64) int64 {
	switch {
	case it != nil && it.Model.CostMicrodollars != nil:
		return *it.Model.CostMicrodollars
	case !r.maybePaid():
		return 0
	}
	return most
}

// maybePaid reports whether the provider may bill the try.
func (r *reply) maybePaid() bool { return r.sent && r.status < 400 }

// sentError tells the session whether a call that failed may have been billed.
func (r *reply) sentError(err error) error {
	if r.maybePaid() {
		return &session.SentError{Err: err}
	}
	return err
}

// reason says why a try is made again, without anything the server wrote.
func (r *reply) reason() string {
	if r.err == nil {
		return fmt.Sprintf("status %d", r.status)
	}
	if errors.Is(r.err, errSilent) {
		return errSilent.Error()
	}
	return "the connection failed"
}

// errSilent is the cause of a context that ended because nothing came.
var errSilent = errors.New("the provider sent nothing for too long")

// try sends the request once and reads the reply to its end.
func (c *call) try(ctx context.Context) *reply {
	r := &reply{}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, seen := watchConnection(ctx)
	// One clock for the beginning of the reply and for each pause in it.
	silence := time.AfterFunc(c.endpoint.Timeout, func() { cancel(errSilent) })
	defer silence.Stop()

	req, err := c.request(ctx)
	if err != nil {
		r.err, r.final = err, true
		return r
	}
	begun := time.Now()
	defer func() { r.latency = time.Since(begun) }()
	resp, err := c.live.cfg.Access.clients[c.endpoint.CAFile].Do(req)
	if err != nil {
		r.fail(ctx, err)
		r.sent = !isDialError(err)
		r.final = errors.Is(err, errRedirect)
		return r
	}
	defer resp.Body.Close()
	r.sent, r.status, r.header = true, resp.StatusCode, resp.Header
	if r.from, err = seen.endpoint(c.endpoint, resp, c.live.cfg.Access.trusted[c.endpoint.CAFile]); err != nil {
		r.err, r.final = err, true
		return r
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 300 && resp.StatusCode < 400 {
		r.err, r.final = fmt.Errorf("the status is %d, which no reply has", resp.StatusCode), true
		if resp.Header.Get("Location") != "" {
			r.err = errRedirect
		}
		return r
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("content-type"))
	framing, streamed := wire.FramingOf(kind)
	r.streamed = streamed && resp.StatusCode < 300
	silence.Reset(c.endpoint.Timeout)
	c.read(ctx, framing.Decode(resp.Body), r, func() { silence.Reset(c.endpoint.Timeout) })
	return r
}

func (r *reply) fail(ctx context.Context, err error) {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	r.err = err
}

// isDialError reports that no byte of the request can have left.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// accepted are the media types of replies: a body, and streams in each form.
var accepted = strings.Join([]string{"application/json", "text/event-stream", wire.AWSFrames.ContentType()}, ", ")

// request makes the HTTP request. The body is the client's, byte for byte, unless
// the API has a part of it in the path.
func (c *call) request(ctx context.Context) (*http.Request, error) {
	url, body, err := c.api.Outgoing(c.endpoint.BaseURL, c.body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// A retry is our decision and is counted; the transport must not make one.
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accepted)
	req.Header.Set("User-Agent", "tallystick")
	p := c.api.Provider()
	if p.Version[0] != "" { // the settings may name another
		req.Header.Set(p.Version[0], p.Version[1])
	}
	for name, value := range c.endpoint.Headers {
		req.Header.Set(name, value)
	}
	if c.key.key != "" {
		req.Header.Set(p.KeyHeader, p.KeyScheme+c.key.key)
	}
	if c.key.signer != nil {
		c.key.signer.sign(req, body, time.Now())
	}
	return req, nil
}

// read takes the reply to its end. The events of a stream are passed on as they
// come; once the client wants no more, the rest is still read: it is paid for,
// and half of it would be no recording of what the model said.
func (c *call) read(ctx context.Context, body io.Reader, r *reply, alive func()) {
	arrival := cassette.NewArrival(c.live.cfg.Access.Redactor())
	pass := func(events []string, err error) {
		for _, event := range events {
			c.pass(r, event)
		}
		if err != nil && r.client == nil {
			r.client = err
		}
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		alive()
		if len(r.body)+n > maxReplyBytes {
			r.err, r.final = refusal.Newf(refusal.TooLarge, "the reply of %s is longer than %d bytes", c.endpoint.Provider, maxReplyBytes).
				WithHint("a cassette keeps request and reply in one line; ask for less in one call"), true
			// Cut in the middle of the client's own limits: not a reply.
			r.streamed = false
			return
		}
		r.body = append(r.body, buffer[:n]...)
		if r.streamed && n > 0 {
			pass(arrival.Write(buffer[:n]))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			r.fail(ctx, err)
			break
		}
	}
	if r.streamed {
		pass(arrival.Close())
	}
	if r.err != nil {
		r.body = wholeRunes(r.body)
	}
}

// pass gives an event to the client. With a journal it is the one before, so that
// the last waits until the reply is on disk.
func (c *call) pass(r *reply, event string) {
	if c.onChunk == nil || r.client != nil {
		return
	}
	now := &event
	if c.paid != nil {
		if now, r.held = r.held, now; now == nil {
			return
		}
	}
	r.passed = true
	r.client = c.onChunk(*now)
}

// release gives the event that was kept back to the client.
func (c *call) release(r *reply) {
	if r.held != nil && r.client == nil {
		r.client = c.onChunk(*r.held)
	}
}

// wholeRunes drops the piece of a character at which a reply broke off.
func wholeRunes(text []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
		if at := len(text) - cut; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return text[:at]
			}
			break
		}
	}
	return text
}

// requestID is what the provider calls the request, in the headers of its SDKs.
func requestID(h http.Header) string {
	return cmp.Or(h.Get("x-request-id"), h.Get("request-id"), h.Get("x-amzn-requestid"), h.Get("apim-request-id"))
}

// kept picks the headers that a recording may have.
func kept(h http.Header) map[string]string {
	headers := map[string]string{}
	for _, name := range cassette.KeptHeaders {
		if value := h.Get(name); value != "" {
			headers[name] = value
		}
	}
	return headers
}

package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// A Web answers the HTTP requests of an agent's program: [WebReplay], or a live one
// that records. What a server answers, an error of its own or none at all included, is
// an exchange; an error of Fetch ends the case, unless it is a [NotSentError].
type Web interface {
	// Fetch answers a request, whose canonical form is given too. Of a live reply
	// that comes in pieces, begin is told the head and then piece by piece the body,
	// unless it is nil.
	Fetch(ctx context.Context, ask cassette.HTTPAsk, request cassette.Request, pass *HTTPPass) (*cassette.Interaction, error)
}

// An HTTPPass is given a streamed reply as it arrives.
type HTTPPass struct {
	Begin func(status int, headers map[string][]string)
	Piece func(piece string)
}

// A NotSentError says that a request was refused before anything was sent, by a
// control of the proxy: the program is told, and the case goes on.
type NotSentError struct {
	Rule string // of the violation
	Err  error
}

func (e *NotSentError) Error() string { return e.Err.Error() }

func (e *NotSentError) Unwrap() error { return e.Err }

// An HTTPReply is what goes back to the program: an exchange, or why the policy did
// not permit it.
type HTTPReply struct {
	Exchange *cassette.HTTPExchange
	Denied   string
}

// HTTP asks the policy about a request of the agent's program, has it approved if need
// be, sends it or finds its recording, and records all of that. The name of the call
// is [policy.HTTPName].
func (s *Session) HTTP(ctx context.Context, name string, ask cassette.HTTPAsk, pass *HTTPPass) (HTTPReply, error) {
	if err := s.reads(len(ask.Body) + len(ask.Path) + len(ask.Query)); err != nil {
		return HTTPReply{}, err
	}
	if err := s.cleanAsk(&ask); err != nil {
		return HTTPReply{}, err
	}
	request, err := cassette.HTTPRequest(ask, s.cfg.Redactor)
	if err != nil {
		return HTTPReply{}, err // the agent's mistake: it may try another request
	}
	call, args, denied, err := s.startHTTP(ctx, name, request)
	if err != nil || denied != "" {
		return HTTPReply{Denied: denied}, err
	}
	it, err := s.fetch(ctx, ask, request, pass)
	if err := s.enter(); err != nil {
		return HTTPReply{}, err
	}
	defer s.mu.Unlock()
	if err != nil {
		return HTTPReply{}, s.httpFailed(call, err)
	}
	return HTTPReply{Exchange: it.HTTP}, s.httpDone(call, args, it)
}

// cleanAsk takes the secrets of this case out of what goes on to a server.
func (s *Session) cleanAsk(ask *cassette.HTTPAsk) (err error) {
	s.mu.Lock()
	r := s.redactor
	s.mu.Unlock()
	ask.Path, ask.Query = r.TakeOut(ask.Path), r.TakeOut(ask.Query)
	headers := make(map[string][]string, len(ask.Headers))
	for name, values := range ask.Headers {
		for _, v := range values {
			headers[name] = append(headers[name], r.TakeOut(v))
		}
	}
	ask.Headers = headers
	ask.Body, err = r.Outgoing(ask.Body)
	return err
}

func (s *Session) startHTTP(ctx context.Context, name string, request cassette.Request) (call policy.Call, args trajectory.Args, denied string, err error) {
	if err := s.enter(); err != nil {
		return call, args, "", err
	}
	defer s.mu.Unlock()
	if err := s.checkLimits(); err != nil {
		return call, args, "", err
	}
	call = policy.Call{ID: s.nextCall(), Action: policy.Tool, Name: cutText(name, 256), Class: policy.Network, Args: request.Canonical(), Turn: s.turn, At: s.elapsed}
	args, whole := s.args(request.Canonical())
	if len(whole) <= keptIfDenied {
		s.keepArgs(whole)
	}
	if err := s.event(&trajectory.ToolProposed{Call: call.ID, Name: s.named(call.Name), Class: call.Class, Args: args}); err != nil {
		return call, args, "", err
	}
	decision, err := s.decide(ctx, call)
	if err != nil {
		return call, args, "", err
	}
	if !decision.Permits() {
		// A request cannot be taken back, so there is no checkpoint to go back to.
		return call, args, deniedText(decision), s.record(call, policy.Usage{}, nil)
	}
	s.keepArgs(whole)
	return call, args, "", nil
}

// fetch gets the reply. Time passes here, and other calls of the case go on.
func (s *Session) fetch(ctx context.Context, ask cassette.HTTPAsk, request cassette.Request, pass *HTTPPass) (*cassette.Interaction, error) {
	if s.cfg.Web == nil {
		return nil, errNothingRecorded()
	}
	return s.cfg.Web.Fetch(ctx, ask, request, pass)
}

func errNothingRecorded() error {
	return refusal.Newf(refusal.CassetteMiss, "the case has no recording, and its agent sent an HTTP request").
		WithHint(`record one with "tally record CLASS --target TARGET --only-missing --unsafe-record"`)
}

// httpFailed ends a request without a reply.
func (s *Session) httpFailed(call policy.Call, err error) error {
	var unsent *NotSentError
	if !errors.As(err, &unsent) {
		return s.toolFailed(call.ID, err)
	}
	// The policy permitted it; another control did not.
	if err := s.record(call, policy.Usage{}, nil); err != nil {
		return err
	}
	s.counts.Violations++
	verr := s.event(&trajectory.PolicyViolation{Call: call.ID, Rule: unsent.Rule, Text: cutText(s.safe(unsent.Error()), maxDetail)})
	if verr != nil {
		return verr
	}
	return unsent
}

func (s *Session) httpDone(call policy.Call, args trajectory.Args, it *cassette.Interaction) error {
	latency := time.Duration(it.LatencyMS) * time.Millisecond
	s.elapsed += latency
	e := it.HTTP
	source := s.cfg.Source
	if source == "authored" { // of its model; what answers here is a recording
		source = "cassette"
	}
	done := &trajectory.ToolExecuted{Call: call.ID, Name: s.named(call.Name), Args: args, LatencyMS: it.LatencyMS, Source: source, Trust: "untrusted",
		Error: cutText(s.safe(e.Error), maxDetail), Result: s.content(httpText(e), trajectory.ResultHead)}
	if e.Response != nil && e.Response.Status >= 400 {
		done.Error = "status " + strconv.FormatInt(e.Response.Status, 10)
	}
	if err := s.event(done); err != nil {
		return err
	}
	return s.record(call, policy.Usage{Executed: true, Latency: latency}, nil)
}

// httpText is a reply for the event and for those who look for answers in it: the
// body, if that is text.
func httpText(e *cassette.HTTPExchange) string {
	if e.Response == nil {
		return e.Error
	}
	body := e.Response.Body()
	if !utf8.Valid(body) {
		return fmt.Sprintf("[%d bytes of %s, %s]", len(body), strings.Join(e.Response.Headers["content-type"], ", "), digest.ContentOf(body))
	}
	return string(body)
}

// A WebReplay answers from a cassette, which may be nil.
type WebReplay struct{ Player *cassette.Player }

// Fetch gives the recording of a request.
func (w *WebReplay) Fetch(_ context.Context, _ cassette.HTTPAsk, request cassette.Request, _ *HTTPPass) (*cassette.Interaction, error) {
	if w.Player == nil {
		return nil, errNothingRecorded()
	}
	return w.Player.Next(request)
}

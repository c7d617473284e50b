package agent

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// Bounds of what a reply may hold, so that a hostile one costs no more than a
// long one.
const (
	maxCalls     = 64  // of one reply; those beyond are dropped
	maxNameBytes = 128 // of a tool; OpenAI and Anthropic allow 64
	maxIDBytes   = 128
)

// A reply is what a model said.
type reply struct {
	text    string // of a refusal, its words
	refused bool
	cut     bool // at the limit of output tokens: the end is missing
	calls   []wire.Call
	dropped int // calls beyond maxCalls
}

// A badReply is a call of a model that gave nothing to continue with. Again
// says that asking again may help.
type badReply struct {
	name   string // for the event
	detail string
	again  bool
}

func (e *badReply) Error() string { return e.detail }

// parseReply reads the response of a model call, body or stream. Its errors
// are *badReply.
func parseReply(it *cassette.Interaction) (reply, error) {
	if it == nil || it.Model == nil {
		return reply{}, &badReply{"reply_malformed", "the reply is not one of a model", false}
	}
	m := it.Model
	if m.Response.Status < 200 || m.Response.Status > 299 {
		return reply{}, statusError(&m.Response)
	}
	body := []byte(m.Response.Body)
	if m.Response.Stream != nil {
		joined, err := wire.BodyOfStream(m.API, m.Response.Stream)
		if err != nil {
			return reply{}, &badReply{"reply_malformed", "the stream does not make a reply: " + clip(err.Error(), 400), true}
		}
		body = joined
	}
	if len(body) == 0 {
		return reply{}, &badReply{"reply_malformed", "the reply is not JSON: " + strconv.Quote(clip(m.Response.Text, 200)), true}
	}
	said, err := wire.ReadReply(m.API, body)
	switch {
	case err != nil:
		return reply{}, &badReply{"reply_malformed", fmt.Sprintf("the reply is not one of %s: %s", m.API, clip(err.Error(), 400)), true}
	case said.End == wire.Failed:
		return reply{}, &badReply{"model_failed", "the model did not answer: " + strconv.Quote(clip(said.Detail, 300)), true}
	}
	r := reply{text: said.Text(), refused: said.Refused(), cut: said.End == wire.Cut, calls: said.Calls()}
	r.bound()
	return r, nil
}

// statusError says what a reply with an error status means. What the SDKs of
// the providers try again is tried again: 408, 409, 429 and 5xx.
func statusError(r *cassette.Response) *badReply {
	message := wire.FailureMessage(r.Body)
	if message == "" {
		message = r.Text
	}
	if message == "" {
		message = string(r.Body)
	}
	again := r.Status == 408 || r.Status == 409 || r.Status == 429 || r.Status >= 500
	return &badReply{"model_status_" + strconv.FormatInt(r.Status, 10),
		fmt.Sprintf("the model answered with status %d: %s", r.Status, strconv.Quote(clip(message, 300))), again}
}

// bound brings the calls into a form that can be sent back: not too many, each
// with a name, and with an id that no other has.
func (r *reply) bound() {
	if len(r.calls) > maxCalls {
		r.dropped = len(r.calls) - maxCalls
		r.calls = r.calls[:maxCalls]
	}
	for i := range r.calls {
		c := &r.calls[i]
		if c.Name == "" {
			c.Name = "unnamed"
		}
		c.Name = clip(c.Name, maxNameBytes)
		if c.ID == "" || len(c.ID) > maxIDBytes || usedBefore(r.calls[:i], c.ID) {
			c.ID = "call_" + strconv.Itoa(i+1)
			for usedBefore(r.calls[:i], c.ID) {
				c.ID += "x"
			}
		}
	}
}

func usedBefore(calls []wire.Call, id string) bool {
	for _, c := range calls {
		if c.ID == id {
			return true
		}
	}
	return false
}

// clip returns at most limit bytes of s, cut between two characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

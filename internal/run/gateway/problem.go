package gateway

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

// A problem is why a request gets no reply.
type problem struct {
	status  int
	name    refusal.Name
	message string
}

// problemOf says what a client is told of an error of the session. A stop is
// the client's fault as far as its SDK is concerned: 400 is the status that no
// SDK tries again.
func problemOf(err error) problem {
	told := err.Error()
	var miss *cassette.Miss
	if errors.As(err, &miss) {
		told = miss.Told() // what is recorded is for people, not for the agent
	}
	var stop *session.Stop
	if errors.As(err, &stop) {
		return problem{http.StatusBadRequest, stop.Name, "the case has ended (" + string(stop.Kind) + "): " + told}
	}
	r := refusal.Of(err)
	switch r.Name {
	case refusal.Malformed:
		return problem{http.StatusBadRequest, r.Name, told}
	case refusal.TooLarge:
		return problem{http.StatusRequestEntityTooLarge, r.Name, told}
	}
	return problem{http.StatusInternalServerError, r.Name, told}
}

// kind is the type of the problem in the words that all providers use.
func (p problem) kind() string {
	switch p.status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	}
	if p.status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// maxMessage bounds what an error tells a client.
const maxMessage = 4 << 10

// render writes the problem in the shape of the client's API.
func (x *exchange) render(p problem) []byte {
	text := x.g.visible(plain.Line(string(p.name)+": "+p.message), maxMessage)
	if x.protocol == mcp {
		return encode(failed(nil, codeOf(p), text, p.name))
	}
	provider := x.provider
	if provider == nil {
		provider = wire.Providers()[0]
	}
	return provider.Failure(p.kind(), text, string(p.name))
}

// fail answers with a problem and records it.
func (x *exchange) fail(p problem) {
	if x.g.countRefused() {
		_ = x.record(p.status, len(x.render(p)), string(p.name)) // the answer is an error already
	}
	x.send(p)
}

// send answers with a problem. X-Should-Retry is what all SDKs obey.
func (x *exchange) send(p problem) {
	body := x.render(p)
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Should-Retry", "false")
	x.extendDeadline()
	x.w.WriteHeader(p.status)
	x.w.Write(body)
}

// encode writes a document of our own.
func encode(doc any) []byte {
	data, err := json.Marshal(doc, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // documents are built from strings, numbers and checked JSON
	}
	return data
}

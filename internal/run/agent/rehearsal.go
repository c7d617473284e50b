package agent

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"tallystick/internal/run/gateway"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/wire"
)

// rehearsalToken is not a secret: it opens nothing.
const rehearsalToken = "tally-rehearsal"

// rehearsalWords are what the user and the model say in a rehearsal. They are the
// same for every agent and every attempt.
const rehearsalWords = "This is a rehearsal."

// rehearsal is a turn without a case: see [sandbox.Rehearsal]. The caller serves
// its gateway with rehearseModel, and closes it.
func (r *commandRun) rehearsal() (*sandbox.Rehearsal, error) {
	input, err := r.input(1, rehearsalWords)
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("http://127.0.0.1:%d", sandbox.DefaultGatewayPort)
	return &sandbox.Rehearsal{Env: r.sandbox(gateway.Environment(base, rehearsalToken)).Env, Stdin: string(input), Gateway: sandbox.NewGateway()}, nil
}

// maxRehearsalBody bounds a request to the model of a rehearsal.
const maxRehearsalBody = 8 << 20

// rehearseModel answers every call of a model with the same words, in the API in
// which it was made. Nothing is recorded, and nothing is asked of a session, for
// there is none.
func rehearseModel(w http.ResponseWriter, q *http.Request) {
	route, ok := wire.RouteOfEndpoint(gateway.Endpoint(q.URL.Path))
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxRehearsalBody))
	if !ok || err != nil || q.Method != http.MethodPost {
		http.NotFound(w, q)
		return
	}
	if route.CountTokens {
		w.Header().Set("Content-Type", "application/json")
		w.Write(route.API.TokenCount(1))
		return
	}
	if body, err = route.Request(body); err != nil {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	delivery, err := wire.DeliveryOf(route.API, body)
	var reply []byte
	if err == nil {
		reply, err = wire.Body(route.API, &wire.Answer{ID: "rehearsal", Model: "rehearsal", Text: rehearsalWords, InputTokens: 1, OutputTokens: 1, Echo: true})
	}
	var events []string
	if err == nil && delivery.Stream {
		events, err = wire.StreamOfBody(route.API, reply, delivery.IncludeUsage)
	}
	if err != nil {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	if !delivery.Stream {
		w.Header().Set("Content-Type", "application/json")
		w.Write(reply)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, strings.Join(events, ""))
}

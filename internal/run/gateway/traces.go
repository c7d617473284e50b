package gateway

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"slices"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

// tracesEndpoint is where exporters of OTLP/HTTP send spans: /v1/traces.
const tracesEndpoint = "/traces"

// A Step is something that an agent says it did, in a span.
type Step struct {
	Start  uint64 // nanoseconds, by the agent's clock
	Span   string // its id: exporters send a batch again that was not answered
	Result wire.Result
}

// Bounds of the steps of one turn.
const (
	maxSteps     = 10_000
	maxStepBytes = 32 << 20
)

// traces takes spans. Exporters send them whenever they like, so they are recorded
// when the agent has ended, in the order in which the agent says it all happened:
// in the order of arrival two equal runs would differ.
func (x *exchange) traces() {
	if !x.only(http.MethodPost) {
		return
	}
	body, ok := x.body()
	if !ok {
		return
	}
	kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	steps, err := x.g.cfg.Steps(kind, body)
	if err == nil {
		err = x.g.holdSteps(steps)
	}
	if err != nil {
		p := problem{http.StatusBadRequest, refusal.Malformed, "reading spans: " + err.Error()}
		if refusal.Is(err, refusal.TooLarge) {
			p.status, p.name = http.StatusRequestEntityTooLarge, refusal.TooLarge
		}
		x.fail(p)
		return
	}
	reply := []byte("{}")
	if kind != "application/json" { // the empty message
		reply = nil
	}
	e := x.event(http.StatusOK, len(reply), "")
	e.LatencyMS = 0 // what the record says of time does not depend on when they came
	x.g.hold(e)
	h := x.w.Header()
	h.Set("Content-Type", cmp.Or(kind, "application/x-protobuf"))
	x.extendDeadline()
	x.w.WriteHeader(http.StatusOK)
	x.w.Write(reply)
}

// holdSteps keeps steps until the agent has ended.
func (g *Gateway) holdSteps(steps []Step) error {
	size := 0
	for i := range steps {
		size += len(steps[i].Result.Sent) + len(steps[i].Result.Args) + len(steps[i].Result.Name) + 64
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.steps)+len(steps) > maxSteps || g.stepBytes+size > maxStepBytes {
		return refusal.Newf(refusal.TooLarge, "the spans of this turn tell of more than %d calls or %d bytes", maxSteps, maxStepBytes)
	}
	g.steps, g.stepBytes = append(g.steps, steps...), g.stepBytes+size
	return nil
}

// recordSteps records what was held. A case that has stopped takes no more.
func (g *Gateway) recordSteps() error {
	g.mu.Lock()
	steps := g.steps
	g.steps = nil
	g.mu.Unlock()
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Span, b.Span)) })
	seen := map[string]bool{}
	for _, s := range steps {
		if s.Span != "" && seen[s.Span] {
			continue
		}
		seen[s.Span] = true
		var stop *session.Stop
		if err := g.cfg.Session.Reported(s.Result); errors.As(err, &stop) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

package lab

import (
	"tallystick/internal/run/gateway"
	"tallystick/internal/share/foreign"
	"tallystick/internal/share/otel"
)

// maxSpanWork bounds what reading one request with spans may cost; see
// [foreign.Budget].
const maxSpanWork = 4 << 20

// StepsOfSpans reads the body of a request of an OTLP/HTTP exporter, in either of
// its encodings.
func StepsOfSpans(contentType string, body []byte) ([]gateway.Step, error) {
	budget := &foreign.Budget{Left: maxSpanWork}
	var batch *otel.Batch
	var err error
	if contentType == "application/json" {
		if err = budget.Check(body); err == nil {
			batch, err = otel.ParseJSON(body)
		}
	} else {
		batch, err = otel.ParseProtobuf(body, budget)
	}
	if err != nil {
		return nil, err
	}
	calls, err := otel.ToolCalls(budget, batch)
	if err != nil {
		return nil, err
	}
	steps := make([]gateway.Step, len(calls))
	for i, c := range calls {
		steps[i] = gateway.Step(c)
	}
	return steps, nil
}

package bundle

import (
	"encoding/binary"
	"fmt"
)

// A Vantage says how a tool call of the trace is known.
type Vantage uint8

// The vantages, from the strongest to the weakest.
const (
	Executed Vantage = iota // it went through the harness
	Reported                // the agent sent its result back to the model
	Proposed                // the model asked for it
)

// String is the name of the vantage.
func (v Vantage) String() string {
	switch v {
	case Executed:
		return "executed"
	case Reported:
		return "reported"
	case Proposed:
		return "proposed"
	}
	return fmt.Sprintf("unknown (%d)", uint8(v))
}

// An Observed says what the trace cannot: the work of models, which the totals
// of the header have too, and how each call is known.
type Observed struct {
	ModelCalls       uint32
	CostMicrodollars uint32
	LatencyMS        uint32
	Tokens           uint32
	Vantages         []Vantage // one for each entry of the trace
}

// observedSize is the size of the section without its vantages.
const observedSize = 16

func (o *Observed) append(b []byte) []byte {
	for _, n := range []uint32{o.ModelCalls, o.CostMicrodollars, o.LatencyMS, o.Tokens} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	for _, v := range o.Vantages {
		b = append(b, byte(v))
	}
	return b
}

// parseObserved reads the section. It has a vantage for each call of the trace.
func parseObserved(value []byte, calls []ToolCall) (*Observed, error) {
	if want := observedSize + len(calls); len(value) != want {
		return nil, invalid("OBSERVED has %d bytes, the totals and %d tool calls need %d", len(value), len(calls), want)
	}
	le := binary.LittleEndian
	o := &Observed{ModelCalls: le.Uint32(value), CostMicrodollars: le.Uint32(value[4:]), LatencyMS: le.Uint32(value[8:]), Tokens: le.Uint32(value[12:])}
	for i, v := range value[observedSize:] {
		if Vantage(v) > Proposed {
			return nil, invalid("OBSERVED: the vantage of entry %d is %d, expected 0 to 2", i, v)
		}
		o.Vantages = append(o.Vantages, Vantage(v))
	}
	return o, nil
}

// totals are those of the header: the trace, and the work of models.
func (b *Bundle) totals() totals {
	t := sum(b.Trace)
	if o := b.Observed; o != nil {
		t.cost, t.latency, t.tokens = saturate(t.cost, o.CostMicrodollars), saturate(t.latency, o.LatencyMS), saturate(t.tokens, o.Tokens)
	}
	return t
}

// VantageOf is how an entry of the trace is known. A bundle that does not say
// has only what was executed, or denied.
func (b *Bundle) VantageOf(entry int) (Vantage, bool) {
	if b.Observed == nil || entry >= len(b.Observed.Vantages) {
		return Executed, false
	}
	return b.Observed.Vantages[entry], true
}

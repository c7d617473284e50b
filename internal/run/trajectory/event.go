package trajectory

import (
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
)

// A Type says what happened.
type Type string

// payloads has every type of events, in the order of the documentation. The
// set is closed: it is part of what is attested. A new type is a line here and
// a payload with the methods of [Payload]; everything that goes over all types
// goes over this list.
var payloads = []func() Payload{
	func() Payload { return new(RunStarted) },
	func() Payload { return new(RunCompleted) },
	func() Payload { return new(RunFailed) },
	func() Payload { return new(TurnStarted) },
	func() Payload { return new(TurnCompleted) },
	func() Payload { return new(ContextCompiled) },
	func() Payload { return new(Plan) },
	func() Payload { return new(ModelCallStarted) },
	func() Payload { return new(ModelCallCompleted) },
	func() Payload { return new(ToolProposed) },
	func() Payload { return new(PolicyDecision) },
	func() Payload { return new(PolicyViolation) },
	func() Payload { return new(ToolExecuted) },
	func() Payload { return new(ToolObserved) },
	func() Payload { return new(ApprovalRequested) },
	func() Payload { return new(ApprovalResolved) },
	func() Payload { return new(MemoryProposed) },
	func() Payload { return new(MemoryWritten) },
	func() Payload { return new(MemoryRetrieved) },
	func() Payload { return new(CheckpointSaved) },
	func() Payload { return new(Rollback) },
	func() Payload { return new(HandedOff) },
	func() Payload { return new(TransportRequest) },
	func() Payload { return new(FileWritten) },
	func() Payload { return new(FileDeleted) },
	func() Payload { return new(SecurityEvent) },
	func() Payload { return new(LimitReached) },
	func() Payload { return new(Failure) },
	func() Payload { return new(TestRun) },
	func() Payload { return new(UserMoved) },
	func() Payload { return new(UserToolCalled) },
	func() Payload { return new(UserBrokeRule) },
	func() Payload { return new(UserEnded) },
	func() Payload { return new(WorldStarted) },
	func() Payload { return new(WorldState) },
	func() Payload { return new(ServiceTraffic) },
}

// A Payload is what an event of one type says. Its members stand in the order
// of their names, which is the order on the line.
//
// In all payloads call names a proposal within the case, be it of a model call,
// a tool call, a memory write, a hand-off or a request for approval; the events
// of one proposal share it. entry names a memory entry, checkpoint a saved
// state.
//
// docs/formats/rules/events.json says what is asked of each member; Validate and
// the JSON Schema of trajectories are written from it.
type Payload interface {
	// Type is the type of the events that have such a payload.
	Type() Type

	// Validate says which rule of the type is broken, or nil.
	Validate() error

	// Summary tells the event in a line, which is never empty. What the agent
	// and the world wrote is in it as it is: not safe to print, and long.
	Summary() string

	// Subject is the tool, memory key, agent, path or the like that the event
	// is about. Events of some types are about nothing of the kind.
	Subject() (name string, ok bool)

	// golden says how events of the type stand in golden traces.
	golden() golden
}

// A Spender is a payload of something that costs money or tokens. Who adds up
// a run asks for it and not for single types.
type Spender interface {
	Payload
	Spent() (tokens int64, of cost.Cost)
}

// A row is what is looked up by the name of a type.
type row struct {
	empty  func() Payload
	golden golden
}

var rows = byType(payloads)

func byType(list []func() Payload) map[Type]row {
	m := make(map[Type]row, len(list))
	for _, empty := range list {
		p := empty()
		m[p.Type()] = row{empty, p.golden()}
	}
	return m
}

// Types lists every type in the order of the documentation.
func Types() []Type {
	var types []Type
	for _, empty := range payloads {
		types = append(types, empty().Type())
	}
	return types
}

// NewPayload returns an empty payload of the type, nil if there is no such type.
func NewPayload(t Type) Payload {
	if r, ok := rows[t]; ok {
		return r.empty()
	}
	return nil
}

// An Event is one thing that happened.
type Event struct {
	Seq     int // from 1
	Turn    int // how many turns have started; 0 before the first
	Type    Type
	At      time.Duration // since the case began, in whole milliseconds
	Payload Payload
	Prev    digest.ID // SHA-256 of the line before, zero for the first

	payload canon.RawMessage // as it stands on the line
}

package trajectory

import (
	"time"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
)

// A Type says what happened.
type Type string

// The types of events. The set is closed: it is part of what is attested.
const (
	RunStartedType         Type = "run_started"
	RunCompletedType       Type = "run_completed"
	RunFailedType          Type = "run_failed"
	TurnStartedType        Type = "turn_started"
	TurnCompletedType      Type = "turn_completed"
	ContextCompiledType    Type = "context_compiled"
	PlanType               Type = "plan"
	ModelCallStartedType   Type = "model_call_started"
	ModelCallCompletedType Type = "model_call_completed"
	ToolProposedType       Type = "tool_proposed"
	PolicyDecisionType     Type = "policy_decision"
	PolicyViolationType    Type = "policy_violation"
	ToolExecutedType       Type = "tool_executed"
	ApprovalRequestedType  Type = "approval_requested"
	ApprovalResolvedType   Type = "approval_resolved"
	MemoryProposedType     Type = "memory_proposed"
	MemoryWrittenType      Type = "memory_written"
	MemoryRetrievedType    Type = "memory_retrieved"
	CheckpointSavedType    Type = "checkpoint_saved"
	RollbackType           Type = "rollback"
	HandoffType            Type = "handoff"
	TransportRequestType   Type = "transport_request"
	FileWrittenType        Type = "file_written"
	SecurityEventType      Type = "security_event"
	LimitReachedType       Type = "limit_reached"
	ErrorType              Type = "error"
	TestRunType            Type = "test_run"
)

// Types lists every type in the order of the documentation.
func Types() []Type {
	return []Type{
		RunStartedType, RunCompletedType, RunFailedType, TurnStartedType, TurnCompletedType, ContextCompiledType, PlanType,
		ModelCallStartedType, ModelCallCompletedType, ToolProposedType, PolicyDecisionType, PolicyViolationType, ToolExecutedType,
		ApprovalRequestedType, ApprovalResolvedType, MemoryProposedType, MemoryWrittenType, MemoryRetrievedType,
		CheckpointSavedType, RollbackType, HandoffType, TransportRequestType, FileWrittenType, SecurityEventType,
		LimitReachedType, ErrorType, TestRunType,
	}
}

// A Payload is what an event of one type says.
type Payload interface {
	// Validate checks everything about the shape that the types do not say.
	Validate() error
}

// newPayload returns an empty payload of the type, or nil.
func newPayload(t Type) Payload {
	switch t {
	case RunStartedType:
		return new(RunStarted)
	case RunCompletedType:
		return new(RunCompleted)
	case RunFailedType:
		return new(RunFailed)
	case TurnStartedType:
		return new(TurnStarted)
	case TurnCompletedType:
		return new(TurnCompleted)
	case ContextCompiledType:
		return new(ContextCompiled)
	case PlanType:
		return new(Plan)
	case ModelCallStartedType:
		return new(ModelCallStarted)
	case ModelCallCompletedType:
		return new(ModelCallCompleted)
	case ToolProposedType:
		return new(ToolProposed)
	case PolicyDecisionType:
		return new(PolicyDecision)
	case PolicyViolationType:
		return new(PolicyViolation)
	case ToolExecutedType:
		return new(ToolExecuted)
	case ApprovalRequestedType:
		return new(ApprovalRequested)
	case ApprovalResolvedType:
		return new(ApprovalResolved)
	case MemoryProposedType:
		return new(MemoryProposed)
	case MemoryWrittenType:
		return new(MemoryWritten)
	case MemoryRetrievedType:
		return new(MemoryRetrieved)
	case CheckpointSavedType:
		return new(CheckpointSaved)
	case RollbackType:
		return new(Rollback)
	case HandoffType:
		return new(HandedOff)
	case TransportRequestType:
		return new(TransportRequest)
	case FileWrittenType:
		return new(FileWritten)
	case SecurityEventType:
		return new(SecurityEvent)
	case LimitReachedType:
		return new(LimitReached)
	case ErrorType:
		return new(Failure)
	case TestRunType:
		return new(TestRun)
	}
	return nil
}

// TypeOf returns the type of event that a payload belongs to, or "".
func TypeOf(p Payload) Type {
	switch p.(type) {
	case *RunStarted:
		return RunStartedType
	case *RunCompleted:
		return RunCompletedType
	case *RunFailed:
		return RunFailedType
	case *TurnStarted:
		return TurnStartedType
	case *TurnCompleted:
		return TurnCompletedType
	case *ContextCompiled:
		return ContextCompiledType
	case *Plan:
		return PlanType
	case *ModelCallStarted:
		return ModelCallStartedType
	case *ModelCallCompleted:
		return ModelCallCompletedType
	case *ToolProposed:
		return ToolProposedType
	case *PolicyDecision:
		return PolicyDecisionType
	case *PolicyViolation:
		return PolicyViolationType
	case *ToolExecuted:
		return ToolExecutedType
	case *ApprovalRequested:
		return ApprovalRequestedType
	case *ApprovalResolved:
		return ApprovalResolvedType
	case *MemoryProposed:
		return MemoryProposedType
	case *MemoryWritten:
		return MemoryWrittenType
	case *MemoryRetrieved:
		return MemoryRetrievedType
	case *CheckpointSaved:
		return CheckpointSavedType
	case *Rollback:
		return RollbackType
	case *HandedOff:
		return HandoffType
	case *TransportRequest:
		return TransportRequestType
	case *FileWritten:
		return FileWrittenType
	case *SecurityEvent:
		return SecurityEventType
	case *LimitReached:
		return LimitReachedType
	case *Failure:
		return ErrorType
	case *TestRun:
		return TestRunType
	}
	return ""
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

package extract

import "tallystick/internal/trajectory"

func (e *Extractor) count(s *Source) Value {
	if e.spec.Turn != nil {
		if v, ok := reached(s, *e.spec.Turn); !ok {
			return v
		}
	}
	var n int64
	for ev := range s.Trajectory.Events() {
		if ev.Type != e.spec.Event || e.spec.Turn != nil && ev.Turn != *e.spec.Turn {
			continue
		}
		if e.spec.Name != "" && nameOf(ev.Payload) != e.spec.Name {
			continue
		}
		if p, ok := ev.Payload.(*trajectory.PolicyDecision); ok && e.spec.Verdict != "" && p.Verdict != e.spec.Verdict {
			continue
		}
		n++
	}
	return countValue(n)
}

// nameOf is what an event is about.
func nameOf(p trajectory.Payload) string {
	switch p := p.(type) {
	case *trajectory.ToolProposed:
		return p.Name
	case *trajectory.ToolExecuted:
		return p.Name
	case *trajectory.PolicyDecision:
		return p.Name
	case *trajectory.PolicyViolation:
		return p.Rule
	case *trajectory.ApprovalRequested:
		return p.Name
	case *trajectory.MemoryProposed:
		return p.Key
	case *trajectory.MemoryWritten:
		return p.Key
	case *trajectory.HandedOff:
		return p.To
	case *trajectory.FileWritten:
		return p.Path
	case *trajectory.SecurityEvent:
		return p.Name
	case *trajectory.LimitReached:
		return p.Limit
	case *trajectory.Failure:
		return p.Name
	case *trajectory.ModelCallStarted:
		return p.Model
	}
	return ""
}

// isNamed reports whether events of the type have a name for [Spec.Name].
func isNamed(t trajectory.Type) bool {
	switch t {
	case trajectory.ToolProposedType, trajectory.ToolExecutedType, trajectory.PolicyDecisionType, trajectory.PolicyViolationType,
		trajectory.ApprovalRequestedType, trajectory.MemoryProposedType, trajectory.MemoryWrittenType, trajectory.HandoffType,
		trajectory.FileWrittenType, trajectory.SecurityEventType, trajectory.LimitReachedType, trajectory.ErrorType,
		trajectory.ModelCallStartedType:
		return true
	}
	return false
}

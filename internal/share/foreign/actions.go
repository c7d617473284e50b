package foreign

import (
	"fmt"

	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// Actions reduces a trajectory to what an agent did: the turns with what was
// asked and answered, and the tools that it called with which arguments. Spans
// of another system's agent have no policy, memory or context, and its prompts
// are its own, so a comparison with a run of ours can only be about these.
func Actions(v *trajectory.Verified) (*trajectory.Verified, error) {
	l := trajectory.NewLogWithEvents()
	observed := observedCalls(v)
	for e := range v.Events() {
		var p trajectory.Payload
		switch x := e.Payload.(type) {
		case *trajectory.RunStarted: // what is in it, the agent did not do
			p = &trajectory.RunStarted{Attempt: "actions", Case: "actions", Class: Class, Execution: 1, Format: trajectory.Format, Governance: policy.Autonomous, Repeat: 1, Target: "actions"}
		case *trajectory.TurnStarted:
			p = &trajectory.TurnStarted{Input: x.Input}
		case *trajectory.ToolProposed:
			p = &trajectory.ToolProposed{Args: x.Args, Call: x.Call, Name: x.Name}
		case *trajectory.ToolObserved:
			c := observed[e.Seq]
			if c == nil {
				continue
			}
			p = &trajectory.ToolProposed{Args: c.Args, Call: fmt.Sprintf("observed-%d", e.Seq), Name: Name(c.Name)}
		case *trajectory.TurnCompleted:
			p = x
		case *trajectory.RunCompleted:
			p = &trajectory.RunCompleted{Status: x.Status}
		case *trajectory.RunFailed:
			p = x
		default:
			continue
		}
		if _, err := l.Append(e.Turn, p, e.At); err != nil {
			return nil, err
		}
	}
	return l.Verified(), nil
}

// observedCalls are the calls that an agent made itself, or may have, by their
// first event: what it did, as much as a call that came to us.
func observedCalls(v *trajectory.Verified) map[int]*trajectory.ToolCall {
	view := trajectory.CallsOf(v)
	calls := map[int]*trajectory.ToolCall{}
	for i := range view.Calls {
		if c := &view.Calls[i]; c.Call == "" && !c.Stopped {
			calls[c.Seq] = c
		}
	}
	return calls
}

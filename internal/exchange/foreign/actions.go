package foreign

import (
	"tallystick/internal/policy"
	"tallystick/internal/trajectory"
)

// Actions reduces a trajectory to what an agent did: the turns with what was
// asked and answered, and the tools that it called with which arguments. Spans
// of somebody else's agent have no policy, memory or context, and its prompts
// are its own, so a comparison with a run of ours can only be about these.
func Actions(v *trajectory.Verified) (*trajectory.Verified, error) {
	l := trajectory.NewLogWithEvents()
	for e := range v.Events() {
		var p trajectory.Payload
		switch x := e.Payload.(type) {
		case *trajectory.RunStarted: // what is in it, the agent did not do
			p = &trajectory.RunStarted{Attempt: "actions", Case: "actions", Class: Class, Execution: 1, Format: trajectory.Format, Governance: policy.Autonomous, Repeat: 1, Target: "actions"}
		case *trajectory.TurnStarted:
			p = &trajectory.TurnStarted{Input: x.Input}
		case *trajectory.ToolProposed:
			p = &trajectory.ToolProposed{Args: x.Args, Call: x.Call, Name: x.Name}
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

package sandbox

// A profile is a kind of program, and what such a program may do in every
// class.
type profile struct {
	name string
	// processes lets it start processes, use sockets on its own loopback, and
	// write to its working folder and its own /tmp. The first process in the
	// sandbox is then ours, and stays.
	processes bool
}

// The profiles. A test is the command that judges what an agent left in its
// working folder: an agent without a gateway. A world is one that answers while the
// agent runs, over its own streams.
var (
	rubricProfile = profile{name: "rubric"}
	agentProfile  = profile{name: "agent", processes: true}
	testProfile   = profile{name: "test", processes: true}
	worldProfile  = profile{name: "world", processes: true}
)

// unfit says why a class will not do for a program of this profile, whether
// the class works or not.
func (p profile) unfit(class Class, scope Scope) string {
	for _, c := range worths() {
		switch {
		case c.Name != string(class):
		case p.processes && !c.Agents:
			return "runs no agents"
		case scope == ScopeAttempt && !c.Attempts:
			return "has no scope attempt"
		}
	}
	return ""
}

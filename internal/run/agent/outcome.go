// Package agent drives the agent under test through one case.
//
// A target is the reference loop of this package ([Builtin]), a program, or a
// service behind a URL. Whatever it is, it acts through a session only: the
// session asks the policy, gets the reply from a recording, a fixture or a live
// model, and writes the event. A target therefore cannot do anything that the
// trajectory does not show, and cannot see a threshold or a grader.
//
// The reference loop is deterministic: the same target, scenario and replies
// give the same requests and the same events, byte for byte. It has no clock
// and no randomness, so going on after an approval is driving again with the
// answer at hand. docs/builtin-agent.md describes it.
package agent

// An Outcome is how a case ended for the agent: its last answer, and whether
// that was a refusal of the model. Stderr is what a program wrote there.
type Outcome struct {
	Answer  string
	Refused bool
	Stderr  string
}

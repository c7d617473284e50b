// Package trajectory is the event log of one case: append, chain, verify,
// canonicalise, compare.
//
// A trajectory is a file of lines. Each line is one [Event] in canonical JSON
// and names the SHA-256 of the line before it, so changing, dropping, adding or
// moving a line breaks the chain at the next one. The last line has no next
// one: only the head, the hash of the last line, vouches for it and against
// cutting lines off. The ledger holds the head, and [Verify] asks for it.
//
// The set of event types is closed: event.go lists it, and each type has a
// [Payload] that knows everything about it. Long texts are not in a trajectory but in the evidence; an event
// carries their digest and their beginning ([Content]).
//
// A golden trace ([Canonical], [Trace.Format], [ParseGolden]) is a trajectory
// without what differs from run to run, as text for people to review, and
// [Compare] finds the first place where two of them part. [Replay] rebuilds
// memory, context, decisions and open approvals as they were at a turn.
//
// The package does no I/O and knows no clock. It says that a log is whole and
// well formed, not that what it claims took place. docs/formats/trajectory.md
// has the format.
package trajectory

// Package lab puts runs together from what a workspace has: the verified class
// and its target, the judge of judge.yaml with its signed verdicts, the models and
// MCP servers of providers.yaml, the ledger and its witnesses.
//
// A [Setup] is one class and one target. It can be run as an attempt, rehearsed
// without recording anything, or compared with golden traces; [NewRecording] makes
// cassettes with it, [Reproduce] and [Rescore] come back to an attempt that the
// ledger has.
//
// What is promised: nothing is driven that was not verified before, nothing
// reaches the network unless the [harness.Spec] of the run says so, and a verdict
// that cost money is in the ledger before it is used.
//
// Where it stops: how a case is driven, graded and recorded is for package
// harness; what a result is worth, for the readers of the ledger. It prints
// nothing and asks no person: progress, notes and a person's answers go through
// small interfaces.
package lab

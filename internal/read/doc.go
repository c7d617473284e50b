// Package read is the door to what records mean: attempts and their evidence,
// totals, gates, audits, advice.
//
// In comes a workspace; out come verified attempts and what follows from them. It
// trusts only what verified, and writes nothing that a score depends on. What
// leaves the workspace, what people do and every page build on it.
package read

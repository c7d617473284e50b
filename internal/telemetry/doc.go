// Package telemetry reads trajectories of other people's agents into our own
// format, and writes our attempts in theirs.
//
// [Import] recognises OpenTelemetry GenAI spans, in the attribute names of
// today and in those before version 1.37 of the conventions, as OTLP in JSON
// or protobuf, and ATIF (Agent Trajectory Interchange Format) in JSON. Each
// trace, and each ATIF trajectory, becomes one [Imported]: a trajectory that
// verifies and that every extractor and grader can read. [Export] writes an
// attempt as OTLP JSON with gen_ai attributes and an evaluation result for
// each case and check.
//
// What it promises: a file may be hostile, and is bounded in length, in pieces
// and in depth, so that it costs a bounded amount of memory and time; what has no place in our format is in
// [Imported.Notes] with a count, never silently left out; the same bytes give
// the same trajectory.
//
// Where it stops: nothing vouches for an imported trajectory. Its chain is made
// here, of whatever the file said, so its head proves nothing, its class is
// "imported" and its tools carry the trust label imported. Nothing was under a
// policy, so its policy digest is zero. docs/formats/telemetry.md has the
// mapping.
package telemetry

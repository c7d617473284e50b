// Package exchange reads trajectories of other people's agents into our own
// format. Each format has a folder: otel for OpenTelemetry GenAI spans, in and
// out, and OpenInference spans, and atif for the Agent Trajectory Interchange Format; what
// they make is a [foreign.Trajectory].
//
// [Import] recognises a file: OpenTelemetry spans in the attribute names of
// today, in those before version 1.37 of the conventions and in those of OpenInference, as
// OTLP in JSON or protobuf or as Phoenix exports them, and ATIF in JSON. Each conversation,
// each trace that names none, and each ATIF trajectory becomes a trajectory that verifies
// and that every extractor and grader can read. [ImportFolder] does so with the files of a
// folder, in which a conversation may be in several.
//
// What it promises: a file may be hostile, and is bounded in length, in pieces
// and in depth, so that it costs a bounded amount of memory and time; what has
// no place in our format is counted, never silently left out; the same bytes
// give the same trajectory. docs/formats/telemetry.md has the mapping.
package exchange

// Package gate compares an attempt with the thresholds of the signed
// registration, and writes the outcome for test reporters: JUnit XML and TAP 14.
//
// [Decide] is the one place where it is decided whether an attempt is good enough:
// met, not met or not decided, with a [Result] for each gate of the registration. A
// gate on a tag that no scored case has is not met, and neither is one whose value
// cannot be computed: what was not measured is not good enough. A gate is for the whole
// class: of an attempt that left cases out it is not decided. Thresholds come from
// the bench that two people signed and from nowhere else.
//
// [WriteJUnit] and [WriteTAP] take a [Report]. Only a passed case is green:
// errored, unscored, truncated and never-run cases are errors in JUnit and
// "not ok" in TAP, unless the gates allow them, when they are neither red nor green.
// Everything an agent, a rubric or a file may have written is
// made harmless first, for a terminal, a CI log, an XML parser and a TAP parser.
//
// Where it stops: it decides no exit code and opens no file.
package gate

// Package extract picks the value to grade out of what a case left behind: its
// verified trajectory, the final memory, the whole texts that events only
// begin, and the files of the working folder.
//
// [Compile] reads a [Spec] once; [Extractor.Extract] applies it to a [Source].
// Extracting is pure: no clock, no disk, no network, and the same source gives
// the same value.
//
// A value is found or it is not. What is not found says why in
// [Value.Missing], and is never an empty text that could happen to match:
// an answer, a memory entry or a file without anything in it counts as not
// found.
//
// Two things are kept apart. What an agent did or left undone (no answer, text
// that is not UTF-8, an expression that fails on what the agent wrote) is a
// value that was not found, so the case fails. What is wrong with the evidence
// (a text that was not kept, bytes with another digest, events that contradict
// each other) is an error, and the case is unscored. Otherwise an agent could
// turn a failed case into an unscored one.
//
// docs/formats/grading.md has the format.
package extract

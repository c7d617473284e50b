// Package survey reads the transcripts of an attempt once, for people who look for
// something in them: which cases hold a text, which tools each called, and where a case
// that did not pass first left the run in which it last passed.
//
// It is for display: nothing that decides may ask it. Pieces of evidence are taken if they
// are what their names say; whether a trajectory hangs together is for who verifies it.
//
// Of held-out cases nothing is read. Secrets were taken out before the evidence was
// written, and texts of which some were taken out are known by what the event still says
// of them.
//
// Where it stops: it keeps texts in memory, at most [MaxBytes] of an attempt and
// [MaxCaseBytes] of a case; [Survey.Cut] is of how many cases the rest was left out. At
// most [MaxLeft] cases are compared with an earlier run.
package survey

// Package recount makes answers again that a reader kept, and compares.
//
// A kept answer is what run, scorecard, compare, gate or promote recommend gave
// with --json. It names the ledger, how many entries that had, and what was asked
// for. [Source.Answer] makes it again from the history as it was then, and
// compares the two documents whole: a member that is missing, or one too many, is
// a difference as much as another number. [Attempt] compares the records of an
// attempt with their evidence.
//
// What cannot be made again, because the answer was made by other rules or for a
// bench that is not at hand, is named as not recounted. That is not a pass:
// [Recounted.NotRecounted].
//
// Where it stops: it reads nothing and verifies nothing itself; a [Source] has
// what was verified. It cannot tell what no record tells: what judging cost, and
// the words in which missing evidence was reported.
package recount

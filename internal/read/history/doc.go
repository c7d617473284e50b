// Package history reads what a verified ledger says about attempts.
//
// [Read] walks a ledger while it is verified and keeps what numbers need; it
// returns a [History] only if the verification succeeded, so no number comes
// from an unchecked entry. A [Reader] continues as the ledger grows, and
// [History.At] looks at an earlier time.
//
// What a caller may rely on:
//
//   - Everything that an attempt promised to run is there. A planned case
//     without a record is a case that was not run.
//   - One repetition of a case counts once, by its first record. What was
//     started and not scored, or scored again, is counted beside it.
//   - Records that were appended by hand never count.
//   - An amendment may lower a number, never raise it.
//
// Where it stops: it counts nothing (that is for package scorecard), decides
// nothing, writes nothing, and believes what a sealed record says about its own
// run. A level says how well a record is vouched for, not that it is true.
package history

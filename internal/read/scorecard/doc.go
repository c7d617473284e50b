// Package scorecard turns the records of a verified ledger into numbers:
// scorecards, the cost curve, comparisons, and the statistics behind them.
//
// A [history.History] comes from a verified ledger alone, so no number here comes
// from an unchecked entry. [Of], [CurveOf] and [Compare] count; package
// recount counts again and compares with what was written down earlier.
//
// What a caller may rely on:
//
//   - Everything that an attempt promised to run is in the denominator. A
//     planned case without a record is a failed task, shown as not run.
//   - One repetition of a case counts once, by its first record. What was
//     started and not scored, or scored again, is counted and shown.
//   - Records that were appended by hand never count.
//   - An amendment may lower a number here, never raise it.
//   - Sample sizes are distinct case digests, never executions.
//   - The same ledger and evidence give the same numbers on every machine:
//     resampling uses the generator and the seed of docs/formats/scorecard.md.
//
// Where it stops: it decides nothing (that is for gate and promote), writes
// nothing, and believes what a sealed record says about its own run.
package scorecard

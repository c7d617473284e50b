// Package promote recommends a tier for a task class. It cannot grant one: it
// reads a verified bench and a verified history, returns advice, writes nothing
// and runs nothing. A tier changes when people edit the registration and sign
// the manifest.
//
// [Recommend] asks one question: does what the ledger holds of the last 30 days
// carry the next tier? It is built so that more records cannot help a forger:
//
//   - Every case of the signed bench is in the denominator, whatever an attempt
//     planned, filtered or left out. What does not count as passed counts as
//     failed; nothing is left out of the count.
//   - A case is as good as its worst result among the attempts under review, so
//     retries, duplicates and repetitions can only lower it.
//   - Whether an attempt counts follows from what was fixed before its first
//     case ran: filter, mode, bench, ledger, key. What only its result tells can
//     only cost.
//   - An attempt that was started and not finished is under review whichever
//     version of the agent it ran.
//
// Where it stops: it believes what sealed records say about their own run, as
// scorecard does; above bronze it wants a second runner to have said the same.
// Without witnesses it believes the ledger's times. The rules, one by one, are
// in docs/formats/promotion.md.
package promote

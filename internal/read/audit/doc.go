// Package audit looks for signs of cheating in the results of a benchmark run:
// the ten checks AUD-1 to AUD-10 of the GAIA submission audit, on any system's
// files, and two of ours, AUD-11 and AUD-12, for answers that an agent brings along.
//
// [Run] reads results, trajectories, metadata and sources as streams and returns
// a [Report]. It has no workspace, no ledger, no network and no clock: the same
// bytes in give the same bytes out. What receipts say about a run of ours comes in
// as [Vouched]; without it everything is a claim of the author of the files.
//
// Texts are compared after [Fold], so that full-width and look-alike letters, case,
// spaces and invisible characters do not hide a match, and after the decodings
// of [Unwrap]: HTML entities, percent-encoding, base64.
//
// A check passes, fails or is skipped, and a skip is never a pass. It is skipped
// with a harness gap if the input that it needs was not recorded, and without
// one if the data set makes it impossible, as a split without answers does.
//
// Memory is bounded whatever the size of the files: a line is read, checked and
// forgotten, and of the results only what later lines are compared with is kept.
//
// Where it stops: it finds signs in what was recorded. A trajectory that leaves
// out what happened is found only by what vouches for trajectories. The page
// docs/formats/audit.md says for each check what it can and cannot show, with
// its rates on our own fixtures.
package audit

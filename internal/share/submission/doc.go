// Package submission makes the package of an attempt that goes to a leaderboard,
// and verifies one: results, trajectories, metadata, the audit's report, and what
// proves them.
//
// A package is derived. [Build] takes entries of a ledger and pieces of evidence
// that these entries name, and gives every file of the package; it reads no clock
// and no workspace, so the same attempt gives the same bytes. [Verify] verifies the
// receipts in a package, takes entries and evidence from the package itself, builds
// it again and compares byte by byte. So no number in it rests on any word
// but the ledger's, and a file that was changed is found, whatever else was changed
// with it.
//
// Where it stops: the ledger says what was recorded, not that nothing was left out
// before it was. How many attempts there were is proved for the tree size that is
// stated, and at least that many.
//
// It knows nothing of expressions, sandboxes or networks, because the stranger's
// verifier is made of it. docs/formats/submission.md has the format.
package submission

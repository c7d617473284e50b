package export

// The proofs that an attempt leaves: what package outgoing and lab make of the ledger.
const (
	Receipt    = "receipt"
	Bundle     = "bundle"
	Submission = "submission"
)

const provesRecords = "carries signed records, which cannot be changed"

var (
	receiptFormat = Format{Name: Receipt, Is: "a proof of how an attempt, or ATTEMPT:CASE, ended, which tally-verify checks offline", Files: "a [receipt](receipt.md)",
		NoWithhold: provesRecords, NoCase: caseByAddress}
	bundleFormat = Format{Name: Bundle, Is: "bundles (RVF), one for each case; of ATTEMPT:CASE, of a folder or of a JSON description, one file",
		Files: "a [bundle](bundle.md) for each case", NeedsOut: true, Flags: []string{"key", "hmac-key-file", "receipt"},
		NoWithhold: provesRecords, NoCase: caseByAddress}
	submissionFormat = Format{Name: Submission, Is: "the package for a leaderboard: results, trajectories, audit, receipts",
		Files: "a [submission package](submission.md), a folder or one .zip", Flags: []string{"dry-run", "allow-dirty", "strict-audit", "full-history", "without-sources"},
		NoWithhold: provesRecords, NoCase: "a submission is about the whole attempt"}
)

const caseByAddress = "name the case as ATTEMPT:CASE"

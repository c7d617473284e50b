// Package claim drafts what an attestation says about a run, before a party signs
// it: the body of package attest, made of another harness's results or of an
// attempt of ours, with the digests of what it was run on.
//
// [OfRuns] drafts it from imported runs, [OfAttempt] from an attempt. A [Draft]
// says which members are missing and why: missing values are never guessed.
// [Content] hashes the bytes behind a digest and [CheckContent] hashes them again,
// each saying how. [Rerun] gives the command that repeats a run.
//
// Nothing here is signed, and a draft of imported results says only what a file
// says about itself.
package claim

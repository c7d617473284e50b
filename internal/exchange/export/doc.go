// Package export writes an attempt in other people's formats: Every Eval Ever,
// Hugging Face, in-toto, CycloneDX, Croissant, Inspect and an SVG badge.
//
// All of them take one [Attempt], which package archive fills in from a verified
// ledger and whole evidence, and give bytes: the same attempt, the same bytes. None
// of them is signed here; what proves the numbers is the receipt that they carry.
//
// [Attempt.Withhold] takes inputs and answers out and leaves salted digests, so that
// scores and totals stay checkable while the texts are shown to those who may see
// them.
package export

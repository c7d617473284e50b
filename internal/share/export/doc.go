// Package export writes an attempt in other people's formats: Every Eval Ever,
// Hugging Face, in-toto, CycloneDX, Croissant, Inspect and an SVG badge.
//
// All of them take one [Attempt], which package outgoing fills in from a verified
// ledger and whole evidence, and give bytes: the same attempt, the same bytes. None
// of them is signed here; what proves the numbers is the receipt that they carry.
//
// [Attempt.Withhold] takes inputs and answers out and leaves salted digests, so that
// scores and totals stay checkable while the texts are shown to those who may see
// them.
package export

import "tallystick/internal/record/refusal"

// Formats are what [Write] writes. Those that are several files go into a folder.
var Formats = []string{"in-toto", "eee", "hf", "inspect", "cyclonedx", "croissant", "badge"}

// Write writes an attempt in one of [Formats].
func Write(a *Attempt, format string, h Hub) ([]File, error) {
	switch format {
	case "in-toto":
		return InToto(a)
	case "eee":
		return EveryEvalEver(a)
	case "hf":
		return HuggingFace(a, h), nil
	case "inspect":
		return Inspect(a)
	case "cyclonedx":
		return CycloneDX(a)
	case "croissant":
		return Croissant(a, h)
	case "badge":
		return Badge(LabelOf(a)), nil
	}
	return nil, refusal.Newf(refusal.Usage, "no export format %q", format)
}

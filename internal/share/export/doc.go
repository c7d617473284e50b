// Package export writes an attempt in other people's formats: Every Eval Ever,
// Hugging Face, in-toto, CycloneDX, Croissant, Inspect and an SVG badge.
//
// All of them take one [Facts], which package outgoing fills in from a verified
// ledger and whole evidence, and give bytes: the same attempt, the same bytes. None
// of them is signed here; what proves the numbers is the receipt that they carry.
//
// [Facts.Withhold] takes inputs and answers out and leaves salted digests, so that
// scores and totals stay checkable while the texts are shown to those who may see
// them.
package export

import (
	"slices"

	"tallystick/internal/record/refusal"
)

// A Format is one that an attempt leaves in, and all that is known about it: help,
// refusals and docs/formats/export.md are made of it.
type Format struct {
	Name  string
	Is    string // a line of help
	Files string // what docs/formats/export.md says of its files

	ImportsAgain bool // package importer reads it
	Signed       bool // it needs a key
	Folder       bool // it is several files
	NeedsOut     bool // it is not for a terminal; a folder never is

	// Endings are those that its file may have, each of which is a form of its own; nil if
	// the name says nothing.
	Endings []string

	// Why a flag does not go with it; "" if it does.
	NoWithhold, NoCase string
	// Flags are those that only it and formats with the same flag take.
	Flags []string

	// Write writes the attempt. Nil if another package does: otel, attest,
	// browser/report, outgoing and lab.
	Write func(*Facts, Hub) ([]File, error)
}

// formats are the formats in the order of help. A new one is a file with its row,
// and its name here.
var formats = []*Format{&receiptFormat, &bundleFormat, &submissionFormat, &otelFormat, &vcFormat, &htmlFormat, &inTotoFormat, &eeeFormat, &hfFormat, &inspectFormat, &cycloneDXFormat, &croissantFormat, &badgeFormat}

// Formats lists the formats that an attempt leaves in, in the order of help.
func Formats() []*Format { return formats }

// All lists their names.
func All() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.Name)
	}
	return names
}

// Find returns the format of this name.
func Find(name string) (*Format, error) {
	if i := slices.Index(All(), name); i >= 0 {
		return formats[i], nil
	}
	return nil, refusal.Newf(refusal.Usage, "no export format %q", name)
}

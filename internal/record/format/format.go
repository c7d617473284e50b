// Package format holds the version of everything that Tallystick writes, and the
// one way to meet a version that it does not know.
//
// A document names its format as "tallystick-<family>/" and [Version]; an entry of
// the ledger and a piece of evidence, which are named by what points at them, have
// the version alone. A reader knows one version. Another version of the same family
// was written by a newer program: the refusal is [refusal.NewerFormat], which says
// nothing about the bytes, and never that they were changed or do not verify.
package format

import (
	"encoding/json"
	"strings"

	"tallystick/internal/record/refusal"
)

// Version is the version of every format. It is a draft until the first release
// closes it as "1"; what is written under a draft is not promised to be readable
// later.
const Version = "1-draft"

// EvalResult is the type of a predicate of in-toto about a result, which is not ours.
const EvalResult = "https://b7n0de.com/attestation/eval-result/v0.1"

// maxVersion bounds what passes for the name of a version.
const maxVersion = 40

// Check returns nil if a document is in the expected format, [refusal.NewerFormat]
// if it is of the same family and another version, else [refusal.Malformed]. What
// names the document in messages.
func Check(what, found, expected string) error {
	if found == expected {
		return nil
	}
	family := strings.TrimSuffix(expected, Version)
	if version, ok := strings.CutPrefix(found, family); ok && isVersion(version) {
		return newer(what, found)
	}
	return refusal.Newf(refusal.Malformed, "%s: the format is %.80q, expected %q", what, found, expected)
}

// CheckVersion is [Check] for a document that has its version alone.
func CheckVersion(what, found string) error { return Check(what, found, Version) }

// Newer returns [refusal.NewerFormat] if the document names another version of the
// expected format in the member, else nil. It is for a document that was found not
// to be in the expected form: a newer one has members that this program refuses.
func Newer(what string, document []byte, member, expected string) error {
	var members map[string]json.RawMessage
	var found string
	if json.Unmarshal(document, &members) != nil || json.Unmarshal(members[member], &found) != nil {
		return nil
	}
	return NewerName(what, found, expected)
}

// NewerName is [Newer] for a document whose format is already read.
func NewerName(what, found, expected string) error {
	err := Check(what, found, expected)
	if refusal.Is(err, refusal.NewerFormat) {
		return err
	}
	return nil
}

func newer(what, found string) error {
	return refusal.Newf(refusal.NewerFormat, "%s was written in format %s by a newer tally; this one reads %s", what, found, Version).
		WithHint("install a newer version; nothing is known about what it says")
}

// isVersion reports whether text could be a version: digits, lower-case letters,
// points and hyphens.
func isVersion(text string) bool {
	return text != "" && len(text) <= maxVersion && strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyz.-") == ""
}

package bench

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// A Manifest is manifest.yaml: the digests of everything that decides a score.
// Two people sign its canonical JSON, one of them with the security role; the
// SHA-256 of that is the bench digest. A case that is not listed is not part
// of the bench, so dropping a hard case is a signed act too.
type Manifest struct {
	Version      int             `json:"version"`
	Class        string          `json:"class"`
	Registration digest.Content  `json:"registration"`
	Rubric       *digest.Content `json:"rubric,omitempty"` // absent when every case says how it is graded
	Judges       *digest.Content `json:"judges,omitempty"` // absent when the class has no templates for judges
	Dataset      *digest.Content `json:"dataset,omitempty"`
	// DatasetCassettes pins, for each target, its cassettes of lines of the
	// dataset, as one digest; absent when there are none.
	DatasetCassettes map[string]digest.Content `json:"dataset_cassettes,omitempty"`
	Cases            map[string]ManifestCase   `json:"cases"`
	// Documents pins the documents of signed.json; absent in manifests that
	// were signed before there was one.
	Documents *digest.Content `json:"documents,omitempty"`
}

// A ManifestCase pins one case: the message that its two signatures cover, and
// its cassette.
type ManifestCase struct {
	Signed   digest.ID       `json:"signed"`
	Cassette *digest.Content `json:"cassette,omitempty"`
}

// Message returns what is signed: the manifest's canonical JSON.
func (m *Manifest) Message() ([]byte, error) { return canon.Marshal(m) }

// Digest returns the bench digest.
func (m *Manifest) Digest() (digest.ID, error) {
	message, err := m.Message()
	return digest.IDOf(message), err
}

// Format writes manifest.yaml.
func (m *Manifest) Format() []byte {
	var b strings.Builder
	b.WriteString("# Written by \"tally bench digest\". Two people sign it with \"tally bench sign\",\n# one of them with the security role; its digest is the bench digest.\n")
	fmt.Fprintf(&b, "version: %d\nclass: %q\nregistration: %q\n", m.Version, m.Class, m.Registration)
	if m.Rubric != nil {
		fmt.Fprintf(&b, "rubric: %q\n", m.Rubric)
	}
	if m.Judges != nil {
		fmt.Fprintf(&b, "judges: %q\n", m.Judges)
	}
	if m.Dataset != nil {
		fmt.Fprintf(&b, "dataset: %q\n", *m.Dataset)
	}
	if m.DatasetCassettes != nil {
		writeMap(&b, "dataset_cassettes", m.DatasetCassettes, func(d digest.Content) string { return fmt.Sprintf("%q", d) })
	}
	if m.Documents != nil {
		fmt.Fprintf(&b, "documents: %q\n", *m.Documents)
	}
	writeMap(&b, "cases", m.Cases, func(c ManifestCase) string {
		if c.Cassette != nil {
			return fmt.Sprintf("{signed: %q, cassette: %q}", c.Signed, *c.Cassette)
		}
		return fmt.Sprintf("{signed: %q}", c.Signed)
	})
	return []byte(b.String())
}

// CaseDigests is cases/digests.yaml: it pins the files of every case and lists
// exactly the folders that are there.
type CaseDigests struct {
	SchemaVersion int                       `json:"schema_version"`
	Cases         map[string]digest.Content `json:"cases"`
}

// Format writes cases/digests.yaml.
func (c *CaseDigests) Format() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by \"tally bench digest\": the digest of each case's files.\nschema_version: %d\n", c.SchemaVersion)
	writeMap(&b, "cases", c.Cases, func(d digest.Content) string { return fmt.Sprintf("%q", d) })
	return []byte(b.String())
}

// writeMap writes a mapping in the order of its keys.
func writeMap[V any](b *strings.Builder, key string, m map[string]V, format func(V) string) {
	if len(m) == 0 {
		fmt.Fprintf(b, "%s: {}\n", key)
		return
	}
	fmt.Fprintf(b, "%s:\n", key)
	for _, k := range slices.Sorted(keysOf(m)) {
		fmt.Fprintf(b, "  %q: %s\n", k, format(m[k]))
	}
}

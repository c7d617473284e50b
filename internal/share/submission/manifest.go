package submission

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"tallystick/internal/read/submittable"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
)

// ManifestType is how a manifest of this form is recognised.
const ManifestType = "tallystick-submission/" + format.Version

// A Manifest lists every file of a package but itself and its signature.
type Manifest struct {
	Attempt  Standing             `json:"attempt"`
	Audit    ManifestAudit        `json:"audit"`
	Class    string               `json:"class"`
	Decision submittable.Decision `json:"decision"`
	Files    []File               `json:"files"` // by path
	Headline Headline             `json:"headline"`
	Type     string               `json:"type"`
}

// ManifestAudit says how the audit ended.
type ManifestAudit struct {
	Clean       bool `json:"clean"`
	Complete    bool `json:"complete"`
	StrictClean bool `json:"strict_clean"`
}

// A File is one file of a package.
type File struct {
	Bytes  int       `json:"bytes"`
	Path   string    `json:"path"`
	SHA256 digest.ID `json:"sha256"`
}

// receiptsInFile is how many receipts one file has.
const receiptsInFile = 500

// Receipts prove what a package is derived from.
type Receipts struct {
	Registered, Finished *ledger.Receipt
	Class                []*ledger.Receipt // of the registrations of the class, by number
	Records              []*ledger.Receipt // in the order of the ledger
	Draws, Dispositions  []*ledger.Receipt // the same
	Beside               []*ledger.Receipt // corrections and amendments, the same
	Rest                 []*ledger.Receipt // of all other entries from the registration to the end of the tree; none if these are not shown
}

// Seal adds the receipts to a package, then the manifest, and signs it with the
// operator's key in a namespace of its own: what is signed here is good for
// nothing else.
func Seal(a *Source, p *Package, r Receipts, key *seal.Key) error {
	for name, all := range map[string][]*ledger.Receipt{"attempt": {r.Registered, r.Finished}, "class": r.Class, "record": r.Records, "draw": r.Draws, "disposition": r.Dispositions, "correction": r.Beside, "rest": r.Rest} {
		for n := 0; n*receiptsInFile < len(all); n++ {
			data, err := ledger.MarshalProofs(all[n*receiptsInFile : min(len(all), (n+1)*receiptsInFile)])
			if err != nil {
				return err
			}
			p.Files[proofFile(name, n)] = data
		}
	}
	manifest, err := p.manifest(a)
	if err != nil {
		return err
	}
	signature, err := seal.SignWith(key.Signer(), seal.NamespaceSubmission, manifest)
	if err != nil {
		return err
	}
	p.Files[ManifestFile], p.Files[SignatureFile] = manifest, signature
	return nil
}

func proofFile(name string, n int) string {
	return fmt.Sprintf("%s%s-%04d.proof", receiptsDir, name, n+1)
}

// manifest lists the files as they are.
func (p *Package) manifest(a *Source) ([]byte, error) {
	m := Manifest{Type: ManifestType, Class: a.Registered.Class, Headline: p.Headline, Decision: p.Decision,
		Audit:   ManifestAudit{p.Audit.Clean, p.Audit.Complete, p.Audit.StrictClean},
		Attempt: a.Standing()}
	for _, path := range sortedPaths(p.Files) {
		m.Files = append(m.Files, File{len(p.Files[path]), path, digest.IDOf(p.Files[path])})
	}
	return indented(&m)
}

// parseManifest reads a manifest, whose one spelling it must have.
func parseManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	plain, err := canon.Canonicalize(data)
	if err == nil {
		err = canon.UnmarshalCanonical(plain, m)
	}
	if err != nil {
		return nil, cmp.Or(format.Newer(ManifestFile, data, "type", ManifestType), bad("%s: %v", ManifestFile, err))
	}
	if newer := format.NewerName(ManifestFile, m.Type, ManifestType); newer != nil {
		return nil, newer
	}
	if again, err := indented(m); err != nil || !bytes.Equal(again, data) || m.Type != ManifestType {
		return nil, bad("%s is not in its one spelling, or not of type %s", ManifestFile, ManifestType)
	}
	last := ""
	for _, f := range m.Files {
		if f.Path <= last || strings.HasPrefix(f.Path, "/") || strings.Contains(f.Path, "..") || strings.Contains(f.Path, `\`) {
			return nil, bad("%s: path %q is out of order, or leaves the package", ManifestFile, f.Path)
		}
		last = f.Path
	}
	return m, nil
}

// Package site describes the pages of a workspace as files ("tally view --bundle"):
// a manifest that lists every file, signed by the operator, and how a stranger
// verifies the folder.
//
// The signature says that the operator's key wrote these pages. What the ledger
// itself proves is in the receipts, each of which is verified beside.
package site

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// The files of a site that are no pages.
const (
	ManifestFile   = "site.json"
	SignatureFile  = "site.json.sig"
	CheckpointFile = "checkpoint"
	receiptDir     = "receipt"
)

// Schema names the format of the manifest.
const Schema = "tallystick-site/" + format.Version

// MaxFiles and MaxBytes bound a site.
const (
	MaxFiles = 20_000
	MaxBytes = 2 << 30
)

// A Manifest says of which ledger a site is, and lists its files.
type Manifest struct {
	Schema     string `json:"schema"`
	Origin     string `json:"origin"`
	TreeSize   int64  `json:"tree_size"`
	Root       string `json:"root"`
	Checkpoint string `json:"checkpoint"` // signed note
	Files      []File `json:"files"`      // by path, without the manifest and its signature
}

// A File is one file of a site.
type File struct {
	Path   string    `json:"path"`
	Bytes  int64     `json:"bytes"`
	SHA256 digest.ID `json:"sha256"`
}

// New begins the manifest of a site that shows a ledger as a checkpoint signs it.
func New(head ledger.TreeHead, checkpoint []byte) *Manifest {
	return &Manifest{Schema: Schema, Origin: head.Origin, TreeSize: head.Size, Root: head.Root.String(), Checkpoint: string(checkpoint)}
}

// Add lists a file.
func (m *Manifest) Add(name string, data []byte) {
	m.Files = append(m.Files, File{name, int64(len(data)), digest.IDOf(data)})
}

// Marshal is the file of a manifest, which has one spelling.
func (m *Manifest) Marshal() ([]byte, error) {
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return canon.Marshal(m)
}

// Sign signs the file of a manifest.
func Sign(manifest []byte, key *seal.Key) ([]byte, error) {
	return seal.SignWith(key.Signer(), seal.NamespaceSite, manifest)
}

// Parse reads the file of a manifest, which must have the one spelling.
func Parse(data []byte) (*Manifest, error) {
	var m Manifest
	if err := canon.UnmarshalCanonical(data, &m); err != nil {
		return nil, cmp.Or[error](format.Newer(ManifestFile, data, "schema", Schema), bad("%s: %v", ManifestFile, err))
	}
	if newer := format.NewerName(ManifestFile, m.Schema, Schema); newer != nil {
		return nil, newer
	}
	if m.Schema != Schema {
		return nil, bad("%s has the schema %q, expected %q", ManifestFile, m.Schema, Schema)
	}
	last := ""
	for _, f := range m.Files {
		if f.Path <= last || f.Path != path.Clean(f.Path) || path.IsAbs(f.Path) || strings.HasPrefix(f.Path, "..") || f.Path == ManifestFile || f.Path == SignatureFile {
			return nil, bad("%s lists %q, expected paths below the folder, each once and in order", ManifestFile, f.Path)
		}
		last = f.Path
	}
	return &m, nil
}

// Unlisted are names that a manifest does not list.
func (m *Manifest) Unlisted(names []string) []string {
	listed := map[string]bool{ManifestFile: true, SignatureFile: true}
	for _, f := range m.Files {
		listed[f.Path] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return listed[name] })
}

// A Verified is a site that is what its operator signed. Only [Verify] makes one.
type Verified struct {
	Checkpoint      *ledger.Checkpoint
	Files, Receipts int
}

// Verify verifies a folder: names are all files in it, read gives one of them. The
// policy says whose ledger is trusted.
func Verify(names []string, read func(name string) ([]byte, error), p ledger.Policy) (*Verified, error) {
	names = slices.Sorted(slices.Values(names))
	data, err := read(ManifestFile)
	if err != nil {
		return nil, bad("%s: %v", ManifestFile, err)
	}
	m, err := Parse(data)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, SignatureFile) {
		return nil, bad("%s is missing: these pages are unsigned, and every holder of the folder could have changed them", SignatureFile).
			WithHint("its receipts can be verified one by one, with verify.html")
	}
	signature, err := read(SignatureFile)
	if err == nil {
		err = m.checkSignature(data, signature, p)
	}
	if err != nil {
		return nil, err
	}
	if extra := m.Unlisted(names); len(extra) > 0 {
		return nil, bad("%s is not in the manifest", extra[0])
	}
	v := &Verified{Files: len(m.Files)}
	if v.Checkpoint, err = m.checkCheckpoint(p); err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if err := v.checkFile(f, names, read, p); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// checkSignature wants the manifest signed by a trusted key of the ledger that it
// names: the key of another ledger says nothing about this one.
func (m *Manifest) checkSignature(data, signature []byte, p ledger.Policy) error {
	key, err := seal.VerifySignature(signature, data, seal.NamespaceSite)
	if err != nil {
		return bad("%s: %v", SignatureFile, err)
	}
	if pub, ok := key.Ed25519(); ok {
		for _, l := range p.Logs {
			if l.Origin == m.Origin && ed25519.PublicKey(l.Key).Equal(pub) {
				return nil
			}
		}
	}
	return bad("%s is signed by %s, which is not a trusted key of the ledger %q", ManifestFile, key, m.Origin).
		WithHint("give the ledger's key with --key, from a person you trust")
}

func (m *Manifest) checkCheckpoint(p ledger.Policy) (*ledger.Checkpoint, error) {
	c, err := ledger.VerifyCheckpoint([]byte(m.Checkpoint), p)
	if err != nil {
		return nil, err
	}
	if c.Origin != m.Origin || c.Size != m.TreeSize || c.Root.String() != m.Root {
		return nil, bad("%s says %d entries of %s with root %s, its checkpoint %d of %s with root %s", ManifestFile, m.TreeSize, m.Origin, m.Root, c.Size, c.Origin, c.Root)
	}
	return c, nil
}

// checkFile compares a file with the manifest, and verifies it if it is a receipt or
// the checkpoint.
func (v *Verified) checkFile(f File, names []string, read func(string) ([]byte, error), p ledger.Policy) error {
	if _, there := slices.BinarySearch(names, f.Path); !there {
		return bad("%s is missing", f.Path)
	}
	data, err := read(f.Path)
	if err != nil {
		return err
	}
	if got := digest.IDOf(data); got != f.SHA256 || int64(len(data)) != f.Bytes {
		return bad("%s has %d bytes and %s, the manifest says %d and %s", f.Path, len(data), got, f.Bytes, f.SHA256)
	}
	switch dir, name := path.Split(f.Path); {
	case dir == receiptDir+"/":
		v.Receipts++
		return v.checkReceipt(name, data, p)
	case f.Path == CheckpointFile:
		var doc struct {
			Checkpoint string `json:"checkpoint"`
		}
		if err := json.Unmarshal(data, &doc); err != nil || doc.Checkpoint != string(v.Checkpoint.Note) {
			return bad("%s is not the checkpoint of %s", f.Path, ManifestFile)
		}
	}
	return nil
}

// checkReceipt verifies a receipt, which must be of the entry that its name says.
func (v *Verified) checkReceipt(name string, data []byte, p ledger.Policy) error {
	var doc struct{ Entry, Receipt string }
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&doc); err != nil {
		return bad("%s/%s: %v", receiptDir, name, err)
	}
	proved, err := ledger.VerifyReceipt([]byte(doc.Receipt), []byte(doc.Entry), p)
	if err != nil {
		return bad("%s/%s: %v", receiptDir, name, err)
	}
	c := proved.Checkpoint
	switch {
	case strconv.FormatInt(proved.Index, 10) != name || c.Origin != v.Checkpoint.Origin:
		return bad("%s/%s is a receipt of entry %d of %s", receiptDir, name, proved.Index, c.Origin)
	case c.Size > v.Checkpoint.Size || c.Size == v.Checkpoint.Size && c.Root != v.Checkpoint.Root:
		return bad("%s/%s is of another tree (%d entries, root %s) than the site's (%d, %s)", receiptDir, name, c.Size, c.Root, v.Checkpoint.Size, v.Checkpoint.Root)
	}
	return nil
}

func bad(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.SiteInvalid, "site: "+format, args...)
}

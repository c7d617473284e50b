package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// SignedFile is what people sign of a class, in canonical JSON, beside the YAML
// that says the same: a verifier without a YAML reader that agrees with ours
// verifies digests and signatures with it. The pins have one in bench/.
const SignedFile = "signed.json"

// A SignedJSON is signed.json. Documents are what is hashed, by the path of the
// YAML file: the registration, the digests of the cases, and of each case the
// message that its people sign. The manifest pins them by a digest of its own.
// The signatures of cases stand in case.yaml, so they are here too; those of the
// manifest and the pins are files of their own.
type SignedJSON struct {
	Documents  map[string]canon.RawMessage `json:"documents"`
	Manifest   *Manifest                   `json:"manifest,omitempty"`
	Signatures map[string][]string         `json:"signatures"`
	Version    int                         `json:"version"`
}

// documents gathers what is hashed of a class, with these digests of its cases.
func (d *Draft) documents(digests *CaseDigests) (map[string]canon.RawMessage, error) {
	docs := map[string]canon.RawMessage{RegistrationFile: canon.RawMessage(d.registration)}
	if digests != nil && len(digests.Cases) > 0 {
		text, err := canon.Marshal(digests)
		if err != nil {
			return nil, err
		}
		docs[DigestsFile] = text
	}
	for _, c := range d.Cases {
		message, err := c.Message()
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.CaseID, err)
		}
		docs[path.Join(CasesDir, c.CaseID, CaseFile)] = message
	}
	return docs, nil
}

func digestOfDocuments(docs map[string]canon.RawMessage) (*digest.Content, error) {
	text, err := canon.Marshal(docs)
	if err != nil {
		return nil, err
	}
	sum := digest.ContentOf(text)
	return &sum, nil
}

// SignedJSON returns what signed.json must hold, from the YAML files.
func (d *Draft) SignedJSON() ([]byte, error) {
	docs, err := d.documents(d.Digests)
	if err != nil {
		return nil, err
	}
	s := SignedJSON{Documents: docs, Manifest: d.Manifest, Signatures: map[string][]string{}, Version: 1}
	for _, c := range d.Cases {
		for _, p := range []*Person{c.Provenance.AddedBy, c.Provenance.ReviewedBy} {
			if name := path.Join(CasesDir, c.CaseID, CaseFile); p != nil && p.Signature != "" {
				s.Signatures[name] = append(s.Signatures[name], p.Signature)
			}
		}
	}
	text, err := canon.Marshal(s)
	return append(text, '\n'), err
}

// checkSignedJSON refuses a signed.json that says something else than the YAML,
// and a class without one whose manifest pins it.
func (d *Draft) checkSignedJSON() error {
	found, ok := d.files[SignedFile]
	if !ok {
		if d.Manifest != nil && d.Manifest.Documents != nil {
			return incomplete("there is no %s, and the manifest pins it", SignedFile)
		}
		return nil
	}
	want, err := d.SignedJSON()
	if err != nil {
		return err
	}
	return sameSigned(SignedFile, found, want)
}

func sameSigned(name string, found, want []byte) error {
	if bytes.Equal(found, want) {
		return nil
	}
	at := 0
	for at < min(len(found), len(want)) && found[at] == want[at] {
		at++
	}
	return refusal.Newf(refusal.ManifestMismatch, "%s and the YAML files disagree: at byte %d it has %s, the files give %s", name, at, excerpt(found, at), excerpt(want, at)).
		WithHint(`if the YAML is right, "tally bench digest" writes the file again; if not, restore the YAML that was signed`)
}

func excerpt(data []byte, at int) string {
	if at >= len(data) {
		return "nothing more"
	}
	return fmt.Sprintf("%q", data[at:min(len(data), at+40)])
}

// SignedJSON returns what bench/signed.json must hold of the pins.
func (p *Pins) SignedJSON() ([]byte, error) {
	message, err := p.Message()
	if err != nil {
		return nil, err
	}
	text, err := canon.Marshal(SignedJSON{Documents: map[string]canon.RawMessage{path.Base(PinsFile): message}, Signatures: map[string][]string{}, Version: 1})
	return append(text, '\n'), err
}

// checkSignedPins refuses a bench/signed.json that says something else than the
// pins. Workspaces that were signed before there was one have none.
func checkSignedPins(root *os.Root, pins *Pins) error {
	name := path.Join(Dir, SignedFile)
	found, err := readPlain(root, name, maxYAMLBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	want, err := pins.SignedJSON()
	if err != nil {
		return err
	}
	return sameSigned(name, found, want)
}

package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// AnchorSchema names the form of an anchor file.
const AnchorSchema = "tallystick-anchor/" + format.Version

// MaxAnchorBytes bounds what is read as an anchor.
const MaxAnchorBytes = 128 << 10

// An Anchor is a tree head published where the ledger's owner cannot quietly
// take it back: in git, at witnesses. The file is canonical JSON and a newline.
type Anchor struct {
	Schema      string        `json:"schema"`
	Origin      string        `json:"origin"`
	Date        string        `json:"date"` // UTC day of the file
	PublishedAt evidence.Time `json:"published_at"`
	Size        int64         `json:"size"`
	Head        digest.ID     `json:"head"`
	Root        string        `json:"root"`
	Checkpoint  string        `json:"checkpoint"` // signed note, with cosignatures
	// People are armoured signatures of people, SSHSIG or OpenPGP, over the
	// same message as Signature. Every holder of the file can take them off:
	// they only ever add.
	People []string `json:"people,omitempty"`
	// Signature is SSHSIG in the namespace tallystick-anchor by the operator
	// over the canonical form without this field and without People.
	Signature string `json:"signature,omitempty"`
}

// NewAnchor makes the unsigned anchor of a verified ledger.
func NewAnchor(head TreeHead, chainHead digest.ID, checkpoint []byte, at time.Time) *Anchor {
	t := evidence.At(at)
	return &Anchor{
		Schema: AnchorSchema, Origin: head.Origin, Date: t.Date(), PublishedAt: t, Size: head.Size, Head: chainHead,
		Root: base64.StdEncoding.EncodeToString(head.Root[:]), Checkpoint: string(checkpoint),
	}
}

// TreeHead is what the anchor claims of the tree.
func (a *Anchor) TreeHead() (TreeHead, error) {
	return ParseTreeHead(fmt.Sprintf("%s\n%d\n%s\n", a.Origin, a.Size, a.Root))
}

// Message is what the signatures cover.
func (a *Anchor) Message() ([]byte, error) {
	unsigned := *a
	unsigned.Signature, unsigned.People = "", nil
	return canon.Marshal(unsigned)
}

// Marshal writes the file.
func (a *Anchor) Marshal() ([]byte, error) {
	data, err := canon.Marshal(a)
	return append(data, '\n'), err
}

// ParseAnchor reads an anchor in its one spelling. It verifies nothing.
func ParseAnchor(data []byte) (*Anchor, error) {
	if len(data) > MaxAnchorBytes {
		return nil, refusal.Newf(refusal.TooLarge, "anchor has %d bytes, at most %d are read", len(data), MaxAnchorBytes)
	}
	body, ok := bytes.CutSuffix(data, []byte{'\n'})
	if !ok {
		return nil, refusal.Newf(refusal.Malformed, "anchor: does not end in a newline").WithHint("it was cut or changed")
	}
	var a Anchor
	if err := canon.UnmarshalCanonical(body, &a); err != nil {
		if newer := format.Newer("the anchor", body, "schema", AnchorSchema); newer != nil {
			return nil, newer
		}
		return nil, refusal.Newf(refusal.Malformed, "anchor: %w", err).WithHint("the file was cut or changed, or is not an anchor")
	}
	if err := format.Check("the anchor", a.Schema, AnchorSchema); err != nil {
		return nil, err
	}
	if a.Size < 1 {
		return nil, refusal.Newf(refusal.Malformed, "anchor: size is %d, an anchor covers at least one entry", a.Size)
	}
	if a.Head.IsZero() {
		return nil, refusal.Newf(refusal.Malformed, "anchor: head is all zeros, which no ledger with an entry has").
			WithHint("its signer named no history at all; get the anchor from git, or from another person's copy")
	}
	if a.Date != a.PublishedAt.Date() {
		return nil, refusal.Newf(refusal.Malformed, "anchor: date is %s and it was published on %s", a.Date, a.PublishedAt.Date())
	}
	if a.People != nil && (len(a.People) == 0 || len(a.People) > maxAnchorPeople) {
		return nil, refusal.Newf(refusal.Malformed, "anchor: people has %d signatures, expected 1 to %d or no such member", len(a.People), maxAnchorPeople)
	}
	return &a, nil
}

// maxAnchorPeople bounds how many signatures one file may make us verify.
const maxAnchorPeople = 16

// A VerifiedAnchor is an anchor whose signatures have been checked. Only
// [VerifyAnchor] makes one.
type VerifiedAnchor struct {
	Anchor
	Checkpoint *Checkpoint
	By         []seal.Signature // the people who signed it besides
	Unread     int              // signatures of people that could not be judged
}

// WhoSigned says which people signed the anchor besides its operator, "" for none.
func (a *VerifiedAnchor) WhoSigned() string {
	if a.Unread > 0 {
		return fmt.Sprintf("people's signatures were not checked (%d): who was trusted then is not known here", a.Unread)
	}
	if len(a.By) == 0 {
		return ""
	}
	return "signed by " + strings.Join(a.Names(), ", ")
}

// Names are those of the people who signed the anchor besides its operator.
func (a *VerifiedAnchor) Names() []string {
	names := make([]string, len(a.By))
	for i, s := range a.By {
		names[i] = s.Principal()
	}
	return names
}

// Expectation is what a ledger must contain to agree with the anchor.
func (a *VerifiedAnchor) Expectation() Expectation {
	return Expectation{TreeHead: a.Checkpoint.TreeHead, Head: a.Head, Source: "the anchor of " + a.Date}
}

// VerifyAnchor checks an anchor file: its checkpoint against the policy, its
// own signature by the key of one of the policy's logs, and that all of it
// tells the same story.
func VerifyAnchor(data []byte, p Policy) (*VerifiedAnchor, error) {
	a, err := ParseAnchor(data)
	if err != nil {
		return nil, err
	}
	c, err := VerifyCheckpoint([]byte(a.Checkpoint), p)
	if err != nil {
		return nil, refusal.Newf(anchorName(err), "anchor of %s: %w", a.Date, err).WithHint("%s", refusal.Of(err).Hint)
	}
	if c.Origin != a.Origin || c.Size != a.Size || base64.StdEncoding.EncodeToString(c.Root[:]) != a.Root {
		return nil, refusal.Newf(refusal.AnchorMismatch, "anchor of %s: says %s, size %d, root %s; its checkpoint says %s, %d, %s",
			a.Date, a.Origin, a.Size, a.Root, c.Origin, c.Size, c.Root)
	}
	message, err := a.Message()
	if err != nil {
		return nil, fmt.Errorf("anchor of %s: %w", a.Date, err)
	}
	key, err := seal.VerifySignature([]byte(a.Signature), message, seal.NamespaceAnchor)
	if err != nil {
		return nil, refusal.Newf(refusal.AnchorSignatureInvalid, "anchor of %s: %w", a.Date, err).
			WithHint("it was changed after it was signed, or the signature was taken off")
	}
	if !logKey(p, a.Origin, key) {
		return nil, refusal.Newf(refusal.AnchorSignatureInvalid, "anchor of %s: signed by %s, which is not trusted for %s", a.Date, key.Fingerprint(), a.Origin)
	}
	verified := &VerifiedAnchor{Anchor: *a, Checkpoint: c}
	if err := verified.readPeople(message, p); err != nil {
		return nil, err
	}
	return verified, nil
}

// readPeople verifies the signatures of people, each of whom counts once, at the
// time of the anchor and with the signers in force at its end.
func (a *VerifiedAnchor) readPeople(message []byte, p Policy) error {
	if len(a.People) == 0 {
		return nil
	}
	var signers *seal.Signers
	if p.Signers != nil {
		signers = p.Signers(a.Origin, a.Size)
	}
	if signers == nil {
		a.Unread = len(a.People)
		return nil
	}
	sigs := make([][]byte, len(a.People))
	for i, s := range a.People {
		sigs[i] = []byte(s)
	}
	var err error
	a.By, err = signers.VerifyQuorum(sigs, message, seal.NamespaceAnchor, a.PublishedAt.Go(), seal.Rule{People: len(sigs)})
	if err != nil {
		return refusal.Newf(refusal.AnchorSignatureInvalid, "anchor of %s: people: %w", a.Date, err).
			WithHint("a signature was added that does not count; restore the file from git")
	}
	return nil
}

// anchorName keeps the names apart that a script branches on.
func anchorName(err error) refusal.Name {
	if name := refusal.Of(err).Name; name != refusal.CheckpointInvalid {
		return name
	}
	return refusal.AnchorSignatureInvalid
}

func logKey(p Policy, origin string, key seal.PublicKey) bool {
	for _, l := range p.Logs {
		if raw, ok := key.Ed25519(); ok && l.Origin == origin && bytes.Equal(raw, l.Key) {
			return true
		}
	}
	return false
}

// KeysOf lists the operators of the signers in force as keys of the ledger.
func KeysOf(signers *seal.Signers, origin string, at time.Time) []LogKey {
	var keys []LogKey
	for _, k := range signers.OperatorKeys(at) {
		keys = append(keys, LogKey{Origin: origin, Key: ed25519.PublicKey(k)})
	}
	return keys
}

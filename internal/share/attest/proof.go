package attest

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// The one kind of proof that is made and accepted (W3C vc-di-eddsa, section 3.3).
const (
	proofType    = "DataIntegrityProof"
	cryptosuite  = "eddsa-jcs-2022"
	proofPurpose = "assertionMethod"
)

// maxProofs bounds the work that one document can ask for.
const maxProofs = 32

// A Signer is a key with the name under which verifiers find it.
type Signer struct {
	Key *seal.Key
	// Method is the verification method, a DID URL such as "did:web:a.example#k1".
	// Empty means the did:key of the key.
	Method string
	// Created is written into the proof if it is not zero. It is a claim.
	Created time.Time
}

func (s Signer) method() (string, error) {
	pub := s.Key.Ed25519().Public().(ed25519.PublicKey)
	own := seal.DIDKeyMethod(pub)
	switch {
	case s.Method == "" || s.Method == own:
		return own, nil
	case strings.HasPrefix(s.Method, "did:key:"):
		return "", refusal.Newf(refusal.Usage, "the key is %s, not %s", own, s.Method)
	}
	if _, _, err := splitMethod(s.Method); err != nil {
		return "", err
	}
	return s.Method, nil
}

// splitMethod parts a DID URL into who controls the method and its name.
func splitMethod(method string) (controller, fragment string, err error) {
	controller, fragment, ok := strings.Cut(method, "#")
	if !ok || fragment == "" || !strings.HasPrefix(controller, "did:") || strings.ContainsAny(controller, "/?") {
		return "", "", refusal.Newf(refusal.CredentialInvalid, "verification method %.120q is not of the form did:…#…", method)
	}
	return controller, fragment, nil
}

// A proof is a Data Integrity proof as it is written. The members stand in the
// order of their names, which spares canon the sorting.
type proof struct {
	Context            canon.RawMessage `json:"@context,omitempty"`
	Created            string           `json:"created,omitempty"`
	Cryptosuite        string           `json:"cryptosuite"`
	Expires            string           `json:"expires,omitempty"`
	ID                 string           `json:"id,omitempty"`
	ProofPurpose       string           `json:"proofPurpose"`
	ProofValue         string           `json:"proofValue,omitempty"`
	Type               string           `json:"type"`
	VerificationMethod string           `json:"verificationMethod"`
}

// A document is a JSON object taken apart, all of it in canonical spelling.
type document struct {
	rest    []byte           // the object without its proof
	context canon.RawMessage // nil if there is none
	secured bool             // there is a member proof, if only an empty list
	proofs  []canon.RawMessage
}

// openDocument takes the canonical bytes of an object apart.
func openDocument(text []byte) (*document, error) {
	if text[0] != '{' {
		return nil, refusal.Newf(refusal.Malformed, "found a JSON value that begins with %q, expected an object", text[0])
	}
	var space room
	list := members(&space, text)
	d := &document{context: find(list, "@context"), rest: text}
	p := find(list, "proof")
	if p == nil {
		return d, nil
	}
	d.secured, d.rest = true, without(text, "proof")
	if p[0] == '[' {
		return d, canon.Unmarshal(p, &d.proofs)
	}
	d.proofs = []canon.RawMessage{p}
	return d, nil
}

// Secure adds a proof to a JSON object and returns its canonical bytes. If there
// are proofs already, the new one stands beside them and does not cover them.
func Secure(data []byte, s Signer) ([]byte, error) {
	text, err := canonicalize("document", data)
	if err != nil {
		return nil, err
	}
	method, err := s.method()
	if err != nil {
		return nil, err
	}
	return secure(text, s, method)
}

// secure is [Secure] for canonical bytes and a method that was checked.
func secure(text []byte, s Signer, method string) ([]byte, error) {
	d, err := openDocument(text)
	if err != nil {
		return nil, err
	}
	made, err := d.prove(s, method)
	if err != nil {
		return nil, err
	}
	d.proofs = append(d.proofs, made)
	return d.encode()
}

func (d *document) prove(s Signer, method string) ([]byte, error) {
	p := proof{Context: d.context, Cryptosuite: cryptosuite, ProofPurpose: proofPurpose, Type: proofType, VerificationMethod: method}
	if !s.Created.IsZero() {
		p.Created = s.Created.UTC().Format(time.RFC3339)
	}
	config, err := canon.Marshal(p)
	if err != nil {
		return nil, err
	}
	value := seal.EncodeMultibase(ed25519.Sign(s.Key.Ed25519(), d.hash(config)))
	return with(config, "proofValue", []byte(`"`+value+`"`)), nil
}

// hash is what a proof signs: SHA-256 of the proof without its value, then
// SHA-256 of the document without its proofs.
func (d *document) hash(config []byte) []byte {
	first, second := digest.IDOf(config), digest.IDOf(d.rest)
	return slices.Concat(first[:], second[:])
}

// encode writes the document with its proofs: one as an object, more as a list.
func (d *document) encode() ([]byte, error) {
	if len(d.proofs) == 1 {
		return with(d.rest, "proof", d.proofs[0]), nil
	}
	list, err := canon.Marshal(d.proofs)
	if err != nil {
		return nil, err
	}
	return with(d.rest, "proof", list), nil
}

// A Proof is a proof that verified: which method of whose, and when it says that
// it was made, which proves nothing.
type Proof struct {
	Method     string
	Controller string
	Created    string
	// Retired says that the key is retired, and that the caller's evidence shows
	// the document to be older than that.
	Retired bool
	key     ed25519.PublicKey
}

// A Secured is a document of which every proof has been verified.
type Secured struct {
	Digest   digest.ID // of its canonical bytes, proofs included
	Document []byte    // the canonical bytes without the proofs
	Proofs   []Proof
}

// VerifyDocument verifies every proof of a JSON object. Whether those who signed
// had any business to, and what the object says, is for the caller.
func VerifyDocument(data []byte, t Trust) (*Secured, error) {
	text, err := canonicalize("document", data)
	if err != nil {
		return nil, err
	}
	d, err := openDocument(text)
	if err != nil {
		return nil, err
	}
	whole := digest.IDOf(text)
	proofs, err := d.verify(whole, t)
	if err != nil {
		return nil, err
	}
	return &Secured{Digest: whole, Document: d.rest, Proofs: proofs}, nil
}

// verify checks every proof of the document. The digest is of the outermost
// document, the one that evidence about its age would name.
func (d *document) verify(whole digest.ID, t Trust) ([]Proof, error) {
	switch n := len(d.proofs); {
	case t.Now.IsZero():
		return nil, refusal.Newf(refusal.Usage, "verifying a proof: no time was given to judge it at")
	case n == 0:
		return nil, refusal.Newf(refusal.SignatureInvalid, "the document has no proof")
	case n > maxProofs:
		return nil, refusal.Newf(refusal.TooLarge, "the document has %d proofs, at most %d are read", n, maxProofs)
	}
	var good []Proof
	for i, raw := range d.proofs {
		p, err := d.verifyOne(raw, whole, t)
		if err != nil {
			return nil, fmt.Errorf("proof %d of %d: %w", i+1, len(d.proofs), err)
		}
		if slices.ContainsFunc(good, func(other Proof) bool { return other.key.Equal(p.key) }) {
			return nil, refusal.Newf(refusal.DuplicateKey, "proof %d of %d: its key made another proof of this document", i+1, len(d.proofs)).
				WithHint("one key counts once; remove the second proof")
		}
		good = append(good, p)
	}
	return good, nil
}

func (d *document) verifyOne(raw []byte, whole digest.ID, t Trust) (Proof, error) {
	var p proof
	if err := canon.Unmarshal(raw, &p); err != nil {
		return Proof{}, refusal.Newf(refusal.CredentialInvalid, "%w", err)
	}
	if err := d.validate(p, t.Now); err != nil {
		return Proof{}, err
	}
	controller, _, err := splitMethod(p.VerificationMethod)
	if err != nil {
		return Proof{}, err
	}
	key, retired, since, err := t.Keys.find(p.VerificationMethod, t.Now)
	if err != nil {
		return Proof{}, err
	}
	signature, err := seal.DecodeMultibase(p.ProofValue)
	if err != nil {
		return Proof{}, refusal.Newf(refusal.SignatureInvalid, "proofValue: %w", err)
	}
	// What is hashed is cut out of the bytes that were given: encoding p would
	// leave out an empty member that a forger added.
	hash := d.hash(without(raw, "proofValue"))
	if len(signature) != ed25519.SignatureSize || !ed25519.Verify(key, hash, signature) {
		return Proof{}, refusal.Newf(refusal.SignatureInvalid, "the signature of %s does not match the document", plainMethod(p.VerificationMethod)).
			WithHint("the document or the proof was changed, or the proof belongs to another document")
	}
	if retired {
		if err := t.issuedBefore(Issued{whole, p.VerificationMethod, since}); err != nil {
			return Proof{}, err
		}
	}
	return Proof{p.VerificationMethod, controller, p.Created, retired, key}, nil
}

// validate checks everything about a proof but its signature.
func (d *document) validate(p proof, now time.Time) error {
	bad := func(format string, args ...any) error {
		return refusal.Newf(refusal.CredentialInvalid, format, args...)
	}
	switch {
	case p.Type != proofType:
		return bad("found a proof of type %.60q, expected %s", p.Type, proofType)
	case p.Cryptosuite != cryptosuite:
		return refusal.Newf(refusal.CredentialInvalid, "found the cryptosuite %.60q, expected %s", p.Cryptosuite, cryptosuite).
			WithHint("other suites, such as eddsa-rdfc-2022, need canonicalisation that this program does not have")
	case p.ProofPurpose != proofPurpose:
		return bad("found proofPurpose %.60q, expected %s", p.ProofPurpose, proofPurpose)
	// The specification lets contexts be appended after signing. A context can
	// give every other member another meaning, so we do not.
	case p.Context != nil && !bytes.Equal(p.Context, d.context):
		return bad("the proof was made for the @context %.200q, the document has %.200q", p.Context, d.context)
	}
	if p.Created != "" {
		if _, err := parseTime("created", p.Created); err != nil {
			return err
		}
	}
	if p.Expires != "" {
		end, err := parseTime("expires", p.Expires)
		if err != nil {
			return err
		}
		if !now.Before(end) {
			return bad("the proof expired at %s", p.Expires)
		}
	}
	return nil
}

// parseTime reads an XML Schema dateTimeStamp, without leap seconds.
func parseTime(name, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || strings.Contains(text, ",") {
		return at, refusal.Newf(refusal.CredentialInvalid, "%s: %.40q is not a date and time such as 2026-05-12T09:30:00Z", name, text)
	}
	return at, nil
}

package attest

import (
	"slices"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// The contexts of a credential, all of them, in this order. The second maps the
// members of the body to names under w3.org that say they are not defined there.
const (
	contextCredentials = "https://www.w3.org/ns/credentials/v2"
	contextUndefined   = "https://www.w3.org/ns/credentials/undefined-terms/v2"
)

// The types of a credential: both of the first two, and one of the others.
const (
	typeCredential  = "VerifiableCredential"
	typeAttestation = "EvalRunAttestationCredential"

	// Tallystick ran it, and there is evidence.
	typeObserved = "ObservedRun"
	// The results came in a file that another harness wrote.
	typeImported = "ImportedNotObserved"
)

// A credential is a VC 2.0 without its proofs and its subject, which is most of it
// and is read by itself.
type credential struct {
	Context    []string           `json:"@context"`
	Schema     *schemaReference   `json:"credentialSchema,omitempty"`
	Status     canon.RawMessage   `json:"credentialStatus,omitempty"`
	Evidence   []canon.RawMessage `json:"evidence,omitempty"`
	ID         string             `json:"id,omitempty"`
	Issuer     string             `json:"issuer"`
	Type       []string           `json:"type"`
	ValidFrom  string             `json:"validFrom,omitempty"`
	ValidUntil string             `json:"validUntil,omitempty"`
}

// A schemaReference says where the schema of the subject is published. It is not
// followed: the rules are those of this package.
type schemaReference struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// A Draft is a credential to be issued.
type Draft struct {
	ID     string // a URL, or empty
	Issuer string // the DID of the signer
	// Imported says that the results were not observed here but read from a file.
	Imported bool
	// Body is the JSON of a body, or of one that [SignBody] signed.
	Body []byte
	// SchemaURL is where the schema of the body is published, or empty.
	SchemaURL string
	// ValidFrom and ValidUntil are written if they are not zero.
	ValidFrom, ValidUntil time.Time
	Status                []StatusEntry
	// Evidence are objects with a type each, such as a receipt of the ledger. They
	// are signed and not looked at.
	Evidence []canon.RawMessage
}

// Issue makes a credential and signs it as its issuer. It checks the body and does
// not verify a runner's proof in it: verify that first with [VerifyBody], since
// [Verify] refuses a credential around a bad one.
func Issue(d Draft, s Signer) ([]byte, error) {
	method, err := s.method()
	if err != nil {
		return nil, err
	}
	if controller, _, err := splitMethod(method); err != nil || controller != d.Issuer {
		return nil, refusal.Newf(refusal.Usage, "the issuer is %.120q and the key is %s: no verifier could accept that", d.Issuer, method)
	}
	body, err := canonicalize("body", d.Body)
	if err != nil {
		return nil, err
	}
	c := credential{
		Context: []string{contextCredentials, contextUndefined}, Type: []string{typeCredential, typeAttestation, typeObserved},
		ID: d.ID, Issuer: d.Issuer, Evidence: d.Evidence,
		ValidFrom: formatTime(d.ValidFrom), ValidUntil: formatTime(d.ValidUntil),
	}
	if d.Imported {
		c.Type[2] = typeImported
	}
	if d.SchemaURL != "" {
		c.Schema = &schemaReference{d.SchemaURL, "JsonSchema"}
	}
	if c.Status, err = encodeStatus(d.Status); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := acceptable(body); err != nil {
		return nil, err
	}
	text, err := canon.Marshal(c)
	if err != nil {
		return nil, err
	}
	return secure(with(text, "credentialSubject", body), s, method)
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// A Verified is a credential of which everything has been checked. Only [Verify]
// makes one.
type Verified struct {
	Digest   digest.ID // of the canonical bytes, proofs included
	ID       string
	Issuer   string
	Imported bool // imported, not observed
	Body     *Body
	Evidence []canon.RawMessage

	// IssuerProof is the issuer's own, Endorsements are the others.
	IssuerProof  Proof
	Endorsements []Proof
	// RunnerProof is the runner's over the body, nil if the runner did not sign.
	RunnerProof *Proof
	// StatusChecked says that the credential has a status and its lists were given
	// and do not mention it.
	StatusChecked bool
}

// Verify checks a credential, in any spelling: its contexts, types and members,
// every proof, that the issuer made one of them, the body and the hash of its
// results, the runner's proof if there is one, dates and status.
func Verify(data []byte, t Trust) (*Verified, error) {
	const what = "credential"
	text, err := canonicalize(what, data)
	if err != nil {
		return nil, err
	}
	d, err := openDocument(text)
	if err != nil {
		return nil, inDocument(what, err)
	}
	v := &Verified{Digest: digest.IDOf(text)}
	proofs, err := d.verify(v.Digest, t)
	if err != nil {
		return nil, inDocument(what, err)
	}
	var c credential
	if err := canon.Unmarshal(without(d.rest, "credentialSubject"), &c); err != nil {
		return nil, refusal.Newf(refusal.CredentialInvalid, "%s: %w", what, err)
	}
	if err := v.fill(c, find(members(new(room), d.rest), "credentialSubject"), proofs, t); err != nil {
		return nil, inDocument(what, err)
	}
	return v, nil
}

// fill checks what the credential says, and keeps it.
func (v *Verified) fill(c credential, body []byte, proofs []Proof, t Trust) error {
	if err := c.check(); err != nil {
		return err
	}
	if body == nil {
		return refusal.Newf(refusal.CredentialInvalid, "it has no credentialSubject")
	}
	subject, err := openSubject(body)
	if err != nil {
		return asEvidence(err)
	}
	v.ID, v.Issuer, v.Imported, v.Evidence, v.Body = c.ID, c.Issuer, c.Type[2] == typeImported, c.Evidence, subject.body

	if v.IssuerProof, err = issuerProof(c.Issuer, proofs); err != nil {
		return err
	}
	for _, p := range proofs {
		if p.Method != v.IssuerProof.Method {
			v.Endorsements = append(v.Endorsements, p)
		}
	}
	if subject.secured {
		if v.RunnerProof, err = subject.verifyRunner(v.Digest, t); err != nil {
			return err
		}
	}
	if err := t.checkValidity(c.ValidFrom, c.ValidUntil); err != nil {
		return err
	}
	v.StatusChecked, err = t.checkStatus(c)
	return err
}

// check refuses a credential that is not exactly an attestation of this package.
// What it says about its subject is not looked at.
func (c *credential) check() error {
	bad := func(format string, args ...any) error {
		return refusal.Newf(refusal.CredentialInvalid, format, args...)
	}
	switch want := []string{contextCredentials, contextUndefined}; {
	case !slices.Equal(c.Context, want):
		return bad("found @context %.300q, expected %q: another context could give the members another meaning", c.Context, want)
	case len(c.Type) != 3 || c.Type[0] != typeCredential || c.Type[1] != typeAttestation || c.Type[2] != typeObserved && c.Type[2] != typeImported:
		return bad("found type %.300q, expected %s, %s and one of %s, %s", c.Type, typeCredential, typeAttestation, typeObserved, typeImported)
	case c.Schema != nil && (c.Schema.Type != "JsonSchema" || c.Schema.ID == ""):
		return bad("found credentialSchema of type %.40q, expected JsonSchema and an id", c.Schema.Type)
	}
	for i, e := range c.Evidence {
		if e.Kind() != '{' {
			return bad("evidence %d: must be object", i+1)
		}
	}
	return nil
}

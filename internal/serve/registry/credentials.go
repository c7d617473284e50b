package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry/index"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
)

// looseUnmarshal reads the members that v has of a document that was verified
// before, and leaves the others.
func looseUnmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// lastPart is what follows the last slash or colon of an id.
func lastPart(id string) string { return id[strings.LastIndexAny(id, "/:")+1:] }

// Mint issues a credential around the body of an attestation: {kind, body}, or the body
// alone, as the dry run takes it. The
// registry did not see the run, and the credential says so.
func (r *Registry) Mint(ctx context.Context, a *Agent, envelopeText []byte, idempotency string) (*Minted, error) {
	text, err := canon.Canonicalize(envelopeText)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the request: %w", err)
	}
	body, err := claim.Unwrap(text)
	if err != nil {
		return nil, err
	}
	if _, err := r.checkBody(attest.Kind, body); err != nil {
		return nil, err
	}
	run, err := contentOfRun(body)
	if err != nil {
		return nil, err
	}
	req, err := newRequest(a, "mint", idempotency, text)
	if err != nil {
		return nil, err
	}
	return r.issueOnce(ctx, req, run, func() (*evidence.CredentialIssued, []byte, error) { return r.issue(a, body, req) })
}

// issueOnce issues a credential for a request, or returns the one that was issued
// for it before.
func (r *Registry) issueOnce(ctx context.Context, req *evidence.RegistryRequest, run *evidence.RegistryRun, issue func() (*evidence.CredentialIssued, []byte, error)) (*Minted, error) {
	r.mu.Lock()
	before, err := r.earlierRequest(req)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if before != nil {
		return r.Credential(ctx, before.credential)
	}
	issued, text, err := issue()
	if err != nil {
		return nil, err
	}
	if _, err := r.put(text); err != nil {
		return nil, err
	}
	var keys []string
	if run != nil {
		keys = append(keys, runKey(run))
	}
	before, err = r.once(req, keys, func() ([]evidence.Body, error) {
		if run != nil {
			if err := r.sameRun(run); err != nil {
				return nil, err
			}
		}
		return []evidence.Body{issued}, r.stillSigns(issued.Method)
	})
	if err != nil {
		return nil, err
	}
	if before != nil {
		return r.Credential(ctx, before.credential)
	}
	m, err := r.Credential(ctx, issued.Credential)
	if err == nil {
		m.New = true
	}
	return m, err
}

// stillSigns refuses a credential whose key was retired while it was made: in the
// ledger it would come after the retirement, and no verifier would accept it. It is
// called with the lock held.
func (r *Registry) stillSigns(method string) error {
	if method == r.ring.credential.method {
		return nil
	}
	return refusal.Newf(refusal.Interrupted, "the key of the issuer was rotated just now").WithHint("send the request again")
}

// issue signs a credential around a body that was checked. Its entry is not
// appended yet.
func (r *Registry) issue(a *Agent, body []byte, req *evidence.RegistryRequest) (*evidence.CredentialIssued, []byte, error) {
	id, err := r.newUUID()
	if err != nil {
		return nil, nil, err
	}
	var b struct {
		Run string `json:"runId"`
	}
	if err := looseUnmarshal(body, &b); err != nil {
		return nil, nil, refusal.Newf(refusal.Malformed, "body: %w", err)
	}
	signer, did, place := r.nextStatus()
	now := r.o.Now().UTC().Truncate(time.Second)
	signer.Created = now
	d := attest.Draft{ID: r.credentialID(b.Run, id), Issuer: did, Imported: true, Body: body, ValidFrom: now,
		Status: []attest.StatusEntry{attest.NewStatusEntry(place.List, int(place.Index), attest.Revocation)}}
	if r.settings.PublicURL != "" {
		d.SchemaURL = r.settings.PublicURL + "/credentials/eval-run/v1"
	}
	text, err := attest.Issue(d, signer)
	if err != nil {
		return nil, nil, err
	}
	if _, err := attest.Verify(text, r.trust()); err != nil {
		return nil, nil, refusal.Newf(refusal.NotIssued, "the credential is not issued, because this registry's own verifier refuses it: %w", err)
	}
	run, err := contentOfRun(body)
	if err != nil {
		return nil, nil, err
	}
	issued := issuedEntry(a, text, d.ID, did, signer.Method, b.Run, place, req)
	issued.Content = &run.Content
	return issued, text, nil
}

func issuedEntry(a *Agent, text []byte, id, did, method, run string, place *evidence.StatusPlace, req *evidence.RegistryRequest) *evidence.CredentialIssued {
	blob := digest.ContentOf(text)
	return &evidence.CredentialIssued{Agent: a.ID, Blob: &blob, Credential: digest.IDOf(text), ID: id, Issuer: did, Method: method, Request: req, Run: run, Status: place}
}

// credentialID is the address of a credential, or without a public address a name.
func (r *Registry) credentialID(run, id string) string {
	if r.settings.PublicURL == "" {
		return "urn:uuid:" + id
	}
	return r.settings.PublicURL + CredentialAddress(run, id)
}

// nextStatus takes the next place of the status lists, and says who signs. A place
// that no credential gets after all stays free.
func (r *Registry) nextStatus() (attest.Signer, string, *evidence.StatusPlace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.tails.status
	r.tails.status++
	return attest.Signer{Key: r.ring.credential.key, Method: r.ring.credential.method}, r.ring.did,
		&evidence.StatusPlace{List: statusURL(r.settings.PublicURL, r.settings.Origin, int(n/statusPerList)), Index: n % statusPerList}
}

// IssueOptions are those of the VC-API.
type IssueOptions struct {
	CredentialID string
	Idempotency  string
}

// IssueDocument signs any W3C credential, as the VC-API has it. It is off unless
// the settings turn it on: the registry vouches for nothing that such a credential
// says. Attestations of runs and status lists, which others take the registry's
// word for, are not signed this way.
func (r *Registry) IssueDocument(ctx context.Context, a *Agent, document []byte, o IssueOptions) ([]byte, error) {
	if !r.settings.IssueDocuments {
		return nil, refusal.Newf(refusal.NotAllowed, "this registry signs attestations of runs only").
			WithHint("its operator can set issue_documents: true in registry.yaml")
	}
	if len(document) > maxEnvelope {
		return nil, refusal.Newf(refusal.TooLarge, "the credential has %d bytes, at most %d are taken", len(document), maxEnvelope)
	}
	text, err := canon.Canonicalize(document)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the credential: %w", err)
	}
	req, err := newRequest(a, "issue", o.Idempotency, text)
	if err != nil {
		return nil, err
	}
	m, err := r.issueOnce(ctx, req, nil, func() (*evidence.CredentialIssued, []byte, error) { return r.secure(a, text, o, req) })
	if err != nil {
		return nil, err
	}
	return m.Credential, nil
}

// secure adds our proof to a credential that a client wrote.
func (r *Registry) secure(a *Agent, text []byte, o IssueOptions, req *evidence.RegistryRequest) (*evidence.CredentialIssued, []byte, error) {
	r.mu.Lock()
	did := r.ring.did
	signer := attest.Signer{Key: r.ring.credential.key, Method: r.ring.credential.method, Created: r.o.Now().UTC().Truncate(time.Second)}
	r.mu.Unlock()
	members, err := checkDocument(text)
	if err != nil {
		return nil, nil, err
	}
	if err := setIssuer(members, did); err != nil {
		return nil, nil, err
	}
	var id string
	if members["id"] != nil {
		_ = canon.Unmarshal(members["id"], &id)
	}
	if id == "" {
		if id = o.CredentialID; id == "" {
			made, err := r.newUUID()
			if err != nil {
				return nil, nil, err
			}
			id = "urn:uuid:" + made
		}
		if members["id"], err = canon.Marshal(id); err != nil {
			return nil, nil, refusal.Newf(refusal.Malformed, "credentialId: %w", err)
		}
	}
	whole, err := canon.Marshal(members)
	if err != nil {
		return nil, nil, err
	}
	signed, err := attest.Secure(whole, signer)
	if err != nil {
		return nil, nil, err
	}
	return issuedEntry(a, signed, id, did, signer.Method, id, nil, req), signed, nil
}

// checkDocument refuses what is not a VC 2.0, and what only the registry itself
// may say.
func checkDocument(text []byte) (map[string]canon.RawMessage, error) {
	bad := func(format string, args ...any) error {
		return refusal.Newf(refusal.CredentialInvalid, "credential: "+format, args...)
	}
	var members map[string]canon.RawMessage
	if err := canon.Unmarshal(text, &members); err != nil {
		return nil, bad("must be object")
	}
	var contexts []any
	if err := canon.Unmarshal(members["@context"], &contexts); err != nil || len(contexts) == 0 || contexts[0] != "https://www.w3.org/ns/credentials/v2" {
		return nil, bad("@context must be a list that begins with https://www.w3.org/ns/credentials/v2")
	}
	types, err := oneOrMore(members["type"])
	if err != nil || !slices.Contains(types, "VerifiableCredential") {
		return nil, bad("type must have VerifiableCredential")
	}
	for _, t := range types {
		if t == "EvalRunAttestationCredential" || t == "BitstringStatusListCredential" {
			return nil, refusal.Newf(refusal.NotAllowed, "a %s is not signed as a document", t).WithHint("post attestations of runs to the mint route")
		}
	}
	if s := members["credentialSubject"]; len(s) < 3 || s.Kind() != '{' && s.Kind() != '[' {
		return nil, bad("credentialSubject must be an object or a list that is not empty")
	}
	if members["proof"] != nil {
		return nil, bad("it has a proof already")
	}
	return members, nil
}

func oneOrMore(raw canon.RawMessage) ([]string, error) {
	if raw.Kind() == '"' {
		var one string
		err := canon.Unmarshal(raw, &one)
		return []string{one}, err
	}
	var list []string
	err := canon.Unmarshal(raw, &list)
	return list, err
}

// setIssuer puts our DID in, and refuses another one.
func setIssuer(members map[string]canon.RawMessage, did string) error {
	raw := members["issuer"]
	quoted, err := canon.Marshal(did)
	if err != nil {
		return err
	}
	if raw == nil {
		members["issuer"] = quoted
		return nil
	}
	var id string
	if raw.Kind() == '{' {
		var object map[string]canon.RawMessage
		if err := canon.Unmarshal(raw, &object); err != nil {
			return refusal.Newf(refusal.CredentialInvalid, "credential: issuer: %w", err)
		}
		raw = object["id"]
	}
	if len(raw) == 0 || canon.Unmarshal(raw, &id) != nil || id != did {
		return refusal.Newf(refusal.CredentialInvalid, "credential: the issuer is %.120q, and this registry signs as %s", string(raw), did).WithHint("leave issuer out")
	}
	return nil
}

// Revoke records that a credential is no longer stood by. An agent may revoke what
// was issued for it; a nil agent is the operator.
func (r *Registry) Revoke(ctx context.Context, a *Agent, id digest.ID, reason string, o Once) error {
	if reason == "" || len(reason) > 200 {
		return refusal.Newf(refusal.Usage, "the reason has %d characters, expected 1 to 200", len(reason))
	}
	var req *evidence.RegistryRequest
	if a != nil {
		var err error
		if req, err = o.request(a, "revoke"); err != nil {
			return err
		}
	}
	_, err := r.once(req, []string{"credential " + id.String()}, func() ([]evidence.Body, error) {
		i := r.state.credentials[id]
		switch {
		case i == nil:
			return nil, refusal.Newf(refusal.UnknownName, "this registry has not issued a credential %s", id)
		case a != nil && i.Agent != a.ID:
			return nil, refusal.Newf(refusal.NotAllowed, "credential %s was not issued for agent %s", id, a.ID)
		case i.revoked != nil:
			return nil, nil
		}
		return []evidence.Body{&evidence.CredentialRevoked{Credential: id, Reason: reason, Request: req}}, nil
	})
	if err != nil {
		return err
	}
	return r.refreshStatusLists(ctx)
}

// statusLife is how long a status list may be relied on, and statusRenew how long
// before its end it is made again.
const (
	statusLife  = 24 * time.Hour
	statusRenew = 6 * time.Hour
)

// refreshStatusLists signs the lists that changed or will soon end, and leaves
// them in the database for the server.
func (r *Registry) refreshStatusLists(ctx context.Context) error {
	r.mu.Lock()
	b, signed := index.NewBatch(), map[int]*signedList{}
	now := r.o.Now().UTC().Truncate(time.Second)
	lists := int((r.tails.status + statusPerList - 1) / statusPerList)
	for n := range lists {
		bits, revoked := r.state.statusBits(n)
		if last := r.lists[n]; last != nil && last.revoked == revoked && now.Before(last.until.Add(-statusRenew)) && last.method == r.ring.credential.method {
			continue
		}
		text, err := attest.IssueStatusList(attest.StatusDraft{ID: statusURL(r.settings.PublicURL, r.settings.Origin, n), Issuer: r.ring.did, Purpose: attest.Revocation,
			Bits: bits, ValidFrom: now, ValidUntil: now.Add(statusLife)}, attest.Signer{Key: r.ring.credential.key, Method: r.ring.credential.method, Created: now})
		if err != nil {
			r.mu.Unlock()
			return err
		}
		b.Served[servedStatus(n)] = text
		signed[n] = &signedList{revoked, now.Add(statusLife), r.ring.credential.method}
	}
	r.mu.Unlock()
	if len(b.Served) == 0 {
		return nil
	}
	if err := r.index.Apply(ctx, b); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.lists, signed)
	return nil
}

// A signedList is what is known of a status list that was signed.
type signedList struct {
	revoked int
	until   time.Time
	method  string
}

// statusBits are those of a list: the bits of revoked credentials are set.
func (s *state) statusBits(list int) (bits []byte, revoked int) {
	bits = make([]byte, attest.MinStatusBytes)
	for _, i := range s.credentials {
		if i.revoked == nil || i.Status == nil {
			continue
		}
		if n := statusNumber(i.Status); int(n/statusPerList) == list {
			attest.SetStatus(bits, n%statusPerList)
			revoked++
		}
	}
	return bits, revoked
}

// servedStatus is what a status list is called in the database.
func servedStatus(n int) string { return fmt.Sprintf("status/%d", n) }

// StatusList returns the signed list of that number.
func (r *Reader) StatusList(ctx context.Context, n int) (*StatusList, error) {
	text, err := r.index.Served(ctx, servedStatus(n))
	if err != nil {
		return nil, err
	}
	if text == nil {
		return nil, refusal.Newf(refusal.UnknownName, "there is no status list %d", n)
	}
	return &StatusList{Credential: text, ETag: etag(text)}, nil
}

// StatusList is that of the reader, after a list that was not asked for yet was
// made.
func (r *Registry) StatusList(ctx context.Context, n int) (*StatusList, error) {
	if err := r.refreshStatusLists(ctx); err != nil {
		return nil, err
	}
	return r.Reader.StatusList(ctx, n)
}

// issuedHere knows from the ledger that a credential was there before its key was
// retired.
func (r *Registry) issuedHere(i attest.Issued) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	issued := r.state.credentials[i.Document]
	for _, k := range r.state.keys {
		if issued != nil && k.method == i.Method && issued.Method == i.Method && k.retired != nil && issued.index < k.retiredAt {
			return nil
		}
	}
	return notBeforeRetirement(i)
}

// Trust is what a verifier needs for credentials of this registry: its keys and
// its status lists. Nothing is fetched.
func (r *Reader) Trust(ctx context.Context) (attest.Trust, error) {
	t := attest.Trust{Now: r.now(), Keys: &attest.Keys{}}
	t.IssuedBeforeRetirement = func(i attest.Issued) error { return r.issuedBefore(ctx, i) }
	conf, err := r.Config(ctx)
	if err != nil {
		return t, err
	}
	docs, err := r.Keys(ctx)
	if err != nil {
		return t, err
	}
	if err := t.Keys.AddJWKS(conf.DID, docs.JWKS); err != nil {
		return t, err
	}
	if docs.DID != nil {
		if err := t.Keys.AddDID(docs.DID); err != nil {
			return t, err
		}
	}
	for n := 0; ; n++ {
		list, err := r.StatusList(ctx, n)
		if refusal.Is(err, refusal.UnknownName) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		t.StatusLists = append(t.StatusLists, list.Credential)
	}
}

// issuedBefore finds in the entries that the database has whether a credential was there
// before its key was retired.
func (r *Reader) issuedBefore(ctx context.Context, i attest.Issued) error {
	retired, err := r.retirement(ctx, i.Method)
	if err != nil {
		return err
	}
	doc, err := r.index.Doc(ctx, docCredential, i.Document.String())
	if err != nil {
		return err
	}
	if doc != nil && retired != nil {
		var c credentialDoc
		if err := canon.Unmarshal(doc, &c); err != nil {
			return refusal.Newf(refusal.IndexDiffers, "credential %s in the database: %w", i.Document, err)
		}
		raw, err := r.Entries(ctx, c.Entry, 1)
		if err != nil {
			return err
		}
		if len(raw) == 1 && c.Entry < *retired {
			_, body, err := evidence.DecodeEntry(raw[0])
			issued, ok := body.(*evidence.CredentialIssued)
			if err == nil && ok && issued.Credential == i.Document && issued.Method == i.Method {
				return nil
			}
		}
	}
	return notBeforeRetirement(i)
}

// retirement is the entry that retired a key, nil if none did.
func (r *Reader) retirement(ctx context.Context, method string) (*int64, error) {
	docs, err := r.Keys(ctx)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []struct {
			KeyID   string `json:"kid"`
			Retired *int64 `json:"retiredEntry"`
		} `json:"keys"`
	}
	if err := looseUnmarshal(docs.JWKS, &set); err != nil {
		return nil, refusal.Newf(refusal.IndexDiffers, "the key set in the database: %w", err)
	}
	_, name, _ := strings.Cut(method, "#")
	for _, k := range set.Keys {
		if k.KeyID == name {
			return k.Retired, nil
		}
	}
	return nil, nil
}

func notBeforeRetirement(i attest.Issued) error {
	return refusal.Newf(refusal.SignerNotValidThen, "this ledger does not show that %s was issued before its key was retired", i.Document)
}

// Trust is that of the reader, with what the ledger knows of retired keys.
func (r *Registry) Trust(ctx context.Context) (attest.Trust, error) {
	if err := r.refreshStatusLists(ctx); err != nil {
		return attest.Trust{}, err
	}
	t, err := r.Reader.Trust(ctx)
	t.IssuedBeforeRetirement = r.issuedHere
	return t, err
}

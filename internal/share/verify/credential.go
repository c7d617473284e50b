package verify

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/share/attest"
)

// Credentials is what credentials are judged by besides the keys of ledgers.
type Credentials struct {
	Keys        attest.Keys
	StatusLists [][]byte
	// Receipts are of entries credential.issued, credential.revoked and
	// key.published, by a trusted ledger.
	Receipts [][]byte
	// Issuers, if there are any, are the DIDs of whom a credential is accepted.
	Issuers []string
	// Now is when to judge; zero is the time of the call.
	Now time.Time
	// Revoked, if set, refuses a credential that a ledger at hand says is revoked.
	Revoked func(credential digest.ID) error
	// Notes are what the caller could not ask, to be told with every credential.
	Notes []string
	// UnsafeSkipStatus is for a credential that is being issued: the list that it refers
	// to is not made yet.
	UnsafeSkipStatus bool
}

// maxKeyFile bounds a key document, a status list or a receipt.
const maxKeyFile = 8 << 20

// AddDID reads a DID document.
func (c *Credentials) AddDID(path string) error {
	data, err := store.ReadFile(store.OS{}, path, maxKeyFile)
	if err != nil {
		return err
	}
	return inFile(path, c.Keys.AddDID(data))
}

// AddJWKS reads a key set; named is "DID=FILE".
func (c *Credentials) AddJWKS(named string) error {
	did, path, ok := strings.Cut(named, "=")
	if !ok {
		return refusal.Newf(refusal.Usage, "%.120q: expected DID=FILE, whose keys the set has", named)
	}
	data, err := store.ReadFile(store.OS{}, path, maxKeyFile)
	if err != nil {
		return err
	}
	return inFile(path, c.Keys.AddJWKS(did, data))
}

// AddStatusList reads the credential of a status list.
func (c *Credentials) AddStatusList(path string) error { return readTo(&c.StatusLists, path) }

// AddReceipt reads a receipt.
func (c *Credentials) AddReceipt(path string) error { return readTo(&c.Receipts, path) }

// Read reads the files that flags name: DID documents, key sets as DID=FILE, status
// lists and receipts.
func (c *Credentials) Read(dids, jwks, lists, receipts []string) error {
	for _, kind := range []struct {
		names []string
		add   func(string) error
	}{{dids, c.AddDID}, {jwks, c.AddJWKS}, {lists, c.AddStatusList}, {receipts, c.AddReceipt}} {
		for _, name := range kind.names {
			if err := kind.add(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func readTo(list *[][]byte, path string) error {
	data, err := store.ReadFile(store.OS{}, path, maxKeyFile)
	*list = append(*list, data)
	return err
}

func inFile(path string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// isCredential recognises a credential, and a body that its runner signed, by what
// they cannot do without.
func isCredential(data []byte) bool {
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) == 0 || text[0] != '{' {
		return false
	}
	return bytes.Contains(data, []byte(`"VerifiableCredential"`)) || isBody(data)
}

func isBody(data []byte) bool {
	return bytes.Contains(data, []byte(`"runnerDid"`)) && bytes.Contains(data, []byte(`"resultsHash"`)) && !bytes.Contains(data, []byte(`"credentialSubject"`))
}

// A Credential is one that verified, and what its evidence shows.
type Credential struct {
	*attest.Verified
	// Sandboxed says that the attestation of its sandbox run is there and verified.
	Sandboxed bool
	// Observed is the entry of the ledger that its own receipt proves, nil if there
	// is none or no ledger is trusted.
	Observed *ledger.Proved
	// Notes are what was not checked, and why.
	Notes []string
}

// trust is what package attest needs.
func (t Trust) trust() attest.Trust {
	now := t.Credentials.Now
	if now.IsZero() {
		now = time.Now()
	}
	return attest.Trust{Keys: &t.Credentials.Keys, Now: now, StatusLists: t.Credentials.StatusLists, UnsafeSkipStatus: t.Credentials.UnsafeSkipStatus, IssuedBeforeRetirement: t.issuedBefore}
}

// VerifyCredential verifies a credential with everything it carries. Nothing is
// fetched.
func VerifyCredential(data []byte, t Trust) (*Credential, error) {
	trust := t.trust()
	v, err := attest.Verify(data, trust)
	if err != nil {
		return nil, err
	}
	c := &Credential{Verified: v}
	if err := t.accept(v.Issuer, v.Digest); err != nil {
		return nil, err
	}
	if c.Sandboxed, err = v.Sandboxed(trust); err != nil {
		return nil, err
	}
	if err := c.receipt(t); err != nil {
		return nil, err
	}
	c.note(t)
	return c, nil
}

// VerifyBody verifies a body that its runner signed, without a credential.
func VerifyBody(data []byte, t Trust) (*attest.SignedBody, error) {
	b, err := attest.VerifyBody(data, t.trust())
	if err != nil {
		return nil, err
	}
	return b, t.accept(b.Body.RunnerDID, b.Digest)
}

// accept refuses an issuer that is not one of those named, and what was revoked.
func (t Trust) accept(issuer string, credential digest.ID) error {
	known := len(t.Credentials.Issuers) == 0
	for _, did := range t.Credentials.Issuers {
		known = known || did == issuer
	}
	if !known {
		return refusal.Newf(refusal.SignerUnknown, "credential: the issuer is %.120q, expected %s", issuer, strings.Join(t.Credentials.Issuers, " or "))
	}
	if t.Credentials.Revoked != nil {
		if err := t.Credentials.Revoked(credential); err != nil {
			return err
		}
	}
	entries, err := t.proved()
	if err != nil {
		return err
	}
	for _, p := range entries {
		if r, ok := p.Body.(*evidence.CredentialRevoked); ok && r.Credential == credential {
			return refusal.Newf(refusal.CredentialRevoked, "credential: entry %d of %s revokes it: %s", p.Index, p.Checkpoint.Origin, r.Reason)
		}
	}
	return nil
}

// proved verifies every receipt that was given.
func (t Trust) proved() ([]*ledger.Proved, error) {
	var out []*ledger.Proved
	for i, data := range t.Credentials.Receipts {
		p, err := ledger.VerifyReceipt(data, nil, t.Policy())
		if err != nil {
			return nil, fmt.Errorf("receipt %d: %w", i+1, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// issuedBefore accepts a document under a retired key if a receipt shows that the
// ledger had it before: before the entry that retired the key, or before the
// moment that the key documents give, by the clock of a ledger that is trusted.
func (t Trust) issuedBefore(i attest.Issued) error {
	entries, err := t.proved()
	if err != nil {
		return err
	}
	found := false
	for _, p := range entries {
		issued, ok := p.Body.(*evidence.CredentialIssued)
		if !ok || issued.Credential != i.Document || issued.Method != i.Method {
			continue
		}
		found = true
		if !i.Since.IsZero() && p.Entry.Time.Go().Before(i.Since) {
			return nil
		}
		for _, other := range entries {
			k, ok := other.Body.(*evidence.KeyPublished)
			if ok && k.Retired && k.Key == i.Method && other.Checkpoint.Origin == p.Checkpoint.Origin && p.Index < other.Index {
				return nil
			}
		}
	}
	if found {
		return refusal.Newf(refusal.SignerNotValidThen, "a receipt shows when it was issued, and nothing shows that the key was retired later").
			WithHint("give the receipt of the key.published entry that retired the key, of the same ledger")
	}
	return refusal.Newf(refusal.SignerNotValidThen, "none of %d receipts is of an entry credential.issued for %s and that key", len(entries), i.Document)
}

// receipt verifies the receipt in the credential's own evidence, if some ledger is
// trusted, and that it is about what the body says.
func (c *Credential) receipt(t Trust) error {
	for _, item := range c.Evidence {
		var members map[string]canon.RawMessage
		if canon.Unmarshal(item, &members) != nil || string(members["type"]) != `["LedgerReceipt"]` {
			continue
		}
		var text string
		if err := canon.Unmarshal(members["receipt"], &text); err != nil {
			return refusal.Newf(refusal.CredentialInvalid, "evidence: LedgerReceipt: %w", err)
		}
		if len(t.Logs) == 0 {
			c.Notes = append(c.Notes, "its receipt was not checked: no ledger key was given")
			continue
		}
		p, err := ledger.VerifyReceipt([]byte(text), members["record"], t.Policy())
		if err != nil {
			return fmt.Errorf("evidence: LedgerReceipt: %w", err)
		}
		if err := c.about(p); err != nil {
			return err
		}
		c.Observed = p
	}
	return nil
}

// carries reports whether the evidence has an item of a type.
func (c *Credential) carries(kind string) bool {
	for _, item := range c.Evidence {
		var members map[string]canon.RawMessage
		if canon.Unmarshal(item, &members) == nil && string(members["type"]) == `["`+kind+`"]` {
			return true
		}
	}
	return false
}

// about compares the entry that a receipt proves with what the body says of the
// attempt.
func (c *Credential) about(p *ledger.Proved) error {
	var extra, observed map[string]canon.RawMessage
	if canon.Unmarshal(c.Body.Extra, &extra) != nil || canon.Unmarshal(extra["observed"], &observed) != nil {
		return refusal.Newf(refusal.CredentialInvalid, "it carries a receipt, and its body does not say of which attempt")
	}
	attempt, number := "", 0
	switch b := p.Body.(type) {
	case *evidence.AttemptFinished:
		attempt = b.Attempt
	case *evidence.AttemptRegistered:
		attempt, number = b.Attempt, b.Number
	}
	if want, _ := canon.Marshal(attempt); attempt == "" || !bytes.Equal(observed["attempt"], want) {
		return refusal.Newf(refusal.CredentialInvalid, "its receipt is of entry %d, a %s of attempt %.80q, and the body is about %.80s", p.Index, p.Entry.Kind, attempt, observed["attempt"])
	}
	if want, _ := canon.Marshal(p.Checkpoint.Origin); !bytes.Equal(observed["ledger"], want) {
		return refusal.Newf(refusal.CredentialInvalid, "its receipt is of the ledger %s, and the body names %.80s", p.Checkpoint.Origin, observed["ledger"])
	}
	if number != 0 && string(observed["number"]) != fmt.Sprint(number) {
		return refusal.Newf(refusal.CredentialInvalid, "its receipt says attempt number %d, the body %.20s", number, observed["number"])
	}
	if b, ok := p.Body.(*evidence.AttemptFinished); ok {
		return c.totals(b)
	}
	return nil
}

// totals compares the numbers of the body with those that the ledger has for the
// attempt. The number of attempts of a kind is not in one entry.
func (c *Credential) totals(b *evidence.AttemptFinished) error {
	var classes map[string]map[string]canon.RawMessage
	if canon.Unmarshal(c.Body.Results, &classes) != nil || len(classes) != 1 {
		return refusal.Newf(refusal.CredentialInvalid, "its results are not those of an attempt")
	}
	for _, said := range classes {
		fewer, err := sameTotals(said, b)
		if err != nil {
			return err
		}
		if fewer > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("the attempt was finished with %d records more than the body counts: these do not count", fewer))
		}
	}
	return nil
}

// The outcomes of an attempt, by the names that results have for them.
var resultNames = []struct {
	name    string
	outcome evidence.Outcome
}{{"passed", evidence.Passed}, {"failed", evidence.Failed}, {"skipped", evidence.Skipped}, {"errors", evidence.Errored}, {"unscored", evidence.Unscored}, {"truncated", evidence.Truncated}}

// sameTotals refuses results that are not those of the entry that finished the attempt:
// a document has the recorded numbers, and tells of corrections beside them. It may count
// fewer records, if some do not count, and says how many.
func sameTotals(said map[string]canon.RawMessage, b *evidence.AttemptFinished) (fewer int, err error) {
	for _, r := range resultNames {
		n, want := 0, b.Outcomes[r.outcome]
		if text := said[r.name]; text != nil && canon.Unmarshal(text, &n) != nil || n > want || n < 0 {
			return 0, refusal.Newf(refusal.CredentialInvalid, "the results say %s %.20s, the receipt %d", r.name, said[r.name], want).
				WithHint("results are as recorded; what people corrected stands beside them, in corrections")
		}
		fewer += want - n
	}
	if fewer > 0 || said["mean_score"] == nil && b.MeanScore == nil {
		return fewer, nil
	}
	var mean float64
	if said["mean_score"] == nil || b.MeanScore == nil || canon.Unmarshal(said["mean_score"], &mean) != nil || math.Abs(mean-*b.MeanScore) > 1e-9 {
		return 0, refusal.Newf(refusal.CredentialInvalid, "the results say mean_score %.20s, the receipt %s", said["mean_score"], meanText(b.MeanScore)).
			WithHint("results are as recorded; what people corrected stands beside them, in corrections")
	}
	return 0, nil
}

func meanText(v *float64) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}

func (c *Credential) note(t Trust) {
	if !c.Imported && !c.carries("LedgerReceipt") {
		c.Notes = append(c.Notes, "it says that the run was observed, and carries no receipt that would show it")
	}
	if c.Body.SandboxRunID != "" && !c.Sandboxed {
		c.Notes = append(c.Notes, "it does not carry the attestation of sandbox run "+c.Body.SandboxRunID)
	}
	if len(t.Credentials.Issuers) == 0 {
		c.Notes = append(c.Notes, "no trusted signer was named: it shows who says so")
	}
	c.Notes = append(c.Notes, t.Credentials.Notes...)
	if c.RunnerProof == nil {
		c.Notes = append(c.Notes, "the runner did not sign the body")
	}
	if !c.StatusChecked {
		c.Notes = append(c.Notes, "it has no status, so only a ledger could say that it was revoked")
	}
}

// credential verifies a credential, or a body that its runner signed.
func credential(data []byte, t Trust) (string, string, error) {
	const kind = "credential"
	if isBody(data) {
		b, err := VerifyBody(data, t)
		if err != nil {
			return kind, "", err
		}
		return kind, fmt.Sprintf("a body signed by its runner %s: run %s, no issuer stands by it", b.Body.RunnerDID, b.Body.RunID), nil
	}
	c, err := VerifyCredential(data, t)
	if err != nil {
		return kind, "", err
	}
	return kind, c.Detail(), nil
}

// Detail tells in a line what was verified.
func (c *Credential) Detail() string {
	what := "observed"
	if c.Imported {
		what = "imported, not observed"
	}
	detail := fmt.Sprintf("%s: run %s of %s with %s, issued by %s", what, c.Body.RunID, c.Body.ModelID, c.Body.HarnessID, c.Issuer)
	if n := len(c.Endorsements); n > 0 {
		detail += fmt.Sprintf(", endorsed by %d", n)
	}
	if p := c.Observed; p != nil {
		detail += fmt.Sprintf(", entry %d of %s", p.Index, p.Checkpoint.Origin)
	}
	if len(c.Notes) > 0 {
		detail += "; " + strings.Join(c.Notes, "; ")
	}
	return detail
}

// isEnvelope recognises a DSSE envelope of an in-toto statement.
func isEnvelope(data []byte) bool {
	text := bytes.TrimLeft(data, " \t\r\n")
	return len(text) > 0 && text[0] == '{' && bytes.Contains(data, []byte(`"payloadType"`)) && bytes.Contains(data, []byte(`"signatures"`))
}

// envelope verifies that every did:key that the caller named signed a statement.
func envelope(data []byte, t Trust) (string, string, error) {
	const kind = "envelope"
	var keys []ed25519.PublicKey
	for _, did := range t.Credentials.Issuers {
		if !strings.HasPrefix(did, "did:key:") {
			continue
		}
		key, err := seal.ParseDIDKey(did)
		if err != nil {
			return kind, "", err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return kind, "", refusal.Newf(refusal.SignerUnknown, "no signer was named for it").
			WithHint("name them with --issuer did:key:…; the keyid in an envelope proves nothing")
	}
	payload, err := attest.VerifyEnvelope(data, attest.PayloadInToto, keys, len(keys))
	if err != nil {
		return kind, "", err
	}
	var statement struct {
		Type      string           `json:"_type"`
		Predicate canon.RawMessage `json:"predicate"`
		Kind      string           `json:"predicateType"`
		Subject   []struct {
			Name   string            `json:"name"`
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := canon.Unmarshal(bytes.TrimRight(payload, "\n"), &statement); err != nil || len(statement.Subject) == 0 {
		return kind, "", refusal.Newf(refusal.CredentialInvalid, "the payload is not an in-toto statement")
	}
	detail := fmt.Sprintf("%s about %s, signed by %s", statement.Kind, statement.Subject[0].Name, strings.Join(t.Credentials.Issuers, ", "))
	if statement.Kind != format.EvalResult {
		return kind, detail, nil
	}
	note, err := evalResult(statement.Predicate, statement.Subject[0].Name, t)
	if note != "" {
		detail += "; " + note
	}
	return kind, detail, err
}

// evalResult compares what an eval-result claims with the entry that its receipt proves,
// if a ledger is trusted; it says what could not be compared.
func evalResult(predicate []byte, subject string, t Trust) (note string, err error) {
	var members, carried map[string]canon.RawMessage
	var claims []map[string]canon.RawMessage
	var text string
	var size int
	err = canon.Unmarshal(predicate, &members)
	for _, part := range []struct {
		of   *map[string]canon.RawMessage
		name string
		into any
	}{{&members, "receipt", &carried}, {&carried, "receipt", &text}, {&members, "claims", &claims}, {&members, "sampleSize", &size}} {
		if err == nil {
			err = canon.Unmarshal((*part.of)[part.name], part.into)
		}
	}
	if err != nil {
		return "", refusal.Newf(refusal.CredentialInvalid, "the predicate is not an eval-result: %v", err)
	}
	if len(t.Logs) == 0 {
		return "its receipt was not checked: no ledger key was given", nil
	}
	if r, err := ledger.ParseReceipt([]byte(text)); err == nil && r.Entry == nil {
		return "its receipt was not checked: it does not carry its entry", nil
	}
	proved, err := ledger.VerifyReceipt([]byte(text), nil, t.Policy())
	if err != nil {
		return "", fmt.Errorf("its receipt: %w", err)
	}
	f, ok := proved.Body.(*evidence.AttemptFinished)
	if !ok {
		return "its receipt is of an attempt that had not finished", nil
	}
	if want := proved.Checkpoint.Origin + "/" + f.Attempt; subject != want {
		return "", refusal.Newf(refusal.CredentialInvalid, "its receipt is of %s, and the statement is about %.120s", want, subject)
	}
	records := 0
	for _, n := range f.Outcomes {
		records += n
	}
	if size < records {
		return fmt.Sprintf("it tells of %d of %d records, so its claims could not be compared with the receipt", size, records), nil
	}
	rate := float64(f.Outcomes[evidence.Passed]) / float64(size)
	recorded := map[string]*float64{`"solve_rate"`: &rate, `"mean_score"`: f.MeanScore}
	gates := 0
	for _, c := range claims {
		want, ok := recorded[string(c["metric"])]
		if !ok { // of a gate, which the receipt does not have
			gates++
			continue
		}
		got, err := strconv.ParseFloat(strings.Trim(string(c["threshold"]), `"`), 64)
		if err != nil || want == nil || math.Abs(got-*want) > 1e-9 {
			return "", refusal.Newf(refusal.CredentialInvalid, "it claims %.30s of %.30s, its receipt gives %s", c["metric"], c["threshold"], meanText(want)).
				WithHint("claims are as recorded; what people corrected stands beside them, in corrections")
		}
	}
	if gates > 0 {
		note = fmt.Sprintf("its claims about gates (%d) are the signer's word: the receipt does not have them", gates)
	}
	return note, nil
}

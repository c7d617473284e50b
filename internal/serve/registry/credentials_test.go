package registry

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/recompute"
	"tallystick/internal/share/attest"
)

// attestation is the example body of the format page, with another accuracy.
func attestation(t testing.TB, runner string, accuracy float64) string {
	t.Helper()
	results := fmt.Sprintf(`{"mmlu_pro":{"accuracy":%g,"stderr":0.0041}}`, accuracy)
	return fmt.Sprintf(`{"schemaVersion":"1.0.0","runId":"00000000-0000-4000-8000-%012d","harnessId":"lm-eval-harness","harnessVersionSha":"%s","evalCodeSha":"%s","modelId":"huggingface://meta-llama/Llama-3.1-70B-Instruct","datasetSha":"%s","runnerDid":%q,"submittedAt":1747000000000,"results":%s,"resultsHash":"%s"}`,
		int(accuracy*1e6), strings.Repeat("0", 64), strings.Repeat("1", 64), strings.Repeat("2", 64), runner, results, must[string](t)(attest.ResultsHash([]byte(results))))
}

const paths = `"registry":{"artifactPath":"` + modelPath + `","evalHarnessPath":"` + harnessPath + `","datasetPath":"` + datasetPath + `"}`

func TestOnePostMakesRowAndCredential(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	p := w.propose(a, Eval, `{"kind":"eval.run.attestation.v1","body":`+attestation(t, a.PublicKey, 0.738)+`,`+paths+`}`)
	if p.Status != Published || p.Credential == "" || p.Runner != a.PublicKey {
		t.Fatalf("%+v", p)
	}
	parts := strings.Split(p.Credential, "/")
	vc := must[[]byte](t)(w.Judgment(ctx, "eval.run.attestation.v1", parts[len(parts)-2], parts[len(parts)-1]))
	v, err := attest.Verify(vc, must[attest.Trust](t)(w.Trust(ctx)))
	if err != nil {
		t.Fatal(err)
	}
	if !v.Imported || !v.StatusChecked || v.Issuer != "did:web:registry.example" || v.ID != "https://registry.example"+p.Credential {
		t.Errorf("%+v", v)
	}
	var l row
	page := must[*Page](t)(w.List(ctx, Query{}))
	if err := json.Unmarshal(page.Rows[0], &l); err != nil || l.Credential != p.Credential || string(l.Metrics) != `{"mmlu_pro":{"accuracy":0.738,"stderr":0.0041}}` {
		t.Errorf("%v: %s", err, page.Rows[0])
	}

	// The same run under another id, later: the same content, no new judges.
	other := strings.NewReplacer(`"submittedAt":1747000000000`, `"submittedAt":1747000000009`, `-000000738000"`, `-000000000009"`).Replace(attestation(t, a.PublicKey, 0.738))
	if again := w.propose(a, Eval, `{"kind":"ip.eval.run.attestation.v1","body":`+other+`,`+paths+`}`); again.ID != p.ID {
		t.Error("another run id made another proposal of the same results")
	}

	// A credential that another issuer signed is taken as it is.
	key := must[*seal.Key](t)(seal.NewKey(bytes.NewReader(a.key.Seed())))
	own := must[[]byte](t)(attest.Issue(attest.Draft{Issuer: a.PublicKey, Body: []byte(attestation(t, a.PublicKey, 0.5))}, attest.Signer{Key: key}))
	taken := w.propose(a, Eval, `{"credential":`+string(own)+`,`+paths+`}`)
	page = must[*Page](t)(w.List(ctx, Query{Limit: 1}))
	if err := json.Unmarshal(page.Rows[0], &l); err != nil || l.ID != taken.ID || l.Imported {
		t.Errorf("%v: %s", err, page.Rows[0])
	}
	forged := bytes.Replace(own, []byte("0.5,"), []byte("0.9,"), 1)
	_, err = w.Propose(ctx, a.Agent, Eval, []byte(`{"credential":`+string(forged)+`,`+paths+`}`), "")
	if refusal.ExitCode(err) != refusal.ExitUnverified {
		t.Errorf("a forged credential: %v", err)
	}
	// A wrong hash of the results.
	_, err = w.Propose(ctx, a.Agent, Eval, []byte(`{"kind":"eval.run.attestation.v1","body":`+strings.Replace(attestation(t, a.PublicKey, 0.738), "0.738", "0.938", 1)+`,`+paths+`}`), "")
	wantRefusal(t, err, refusal.ResultsHashMismatch)
}

func TestMintRevokeRotate(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.register(), w.register()
	body := []byte(`{"kind":"eval.run.attestation.v1","body":` + attestation(t, "did:web:my-org.example.com", 0.738) + `}`)
	m := must[*Minted](t)(w.Mint(ctx, a.Agent, body, "k"))
	if again := must[*Minted](t)(w.Mint(ctx, a.Agent, body, "k")); again.Digest != m.Digest || again.New || !m.New {
		t.Error("the same request minted another credential")
	}
	_, err := w.Mint(ctx, a.Agent, bytes.Replace(body, []byte("1747"), []byte("1748"), 1), "k")
	wantRefusal(t, err, refusal.IdempotencyConflict)
	other := must[*Minted](t)(w.Mint(ctx, a.Agent, body, "k2"))
	if *other.Status == *m.Status {
		t.Errorf("two credentials have the place %+v", m.Status)
	}

	verify := func(vc []byte) error {
		t.Helper()
		_, err := attest.Verify(vc, must[attest.Trust](t)(w.Trust(ctx)))
		return err
	}
	if err := verify(m.Credential); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, w.Revoke(ctx, b.Agent, m.Digest, "not mine", Once{}), refusal.NotAllowed)
	wantRefusal(t, w.Revoke(ctx, nil, digest.IDOf(nil), "what", Once{}), refusal.UnknownName)
	if err := w.Revoke(ctx, nil, m.Digest, "wrong dataset", Once{}); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, verify(m.Credential), refusal.CredentialRevoked)
	if err := w.Revoke(ctx, a.Agent, must[*Minted](t)(w.Mint(ctx, a.Agent, body, "k9")).Digest, "my own", Once{}); err != nil {
		t.Error(err)
	}
	if err := verify(other.Credential); err != nil {
		t.Errorf("its neighbour: %v", err)
	}

	// Rotation: the old key is listed as retired, old credentials verify with the
	// ledger, new ones with the new key, and what a thief signs with the old key
	// does not.
	old := w.ring.credential
	method := must[string](t)(w.RotateKey(ctx, CredentialPurpose))
	if method == old.method {
		t.Fatal("the key is the same")
	}
	if err := verify(other.Credential); err != nil {
		t.Errorf("a credential of the retired key: %v", err)
	}
	fresh := must[*Minted](t)(w.Mint(ctx, a.Agent, body, "k3"))
	if err := verify(fresh.Credential); err != nil {
		t.Errorf("a credential of the new key: %v", err)
	}
	stolen := must[[]byte](t)(attest.Issue(attest.Draft{Issuer: "did:web:registry.example", Body: []byte(attestation(t, "did:web:x.example", 0.9))}, attest.Signer{Key: old.key, Method: old.method}))
	wantRefusal(t, verify(stolen), refusal.SignerNotValidThen)
	jwks := string(must[*KeyDocuments](t)(w.Keys(ctx)).JWKS)
	if strings.Count(jwks, `"status":"retired"`) != 1 || strings.Count(jwks, `"status":"current"`) != 2 || !strings.Contains(jwks, chainKeyPrefix) {
		t.Errorf("jwks: %s", jwks)
	}
	// What the ledger has only after the retirement is as good as stolen.
	for _, k := range w.state.keys {
		if k.method == old.method {
			was := k.retiredAt
			k.retiredAt = other.Entry
			wantRefusal(t, verify(other.Credential), refusal.SignerNotValidThen)
			k.retiredAt = was
		}
	}
	w.reopen()
	if w.ring.credential.method != method {
		t.Error("after a restart another key signs")
	}
	if err := verify(other.Credential); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if _, err := w.RotateKey(ctx, ChainPurpose); err != nil {
		t.Error(err)
	}
	_, err = w.RotateKey(ctx, "nothing")
	wantRefusal(t, err, refusal.Usage)
}

func TestEveryCredentialHasAPlaceOfItsOwn(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	var mu sync.Mutex
	seen := map[evidence.StatusPlace]bool{}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			m, err := w.Mint(ctx, a.Agent, []byte(`{"kind":"eval.run.attestation.v1","body":`+attestation(t, "did:web:x.example", float64(i)/100)+`}`), "")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[*m.Status] {
				t.Errorf("two credentials have the place %+v: revoking one revokes the other", *m.Status)
			}
			seen[*m.Status] = true
		})
	}
	wg.Wait()
}

func TestWithoutAPublicAddressTheIssuerIsItsKey(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.PublicURL = "" })
	a := w.register()
	body := []byte(`{"kind":"eval.run.attestation.v1","body":` + attestation(t, "did:web:my-org.example.com", 0.738) + `}`)
	first := must[*Minted](t)(w.Mint(ctx, a.Agent, body, ""))
	if _, err := w.RotateKey(ctx, CredentialPurpose); err != nil {
		t.Fatal(err)
	}
	second := must[*Minted](t)(w.Mint(ctx, a.Agent, body, ""))
	for _, m := range []*Minted{first, second} {
		trust := must[attest.Trust](t)(w.Trust(ctx))
		trust.UnsafeSkipStatus = true
		if v, err := attest.Verify(m.Credential, trust); err != nil || !strings.HasPrefix(v.Issuer, "did:key:") {
			t.Errorf("%v", err)
		}
	}
}

func TestChainTiesTheManifestsOfAnArtifact(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	previous := must[*Proposal](t)(w.Proposal(ctx, must[*Node](t)(w.Tree(ctx, modelPath)).Proposal)).Chain.Signature
	for i := range 3 {
		p := w.propose(a, Eval, evalBody(0.1+float64(i)/10))
		if p.Chain.Previous != previous {
			t.Errorf("link %d follows %q, expected %q", i, p.Chain.Previous, previous)
		}
		previous = p.Chain.Signature
		if i == 1 {
			w.reopen()
		}
		message := must[[]byte](t)(recompute.Link{Artifact: modelPath, Manifest: w.state.proposals[p.ID].Manifest, Previous: p.Chain.Previous, Proposal: p.ID, Registry: w.settings.Origin}.Message())
		key := w.state.current(ChainPurpose)
		pub, sig := must[ed25519.PublicKey](t)(key.jwk.Ed25519()), must[[]byte](t)(seal.DecodeMultibase(p.Chain.SignatureEd25519))
		if key.jwk.KeyID != p.Chain.KeyID || !ed25519.Verify(pub, message, sig) {
			t.Errorf("link %d does not verify with the published key", i)
		}
	}
}

func TestDocumentsAreSignedOnlyIfTheOperatorSaysSo(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	doc := []byte(`{"@context":["https://www.w3.org/ns/credentials/v2"],"type":["VerifiableCredential"],"credentialSubject":{"id":"did:example:x"}}`)
	_, err := w.IssueDocument(ctx, a.Agent, doc, IssueOptions{})
	wantRefusal(t, err, refusal.NotAllowed)
	s := w.settings
	s.IssueDocuments = true
	writeFile(t, w.dir+"/registry.yaml", string(s.format()))
	w.reopen()
	signed := must[[]byte](t)(w.IssueDocument(ctx, a.Agent, doc, IssueOptions{CredentialID: "urn:uuid:1"}))
	if _, err := attest.VerifyDocument(signed, must[attest.Trust](t)(w.Trust(ctx))); err != nil {
		t.Error(err)
	}
	for name, change := range map[string][2]string{
		"an attestation of a run": {`"VerifiableCredential"]`, `"VerifiableCredential","EvalRunAttestationCredential"]`},
		"a status list":           {`"VerifiableCredential"]`, `"VerifiableCredential","BitstringStatusListCredential"]`},
		"another issuer":          {`"type"`, `"issuer":"did:web:other.example","type"`},
		"not a credential":        {`"VerifiableCredential"`, `"Other"`},
		"another context":         {`credentials/v2`, `credentials/v1`},
		"no subject":              {`{"id":"did:example:x"}`, `{}`},
		"a proof":                 {`"type"`, `"proof":{},"type"`},
	} {
		if _, err := w.IssueDocument(ctx, a.Agent, []byte(strings.Replace(string(doc), change[0], change[1], 1)), IssueOptions{}); err == nil {
			t.Errorf("%s is signed", name)
		}
	}
}

func TestTakenDownTextIsGoneEverywhere(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	const secret = "the private telephone number of a person"
	p := w.propose(a, Eval, strings.Replace(evalBody(0.7), `"seed":42`, `"seed":42,"contact":"`+secret+`"`, 1))
	blob := w.state.proposals[p.ID].Manifest
	wantRefusal(t, w.TakeDown(ctx, blob, "because"), refusal.Usage)
	wantRefusal(t, w.TakeDown(ctx, digest.ContentOf(nil), "privacy"), refusal.UnknownName)
	page := must[*Page](t)(w.List(ctx, Query{}))
	if !bytes.Contains(page.JSON, []byte(secret)) {
		t.Fatal("the text is not in the row to begin with")
	}
	if err := w.TakeDown(ctx, blob, "privacy"); err != nil {
		t.Fatal(err)
	}
	noneHas(t, w.dir, secret)
	if page := must[*Page](t)(w.List(ctx, Query{})); bytes.Contains(page.JSON, []byte(secret)) || !bytes.Contains(page.JSON, []byte(`"takenDown":true`)) {
		t.Errorf("the row: %s", page.JSON)
	}
	if got := must[*Proposal](t)(w.Proposal(ctx, p.ID)); got.Manifest != nil || !got.TakenDown {
		t.Errorf("the proposal: %+v", got)
	}
	_, err := w.Blob(ctx, blob)
	wantRefusal(t, err, refusal.TakenDown)
	// Its tombstone is in the ledger, and its entry still has a receipt.
	if _, err := w.Receipt(ctx, p.Entry); err != nil {
		t.Error(err)
	}
	raw := must[[][]byte](t)(w.Entries(ctx, w.Stats().Entries-1, 1))
	if _, body, err := evidence.DecodeEntry(raw[0]); err != nil || body.(*evidence.RegistryTakenDown).Blob != blob {
		t.Errorf("%v: %s", err, raw[0])
	}
	// It does not come back, as another proposal or as anything else.
	again := w.propose(a, Eval, strings.Replace(evalBody(0.7), `"seed":42`, `"seed":42,"contact":"`+secret+`"`, 1))
	if again.ID != p.ID || again.New {
		t.Errorf("proposed again: %+v", again)
	}
	text := `{"path":"/artifacts/other/note","text":"another ` + secret + `"}`
	note := w.propose(a, Artifact, text)
	if err := w.TakeDown(ctx, w.state.proposals[note.ID].Manifest, "privacy"); err != nil {
		t.Fatal(err)
	}
	_, err = w.Register(ctx, SignUp{Profile: []byte(text)})
	wantRefusal(t, err, refusal.TakenDown)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	noneHas(t, w.dir, secret)
	if _, err := Rebuild(ctx, w.options()); err != nil {
		t.Fatal(err)
	}
	noneHas(t, w.dir, secret)
	w.open()
}

// A crash may come between the tombstone and the removal.
func TestTakeDownIsFinishedAtTheNextOpening(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	const secret = "a text that must not stay"
	p := w.propose(a, Artifact, `{"path":"/artifacts/other/x","text":"`+secret+`"}`)
	blob := w.state.proposals[p.ID].Manifest
	packs := must[[]string](t)(filepath.Glob(filepath.Join(w.dir, "blobs", "*.pack")))
	kept := map[string][]byte{}
	for _, name := range packs {
		kept[name] = must[[]byte](t)(os.ReadFile(name))
	}
	if err := w.TakeDown(ctx, blob, "abuse"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, data := range kept { // as if the removal had not happened
		writeFile(t, name, string(data))
	}
	w.open()
	noneHas(t, w.dir, secret)
}

// The key that chains manifests is in the key set too. A holder of it cannot issue in
// the registry's name, to the registry or to a verifier with its key documents.
func TestChainKeyIssuesNothing(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	chain := w.ring.chain
	forged := must[[]byte](t)(attest.Issue(attest.Draft{Issuer: w.ring.did, Imported: true, ValidFrom: w.clock(), Body: []byte(attestation(t, "did:web:x.example", 0.99))},
		attest.Signer{Key: chain.key, Method: chain.method, Created: w.clock()}))

	docs := must[*KeyDocuments](t)(w.Keys(ctx))
	kidOf := func(k signingKey) string { _, kid, _ := strings.Cut(k.method, "#"); return kid }
	if !strings.Contains(string(docs.JWKS), `"`+kidOf(chain)+`"`) {
		t.Fatalf("%s is not in the key set", kidOf(chain))
	}
	alone := attest.Trust{Now: w.clock(), Keys: &attest.Keys{}}
	if err := alone.Keys.AddJWKS(w.ring.did, docs.JWKS); err != nil {
		t.Fatal(err)
	}
	for name, trust := range map[string]attest.Trust{"with the key set": alone, "as the registry serves it": must[attest.Trust](t)(w.Trust(ctx))} {
		if _, err := attest.Verify(forged, trust); !refusal.Is(err, refusal.SignerUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.Propose(ctx, a.Agent, Eval, []byte(fmt.Sprintf(`{"credential":%s,"artifactPath":%q,"evalHarnessPath":%q,"datasetPath":%q}`, forged, modelPath, harnessPath, datasetPath)), "")
	wantRefusal(t, err, refusal.SignerUnknown)

	// Nor does the key for credentials chain manifests.
	_, err = w.chainKey(ctx, kidOf(w.ring.credential))
	if wantRefusal(t, err, refusal.SignerUnknown); !strings.Contains(err.Error(), "is for \"credential\"") {
		t.Error(err)
	}
	if _, err := w.chainKey(ctx, kidOf(chain)); err != nil {
		t.Error(err)
	}
}

package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
)

func envelope(body string) string { return `{"kind":"eval.run.attestation.v1","body":` + body + `}` }

func TestDryRunAnswersWithTheEnvelope(t *testing.T) {
	p := newPlace(t, nil)
	before := p.reg.Stats().Entries
	a := p.post("/api/credentials/dry-run", "", envelope(exampleBody)).is(200)
	if a.has("valid") != "true" || a.has("schemaUrl") != "/credentials/eval-run/v1" {
		t.Errorf("%s", a.Body)
	}
	wrong := p.post("/api/credentials/dry-run", "", envelope(strings.Replace(exampleBody, "5fa18ba4", "00000000", 1))).is(200)
	if wrong.has("valid") != "false" || wrong.has("resultsHashMismatch.computed") != "5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc" {
		t.Errorf("%s", wrong.Body)
	}
	if after := p.reg.Stats().Entries; after != before {
		t.Errorf("a dry run made %d entries", after-before)
	}
}

func TestTheWayOfACredential(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.post("/api/credentials/mint", m.key, envelope(strings.Replace(exampleBody, "5fa18ba4", "00000000", 1))).is(400)
	minted := p.post("/api/credentials/mint", m.key, envelope(exampleBody), "Idempotency-Key", "m1").is(201)
	if again := p.post("/api/credentials/mint", m.key, envelope(exampleBody), "Idempotency-Key", "m1").is(200); again.has("digest") != minted.has("digest") {
		t.Errorf("another credential: %s", again.Body)
	}
	address, ok := strings.CutPrefix(minted.has("id"), base)
	if !ok {
		t.Fatalf("id: %s", minted.has("id"))
	}
	fetched := p.get(address).is(200)
	credential := fetched.Body.Bytes()
	p.get(strings.Replace(address, "eval.run", "sandbox.run", 1)).is(400)
	p.get(address + "0").is(404)

	// It verifies offline with what the registry publishes, and with nothing less.
	keys := &attest.Keys{}
	if err := keys.AddDID(p.get("/.well-known/did.json").is(200).Body.Bytes()); err != nil {
		t.Fatal(err)
	}
	p.get("/did.json").is(200)
	status := p.get("/credentials/status/0").is(200)
	trust := attest.Trust{Keys: keys, Now: p.clock().Add(time.Minute), StatusLists: [][]byte{status.Body.Bytes()}}
	v, err := attest.Verify(credential, trust)
	if err != nil || !v.StatusChecked || v.Issuer != "did:web:r.example" || v.Digest.String() != minted.has("digest") {
		t.Fatalf("%v, %+v", err, v)
	}

	verify := func(document []byte) answer {
		return p.post("/credentials/verify", "", `{"verifiableCredential":`+string(document)+`}`)
	}
	verify(credential).is(200)
	if a := p.post("/api/knowledge/attestation/verify", "", `{"credential":`+string(credential)+`}`).is(200); a.has("verified") != "true" || a.has("verifiedVia") != "eddsa-jcs-2022" {
		t.Errorf("%s", a.Body)
	}
	// Every changed bit of the signature, and a raised score, are refused.
	forged := bytes.Replace(credential, []byte("0.738"), []byte("0.938"), 1)
	if a := verify(forged).is(400); a.has("verified") != "false" {
		t.Errorf("%s", a.Body)
	}
	if a := p.post("/api/knowledge/attestation/verify", "", `{"credential":`+string(forged)+`}`).is(200); a.has("verified") != "false" {
		t.Errorf("%s", a.Body)
	}

	// Badges say what is so, as JSON and as a picture.
	_, hex, _ := strings.Cut(minted.has("digest"), ":")
	badge := "/api/badge/v1/attestation/eval.run.attestation.v1/" + hex
	if got := p.get(badge).is(200).has("message"); got != "attested" {
		t.Errorf("badge: %s", got)
	}
	if svg := p.get(badge + ".svg").is(200); !strings.HasPrefix(svg.Body.String(), "<svg") || svg.Header().Get("Content-Type") != "image/svg+xml" {
		t.Errorf("%s", svg.Body)
	}
	p.get(strings.Repeat("0", 64)).is(400)
	p.get("/api/badge/v1/attestation/eval.run.attestation.v1/" + strings.Repeat("0", 64)).is(404)
	p.get("/api/badge/v1/attestation/eval.run.attestation.v1/x").is(400)
	p.get("/api/badge/v1/attestation/nonsense/" + hex).is(400)

	// Revoked by the agent that had it minted, and by no other.
	revocation := `{"credential":"` + minted.has("digest") + `","reason":"contaminated"}`
	p.post("/api/credentials/revoke", p.register().key, revocation).is(403)
	p.post("/api/credentials/revoke", m.key, `{"credential":"`+digest.IDOf([]byte("x")).String()+`","reason":"x"}`).is(404)
	verify(credential).is(200)
	p.post("/api/credentials/revoke", m.key, revocation).is(200)
	if a := verify(credential).is(400); !strings.Contains(a.Body.String(), "revo") {
		t.Errorf("%s", a.Body)
	}
	if got := p.get(badge).is(200).has("message"); got != "revoked" {
		t.Errorf("badge: %s", got)
	}
	list := p.get("/credentials/status/0").is(200)
	if list.Header().Get("ETag") == status.Header().Get("ETag") {
		t.Error("the list changed and its tag did not")
	}
	trust.StatusLists = [][]byte{list.Body.Bytes()}
	if _, err := attest.Verify(credential, trust); err == nil {
		t.Error("the status list does not say that it is revoked")
	}
	p.get("/credentials/status/99").is(404)
}

func TestOneRequestMakesRowAndCredential(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.artifacts(m)
	body := `{"kind":"ip.eval.run.attestation.v1","body":` + exampleBody + `,"artifactPath":"` + modelPath + `","evalHarnessPath":"` + harnessPath + `","datasetPath":"` + datasetPath + `"}`
	a := p.post("/api/knowledge/eval/propose", m.key, body).is(201)
	row := p.get("/api/knowledge/eval/list").is(200)
	address, ok := strings.CutPrefix(row.has("0.credential"), base)
	if !ok || row.has("0.proposalId") != a.has("proposalId") || a.has("credential") != row.has("0.credential") {
		t.Fatalf("%s", row.Body)
	}
	p.get(address).is(200)

	// A credential is public. An agent that proposes another's does not come to own it.
	thief := p.register()
	credential := p.get(address).is(200).Body.String()
	listed := func(model, harness, dataset string) string {
		return `{"credential":` + credential + `,"artifactPath":"` + model + `","evalHarnessPath":"` + harness + `","datasetPath":"` + dataset + `"}`
	}
	if again := p.post("/api/knowledge/eval/propose", thief.key, listed(modelPath, harnessPath, datasetPath)); again.Code >= 300 {
		t.Errorf("listed where it belongs: %d %s", again.Code, again.Body)
	}
	// Under a name that it does not belong to it is refused, however that is spelled.
	for thing, paths := range map[string][]string{
		"model":        {"/artifacts/models/thief/own", "/artifacts/models/thief/acme/tiny", "/artifacts/models/acme/tiny/v2", "/artifacts/models/acme/tiny-2", "/artifacts/models/tiny", "/artifacts/models/openai/acme/tiny"},
		"eval-harness": {"/artifacts/eval-harnesses/inspect/v1", "/artifacts/eval-harnesses/lm-eval-harness-2/v1", "/artifacts/eval-harnesses/lm-eval-harness/v1/more"},
	} {
		for _, path := range paths {
			if a := p.post("/api/knowledge/"+thing+"/propose", thief.key, `{"path":"`+path+`"}`); a.Code != 201 {
				continue // a path below another's name, or one that looks like it, is refused already
			}
			body := listed(path, harnessPath, datasetPath)
			if thing == "eval-harness" {
				body = listed(modelPath, path, datasetPath)
			}
			if a := p.post("/api/knowledge/eval/propose", thief.key, body).is(400); a.has("name") != "PathDisagrees" {
				t.Errorf("%s: %s", path, a.Body)
			}
		}
	}
	// What the manifest of a path states is compared too.
	for _, stated := range []struct{ thing, path, member, model, harness, dataset string }{
		{"dataset", "/artifacts/datasets/other", `"datasetSha":"3333333333333333333333333333333333333333333333333333333333333333"`, modelPath, harnessPath, "/artifacts/datasets/other"},
		{"eval-harness", "/artifacts/eval-harnesses/lm-eval-harness/v9", `"harnessVersionSha":"3333333333333333333333333333333333333333333333333333333333333333"`, modelPath, "/artifacts/eval-harnesses/lm-eval-harness/v9", datasetPath},
	} {
		p.post("/api/knowledge/"+stated.thing+"/propose", thief.key, `{"path":"`+stated.path+`",`+stated.member+`}`).is(201)
		if a := p.post("/api/knowledge/eval/propose", thief.key, listed(stated.model, stated.harness, stated.dataset)).is(400); a.has("name") != "PathDisagrees" {
			t.Errorf("%s: %s", stated.path, a.Body)
		}
	}
	// Row, proposal and page show what the body is about, who says that who ran it, and who
	// proposed it.
	for _, shown := range []answer{row, p.get("/proposal/" + a.has("proposalId")).is(200)} {
		at := ""
		if shown.Body.Bytes()[0] == '[' {
			at = "0."
		}
		for member, want := range map[string]string{
			"attested.modelId": "huggingface://acme/tiny", "attested.datasetSha": strings.Repeat("2", 64), "attested.harnessId": "lm-eval-harness",
			"attested.runnerDid": "did:web:my-org.example.com", "attested.runnerProof": "claimed", "attested.issuer": "did:web:r.example", "agent": m.id,
		} {
			if got := shown.has(at + member); got != want {
				t.Errorf("%s is %q, want %q", member, got, want)
			}
		}
	}
	page := p.get("/evaluation/"+a.has("proposalId"), "Accept", "text/html").is(200).Body.String()
	for _, want := range []string{"huggingface://acme/tiny", strings.Repeat("2", 64), "claimed: the body is not signed", m.id} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	text, err := canon.Canonicalize([]byte(credential))
	if err != nil {
		t.Fatal(err)
	}
	revocation := `{"credential":"` + digest.IDOf(text).String() + `","reason":"not mine"}`
	p.post("/api/credentials/revoke", thief.key, revocation).is(403)
	p.post("/api/credentials/revoke", m.key, revocation).is(200)
}

// A run has one content. Another is refused with where the first is, however the id is
// spelled and whichever way it comes; the same again is not.
func TestARunHasOneContent(t *testing.T) {
	p := newPlace(t, nil)
	m, other := p.register(), p.register()
	p.artifacts(m)
	lower := strings.Replace(exampleBody, "00000000-0000-4000-8000-000000000000", "abcdef00-0000-4000-8000-00000000000a", 1)
	minted := p.post("/api/credentials/mint", m.key, envelope(lower)).is(201)
	p.post("/api/credentials/mint", other.key, envelope(lower)).is(201)
	first := minted.has("id")
	paths := `,"artifactPath":"` + modelPath + `","evalHarnessPath":"` + harnessPath + `","datasetPath":"` + datasetPath + `"}`
	upper := strings.Replace(lower, "abcdef00-0000-4000-8000-00000000000a", "ABCDEF00-0000-4000-8000-00000000000A", 1)
	for name, changed := range map[string]string{
		"another time":   strings.Replace(lower, "1747000000000", "1747000000001", 1),
		"another result": strings.Replace(strings.Replace(lower, "0.738", "0.5", 1), "5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc", resultsHash(t, `{"mmlu_pro":{"accuracy":0.5,"stderr":0.0041}}`), 1),
		"in capitals":    strings.Replace(upper, "1747000000000", "1747000000001", 1),
	} {
		for _, who := range []member{m, other} {
			a := p.post("/api/credentials/mint", who.key, envelope(changed)).is(409)
			if a.has("name") != "RunTaken" || a.has("first") != first {
				t.Errorf("%s: %s, the first is %s", name, a.Body, first)
			}
		}
		if a := p.post("/api/knowledge/eval/propose", m.key, `{"kind":"eval.run.attestation.v1","body":`+changed+paths).is(409); a.has("first") != first {
			t.Errorf("%s, proposed: %s", name, a.Body)
		}
	}
	// At the same moment only one of them is taken.
	var all sync.WaitGroup
	codes := make([]int, 20)
	for i := range codes {
		body := strings.Replace(strings.Replace(exampleBody, "8000-000000000000", "8000-00000000000b", 1), "1747000000000", fmt.Sprint(1747000000000+i), 1)
		all.Go(func() { codes[i] = p.post("/api/credentials/mint", m.key, envelope(body)).Code })
	}
	all.Wait()
	taken := 0
	for _, code := range codes {
		if code == 201 {
			taken++
		} else if code != 409 {
			t.Errorf("answered %d", code)
		}
	}
	if taken != 1 {
		t.Errorf("%d contents of one run were taken", taken)
	}
}

// Equal proposals at the same moment have one answer: the proposal that there is.
func TestARaceOfEqualProposalsHasOneAnswer(t *testing.T) {
	p := newPlace(t, nil)
	var agents []member
	for range 8 {
		agents = append(agents, p.register())
	}
	for round := range 5 {
		body := fmt.Sprintf(`{"path":"/artifacts/models/acme/race%d"}`, round)
		answers := make([]answer, len(agents))
		var all sync.WaitGroup
		for i, m := range agents {
			all.Go(func() { answers[i] = p.post("/api/knowledge/model/propose", m.key, body) })
		}
		all.Wait()
		made := 0
		for _, a := range answers {
			if a.Code == 201 {
				made++
			} else if a.Code != 200 {
				t.Errorf("answered %d: %s", a.Code, a.Body)
			}
			if a.has("proposalId") != answers[0].has("proposalId") {
				t.Errorf("two proposals: %s and %s", a.Body, answers[0].Body)
			}
		}
		if made != 1 {
			t.Errorf("%d of them were made", made)
		}
	}
}

// The dry run and the mint come to the same, with proofs and without, on bodies that are
// broken in every member.
func TestDryRunAndMintAgree(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	key, err := seal.NewKey(fixedReader{})
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := key.Public().Ed25519()
	did := seal.DIDKey(pub)
	random := rand.New(rand.NewPCG(1, 2))
	values := []any{nil, true, "", "x", 0, -1, 0.5, 1747000000, 1e15, 1e300, []any{}, []any{"a"}, map[string]any{}, map[string]any{"method": "ngram"}, "did:key:z", strings.Repeat("a", 64), "1.0.0"}
	names := []string{"schemaVersion", "runId", "harnessId", "harnessVersionSha", "evalCodeSha", "modelId", "modelVersionSha", "datasetSha", "runnerDid", "submittedAt", "completedAt",
		"results", "resultsHash", "judgesDigest", "contaminationCheck", "scaffoldDelta", "sandboxRunId", "samplingParams", "mtebTaskType", "extra", "proof", "more", "@context"}
	valid := 0
	for n := range 1000 {
		var body map[string]any
		if err := json.Unmarshal([]byte(exampleBody), &body); err != nil {
			t.Fatal(err)
		}
		body["runId"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", n+100)
		signed := n%2 == 0
		if signed {
			body["runnerDid"] = did
		}
		broken := func() {
			if name := names[random.IntN(len(names))]; random.IntN(4) == 0 {
				delete(body, name)
			} else {
				body[name] = values[random.IntN(len(values))]
			}
		}
		if n%3 == 1 {
			broken()
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if signed {
			if s, err := attest.SignBody(text, attest.Signer{Key: key, Method: seal.DIDKeyMethod(pub), Created: p.clock()}); err == nil {
				text = s
			}
			if n%3 == 2 { // changed after it was signed
				if err := json.Unmarshal(text, &body); err != nil {
					t.Fatal(err)
				}
				broken()
				if text, err = json.Marshal(body); err != nil {
					t.Fatal(err)
				}
			}
		}
		sent := envelope(string(text))
		if n%5 == 0 {
			sent = string(text)
		}
		dry := p.post("/api/credentials/dry-run", "", sent)
		report, err := claim.DryRun([]byte(sent), registry.RunnerTrust(p.clock()))
		minted := p.post("/api/credentials/mint", m.key, sent)
		says := dry.Code == 200 && dry.has("valid") == "true"
		if offline := err == nil && report.Valid; says != (minted.Code == 201) || says != offline {
			t.Errorf("%s\nthe dry run %d %s, the command %v, the mint %d %s", text, dry.Code, dry.Body, offline, minted.Code, minted.Body)
		}
		if says {
			valid++
		}
	}
	if valid < 300 || valid > 900 {
		t.Errorf("%d of 1000 were valid: that compares little", valid)
	}
}

func resultsHash(t *testing.T, results string) string {
	t.Helper()
	text, err := canon.Canonicalize([]byte(results))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(digest.IDOf(text).String(), "sha256:")
}

// Nothing is fetched: a did:web of another issuer verifies with its document in the
// request, and without it not at all.
func TestDocumentsOfOthersComeWithTheRequest(t *testing.T) {
	p := newPlace(t, nil)
	key, err := seal.NewKey(fixedReader{})
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := key.Public().Ed25519()
	const did = "did:web:127.0.0.1%3A1:steal"
	signed, err := attest.Issue(attest.Draft{Issuer: did, Body: []byte(exampleBody), Imported: true}, attest.Signer{Key: key, Method: did + "#k1"})
	if err != nil {
		t.Fatal(err)
	}
	document := `{"id":"` + did + `","verificationMethod":[{"id":"#k1","type":"Multikey","controller":"` + did + `","publicKeyMultibase":"` + seal.Multikey(pub) + `"}],"assertionMethod":["#k1"]}`
	without := `{"verifiableCredential":` + string(signed) + `}`
	with := `{"verifiableCredential":` + string(signed) + `,"options":{"didDocuments":[` + document + `]}}`
	p.post("/credentials/verify", "", without).is(400)
	p.post("/credentials/verify", "", with).is(200)
	// The document of another cannot stand in for the registry's own keys.
	ours := strings.ReplaceAll(document, did, "did:web:r.example")
	forged, err := attest.Issue(attest.Draft{Issuer: "did:web:r.example", Body: []byte(exampleBody), Imported: true}, attest.Signer{Key: key, Method: "did:web:r.example#k1"})
	if err != nil {
		t.Fatal(err)
	}
	if a := p.post("/credentials/verify", "", `{"verifiableCredential":`+string(forged)+`,"options":{"didDocuments":[`+ours+`]}}`); a.Code != 400 {
		t.Errorf("another issuer's key passes as the registry's: %d %s", a.Code, a.Body)
	}
	many := strings.TrimSuffix(strings.Repeat("{},", maxGiven+1), ",")
	p.post("/credentials/verify", "", `{"verifiableCredential":`+string(signed)+`,"options":{"didDocuments":[`+many+`]}}`).is(413)
	p.post("/api/knowledge/attestation/verify", "", `{"credential":`+string(signed)+`,"options":{"statusLists":[`+many+`]}}`).is(413)
	if a := p.post("/api/knowledge/attestation/verify", "", `{"credential":`+string(signed)+`,"options":{"didDocuments":[`+document+`]}}`).is(200); a.has("verified") != "true" {
		t.Errorf("%s", a.Body)
	}
	for _, body := range []string{`{}`, `{"proposalId":"x","credential":{}}`, `{"credential":1}`} {
		if a := p.post("/api/knowledge/attestation/verify", "", body); a.Code != 400 && (a.Code != 200 || a.has("verified") != "false") {
			t.Errorf("%s: %d %s", body, a.Code, a.Body)
		}
	}
	p.post("/api/knowledge/attestation/verify", "", `{"proposalId":"nonsense"}`).is(404)
}

// fixedReader makes the same key each time.
type fixedReader struct{}

func (fixedReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 7
	}
	return len(b), nil
}

func TestDocumentsOfARegistry(t *testing.T) {
	p := newPlace(t, nil)
	for target, want := range map[string]string{
		"/credentials/eval-run/v1":                             "ip.eval.run.attestation.v1",
		"/docs/schemas/ip.eval.run.attestation.v1.schema.json": "ip.eval.run.attestation.v1",
		"/credentials/index.json":                              `"canonicalKind":"ip.eval.run.attestation.v1"`,
		"/.well-known/jwks.json":                               `"Ed25519"`,
		"/.well-known/ip-knowledge.json":                       base + "/api/knowledge/{kind}/propose",
		"/":                                                    `"did":"did:web:r.example"`,
		"/api/knowledge/signing-keys":                          "JudgmentProof",
		"/docs/verification-recipe.md":                         base + "/receipt/INDEX",
		"/openapi.json":                                        `"openapi":"3.1.0"`,
		"/checkpoint":                                          "registry.test/log\n",
		"/healthz":                                             "ok\n",
		"/readyz":                                              "ok\n",
		"/entries?from=0&n=1":                                  `{"body":`,
		"/receipt/0":                                           "c2sp.org/tlog-proof@v1\n",
		"/api/knowledge/eval/list?status=all&runner=x":            "[]",
		"/api/knowledge/eval/list?artifact=/artifacts/models/a/b": "[]",
	} {
		if a := p.get(target); a.Code != 200 || !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s: %d, no %q in %.300s", target, a.Code, want, a.Body)
		}
	}
	if a := p.get("/docs/verification-recipe.md"); strings.Contains(a.Body.String(), "{{") {
		t.Errorf("the recipe has places that were not filled: %s", a.Body)
	}
	p.get("/receipt/999999").is(404)
	p.get("/metrics").is(404)
	var set struct{ Keys []map[string]any }
	if err := json.Unmarshal(p.get("/.well-known/jwks.json").Body.Bytes(), &set); err != nil {
		t.Fatal(err)
	}
	chain := false
	for _, k := range set.Keys {
		kid, _ := k["kid"].(string)
		chain = chain || strings.Contains(kid, "ip-attestation-chain-")
	}
	if !chain {
		t.Errorf("no key of the manifest chain among %v", set.Keys)
	}
}

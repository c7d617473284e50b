package client

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/recompute"
	"tallystick/internal/share/attest/claim"
)

const testAPIKey = "ak_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

var testPaths = claim.Paths{Artifact: "/artifacts/models/a/m", Harness: "/artifacts/eval-harnesses/h/v1", Dataset: "/artifacts/datasets/d"}

func TestAddressesThatCouldGiveTheKeyAwayAreRefused(t *testing.T) {
	for address, want := range map[string]string{
		"https://registry.example":           "",
		"https://registry.example/below/":    "",
		"http://127.0.0.1:8080":              "",
		"http://localhost:8080":              "",
		"http://[::1]:8080":                  "",
		"http://registry.example":            "every machine on the way",
		"http://127.0.0.1.example":           "every machine on the way",
		"https://ak_secret@registry.example": "a user or a password",
		"https://registry.example?key=ak_x":  "a query",
		"https://registry.example#x":         "a fragment",
		"ftp://registry.example":             "scheme",
		"registry.example":                   "names no host",
		"https:registry.example":             "names no host",
		"https://ak_secret:%zz@host":         "it is not a URL",
	} {
		_, err := New(Options{URL: address})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", address, err)
		case want != "" && (!refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", address, err, want)
		case err != nil && strings.Contains(err.Error(), "ak_"):
			t.Errorf("%s: the message shows a key: %v", address, err)
		}
	}
	if _, err := New(Options{URL: "http://registry.example", AllowHTTP: true}); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"secret", "ak_", "ak_" + strings.Repeat("x", 19) + "\n" + strings.Repeat("x", 19), "-----BEGIN OPENSSH PRIVATE KEY-----"} {
		if _, err := New(Options{URL: "https://registry.example", APIKey: key}); err == nil || len(key) > 3 && strings.Contains(err.Error(), key) {
			t.Errorf("API key %q: %v", key, err)
		}
	}
}

// serve answers every request with one handler.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL, APIKey: testAPIKey})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	reached := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer elsewhere.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	_, err := c.Post(context.Background(), "/x", []byte("{}"), "")
	if !refusal.Is(err, refusal.Unreadable) || !strings.Contains(err.Error(), "redirects") || reached {
		t.Errorf("got %v, reached elsewhere: %v", err, reached)
	}
	for address, want := range map[string]string{
		elsewhere.URL + "/x": "an address elsewhere", "//" + strings.TrimPrefix(elsewhere.URL, "http://") + "/x": "an address elsewhere",
		"x": "does not begin with /", "%zz": "that is not one",
	} {
		if _, err := c.Get(context.Background(), address); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), want) || reached {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}

func TestTheKeyIsSentOnlyInItsHeader(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer "+testAPIKey || strings.Contains(r.URL.String()+string(body), "ak_") {
			t.Errorf("%s %s %s", r.Header, r.URL, body)
		}
		if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Idempotency-Key") != "k" {
			t.Errorf("%s", r.Header)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	a, err := c.Post(context.Background(), "/x?y=z", []byte("{}"), "k")
	if err != nil || a.Status != http.StatusTeapot {
		t.Fatal(a, err)
	}
	if strings.Contains(a.Err().Error(), "ak_") {
		t.Error(a.Err())
	}
}

func TestHostileAnswersAreRefused(t *testing.T) {
	good := `{"proposalId":"p","ipPath":"/artifacts/evals/p","status":"pending","entry":1,"more":{}}`
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   refusal.Name
	}{
		{"as it should be", 201, good, ""}, // and what it has more is not looked at
		{"a name twice", 201, `{"proposalId":"p","proposalId":"q","ipPath":"/a","status":"pending"}`, refusal.Malformed},
		{"no proposal", 200, `{}`, refusal.Malformed},
		{"a page for people", 200, "<html>hello", refusal.Malformed},
		{"nothing", 201, "", refusal.Malformed},
		{"a path that is not one", 201, `{"proposalId":"p","ipPath":"evil","status":"pending"}`, refusal.Malformed},
		{"too much", 200, strings.Repeat(" ", MaxAnswer+1), refusal.TooLarge},
		{"another type", 200, `{"proposalId":7}`, refusal.Malformed},
		{"bad request", 400, `{"error":"\u001b[2Jno such artifact","name":"UnknownPath","proposeRoute":"/api/knowledge/model/propose"}`, refusal.Malformed},
		{"no key", 401, `{"error":"who are you"}`, refusal.TokenRefused},
		{"not allowed", 403, `{"error":"no"}`, refusal.TokenRefused},
		{"there already", 409, `{"error":"no"}`, refusal.AlreadyExists},
		{"too fast", 429, `{"error":"slow down"}`, refusal.LimitReached},
		{"broken", 500, `oops`, refusal.Failed},
		{"gone", 410, `oops`, refusal.NotFound},
		{"too large", 413, `oops`, refusal.TooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			_, err := c.Publish(context.Background(), &Publication{Body: []byte("{}"), Paths: testPaths})
			if tt.want == "" && err != nil || tt.want != "" && !refusal.Is(err, tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if err != nil && strings.ContainsAny(err.Error()+refusal.Of(err).Hint, "\x1b\n") {
				t.Errorf("%q", err)
			}
			for status, hint := range map[int]string{401: "tally registry register", 429: "try again in 7 seconds"} {
				if tt.status == status && !strings.Contains(refusal.Of(err).Hint, hint) {
					t.Errorf("hint %q, want %q", refusal.Of(err).Hint, hint)
				}
			}
			if tt.status == 400 && !strings.Contains(refusal.Of(err).Hint, "/api/knowledge/model/propose") {
				t.Errorf("the hint does not say where to propose: %q", refusal.Of(err).Hint)
			}
		})
	}
}

func TestOnePostCarriesTheDocumentAndThePaths(t *testing.T) {
	vc := `{"@context":["x"],"credentialSubject":{"runId":"r"},"proof":{"proofValue":"z"}}`
	body := `{"resultsHash":"h","runId":"r"}`
	for _, tt := range []struct{ name, document, want string }{
		{"a credential", vc, `"credential":` + vc},
		{"a body", body, `"body":` + body + `,"kind":"ip.eval.run.attestation.v1"`},
		{"an envelope", `{"kind":"eval.run.attestation.v1","body":` + body + `}`, `"body":` + body + `,"kind":"ip.eval.run.attestation.v1"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, ok := NewPublication([]byte(tt.document), testPaths)
			if !ok {
				t.Fatal("not recognised")
			}
			text, err := p.envelope()
			want := `{` + tt.want + `,"registry":{"artifactPath":"/artifacts/models/a/m","datasetPath":"/artifacts/datasets/d","evalHarnessPath":"/artifacts/eval-harnesses/h/v1"}}`
			if err != nil || string(text) != want {
				t.Errorf("got  %s %v\nwant %s", text, err, want)
			}
		})
	}
	for _, other := range []string{`{"results":{}}`, `[1]`, `x`, `{"runId":"r"}`} {
		if _, ok := NewPublication([]byte(other), testPaths); ok {
			t.Errorf("%s was taken for an attestation", other)
		}
	}
	p := &Publication{Body: []byte(body), Paths: claim.Paths{Artifact: "/artifacts/models/m", Harness: "h", Dataset: "/artifacts/datasets/d"}}
	if _, err := p.envelope(); !refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), "--harness") {
		t.Error(err)
	}
}

func TestRegisterKeepsThePrivateKeyHere(t *testing.T) {
	dir := KeyDir(t.TempDir(), "127.0.0.1:8080")
	var sent map[string]any
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		json.NewDecoder(r.Body).Decode(&sent)
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]any{"agent": "a1", "apiKey": testAPIKey, "publicKey": sent["publicKey"], "url": "x"})
	})
	made, err := c.Register(context.Background(), APIKeyFile(dir), AgentKeyFile(dir), "Ada")
	if err != nil {
		t.Fatal(err)
	}
	if len(sent) != 2 || !strings.HasPrefix(sent["publicKey"].(string), "did:key:z6Mk") || made.PublicKey != sent["publicKey"] {
		t.Errorf("sent %v, made %+v", sent, made)
	}
	for _, file := range []string{APIKeyFile(dir), AgentKeyFile(dir)} {
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, st, err)
		}
	}
	if key, err := LoadAPIKey(APIKeyFile(dir)); err != nil || key != testAPIKey {
		t.Errorf("%q %v", key, err)
	}
	if _, err := c.Register(context.Background(), APIKeyFile(dir), AgentKeyFile(dir), ""); !refusal.Is(err, refusal.AlreadyExists) {
		t.Errorf("a key was overwritten: %v", err)
	}
	os.Chmod(APIKeyFile(dir), 0o644)
	if _, err := LoadAPIKey(APIKeyFile(dir)); !refusal.Is(err, refusal.KeyModeTooOpen) {
		t.Error(err)
	}
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("-----BEGIN OPENSSH PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAPIKey(junk); !refusal.Is(err, refusal.Malformed) || strings.Contains(err.Error(), "OPENSSH") {
		t.Error(err)
	}
	if _, err := LoadAPIKey(filepath.Join(dir, "none")); !refusal.Is(err, refusal.NotFound) {
		t.Error(err)
	}
}

func TestARegistryThatGivesNoAPIKeyIsRefused(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var sent map[string]any
		json.NewDecoder(r.Body).Decode(&sent)
		json.NewEncoder(w).Encode(map[string]any{"agent": "a1", "apiKey": "hello", "publicKey": sent["publicKey"]})
	})
	dir := t.TempDir()
	if _, err := c.Register(context.Background(), APIKeyFile(dir), AgentKeyFile(dir), ""); !refusal.Is(err, refusal.Malformed) {
		t.Error(err)
	}
}

func TestADryRunSendsTheBodyOfACredential(t *testing.T) {
	var sent struct {
		Kind string
		Body map[string]any
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		json.NewDecoder(r.Body).Decode(&sent)
		io.WriteString(w, `{"valid":false,"schemaUrl":"/credentials/eval-run/v1","errors":[{"path":"/runId","message":"must be string"}]}`)
	})
	report, err := c.DryRun(context.Background(), &Publication{Credential: []byte(`{"@context":["x"],"credentialSubject":{"proof":{"type":"DataIntegrityProof"},"runId":7}}`), Paths: testPaths})
	if err != nil || report.Valid || len(report.Problems) != 1 || sent.Kind != "ip.eval.run.attestation.v1" || sent.Body["runId"] != 7.0 || sent.Body["proof"] != nil {
		t.Errorf("%+v %v, sent %+v", report, err, sent)
	}
}

func TestARegistryThatSwapsTheKeyIsRefused(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"agent": "a1", "apiKey": testAPIKey, "publicKey": "did:key:z6MkOther"})
	})
	dir := t.TempDir()
	if _, err := c.Register(context.Background(), APIKeyFile(dir), AgentKeyFile(dir), ""); !refusal.Is(err, refusal.Malformed) {
		t.Error(err)
	}
	if _, err := os.Stat(APIKeyFile(dir)); err == nil {
		t.Error("the API key was kept all the same")
	}
}

func TestAJudgementIsSignedHere(t *testing.T) {
	key, err := seal.NewKey(strings.NewReader(strings.Repeat("k", ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	content := digest.IDOf([]byte("content"))
	var sent struct{ ProposalID, Verdict, Reason, Signature string }
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			json.NewEncoder(w).Encode(map[string]any{"assigned": []any{map[string]any{"proposalId": "p1", "ipPath": "/artifacts/evals/p1", "content": content.String(), "registry": "registry.example/log"}}})
			return
		}
		json.NewDecoder(r.Body).Decode(&sent)
		io.WriteString(w, `{"proposalId":"p1","ipPath":"/artifacts/evals/p1","status":"pending"}`)
	})
	if _, err := c.Judge(context.Background(), "p1", "reject", "leaked", key); err != nil {
		t.Fatal(err)
	}
	reason := digest.ContentOf([]byte("leaked"))
	message, err := recompute.Judgement{Content: content, Proposal: "p1", Reason: &reason, Registry: "registry.example/log", Verdict: "reject"}.Message()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := seal.DecodeMultibase(sent.Signature)
	public, _ := key.Public().Ed25519()
	if err != nil || !ed25519.Verify(public, message, signature) || sent.Reason != "leaked" {
		t.Errorf("%+v %v", sent, err)
	}
	if _, err := c.Judge(context.Background(), "p2", "reject", "", key); !refusal.Is(err, refusal.NotFound) {
		t.Error(err)
	}
	if _, err := c.Judge(context.Background(), "p1", "maybe", "", key); !refusal.Is(err, refusal.Usage) {
		t.Error(err)
	}
}

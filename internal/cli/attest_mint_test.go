package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/attest"
)

// A minting is a registry that issues what it is asked for, or something else.
type minting struct {
	issuer       func(own string) string // of the credential; nil for the registry's own
	signs, shows byte                    // the key that signs, and the one in its key set
	edit         func(credential []byte) []byte
	ahead        time.Duration // its clock
}

func (m minting) serve(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	keyOf := func(n byte) *seal.Key {
		k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	did := "did:web:" + strings.Replace(strings.TrimPrefix(server.URL, "http://"), ":", "%3A", 1)
	if m.issuer != nil {
		did = m.issuer(did)
	}
	mux.HandleFunc("POST /api/credentials/mint", func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Body json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		s := attest.Signer{Key: keyOf(m.signs), Method: did + "#k", Created: time.Now().Add(m.ahead).UTC().Truncate(time.Second)}
		if strings.HasPrefix(did, "did:key:") {
			s.Method = ""
		}
		text, err := attest.Issue(attest.Draft{Issuer: did, Imported: true, Body: asked.Body, ValidFrom: s.Created}, s)
		if err != nil {
			t.Error(err)
		}
		if m.edit != nil {
			text = m.edit(text)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"verifiableCredential":%s,"digest":%q,"id":"i","entry":1,"receipt":"r"}`, text, digest.IDOf(text))
	})
	mux.HandleFunc("GET /.well-known/jwks.json", func(w http.ResponseWriter, r *http.Request) {
		pub, _ := keyOf(m.shows).Public().Ed25519()
		set, err := canon.Marshal(map[string]any{"keys": []any{seal.NewJWK(pub, "k")}})
		if err != nil {
			t.Error(err)
		}
		w.Write(set)
	})
	return server
}

// What a registry issues for "tally attest" is verified as what is issued here: with the
// key set at the registry's own address, in the registry's own name.
func TestWhatARegistryIssuesIsVerified(t *testing.T) {
	l := newSums(t)
	l.write("api-key", []byte("ak_"+strings.Repeat("A", 43)+"\n"))
	l.must(os.Chmod(l.path("api-key"), 0o600))
	one, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{1}, 32)))
	l.must(err)
	own, _ := one.Public().Ed25519()
	for name, tt := range map[string]struct {
		registry minting
		want     refusal.Name
	}{
		"its own name and key":            {minting{signs: 1, shows: 1}, ""},
		"a did:key, which is its own key": {minting{signs: 1, shows: 2, issuer: func(string) string { return seal.DIDKey(own) }}, ""},
		"a clock that is ahead":           {minting{signs: 1, shows: 1, ahead: time.Minute}, ""},
		"valid from tomorrow on":          {minting{signs: 1, shows: 1, ahead: 24 * time.Hour}, refusal.RegistryMismatch},
		"another key":                     {minting{signs: 1, shows: 2}, refusal.RegistryMismatch},
		"another name":                    {minting{signs: 1, shows: 1, issuer: func(string) string { return "did:web:example.com" }}, refusal.RegistryMismatch},
		"a name below its own":            {minting{signs: 1, shows: 1, issuer: func(own string) string { return own + ":elsewhere" }}, refusal.RegistryMismatch},
		"another day":                     {minting{signs: 1, shows: 1, edit: func(c []byte) []byte { return bytes.Replace(c, []byte(`"validFrom":"2`), []byte(`"validFrom":"1`), 1) }}, refusal.RegistryMismatch},
		"without a proof": {minting{signs: 1, shows: 1, edit: func(c []byte) []byte {
			var members map[string]json.RawMessage
			l.must(json.Unmarshal(c, &members))
			delete(members, "proof")
			bare, err := canon.Marshal(members)
			l.must(err)
			return bare
		}}, refusal.RegistryMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			out := l.path("minted.json")
			l.must(os.RemoveAll(out))
			args := []string{"attest", "sums.default.1", "--registry", tt.registry.serve(t).URL, "--api-key-file", l.path("api-key"), "--key", l.key("operator"), "--harness-file", l.path("wheel"), "--quiet"}
			for _, args := range [][]string{append(args, "-o", out), args} {
				if tt.want != "" {
					l.refuses(tt.want, args...)
				} else if said := l.ok(args...); !strings.Contains(said+l.read("minted.json"), "EvalRunAttestationCredential") {
					t.Error(said)
				}
			}
			if _, err := os.Stat(out); (err == nil) != (tt.want == "") {
				t.Errorf("the file: %v", err)
			}
		})
	}
}

package client

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// A registry that issues a credential about something else is found out.
func TestMintedCredentialsAreAboutWhatWasSent(t *testing.T) {
	const body = `{"runId":"r","results":{"a":1},"proof":{"proofValue":"z1"}}`
	for name, tt := range map[string]struct {
		subject string
		want    refusal.Name
	}{
		"the body, spelled otherwise": {`{"proof":{"proofValue":"z1"}, "results":{"a":1.0},"runId":"r"}`, ""},
		"another result":              {`{"runId":"r","results":{"a":2},"proof":{"proofValue":"z1"}}`, refusal.RegistryMismatch},
		"a member more":               {`{"runId":"r","results":{"a":1},"proof":{"proofValue":"z1"},"x":1}`, refusal.RegistryMismatch},
		"without the runner's proof":  {`{"runId":"r","results":{"a":1}}`, refusal.RegistryMismatch},
		"nothing":                     {`null`, refusal.RegistryMismatch},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"verifiableCredential":{"credentialSubject":%s},"digest":"sha256:%s","id":"i","entry":1,"receipt":"r"}`, tt.subject, strings.Repeat("0", 64))
		}))
		c, err := New(Options{URL: server.URL, APIKey: "ak_" + strings.Repeat("A", 43)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Mint(context.Background(), []byte(body))
		if tt.want == "" && err != nil || tt.want != "" && !refusal.Is(err, tt.want) {
			t.Errorf("%s: %v, expected %s", name, err, tt.want)
		}
		server.Close()
	}
}

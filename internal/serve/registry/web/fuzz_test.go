package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzRequest asks a registry whatever comes along. The property is stronger than
// that nothing breaks: every answer is one that the OpenAPI document has, none is
// our fault, and nothing is written by a client without a key but a registration.
func FuzzRequest(f *testing.F) {
	for _, r := range routes() {
		f.Add(r.method, strings.NewReplacer("{kind}", "eval", "{path...}", "artifacts/models", "{$}", "").Replace(r.path), "", "{}", "application/json", "k")
	}
	f.Add("POST", "/api/knowledge/eval/propose", "", evalManifest("0.5"), "application/json", "")
	f.Add("POST", "/api/credentials/dry-run", "", envelope(exampleBody), "application/json", "")
	f.Add("POST", "/credentials/verify", "", `{"verifiableCredential":`+alumni+`}`, "application/ld+json", "")
	f.Add("POST", "/credentials/issue", "", issueBody(alumni), "application/json", "")
	f.Add("GET", "/api/knowledge/eval/list", "limit=1&after=3", "", "", "")
	f.Add("GET", "/entries", "from=9223372036854775807&n=1000", "", "", "")
	f.Add("GET", "/tile/0/x001/000.p/3", "", "", "", "")
	f.Add("GET", "/tile/63/x999/x999/x999/999", "", "", "", "")
	f.Add("GET", "/credentials/status/9223372036854775807", "", "", "", "")
	f.Add("GET", "/receipt/9223372036854775807", "", "", "", "")
	f.Add("HEAD", "/proposal/\x00", "", "", "", "")
	f.Add("POST", "/api/knowledge/attestation/verify", "", `{"proposalId":"x","manifest":null}`, "application/json", "")
	p := newPlace(f, nil)
	m := p.register()
	p.artifacts(m)
	f.Fuzz(func(t *testing.T, method, path, query, body, media, key string) {
		if !validMethod(method) {
			return // net/http refuses it before we see it
		}
		h := described(t, p.web, p.d)
		for _, withKey := range []bool{false, true} {
			before := p.reg.Stats().Entries
			r := httptest.NewRequest("GET", "/", strings.NewReader(body))
			r.Method, r.URL = method, &url.URL{Path: path, RawQuery: query}
			r.Header = http.Header{"Content-Type": {media}, "Idempotency-Key": {key}, "If-None-Match": {key}}
			if withKey {
				r.Header.Set("Authorization", "Bearer "+m.key)
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if rec.Code >= 500 {
				t.Errorf("%s %q?%q: %d %s\n%s", method, path, query, rec.Code, rec.Body, p.log.String())
			}
			if after := p.reg.Stats().Entries; !withKey && after != before && path != registerRoute {
				t.Errorf("%s %q wrote %d entries without a key", method, path, after-before)
			}
		}
	})
}

func validMethod(m string) bool {
	_, err := http.NewRequest(m, "http://a.example/", nil)
	return err == nil && m != ""
}

package web

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"tallystick/internal/serve/registry"
)

// The authorisation matrix: every route of the table, asked by a client without a
// key, with an agent's, with a judge's, with a revoked one and with one that was
// never given out. Requests are such that a client that may ask gets past the door: what
// stands under agent and judge is the answer of the route itself.
func TestAuthorisationMatrix(t *testing.T) {
	p := newPlace(t, nil)
	agent, judge, revoked := p.register(), p.register(), p.register()
	p.artifacts(agent)
	ctx := context.Background()
	if err := p.reg.AdmitJudge(ctx, "judith", []string{judge.id}); err != nil {
		t.Fatal(err)
	}
	if err := p.reg.RevokeAPIKey(ctx, revoked.id); err != nil {
		t.Fatal(err)
	}
	eval := p.post("/api/knowledge/eval/propose", agent.key, evalManifest("0.25")).is(201)
	minted := p.post("/api/credentials/mint", agent.key, envelope(exampleBody)).is(201)
	_, hex, _ := strings.Cut(minted.has("digest"), ":")
	credential := minted.has("verifiableCredential")
	manifest := p.entryBlob(eval.has("entry"))

	const (
		withdrawal = `{"proposalId":"nonsense"}`
		judgement  = `{"proposalId":"nonsense","verdict":"accept","signature":"00"}`
		revocation = `{"credential":"sha256:0000000000000000000000000000000000000000000000000000000000000000","reason":"x"}`
	)
	all := func(status int) [5]int { return [5]int{status, status, status, status, status} }
	// keyed is 401 for everybody without a good key.
	keyed := func(agent, judge int) [5]int { return [5]int{401, agent, judge, 401, 401} }
	rows := map[string]struct {
		target, body string
		want         [5]int // none, agent, judge, revoked, wrong
	}{
		"register":          {"/api/agent/v1/register", `{}`, all(201)},
		"replaceKey":        {"/api/agent/v1/key", `[]`, keyed(400, 400)},
		"agent":             {"/api/agents/" + agent.id, "", all(200)},
		"propose":           {"/api/knowledge/eval/propose", evalManifest("0.25"), keyed(200, 200)},
		"list":              {"/api/knowledge/eval/list", "", all(200)},
		"forArtifact":       {"/api/knowledge/eval/for-artifact" + modelPath, "", all(200)},
		"tree":              {"/api/knowledge/tree/path/artifacts", "", all(200)},
		"proposal":          {"/proposal/" + eval.has("proposalId"), "", all(200)},
		"withdraw":          {"/api/agent/v1/withdraw", withdrawal, keyed(404, 404)},
		"questions":         {"/api/agent/v1/calibrate", "", keyed(404, 404)},
		"calibrate":         {"/api/agent/v1/calibrate", `{"answers":{}}`, keyed(404, 404)},
		"assigned":          {"/api/agent/v1/judge", "", keyed(403, 200)},
		"judge":             {"/api/agent/v1/judge", judgement, keyed(403, 404)},
		"dryRun":            {"/api/credentials/dry-run", envelope(exampleBody), all(200)},
		"mint":              {"/api/credentials/mint", `{}`, keyed(400, 400)},
		"revoke":            {"/api/credentials/revoke", revocation, keyed(404, 404)},
		"judgment":          {strings.TrimPrefix(minted.has("id"), base), "", all(200)},
		"statusList":        {"/credentials/status/0", "", all(200)},
		"kinds":             {"/credentials/index.json", "", all(200)},
		"schema":            {"/credentials/eval-run/v1", "", all(200)},
		"schemaSource":      {"/docs/schemas/ip.eval.run.attestation.v1.schema.json", "", all(200)},
		"verifyAttestation": {"/api/knowledge/attestation/verify", `{"proposalId":"` + eval.has("proposalId") + `"}`, all(200)},
		"badge":             {"/api/badge/v1/attestation/eval.run.attestation.v1/" + hex, "", all(200)},
		"vcIssue":           {"/credentials/issue", `{}`, keyed(400, 400)},
		"vcVerify":          {"/credentials/verify", `{"verifiableCredential":` + credential + `}`, all(200)},
		"jwks":              {"/.well-known/jwks.json", "", all(200)},
		"did":               {"/.well-known/did.json", "", all(200)},
		"didBelow":          {"/did.json", "", all(200)},
		"about":             {"/.well-known/ip-knowledge.json", "", all(200)},
		"home":              {"/", "", all(200)},
		"artifactPage":      {"/artifact" + modelPath, "", all(200)},
		"evaluationPage":    {"/evaluation/" + eval.has("proposalId"), "", all(200)},
		"leaderboardPage":   {"/leaderboard?dataset=" + datasetPath + "&metric=accuracy", "", all(200)},
		"pageAsset":         {"/pages/assets/check.js", "", all(200)},
		"pageKeys":          {"/pages/keys", "", all(200)},
		"pageCheckpoint":    {"/pages/checkpoint", "", all(200)},
		"pageReceipt":       {"/pages/receipt/0", "", all(200)},
		"pageBlob":          {"/pages/blob/" + manifest, "", all(200)},
		"signingKeys":       {"/api/knowledge/signing-keys", "", all(200)},
		"recipe":            {"/docs/verification-recipe.md", "", all(200)},
		"attestScript":      {"/scripts/ip_eval_attest.py", "", all(200)},
		"openapi":           {"/openapi.json", "", all(200)},
		"checkpoint":        {"/checkpoint", "", all(200)},
		"tile":              {"/tile/0/000.p/1", "", all(200)},
		"receipt":           {"/receipt/0", "", all(200)},
		"entries":           {"/entries", "", all(200)},
		"feed":              {"/feed.atom", "", all(200)},
		"blob":              {"/blob/" + manifest, "", all(200)},
		"health":            {"/healthz", "", all(200)},
		"ready":             {"/readyz", "", all(200)},
	}
	who := [5]string{"no key", "an agent", "a judge", "a revoked key", "a key that was never given out"}
	keys := [5]string{"", agent.key, judge.key, revoked.key, "ak_" + strings.Repeat("A", 43)}
	for _, r := range routes() {
		row, there := rows[r.name]
		if !there {
			t.Errorf("%s %s has no row in the matrix", r.method, r.path)
			continue
		}
		delete(rows, r.name)
		for i, key := range keys {
			var headers []string
			if key != "" {
				headers = []string{"Authorization", "Bearer " + key}
			}
			rec := ask(p.h, r.method, row.target, row.body, headers...)
			if rec.Code != row.want[i] {
				t.Errorf("%s %s by %s: %d, want %d: %.200s", r.method, row.target, who[i], rec.Code, row.want[i], rec.Body)
			}
			if rec.Code == http.StatusUnauthorized && (!strings.HasPrefix(rec.Header().Get("WWW-Authenticate"), "Bearer ") || !strings.Contains(rec.Body.String(), base+"/api/agent/v1/register")) {
				t.Errorf("%s %s by %s: 401 without WWW-Authenticate and the register route", r.method, row.target, who[i])
			}
			if (row.want[i] == 401 || row.want[i] == 403) && rec.Code != row.want[i] {
				t.Fatalf("the door of %s is open", r.name)
			}
		}
	}
	for name := range rows {
		t.Errorf("the matrix has a row %s, which is not a route", name)
	}
	if log := p.log.String(); strings.Contains(log, agent.key) || strings.Contains(log, judge.key) || strings.Contains(log, "ak_") {
		t.Error("an API key is in the log")
	}
}

func TestAuthorizationHeadersOfEveryShape(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	for header, want := range map[string]int{
		"Bearer " + m.key: 400, "bearer " + m.key: 400, "BEARER  " + m.key: 400,
		m.key: 401, "Basic " + m.key: 401, "Bearer": 401, "Bearer ": 401, "Bearer " + m.key + "x": 401, "Bearer " + m.key[:len(m.key)-1]: 401,
		"Bearer " + strings.ToUpper(m.key): 401, "Bearer " + strings.Repeat("a", 10_000): 401, "Bearer ' OR 1=1 --": 401,
	} {
		if a := p.post("/api/credentials/mint", "", `{}`, "Authorization", header); a.Code != want {
			t.Errorf("%.60q: %d, want %d", header, a.Code, want)
		}
	}
	// In a query, where logs and histories keep it, a key counts for nothing.
	if a := p.post("/api/credentials/mint?key="+m.key, "", `{}`); a.Code != 401 {
		t.Errorf("in the query: %d", a.Code)
	}
}

func TestAReplacedKeyNoLongerWorks(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	fresh := p.post("/api/agent/v1/key", m.key, `{}`).is(201).has("apiKey")
	p.post("/api/credentials/mint", m.key, `{}`).is(401)
	p.post("/api/credentials/mint", fresh, `{}`).is(400)
}

func TestWritesOfOneKeyAreLimited(t *testing.T) {
	p := newPlace(t, func(_ string, s *registry.Settings) { s.RatePerMinute, s.RegistersPerHour = 4, 6 })
	m, other := p.register(), p.register()
	for range 2 {
		p.post("/api/credentials/mint", m.key, `{}`).is(400)
	}
	limited := p.post("/api/credentials/mint", m.key, `{}`).is(429)
	if limited.Header().Get("Retry-After") == "" || limited.has("name") != "RateLimited" {
		t.Errorf("%v %s", limited.Header(), limited.Body)
	}
	p.post("/api/credentials/mint", other.key, `{}`).is(400)
	p.get("/api/knowledge/eval/list").is(200)
	p.register()
	p.post("/api/agent/v1/register", "", `{}`).is(429)
}

// A server that only reads answers every read as the one that writes does, and
// says so to a client that writes.
func TestAReadOnlyServer(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.artifacts(m)
	id := p.post("/api/knowledge/eval/propose", m.key, evalManifest("0.75")).is(201).has("proposalId")
	minted := p.post("/api/credentials/mint", m.key, envelope(exampleBody)).is(201)

	reader, err := registry.OpenReader(context.Background(), registry.ReaderOptions{DB: p.dir + "/registry.db", Now: p.clock})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	s, err := New(Config{Reader: reader, PublicURL: base, Now: p.clock})
	if err != nil {
		t.Fatal(err)
	}
	h := described(t, s, p.d)
	for _, target := range []string{
		"/api/knowledge/eval/list", "/api/knowledge/eval/for-artifact" + modelPath, "/api/knowledge/tree/path/artifacts/models", "/proposal/" + id, "/receipt/3", "/entries",
		"/checkpoint", "/tile/0/000.p/4", "/.well-known/jwks.json", "/.well-known/did.json", "/credentials/status/0", strings.TrimPrefix(minted.has("id"), base), "/api/agents/" + m.id,
	} {
		want, got := p.get(target).is(200), ask(h, "GET", target, "")
		if got.Code != 200 || got.Body.String() != want.Body.String() || got.Header().Get("ETag") != want.Header().Get("ETag") {
			t.Errorf("%s: %d %.300s\nwant %.300s", target, got.Code, got.Body, want.Body)
		}
	}
	if rec := ask(h, "GET", "/readyz", ""); rec.Code != 200 {
		t.Errorf("not ready: %s", rec.Body)
	}
	if rec := ask(h, "GET", "/metrics", ""); rec.Code != 404 {
		t.Errorf("metrics where everybody reads: %d", rec.Code)
	}
	if rec := ask(s.Metrics(), "GET", "/metrics", ""); !strings.Contains(rec.Body.String(), "tally_registry_writable 0") {
		t.Errorf("%s", rec.Body)
	}
	if rec := ask(h, "POST", "/credentials/verify", `{"verifiableCredential":`+minted.has("verifiableCredential")+`}`); rec.Code != 200 {
		t.Errorf("verify: %d %s", rec.Code, rec.Body)
	}
	for _, r := range routes() {
		if !r.writes {
			continue
		}
		target := strings.Replace(r.path, "{kind}", "eval", 1)
		rec := ask(h, r.method, target, `{}`, "Authorization", "Bearer "+m.key)
		if r.access != aJudge && (rec.Code != 503 || !strings.Contains(rec.Body.String(), `"name":"ReadOnly"`)) {
			t.Errorf("%s %s: %d %s", r.method, target, rec.Code, rec.Body)
		}
	}
}

package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"tallystick/internal/serve/registry"
)

// bare is a server in front of nothing, for what is decided before a registry is
// asked.
func bare(t *testing.T, change func(*Config)) http.Handler {
	t.Helper()
	cfg := Config{Reader: &registry.Reader{}, PublicURL: "https://r.example/"}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return described(t, s, readDescription(t, s.spec))
}

func ask(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	path, query, _ := strings.Cut(target, "?")
	r.URL = &url.URL{Path: path, RawQuery: query}
	if unescaped, err := url.PathUnescape(path); err == nil && unescaped != path {
		r.URL.Path, r.URL.RawPath = unescaped, path
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func TestPathsThatCouldBeReadInTwoWaysAreRefused(t *testing.T) {
	h := bare(t, nil)
	for _, path := range []string{
		"/tile/../healthz", "/tile/%2e%2e/healthz", "/tile/%2E%2E%2Fhealthz", "/tile/..%2f..%2fetc/passwd", "/tile/..%5c", "/receipt%2F0", "/api%2fagents/x", "/tile/0%5c000", "/tile//0", "//healthz",
		"/healthz/", "/./healthz", "/tile/0/\x00", "/tile/%00", "/tile/a b", "/tile/a;b", "/tile/a\\b", "/tile/é", "/tile/%0d%0aSet-Cookie:x", "*", "healthz",
		"/api/knowledge/tree/path/artifacts/../../x", "/tile/" + strings.Repeat("a", 2000),
	} {
		rec := ask(h, "GET", path, "")
		if rec.Code != 400 && rec.Code != 413 {
			t.Errorf("%q: %d %s", path, rec.Code, rec.Body)
		}
		if rec.Header().Get("Location") != "" {
			t.Errorf("%q: redirected", path)
		}
	}
	if rec := ask(h, "GET", "/nowhere", ""); rec.Code != 404 || !strings.Contains(rec.Body.String(), "https://r.example/openapi.json") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestMethodsAreAnsweredByTheTable(t *testing.T) {
	h := bare(t, nil)
	for path, methods := range resources(routes()) {
		target := strings.NewReplacer("{kind}", "eval", "{path...}", "artifacts/models", "{$}", "").Replace(path)
		target = strings.NewReplacer("{", "", "}", "").Replace(target)
		rec := ask(h, "DELETE", target, "")
		if rec.Code != http.StatusMethodNotAllowed {
			t.Errorf("DELETE %s: %d", target, rec.Code)
		}
		allow := rec.Header().Get("Allow")
		for _, m := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			_, want := methods[m]
			want = want || m == "OPTIONS" || m == "HEAD" && methods["GET"] != nil
			if got := strings.Contains(allow, m); got != want {
				t.Errorf("%s: Allow is %q", target, allow)
			}
		}
		if rec := ask(h, "OPTIONS", target, "", "Origin", "https://evil.example", "Access-Control-Request-Method", "GET"); rec.Code != 204 || rec.Header().Get("Allow") != allow {
			t.Errorf("OPTIONS %s: %d %q", target, rec.Code, rec.Header().Get("Allow"))
		}
	}
}

// Pages elsewhere may read what is public, and nothing else.
func TestOnlyPublicReadsAreShared(t *testing.T) {
	h := bare(t, nil)
	for _, r := range routes() {
		target := strings.NewReplacer("{kind}", "eval", "{path...}", "artifacts/models", "{$}", "", "{", "", "}", "").Replace(r.path)
		body := ""
		if r.method == "POST" {
			body = "{}"
		}
		rec := ask(h, r.method, target, body, "Origin", "https://evil.example")
		want := ""
		if r.method == "GET" && r.access == public && !r.operations {
			want = "*"
		}
		if got := rec.Header().Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s %s: Access-Control-Allow-Origin %q, want %q", r.method, target, got, want)
		}
		if rec.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s %s: lets credentials through", r.method, target)
		}
		if r.access != public && (rec.Header().Get("Cache-Control") != "private, no-store" || rec.Header().Get("Vary") != "Authorization") {
			t.Errorf("%s %s: Cache-Control %q, Vary %q", r.method, target, rec.Header().Get("Cache-Control"), rec.Header().Get("Vary"))
		}
		if rec.Code >= 400 && !strings.Contains(rec.Header().Get("Cache-Control"), "no-store") {
			t.Errorf("%s %s: an error that caches may keep", r.method, target)
		}
	}
}

func TestHostAndForwardedHeadersSayNothing(t *testing.T) {
	h := bare(t, nil)
	for _, header := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "Forwarded", "X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override"} {
		rec := ask(h, "GET", "/openapi.json", "", header, "evil.example")
		if rec.Code != 200 || strings.Contains(rec.Body.String(), "evil.example") {
			t.Errorf("%s: %d, its value is in the answer", header, rec.Code)
		}
	}
	r := httptest.NewRequest("GET", "http://evil.example/credentials/index.json", nil)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != 200 || strings.Contains(rec.Body.String(), "evil.example") || !strings.Contains(rec.Body.String(), `"host":"https://r.example"`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestTagsAreComparedAsRFC9110Wants(t *testing.T) {
	h := bare(t, nil)
	tag := ask(h, "GET", "/openapi.json", "").Header().Get("ETag")
	if len(tag) < 10 || tag[0] != '"' {
		t.Fatalf("tag %q", tag)
	}
	for _, tt := range []struct {
		header string
		status int
	}{
		{tag, 304}, {"W/" + tag, 304}, {`"other", ` + tag, 304}, {"*", 304},
		{`"other"`, 200}, {strings.Trim(tag, `"`), 200}, {tag[:len(tag)-1], 200}, {"", 200},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			if rec := ask(h, method, "/openapi.json", "", "If-None-Match", tt.header); rec.Code != tt.status {
				t.Errorf("%s with If-None-Match %q: %d", method, tt.header, rec.Code)
			}
		}
	}
	get, head := ask(h, "GET", "/openapi.json", ""), ask(h, "HEAD", "/openapi.json", "")
	if head.Header().Get("Content-Length") != strconv.Itoa(get.Body.Len()) || head.Header().Get("ETag") != tag {
		t.Errorf("HEAD says %v", head.Header())
	}
}

const exampleBody = `{"schemaVersion":"1.0.0","runId":"00000000-0000-4000-8000-000000000000","harnessId":"lm-eval-harness",` +
	`"harnessVersionSha":"0000000000000000000000000000000000000000000000000000000000000000",` +
	`"evalCodeSha":"1111111111111111111111111111111111111111111111111111111111111111",` +
	`"modelId":"huggingface://acme/tiny",` +
	`"datasetSha":"2222222222222222222222222222222222222222222222222222222222222222",` +
	`"runnerDid":"did:web:my-org.example.com","submittedAt":1747000000000,` +
	`"results":{"mmlu_pro":{"accuracy":0.738,"stderr":0.0041}},` +
	`"resultsHash":"5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc"}`

func TestBodiesThatAreNotStrictJSONAreRefused(t *testing.T) {
	h := bare(t, nil)
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for name, body := range map[string]string{
		"nothing": " ", "cut off": `{"kind":`, "a trailing byte": exampleBody + "x", "two documents": exampleBody + exampleBody, "a BOM": "\ufeff" + exampleBody,
		"duplicate keys": `{"runId":"a","runId":"b"}`, "too deep": `{"results":` + deep + `}`, "not UTF-8": "{\"a\":\"\xff\"}", "NaN": `{"a":NaN}`,
		"a comment": `{/**/}`, "a lone surrogate": `{"a":"\ud800"}`, "single quotes": `{'a':1}`, "beside kind and body": `{"kind":"eval.run.attestation.v1","body":{},"x":1}`,
		"another kind": `{"kind":"sandbox","body":{}}`,
	} {
		if rec := ask(h, "POST", "/api/credentials/dry-run", body); rec.Code != 400 {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
	if rec := ask(h, "POST", "/api/credentials/dry-run", exampleBody); rec.Code != 200 || !strings.Contains(rec.Body.String(), `"valid":true`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	large := `{"results":"` + strings.Repeat("a", maxDocument) + `"}`
	if rec := ask(h, "POST", "/api/credentials/dry-run", large); rec.Code != 413 {
		t.Errorf("too large: %d", rec.Code)
	}
}

func TestOnlyJSONIsTaken(t *testing.T) {
	h := bare(t, nil)
	for _, headers := range [][]string{
		{"Content-Type", ""}, {"Content-Type", "text/plain"}, {"Content-Type", "application/x-www-form-urlencoded"}, {"Content-Type", "application/json; charset=utf-16"},
		{"Content-Type", "nonsense;;"}, {"Content-Encoding", "gzip"},
	} {
		if rec := ask(h, "POST", "/api/credentials/dry-run", exampleBody, headers...); rec.Code != http.StatusUnsupportedMediaType || !strings.Contains(rec.Body.String(), `"name":"UnsupportedMediaType"`) {
			t.Errorf("%q: %d %s", headers, rec.Code, rec.Body)
		}
	}
	for _, media := range []string{"application/json", "application/json; charset=UTF-8", "application/ld+json", "Application/JSON"} {
		if rec := ask(h, "POST", "/api/credentials/dry-run", exampleBody, "Content-Type", media); rec.Code != 200 {
			t.Errorf("%q: %d", media, rec.Code)
		}
	}
}

func TestQueriesAreExact(t *testing.T) {
	h := bare(t, nil)
	for _, query := range []string{"stauts=all", "limit=0", "limit=201", "limit=01", "limit=x", "limit=1&limit=2", "status=deleted", "%zz", "a=1;b=2", "after=" + strings.Repeat("a", 3000)} {
		if rec := ask(h, "GET", "/api/knowledge/eval/list?"+query, ""); rec.Code != 400 && rec.Code != 413 {
			t.Errorf("%.40q: %d %s", query, rec.Code, rec.Body)
		}
	}
	if rec := ask(h, "GET", "/api/knowledge/eval/list?stauts=all", ""); !strings.Contains(rec.Body.String(), "status") {
		t.Errorf("no help: %s", rec.Body)
	}
	for _, target := range []string{"/entries?from=-1", "/entries?from=1e3", "/entries?n=1001", "/receipt/-1", "/receipt/01", "/receipt/x", "/credentials/status/-1", "/blob/x", "/healthz?x=1"} {
		if rec := ask(h, "GET", target, ""); rec.Code != 400 {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
}

func TestTooManyRequestsAreToldToWait(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := bare(t, func(c *Config) {
		c.ReadsPerMinute = 4
		c.Now = func() time.Time { return now }
	})
	get := func(headers ...string) *httptest.ResponseRecorder {
		return ask(h, "GET", "/openapi.json", "", headers...)
	}
	for range 2 {
		if rec := get(); rec.Code != 200 {
			t.Fatal(rec.Code)
		}
	}
	rec := get("X-Forwarded-For", "9.9.9.9", "X-Real-Ip", "9.9.9.8")
	if rec.Code != 429 || rec.Header().Get("Retry-After") != "15" {
		t.Errorf("the third is answered %d, Retry-After %q: a header that every client can send must not help", rec.Code, rec.Header().Get("Retry-After"))
	}
	if rec := ask(h, "GET", "/healthz", ""); rec.Code != 200 {
		t.Errorf("health is limited: %d", rec.Code)
	}
	now = now.Add(15 * time.Second)
	if rec := get(); rec.Code != 200 {
		t.Errorf("after waiting: %d", rec.Code)
	}
	if rec := get(); rec.Code != 429 {
		t.Errorf("one more: %d", rec.Code)
	}
}

func TestAddressesForLimits(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct{ remote, forwarded, want string }{
		{"1.2.3.4:5", "", "1.2.3.4"},
		{"1.2.3.4:5", "9.9.9.9", "1.2.3.4"},
		{"10.1.1.1:5", "", "10.1.1.1"},
		{"10.1.1.1:5", "9.9.9.9", "9.9.9.9"},
		{"10.1.1.1:5", "8.8.8.8, 9.9.9.9", "9.9.9.9"}, // the first was written by the client
		{"10.1.1.1:5", "nonsense", "10.1.1.1"},
		{"[::ffff:1.2.3.4]:5", "", "1.2.3.4"},
		{"[2001:db8:1:2:3::4]:5", "", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:9::9]:5", "", "2001:db8:1:2::/64"},
		{"@", "", "@"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = tt.remote
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if got := addressOf(r, proxies); got != tt.want {
			t.Errorf("%s, forwarded for %q: %s, want %s", tt.remote, tt.forwarded, got, tt.want)
		}
	}
}

func TestALimiterForgetsNoClientThatWaits(t *testing.T) {
	l, now := newLimiter(2, time.Minute), time.Unix(0, 0)
	for i := range maxBuckets + 10 {
		l.take(strconv.Itoa(i), now)
	}
	if len(l.buckets) > maxBuckets+1 {
		t.Errorf("%d buckets", len(l.buckets))
	}
	if l.take("0", now) == 0 {
		t.Error("the first was forgotten and may ask again")
	}
	if l.take("a new one", now) == 0 {
		t.Error("without room everybody shares one bucket")
	}
	now = now.Add(time.Hour)
	if l.take("another", now) != 0 || len(l.buckets) > 2 {
		t.Errorf("buckets that are full again stay: %d", len(l.buckets))
	}
	var none *limiter
	if none.take("x", now) != 0 {
		t.Error("no limit limits")
	}
}

func TestSecretsStayOutOfLogs(t *testing.T) {
	var log bytes.Buffer
	h := bare(t, func(c *Config) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	const secret = "ak_sEcReT0123456789"
	ask(h, "POST", "/api/knowledge/eval/propose", `{"x":"`+secret+`"}`, "Authorization", "Bearer "+secret, "Idempotency-Key", secret, "Cookie", secret)
	ask(h, "GET", "/api/knowledge/eval/list?runner="+secret, "", "User-Agent", secret, "X-Request-Id", secret)
	ask(h, "GET", "/"+secret, "")
	if log.Len() == 0 || strings.Contains(log.String(), secret) {
		t.Errorf("log: %s", log.String())
	}
	if rec := ask(h, "GET", "/healthz", "", "X-Request-Id", "mine"); rec.Header().Get("X-Request-Id") == "mine" {
		t.Error("a client chooses its request id, and so what is in the log")
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	s, err := New(Config{Reader: nil, PublicURL: "https://r.example"})
	if err != nil {
		t.Fatal(err)
	}
	for path, methods := range resources(routes()) {
		if r := methods["GET"]; path == "/healthz" {
			r.handle = func(*call) (*reply, error) { panic("boom: /etc/secret") }
			s.mux = http.NewServeMux()
			s.mux.Handle(path, &resource{s, methods})
		}
	}
	rec := ask(s, "GET", "/healthz", "")
	if rec.Code != 500 || strings.Contains(rec.Body.String(), "secret") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// What goes wrong inside is for the operator: it may name files and databases.
func TestErrorsInsideStayInside(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	if err := p.reg.Close(); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/api/knowledge/eval/list", "/proposal/x", "/entries", "/.well-known/jwks.json", "/credentials/status/0"} {
		a := p.get(target)
		if a.Code != 500 && a.Code != 503 {
			t.Errorf("%s: %d %s", target, a.Code, a.Body)
		}
		if body := a.Body.String(); strings.Contains(body, p.dir) || strings.Contains(body, "sql") || strings.Contains(body, "database") {
			t.Errorf("%s tells: %s", target, body)
		}
		if !strings.Contains(p.log.String(), a.has("requestId")) {
			t.Errorf("%s: the request id is not in the log", target)
		}
	}
	if a := p.post("/api/knowledge/model/propose", m.key, `{"path":"`+modelPath+`"}`); a.Code != 500 && a.Code != 503 {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	if a := p.get("/readyz"); a.Code != 503 {
		t.Errorf("ready: %d", a.Code)
	}
	p.get("/healthz").is(200)
}

func TestMetricsAreInTheTextFormat(t *testing.T) {
	m := newMetrics()
	m.observe("GET /healthz", 200, 700*time.Microsecond)
	m.observe("GET /healthz", 200, 20*time.Second)
	m.observe("GET /healthz", 404, time.Millisecond)
	text := string(m.text(gauges{entries: 7, indexed: 5}))
	for _, want := range []string{
		"tally_registry_ledger_entries 7\n", "tally_registry_index_lag_entries 2\n", "tally_registry_writable 0\n",
		`tally_registry_requests_total{route="GET /healthz",code="200"} 2` + "\n",
		`tally_registry_request_seconds_bucket{route="GET /healthz",le="0.0005"} 0` + "\n",
		`tally_registry_request_seconds_bucket{route="GET /healthz",le="0.001"} 2` + "\n",
		`tally_registry_request_seconds_bucket{route="GET /healthz",le="10"} 2` + "\n",
		`tally_registry_request_seconds_bucket{route="GET /healthz",le="+Inf"} 3` + "\n",
		`tally_registry_request_seconds_count{route="GET /healthz"} 3` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

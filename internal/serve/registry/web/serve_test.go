package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/serve/registry"
)

// served runs Serve in the background and gives its address.
func served(t *testing.T, o Options) (url string, stop func() error) {
	t.Helper()
	r, stop := servedAs(t, o)
	return r.URL, stop
}

func servedAs(t *testing.T, o Options) (at Ready, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan Ready, 1), make(chan error, 1)
	go func() {
		done <- Serve(ctx, o, func(r Ready) error { ready <- r; return nil })
	}()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { stop() })
	select {
	case r := <-ready:
		return r, stop
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	}
	return Ready{}, nil
}

// fresh makes a registry that no process has open.
func fresh(t *testing.T, public string) string {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := filepath.Join(t.TempDir(), "registry")
	s := registry.Default()
	s.Origin, s.Operator, s.PublicURL, s.Judges, s.Quorum = "registry.test/log", "olga", public, 0, 0
	if _, err := registry.Init(context.Background(), dir, s); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestServeAnswersAndStops(t *testing.T) {
	dir := fresh(t, "")
	url, stop := served(t, Options{Dir: dir, Addr: "127.0.0.1:0", Now: time.Now})
	if status, body := fetch(t, url+"/readyz"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	// Without a public URL addresses are those of the listener, and the issuer a
	// did:key.
	if _, body := fetch(t, url+"/"); !strings.Contains(body, url+"/openapi.json") || !strings.Contains(body, `"did":"did:key:`) {
		t.Errorf("%s", body)
	}
	if status, body := fetch(t, url+"/.well-known/did.json"); status != 404 {
		t.Errorf("%d %s", status, body)
	}
	// There is one writer.
	if err := Serve(context.Background(), Options{Dir: dir, Addr: "127.0.0.1:0", Now: time.Now}, func(Ready) error { return nil }); err == nil {
		t.Error("a second writer was let in")
	}
	// A reader beside it is fine, and stays when the writer goes.
	reader, stopReader := served(t, Options{ReadOnly: true, DB: filepath.Join(dir, "registry.db"), Addr: "127.0.0.1:0", Now: time.Now})
	if status, body := fetch(t, reader+"/checkpoint"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if _, err := http.Get(url + "/healthz"); err == nil {
		t.Error("it answers after it was stopped")
	}
	if status, _ := fetch(t, reader+"/api/knowledge/eval/list"); status != 200 {
		t.Errorf("the reader: %d", status)
	}
	if err := stopReader(); err != nil {
		t.Errorf("stopping the reader: %v", err)
	}
	// Everything was closed: it opens again.
	_, stop = served(t, Options{Dir: dir, Addr: "127.0.0.1:0", Now: time.Now})
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestServeRefusesWhatItCannotServe(t *testing.T) {
	dir := fresh(t, "https://r.example")
	never := func(Ready) error { return errors.New("it is ready") }
	for name, o := range map[string]Options{
		"no database to read":            {ReadOnly: true, Addr: "127.0.0.1:0"},
		"a database that is not there":   {ReadOnly: true, DB: filepath.Join(t.TempDir(), "none.db"), Addr: "127.0.0.1:0"},
		"a folder without a registry":    {Dir: t.TempDir(), Addr: "127.0.0.1:0"},
		"an address of another machine":  {Dir: dir, Addr: "192.0.2.1:1"},
		"a proxy that is not a network":  {Dir: dir, Addr: "127.0.0.1:0", Proxies: []string{"everybody"}},
		"a public URL that is not a URL": {Dir: dir, Addr: "127.0.0.1:0", PublicURL: "nonsense"},
	} {
		o.Now = time.Now
		if err := Serve(context.Background(), o, never); err == nil || strings.Contains(err.Error(), "it is ready") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A reader cannot rename the registry.
	url, stop := served(t, Options{Dir: dir, Addr: "127.0.0.1:0", Now: time.Now})
	if _, body := fetch(t, url+"/"); !strings.Contains(body, `"did":"did:web:r.example"`) || !strings.Contains(body, "https://r.example/openapi.json") {
		t.Errorf("%s", body)
	}
	other := Options{ReadOnly: true, DB: filepath.Join(dir, "registry.db"), Addr: "127.0.0.1:0", PublicURL: "https://evil.example", Now: time.Now}
	if err := Serve(context.Background(), other, never); err == nil || strings.Contains(err.Error(), "it is ready") {
		t.Errorf("a reader calls itself something else: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Requests as a hostile client or a confused proxy writes them, byte by byte.
func TestRawRequests(t *testing.T) {
	log := &lockedBuffer{}
	url, _ := served(t, Options{Dir: fresh(t, "https://r.example"), Addr: "127.0.0.1:0", Now: time.Now, Log: slog.New(slog.NewJSONHandler(log, nil))})
	address := strings.TrimPrefix(url, "http://")
	for name, tt := range map[string]struct {
		request string
		want    []int
	}{
		"as it should be":                   {"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", []int{200}},
		"another host":                      {"GET /openapi.json HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", []int{200}},
		"a whole URL as target":             {"GET http://evil.example/openapi.json HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", []int{200}},
		"no host":                           {"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", []int{400}},
		"two hosts":                         {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", []int{400}},
		"two lengths":                       {"POST /api/credentials/dry-run HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 20\r\nConnection: close\r\n\r\n{}", []int{400}},
		"a space before the colon":          {"GET /healthz HTTP/1.1\r\nHost : a\r\nConnection: close\r\n\r\n", []int{400}},
		"a header that is folded":           {"GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\nConnection: close\r\n\r\n", []int{200, 400}},
		"a method of its own":               {"BREW /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", []int{405}},
		"TRACE":                             {"TRACE /healthz HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ak_x\r\nConnection: close\r\n\r\n", []int{405}},
		"CONNECT":                           {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nConnection: close\r\n\r\n", []int{400, 404, 405}},
		"dots in the path":                  {"GET /tile/../../../../etc/passwd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", []int{400}},
		"escaped dots":                      {"GET /tile/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", []int{400}},
		"an escaped line end":               {"GET /api/agents/x%0d%0aSet-Cookie:%20a=b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", []int{400}},
		"a fragment":                        {"GET /healthz#x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", []int{400, 404}},
		"headers without end":               {"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 40<<10) + "\r\nConnection: close\r\n\r\n", []int{431}},
		"a body where none is read":         {"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", []int{200}},
		"a chunked body that is too large":  {"POST /api/agent/v1/register HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks(80<<10), []int{413}},
		"a length and chunks":               {"POST /api/agent/v1/register HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n", []int{201, 400}},
		"an encoding that is not known":     {"POST /api/agent/v1/register HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\nConnection: close\r\n\r\n0\r\n\r\n", []int{501, 400}},
		"HTTP/0.9":                          {"GET /healthz\r\n\r\n", []int{400}},
		"not HTTP":                          {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
		"preflight of a page elsewhere":     {"OPTIONS /api/agent/v1/register HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n", []int{204}},
		"a page elsewhere with simple text": {"POST /api/agent/v1/register HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", []int{415}},
	} {
		status, answer := raw(t, address, tt.request)
		ok := false
		for _, w := range tt.want {
			ok = ok || status == w
		}
		if !ok {
			t.Errorf("%s: %d, want one of %v", name, status, tt.want)
		}
		if strings.Contains(answer, "evil.example") || strings.Contains(answer, "Set-Cookie") || strings.Contains(answer, "root:") || strings.Contains(answer, "ak_x") {
			t.Errorf("%s: something of the request is in the answer: %.400s", name, answer)
		}
		if name == "preflight of a page elsewhere" && strings.Contains(answer, "Access-Control-Allow") {
			t.Errorf("%s: %s", name, answer)
		}
	}
	if strings.Contains(log.String(), "ak_x") {
		t.Error("a key is in the log")
	}
}

func chunks(n int) string {
	return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n, strings.Repeat("a", n))
}

// raw sends bytes and reads one answer.
func raw(t *testing.T, address, request string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	go io.WriteString(c, request)
	var text strings.Builder
	res, err := http.ReadResponse(bufio.NewReader(io.TeeReader(c, &text)), nil)
	if err != nil {
		return 400, text.String() // the connection was closed on nonsense
	}
	io.Copy(io.Discard, res.Body)
	return res.StatusCode, text.String()
}

func TestMetricsHaveAListenerOfTheirOwn(t *testing.T) {
	at, stop := servedAs(t, Options{Dir: fresh(t, ""), Addr: "127.0.0.1:0", Metrics: ":0", Now: time.Now})
	if !strings.HasPrefix(at.Metrics, "http://127.0.0.1:") {
		t.Fatalf("metrics at %q", at.Metrics)
	}
	if status, _ := fetch(t, at.URL+"/metrics"); status != 404 {
		t.Errorf("where everybody reads: %d", status)
	}
	status, body := fetch(t, at.Metrics)
	if status != 200 || !strings.Contains(body, "tally_registry_writable 1") || !strings.Contains(body, "tally_registry_ledger_entries ") {
		t.Errorf("%d %s", status, body)
	}
	for _, path := range []string{"/checkpoint", "/api/knowledge/eval/list", "/"} {
		if status, _ := fetch(t, strings.TrimSuffix(at.Metrics, "/metrics")+path); status != 404 {
			t.Errorf("%s is served with the metrics: %d", path, status)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(at.Metrics); err == nil {
		t.Error("metrics are served after the end")
	}
	for given, want := range map[string]string{"7392": "127.0.0.1:7392", ":7392": "127.0.0.1:7392", "0.0.0.0:1": "0.0.0.0:1", "[::1]:1": "[::1]:1"} {
		if got := loopbackUnlessNamed(given); got != want {
			t.Errorf("%s is %s, want %s", given, got, want)
		}
	}
	err := Serve(t.Context(), Options{Dir: fresh(t, ""), Addr: "127.0.0.1:0", Metrics: "nowhere:x", Now: time.Now}, func(Ready) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "listening for metrics") {
		t.Errorf("%v", err)
	}
}

// A request under way when the server is stopped is answered.
func TestStoppingLetsRequestsEnd(t *testing.T) {
	at, stop := servedAs(t, Options{Dir: fresh(t, ""), Addr: "127.0.0.1:0", Metrics: "0", Now: time.Now})
	url := at.URL
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST /api/agent/v1/register HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{")
	for { // until the server reads the body
		if _, body := fetch(t, at.Metrics); strings.Contains(body, "requests_under_way 1") {
			break
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	for { // until no new connection is taken
		if _, err := http.Get(url + "/healthz"); err != nil {
			break
		}
	}
	io.WriteString(c, "}")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(res.Body); res.StatusCode != 201 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package provider

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"encoding/pem"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/egress"
	"tallystick/internal/run/session"
)

const searchKey = "sk-search-0123456789abcdef"

// A webCase is the live side of one case and a server that counts its requests.
type webCase struct {
	*Web
	recorder *cassette.Recorder
	asked    atomic.Int64
	port     int
}

func newWebCase(t *testing.T, secure bool, handle http.HandlerFunc, rules func(port int) egress.Rules, lookup func(context.Context, string) ([]netip.Addr, error)) *webCase {
	t.Helper()
	c := &webCase{}
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.asked.Add(1); handle(w, r) })
	dir := t.TempDir()
	server := httptest.NewServer(counted)
	if secure {
		server.Close()
		server = httptest.NewTLSServer(counted)
		if err := os.WriteFile(dir+"/ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.port, _ = strconv.Atoi(u.Port())
	access, err := (&Settings{}).Access(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	listed := rules(c.port)
	if err := listed.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := access.Egress(listed, dir, func(name string) string { return map[string]string{"SEARCH_KEY": searchKey}[name] }); err != nil {
		t.Fatal(err)
	}
	if c.recorder, err = cassette.NewRecorder(cassette.RecorderOptions{Redactor: access.Redactor()}); err != nil {
		t.Fatal(err)
	}
	c.Web = NewWeb(WebConfig{Access: access, Recorder: c.recorder, Rules: listed, Guard: egress.Guard{Lookup: lookup}})
	return c
}

func (c *webCase) get(t *testing.T, host, scheme, path string, pass *session.HTTPPass) (*cassette.HTTPExchange, error) {
	t.Helper()
	ask := cassette.HTTPAsk{Method: "GET", Scheme: scheme, Host: host, Port: c.port, Path: path, Headers: map[string][]string{"accept-encoding": {"gzip, br"}}}
	request, err := cassette.HTTPRequest(ask, nil)
	if err != nil {
		t.Fatal(err)
	}
	it, err := c.Fetch(context.Background(), ask, request, pass)
	if err != nil {
		return nil, err
	}
	return it.HTTP, nil
}

func named(host, scheme string) func(int) egress.Rules {
	return func(port int) egress.Rules { return egress.Rules{{Host: host, Scheme: scheme, Ports: []int{port}}} }
}

// A name server that answers first with a public address and then with one of this
// machine, or the other way round, leads nowhere.
func TestARebindingNameReachesNothing(t *testing.T) {
	public, loop := netip.MustParseAddr("192.88.99.1"), netip.MustParseAddr("127.0.0.1")
	for _, answers := range [][]netip.Addr{{loop}, {public, loop}, {loop, public}, {netip.MustParseAddr("::ffff:127.0.0.1")}} {
		c := newWebCase(t, false, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secret") }, named("rebind.example", "http"),
			func(context.Context, string) ([]netip.Addr, error) { return answers, nil })
		var unsent *session.NotSentError
		if e, err := c.get(t, "rebind.example", "http", "/", nil); !errors.As(err, &unsent) || unsent.Rule != "egress:address" {
			t.Errorf("%v: %+v, %v", answers, e, err)
		}
		if n := c.asked.Load(); n > 0 {
			t.Errorf("%v: the server was asked %d times", answers, n)
		}
	}
}

// The name is looked up once for a request, and what was found is dialled: a second
// answer is never asked for.
func TestTheAddressIsPinned(t *testing.T) {
	lookups := 0
	c := newWebCase(t, false, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) },
		func(port int) egress.Rules {
			return egress.Rules{{Host: "pinned.example", Scheme: "http", Ports: []int{port}, Addresses: []string{"127.0.0.1"}}}
		},
		func(context.Context, string) ([]netip.Addr, error) {
			if lookups++; lookups > 1 {
				return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		})
	e, err := c.get(t, "pinned.example", "http", "/", nil)
	if err != nil || e.Response == nil || e.Response.Text != fmt.Sprintf("pinned.example:%d", c.port) {
		t.Fatalf("%+v, %v", e, err)
	}
	if lookups != 1 || e.From == nil || e.From.Address != "127.0.0.1" || !e.From.Local || e.From.Host != "pinned.example" {
		t.Errorf("%d lookups, from %+v", lookups, e.From)
	}
	var unsent *session.NotSentError
	if _, err := c.get(t, "pinned.example", "http", "/", nil); !errors.As(err, &unsent) {
		t.Errorf("the second answer of the name server was believed: %v", err)
	}
}

// A redirect is an answer, whatever it leads to; who follows it asks the proxy again.
func TestARedirectIsNotFollowed(t *testing.T) {
	c := newWebCase(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	}, named("127.0.0.1", "http"), nil)
	e, err := c.get(t, "127.0.0.1", "http", "/", nil)
	if err != nil || e.Response == nil || e.Response.Status != 302 || e.Response.Headers["location"][0] != "http://169.254.169.254/latest/meta-data" {
		t.Fatalf("%+v, %v", e, err)
	}
	if n := c.asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
}

// The credential goes to its host, and comes back in no form.
func TestACredentialIsPutInAndTakenOut(t *testing.T) {
	got := ""
	c := newWebCase(t, true, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("X-Api-Key")
		w.Header().Set("X-Echo", got)
		fmt.Fprintf(w, "you sent %s and %x", got, got)
	}, func(port int) egress.Rules {
		return egress.Rules{{Host: "127.0.0.1", Ports: []int{port}, CAFile: "ca.pem", Credential: &egress.Credential{Env: "SEARCH_KEY", Header: "X-Api-Key"}}}
	}, nil)
	e, err := c.get(t, "127.0.0.1", "https", "/", nil)
	if err != nil || e.Response == nil {
		t.Fatalf("%+v, %v", e, err)
	}
	if got != searchKey {
		t.Errorf("the server got %q", got)
	}
	if text := fmt.Sprint(e.Response); strings.Contains(text, searchKey) || strings.Contains(text, fmt.Sprintf("%x", searchKey)) {
		t.Errorf("the reply has the key: %s", text)
	}
	if e.From == nil || len(e.From.Leaf) < 64 || len(e.From.Chain) < 64 || e.From.Roots == "" {
		t.Errorf("from %+v", e.From)
	}
	recorded, err := c.recorder.Cassette()
	if err != nil {
		t.Fatal(err)
	}
	lines, err := recorded.Lines()
	if err != nil || strings.Contains(string(lines), searchKey) {
		t.Errorf("%v: the recording has the key: %s", err, lines)
	}
	if again, err := cassette.ParseLines(lines, cassette.Limits{}); err != nil || again.Header.Totals.HTTPExchanges != 1 || len(again.Header.Reached) != 1 {
		t.Errorf("%v", err)
	}
}

// A server whose certificate nobody vouches for gives no reply, and that is recorded.
func TestAnUnknownCertificateIsNoReply(t *testing.T) {
	c := newWebCase(t, true, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }, named("127.0.0.1", "https"), nil)
	e, err := c.get(t, "127.0.0.1", "https", "/", nil)
	if err != nil || e.Response != nil || !strings.Contains(e.Error, "certificate") || e.From != nil {
		t.Fatalf("%+v, %v", e, err)
	}
	if n := c.asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
}

func TestBodies(t *testing.T) {
	for _, tt := range []struct {
		path        string
		text, error string
		pieces      int
	}{
		{"/gzip", "compressed", "", 0},
		{"/br", "", `compressed with "br"`, 0},
		{"/huge", "", "more than 4194304 bytes", 0},
		{"/cut", "", "broke off", 0},
		{"/events", "data: 1\n\ndata: 2\n\n", "", 2},
	} {
		c := newWebCase(t, false, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/gzip":
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, "compressed")
				z.Close()
			case "/br":
				w.Header().Set("Content-Encoding", "br")
				fmt.Fprint(w, "x")
			case "/huge":
				_, _ = io.Copy(w, io.LimitReader(zeros{}, egress.MaxBodyBytes+1))
			case "/cut":
				w.Header().Set("Content-Length", "100")
				fmt.Fprint(w, "x")
			case "/events":
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range 2 {
					fmt.Fprintf(w, "data: %d\n\n", i+1)
					w.(http.Flusher).Flush()
				}
			}
		}, named("127.0.0.1", "http"), nil)
		begun, passed := 0, ""
		e, err := c.get(t, "127.0.0.1", "http", tt.path, &session.HTTPPass{Begin: func(int, map[string][]string) { begun++ }, Piece: func(p string) { passed += p }})
		if err != nil {
			t.Errorf("%s: %v", tt.path, err)
			continue
		}
		if tt.error != "" {
			if e.Response != nil || !strings.Contains(e.Error, tt.error) {
				t.Errorf("%s: %+v", tt.path, e)
			}
			continue
		}
		if e.Response == nil || string(e.Response.Body()) != tt.text || len(e.Response.Stream) != tt.pieces {
			t.Errorf("%s: %+v", tt.path, e.Response)
		}
		if isStreamed := tt.pieces > 0; (begun == 1) != isStreamed || isStreamed && passed != tt.text {
			t.Errorf("%s: begun %d times, passed on %q", tt.path, begun, passed)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// A server that providers.yaml names is for the gateway.
func TestAModelServerIsNotAskedAsAWebsite(t *testing.T) {
	settings := &Settings{Endpoints: []*Endpoint{{Provider: "openai", BaseURL: "http://127.0.0.1:9999/v1"}}}
	access, err := settings.Access(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	err = access.Egress(egress.Rules{{Host: "127.0.0.1", Scheme: "http", Ports: []int{9999}}}, t.TempDir(), func(string) string { return "" })
	if !refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), "through the gateway") {
		t.Errorf("%v", err)
	}
	if err := access.Egress(egress.Rules{{Host: "127.0.0.1", Scheme: "http", Ports: []int{9998}}}, t.TempDir(), func(string) string { return "" }); err != nil {
		t.Error(err)
	}
}

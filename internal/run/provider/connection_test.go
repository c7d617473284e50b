package provider

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

// An authority is a certificate authority that a test made.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // in PEM
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "made here"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, file: filepath.Join(t.TempDir(), "ca.pem")}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	return a
}

// serve answers as a known model at a name, with a certificate of the authority.
func (a *authority) serve(t *testing.T, host string) (*httptest.Server, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, of, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-request-id", "req_7")
		w.Header().Set("content-type", "application/json")
		// What a server writes of itself decides nothing.
		w.Header().Set("x-endpoint", "https://api.openai.com:443")
		w.Header().Set("server", "cloudflare")
		io.WriteString(w, `{"model":"gpt-4o-2024-08-06","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key}}}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, leaf
}

// ask makes one call of the openai provider of some settings. Every connection goes to
// the server, as if the machine's own files said that the name is there.
func ask(t *testing.T, settings string, server *httptest.Server) (*cassette.Interaction, error) {
	t.Helper()
	a := openAccess(t, parseSettings(t, settings), nil)
	for file, c := range a.clients {
		transport := encryptedTransport(a.trusted[file])
		if server != nil {
			transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
			}
		}
		c.Transport.(*loopbackOnly).encrypted = func() *http.Transport { return transport }
	}
	live, err := New(Config{Access: a, Recorder: newRecorder(t, a, nil)})
	if err != nil {
		t.Fatal(err)
	}
	live.sleep = func(context.Context, time.Duration) error { return nil }
	return live.Call(context.Background(), wire.OpenAIChat, []byte(chatBody), nil)
}

// TestAKnownNameThatLeadsHereIsLocal: the files of the machine say that a provider is
// at this machine, and a certificate authority of one's own vouches for it.
func TestAKnownNameThatLeadsHereIsLocal(t *testing.T) {
	ca := newAuthority(t)
	server, leaf := ca.serve(t, "api.openai.com")
	it, err := ask(t, "version: 1\nopenai: {base_url: \"https://API.openai.com./v1/\", ca_file: "+ca.file+"}\n", server)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(ca.file)
	if err != nil {
		t.Fatal(err)
	}
	want := evidence.Endpoint{Scheme: "https", Host: "api.openai.com", Port: 443, Path: "/v1", Local: true, Address: "127.0.0.1", Roots: digest.IDOf(data).String(),
		Leaf: digest.IDOf(leaf.Raw).String(), Chain: digest.IDOf(append(append([]byte{}, leaf.Raw...), ca.cert.Raw...)).String()}
	if *it.Model.From != want {
		t.Errorf("got  %+v\nwant %+v", *it.Model.From, want)
	}
	if *it.Model.Said != (cassette.Said{Model: "gpt-4o-2024-08-06", RequestID: "req_7"}) {
		t.Errorf("the provider said %+v", it.Model.Said)
	}
	if text := it.Model.From.Text(); !strings.HasSuffix(text, ", local") || !strings.Contains(text, "certificates of a file") {
		t.Error(text)
	}
}

// TestOnlyShippedAndNamedAuthoritiesVouch: what the machine trusts is not asked.
func TestOnlyShippedAndNamedAuthoritiesVouch(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	server, _ := ca.serve(t, "api.openai.com")
	t.Setenv("SSL_CERT_FILE", ca.file)
	t.Setenv("SSL_CERT_DIR", filepath.Dir(ca.file))
	for name, settings := range map[string]string{
		"none is named":      "version: 1\nopenai: {base_url: \"https://api.openai.com/v1\"}\n",
		"another is named":   "version: 1\nopenai: {base_url: \"https://api.openai.com/v1\", ca_file: " + other.file + "}\n",
		"named for another":  "version: 1\nopenai: {base_url: \"https://api.openai.com/v1\"}\nanthropic: {base_url: \"https://b.example\", ca_file: " + ca.file + "}\n",
		"named for a server": "version: 1\nopenai: {base_url: \"https://api.openai.com/v1\"}\nmcp: {a: {url: \"https://b.example\", ca_file: " + ca.file + "}}\n",
	} {
		_, err := ask(t, settings, server)
		requireRefusal(t, err, refusal.ProviderFailed, "certificate")
		if err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The name must be the certificate's too.
	_, err := ask(t, "version: 1\nopenai: {base_url: \"https://other.example/v1\", ca_file: "+ca.file+"}\n", server)
	requireRefusal(t, err, refusal.ProviderFailed, "other.example")
}

func TestTheShippedAuthoritiesAreThere(t *testing.T) {
	if n := len(shipped().has); n < 100 {
		t.Errorf("%d authorities come with the program", n)
	}
	// A shipped one in a file is not the file's: its constraints stay.
	for root := range shipped().has {
		if r := (&roots{name: "sha256:x"}); r.vouching(&tls.ConnectionState{}) != "sha256:x" || root == (digest.ID{}) {
			t.Error("nothing vouches for a connection without a chain")
		}
		break
	}
}

func TestFilesThatAreNotCertificatesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"empty": "", "words": "hello\n", "key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "damaged": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		s := parseSettings(t, "version: 1\nopenai: {ca_file: "+filepath.Join(dir, name)+"}\n")
		if _, err := s.Access(func(string) string { return "" }); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := parseSettings(t, "version: 1\nopenai: {ca_file: nowhere.pem}\n")
	if _, err := s.Access(func(string) string { return "" }); err == nil {
		t.Error("a file that is not there is no error")
	}
}

// TestEveryReplyNamesItsEndpoint: replies with an error status, streams and streams
// that broke off too.
func TestEveryReplyNamesItsEndpoint(t *testing.T) {
	server := fakemodel.New(t, fakemodel.Reply{Text: "x"}, fakemodel.Reply{Status: 400, Body: `{"error":{}}`}, fakemodel.Reply{Events: []string{"data: {}\n\n", "data: {"}})
	b := newBed(t, server, nil)
	for range 3 {
		b.Call(context.Background(), wire.OpenAIChat, []byte(chatBody), func(string) error { return nil })
	}
	file, err := b.Cassette()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cassette.Parse(file, cassette.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	place, err := evidence.EndpointAt(server.OpenAI())
	if err != nil {
		t.Fatal(err)
	}
	place.Local, place.Leaf, place.Chain = true, evidence.PlainEndpoint, evidence.PlainEndpoint
	uses := c.Header.Endpoints
	if len(c.Interactions) != 3 || len(uses) != 1 || uses[0].Endpoint != place || uses[0].Replies != 3 || uses[0].Addresses[0] != "127.0.0.1" {
		t.Errorf("%d calls, endpoints %+v, want %+v", len(c.Interactions), uses, place)
	}
}

// TestKeptRepliesOfAnotherEndpointAreNotUsedAgain, in every spelling of the change.
func TestKeptRepliesOfAnotherEndpointAreNotUsedAgain(t *testing.T) {
	place, err := evidence.EndpointAt("https://api.example.com/v1")
	if err != nil {
		t.Fatal(err)
	}
	it := &cassette.Interaction{Model: &cassette.ModelCall{API: wire.OpenAIChat, From: &place}}
	nameless := &cassette.Interaction{Model: &cassette.ModelCall{API: wire.OpenAIChat}}
	for settings, elsewhere := range map[string]bool{
		`openai: {base_url: "https://api.example.com/v1"}`:      false,
		`openai: {base_url: "https://api.example.com/v1/"}`:     false,
		`openai: {base_url: "https://api.example.com:443/v1"}`:  false,
		`openai: {base_url: "HTTPS://API.EXAMPLE.COM/v1"}`:      false,
		`openai: {base_url: "https://api.example.com./v1"}`:     false,
		`openai: {base_url: "https://api.example.com/v2"}`:      true,
		`openai: {base_url: "https://api.example.com/v1/x"}`:    true,
		`openai: {base_url: "https://api.example.com"}`:         true,
		`openai: {base_url: "https://api.example.com:8443/v1"}`: true,
		`openai: {base_url: "https://api2.example.com/v1"}`:     true,
		`openai: {base_url: "http://127.0.0.1:1/v1"}`:           true,
		`openai: {}`: true,
		`anthropic: {base_url: "https://api.example.com/v1"}`: true,
		`mcp: {a: {url: "https://api.example.com/v1"}}`:       true,
	} {
		s := parseSettings(t, "version: 1\n"+settings+"\n")
		if s.Elsewhere(it, cassette.Recorded) != elsewhere {
			t.Errorf("%s: elsewhere is %v: %s", settings, !elsewhere, s.CameFrom(it))
		}
		if !s.Elsewhere(nameless, cassette.Recorded) || s.Elsewhere(nameless, cassette.Authored) {
			t.Errorf("%s: a reply without an endpoint", settings)
		}
	}
	for _, settings := range []string{"https://user:word@api.example.com/v1", "https://user@api.example.com", "http://api.example.com/v1", "https://api.example.com/v1?x=1"} {
		if _, err := ParseSettings("providers.yaml", []byte("version: 1\nopenai: {base_url: \""+settings+"\"}\n")); err == nil {
			t.Errorf("%s is accepted", settings)
		}
	}
}

// TestAProxyIsOnRecord runs itself again with HTTPS_PROXY set, which Go reads once in
// a process. The proxy leads to a server of its own choice.
func TestAProxyIsOnRecord(t *testing.T) {
	if ca := os.Getenv("TEST_PROXIED_CA"); ca != "" {
		a := openAccess(t, parseSettings(t, "version: 1\nopenai: {base_url: \"https://api.openai.com/v1\", ca_file: "+ca+"}\n"), nil)
		live, err := New(Config{Access: a, Recorder: newRecorder(t, a, nil)})
		if err != nil {
			t.Fatal(err)
		}
		it, err := live.Call(context.Background(), wire.OpenAIChat, []byte(chatBody), nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimPrefix(os.Getenv("HTTPS_PROXY"), "http://user:word@"); it.Model.From.Proxy != want || !strings.Contains(it.Model.From.Text(), "through the proxy "+want) {
			t.Errorf("the proxy is %q in %+v, want %s", it.Model.From.Proxy, it.Model.From, want)
		}
		return
	}
	ca := newAuthority(t)
	server, _ := ca.serve(t, "api.openai.com")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there, err := net.Dial("tcp", server.Listener.Addr().String())
		if r.Method != http.MethodConnect || err != nil {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		here, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { io.Copy(there, buffered); there.Close() }()
		go func() { io.Copy(here, there); here.Close() }()
	}))
	defer proxy.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAProxyIsOnRecord$")
	cmd.Env = append(os.Environ(), "TEST_PROXIED_CA="+ca.file, "HTTPS_PROXY="+strings.Replace(proxy.URL, "http://", "http://user:word@", 1), "NO_PROXY=", "no_proxy=", "https_proxy=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

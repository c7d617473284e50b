package egress

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// attacks on the proxy itself, in the open. Each is refused, is a violation of the rule,
// and reaches no server. AUTH stands for the header with the token.
var attacks = []struct {
	name, raw string
	rule      string
	status    int
}{
	{"a host that is not listed", "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nAUTH\r\n", "egress:unlisted", 403},
	{"a path beside the listed one", "GET http://127.0.0.1:8080/docsx HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:unlisted", 403},
	{"a method that is not listed", "DELETE http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:unlisted", 403},
	{"another port", "GET http://127.0.0.1:8081/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8081\r\nAUTH\r\n", "egress:unlisted", 403},
	{"https listed, http asked", "GET http://api.example.com/v1/a HTTP/1.1\r\nHost: api.example.com\r\nAUTH\r\n", "egress:unlisted", 403},
	{"out of the prefix by dots", "GET http://127.0.0.1:8080/docs/../secret HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"by escaped dots", "GET http://127.0.0.1:8080/docs/%2e%2E/secret HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"by an escaped slash", "GET http://127.0.0.1:8080/docs/..%2fsecret HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"by a backslash", "GET http://127.0.0.1:8080/docs/..\\secret HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"by an escape that is escaped", "GET http://127.0.0.1:8080/docs/%252e%252e/secret HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"by dots with a parameter", "GET http://127.0.0.1:8080/docs/..;a=b/secret HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},

	{"loopback in decimal", "GET http://2130706433:8080/docs/a HTTP/1.1\r\nHost: 2130706433:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"loopback in octal", "GET http://0177.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 0177.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"loopback in hexadecimal", "GET http://0x7f000001:8080/docs/a HTTP/1.1\r\nHost: 0x7f000001:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"loopback with fewer parts", "GET http://127.1:8080/docs/a HTTP/1.1\r\nHost: 127.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"loopback of IPv6", "GET http://[::1]:8080/docs/a HTTP/1.1\r\nHost: [::1]:8080\r\nAUTH\r\n", "egress:unlisted", 403},
	{"loopback of IPv6 in full", "GET http://[0:0:0:0:0:0:0:1]:8080/docs/a HTTP/1.1\r\nHost: [::1]:8080\r\nAUTH\r\n", "egress:unlisted", 403},
	{"loopback with a zone", "GET http://[::1%25lo]:8080/docs/a HTTP/1.1\r\nHost: [::1]:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"NAT64 of loopback", "GET http://[64:ff9b::7f00:1]:8080/docs/a HTTP/1.1\r\nHost: [64:ff9b::7f00:1]:8080\r\nAUTH\r\n", "egress:unlisted", 403},
	{"no address", "GET http://0.0.0.0:8080/docs/a HTTP/1.1\r\nHost: 0.0.0.0:8080\r\nAUTH\r\n", "egress:unlisted", 403},
	{"a name in other letters", "GET http://b\u00fccher.example/ HTTP/1.1\r\nHost: b\u00fccher.example\r\nAUTH\r\n", "egress:malformed", 400},
	{"a dot that looks like one", "GET http://127.0.0\u30021:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"a user before the host", "GET http://127.0.0.1:8080@evil.example/docs/a HTTP/1.1\r\nHost: evil.example\r\nAUTH\r\n", "egress:malformed", 400},
	{"a listed host after the user", "GET http://u:p@127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"two ports", "GET http://127.0.0.1:8080:80/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"a port that another reads otherwise", "GET http://127.0.0.1:08080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},

	{"Host is another", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: evil.example\r\nAUTH\r\n", "egress:host", 400},
	{"Host has another port", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:9090\r\nAUTH\r\n", "egress:host", 400},
	{"no Host", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nAUTH\r\n", "egress:malformed", 400},
	{"two Hosts", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nHost: evil.example\r\nAUTH\r\n", "egress:malformed", 400},
	{"CONNECT whose Host is another", "CONNECT api.example.com:443 HTTP/1.1\r\nHost: evil.example:443\r\nAUTH\r\n", "egress:host", 400},
	{"CONNECT to another host", "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nAUTH\r\n", "egress:unlisted", 403},
	{"CONNECT to another port", "CONNECT api.example.com:22 HTTP/1.1\r\nHost: api.example.com:22\r\nAUTH\r\n", "egress:unlisted", 403},
	{"CONNECT to a private address", "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254:80\r\nAUTH\r\n", "egress:unlisted", 403},
	{"CONNECT without a port", "CONNECT api.example.com HTTP/1.1\r\nHost: api.example.com\r\nAUTH\r\n", "egress:malformed", 400},
	{"CONNECT with a body", "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\nContent-Length: 2\r\nAUTH\r\nhi", "egress:malformed", 400},
	{"an https URL of another host", "GET https://evil.example/v1/a HTTP/1.1\r\nHost: evil.example\r\nAUTH\r\n", "egress:unlisted", 403},
	{"another scheme", "GET ftp://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},

	{"a length and chunks", "POST http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "egress:malformed", 400},
	{"two lengths", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHContent-Length: 4\r\nContent-Length: 0\r\n\r\n", "egress:malformed", 400},
	{"the same length twice", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHContent-Length: 0\r\nContent-Length: 0\r\n\r\n", "egress:malformed", 400},
	{"a list of lengths", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHContent-Length: 0, 0\r\n\r\n", "egress:malformed", 400},
	{"a length with a sign", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHContent-Length: +0\r\n\r\n", "egress:malformed", 400},
	{"another coding", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "egress:malformed", 400},
	{"chunks spelled otherwise", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "egress:malformed", 400},
	{"chunks of HTTP/1.0", "GET http://127.0.0.1:8080/docs/a HTTP/1.0\r\nHost: 127.0.0.1:8080\r\nAUTHTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "egress:malformed", 400},
	{"a name with a blank before the colon", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHContent-Length : 4\r\n\r\n", "egress:malformed", 400},
	{"a header over two lines", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHX-A: 1\r\n X-B: 2\r\n\r\n", "egress:malformed", 400},
	{"a line that ends in LF", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHX-A: 1\nX-B: 2\r\n\r\n", "egress:malformed", 400},
	{"a CR in a header", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHX-A: 1\rX-B: 2\r\n\r\n", "egress:malformed", 400},
	{"a zero byte in a header", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHX-A: 1\x002\r\n\r\n", "egress:malformed", 400},
	{"a line break in the path", "GET http://127.0.0.1:8080/docs/a\r\nX-B: /b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"an escaped zero in the path", "GET http://127.0.0.1:8080/docs/%00 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"a blank in the path", "GET http://127.0.0.1:8080/docs/a b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"a fragment", "GET http://127.0.0.1:8080/docs/a?b#c HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTH\r\n", "egress:malformed", 400},
	{"HTTP/2 without asking", "PRI http://127.0.0.1:8080/docs/a HTTP/2.0\r\n\r\nSM\r\n\r\n", "egress:malformed", 400},

	{"WebSocket", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "egress:upgrade", 403},
	{"h2c", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "egress:upgrade", 403},
	{"an upgrade that names none", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHConnection: keep-alive, upgrade\r\n\r\n", "egress:upgrade", 403},

	{"a model provider", "GET http://api.openai.com/v1/models HTTP/1.1\r\nHost: api.openai.com\r\nAUTH\r\n", "egress:model", 403},
	{"a model provider by CONNECT", "CONNECT api.anthropic.com:443 HTTP/1.1\r\nHost: api.anthropic.com:443\r\nAUTH\r\n", "egress:model", 403},
	{"one in capitals with a dot", "CONNECT API.Anthropic.COM.:443 HTTP/1.1\r\nHost: API.Anthropic.COM.:443\r\nAUTH\r\n", "egress:model", 403},
	{"one of a region", "CONNECT bedrock-runtime.eu-west-1.amazonaws.com:443 HTTP/1.1\r\nHost: bedrock-runtime.eu-west-1.amazonaws.com:443\r\nAUTH\r\n", "egress:model", 403},

	{"the token of another case", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nProxy-Authorization: Basic dGFsbHk6c2stdGFsbHktMDAwMA==\r\n\r\n", "egress:token", 407},
	{"two tokens", "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAUTHAUTH\r\n", "egress:token", 407},
}

func TestWhatTheProxyRefuses(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			c := newCase(t, listed)
			status, body := raw(t, c.dial(t), strings.ReplaceAll(a.raw, "AUTH", auth))
			if status != a.status {
				t.Errorf("the answer is %d %s, want %d", status, body, a.status)
			}
			if strings.Contains(body, token) {
				t.Errorf("the answer has the token: %s", body)
			}
			if asked := c.web.requests(); len(asked) > 0 {
				t.Errorf("a server was asked: %+v", asked)
			}
			if found := c.violations(t); !slices.Equal(found, []string{a.rule}) {
				t.Errorf("the violations are %v, want %s", found, a.rule)
			}
		})
	}
}

// The same host in other letters is the same host, and is asked as it is listed.
func TestSpellingsOfAListedHost(t *testing.T) {
	for _, target := range []string{"XN--BCHER-KVA.Example", "xn--bcher-kva.example.", "xn--bcher-kva.example:443"} {
		c := newCase(t, listed)
		place := target
		if !strings.Contains(place, ":") {
			place += ":443"
		}
		tunnel, err := c.secure(t, c.open(t, place), "xn--bcher-kva.example")
		if err != nil {
			t.Fatal(err)
		}
		if status, body := raw(t, tunnel, "GET /a HTTP/1.1\r\nHost: "+target+"\r\n\r\n"); status != 200 || body != "a page" {
			t.Errorf("%s: the answer is %d %s", target, status, body)
		}
		if asked := c.web.requests(); len(asked) != 1 || asked[0].Host != "xn--bcher-kva.example" || asked[0].Port != 443 || asked[0].Scheme != "https" {
			t.Errorf("%s: asked %+v", target, asked)
		}
		if found := c.violations(t); len(found) > 0 {
			t.Errorf("%s: %v", target, found)
		}
	}
}

func TestWithinATunnel(t *testing.T) {
	for _, a := range []struct {
		name, raw, rule string
		status          int
	}{
		{"Host is another", "GET /v1/a HTTP/1.1\r\nHost: other.example\r\n\r\n", "egress:host", 400},
		{"Host is another listed one", "GET /v1/a HTTP/1.1\r\nHost: xn--bcher-kva.example\r\n\r\n", "egress:host", 400},
		{"the whole URL of another", "GET https://other.example/v1/a HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "egress:host", 403},
		{"another path", "GET /admin HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "egress:unlisted", 403},
		{"a tunnel in it", "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n", "egress:tunnel", 403},
		{"an upgrade", "GET /v1/a HTTP/1.1\r\nHost: api.example.com\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", "egress:upgrade", 403},
		{"smuggling", "POST /v1/a HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "egress:malformed", 400},
		{"trailers", "POST /v1/a HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Forwarded-Host: evil.example\r\n\r\n", "egress:malformed", 400},
		{"HTTP/2 all the same", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "egress:malformed", 400},
		{"TRACE", "TRACE /v1/a HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "egress:unlisted", 403},
		{"too large a body", "POST /v1/a HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 999999999\r\n\r\n", "egress:malformed", 400},
	} {
		t.Run(a.name, func(t *testing.T) {
			c := newCase(t, listed)
			tunnel, err := c.secure(t, c.open(t, "api.example.com:443"), "api.example.com")
			if err != nil {
				t.Fatal(err)
			}
			if p := tunnel.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
				t.Errorf("the protocol is %q", p)
			}
			if status, body := raw(t, tunnel, a.raw); status != a.status {
				t.Errorf("the answer is %d %s, want %d", status, body, a.status)
			}
			if asked := c.web.requests(); len(asked) > 0 {
				t.Errorf("a server was asked: %+v", asked)
			}
			if found := c.violations(t); !slices.Equal(found, []string{a.rule}) {
				t.Errorf("the violations are %v, want %s", found, a.rule)
			}
		})
	}
}

// What a tunnel is for, and what TLS in it is for, must be one host.
func TestTheNameOfTheHandshake(t *testing.T) {
	for _, name := range []string{"other.example", "xn--bcher-kva.example", "evil.example", "api.example.com.evil.example"} {
		c := newCase(t, listed)
		if _, err := c.secure(t, c.open(t, "api.example.com:443"), name); err == nil {
			t.Errorf("a handshake for %s was answered", name)
		}
		if found := c.violations(t); !slices.Equal(found, []string{"egress:sni"}) {
			t.Errorf("%s: the violations are %v", name, found)
		}
	}
	if err := sameName("", "api.example.com"); err == nil {
		t.Error("a handshake without a name was accepted for a host that has one")
	}
	if err := sameName("127.0.0.1", "127.0.0.1"); err != nil {
		t.Error(err)
	}
}

// A second request on a connection is judged as the first one was.
func TestASecondRequestOnAConnection(t *testing.T) {
	c := newCase(t, listed)
	conn := c.dial(t)
	first := "POST http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n" + auth + "Content-Length: 0\r\n\r\n"
	second := "GET http://127.0.0.1:8080/secret HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n" + auth + "\r\n"
	_, _ = io.WriteString(conn, strings.Replace(first, "POST", "GET", 1)+second)
	data, _ := io.ReadAll(conn)
	if n := strings.Count(string(data), "HTTP/1.1 "); n != 2 || !strings.Contains(string(data), "HTTP/1.1 403") {
		t.Errorf("the answers are %s", data)
	}
	if asked := c.web.requests(); len(asked) != 1 || asked[0].Path != "/docs/a" {
		t.Errorf("asked %+v", asked)
	}
}

// What the program shows to the proxy, and what is about its connection, goes no further.
func TestWhatIsPassedOn(t *testing.T) {
	c := newCase(t, listed)
	status, body := raw(t, c.dial(t), "GET http://127.0.0.1:8080/docs/%61?q=%20x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"+auth+
		"Connection: close, X-Private\r\nX-Private: 1\r\nX-Kept: 2\r\nTE: trailers\r\nX-Echo: "+token+"\r\n\r\n")
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	ask := c.web.requests()[0]
	if ask.Path != "/docs/a" || ask.Query != "q=%20x" || ask.Method != http.MethodGet {
		t.Errorf("asked %+v", ask)
	}
	for _, name := range []string{"proxy-authorization", "connection", "x-private", "te", "host"} {
		if ask.Headers[name] != nil {
			t.Errorf("%s was passed on: %q", name, ask.Headers[name])
		}
	}
	if got := ask.Headers["x-kept"]; !slices.Equal(got, []string{"2"}) {
		t.Errorf("x-kept is %q", got)
	}
	if got := strings.Join(ask.Headers["x-echo"], ""); strings.Contains(got, "sk-tally") {
		t.Errorf("the token of the case went on: %s", got)
	}
}

// A server's reply cannot write headers of the proxy's own connection.
func TestAReplyIsOneReply(t *testing.T) {
	c := newCase(t, listed)
	c.web.reply.Status, c.web.reply.Text = 200, "x"
	c.web.reply.Headers = map[string][]string{"x-a": {"1\r\nX-Injected: 2\r\n\r\nHTTP/1.1 200 OK"}, "transfer-encoding": {"chunked"}, "content-length": {"9"}}
	conn := c.dial(t)
	_, _ = io.WriteString(conn, "GET http://127.0.0.1:8080/docs/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: close\r\n"+auth+"\r\n")
	data, _ := io.ReadAll(conn)
	head, rest, _ := strings.Cut(string(data), "\r\n\r\n")
	if rest != "x" || strings.Contains(head, "\nX-Injected") || strings.Contains(head, "transfer-encoding") || strings.Count(strings.ToLower(head), "content-length") != 1 {
		t.Errorf("the reply is %q", data)
	}
}

// The policy of the class denies what the target lists.
func TestPolicyJudgesRequests(t *testing.T) {
	c := newCase(t, listed)
	tunnel, err := c.secure(t, c.open(t, "other.example:443"), "other.example")
	if err != nil {
		t.Fatal(err)
	}
	if status, body := raw(t, tunnel, "GET /forbidden/a HTTP/1.1\r\nHost: other.example\r\n\r\n"); status != 403 || !strings.Contains(body, "denied by policy") {
		t.Errorf("the answer is %d %s", status, body)
	}
	if len(c.web.requests()) > 0 {
		t.Error("a server was asked")
	}
	if found := c.violations(t); !slices.Equal(found, []string{"policy:deny"}) {
		t.Errorf("the violations are %v", found)
	}
}

// A certificate of one case is worth nothing in the next, nor for a host that is not
// listed in its own, nor for long.
func TestAnAuthorityIsForOneCase(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	first, err := NewAuthority(listed, time.Hour, clock)
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewAuthority(listed, time.Hour, clock)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(authority *Authority, leaf *tls.Certificate, host string, at time.Time) error {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority.PEM())
		_, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: at})
		return err
	}
	leaf, err := first.leaf("api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(first, leaf, "api.example.com", now); err != nil {
		t.Errorf("its own: %v", err)
	}
	if err := verify(second, leaf, "api.example.com", now); err == nil {
		t.Error("the certificate of one case counts in the next")
	}
	if err := verify(first, leaf, "api.example.com", now.Add(leafLife+time.Minute)); err == nil {
		t.Error("the certificate lives on")
	}
	for _, host := range []string{"evil.example", "10.0.0.1", "::1"} {
		stolen, err := first.leaf(host)
		if err != nil {
			t.Fatal(err)
		}
		if err := verify(first, stolen, host, now); err == nil {
			t.Errorf("the authority speaks for %s", host)
		}
	}
	onlyAddress, err := NewAuthority(Rules{{Host: "127.0.0.1"}}, time.Hour, clock)
	if err != nil {
		t.Fatal(err)
	}
	if stolen, err := onlyAddress.leaf("evil.example"); err != nil || verify(onlyAddress, stolen, "evil.example", now) == nil {
		t.Errorf("an authority for an address speaks for names: %v", err)
	}
	onlyName, err := NewAuthority(Rules{{Host: "api.example.com"}}, time.Hour, clock)
	if err != nil {
		t.Fatal(err)
	}
	if stolen, err := onlyName.leaf("127.0.0.1"); err != nil || verify(onlyName, stolen, "127.0.0.1", now) == nil {
		t.Errorf("an authority for a name speaks for addresses: %v", err)
	}
	again, err := first.leaf("api.example.com")
	if err != nil || again != leaf {
		t.Error("a certificate that lives is made again")
	}
	now = now.Add(leafLife * 2 / 3)
	if renewed, err := first.leaf("api.example.com"); err != nil || renewed == leaf {
		t.Error("a certificate that ends soon is not made again")
	}
}

// A tool that is called like a request would be in the record as one that was made.
func TestNoToolIsCalledLikeARequest(t *testing.T) {
	c := newCase(t, listed)
	reply, err := c.session.Tool(t.Context(), session.ToolCall{Name: "http:GET api.example.com/v1/a", Args: []byte("{}")})
	if err != nil || !reply.IsError {
		t.Errorf("%+v, %v", reply, err)
	}
	for e := range c.session.Complete("", false).Verified.Events() {
		if e.Type == trajectory.ToolProposedType || e.Type == trajectory.ToolExecutedType {
			t.Errorf("event %d is %s", e.Seq, e.Type)
		}
	}
}

// Whatever head is accepted has one Host and one length, and says so again.
func FuzzHead(f *testing.F) {
	for _, a := range attacks {
		f.Add(a.raw)
	}
	f.Add("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := readHead(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		if len(m.headers["host"]) > 1 || len(m.headers["content-length"]) > 1 || m.headers["content-length"] != nil && m.headers["transfer-encoding"] != nil {
			t.Fatalf("%q is accepted with %v", text, m.headers)
		}
		for name, values := range m.headers {
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
				t.Fatalf("%q has the header %q: %q", text, name, values)
			}
		}
		again, err := readHead(bufio.NewReader(strings.NewReader(m.again(m.target, 0))))
		if err != nil || again.method != m.method || again.target != m.target {
			t.Fatalf("%q is passed on as %q: %v", text, m.again(m.target, 0), err)
		}
		if host, err := Host(strings.Join(m.headers["host"], "")); err == nil {
			if twice, err := Host(host); err != nil || twice != host {
				t.Fatalf("%q has two spellings: %q, %q, %v", text, host, twice, err)
			}
		}
		if p, err := Path(m.target); err == nil {
			if twice, err := Path(p); err != nil || twice != p {
				t.Fatalf("%q has two spellings: %q, %q, %v", m.target, p, twice, err)
			}
		}
	})
}

// Who looks for gold answers sees what was asked and what came back, as for tools, and
// the log has the request before the program has the reply.
func TestRequestsAndRepliesAreLookedThrough(t *testing.T) {
	c := newCase(t, listed)
	c.web.reply.Status, c.web.reply.Text = 200, "the answer is in the page"
	if status, body := raw(t, c.dial(t), "GET http://127.0.0.1:8080/docs/a?q=question HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"+auth+"\r\n"); status != 200 || body != "the answer is in the page" {
		t.Fatalf("%d %s", status, body)
	}
	result := c.session.Complete("", false)
	all := strings.Join(c.watched, "\n")
	if !strings.Contains(all, "the answer is in the page") || !strings.Contains(all, `"q":["question"]`) {
		t.Errorf("seen were %q", c.watched)
	}
	var types []trajectory.Type
	for e := range result.Verified.Events() {
		types = append(types, e.Type)
	}
	want := []trajectory.Type{trajectory.RunStartedType, trajectory.ToolProposedType, trajectory.PolicyDecisionType, trajectory.ToolExecutedType, trajectory.TransportRequestType, trajectory.RunCompletedType}
	if !slices.Equal(types, want) {
		t.Errorf("the events are %v", types)
	}
}

// What a program sends to the proxy for the gateway of its case comes to the gateway,
// without the proxy's token.
func TestTheGatewayIsReachedThroughTheProxy(t *testing.T) {
	c := newCase(t, listed)
	conn := c.dial(t)
	_, _ = io.WriteString(conn, "POST http://"+c.here+"/v1/chat/completions HTTP/1.1\r\nHost: "+c.here+"\r\n"+auth+"Content-Length: 2\r\n\r\n{}")
	gate := <-c.toGate
	r, err := http.ReadRequest(bufio.NewReader(gate))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path != "/v1/chat/completions" || string(body) != "{}" || r.Header.Get("Proxy-Authorization") != "" || r.Host != c.here {
		t.Errorf("the gateway got %+v %s", r, body)
	}
	_, _ = io.WriteString(gate, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	gate.Close()
	if answer, _ := io.ReadAll(conn); !strings.HasSuffix(string(answer), "ok") {
		t.Errorf("the program got %q", answer)
	}
	if found := c.violations(t); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

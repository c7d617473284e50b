package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// bridged gives lines to a bridge and returns what comes out.
func bridged(t testing.TB, url, key string, lines ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Bridge(context.Background(), strings.NewReader(strings.Join(lines, "\n")+"\n"), &out, url, key); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTheBridgeIsAnMCPServerOnLines(t *testing.T) {
	c := newCase(t, caseOptions{})
	got := bridged(t, c.url+"/mcp", token,
		initialize("2025-06-18"),
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		``,
		"\r",
		`{"jsonrpc":"2.0","id":"p","method":"ping"}`+"\r",
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Oslo"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"nope"}`,
		`not JSON`,
		`{"jsonrpc":"2.0","id":4,"method":"ping"}`,
	)
	want := `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":"tallystick","version":"1"}}}
{"jsonrpc":"2.0","id":"p","result":{}}
{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"city\":\"Oslo\",\"sky\":\"rain\"}"}],"isError":false}}
{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"there is no method nope"}}
{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the gateway answers with status 400: Unreadable: the body is not JSON"}}
{"jsonrpc":"2.0","id":4,"result":{}}
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	events := eventsOf[*trajectory.TransportRequest](c.end(t))
	if last := events[len(events)-1]; last.Method != "DELETE" || last.Status != 204 {
		t.Errorf("the session is not closed: %+v", last)
	}
}

func TestTheBridgeTellsWhatIsWrong(t *testing.T) {
	c := newCase(t, caseOptions{})
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, tt := range map[string]struct{ url, key, line, want string }{
		"a wrong token":            {c.url + "/mcp", foreignKey, ping, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the gateway answers with status 401: TokenRefused: `},
		"no session":               {c.url + "/mcp", token, ping, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the gateway answers with status 400: Usage: the header Mcp-Session-Id is missing`},
		"a wrong path":             {c.url + "/x", token, ping, `"message":"the gateway answers with status 404`},
		"a batch before a session": {c.url + "/mcp", token, `[` + ping + `,{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":"b","method":"ping"}]`, `"id":"b","error"`},
		"no server":                {"http://127.0.0.1:1/mcp?key=" + token, token, ping, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the gateway does not answer: `},
		"a line without end":       {c.url + "/mcp", token, `"` + strings.Repeat("x", maxBridgeBytes) + `"`, `"code":-32600,"message":"the message has more than`},
		"silence after a notice":   {"http://127.0.0.1:1/mcp", token, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, ``},
	} {
		got := bridged(t, tt.url, tt.key, tt.line)
		if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: got %.300s, want %s", name, got, tt.want)
		}
		if strings.Contains(got, tt.key) {
			t.Errorf("%s: the token is in %s", name, got)
		}
	}
}

// A server elsewhere must not learn the token by a redirect, and what it says
// must not break the lines.
func TestTheBridgeKeepsTheTokenAndTheLines(t *testing.T) {
	var seen []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header.Get("Authorization")) }))
	defer elsewhere.Close()
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/lines":
			io.WriteString(w, "{\"jsonrpc\":\"2.0\",\n\"id\":1,\n\"result\":{}}\n")
		case "/garbage":
			io.WriteString(w, "<html>\n")
		case "/huge":
			w.Write(bytes.Repeat([]byte(" "), maxBridgeBytes+2))
		}
	}))
	defer bad.Close()
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for path, want := range map[string]string{"/redirect": "status 307", "/lines": `{"jsonrpc":"2.0","id":1,"result":{}}`, "/garbage": "status 200: no message", "/huge": "more than"} {
		got := bridged(t, bad.URL+path, token, ping)
		if !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: got %.200q", path, got)
		}
	}
	if seen != nil {
		t.Errorf("a server elsewhere was asked: %v", seen)
	}
}

// A server may insist on what initialize agreed on.
func TestTheBridgeSaysItsSessionAndVersion(t *testing.T) {
	var said []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said = append(said, r.Method+" "+r.Header.Get(sessionHeader)+" "+r.Header.Get(versionHeader)+" "+r.Header.Get("Authorization"))
		w.Header().Set(sessionHeader, "s1")
		if len(said) > 1 {
			w.Header().Del(sessionHeader)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		io.WriteString(w, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}`)
	}))
	defer server.Close()
	bridged(t, server.URL, "T", initialize("2025-11-25"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if got, want := strings.Join(said, "\n"), "POST   Bearer T\nPOST s1 2025-06-18 Bearer T\nDELETE s1 2025-06-18 Bearer T"; got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
}

func TestTheBridgeRefusesAnAddressThatIsNone(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:80", "file:///etc/passwd", "http://", "::"} {
		err := Bridge(context.Background(), strings.NewReader(""), io.Discard, address, token)
		if !refusal.Is(err, refusal.Usage) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestTheBridgeEndsWithItsContextAndItsPipes(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	in, _ := io.Pipe() // without a writer
	cancel()
	if err := Bridge(ctx, in, io.Discard, "http://127.0.0.1:1/mcp", token); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r, w := io.Pipe()
	r.Close()
	c := newCase(t, caseOptions{})
	if err := Bridge(context.Background(), strings.NewReader(initialize("2025-06-18")), w, c.url+"/mcp", token); !refusal.Is(err, refusal.WriteFailed) {
		t.Errorf("got %v", err)
	}
	broken := io.MultiReader(strings.NewReader(initialize("2025-06-18")+"\n"), brokenReader{})
	if err := Bridge(context.Background(), broken, io.Discard, c.url+"/mcp", token); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("got %v", err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("pulled out") }

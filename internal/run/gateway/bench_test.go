package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tallystick/internal/run/cassette"
	"tallystick/internal/run/session"
	"tallystick/internal/testing/tape"
)

// BenchmarkModelCall is one model call over loopback, from the client's first
// byte to the last of the reply, beside a server that only echoes: the
// difference is what the gateway and the session take, policy, canonical
// request and three events included.
func BenchmarkModelCall(b *testing.B) {
	recorded, err := tape.FromYAML("tape.yaml", readFile(b, "testdata/clients.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	// The conversation of an agent that has been at it for a while: 16 KB.
	long := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("All work and no play. ", 750) + `"}]}`
	longTape, err := tape.FromYAML("long.yaml", []byte("format: tallystick-cassette/1-draft\ninteractions:\n  - model: {api: openai.chat, request: "+long+", reply: {message: {text: ok}}}\n"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("floor", func(b *testing.B) {
		echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
		defer echo.Close()
		post(b, func() {}, echo.URL, chatHello)
	})
	b.Run("floor 16 KB", func(b *testing.B) {
		echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
		defer echo.Close()
		post(b, func() {}, echo.URL, long)
	})
	b.Run("chat", func(b *testing.B) {
		c, rewind := replayed(b, recorded)
		post(b, rewind, c.url+"/v1/chat/completions", chatHello)
	})
	b.Run("chat 16 KB", func(b *testing.B) {
		c, rewind := replayed(b, longTape)
		post(b, rewind, c.url+"/v1/chat/completions", long)
	})
	b.Run("messages streamed", func(b *testing.B) {
		c, rewind := replayed(b, recorded)
		post(b, rewind, c.url+"/v1/messages", streamed(messagesHello))
	})
}

// BenchmarkToolCall is one tool call over MCP.
func BenchmarkToolCall(b *testing.B) {
	c := newCase(b, caseOptions{})
	h := c.connect(b, "2025-06-18")
	post(b, func() {}, c.url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Oslo"}}}`, h...)
}

// replayed is a case in replay, and a function that rewinds the tape.
func replayed(b *testing.B, tape *cassette.Cassette) (*caseRun, func()) {
	b.Helper()
	replay := &session.Replay{}
	return newCase(b, caseOptions{models: replay}), func() { replay.Player = cassette.NewPlayer(tape) }
}

func post(b *testing.B, rewind func(), url, body string, headers ...string) {
	b.Helper()
	for b.Loop() {
		rewind()
		r, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("X-Api-Key", token)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 {
			b.Fatalf("%d %v %s", resp.StatusCode, err, data)
		}
	}
}

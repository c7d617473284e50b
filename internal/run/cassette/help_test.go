package cassette

import (
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

var testTime = time.Date(2026, 5, 12, 14, 0, 0, 0, time.UTC)

func mustModel(t testing.TB, api wire.API, body string) Request {
	t.Helper()
	r, err := ModelRequest(api, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustRecorder(t testing.TB, o RecorderOptions) *Recorder {
	t.Helper()
	r, err := NewRecorder(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustCassette(t testing.TB, r *Recorder) *Cassette {
	t.Helper()
	c, err := r.Cassette()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustLines(t testing.TB, c *Cassette) string {
	t.Helper()
	lines, err := c.Lines()
	if err != nil {
		t.Fatal(err)
	}
	return string(lines)
}

func mustMarshal(t testing.TB, c *Cassette) []byte {
	t.Helper()
	file, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// requireRefusal wants an error of that name that says want.
func requireRefusal(t testing.TB, err error, name refusal.Name, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s with %q", name, want)
	}
	if got := refusal.Of(err); got.Name != name || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %s: %v\nwant %s with %q", got.Name, err, name, want)
	}
	if refusal.Of(err).Hint == "" {
		t.Errorf("%v: no hint", err)
	}
}

// chatBody is a small reply of openai.chat.
const chatBody = `{"id":"chatcmpl-abc","object":"chat.completion","created":1,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"message":{"role":"assistant","content":"4","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23,"prompt_tokens_details":{"cached_tokens":8}}}`

const chatRequest = `{"model":"gpt-4o","messages":[{"role":"user","content":"2+2?"}]}`

// smallRecorder records one interaction of each kind, and one model call twice.
func smallRecorder(t testing.TB) *Recorder {
	t.Helper()
	r := mustRecorder(t, RecorderOptions{
		RecordedAt: testTime,
		Prices:     Prices{"gpt-4o": {Input: 2_500_000, Output: 10_000_000, CacheRead: 1_250_000}},
	})
	for range 2 {
		if _, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(chatRequest), Status: 200,
			Headers: map[string]string{"Content-Type": "application/json", "Set-Cookie": "a=b", "X-Request-Id": "req_1"},
			Body:    []byte(chatBody), Latency: 1500 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Tool(ToolTraffic{Name: "list", Arguments: []byte(`{"path": "."}`), Result: []byte(`["a.txt"]`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.MCP(MCPTraffic{Server: "files", Method: "tools/call", Params: []byte(`{"name":"read","_meta":{"progressToken":1}}`),
		Result: []byte(`{"content":[]}`), Notifications: [][]byte{[]byte(`{"jsonrpc":"2.0","method":"notifications/progress"}`)}}); err != nil {
		t.Fatal(err)
	}
	return r
}

func canonicalText(t testing.TB, s string) string {
	t.Helper()
	b, err := canon.Canonicalize([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

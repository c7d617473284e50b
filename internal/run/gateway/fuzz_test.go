package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tallystick/internal/run/trajectory"
)

// FuzzMCP sends any bytes to the MCP endpoint. Whatever comes, the answer is
// one well-formed answer of JSON-RPC or nothing, it fits the request's id, the
// request has exactly one event, and the trajectory verifies.
func FuzzMCP(f *testing.F) {
	for _, seed := range []string{
		initialize("2025-06-18"), `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":null}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Oslo"}}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"transfer"}}]`,
		`[]`, `null`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"error":{}}`, "\xff", "{\"jsonrpc\":\"2.0\",\"id\":\"\\ud800\",\"method\":\"ping\"}",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, batches bool) {
		g, s := unheard(t)
		version := "2025-06-18"
		if batches {
			version = batchVersion
		}
		first := serve(g, "/mcp", initialize(version), "")
		got := serve(g, "/mcp", string(body), first.Header().Get(sessionHeader))
		checkMCP(t, got)
		result := s.Complete("", false)
		v, err := trajectory.Verify(result.Trajectory, trajectory.HeadIs(result.Head))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(eventsOf[*trajectory.TransportRequest](v)); n != 2 && s.Stopped() == nil {
			t.Errorf("%d requests are recorded, want 2", n)
		}
	})
}

func checkMCP(t *testing.T, got *httptest.ResponseRecorder) {
	t.Helper()
	if got.Code == http.StatusAccepted {
		if got.Body.Len() != 0 {
			t.Errorf("a notification is answered: %s", got.Body)
		}
		return
	}
	type answer struct {
		JSONRPC string
		ID      any
		Result  json.RawMessage
		Error   *struct {
			Code    int
			Message string
		}
	}
	var all []answer
	if data := got.Body.Bytes(); strings.HasPrefix(string(data), "[") {
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
	} else {
		var one answer
		if err := json.Unmarshal(data, &one); err != nil {
			t.Fatalf("%d %v: %s", got.Code, err, data)
		}
		all = []answer{one}
	}
	for _, a := range all {
		if a.JSONRPC != "2.0" || (a.Error == nil) == (a.Result == nil) || a.Result != nil && a.ID == nil {
			t.Errorf("got %s", got.Body)
		}
	}
}

// FuzzModelRequest sends any bytes as a model request. Whatever comes, the
// answer is JSON in the shape of the API or a stream, never a server's fault,
// and the trajectory verifies.
func FuzzModelRequest(f *testing.F) {
	for _, a := range apis {
		f.Add([]byte(a.request), uint8(0))
		f.Add([]byte(streamed(a.request)), uint8(1))
	}
	for _, seed := range []string{``, `{}`, `[]`, `{"messages":null,"stream":true}`, `{"stream_options":{"include_usage":1}}`, "{\"model\":\"\xff\"}", `{"a":1e999}`, `{"messages":[{"tool_calls":[{"id":1}]}]}`} {
		f.Add([]byte(seed), uint8(2))
	}
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		a := apis[int(which)%len(apis)]
		g, s := unheard(t)
		got := serve(g, a.path, string(body), "")
		switch {
		case got.Code == 200 && strings.HasPrefix(got.Header().Get("Content-Type"), "text/event-stream"):
		case got.Code == 200:
			if !json.Valid(got.Body.Bytes()) {
				t.Errorf("got %s", got.Body)
			}
		case got.Code == 400:
			if kind, message := readFailure(t, a.protocol, got.Body.String()); kind != "invalid_request_error" || message == "" || got.Header().Get("X-Should-Retry") != "false" {
				t.Errorf("got %s", got.Body)
			}
		default:
			t.Errorf("status %d: %s", got.Code, got.Body)
		}
		result := s.Complete("", false)
		if _, err := trajectory.Verify(result.Trajectory, trajectory.HeadIs(result.Head)); err != nil {
			t.Error(err)
		}
	})
}

package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
}

// connect begins an MCP session and gives its headers.
func (c *caseRun) connect(t testing.TB, version string) []string {
	t.Helper()
	got := c.send(t, "POST", "/mcp", initialize(version))
	id := got.header.Get(sessionHeader)
	if got.status != 200 || id == "" {
		t.Fatalf("initialize: %+v", got)
	}
	return []string{sessionHeader, id, versionHeader, version}
}

func TestAnMCPClientFindsAndCallsTools(t *testing.T) {
	c := newCase(t, caseOptions{})
	first := c.send(t, "POST", "/mcp", initialize("2025-06-18"), "Accept", "application/json, text/event-stream")
	if want := `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":"tallystick","version":"1"}}}`; first.body != want || first.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %+v", first)
	}
	h := []string{sessionHeader, first.header.Get(sessionHeader), versionHeader, "2025-06-18"}
	for _, tt := range []struct {
		name, message string
		status        int
		want          string
	}{
		{"initialized", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, ``},
		{"ping", `{"jsonrpc":"2.0","id":"p","method":"ping"}`, 200, `{"jsonrpc":"2.0","id":"p","result":{}}`},
		{"list", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, 200,
			`{"jsonrpc":"2.0","id":1,"result":{"tools":[` +
				`{"name":"get_weather","description":"The weather in a city.","inputSchema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}},` +
				`{"name":"transfer","description":"Moves money.","inputSchema":{"type":"object"}},` +
				`{"name":"half","inputSchema":{"properties":{},"type":"object"}}]}}`},
		{"call", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Oslo"},"_meta":{"progressToken":1}}}`, 200,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"city\":\"Oslo\",\"sky\":\"rain\"}"}],"isError":false}}`},
		{"a call that the tool refuses", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather"}}`, 200,
			`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"city is missing"}],"isError":true}}`},
		{"no such tool", `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"nope","arguments":{}}}`, 200,
			`{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"there is no tool called nope"}],"isError":true}}`},
		{"a tool that the policy denies", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"transfer","arguments":{"to":"eve"}}}`, 200,
			`"isError":true`},
		{"cancelled", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, 202, ``},
		{"a response to no request", `{"jsonrpc":"2.0","id":9,"result":{}}`, 202, ``},
	} {
		got := c.send(t, "POST", "/mcp", tt.message, h...)
		if got.status != tt.status || got.body != tt.want && !(tt.name == "a tool that the policy denies" && strings.Contains(got.body, tt.want) && strings.Contains(got.body, "denied by policy")) {
			t.Errorf("%s: got %d %s, want %d %s", tt.name, got.status, got.body, tt.status, tt.want)
		}
	}
	if got := c.send(t, "DELETE", "/mcp", "", h...); got.status != 204 {
		t.Errorf("delete: %+v", got)
	}
	if got := c.send(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, h...); got.status != 404 {
		t.Errorf("after delete: %+v", got)
	}
	v := c.end(t)
	var proposed, executed []string
	for _, e := range eventsOf[*trajectory.ToolProposed](v) {
		proposed = append(proposed, e.Name)
	}
	for _, e := range eventsOf[*trajectory.ToolExecuted](v) {
		executed = append(executed, e.Name)
	}
	if fmt.Sprint(proposed) != "[get_weather get_weather nope transfer]" || fmt.Sprint(executed) != "[get_weather get_weather nope]" {
		t.Errorf("proposed %v, executed %v", proposed, executed)
	}
	for _, e := range eventsOf[*trajectory.TransportRequest](v) {
		if e.Protocol != "mcp" || e.Path != "/mcp" {
			t.Errorf("event %+v", e)
		}
	}
}

func TestMCPVersionsAreAgreedOn(t *testing.T) {
	for asked, want := range map[string]string{
		"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "2024-11-05": "2024-11-05",
		"2026-07-28": "2025-11-25", "1.0": "2025-11-25", "": "2025-11-25",
	} {
		got := newCase(t, caseOptions{}).send(t, "POST", "/mcp", initialize(asked))
		var r struct {
			Result struct{ ProtocolVersion string }
		}
		if err := json.Unmarshal([]byte(got.body), &r); err != nil || r.Result.ProtocolVersion != want {
			t.Errorf("%q: got %s", asked, got.body)
		}
	}
	// A later revision begins with this message and falls back when it is told.
	c := newCase(t, caseOptions{})
	got := c.send(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{}}`, versionHeader, "2026-07-28")
	if want := `{"jsonrpc":"2.0","id":"d","error":{"code":-32022,"message":"this version of the protocol is not spoken here","data":{"supported":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2026-07-28"}}}`; got.status != 400 || got.body != want {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestMCPRefusesWhatItCannotUnderstand(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 20000)
	for _, tt := range []struct {
		name, message string
		status, code  int
		id            string
	}{
		{"no JSON", `{"jsonrpc":`, 400, codeParse, "null"},
		{"nothing", ``, 400, codeParse, "null"},
		{"two messages", `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, 400, codeParse, "null"},
		{"too deep", deep, 400, codeParse, "null"},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", 400, codeParse, "null"},
		{"a name twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, 400, codeParse, "null"},
		{"a text", `"ping"`, 400, codeInvalidRequest, "null"},
		{"null", `null`, 400, codeInvalidRequest, "null"},
		{"another version of JSON-RPC", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, 400, codeInvalidRequest, "null"},
		{"no version of JSON-RPC", `{"id":1,"method":"ping"}`, 400, codeInvalidRequest, "null"},
		{"names in other letters", `{"JSONRPC":"2.0","id":1,"method":"ping"}`, 400, codeInvalidRequest, "null"},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, codeInvalidRequest, "null"},
		{"id true", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, 400, codeInvalidRequest, "null"},
		{"id an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, 400, codeInvalidRequest, "null"},
		{"id a list", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, 400, codeInvalidRequest, "null"},
		{"id a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, codeInvalidRequest, "null"},
		{"id endless", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 600) + `","method":"ping"}`, 400, codeInvalidRequest, "null"},
		{"method a number", `{"jsonrpc":"2.0","id":1,"method":7}`, 400, codeInvalidRequest, "null"},
		{"params a text", `{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}`, 400, codeInvalidRequest, "null"},
		{"nothing to do", `{"jsonrpc":"2.0","id":1}`, 400, codeInvalidRequest, "null"},
		{"a response to nothing", `{"jsonrpc":"2.0","result":{}}`, 400, codeInvalidRequest, "null"},
		{"a batch where there is none", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, 400, codeInvalidRequest, "null"},
		{"no such method", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, 200, codeNoMethod, "1"},
		{"a notification with an id", `{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`, 200, codeNoMethod, "1"},
		{"a large number as id", `{"jsonrpc":"2.0","id":90071992547409931,"method":"no"}`, 200, codeNoMethod, "90071992547409931"},
		{"an id with escapes", `{"jsonrpc":"2.0","id":"\u0000\"","method":"no"}`, 200, codeNoMethod, `"\u0000\""`},
		{"a cursor", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}`, 200, codeInvalidParams, "1"},
		{"a call without params", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 200, codeInvalidParams, "1"},
		{"a call without name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, 200, codeInvalidParams, "1"},
		{"a call of a number", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":3}}`, 200, codeInvalidParams, "1"},
		{"a call with a list as params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["get_weather"]}`, 200, codeInvalidParams, "1"},
		{"initialize without version", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, 200, codeInvalidParams, "1"},
		{"initialize without params", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, 200, codeInvalidParams, "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCase(t, caseOptions{})
			got := c.send(t, "POST", "/mcp", tt.message, c.connect(t, "2025-06-18")...)
			var r struct {
				JSONRPC string
				ID      json.RawMessage
				Error   struct {
					Code    int
					Message string
				}
			}
			if err := json.Unmarshal([]byte(got.body), &r); err != nil {
				t.Fatalf("%v: %s", err, got.body)
			}
			if got.status != tt.status || r.JSONRPC != "2.0" || r.Error.Code != tt.code || string(r.ID) != tt.id || r.Error.Message == "" {
				t.Errorf("got %d %s, want %d and code %d for id %s", got.status, got.body, tt.status, tt.code, tt.id)
			}
			if got := types(c.end(t)); got != "run_started transport_request transport_request run_completed" {
				t.Errorf("events %s", got)
			}
		})
	}
}

func TestMCPArgumentsOfAnyShapeReachThePolicy(t *testing.T) {
	for _, args := range []string{`[1]`, `"x"`, `null`, `{"city":1e400}`, `{"city":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`} {
		c := newCase(t, caseOptions{})
		h := c.connect(t, "2025-06-18")
		got := c.send(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":`+args+`}}`, h...)
		if got.status != 200 || !strings.Contains(got.body, `"isError":true`) {
			t.Errorf("%s: got %d %s", args, got.status, got.body)
		}
		if n := len(eventsOf[*trajectory.ToolProposed](c.end(t))); n != 1 {
			t.Errorf("%s: proposed %d times", args, n)
		}
	}
}

func TestMCPBatchesOfTheOneVersionThatHasThem(t *testing.T) {
	c := newCase(t, caseOptions{})
	h := c.connect(t, "2025-03-26")
	got := c.send(t, "POST", "/mcp", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},7,{"jsonrpc":"2.0","id":{},"method":"ping"},`+
		initialize("2025-03-26")+`,{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Rome"}}}]`, h...)
	if want := `[{"jsonrpc":"2.0","id":1,"result":{}},` +
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is malformed"}},` +
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the id is neither a text nor a whole number"}},` +
		`{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"initialize stands in no batch"}},` +
		`{"jsonrpc":"2.0","id":"w","result":{"content":[{"type":"text","text":"{\"city\":\"Rome\",\"sky\":\"rain\"}"}],"isError":false}}]`; got.status != 200 || got.body != want {
		t.Errorf("got %d %s", got.status, got.body)
	}
	for batch, status := range map[string]int{
		`[]`: 400,
		`[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, maxBatch) + `{"jsonrpc":"2.0","id":1,"method":"ping"}]`: 400,
		`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`:                                                                202,
	} {
		if got := c.send(t, "POST", "/mcp", batch, h...); got.status != status {
			t.Errorf("%.40s: got %d %s, want %d", batch, got.status, got.body, status)
		}
	}
}

func TestMCPSessionsAreKeptApart(t *testing.T) {
	c := newCase(t, caseOptions{})
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	a, b := c.connect(t, "2025-06-18"), c.connect(t, "2025-06-18")
	if a[1] == b[1] {
		t.Error("two clients have one session")
	}
	for name, tt := range map[string]struct {
		method  string
		headers []string
		status  int
	}{
		"none":              {"POST", nil, 400},
		"unknown":           {"POST", []string{sessionHeader, "nope"}, 404},
		"delete none":       {"DELETE", nil, 400},
		"delete unknown":    {"DELETE", []string{sessionHeader, "nope"}, 404},
		"unknown version":   {"POST", []string{sessionHeader, a[1], versionHeader, "2020-01-01"}, 400},
		"malformed version": {"POST", []string{sessionHeader, a[1], versionHeader, "x y"}, 400},
		"no version":        {"POST", a[:2], 200},
		"put":               {"PUT", a, 405},
		"a foreign page":    {"POST", append([]string{"Origin", "https://evil.example"}, a...), 403},
		"an odd origin":     {"POST", append([]string{"Origin", "null"}, a...), 403},
		"its own page":      {"POST", append([]string{"Origin", c.url}, a...), 200},
	} {
		if got := c.send(t, tt.method, "/mcp", ping, tt.headers...); got.status != tt.status {
			t.Errorf("%s: got %d %s, want %d", name, got.status, got.body, tt.status)
		}
	}
	c.send(t, "DELETE", "/mcp", "", a...)
	if got := c.send(t, "POST", "/mcp", ping, b...); got.status != 200 {
		t.Errorf("the other session: got %d", got.status)
	}
	for range maxPeers {
		c.send(t, "POST", "/mcp", initialize("2025-06-18"))
	}
	if got := c.send(t, "POST", "/mcp", initialize("2025-06-18")); !strings.Contains(got.body, "too many") || got.header.Get(sessionHeader) != "" {
		t.Errorf("got %s", got.body)
	}
}

// The SDKs ask for a stream of the server's messages while they continue with
// something else, so the event of that must not depend on when they do.
func TestAskingForTheServersMessagesDoesNotDisturbTheOrder(t *testing.T) {
	run := func(early bool) string {
		c := newCase(t, caseOptions{})
		h := c.connect(t, "2025-06-18")
		get := func() {
			if got := c.send(t, "GET", "/mcp", "", append([]string{"Accept", "text/event-stream"}, h...)...); got.status != 405 || got.header.Get("Allow") != "POST, DELETE" {
				t.Errorf("got %+v", got)
			}
		}
		if early {
			get()
		}
		c.send(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, h...)
		if !early {
			get()
		}
		c.send(t, "DELETE", "/mcp", "", h...)
		trace, err := trajectory.Canonical(c.end(t), trajectory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return string(trace.Format())
	}
	a, b := run(true), run(false)
	if a != b || !strings.Contains(a, "GET") {
		t.Errorf("early:\n%s\nlate:\n%s", a, b)
	}
}

func TestAStopIsToldToAnMCPClient(t *testing.T) {
	c := newCase(t, caseOptions{policy: &policy.Policy{Mode: policy.Approved, MaxCostMicroUSD: 1, MaxToolCalls: 9}})
	h := c.connect(t, "2025-06-18")
	got := c.send(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Oslo"}}}`, h...)
	// No person is there to approve.
	if !strings.Contains(got.body, `"code":-32000`) || !strings.Contains(got.body, "the case has ended (suspended)") || !strings.Contains(got.body, `"name":"ApprovalPending"`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestTheTokenDoesNotGoOnToATool(t *testing.T) {
	c := newCase(t, caseOptions{})
	h := c.connect(t, "2025-06-18")
	got := c.send(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"`+token+`"}}}`, h...)
	if !strings.Contains(got.body, `[redacted:openai-key]`) || strings.Contains(got.body, token) {
		t.Errorf("got %s", got.body)
	}
	c.send(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+token+`"}}`, h...)
	if got := c.send(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+token+`"}`, h...); !strings.Contains(got.body, "there is no method [redacted:") {
		t.Errorf("got %s", got.body)
	}
	c.end(t) // looks for the token
}

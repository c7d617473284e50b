package cassette

import (
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// pair is two requests that must, or must not, have the same key.
type pair struct {
	name string
	api  wire.API
	a, b string
	same bool
}

var pairs = []pair{
	// openai.chat
	{"spelling", wire.OpenAIChat, `{"model":"m","messages":[]}`, ` { "messages" : [ ], "model":"\u006d"} `, true},
	{"delivery and bookkeeping", wire.OpenAIChat, `{"model":"m","messages":[]}`,
		`{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true},"user":"u","metadata":{"a":"b"},"prompt_cache_key":"k","prompt_cache_retention":"24h","safety_identifier":"s","service_tier":"flex","store":true}`, true},
	{"a null is not there", wire.OpenAIChat, `{"model":"m","messages":[{"role":"assistant","content":null}],"temperature":null}`, `{"model":"m","messages":[{"role":"assistant"}]}`, true},
	{"another model", wire.OpenAIChat, `{"model":"m","messages":[]}`, `{"model":"n","messages":[]}`, false},
	{"another role", wire.OpenAIChat, `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"system","content":"a"}]}`, false},
	{"another text", wire.OpenAIChat, `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"b"}]}`, false},
	{"another order", wire.OpenAIChat, `{"messages":[{"content":"a"},{"content":"b"}]}`, `{"messages":[{"content":"b"},{"content":"a"}]}`, false},
	{"sampling", wire.OpenAIChat, `{"temperature":0}`, `{"temperature":0.1}`, false},
	{"seed", wire.OpenAIChat, `{"seed":1}`, `{"seed":2}`, false},
	{"tools", wire.OpenAIChat, `{"tools":[]}`, `{"tools":[{"type":"function"}]}`, false},
	{"an unknown field", wire.OpenAIChat, `{"model":"m"}`, `{"model":"m","brand_new":1}`, false},
	{"a member of a tool that is named as one that is dropped", wire.OpenAIChat, `{"tools":[{"user":"a"}]}`, `{"tools":[{"user":"b"}]}`, false},
	{"drawn ids", wire.OpenAIChat,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"call_I1tmAsYKD7bveEpX"}]},{"role":"tool","tool_call_id":"call_I1tmAsYKD7bveEpX"}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"other"}]},{"role":"tool","tool_call_id":"other"}]}`, false}, // of another kind
	{"drawn ids of one kind", wire.OpenAIChat,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"call_I1tmAsYKD7bveEpX"}]},{"role":"tool","tool_call_id":"call_I1tmAsYKD7bveEpX"}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"call_zzz"}]},{"role":"tool","tool_call_id":"call_zzz"}]}`, true},
	{"drawn ids of no known kind", wire.OpenAIChat,
		`{"messages":[{"tool_calls":[{"id":"Ab3dE5gH9"}]},{"tool_call_id":"Ab3dE5gH9"}]}`,
		`{"messages":[{"tool_calls":[{"id":"functions.x:0"}]},{"tool_call_id":"functions.x:0"}]}`, true},
	{"results belong to other calls", wire.OpenAIChat,
		`{"messages":[{"tool_calls":[{"id":"call_a"},{"id":"call_b"}]},{"tool_call_id":"call_a","content":"1"},{"tool_call_id":"call_b","content":"2"}]}`,
		`{"messages":[{"tool_calls":[{"id":"call_a"},{"id":"call_b"}]},{"tool_call_id":"call_b","content":"1"},{"tool_call_id":"call_a","content":"2"}]}`, false},
	{"an id mentioned in text", wire.OpenAIChat,
		`{"messages":[{"tool_calls":[{"id":"call_0123456789ab"}]},{"content":"call_0123456789ab failed"}]}`,
		`{"messages":[{"tool_calls":[{"id":"call_ba9876543210"}]},{"content":"call_ba9876543210 failed"}]}`, true},
	{"text that looks like an id and is none", wire.OpenAIChat,
		`{"messages":[{"content":"about call_0123456789ab"}]}`, `{"messages":[{"content":"about call_ba9876543210"}]}`, false},
	{"a longer word that ends like an id", wire.OpenAIChat,
		`{"messages":[{"tool_calls":[{"id":"call_0123456789ab"}]},{"content":"xcall_0123456789ab"}]}`,
		`{"messages":[{"tool_calls":[{"id":"call_ba9876543210"}]},{"content":"xcall_ba9876543210"}]}`, false},
	{"names in the order of UTF-16", wire.OpenAIChat, `{"\uffee":1,"\ud83d\ude00":2,"a":3}`, `{"a":3,"😀":2,"\uffee":1}`, true},
	{"short ids swapped", wire.OpenAIChat,
		`{"messages":[{"tool_calls":[{"id":"call_2"},{"id":"call_1"}]},{"tool_call_id":"call_1"}]}`,
		`{"messages":[{"tool_calls":[{"id":"call_x"},{"id":"call_y"}]},{"tool_call_id":"call_y"}]}`, true},

	// openai.responses
	{"delivery and bookkeeping", wire.OpenAIResponses, `{"model":"m","input":"a"}`,
		`{"model":"m","input":"a","stream":true,"user":"u","metadata":{},"prompt_cache_key":"k","service_tier":"auto","store":false,"safety_identifier":"x"}`, true},
	{"instructions", wire.OpenAIResponses, `{"instructions":"a"}`, `{"instructions":"b"}`, false},
	{"reasoning effort", wire.OpenAIResponses, `{"reasoning":{"effort":"low"}}`, `{"reasoning":{"effort":"high"}}`, false},
	{"drawn ids", wire.OpenAIResponses,
		`{"previous_response_id":"resp_1a","input":[{"type":"function_call","id":"fc_1","call_id":"call_1"},{"type":"function_call_output","call_id":"call_1","output":"x"}]}`,
		`{"previous_response_id":"resp_2b","input":[{"type":"function_call","id":"fc_9","call_id":"call_8"},{"type":"function_call_output","call_id":"call_8","output":"x"}]}`, true},
	{"an output of another call", wire.OpenAIResponses,
		`{"input":[{"call_id":"call_1"},{"call_id":"call_2"},{"type":"function_call_output","call_id":"call_1"}]}`,
		`{"input":[{"call_id":"call_1"},{"call_id":"call_2"},{"type":"function_call_output","call_id":"call_2"}]}`, false},
	{"an id inside data", wire.OpenAIResponses, `{"tools":[{"id":"call_1"}]}`, `{"tools":[{"id":"call_2"}]}`, false},

	// anthropic.messages
	{"delivery and bookkeeping", wire.AnthropicMessages, `{"model":"m","messages":[]}`, `{"model":"m","messages":[],"stream":true,"metadata":{"user_id":"u"},"service_tier":"auto"}`, true},
	{"cache marks move", wire.AnthropicMessages,
		`{"system":[{"text":"s","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"t","cache_control":{"type":"ephemeral"}}],"messages":[{"content":[{"type":"tool_result","content":[{"text":"x","cache_control":{"type":"ephemeral"}}],"cache_control":{"type":"ephemeral"}}]}]}`,
		`{"system":[{"text":"s"}],"tools":[{"name":"t"}],"messages":[{"content":[{"type":"tool_result","content":[{"text":"x"}]}]}]}`, true},
	{"cache_control in the user's data", wire.AnthropicMessages,
		`{"messages":[{"content":[{"type":"tool_use","input":{"cache_control":"a"}}]}]}`,
		`{"messages":[{"content":[{"type":"tool_use","input":{"cache_control":"b"}}]}]}`, false},
	{"drawn ids", wire.AnthropicMessages,
		`{"messages":[{"content":[{"type":"tool_use","id":"toolu_01"}]},{"content":[{"type":"tool_result","tool_use_id":"toolu_01"}]}]}`,
		`{"messages":[{"content":[{"type":"tool_use","id":"toolu_02"}]},{"content":[{"type":"tool_result","tool_use_id":"toolu_02"}]}]}`, true},
	{"system", wire.AnthropicMessages, `{"system":"a"}`, `{"system":"b"}`, false},
	{"max_tokens", wire.AnthropicMessages, `{"max_tokens":1}`, `{"max_tokens":2}`, false},
	{"thinking", wire.AnthropicMessages, `{"thinking":{"type":"enabled"}}`, `{}`, false},
	{"an error is not a result", wire.AnthropicMessages,
		`{"messages":[{"content":[{"type":"tool_result","is_error":true}]}]}`, `{"messages":[{"content":[{"type":"tool_result","is_error":false}]}]}`, false},
	{"a secret that changes from run to run", wire.AnthropicMessages,
		`{"system":"use Authorization: Bearer abcdefghij0123456789"}`, `{"system":"use Authorization: Bearer zyxwvutsrq9876543210"}`, true},
}

func TestRequestsMatchByWhatAModelSees(t *testing.T) {
	for _, tt := range pairs {
		t.Run(string(tt.api)+" "+tt.name, func(t *testing.T) {
			a, b := mustModel(t, tt.api, tt.a), mustModel(t, tt.api, tt.b)
			if (a.Key == b.Key) != tt.same {
				t.Errorf("same key: %v, want %v\n%s\n%s", a.Key == b.Key, tt.same, a.it.Model.Request, b.it.Model.Request)
			}
		})
	}
}

func TestCanonicalRequestIsCanonicalAndStays(t *testing.T) {
	for _, tt := range pairs {
		for _, body := range []string{tt.a, tt.b} {
			requireStable(t, tt.api, body)
		}
	}
}

// requireStable wants canonical bytes that the same rules leave alone.
func requireStable(t testing.TB, api wire.API, body string) {
	t.Helper()
	r := mustModel(t, api, body)
	text := r.it.Model.Request
	if err := canon.Validate(text); err != nil {
		t.Fatalf("%s: %v\n%s", body, err, text)
	}
	again := mustModel(t, api, string(text))
	if string(again.it.Model.Request) != string(text) || again.Key != r.Key {
		t.Fatalf("not stable:\n%q\n%q\n%q", body, text, again.it.Model.Request)
	}
}

func TestKindsOfRequestsNeverShareAKey(t *testing.T) {
	seen := map[string]string{}
	add := func(what string, r Request, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[r.Key.String()]; ok {
			t.Errorf("%s and %s have the same key", what, other)
		}
		seen[r.Key.String()] = what
	}
	for _, api := range []wire.API{wire.OpenAIChat, wire.OpenAIResponses, wire.AnthropicMessages} {
		r, err := ModelRequest(api, []byte(`{}`), nil)
		add(string(api), r, err)
	}
	r, err := ToolRequest("a", []byte(`{}`), nil)
	add("tool", r, err)
	r, err = ToolRequest(`a","x":"`, []byte(`{}`), nil)
	add("tool with quotes", r, err)
	r, err = MCPRequest("a", "b", nil, nil)
	add("mcp", r, err)
	r, err = MCPRequest("b", "a", nil, nil)
	add("mcp reversed", r, err)
	r, err = MCPRequest("a", "b", []byte(`{"c":1}`), nil)
	add("mcp with params", r, err)
}

func TestMCPRequestsIgnoreWhatOnlyTheTransportNeeds(t *testing.T) {
	key := func(method, params string) string {
		r, err := MCPRequest("s", method, []byte(params), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Key.String()
	}
	for _, tt := range []struct {
		name, method, a, b string
		same               bool
	}{
		{"progress token", "tools/call", `{"name":"x","_meta":{"progressToken":1}}`, `{"name":"x","_meta":{"progressToken":7,"traceparent":"00-1"}}`, true},
		{"only meta", "tools/list", `{"_meta":{"progressToken":1}}`, ``, true},
		{"client version", "initialize", `{"protocolVersion":"1","clientInfo":{"version":"1"}}`, `{"protocolVersion":"1","clientInfo":{"version":"2"}}`, true},
		{"clientInfo elsewhere", "tools/call", `{"clientInfo":1}`, `{"clientInfo":2}`, false},
		{"arguments", "tools/call", `{"arguments":{"a":1}}`, `{"arguments":{"a":2}}`, false},
		{"meta inside arguments", "tools/call", `{"arguments":{"_meta":1}}`, `{"arguments":{"_meta":2}}`, false},
	} {
		if got := key(tt.method, tt.a) == key(tt.method, tt.b); got != tt.same {
			t.Errorf("%s: same is %v, want %v", tt.name, got, tt.same)
		}
	}
}

func TestRequestsThatAreNoJSONAreRefused(t *testing.T) {
	for _, body := range []string{``, `[]`, `"x"`, `{"a":1,"a":2}`, `{"a":`, "{\"a\":\"\xff\"}", `{"seed":99999999999999999999}`, strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)} {
		_, err := ModelRequest(wire.OpenAIChat, []byte(body), nil)
		requireRefusal(t, err, refusal.Malformed, "request")
	}
	_, err := ModelRequest("gemini", []byte(`{}`), nil)
	requireRefusal(t, err, refusal.Malformed, "unknown")
	_, err = ToolRequest("", nil, nil)
	requireRefusal(t, err, refusal.Malformed, "name")
	_, err = MCPRequest("s", strings.Repeat("m", 2000), nil, nil)
	requireRefusal(t, err, refusal.Malformed, "method")
}

// Whatever ids an agent draws, the canonical request is the same as long as
// they connect the same things.
func TestRenumberingDependsOnConnectionsOnly(t *testing.T) {
	build := func(id func(int) string) string {
		var b strings.Builder
		b.WriteString(`{"messages":[`)
		for i := range 30 {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`{"role":"assistant","tool_calls":[{"id":"` + id(i) + `"},{"id":"` + id(100+i) + `"}]},`)
			b.WriteString(`{"role":"tool","tool_call_id":"` + id(100+i) + `","content":"after ` + id(i/2) + `."}`)
		}
		return b.String() + `]}`
	}
	letters := func(n, seed int) string {
		s := ""
		for range 14 {
			n = (n*7919 + seed) % 1000003
			s += string(rune('a' + n%26))
		}
		return s
	}
	want := mustModel(t, wire.OpenAIChat, build(func(i int) string { return "call_" + letters(i, 1) }))
	for seed := 2; seed < 12; seed++ {
		got := mustModel(t, wire.OpenAIChat, build(func(i int) string { return "call_" + letters(i, seed) }))
		if got.Key != want.Key {
			t.Fatalf("seed %d:\n%s\n%s", seed, got.it.Model.Request, want.it.Model.Request)
		}
	}
	if !strings.Contains(string(want.it.Model.Request), `"content":"after call_1."`) {
		t.Errorf("mentions are not renumbered: %s", want.it.Model.Request)
	}
}

package wire_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/run/cassette"
	"tallystick/internal/run/gateway"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
	"tallystick/internal/testing/tape"
)

const geminiTape = `
format: tallystick-cassette/1-draft
interactions:
- model:
    api: gemini.generate
    request: {model: gemini-2.5-flash, contents: [{role: user, parts: [{text: hello}]}]}
    reply: {message: {text: hi, tool_calls: [{name: look, arguments: {at: 1}}]}, usage: {input_tokens: 3, output_tokens: 2}}
`

const geminiHello = `{"contents":[{"parts":[{"text":"hello"}],"role":"user"}]}`

func TestGeminiHasItsModelInThePath(t *testing.T) {
	for path, want := range map[string]wire.Route{
		"/v1beta/models/gemini-2.5-flash:generateContent":       {API: wire.GeminiGenerate, Model: "gemini-2.5-flash"},
		"/v1beta/models/gemini-2.5-flash:streamGenerateContent": {API: wire.GeminiGenerate, Model: "gemini-2.5-flash", Stream: true},
		"/v1beta/models/g:countTokens":                          {API: wire.GeminiGenerate, Model: "g", CountTokens: true},
	} {
		if got, ok := wire.RouteOf(path); !ok || got != want {
			t.Errorf("%s is %+v, %v", path, got, ok)
		}
	}
	for _, path := range []string{"/v1beta/models/:generateContent", "/v1beta/models/a/b:generateContent", "/v1beta/models/..%2Fx:generateContent", "/v1beta/models/a:b:generateContent", "/models/a:generateContent"} {
		if got, ok := wire.RouteOf(path); ok {
			t.Errorf("%s is taken for %+v", path, got)
		}
	}
	route, _ := wire.RouteOf("/v1beta/models/m:streamGenerateContent")
	body, err := route.Request([]byte(`{"stream":7,"contents":[],"model":"models/other"}`))
	if err != nil || string(body) != `{"contents":[],"model":"m","stream":true}` {
		t.Errorf("the request is kept as %s, %v", body, err)
	}
	url, sent, err := wire.GeminiGenerate.Outgoing("https://g.example", body)
	if err != nil || url != "https://g.example/v1beta/models/m:streamGenerateContent?alt=sse" || string(sent) != `{"contents":[]}` {
		t.Errorf("it is sent to %s as %s, %v", url, sent, err)
	}
	for _, model := range []string{"", "../../v1/secrets", "a?key=b", "a:b"} {
		if url, _, err := wire.GeminiGenerate.Outgoing("https://g.example", []byte(`{"model":"`+model+`"}`)); err == nil {
			t.Errorf("the model %q leads to %s", model, url)
		}
	}
}

func TestGeminiIsServedByTheGateway(t *testing.T) {
	c, err := tape.FromYAML("gemini.yaml", []byte(geminiTape))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Compile(policy.Policy{Mode: policy.Autonomous})
	if err != nil {
		t.Fatal(err)
	}
	const token = "gemini-0123456789abcdef"
	for _, tt := range []struct {
		name, path string
		status     int
		want       string
	}{
		{"a body", "/v1beta/models/gemini-2.5-flash:generateContent", 200, `{"candidates":[{"content":{"parts":[{"text":"hi"},{"functionCall":{"args":{"at":1},"id":"function-call-`},
		{"under another version", "/v1/models/gemini-2.5-flash:generateContent", 200, `{"candidates":`},
		{"a stream", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", 200, `data: {"candidates":[{"content":`},
		{"a stream that is an array", "/v1beta/models/gemini-2.5-flash:streamGenerateContent", 200, `[{"candidates":[{"content":`},
		{"a stream in another form", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=proto", 400, `?alt=sse`},
		{"another model", "/v1beta/models/gemini-2.5-pro:generateContent", 400, `"status":"INVALID_ARGUMENT"`},
		{"tokens", "/v1beta/models/gemini-2.5-flash:countTokens", 200, `{"totalTokens":15}`},
	} {
		s, err := session.New(session.Config{Run: trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Repeat: 1, Target: "t"},
			Rules: rules, Models: &session.Replay{Player: cassette.NewPlayer(c)}, Source: "cassette"})
		if err != nil {
			t.Fatal(err)
		}
		g, err := gateway.New(context.Background(), gateway.Config{Session: s, Token: token, Models: c.Header.Models})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(g)
		defer server.Close()
		r, _ := http.NewRequest("POST", server.URL+tt.path, strings.NewReader(geminiHello))
		r.Header.Set("x-goog-api-key", token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || !strings.Contains(string(data), tt.want) {
			t.Errorf("%s: %d %s", tt.name, resp.StatusCode, data)
		}
		r, _ = http.NewRequest("GET", server.URL+"/v1beta/models", nil)
		r.Header.Set("x-goog-api-key", token)
		if resp, err = http.DefaultClient.Do(r); err != nil {
			t.Fatal(err)
		}
		if data, _ = io.ReadAll(resp.Body); tt.status == 200 && !strings.Contains(string(data), `"name":"models/gemini-2.5-flash"`) {
			t.Errorf("%s: the models are listed as %s", tt.name, data)
		}
		resp.Body.Close()
		if lines := string(s.Complete("done", false).Trajectory); tt.status == 200 && tt.name != "tokens" && (!strings.Contains(lines, `"model":"gemini-2.5-flash"`) || !strings.Contains(lines, `"provider":"google"`)) {
			t.Errorf("%s: the trajectory does not name the model:\n%s", tt.name, lines)
		}
	}
}

func TestGeminiIsCalledLive(t *testing.T) {
	server := fakemodel.New(t, fakemodel.Reply{Text: "hi", InputTokens: 10, OutputTokens: 2}, fakemodel.Reply{Text: "hi", InputTokens: 10, OutputTokens: 2})
	settings, err := provider.ParseSettings("providers.yaml", []byte("version: 1\ngoogle:\n  base_url: "+server.URL+"\n  key_env: GEMINI_API_KEY\n  prices: {gemini-2.5-flash: {input: 1000000, output: 1000000, max_output_tokens: 50}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	access, err := settings.Access(func(string) string { return "gemini-secret-0123456789" })
	if err != nil {
		t.Fatal(err)
	}
	defer access.Close()
	live, err := access.Case(provider.CaseOptions{Budget: provider.NewBudget(1_000_000), Now: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	for i, want := range []string{"/v1beta/models/gemini-2.5-flash:generateContent", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"} {
		body := `{"model":"gemini-2.5-flash",` + geminiHello[1:]
		if i == 1 {
			body = `{"stream":true,` + body[1:]
		}
		it, err := live.Call(context.Background(), wire.GeminiGenerate, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		if it.Model.Usage.OutputTokens != 2 || it.Model.CostMicrodollars == nil || *it.Model.CostMicrodollars != 12 || (i == 1) != (it.Model.Response.Stream != nil) {
			t.Errorf("recorded as %+v", it.Model)
		}
		if q := server.Requests()[i]; q.Path != want || q.Header.Get("x-goog-api-key") != "gemini-secret-0123456789" {
			t.Errorf("sent to %s with %v", q.Path, q.Header)
		}
	}
}

func TestGeminiStreamsBecomeBodies(t *testing.T) {
	chunks := []string{
		`data: {"candidates":[{"content":{"parts":[{"text":"I look","thought":true}],"role":"model"}}],"modelVersion":"g-1","usageMetadata":{"promptTokenCount":9,"totalTokenCount":9}}` + "\r\n\r\n",
		`data: {"candidates":[{"content":{"parts":[{"text":"It is "}],"role":"model"},"index":0}],"modelVersion":"g-1","usageMetadata":{"promptTokenCount":9,"totalTokenCount":9}}` + "\r\n\r\n",
		`data: {"candidates":[{"content":{"parts":[{"text":"here."},{"functionCall":{"args":{"a":1},"name":"look"}}],"role":"model"},"index":0,"finishReason":"STOP"}],"modelVersion":"g-1","usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":2,"totalTokenCount":14}}` + "\r\n\r\n",
	}
	r, err := wire.ReadStream(wire.GeminiGenerate, chunks)
	if err != nil || r.Text() != "It is here." || len(r.Parts) != 3 || r.Parts[0].Kind != wire.Reasoning || r.Model != "g-1" || r.End != wire.Finished {
		t.Errorf("read as %+v, %v", r, err)
	}
	if calls := r.Calls(); len(calls) != 1 || calls[0].Name != "look" || string(calls[0].Args) != `{"a":1}` {
		t.Errorf("its calls are %+v", calls)
	}
	body, err := wire.Assemble(wire.GeminiGenerate, chunks)
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Usage{InputTokens: 5, CacheReadTokens: 4, OutputTokens: 5, ReasoningTokens: 2}
	if got, err := wire.UsageOf(wire.GeminiGenerate, body); err != nil || got != want {
		t.Errorf("it used %+v, %v", got, err)
	}
	if _, err := wire.Assemble(wire.GeminiGenerate, chunks[:2]); err == nil || !strings.Contains(err.Error(), "finishReason") {
		t.Errorf("a stream that breaks off: %v", err)
	}
	if got, err := wire.UsageOf(wire.GeminiGenerate, wire.PartialUsage(wire.GeminiGenerate, chunks[:2])); err != nil || got.InputTokens != 9 {
		t.Errorf("of a stream that breaks off, %+v, %v", got, err)
	}
	if !wire.EndsStream(wire.GeminiGenerate, chunks[2]) || wire.EndsStream(wire.GeminiGenerate, chunks[1]) {
		t.Error("the end of the stream is not where it is")
	}
}

func TestGeminiRepliesEndInTheirOwnWords(t *testing.T) {
	for body, want := range map[string]struct {
		end     wire.End
		refused bool
	}{
		`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"MAX_TOKENS"}]}`:    {wire.Cut, false},
		`{"candidates":[{"finishReason":"SAFETY"}]}`:                                           {wire.Refused, true},
		`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"print("}]}`: {wire.Failed, false},
		`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`:                              {wire.Refused, true},
	} {
		if r, err := wire.ReadReply(wire.GeminiGenerate, []byte(body)); err != nil || r.End != want.end || r.Refused() != want.refused {
			t.Errorf("%s: %+v, %v", body, r, err)
		}
	}
	if _, err := wire.ReadReply(wire.GeminiGenerate, []byte(`{}`)); err == nil {
		t.Error("a reply without candidates is read")
	}
}

// Calls of this API often have no id; results follow them in order.
func TestGeminiResultsFindTheirCalls(t *testing.T) {
	request := `{"model":"g","systemInstruction":{"parts":[{"text":"be brief"}]},"generationConfig":{"maxOutputTokens":7,"candidateCount":2},
		"tools":[{"functionDeclarations":[{"name":"look"},{"name":"take"}]},{"googleSearch":{}}],
		"contents":[{"role":"user","parts":[{"text":"go"}]},
		{"role":"model","parts":[{"functionCall":{"name":"look","args":{"at":1}}},{"functionCall":{"name":"look","args":{"at":2}}}]},
		{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"output":"one"}}},{"functionResponse":{"name":"look","response":{"error":"two"}}}]}]}`
	_, results, err := wire.ToolsOf(wire.GeminiGenerate, []byte(request))
	if err != nil || len(results) != 2 || string(results[0].Args) != `{"at":1}` || results[0].Text != "one" || string(results[1].Args) != `{"at":2}` || !results[1].IsError {
		t.Errorf("the results are %+v, %v", results, err)
	}
	if offered, err := wire.OfferedTools(wire.GeminiGenerate, []byte(request)); err != nil || len(offered) != 2 || offered[0].Name != "look" || offered[1].Name != "take" {
		t.Errorf("the tools are %q, %v", offered, err)
	}
	if b, err := wire.BoundsOf(wire.GeminiGenerate, []byte(request)); err != nil || b.MaxOutput != 7 || b.Choices != 2 || !b.Elsewhere || b.Model != "g" {
		t.Errorf("its bounds are %+v, %v", b, err)
	}
	if w := wire.WordsOf(wire.GeminiGenerate, []byte(request)); !slices.Contains(w.Texts, "be brief") || !slices.Contains(w.Texts, "go") {
		t.Errorf("its words are %q", w.Texts)
	}
}

func TestGeminiRequestsAreWrittenAsTheyAreRead(t *testing.T) {
	api := wire.GeminiGenerate
	e := wire.NewEnvelope(api, wire.Options{Model: "g", MaxOutput: 9, Temperature: []byte("0"), Shape: &wire.Tool{Name: "s", Schema: []byte(`{"type":"object"}`)}})
	calls := []wire.Call{{ID: "call_1", Name: "look", Args: []byte(`{"at":1}`)}}
	got := e.Request(e.System("be brief"), [][]byte{api.User("go"), api.Say("well", calls), api.Results([]wire.Result{{ID: "call_1", Name: "look", Text: "a lamp"}})},
		api.Tools([]wire.Tool{{Name: "look", Description: "looks", Schema: []byte(`{}`)}}))
	want := `{"contents":[{"parts":[{"text":"go"}],"role":"user"},{"parts":[{"text":"well"},{"functionCall":{"args":{"at":1},"id":"call_1","name":"look"}}],"role":"model"},{"parts":[{"functionResponse":{"id":"call_1","name":"look","response":{"output":"a lamp"}}}],"role":"user"}],` +
		`"generationConfig":{"maxOutputTokens":9,"responseJsonSchema":{"type":"object"},"responseMimeType":"application/json","temperature":0},"model":"g","systemInstruction":{"parts":[{"text":"be brief"}]},` +
		`"tools":[{"functionDeclarations":[{"description":"looks","name":"look","parametersJsonSchema":{}}]}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r, err := wire.ReadRequest(api, got)
	if err != nil || r.Model != "g" || len(r.Messages) != 3 || r.Messages[1].Role != "assistant" || r.Messages[2].Parts[0].Result.Text != "a lamp" {
		t.Errorf("read as %+v, %v", r, err)
	}
}

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
	"tallystick/internal/run/judge"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
	"tallystick/internal/testing/tape"
)

// These tests add a fourth API, in export_test.go and madeup_test.go, and want
// everything to work that works with the other three. No other package is told.

const talkTape = `
format: tallystick-cassette/1-draft
interactions:
- model:
    api: acme.talk
    request: {model: talk-1, trace: 77, turns: [{who: user, said: hello}]}
    reply: {message: {text: hi, tool_calls: [{name: look, arguments: {at: 1}}]}, usage: {input_tokens: 3, output_tokens: 2}}
- model:
    api: acme.talk
    request: {model: talk-1, turns: [{who: user, said: hello}, {who: model, do: look, with: "{}", wish: wish-abcdefgh1}, {who: tool, wish: wish-abcdefgh1, said: a lamp}]}
    reply: {message: {text: a lamp}}
`

func talkCassette(t *testing.T) *cassette.Cassette {
	t.Helper()
	wire.AddMadeUp(t)
	c, err := tape.FromYAML("talk.yaml", []byte(talkTape))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAFourthAPIIsUnknownWithoutItsRow(t *testing.T) {
	_, err := tape.FromYAML("talk.yaml", []byte(talkTape))
	if err == nil || !strings.Contains(err.Error(), "acme.talk") || !strings.Contains(err.Error(), "openai.chat, openai.responses, anthropic.messages, gemini.generate, azure.chat, azure.responses or bedrock.converse") {
		t.Errorf("got %v", err)
	}
}

func TestAFourthAPIIsRecordedAndMatched(t *testing.T) {
	c := talkCassette(t)
	if c.Header.Totals.Tokens != 5 || !slices.Equal(c.Header.Models, []string{"talk-1"}) {
		t.Errorf("the header is %+v", c.Header)
	}
	file, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cassette.Parse(file, cassette.Limits{}); err != nil {
		t.Errorf("the file does not read back: %v", err)
	}
	// Another id, another trace, another way of delivery: the same request.
	p := cassette.NewPlayer(c)
	r, err := cassette.ModelRequest(wire.MadeUp, []byte(`{"live":true,"model":"talk-1","turns":[{"who":"user","said":"hello"},{"who":"model","do":"look","with":"{}","wish":"wish-zyxwvuts9"},{"who":"tool","wish":"wish-zyxwvuts9","said":"a lamp"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	it, err := p.Next(r)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := it.Model.Reply(wire.Delivery{Stream: true})
	if err != nil || len(reply.Stream) != 2 || !strings.HasPrefix(reply.Stream[1], "event: over\n") {
		t.Errorf("streamed: %q, %v", reply.Stream, err)
	}
}

func TestAFourthAPIIsServedByTheGateway(t *testing.T) {
	c := talkCassette(t)
	const token = "acme-0123456789abcdef"
	rules, err := policy.Compile(policy.Policy{Mode: policy.Autonomous})
	if err != nil {
		t.Fatal(err)
	}
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
	post := func(key, body string) (int, string) {
		r, _ := http.NewRequest("POST", server.URL+"/v1/talk", strings.NewReader(body))
		r.Header.Set("X-Acme", key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(data)
	}
	if status, body := post("Key wrong", `{}`); status != 401 || !strings.HasPrefix(body, `{"oops":"authentication_error: `) || !strings.Contains(body, "ACME_KEY") {
		t.Errorf("without the key: %d %s", status, body)
	}
	if status, body := post("Key "+token, `{"live":true,"model":"talk-1","turns":[{"who":"user","said":"hello"}]}`); status != 200 || !strings.HasPrefix(body, "event: more\ndata: {\"said\":\"hi\"}\n\nevent: over\n") {
		t.Errorf("streamed: %d %s", status, body)
	}
	if env := gateway.Environment(server.URL, token); !slices.Contains(env, "ACME_URL="+server.URL) || !slices.Contains(env, "ACME_KEY="+token) {
		t.Errorf("the agent is told %q", env)
	}
	lines := string(s.Complete("done", false).Trajectory)
	for _, want := range []string{`"protocol":"acme"`, `"messages":1,"model":"talk-1"`, `"provider":"acme"`, `{\"text\":\"hi\",\"tool_calls\":[{\"args\":\"{\\\"at\\\":1}\",\"name\":\"look\"}]`} {
		if !strings.Contains(lines, want) {
			t.Errorf("the trajectory lacks %s:\n%s", want, lines)
		}
	}
}

func TestAFourthAPIIsCalledLive(t *testing.T) {
	wire.AddMadeUp(t)
	server := fakemodel.New(t, fakemodel.Reply{Text: "hi", InputTokens: 10, OutputTokens: 2})
	settings, err := provider.ParseSettings("providers.yaml", []byte("version: 1\nacme:\n  base_url: "+server.URL+"\n  key_env: ACME_KEY\n  prices: {talk-1: {input: 1000000, output: 1000000, max_output_tokens: 50}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	access, err := settings.Access(func(string) string { return "acme-secret-0123456789" })
	if err != nil {
		t.Fatal(err)
	}
	defer access.Close()
	live, err := access.Case(provider.CaseOptions{Budget: provider.NewBudget(1_000_000), Now: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	it, err := live.Call(context.Background(), wire.MadeUp, []byte(`{"model":"talk-1","most":40,"turns":[{"who":"user","said":"hello"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if it.Model.Usage.OutputTokens != 2 || it.Model.CostMicrodollars == nil || *it.Model.CostMicrodollars != 12 {
		t.Errorf("recorded as %+v", it.Model)
	}
	if q := server.Requests()[0]; q.Path != "/v1/talk" || q.Header.Get("X-Acme") != "Key acme-secret-0123456789" {
		t.Errorf("sent to %s with %v", q.Path, q.Header)
	}
}

func TestAFourthAPIIsTakenByJudges(t *testing.T) {
	wire.AddMadeUp(t)
	if _, err := judge.ParseSettings("judge.yaml", []byte("version: 1\nmodel: talk-1\napi: acme.talk\n")); err != nil {
		t.Errorf("a judge: %v", err)
	}
}

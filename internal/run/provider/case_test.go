package provider

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

// What package session and package harness ask of a live provider.
var _ interface {
	session.Models
	Cassette() ([]byte, error)
} = (*LiveSide)(nil)

// One cassette holds the models and the tools of a case, and answers both.
func TestACaseIsRecordedAndReplayed(t *testing.T) {
	ctx := context.Background()
	models := fakemodel.New(t, fakemodel.Reply{Text: "Hi"})
	server := &fakemodel.MCP{}
	web := httptest.NewServer(server)
	defer web.Close()
	a := openAccess(t, parseSettings(t, fmt.Sprintf("version: 1\nopenai: {base_url: %q}\nmcp: {wiki: {url: %q}}", models.OpenAI(), web.URL)), nil)
	c, err := a.Case(CaseOptions{Now: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	defs := []tools.Definition{
		{Name: "look_up", Remote: "echo", Class: policy.Read, Source: tools.MCPPrefix + "wiki", Schema: []byte(`{"type":"object","required":["word"]}`)},
		{Name: "fail", Class: policy.Read, Source: tools.MCPPrefix + "wiki"},
		{Name: "fixed", Class: policy.Read, Default: &tools.Reply{Error: "always"}},
	}
	state, err := tools.New(defs, "", nil, a.Redactor())
	if err != nil {
		t.Fatal(err)
	}
	live := c.ToolBox(state)
	if _, err := c.Call(ctx, wire.OpenAIChat, []byte(chatBody), nil); err != nil {
		t.Fatal(err)
	}
	calls := []struct{ name, args string }{{"look_up", `{"word":"tally"}`}, {"look_up", `{}`}, {"fail", `{}`}, {"fixed", `{}`}, {"nothing", `{}`}}
	var first []tools.Result
	for _, call := range calls {
		r, err := live.Call(ctx, call.name, []byte(call.args))
		if err != nil {
			t.Fatalf("%s: %v", call.name, err)
		}
		first = append(first, r)
	}
	if first[0].Source != "live" || !strings.Contains(string(first[0].JSON), "tally") || first[1].Error == "" || first[2].Error == "" || first[3].Error != "always" || first[4].Error == "" {
		t.Errorf("%+v", first)
	}

	file, err := c.Cassette()
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := cassette.Parse(file, cassette.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := recorded.Header; got.Totals.ModelCalls != 1 || got.Totals.MCPExchanges != 4 || got.RecordedAt == nil || got.Provenance != cassette.Recorded {
		t.Errorf("%+v", got)
	}
	replay, err := tools.New(defs, "", cassette.NewPlayer(recorded), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, call := range calls {
		r, err := replay.Call(ctx, call.name, []byte(call.args))
		if err != nil {
			t.Fatalf("%s: %v", call.name, err)
		}
		if string(r.JSON) != string(first[i].JSON) || r.Error != first[i].Error || r.Trust != first[i].Trust {
			t.Errorf("%s: replayed %+v, live it was %+v", call.name, r, first[i])
		}
	}
}

func TestModelsAreCheckedBeforeAnythingIsSent(t *testing.T) {
	server := fakemodel.New(t)
	a := openAccess(t, settingsOf(t, server), map[string]string{"TEST_KEY": testKey})
	for _, tt := range []struct {
		model string
		out   int64
		say   string
	}{{"fake-1", 0, ""}, {"open-end", 100, ""}, {"open-end", 0, "how long an answer"}, {"unheard-of", 100, "no price"}} {
		err := a.CheckModel(wire.OpenAIChat, tt.model, tt.out)
		if tt.say == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.model, err)
			}
			continue
		}
		requireRefusal(t, err, refusal.NotFound, tt.say)
	}
	keyless := openAccess(t, settingsOf(t, server), nil)
	requireRefusal(t, keyless.CheckModel(wire.OpenAIChat, "fake-1", 1), refusal.NotFound, "TEST_KEY is not set")
}

func TestDestinationsNameKeysAndNeverShowThem(t *testing.T) {
	s := parseSettings(t, wholeSettings)
	if got := s.Destinations(""); len(got) != 2 || got[0] != "openai at https://models.example.com/v1, key from EXAMPLE_KEY" {
		t.Errorf("%q", got)
	}
	if got := s.Destinations(wire.AnthropicMessages); len(got) != 1 || got[0] != "anthropic at https://api.anthropic.com, key from ANTHROPIC_API_KEY" {
		t.Errorf("%q", got)
	}
	if got := s.MCP["files"].Destination(); !strings.HasPrefix(got, "the command mcp-files --root .") {
		t.Errorf("%q", got)
	}
}

// A permission is for a server as it is told here: what runs, is given or is asked
// something else must have another text.
func TestDestinationsOfMCPServersDiffer(t *testing.T) {
	told := map[string]Server{}
	for _, s := range []Server{
		{Command: []string{"serve", "a b"}},
		{Command: []string{"serve", "a", "b"}},
		{Command: []string{"serve", "a, B=c"}},
		{Command: []string{"serve", "a"}, Env: map[string]string{"B": "c"}},
		{Command: []string{"serve", "a"}, Env: map[string]string{"B": "d"}},
		{Command: []string{"serve", "a"}, Secrets: []string{"TOKEN"}},
		{Command: []string{"serve", "a"}, Secrets: []string{"OTHER"}},
		{URL: "https://mcp.example.com"},
		{URL: "https://mcp.example.com", KeyEnv: "TOKEN"},
		{URL: "https://mcp.example.com", KeyFile: "TOKEN"},
		{URL: "https://mcp.example.com/other", KeyEnv: "TOKEN"},
	} {
		if other, ok := told[s.Destination()]; ok {
			t.Errorf("%+v and %+v are both told as %q", s, other, s.Destination())
		}
		told[s.Destination()] = s
	}
}

// What signs requests is a key too.
func TestKeyNamesOfEndpoints(t *testing.T) {
	set := func(names ...string) func(string) string {
		return func(name string) string {
			if slices.Contains(names, name) {
				return "x"
			}
			return ""
		}
	}
	signed := &Endpoint{Signing: &Signing{AccessKeyEnv: "A", SecretKeyEnv: "S", SessionEnv: "T"}}
	for _, tt := range []struct {
		e     *Endpoint
		names string
		has   bool // with A and K set
	}{
		{&Endpoint{}, "", true},
		{&Endpoint{KeyEnv: "K"}, "K", true},
		{&Endpoint{KeyEnv: "L"}, "L", false},
		{&Endpoint{KeyFile: "K"}, "the file K", true},
		{signed, "A, S, T", false},
	} {
		if got := tt.e.KeyNames(); got != tt.names {
			t.Errorf("%+v: %q, expected %q", tt.e, got, tt.names)
		}
		if got := tt.e.HasKey(set("A", "K")); got != tt.has {
			t.Errorf("%+v: has its key: %v", tt.e, got)
		}
	}
	if !signed.HasKey(set("A", "S")) {
		t.Error("a session is not needed")
	}
}

package provider

import (
	"context"
	"fmt"
	"net/http/httptest"
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
	if got := s.MCP["files"].Destination(); got != "the command mcp-files --root ." {
		t.Errorf("%q", got)
	}
}

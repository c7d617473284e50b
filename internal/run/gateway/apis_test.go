package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

// what apis.py and apis.mjs print for one API of OpenAI, by its provider
const openAIOutput = `NAME chat | hello to you | 15
NAME chat stream | hello to you
NAME chat tool | get_weather | {"city":"Oslo"}
NAME chat result | It rains.
NAME chat image | a picture
NAME responses | hello to you | 15
NAME responses stream | hello to you
NAME embedding | [0.125, 0.625, 0.375]
NAME embeddings | [3, 3]
NAME embeddings dimensions | 2
NAME embeddings tokens | 2
`

const pythonOutput = `azure v1 | hello to you
anthropic | hello to you | 5
anthropic stream | hello to you
anthropic tool | get_weather | {'city': 'Oslo'}
anthropic result | It rains.
anthropic image | a picture
anthropic tokens | True
gemini | hello to you | 15
gemini stream | hello to you
gemini tool | get_weather | {'city': 'Oslo'}
gemini result | It rains.
gemini image | a picture
gemini embedding | 1
gemini embeddings | 2
gemini tokens | True
bedrock | hello to you | 15
bedrock stream | hello to you | 15
bedrock tool | get_weather | {'city': 'Oslo'}
bedrock result | It rains.
bedrock image | a picture
`

const nodeOpenAIOutput = `NAME chat | hello to you | 15
NAME chat stream | hello to you
NAME chat tool | get_weather | {"city":"Oslo"}
NAME responses | hello to you | 15
NAME responses stream | hello to you
NAME embeddings | 3,3
`

const nodeOutput = `anthropic | hello to you | 5
anthropic stream | hello to you
anthropic tool | get_weather | {"city":"Oslo"}
anthropic tokens | true
gemini | hello to you | 15
gemini stream | hello to you
gemini tool | get_weather | {"city":"Oslo"}
gemini embeddings | 2
gemini tokens | true
bedrock | hello to you | 15
bedrock stream | hello to you | 15
bedrock tool | get_weather | {"city":"Oslo"}
`

// answerForClients answers what apis.py and apis.mjs ask.
func answerForClients(q fakemodel.Request) fakemodel.Reply {
	body := string(q.Body)
	switch {
	case !q.API.Converses():
		return fakemodel.Reply{}
	case strings.Contains(body, "rain"):
		return fakemodel.Reply{Text: "It rains."}
	case strings.Contains(body, "call get_weather"):
		return fakemodel.Reply{ToolCalls: []fakemodel.ToolCall{{Name: "get_weather", Arguments: `{"city":"Oslo"}`}}}
	case strings.Contains(body, "iVBORw0KGgo"):
		return fakemodel.Reply{Text: "a picture"}
	}
	return fakemodel.Reply{Text: "hello to you"}
}

// liveOn is the live side of a case whose providers are all one server.
func liveOn(t *testing.T, server *fakemodel.Server) *provider.LiveSide {
	t.Helper()
	settings := "version: 1\n"
	for _, p := range wire.Providers() {
		settings += fmt.Sprintf("%s:\n  base_url: %s%s\n  prices: {\"*\": {input: 1000000, output: 1000000, max_input_tokens: 100000, max_output_tokens: 1000}}\n", p.Name, server.URL, p.BasePath)
		if p.Signed {
			settings += "  region: eu-west-1\n  access_key_env: THE_KEY\n  secret_key_env: THE_SECRET\n"
		} else {
			settings += "  key_env: THE_SECRET\n"
		}
	}
	s, err := provider.ParseSettings("providers.yaml", []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	access, err := s.Access(func(name string) string {
		return map[string]string{"THE_KEY": "AKIDEXAMPLE", "THE_SECRET": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(access.Close)
	live, err := access.Case(provider.CaseOptions{Budget: provider.NewBudget(100_000_000), Now: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	return live
}

// open is a policy under which all is allowed.
var open = policy.Policy{Mode: policy.Autonomous, MaxCostMicroUSD: 100_000_000, MaxToolCalls: 1000}

// TestEveryAPIByItsSDK runs the official SDKs live against a server of ours that
// speaks every API, and then against the recording alone, and wants the same
// output. It needs packages as TestOfficialClients does.
func TestEveryAPIByItsSDK(t *testing.T) {
	dir := os.Getenv("TALLY_CLIENTS")
	if dir == "" {
		t.Skip("run tools/clients/run.sh")
	}
	both := func(text string) string {
		return strings.ReplaceAll(text, "NAME", "openai") + strings.ReplaceAll(text, "NAME", "azure")
	}
	for _, tt := range []struct {
		name    string
		command []string
		want    string
	}{
		{"Python", []string{filepath.Join(dir, "python/bin/python"), filepath.Join(dir, "apis.py")}, both(openAIOutput) + pythonOutput},
		{"Node", []string{"node", filepath.Join(dir, "apis.mjs")}, both(nodeOpenAIOutput) + nodeOutput},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := fakemodel.Answer(t, answerForClients)
			live := liveOn(t, server)
			recording := newCase(t, caseOptions{models: live, live: true, policy: &open})
			if out := runClient(t, recording, tt.command); out != tt.want {
				t.Fatalf("live it prints\n%s\nwant\n%s", out, tt.want)
			}
			asked := len(server.Requests())
			for _, q := range server.Requests() {
				if strings.Contains(fmt.Sprint(q.Header), token) {
					t.Errorf("the token of the case went to %s", q.Path)
				}
			}
			file, err := live.Cassette()
			if err != nil {
				t.Fatal(err)
			}
			tape, err := cassette.Parse(file, cassette.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(tape.Interactions); got != asked || tape.Header.Totals.UnpricedCalls != 0 {
				t.Errorf("%d calls recorded of %d, %d of them unpriced", got, asked, tape.Header.Totals.UnpricedCalls)
			}
			replay := newCase(t, caseOptions{models: &session.Replay{Player: cassette.NewPlayer(tape)}, policy: &open})
			if out := runClient(t, replay, tt.command); out != tt.want {
				t.Errorf("replayed it prints\n%s\nwant\n%s", out, tt.want)
			}
			if n := len(server.Requests()); n != asked {
				t.Errorf("the replay asked the server %d times", n-asked)
			}
			calls := 0
			for e := range replay.end(t).Events() {
				if p, ok := e.Payload.(*trajectory.ToolObserved); ok && p.Name == "get_weather" {
					calls++
				}
			}
			if calls < 5 {
				t.Errorf("%d tool calls seen, want those of five APIs", calls)
			}
			t.Logf("%d requests recorded, the same in two runs", asked)
		})
	}
}

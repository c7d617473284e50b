package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

// TestMain lets the test binary be an MCP server over standard input and
// output. The variable says how it behaves.
func TestMain(m *testing.M) {
	if how, ok := os.LookupEnv("FAKETEST_MCP"); ok {
		server := &fakemodel.MCP{Secret: os.Getenv("FAKETEST_SECRET")}
		name, value, _ := strings.Cut(how, "=")
		switch name {
		case "":
		case "chatty":
			server.Chatty = true
		case "pages":
			server.Pages = true
		case "version":
			server.Version = value
		case "refuse":
			server.Refuse = value
		case "die":
			server.Die = value
		case "garbage":
			server.Garbage = value
		case "silent":
			for { // a select without cases is a deadlock where nothing else runs
				time.Sleep(time.Hour)
			}
		case "environment":
			server.Secret = strings.Join(os.Environ(), " ")
		default:
			fmt.Fprintln(os.Stderr, "unknown behaviour", how)
			os.Exit(2)
		}
		if err := server.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// testKey has characters for every encoding to change.
const testKey = "sk-proj-Zq9/+==~key_0123456789"

// A bed is a live provider over a fake one.
type bed struct {
	*Live
	server *fakemodel.Server
	access *Access
	waits  []time.Duration
}

func parseSettings(t *testing.T, text string) *Settings {
	t.Helper()
	s, err := ParseSettings("providers.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openAccess(t *testing.T, s *Settings, vars map[string]string) *Access {
	t.Helper()
	a, err := s.Access(func(name string) string { return vars[name] })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

const testPrices = `
  prices:
    fake-1: {input: 1000000, output: 4000000, cache_read: 100000, max_input_tokens: 100000, max_output_tokens: 1000}
    open-end: {input: 1000000, output: 4000000}
`

func settingsOf(t *testing.T, server *fakemodel.Server) *Settings {
	return parseSettings(t, fmt.Sprintf("version: 1\nopenai:\n  base_url: %s\n  key_env: TEST_KEY%santhropic:\n  base_url: %s\n  key_env: TEST_KEY%s",
		server.OpenAI(), testPrices, server.Anthropic(), testPrices))
}

func newBed(t *testing.T, server *fakemodel.Server, change func(*Config)) *bed {
	t.Helper()
	b := &bed{server: server, access: openAccess(t, settingsOf(t, server), map[string]string{"TEST_KEY": testKey})}
	cfg := Config{Access: b.access, Recorder: newRecorder(t, b.access, nil)}
	if change != nil {
		change(&cfg)
	}
	live, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	live.sleep = func(ctx context.Context, d time.Duration) error {
		b.waits = append(b.waits, d)
		return ctx.Err()
	}
	b.Live = live
	return b
}

func newRecorder(t *testing.T, a *Access, base *cassette.Cassette) *cassette.Recorder {
	t.Helper()
	r, err := cassette.NewRecorder(cassette.RecorderOptions{Redactor: a.Redactor(), Prices: a.Settings.Prices(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bed) call(api wire.API, body string) (*cassette.Interaction, error) {
	return b.Call(context.Background(), api, []byte(body), nil)
}

func (b *bed) mustCall(t *testing.T, api wire.API, body string) *cassette.Interaction {
	t.Helper()
	it, err := b.call(api, body)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// streamed makes a call and returns what the client saw.
func (b *bed) streamed(api wire.API, body string) (string, *cassette.Interaction, error) {
	var seen strings.Builder
	it, err := b.Call(context.Background(), api, []byte(body), func(event string) error {
		seen.WriteString(event)
		return nil
	})
	return seen.String(), it, err
}

// recorded returns the cassette as a replay would read it.
func (b *bed) recorded(t *testing.T) *cassette.Cassette {
	t.Helper()
	file, err := b.Cassette()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cassette.Parse(file, cassette.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func lines(t *testing.T, c *cassette.Cassette) string {
	t.Helper()
	text, err := c.Lines()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func requireRefusal(t *testing.T, err error, name refusal.Name, parts ...string) {
	t.Helper()
	if !refusal.Is(err, name) {
		t.Fatalf("got %v, want a refusal %s", err, name)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// requireNoKey looks for the key in everything that a text shows, hints and
// causes of an error included.
func requireNoKey(t *testing.T, what string, values ...any) {
	t.Helper()
	for _, v := range values {
		text := fmt.Sprintf("%v %+v %#v", v, v, v)
		if err, ok := v.(error); ok {
			for e := err; e != nil; e = errors.Unwrap(e) {
				text += fmt.Sprintf(" %v %+v", e, e)
			}
			text += refusal.Of(err).Hint
		}
		for name, form := range map[string]string{"whole": testKey, "its middle": testKey[8:20], "its end": testKey[12:]} {
			if strings.Contains(text, form) {
				t.Errorf("%s: the key (%s) is in %.400q", what, name, text)
			}
		}
	}
}

const (
	chatBody      = `{"model":"fake-1","messages":[{"role":"user","content":"Hello"}],"max_tokens":10}`
	chatStream    = `{"model":"fake-1","messages":[{"role":"user","content":"Hello"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":10}`
	responsesBody = `{"model":"fake-1","input":"Hello","max_output_tokens":10}`
	messagesBody  = `{"model":"fake-1","messages":[{"role":"user","content":"Hello"}],"max_tokens":10}`
)

func withStream(body string) string { return strings.TrimSuffix(body, "}") + `,"stream":true}` }

// endpointOf is the provider of that name, nil if the settings lack it.
func endpointOf(s *Settings, name string) *Endpoint {
	for _, e := range s.Endpoints {
		if e.Provider == name {
			return e
		}
	}
	return nil
}

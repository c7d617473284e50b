package provider

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

var everyAPI = []struct {
	api        wire.API
	body, path string
}{
	{wire.OpenAIChat, chatBody, "/v1/chat/completions"},
	{wire.OpenAIResponses, responsesBody, "/v1/responses"},
	{wire.AnthropicMessages, messagesBody, "/v1/messages"},
}

func TestRequestsAreSentByteForByte(t *testing.T) {
	for _, tt := range everyAPI {
		// A client's own spelling: order, blanks, escapes, numbers.
		odd := `{ "temperature":1.0,  "seed":12345678901234, "x":"\u00e9é","model":"fake-1",` + "\n" + strings.TrimPrefix(tt.body, `{"model":"fake-1",`)
		b := newBed(t, fakemodel.New(t, fakemodel.Reply{Text: "Hi"}), nil)
		it := b.mustCall(t, tt.api, odd)
		got := b.server.Requests()[0]
		if string(got.Body) != odd || got.Path != tt.path {
			t.Errorf("%s: sent %s to %s", tt.api, got.Body, got.Path)
		}
		key := got.Header.Get("Authorization")
		if tt.api == wire.AnthropicMessages {
			key = "Bearer " + got.Header.Get("x-api-key")
			if got.Header.Get("anthropic-version") != "2023-06-01" || got.Header.Get("Authorization") != "" {
				t.Errorf("headers %v", got.Header)
			}
		}
		if key != "Bearer "+testKey || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: headers %v", tt.api, got.Header)
		}
		// 10 tokens in at 1 dollar and 5 out at 4 dollars a million.
		if c := it.Model.CostMicrodollars; c == nil || *c != 30 || it.Model.Usage.Total() != 15 {
			t.Errorf("%s: cost %v, usage %+v", tt.api, c, it.Model.Usage)
		}
		requireReplay(t, b.recorded(t), tt.api, odd, it)
	}
}

// requireReplay plays a recording and wants the same interaction again.
func requireReplay(t *testing.T, c *cassette.Cassette, api wire.API, body string, want *cassette.Interaction) {
	t.Helper()
	request, err := cassette.ModelRequest(api, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cassette.NewPlayer(c).Next(request)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprint(got.Model.Response), fmt.Sprint(want.Model.Response); a != b {
		t.Errorf("the replay is %s, live it was %s", a, b)
	}
}

func TestStreamsArePassedOnAsTheyArrive(t *testing.T) {
	for _, tt := range everyAPI {
		gate := make(chan struct{})
		b := newBed(t, fakemodel.New(t, fakemodel.Reply{Text: "Hello there", Gate: gate}), nil)
		var seen []string
		it, err := b.Call(context.Background(), tt.api, []byte(withStream(tt.body)), func(event string) error {
			// The provider sends no further event before this one was seen.
			if len(seen) > 0 || event != "" {
				seen = append(seen, event)
			}
			go func() { gate <- struct{}{} }()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(seen) < 2 || strings.Join(seen, "") != strings.Join(it.Model.Response.Stream, "") {
			t.Errorf("%s: saw %q, recorded %q", tt.api, seen, it.Model.Response.Stream)
		}
		requireReplay(t, b.recorded(t), tt.api, tt.body, it)
		if s := b.Stats(); s != (Stats{Calls: 1}) {
			t.Errorf("%s: %+v", tt.api, s)
		}
	}
}

func TestRetriesAreBoundedCountedAndPolite(t *testing.T) {
	busy := fakemodel.Reply{Status: 429, Headers: map[string]string{"retry-after-ms": "7"}, Body: `{"error":{"message":"slow down"}}`}
	sent := func(r fakemodel.Reply, name, value string) fakemodel.Reply {
		r.Headers = map[string]string{name: value}
		return r
	}
	ok := fakemodel.Reply{Text: "at last"}
	for _, tt := range []struct {
		name   string
		script []fakemodel.Reply
		status int64
		waits  []time.Duration
	}{
		{"busy once", []fakemodel.Reply{busy, ok}, 200, []time.Duration{7 * time.Millisecond}},
		{"seconds", []fakemodel.Reply{sent(busy, "Retry-After", "2"), ok}, 200, []time.Duration{2 * time.Second}},
		{"broken, then overloaded, without a wish", []fakemodel.Reply{{Status: 500, Body: "oops"}, {Status: 529, Body: "{}"}, ok}, 200, []time.Duration{firstWait, 2 * firstWait}},
		{"for ever", []fakemodel.Reply{busy, busy, busy, busy, busy}, 429, []time.Duration{7e6, 7e6, 7e6, 7e6}},
		{"a wish that is too long", []fakemodel.Reply{sent(busy, "Retry-After", "3600")}, 429, nil},
		{"a wish beyond all numbers", []fakemodel.Reply{sent(busy, "Retry-After", "1e300")}, 429, nil},
		{"a date in the past", []fakemodel.Reply{sent(busy, "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), ok}, 200, []time.Duration{0}},
		{"told not to", []fakemodel.Reply{sent(busy, "x-should-retry", "false")}, 429, nil},
		{"told to", []fakemodel.Reply{{Status: 400, Body: "{}", Headers: map[string]string{"x-should-retry": "true", "retry-after-ms": "1"}}, ok}, 200, []time.Duration{1e6}},
		{"a mistake of the client", []fakemodel.Reply{{Status: 400, Body: `{"error":{}}`}}, 400, nil},
		{"a key that is refused", []fakemodel.Reply{{Status: 401, Body: `{"error":{}}`}}, 401, nil},
		{"a body that breaks off", []fakemodel.Reply{{Body: `{"id":"x"`, Cut: true}, ok}, 200, []time.Duration{firstWait}},
		{"a connection that breaks", []fakemodel.Reply{{Raw: " "}, ok}, 200, []time.Duration{firstWait}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var told []Retry
			b := newBed(t, fakemodel.New(t, tt.script...), func(c *Config) { c.OnRetry = func(r Retry) { told = append(told, r) } })
			it := b.mustCall(t, wire.OpenAIChat, chatBody)
			if it.Model.Response.Status != tt.status || fmt.Sprint(b.waits) != fmt.Sprint(tt.waits) {
				t.Errorf("status %d after waiting %v; want %d, %v", it.Model.Response.Status, b.waits, tt.status, tt.waits)
			}
			s := b.Stats()
			if s.Retries != len(tt.waits) || len(told) != len(tt.waits) || s.Calls != 1 || (s.Refused == 1) != (tt.status >= 400) {
				t.Errorf("stats %+v, told %v", s, told)
			}
			if n := len(b.server.Requests()); n != len(tt.script) {
				t.Errorf("%d requests for %d replies", n, len(tt.script))
			}
			// One call is one interaction, however many tries it took.
			if c := b.recorded(t); len(c.Interactions) != 1 {
				t.Errorf("%d interactions", len(c.Interactions))
			}
		})
	}
}

func TestAStreamThatBreaksOffIsRecordedAsFarAsItCame(t *testing.T) {
	events := []string{"data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n", "data: {\"id\":\"x\",\"choi"}
	for name, r := range map[string]fakemodel.Reply{
		"cut":             {Events: events, Cut: true},
		"ended too early": {Events: events},
		"cut in a letter": {Events: []string{events[0], "data: \"\xc3"}, Cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, fakemodel.New(t, r), nil)
			seen, it, err := b.streamed(wire.OpenAIChat, chatStream)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(seen, events[0]) || !strings.HasPrefix(seen, strings.Join(it.Model.Response.Stream, "")) || it.Model.Response.Stream[0] != events[0] {
				t.Errorf("saw %q, recorded %q", seen, it.Model.Response.Stream)
			}
			if it.Model.CostMicrodollars != nil {
				t.Error("a stream that did not tell its usage has a cost")
			}
			if s := b.Stats(); s.Broken != 1 || s.Retries != 0 {
				t.Errorf("%+v", s)
			}
			requireReplay(t, b.recorded(t), wire.OpenAIChat, chatStream, it)
		})
	}
}

// The caller has seen nothing of it, so it can be asked for again.
func TestABrokenStreamThatWasNotReadIsTriedAgain(t *testing.T) {
	b := newBed(t, fakemodel.New(t, fakemodel.Reply{Events: []string{"data: {}\n\n"}, Cut: true}, fakemodel.Reply{Text: "whole"}), nil)
	it := b.mustCall(t, wire.OpenAIChat, chatStream)
	if body, err := wire.BodyOfStream(wire.OpenAIChat, it.Model.Response.Stream); err != nil || !strings.Contains(string(body), "whole") {
		t.Errorf("%s, %v", body, err)
	}
}

func TestMalformedRepliesAreKeptOrRefusedByName(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply fakemodel.Reply
		want  refusal.Name // "" if it is kept
		say   string
	}{
		{"HTML", fakemodel.Reply{Body: "<html>"}, "", ""},
		{"nothing", fakemodel.Reply{Body: " "}, "", ""},
		{"JSON twice", fakemodel.Reply{Body: `{}{}`}, "", ""},
		{"a repeated member", fakemodel.Reply{Body: `{"a":1,"a":2}`}, "", ""},
		{"a stream of nothing", fakemodel.Reply{Events: []string{}}, "", ""},
		{"not a stream", fakemodel.Reply{Events: []string{"what?"}}, "", ""},
		{"no UTF-8", fakemodel.Reply{Body: "\xff\xfe"}, refusal.Malformed, "not UTF-8"},
		{"no UTF-8 in a stream", fakemodel.Reply{Events: []string{"data: \xff\n\n"}}, refusal.Malformed, "not UTF-8"},
		{"a negative usage", fakemodel.Reply{Body: `{"usage":{"prompt_tokens":-1}}`}, refusal.Malformed, "usage"},
		{"too long", fakemodel.Reply{Body: strings.Repeat("x", maxReplyBytes+1)}, refusal.TooLarge, "longer than"},
		{"a stream that is too long", fakemodel.Reply{Events: []string{strings.Repeat("x", maxReplyBytes+1)}}, refusal.TooLarge, "longer than"},
		{"a redirect", fakemodel.Reply{Status: 307, Headers: map[string]string{"Location": "/v1/elsewhere"}, Body: "x"}, refusal.ProviderFailed, "redirects"},
		{"a redirect to nowhere", fakemodel.Reply{Status: 307, Body: "x"}, refusal.ProviderFailed, "307"},
		{"not modified", fakemodel.Reply{Status: 304, Events: []string{}}, refusal.ProviderFailed, "304"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t, fakemodel.New(t, tt.reply), nil)
			it, err := b.call(wire.OpenAIChat, chatBody)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				requireReplay(t, b.recorded(t), wire.OpenAIChat, chatBody, it)
				return
			}
			requireRefusal(t, err, tt.want, tt.say)
			if n := len(b.recorded(t).Interactions); n != 0 || b.Stats().Failed != 1 || b.Stats().Retries != 0 {
				t.Errorf("%d interactions, %+v", n, b.Stats())
			}
		})
	}
}

func TestARequestThatCannotBeKeptIsNotSent(t *testing.T) {
	b := newBed(t, fakemodel.New(t), nil)
	for _, body := range []string{"", "[]", `{"a":1,"a":2}`, "{"} {
		_, err := b.call(wire.OpenAIChat, body)
		requireRefusal(t, err, refusal.Malformed)
	}
	_, err := b.call("openai.telepathy", `{}`)
	requireRefusal(t, err, refusal.Malformed, "unknown")
	_, err = b.call(wire.OpenAIChat, `{"x":"`+strings.Repeat("x", maxRequestBytes)+`"}`)
	requireRefusal(t, err, refusal.TooLarge)
	if n := len(b.server.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestAProviderThatCannotBeReachedIsNamedAfterBoundedTries(t *testing.T) {
	b := newBed(t, fakemodel.New(t), nil)
	// A port on which no server listens any more.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	endpointOf(b.access.Settings, "openai").BaseURL = "http://" + l.Addr().String()
	_, err = b.call(wire.OpenAIChat, chatBody)
	requireRefusal(t, err, refusal.ProviderFailed, "calling openai at http://127.0.0.1:")
	if len(b.waits) != maxRetries || b.Stats().Failed != 1 {
		t.Errorf("waits %v, %+v", b.waits, b.Stats())
	}
}

func TestASilentProviderIsGivenUp(t *testing.T) {
	for name, r := range map[string]fakemodel.Reply{"before the reply": {Events: []string{}, Hang: true}, "in the middle": {Body: "{", Hang: true}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, fakemodel.Answer(t, func(fakemodel.Request) fakemodel.Reply { return r }), nil)
			endpointOf(b.access.Settings, "openai").Timeout = 20 * time.Millisecond
			b.sleep = func(context.Context, time.Duration) error { return nil }
			it, err := b.call(wire.OpenAIChat, chatBody)
			if r.Body == "" { // an empty stream that hangs is one that broke off
				if err != nil || b.Stats().Broken != 1 || it.Model.Response.Stream != nil {
					t.Errorf("%+v, %v", it, err)
				}
				return
			}
			requireRefusal(t, err, refusal.ProviderFailed, "sent nothing for too long")
		})
	}
}

func TestAnInterruptedCallEndsAndIsAccountedFor(t *testing.T) {
	budget := NewBudget(1_000_000)
	b := newBed(t, fakemodel.New(t, fakemodel.Reply{Events: []string{"data: {\"a\":1}\n\n"}, Hang: true}), func(c *Config) { c.Budget = budget })
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("the person pressed Ctrl-C")
	_, err := b.Call(ctx, wire.OpenAIChat, []byte(chatStream), func(string) error { cancel(stop); return nil })
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if n := len(b.recorded(t).Interactions); n != 1 || budget.Spent() == 0 {
		t.Errorf("%d interactions, spent %d: what was begun is not accounted for", n, budget.Spent())
	}
}

func TestAClientThatGoesAwayLeavesAWholeRecording(t *testing.T) {
	b := newBed(t, fakemodel.New(t, fakemodel.Reply{Text: "a long story"}), nil)
	gone := errors.New("client is gone")
	calls := 0
	_, err := b.Call(context.Background(), wire.OpenAIChat, []byte(chatStream), func(string) error { calls++; return gone })
	if !errors.Is(err, gone) || calls != 1 {
		t.Errorf("got %v after %d events", err, calls)
	}
	if _, err := wire.BodyOfStream(wire.OpenAIChat, b.recorded(t).Interactions[0].Model.Response.Stream); err != nil {
		t.Errorf("the recording is not whole: %v", err)
	}
}

// The fake provider repeats the key wherever a provider could.
func TestTheKeyIsNowhereThoughTheProviderRepeatsIt(t *testing.T) {
	spellings := map[string]string{
		"plain": testKey, "base64": base64.StdEncoding.EncodeToString([]byte("Bearer " + testKey)),
		"hex": hex.EncodeToString([]byte(testKey)), "query": url.QueryEscape(testKey),
	}
	for how, spelled := range spellings {
		for name, reply := range map[string]fakemodel.Reply{
			"a body":        {Text: "your key is " + spelled},
			"a member":      {Body: `{"` + spelled + `":1,"headers":{"Authorization":"Bearer ` + spelled + `"}}`},
			"an error":      {Status: 401, Body: `{"error":{"message":"Incorrect API key provided: ` + spelled + `"}}`},
			"plain text":    {Status: 403, Body: "no entry with " + spelled},
			"headers":       {Headers: map[string]string{"X-Echo": spelled, "openai-version": spelled, "Set-Cookie": "k=" + spelled}, Text: "x"},
			"content type":  {Headers: map[string]string{"Content-Type": "text/plain; key=" + spelled}, Body: "x"},
			"an event":      {Events: []string{"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + spelled + "\"}}]}\n\n", "data: [DONE]\n\n"}},
			"a comment":     {Events: []string{": " + spelled + "\n\n"}},
			"a cut event":   {Events: []string{"data: {\"choices\":[{\"delta\":{\"content\":\"" + spelled}, Cut: true},
			"a status line": {Raw: "HTTP/1.1 999 " + spelled + "\r\n\r\n"},
			"no HTTP":       {Raw: spelled + "\r\n\r\n"},
			"a bad header":  {Raw: "HTTP/1.1 200 OK\r\n" + spelled + "\r\n\r\n"},
			"a bad length":  {Raw: "HTTP/1.1 200 OK\r\nContent-Length: " + spelled + "\r\n\r\n"},
			"a bad chunk":   {Raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + spelled + "\r\n"},
			"a redirect":    {Status: 302, Headers: map[string]string{"Location": "https://evil.example/?k=" + spelled}, Body: "x"},
			"an odd target": {Status: 302, Headers: map[string]string{"Location": "http://[" + spelled + "/%zz"}, Body: "x"},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				var reasons []string
				b := newBed(t, fakemodel.Answer(t, func(q fakemodel.Request) fakemodel.Reply {
					if q.Header.Get("Authorization") != "Bearer "+testKey {
						t.Error("the fake provider did not get the key, so the test proves nothing")
					}
					return reply
				}), func(c *Config) { c.OnRetry = func(r Retry) { reasons = append(reasons, r.Reason) } })
				seen, it, err := b.streamed(wire.OpenAIChat, chatStream)
				if it == nil && err == nil {
					t.Fatal("neither a reply nor an error")
				}
				requireNoKey(t, "the client", seen)
				requireNoKey(t, "the error", err)
				requireNoKey(t, "the reasons", reasons)
				if it != nil {
					requireNoKey(t, "the interaction", it.Model.Response.Headers, it.Model.Response.Text, string(it.Model.Response.Body), strings.Join(it.Model.Response.Stream, ""))
				}
				text := lines(t, b.recorded(t))
				requireNoKey(t, "the cassette", text)
				if strings.Contains(text+seen+fmt.Sprint(err), spelled) {
					t.Errorf("%s is left in %s %s %v", spelled, text, seen, err)
				}
			})
		}
	}
}

func TestAStreamThatSpellsTheKeyIsStopped(t *testing.T) {
	var events []string
	for _, c := range testKey {
		events = append(events, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\""+string(c)+"\"}}]}\n\n")
	}
	b := newBed(t, fakemodel.New(t, fakemodel.Reply{Events: append(events, "data: [DONE]\n\n")}), nil)
	seen, _, err := b.streamed(wire.OpenAIChat, chatStream)
	if err == nil || !strings.Contains(err.Error(), "spells out a key") || strings.Count(seen, "data:") > 3 {
		t.Errorf("the client saw %q, %v", seen, err)
	}
	if body, err := wire.BodyOfStream(wire.OpenAIChat, b.recorded(t).Interactions[0].Model.Response.Stream); err != nil || strings.Contains(string(body), testKey) {
		t.Errorf("recorded %s, %v", body, err)
	}
}

func TestTheKeyGoesToItsOwnProviderOnly(t *testing.T) {
	var elsewhere int
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer evil.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		b := newBed(t, fakemodel.New(t, fakemodel.Reply{Status: status, Headers: map[string]string{"Location": evil.URL}, Body: "x"}), nil)
		_, err := b.call(wire.OpenAIChat, chatBody)
		requireRefusal(t, err, refusal.ProviderFailed, "redirects")
	}
	if elsewhere != 0 {
		t.Errorf("%d requests went elsewhere", elsewhere)
	}
}

func TestOnlyMissingCallsGoToTheProvider(t *testing.T) {
	b := newBed(t, fakemodel.New(t, fakemodel.Reply{Text: "one"}, fakemodel.Reply{Text: "two"}), nil)
	first := b.mustCall(t, wire.OpenAIChat, chatBody)
	base := b.recorded(t)

	var player *cassette.Player
	again := newBed(t, fakemodel.New(t, fakemodel.Reply{Text: "new"}, fakemodel.Reply{Text: "newer"}), nil)
	player = cassette.NewPlayer(base)
	again.cfg.OnlyMissing = player
	again.cfg.Recorder = newRecorder(t, again.access, base)

	got := again.mustCall(t, wire.OpenAIChat, chatBody)
	if string(got.Model.Response.Body) != string(first.Model.Response.Body) || len(again.server.Requests()) != 0 {
		t.Errorf("a recorded call went to the provider: %s", got.Model.Response.Body)
	}
	other := strings.Replace(chatBody, "Hello", "Goodbye", 1)
	if got := again.mustCall(t, wire.OpenAIChat, other); !strings.Contains(string(got.Model.Response.Body), "new") {
		t.Errorf("got %s", got.Model.Response.Body)
	}
	// Each recording answers once.
	again.mustCall(t, wire.OpenAIChat, chatBody)
	if s := again.Stats(); s.Replayed != 1 || s.Calls != 2 {
		t.Errorf("%+v", s)
	}
	c := again.recorded(t)
	if len(c.Interactions) != 3 || c.Header.Provenance != cassette.Recorded {
		t.Errorf("%d interactions, %s", len(c.Interactions), c.Header.Provenance)
	}
}

func TestARecordedCallIsStreamedToWhoWantsAStream(t *testing.T) {
	b := newBed(t, fakemodel.New(t, fakemodel.Reply{Text: "one"}), nil)
	b.mustCall(t, wire.OpenAIChat, chatBody)
	base := b.recorded(t)
	b.cfg.OnlyMissing = cassette.NewPlayer(base)
	seen, _, err := b.streamed(wire.OpenAIChat, chatStream)
	if err != nil || !strings.Contains(seen, "one") || !strings.HasSuffix(seen, "data: [DONE]\n\n") {
		t.Errorf("saw %q, %v", seen, err)
	}
}

func TestACassetteOfAnotherVersionIsNotAddedTo(t *testing.T) {
	b := newBed(t, fakemodel.New(t), nil)
	text := strings.Replace(lines(t, b.recorded(t)), cassette.Format, "tallystick-cassette/2", 1)
	_, err := cassette.ParseLines([]byte(text), cassette.Limits{})
	requireRefusal(t, err, refusal.NewerFormat, "by a newer tally")
}

func TestPlainHTTPGoesToThisMachineOnly(t *testing.T) {
	// The settings refuse such a URL; this is what is left if a name such as
	// localhost stands for another machine.
	req, err := http.NewRequest(http.MethodGet, "http://192.0.2.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(&roots{}).Do(req); err == nil || !strings.Contains(err.Error(), "which is not this machine") {
		t.Errorf("got %v", err)
	}
}

func TestAMissingKeyIsNamedWhenItIsNeeded(t *testing.T) {
	server := fakemodel.New(t)
	a := openAccess(t, settingsOf(t, server), nil)
	live, err := New(Config{Access: a, Recorder: newRecorder(t, a, nil)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = live.Call(context.Background(), wire.OpenAIChat, []byte(chatBody), nil)
	requireRefusal(t, err, refusal.NotFound, "TEST_KEY is not set")

	a.Settings.Endpoints = a.Settings.Endpoints[:1]
	_, err = live.Call(context.Background(), wire.AnthropicMessages, []byte(messagesBody), nil)
	requireRefusal(t, err, refusal.NotFound, "providers.yaml has no anthropic")
}

func TestALocalServerNeedsNoKey(t *testing.T) {
	server := fakemodel.New(t, fakemodel.Reply{Text: "x"})
	a := openAccess(t, parseSettings(t, "version: 1\nopenai:\n  base_url: "+server.OpenAI()+"\n"), map[string]string{"OPENAI_API_KEY": testKey})
	live, err := New(Config{Access: a, Recorder: newRecorder(t, a, nil)})
	if err != nil {
		t.Fatal(err)
	}
	it, err := live.Call(context.Background(), wire.OpenAIChat, []byte(chatBody), nil)
	if err != nil || it.Model.CostMicrodollars != nil {
		t.Fatalf("%+v, %v", it, err)
	}
	if h := server.Requests()[0].Header; h.Get("Authorization") != "" {
		t.Errorf("the usual key was sent to an unusual server: %v", h)
	}
}

// A try that was sent may have been billed: it is counted where another follows, and the
// error says so where none does. What was refused or never sent cost nothing.
func TestTriesThatMayHaveBeenBilledAreTold(t *testing.T) {
	lost := fakemodel.Reply{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"}
	for _, tt := range []struct {
		name       string
		replies    []fakemodel.Reply
		unanswered int
		sent       bool
	}{
		{"lost, then answered", []fakemodel.Reply{lost, {Text: "hi"}}, 1, false},
		{"refused, then answered", []fakemodel.Reply{{Status: 503, Body: "{}"}, {Text: "hi"}}, 0, false},
		{"lost every time", []fakemodel.Reply{lost, lost, lost, lost, lost, lost, lost, lost}, maxRetries, true},
	} {
		b := newBed(t, fakemodel.New(t, tt.replies...), nil)
		_, err := b.call(wire.OpenAIChat, chatBody)
		var sent *session.SentError
		if got := b.Stats().Unanswered; got != tt.unanswered || errors.As(err, &sent) != tt.sent {
			t.Errorf("%s: %d unanswered, %v; want %d, sent %v", tt.name, got, err, tt.unanswered, tt.sent)
		}
	}
}

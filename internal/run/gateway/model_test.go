package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"tallystick/internal/run/cassette"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/tape"
)

const (
	chatHello      = `{"model":"gpt-4o","messages":[{"role":"user","content":"Say hello."}]}`
	responsesHello = `{"model":"gpt-4o","input":"Say hello."}`
	messagesHello  = `{"model":"claude-sonnet-4-5","max_tokens":64,"messages":[{"role":"user","content":"Say hello."}]}`
)

func streamed(request string) string { return `{"stream":true,` + request[1:] }

// apis is what differs between the three.
var apis = []struct {
	api      wire.API
	path     string
	request  string
	text     string // of the canonical body
	end      string // of a stream
	protocol string
}{
	{wire.OpenAIChat, "/v1/chat/completions", chatHello, `"content":"Hello from the tape."`, "[DONE]", "openai"},
	{wire.OpenAIResponses, "/v1/responses", responsesHello, `"text":"Hello from the tape."`, "response.completed", "openai"},
	{wire.AnthropicMessages, "/v1/messages", messagesHello, `"text":"Hello from the tape."`, "message_stop", "anthropic"},
}

func TestEachAPIAnswersInEitherFormFromEitherRecording(t *testing.T) {
	for _, a := range apis {
		t.Run(string(a.api), func(t *testing.T) {
			c := newCase(t, caseOptions{})
			// Recorded are two bodies and then two streams.
			for i, request := range []string{a.request, streamed(a.request), streamed(a.request), a.request} {
				got := c.send(t, "POST", a.path, request)
				if got.status != 200 {
					t.Fatalf("request %d: status %d: %s", i, got.status, got.body)
				}
				if strings.HasPrefix(request, `{"stream"`) {
					if ct := got.header.Get("Content-Type"); ct != "text/event-stream; charset=utf-8" {
						t.Errorf("request %d: content type %q", i, ct)
					}
					body, err := wire.BodyOfStream(a.api, chunksOf(got.body))
					if err != nil || !strings.Contains(string(body), a.text) {
						t.Errorf("request %d: the stream comes to %s, %v", i, body, err)
					}
					continue
				}
				if got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.body, a.text) {
					t.Errorf("request %d: got %s", i, got.body)
				}
			}
			v := c.end(t)
			want := "run_started" + strings.Repeat(" model_call_started model_call_completed transport_request", 4) + " run_completed"
			if got := types(v); got != want {
				t.Errorf("events\n%s, want\n%s", got, want)
			}
			for _, e := range eventsOf[*trajectory.TransportRequest](v) {
				if e.Protocol != a.protocol || e.Path != a.path || e.Method != "POST" || e.Status != 200 || e.Host != "127.0.0.1" || e.BytesIn == 0 || e.BytesOut == 0 || e.LatencyMS != 40 || e.Error != "" {
					t.Errorf("event %+v", e)
				}
			}
		})
	}
}

func chunksOf(stream string) []string {
	return strings.SplitAfter(strings.TrimSuffix(stream, "\n\n")+"\n\n", "\n\n")[:strings.Count(stream, "\n\n")]
}

func TestARecordedStreamGoesOutByteForByte(t *testing.T) {
	recorded, err := tape.FromYAML("tape.yaml", readFile(t, "testdata/clients.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range apis {
		c := newCase(t, caseOptions{})
		c.send(t, "POST", a.path, a.request)
		c.send(t, "POST", a.path, a.request)
		got := c.send(t, "POST", a.path, streamed(a.request))
		want := ""
		for _, it := range recorded.Interactions {
			if it.Model.API == a.api && it.Ordinal == 2 {
				want = strings.Join(it.Model.Response.Stream, "")
			}
		}
		if want == "" || got.body != want {
			t.Errorf("%s: got\n%s\nwant\n%s", a.api, got.body, want)
		}
	}
}

func TestBaseURLsOfAllKindsLeadToTheSameEndpoint(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/chat/completions", "/v1/v1/chat/completions", "/v1/chat/completions/", "/v1/chat/completions?api-version=1"} {
		c := newCase(t, caseOptions{})
		if got := c.send(t, "POST", path, chatHello); got.status != 200 {
			t.Errorf("%s: status %d", path, got.status)
		}
	}
	c := newCase(t, caseOptions{})
	for _, path := range []string{"/v1/v1/v1/chat/completions", "/v1chat/completions", "/v2/chat/completions", "/", "/v1", "/v1/audio/speech", "/mcp/x"} {
		if got := c.send(t, "POST", path, chatHello); got.status != 404 {
			t.Errorf("%s: status %d, want 404", path, got.status)
		}
	}
}

func TestUsageComesOnlyToThoseWhoAsk(t *testing.T) {
	c := newCase(t, caseOptions{})
	without := c.send(t, "POST", "/v1/chat/completions", streamed(chatHello))
	with := c.send(t, "POST", "/v1/chat/completions", `{"stream_options":{"include_usage":true},`+streamed(chatHello)[1:])
	if strings.Contains(without.body, "prompt_tokens") || !strings.Contains(with.body, `"prompt_tokens":9`) {
		t.Errorf("without:\n%s\nwith:\n%s", without.body, with.body)
	}
}

// The official SDKs try again after 408, 409, 429 and 5xx, and where
// x-should-retry says so.
func TestAMissStopsTheCaseWithAnErrorThatNoSDKRetries(t *testing.T) {
	for _, a := range apis {
		for _, request := range []string{a.request, streamed(a.request)} {
			c := newCase(t, caseOptions{cassette: []byte(emptyTape)})
			got := c.send(t, "POST", a.path, request)
			if got.status != 400 || got.header.Get("X-Should-Retry") != "false" || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: status %d, headers %v", a.api, got.status, got.header)
			}
			kind, message := readFailure(t, a.protocol, got.body)
			if kind != "invalid_request_error" || !strings.Contains(message, "CassetteMiss") || !strings.Contains(message, "the case has ended (failed)") {
				t.Errorf("%s: got %s", a.api, got.body)
			}
			// Nothing else goes on after it.
			again := c.send(t, "POST", "/v1/chat/completions", chatHello)
			if again.status != 400 || !strings.Contains(again.body, "CassetteMiss") {
				t.Errorf("%s: afterwards %d %s", a.api, again.status, again.body)
			}
			if stop := c.session.Stopped(); stop == nil || stop.Name != "CassetteMiss" {
				t.Errorf("%s: the session is not stopped: %v", a.api, stop)
			}
		}
	}
}

// A near miss must not be answered with what is recorded: asking a little
// beside it would read the whole cassette out.
func TestAMissQuotesNothingRecorded(t *testing.T) {
	tape := `format: tallystick-cassette/1-draft
interactions:
  - model: {api: openai.chat, request: {model: m, messages: [{role: user, content: the recorded words}]}, reply: {message: {text: hi}}}
  - tool: {name: look, arguments: {q: the recorded words}, result: 1}
`
	for _, a := range apis {
		for _, near := range []string{a.request, `{"model":"m","messages":[{"role":"user","content":"the recorded word"}]}`, `{"model":"m","input":"the"}`} {
			c := newCase(t, caseOptions{cassette: []byte(tape)})
			for range 2 { // the second is answered with the stop
				got := c.send(t, "POST", a.path, near)
				if strings.Contains(got.body, "recorded words") || strings.Contains(got.body, "nearest") || !strings.Contains(got.body, "CassetteMiss") && got.status != 400 {
					t.Errorf("%s: told %s", a.api, got.body)
				}
			}
		}
	}
}

const emptyTape = `format: tallystick-cassette/1-draft
interactions:
  - tool: {name: nothing, result: nothing}
`

// readFailure reads an error as the SDK of the protocol does.
func readFailure(t testing.TB, protocol, body string) (kind, message string) {
	t.Helper()
	var e struct {
		Type  string
		Error struct {
			Type, Message string
			Code          any
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if protocol == "anthropic" && e.Type != "error" {
		t.Errorf("an error of Anthropic has the type error: %s", body)
	}
	if protocol == "openai" && e.Error.Code == nil {
		t.Errorf("an error of OpenAI has a code: %s", body)
	}
	return e.Error.Type, e.Error.Message
}

func TestARecordedErrorGoesOutAsItWas(t *testing.T) {
	c := newCase(t, caseOptions{cassette: []byte(`format: tallystick-cassette/1-draft
interactions:
  - model:
      api: openai.chat
      request: ` + chatHello + `
      reply: {status: 429, headers: {retry-after: "7", content-type: "application/json; charset=utf-8"}, body: {error: {message: "slow down"}}}
  - model:
      api: openai.chat
      request: ` + chatHello + `
      reply: {status: 502, headers: {content-type: "text/html"}, raw: "<h1>bad gateway</h1>"}
`)})
	got := c.send(t, "POST", "/v1/chat/completions", streamed(chatHello))
	if got.status != 429 || got.header.Get("Retry-After") != "7" || got.body != `{"error":{"message":"slow down"}}` || got.header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("got %+v", got)
	}
	got = c.send(t, "POST", "/v1/chat/completions", chatHello)
	if got.status != 502 || got.body != "<h1>bad gateway</h1>" || got.header.Get("Content-Type") != "text/html" {
		t.Errorf("got %+v", got)
	}
	for i, e := range eventsOf[*trajectory.TransportRequest](c.end(t)) {
		if want := []string{"status 429", "status 502"}[i]; e.Error != want {
			t.Errorf("event %d says %q, want %q", i, e.Error, want)
		}
	}
}

func TestAStreamThatBrokeOffIsNoBody(t *testing.T) {
	tape := `format: tallystick-cassette/1-draft
interactions:
  - model:
      api: openai.chat
      request: ` + chatHello + `
      reply: {stream: ['data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{"content":"Hel"}}]}']}
`
	c := newCase(t, caseOptions{cassette: []byte(tape)})
	got := c.send(t, "POST", "/v1/chat/completions", chatHello)
	if got.status != 400 || got.header.Get("X-Should-Retry") != "false" || !strings.Contains(got.body, "putting together a stream") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	c = newCase(t, caseOptions{cassette: []byte(tape)})
	if got := c.send(t, "POST", "/v1/chat/completions", streamed(chatHello)); got.status != 200 || len(dataOf(got.body)) != 1 {
		t.Errorf("as a stream: got %d %s", got.status, got.body)
	}
}

func TestAMalformedRequestIsNoModelCall(t *testing.T) {
	for _, body := range []string{``, `{`, `[]`, `"x"`, `null x`, `{"stream":"yes","model":"m"}`, `{"stream":true,"stream":false}`, "{\"model\":\"\xff\"}", strings.Repeat("[", 20000)} {
		c := newCase(t, caseOptions{})
		got := c.send(t, "POST", "/v1/messages", body)
		if kind, _ := readFailure(t, "anthropic", got.body); got.status != 400 || kind != "invalid_request_error" {
			t.Errorf("%.40q: got %d %s", body, got.status, got.body)
		}
		v := c.end(t)
		if got := types(v); got != "run_started transport_request run_completed" {
			t.Errorf("%.40q: events %s", body, got)
		}
	}
}

func TestTheTokenDoesNotGoOnToTheModel(t *testing.T) {
	// Recorded by an agent that had another token.
	other := strings.Replace(token, "0123", "9876", 1)
	request := func(key string) string {
		return `{"model":"gpt-4o","messages":[{"role":"user","content":"My environment: OPENAI_API_KEY is ` + key + `."}]}`
	}
	c := newCase(t, caseOptions{cassette: []byte("format: tallystick-cassette/1-draft\ninteractions:\n  - model:\n      api: openai.chat\n      request: " + request(other) + "\n      reply: {message: {text: ok}}\n")})
	if got := c.send(t, "POST", "/v1/chat/completions", request(token)); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	c.end(t) // looks for the token
}

// asking is a model that keeps what it is asked.
type asking struct{ body []byte }

func (a *asking) Call(_ context.Context, _ wire.API, body []byte, _ func(string) error) (*cassette.Interaction, error) {
	a.body = body
	return nil, errors.New("no answer")
}

func TestTheTokenDoesNotGoOnToAProvider(t *testing.T) {
	provider := &asking{}
	c := newCase(t, caseOptions{live: true, models: provider})
	c.send(t, "POST", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"`+token+`"}]}`)
	if got := string(provider.body); got != `{"messages":[{"content":"[redacted:openai-key]","role":"user"}],"model":"m"}` {
		t.Errorf("the provider is asked %s", got)
	}
}

func TestALiveStreamArrivesPieceByPiece(t *testing.T) {
	next := make(chan string, 1)
	c := newCase(t, caseOptions{live: true, models: liveFunc(func(_ context.Context, onChunk func(string) error) (*cassette.Interaction, error) {
		var all []string
		for chunk := range next {
			all = append(all, chunk)
			if err := onChunk(chunk); err != nil {
				return nil, err
			}
		}
		return liveInteraction(t, all), nil
	})})
	first := `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":"stop"}]}` + "\n\n"
	next <- first // the headers come with it
	r := c.open(t, "/v1/chat/completions", streamed(chatHello))
	defer r.Close()
	// The call is not over, and the client has its beginning.
	buf := make([]byte, len(first))
	if _, err := io.ReadFull(r, buf); err != nil || string(buf) != first {
		t.Fatalf("got %q, %v", buf, err)
	}
	next <- "data: [DONE]\n\n"
	close(next)
	if rest := readAll(t, r); rest != "data: [DONE]\n\n" {
		t.Errorf("the rest is %q", rest)
	}
	if got := types(c.end(t)); got != "run_started model_call_started model_call_completed transport_request run_completed" {
		t.Errorf("events %s", got)
	}
}

func TestTheEndOfALiveStreamIsSentAfterTheCallIsRecorded(t *testing.T) {
	for _, a := range apis {
		end := "data: {\"x\":\"" + a.end + "\"}\n\n"
		w := httptest.NewRecorder()
		c := makeCase(t, caseOptions{live: true, models: liveFunc(func(_ context.Context, onChunk func(string) error) (*cassette.Interaction, error) {
			for _, chunk := range []string{"data: {}\n\n", end, "data: {\"more\":1}\n\n"} {
				if err := onChunk(chunk); err != nil {
					return nil, err
				}
			}
			if got := w.Body.String(); got != "data: {}\n\n" {
				t.Errorf("%s: the client has %q while the call is under way", a.api, got)
			}
			return liveInteractionOf(t, a.api, a.request), nil
		})})
		r := httptest.NewRequest("POST", a.path, strings.NewReader(streamed(a.request)))
		r.Header.Set("X-Api-Key", token)
		c.ServeHTTP(w, r)
		if got := w.Body.String(); got != "data: {}\n\n"+end+"data: {\"more\":1}\n\n" {
			t.Errorf("%s: in the end the client has %q", a.api, got)
		}
		if e := eventsOf[*trajectory.TransportRequest](c.end(t)); len(e) != 1 || e[0].BytesOut != int64(w.Body.Len()) {
			t.Errorf("%s: events %+v", a.api, e)
		}
	}
}

func TestALiveStreamThatFailsTellsTheClient(t *testing.T) {
	for _, a := range apis {
		c := newCase(t, caseOptions{live: true, models: liveFunc(func(_ context.Context, onChunk func(string) error) (*cassette.Interaction, error) {
			if err := onChunk("data: {\"type\":\"ping\"}\n\n"); err != nil {
				return nil, err
			}
			return nil, errors.New("the provider hung up, key " + foreignKey)
		})})
		got := c.send(t, "POST", a.path, streamed(a.request))
		events := dataOf(got.body)
		if len(events) != 2 || !strings.Contains(got.body, "event: error\n") {
			t.Fatalf("%s: got %s", a.api, got.body)
		}
		if _, message := readFailure(t, a.protocol, events[1]); !strings.Contains(message, "the provider hung up") || strings.Contains(message, foreignKey) {
			t.Errorf("%s: the message is %q", a.api, message)
		}
		c.end(t)
	}
}

func TestModelsAreThoseOfTheRecording(t *testing.T) {
	c := newCase(t, caseOptions{})
	got := c.send(t, "GET", "/v1/models", "")
	if want := `{"object":"list","data":[{"id":"claude-sonnet-4-5","object":"model","created":0,"owned_by":"tallystick"},{"id":"gpt-4o","object":"model","created":0,"owned_by":"tallystick"}]}`; got.status != 200 || got.body != want {
		t.Errorf("got %d %s", got.status, got.body)
	}
	got = c.send(t, "GET", "/v1/models?limit=20", "", "anthropic-version", "2023-06-01")
	if want := `{"data":[{"type":"model","id":"claude-sonnet-4-5","display_name":"claude-sonnet-4-5","created_at":"1970-01-01T00:00:00Z"},{"type":"model","id":"gpt-4o","display_name":"gpt-4o","created_at":"1970-01-01T00:00:00Z"}],"first_id":"claude-sonnet-4-5","has_more":false,"last_id":"gpt-4o"}`; got.body != want {
		t.Errorf("got %s", got.body)
	}
	if got := c.send(t, "GET", "/v1/models/gpt-4o", ""); got.status != 200 || !strings.HasPrefix(got.body, `{"id":"gpt-4o"`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := c.send(t, "GET", "/v1/models/gpt-9", ""); got.status != 404 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := c.send(t, "DELETE", "/v1/models/gpt-4o", ""); got.status != 405 || got.header.Get("Allow") != "GET" {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestTokensAreEstimatedFromTheBytes(t *testing.T) {
	c := newCase(t, caseOptions{})
	got := c.send(t, "POST", "/v1/messages/count_tokens?beta=true", messagesHello)
	if want := `{"input_tokens":25}`; got.status != 200 || got.body != want || (len(messagesHello)+3)/4 != 25 {
		t.Errorf("got %d %s for %d bytes", got.status, got.body, len(messagesHello))
	}
	if got := c.send(t, "POST", "/v1/messages/count_tokens", "["); got.status != 400 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := types(c.end(t)); strings.Contains(got, "model_call") {
		t.Errorf("events %s", got)
	}
}

package cassette

import (
	"maps"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

func TestUsageOfEachAPI(t *testing.T) {
	for _, tt := range []struct {
		name string
		api  wire.API
		body string
		want wire.Usage
	}{
		{"chat", wire.OpenAIChat, chatBody, wire.Usage{InputTokens: 12, CacheReadTokens: 8, OutputTokens: 3}},
		{"chat with reasoning", wire.OpenAIChat, `{"usage":{"prompt_tokens":5,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":4}}}`, wire.Usage{InputTokens: 5, OutputTokens: 9, ReasoningTokens: 4}},
		{"responses", wire.OpenAIResponses, `{"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2}}}`, wire.Usage{InputTokens: 6, CacheReadTokens: 4, OutputTokens: 7, ReasoningTokens: 2}},
		{"messages", wire.AnthropicMessages, `{"usage":{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":50,"cache_creation":{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":40},"output_tokens":58}}`, wire.Usage{InputTokens: 3, CacheWriteTokens: 60, CacheWriteLongTokens: 40, CacheReadTokens: 50, OutputTokens: 58}},
		{"an error", wire.OpenAIChat, `{"error":{}}`, wire.Usage{}},
		{"null", wire.OpenAIChat, `{"usage":null}`, wire.Usage{}},
		{"nulls inside", wire.OpenAIChat, `{"usage":{"prompt_tokens":5,"prompt_tokens_details":null,"completion_tokens":null}}`, wire.Usage{InputTokens: 5}},
	} {
		n, err := wire.ParseNode([]byte(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := wire.UsageOf(tt.api, &n); err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
	for _, body := range []string{`{"usage":{"prompt_tokens":-1}}`, `{"usage":{"prompt_tokens":1.5}}`, `{"usage":{"prompt_tokens":"5"}}`, `{"usage":{"prompt_tokens":2000000000}}`,
		`{"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}}`} {
		_, err := mustRecorder(t, RecorderOptions{}).Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{}`), Status: 200, Body: []byte(body)})
		requireRefusal(t, err, refusal.Malformed, "tokens")
	}
}

func TestCostIsExactAndRoundedUpOnce(t *testing.T) {
	for _, tt := range []struct {
		price Price
		usage wire.Usage
		want  int64
	}{
		{Price{}, wire.Usage{InputTokens: 5}, 0},
		{Price{Input: 3_000_000, Output: 15_000_000}, wire.Usage{InputTokens: 1, OutputTokens: 1}, 18},
		{Price{Input: 1}, wire.Usage{InputTokens: 1}, 1},                                         // a millionth of a micro-dollar
		{Price{Input: 150_000, Output: 600_000}, wire.Usage{InputTokens: 7, OutputTokens: 3}, 3}, // 2.85
		{Price{Input: 500_000, Output: 500_000}, wire.Usage{InputTokens: 1, OutputTokens: 1}, 1}, // 0.5 and 0.5, not 1 and 1
		{Price{Input: 3_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, CacheWriteLong: 6_000_000}, wire.Usage{InputTokens: 3, CacheReadTokens: 10, CacheWriteTokens: 1276, CacheWriteLongTokens: 2}, 9 + 3 + 4785 + 12},
		{Price{maxPrice, maxPrice, maxPrice, maxPrice, maxPrice}, wire.Usage{CacheReadTokens: wire.MaxTokens, CacheWriteLongTokens: wire.MaxTokens, CacheWriteTokens: wire.MaxTokens, InputTokens: wire.MaxTokens, OutputTokens: wire.MaxTokens}, 5_000_000_000_000},
	} {
		if got := tt.price.Cost(tt.usage); got != tt.want {
			t.Errorf("%+v of %+v: got %d, want %d", tt.usage, tt.price, got, tt.want)
		}
	}
	for _, bad := range []int64{-1, maxPrice + 1} {
		_, err := NewRecorder(RecorderOptions{Prices: Prices{"m": {Output: bad}}})
		requireRefusal(t, err, refusal.Malformed, "price")
	}
}

func TestPriceOfTheModelThatAnsweredComesFirst(t *testing.T) {
	for _, tt := range []struct {
		name     string
		prices   Prices
		want     int64
		unpriced int64
	}{
		{"the one that answered", Prices{"gpt-4o-2024-08-06": {Output: 1_000_000}, "gpt-4o": {Output: 2_000_000}}, 3, 0},
		{"the one that was asked for", Prices{"gpt-4o": {Output: 2_000_000}}, 6, 0},
		{"none", Prices{"gpt": {Output: 2_000_000}}, 0, 1},
	} {
		r := mustRecorder(t, RecorderOptions{Prices: tt.prices})
		if _, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(chatRequest), Status: 200, Body: []byte(chatBody)}); err != nil {
			t.Fatal(err)
		}
		if got := mustCassette(t, r).Header.Totals; got.CostMicrodollars != tt.want || got.UnpricedCalls != tt.unpriced {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// A price of zero would be a lie where the provider did not tell how much was
// used.
func TestCostOfUntoldUsageIsUnknown(t *testing.T) {
	prices := Prices{"gpt-4o": {Input: 1_000_000}}
	for _, tt := range []struct {
		name     string
		status   int
		body     string
		streamed bool
		unpriced int64
	}{
		{"a stream without usage", 200, "data: {\"model\":\"gpt-4o\",\"choices\":[]}\n\ndata: [DONE]\n\n", true, 1},
		{"a stream that told nothing before it broke", 200, "data: {\"cho", true, 1},
		{"a body without usage", 200, `{"choices":[]}`, false, 1},
		{"usage of null", 200, `{"usage":null}`, false, 1},
		{"usage of nothing", 200, `{"usage":{}}`, false, 1},
		{"usage in a list", 200, `{"usage":[10,5]}`, false, 1},
		{"usage without what came out", 200, `{"usage":{"prompt_tokens":10}}`, false, 1},
		{"usage without what went in", 200, `{"usage":{"completion_tokens":5}}`, false, 1},
		{"usage with a null", 200, `{"usage":{"prompt_tokens":10,"completion_tokens":null}}`, false, 1},
		{"usage of zeros", 200, `{"usage":{"prompt_tokens":0,"completion_tokens":0}}`, false, 1},
		{"usage by other names", 200, `{"usage":{"input_tokens":10,"output_tokens":5}}`, false, 1},
		{"only the sum", 200, `{"usage":{"total_tokens":15}}`, false, 1},
		{"words of no tokens", 200, `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":10,"completion_tokens":0}}`, false, 1},
		{"no words and no tokens", 200, `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":10,"completion_tokens":0}}`, false, 0},
		{"not JSON", 200, "ok", false, 1},
		{"a refused request", 429, `{"error":{}}`, false, 0},
		{"a refusal that is not JSON", 502, "bad gateway", false, 0},
	} {
		r := mustRecorder(t, RecorderOptions{Prices: prices})
		if _, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(chatRequest), Status: tt.status, Body: []byte(tt.body), Streamed: tt.streamed}); err != nil {
			t.Fatal(err)
		}
		if got := mustCassette(t, r).Header.Totals.UnpricedCalls; got != tt.unpriced {
			t.Errorf("%s: %d unpriced calls, want %d", tt.name, got, tt.unpriced)
		}
	}
}

// What a stream told before it broke is less than what was billed.
func TestABrokenStreamIsKeptAndUnpriced(t *testing.T) {
	r := mustRecorder(t, RecorderOptions{Prices: Prices{"claude": {Input: 1_000_000, Output: 2_000_000}}})
	stream := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude\",\"usage\":{\"input_tokens\":30,\"output_tokens\":1}}}\n\nevent: content_block_st"
	it, err := r.Model(ModelTraffic{API: wire.AnthropicMessages, Request: []byte(`{"model":"claude"}`), Status: 200, Body: []byte(stream), Streamed: true})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(it.Model.Response.Stream, "") != stream || it.Model.Usage.InputTokens != 30 || it.Model.CostMicrodollars != nil {
		t.Errorf("%+v", it.Model)
	}
	if _, err := it.Model.Reply(wire.Delivery{}); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("a broken stream as a body: %v", err)
	}
}

func TestOnlyListedHeadersAreKept(t *testing.T) {
	r := mustRecorder(t, RecorderOptions{})
	it, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{}`), Status: 429, Body: []byte(`{}`), Headers: map[string]string{
		"Content-Type": "application/json", "RETRY-AFTER": "2", "Authorization": "x", "Set-Cookie": "y", "openai-organization": "z", "x-request-id": "r"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"content-type": "application/json", "retry-after": "2"}; !maps.Equal(it.Model.Response.Headers, want) {
		t.Errorf("got %v, want %v", it.Model.Response.Headers, want)
	}
}

func TestRecorderRefusesWhatNoFileCanHold(t *testing.T) {
	r := mustRecorder(t, RecorderOptions{})
	_, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{`), Status: 200})
	requireRefusal(t, err, refusal.Malformed, "request")
	_, err = r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{}`), Status: 200, Body: []byte("\xff")})
	requireRefusal(t, err, refusal.Malformed, "UTF-8")
	_, err = r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{}`), Status: 0, Body: []byte("{}")})
	requireRefusal(t, err, refusal.Malformed, "status")
	_, err = r.Tool(ToolTraffic{Name: "f"})
	requireRefusal(t, err, refusal.Malformed, "both or neither")
	_, err = r.Tool(ToolTraffic{Name: "f", Result: []byte("{")})
	requireRefusal(t, err, refusal.Malformed, "result of the tool f")
	_, err = r.MCP(MCPTraffic{Server: "s", Method: "tools/list"})
	requireRefusal(t, err, refusal.Malformed, "expected 1")
	_, err = r.MCP(MCPTraffic{Server: "s", Method: "notifications/initialized", Result: []byte("{}")})
	requireRefusal(t, err, refusal.Malformed, "expected 0")
	if _, err := r.MCP(MCPTraffic{Server: "s", Method: "notifications/initialized"}); err != nil {
		t.Error(err)
	}
	if got := mustCassette(t, r); len(got.Interactions) != 1 {
		t.Errorf("%d interactions were kept", len(got.Interactions))
	}
}

func TestRecordingAddsToABase(t *testing.T) {
	base := mustCassette(t, smallRecorder(t))
	for _, tt := range []struct{ base, want Provenance }{{Recorded, Recorded}, {Edited, Edited}, {Authored, Edited}} {
		b := *base
		b.Header.Provenance = tt.base
		r := mustRecorder(t, RecorderOptions{Base: &b})
		if _, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(chatRequest), Status: 200, Body: []byte(chatBody)}); err != nil {
			t.Fatal(err)
		}
		c := mustCassette(t, r)
		if c.Header.Provenance != tt.want || len(c.Interactions) != 5 || c.Interactions[4].Ordinal != 2 || c.Header.Totals.Tokens != 69 {
			t.Errorf("%s: %+v", tt.base, c.Header)
		}
	}
}

// What a person wrote does not become a recording by being borrowed, and the
// rest stays one.
func TestBorrowedAnswersKeepTheirProvenance(t *testing.T) {
	tape := tapeOf(t, wire.OpenAIChat, promptBody(today, "a"))
	for from, want := range map[Provenance]Provenance{Recorded: Recorded, Edited: Edited, Authored: Edited} {
		r, err := NewRecorder(RecorderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		request := asked(t, wire.OpenAIChat, promptBody(tomorrow, "a"))
		got, err := r.Borrow(request, func(Request) (Borrowed, error) { return Borrowed{&tape.Interactions[0], from}, nil })
		if err != nil || got.Model.Response.Text != "1" {
			t.Fatalf("borrowed %+v, %v", got, err)
		}
		none, err := r.Borrow(request, func(Request) (Borrowed, error) { return Borrowed{From: Authored}, nil })
		if none != nil || err != nil {
			t.Fatalf("nothing to borrow: %+v, %v", none, err)
		}
		made, err := r.Cassette()
		if err != nil || made.Header.Provenance != want || len(made.Interactions) != 1 {
			t.Errorf("from %s: %+v, %v", from, made, err)
		} else if _, err := NewPlayer(made).Next(request); err != nil {
			t.Errorf("the request of now does not find its answer: %v", err)
		}
	}
}

// A stream of Anthropic's counts what came out from its first event on; only the last
// one says all of it.
func TestAStreamThatTellsOnlyItsBeginningIsUnpriced(t *testing.T) {
	events := func(last string) string {
		return "data: {\"type\":\"message_start\",\"message\":{\"model\":\"claude\",\"usage\":{\"input_tokens\":30,\"output_tokens\":1}}}\n\n" +
			"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}" + last + "}\n\ndata: {\"type\":\"message_stop\"}\n\n"
	}
	for last, priced := range map[string]bool{"": false, `,"usage":null`: false, `,"usage":{}`: false, `,"usage":{"output_tokens":9}`: true} {
		r := mustRecorder(t, RecorderOptions{Prices: Prices{"claude": {Input: 1_000_000, Output: 2_000_000}}})
		it, err := r.Model(ModelTraffic{API: wire.AnthropicMessages, Request: []byte(`{"model":"claude"}`), Status: 200, Body: []byte(events(last)), Streamed: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := it.Model.CostMicrodollars; (got != nil) != priced || priced && *got != 48 {
			t.Errorf("%q: cost %v", last, got)
		}
	}
}

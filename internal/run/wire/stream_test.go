package wire

import (
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// bodies are replies that a stream must be able to carry and give back.
var bodies = []struct {
	name string
	api  API
	body string
}{
	{"text", OpenAIChat, chatBody},
	{"tool calls", OpenAIChat, `{"id":"chatcmpl-1","object":"chat.completion","created":2,"model":"m","service_tier":"default","system_fingerprint":"fp","choices":[{"index":0,"finish_reason":"tool_calls","logprobs":null,"message":{"role":"assistant","content":null,"annotations":[],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"call_2","type":"function","function":{"name":"g","arguments":""}}]}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`},
	{"two choices with logprobs", OpenAIChat, `{"id":"chatcmpl-1","object":"chat.completion","created":2,"model":"m","choices":[{"index":0,"finish_reason":"stop","logprobs":{"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[]}]},"message":{"role":"assistant","content":"a"}},{"index":1,"finish_reason":"length","logprobs":null,"message":{"role":"assistant","content":"ü\n\"q\"","reasoning_content":"hm"}}],"usage":{"prompt_tokens":1}}`},

	{"text", AnthropicMessages, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":0}}`},
	{"thinking, tool use and citations", AnthropicMessages, `{"id":"msg_1","type":"message","role":"assistant","model":"m","container":{"id":"c"},"content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"redacted_thinking","data":"zzz"},{"type":"text","text":"see","citations":[{"type":"char_location","cited_text":"x"},{"type":"page_location"}]},{"type":"text","text":"","citations":null},{"type":"tool_use","id":"toolu_1","name":"f","input":{"b":[1,2.5],"a":"\n"}},{"type":"tool_use","id":"toolu_2","name":"g","input":{}}],"stop_reason":"stop_sequence","stop_sequence":"END","usage":{"input_tokens":3,"output_tokens":4}}`},
	{"nothing", AnthropicMessages, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":0}}`},

	{"text and a call", OpenAIResponses, `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[]},{"type":"refusal","refusal":"no"}]},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}","status":"completed"},{"type":"web_search_call","id":"ws_1","status":"completed"}],"usage":{"input_tokens":1,"output_tokens":2}}`},
	{"incomplete", OpenAIResponses, `{"id":"resp_1","object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"model":"m","output":[],"usage":null}`},
}

func TestBodySurvivesBeingStreamed(t *testing.T) {
	for _, tt := range bodies {
		t.Run(string(tt.api)+" "+tt.name, func(t *testing.T) {
			chunks, err := StreamOfBody(tt.api, []byte(tt.body), true)
			if err != nil {
				t.Fatal(err)
			}
			got, err := BodyOfStream(tt.api, chunks)
			if err != nil {
				t.Fatalf("%v\n%s", err, strings.Join(chunks, ""))
			}
			if want := canonicalText(t, tt.body); string(got) != want {
				t.Errorf("got  %s\nwant %s\nstream %s", got, want, strings.Join(chunks, ""))
			}
			// What we write must be cut as a client cuts it.
			if !slices.Equal(SplitEvents(strings.Join(chunks, "")), chunks) {
				t.Error("the events are not cut at their blank lines")
			}
			for _, c := range chunks {
				if !strings.HasSuffix(c, "\n\n") || strings.Count(c, "\n\n") != 1 {
					t.Errorf("%q is not one event", c)
				}
			}
		})
	}
}

func TestUsageChunkOnlyForThoseWhoAsk(t *testing.T) {
	with, _ := StreamOfBody(OpenAIChat, []byte(chatBody), true)
	without, _ := StreamOfBody(OpenAIChat, []byte(chatBody), false)
	if len(with) != len(without)+1 || strings.Contains(strings.Join(without, ""), "usage") {
		t.Errorf("with %d chunks, without %d:\n%s", len(with), len(without), without)
	}
}

func TestBrokenStreamsHaveNoBody(t *testing.T) {
	for _, tt := range []struct {
		name   string
		api    API
		stream string
		want   string
	}{
		{"empty", OpenAIChat, "", "no chunk"},
		{"cut off", OpenAIChat, "data: {\"choices\":[]}\n\n", "before [DONE]"},
		{"an error", OpenAIChat, "data: {\"error\":{\"message\":\"overloaded\"}}\n\ndata: [DONE]\n\n", "overloaded"},
		{"empty", AnthropicMessages, ": ping\n\n", "before message_stop"},
		{"cut off", AnthropicMessages, "data: {\"type\":\"message_start\",\"message\":{}}\n\n", "before message_stop"},
		{"no start", AnthropicMessages, "data: {\"type\":\"message_stop\"}\n\n", "message_start"},
		{"two starts", AnthropicMessages, strings.Repeat("data: {\"type\":\"message_start\",\"message\":{}}\n\n", 2), "twice"},
		{"a delta without a block", AnthropicMessages, "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{}}\n\n", "open block"},
		{"a block out of order", AnthropicMessages, "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{}}\n\n", "block 0"},
		{"input that is not JSON", AnthropicMessages, "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n", "not JSON"},
		{"an error", AnthropicMessages, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", "overloaded_error"},
		{"cut off", OpenAIResponses, "data: {\"type\":\"response.created\"}\n\n", "before response.completed"},
		{"no response", OpenAIResponses, "data: {\"type\":\"response.completed\"}\n\n", "has no response"},
		{"an error", OpenAIResponses, "data: {\"type\":\"error\",\"code\":\"x\"}\n\n", "reports an error"},
	} {
		t.Run(string(tt.api)+" "+tt.name, func(t *testing.T) {
			_, err := BodyOfStream(tt.api, SplitEvents(tt.stream))
			requireRefusal(t, err, refusal.Malformed, tt.want)
		})
	}
	_, err := StreamOfBody(OpenAIChat, []byte(`[]`), false)
	requireRefusal(t, err, refusal.Malformed, "not an object")
	_, err = StreamOfBody(OpenAIChat, []byte(`{`), false)
	requireRefusal(t, err, refusal.Malformed, "into a stream")
}

func TestServersThatRepeatNamesInEveryChunk(t *testing.T) {
	stream := `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{"}}]}}]}

data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

`
	got, err := BodyOfStream(OpenAIChat, SplitEvents(stream))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"choices":[{"finish_reason":"tool_calls","index":0,"message":{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"call_1","type":"function"}]}}],"id":"c","object":"chat.completion"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStreamsAreCutAtBlankLines(t *testing.T) {
	for _, tt := range []struct {
		stream string
		want   []string
	}{
		{"", nil},
		{"data: a\n\ndata: b\n\n", []string{"data: a\n\n", "data: b\n\n"}},
		{"data: a\r\n\r\ndata: b\r\n\r\n", []string{"data: a\r\n\r\n", "data: b\r\n\r\n"}},
		{"data: a\r\rdata: b", []string{"data: a\r\r", "data: b"}},
		{"data: a\n\n\n\ndata: b\n", []string{"data: a\n\n\n\n", "data: b\n"}},
		{": comment\n\n", []string{": comment\n\n"}},
	} {
		got := SplitEvents(tt.stream)
		if !slices.Equal(got, tt.want) || strings.Join(got, "") != tt.stream {
			t.Errorf("%q: got %q, want %q", tt.stream, got, tt.want)
		}
	}
	name, data, ok := eventData("event: x\r\n: c\r\ndata: a\r\ndata:b\r\nid: 1\r\n\r\n")
	if name != "x" || data != "a\nb" || !ok {
		t.Errorf("got %q, %q, %v", name, data, ok)
	}
	if got := WithData("event: x\r\ndata: a\r\ndata:b\r\nid: 1\r\n\r\n", "c"); got != "event: x\r\ndata: c\r\nid: 1\r\n\r\n" {
		t.Errorf("got %q", got)
	}
}

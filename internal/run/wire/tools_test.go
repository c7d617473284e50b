package wire

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// shortCalls and shortResults show calls and results on one line each.
func shortCalls(calls []Call) (out []string) {
	for _, c := range calls {
		out = append(out, c.ID+" "+c.Name+" "+string(c.Args))
	}
	return out
}

func shortResults(results []Result) (out []string) {
	for _, r := range results {
		line := r.ID + " " + r.Name + " " + string(r.Args) + " = " + r.Text
		if r.IsError {
			line += " !"
		}
		out = append(out, line)
	}
	return out
}

func TestToolsOfListsCallsAndResultsOfAConversation(t *testing.T) {
	for _, tt := range []struct {
		name           string
		api            API
		request        string
		calls, results []string
	}{
		{"two calls at once, answered out of order", OpenAIChat, `{"messages":[
			{"role":"user","content":"go"},
			{"role":"assistant","content":"let me see","tool_calls":[
				{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},
				{"id":"call_2","type":"function","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}]},
			{"role":"tool","tool_call_id":"call_2","content":"B"},
			{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"A1"},{"type":"text","text":"A2"}]}]}`,
			[]string{`call_1 read {"path":"a"}`, `call_2 read {"path":"b"}`},
			[]string{`call_2 read {"path":"b"} = B`, `call_1 read {"path":"a"} = A1A2`}},
		{"an id that a server uses again", OpenAIChat, `{"messages":[
			{"role":"assistant","tool_calls":[{"id":"0","function":{"name":"f","arguments":"1"}}]},{"role":"tool","tool_call_id":"0","content":"one"},
			{"role":"assistant","tool_calls":[{"id":"0","function":{"name":"g","arguments":"2"}}]},{"role":"tool","tool_call_id":"0","content":"two"}]}`,
			[]string{"0 f 1", "0 g 2"}, []string{"0 f 1 = one", "0 g 2 = two"}},
		{"functions without ids, and a tool that takes text", OpenAIChat, `{"messages":[
			{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"done"},
			{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"sh","input":"ls"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]}`,
			[]string{" f {}", "c sh ls"}, []string{" f {} = done", "c sh ls = x"}},
		{"a result of no call, a call without a result", OpenAIChat, `{"messages":[{"role":"tool","tool_call_id":"call_9","content":"?"},{"role":"assistant","tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"not json"}}]}]}`,
			[]string{"call_1 f not json"}, []string{"call_9   = ?"}},

		{"calls beside messages", OpenAIResponses, `{"input":[
			{"role":"user","content":"go"},
			{"type":"reasoning","id":"rs_1","summary":[]},
			{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{\"path\":\"a\"}"},
			{"type":"function_call","id":"fc_2","call_id":"call_2","name":"read","arguments":"{\"path\":\"b\"}"},
			{"type":"function_call_output","call_id":"call_1","output":"A"},
			{"type":"function_call_output","call_id":"call_2","output":[{"type":"input_text","text":"B"},{"type":"input_image","image_url":"x"}]}]}`,
			[]string{`call_1 read {"path":"a"}`, `call_2 read {"path":"b"}`},
			[]string{`call_1 read {"path":"a"} = A`, `call_2 read {"path":"b"} = B`}},
		{"tools of other kinds that the client carries out", OpenAIResponses, `{"input":[
			{"type":"local_shell_call","call_id":"call_1","action":{"type":"exec","command":["ls"]}},{"type":"local_shell_call_output","call_id":"call_1","output":"a.txt"},
			{"type":"custom_tool_call","call_id":"call_2","name":"apply_patch","input":"*** Begin"},{"type":"custom_tool_call_output","call_id":"call_2","output":"ok"},
			{"type":"web_search_call","id":"ws_1","status":"completed"}]}`,
			[]string{`call_1 local_shell {"command":["ls"],"type":"exec"}`, "call_2 apply_patch *** Begin"},
			[]string{`call_1 local_shell {"command":["ls"],"type":"exec"} = a.txt`, "call_2 apply_patch *** Begin = ok"}},
		{"the end of a conversation that the provider keeps", OpenAIResponses, `{"previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"call_1","output":"A"}]}`,
			nil, []string{"call_1   = A"}},
		{"a text", OpenAIResponses, `{"input":"go"}`, nil, nil},

		{"blocks, one an error", AnthropicMessages, `{"messages":[
			{"role":"user","content":"go"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"let me see"},
				{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}},
				{"type":"tool_use","id":"toolu_2","name":"read","input":{"path":"b"}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"A"},{"type":"image","source":{}}]},
				{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":"no such file"},
				{"type":"text","text":"go on"}]}]}`,
			[]string{`toolu_1 read {"path":"a"}`, `toolu_2 read {"path":"b"}`},
			[]string{`toolu_1 read {"path":"a"} = A`, `toolu_2 read {"path":"b"} = no such file !`}},
		{"tools that the provider carries out are none of the client's", AnthropicMessages, `{"messages":[{"role":"assistant","content":[
			{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}]}]}`, nil, nil},
		{"a result without content", AnthropicMessages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"}]}]}`, nil, []string{"toolu_1   = "}},
	} {
		t.Run(string(tt.api)+" "+tt.name, func(t *testing.T) {
			calls, results, err := ToolsOf(tt.api, []byte(tt.request))
			if err != nil {
				t.Fatal(err)
			}
			if got := shortCalls(calls); !slices.Equal(got, tt.calls) {
				t.Errorf("calls: got %q, want %q", got, tt.calls)
			}
			if got := shortResults(results); !slices.Equal(got, tt.results) {
				t.Errorf("results: got %q, want %q", got, tt.results)
			}
		})
	}
	for _, bad := range []string{`[]`, `{`, `{"messages":[],"messages":[]}`} {
		if _, _, err := ToolsOf(OpenAIChat, []byte(bad)); err == nil {
			t.Errorf("%s has no error", bad)
		}
	}
	if _, _, err := ToolsOf("no.such", []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "expected openai.chat") {
		t.Errorf("an unknown API: %v", err)
	}
}

func TestCallsOfAReply(t *testing.T) {
	want := []string{`c1 read {"path":"a"}`, `c2 write not json`}
	for _, tt := range []struct {
		api  API
		body string
		want []string
	}{
		{OpenAIChat, `{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},{"id":"c2","type":"function","function":{"name":"write","arguments":"not json"}}]}}]}`, want},
		{OpenAIResponses, `{"status":"completed","output":[{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":"{\"path\":\"a\"}","status":"completed"},{"type":"function_call","id":"fc_2","call_id":"c2","name":"write","arguments":"not json","status":"completed"}]}`, want},
		{AnthropicMessages, `{"type":"message","stop_reason":"tool_use","stop_sequence":null,"content":[{"type":"text","text":"hm"},{"type":"tool_use","id":"c1","name":"read","input":{"path":"a"}},{"type":"tool_use","id":"c2","name":"write","input":{}}]}`,
			[]string{want[0], "c2 write {}"}},
	} {
		r, err := ReadReply(tt.api, []byte(tt.body))
		if got := shortCalls(r.Calls()); err != nil || !slices.Equal(got, tt.want) || !slices.Equal(shortCalls(r.AllCalls()), tt.want) {
			t.Errorf("%s: got %q, %v, want %q", tt.api, got, err, tt.want)
		}
		chunks, err := StreamOfBody(tt.api, []byte(tt.body), true)
		if err != nil {
			t.Fatal(err)
		}
		r, err = ReadStream(tt.api, chunks)
		if got := shortCalls(r.Calls()); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s streamed: got %q, %v, want %q", tt.api, got, err, tt.want)
		}
		if _, err := ReadStream(tt.api, chunks[:len(chunks)-1]); err == nil {
			t.Errorf("%s: a stream without its end has no error", tt.api)
		}
	}
	// What the client carries out besides functions is a call too, but not one
	// that the built-in loop could have offered.
	r, err := ReadReply(OpenAIResponses, []byte(`{"status":"completed","output":[{"type":"local_shell_call","call_id":"c1","action":{"command":["ls"]}},{"type":"web_search_call","id":"ws_1"}]}`))
	if got := shortCalls(r.AllCalls()); err != nil || r.Calls() != nil || !slices.Equal(got, []string{`c1 local_shell {"command":["ls"]}`}) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRepliesSayHowTheyEnded(t *testing.T) {
	for _, tt := range []struct {
		api     API
		body    string
		end     End
		refused bool
		text    string
		problem string
	}{
		{OpenAIChat, `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}]}`, Finished, false, "a", ""},
		{OpenAIChat, `{"choices":[{"finish_reason":"length","message":{"content":[{"type":"text","text":"a"},{"type":"thinking","text":"b"}]}}]}`, Cut, false, "a", ""},
		{OpenAIChat, `{"choices":[{"finish_reason":"stop","message":{"content":null,"refusal":"no"}}]}`, Finished, true, "no", ""},
		{OpenAIChat, `{"choices":[{"finish_reason":"content_filter","message":{}}]}`, Refused, true, "", ""},
		{OpenAIChat, `{"choices":[]}`, Finished, false, "", "no choices"},
		{OpenAIChat, `{"choices":{}}`, Finished, false, "", "expected a list"},
		{OpenAIChat, `{"choices":[{"message":{"content":7}}]}`, Finished, false, "", "expected text"},
		{OpenAIResponses, `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"no"}]}]}`, Finished, true, "ano", ""},
		{OpenAIResponses, `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`, Cut, false, "", ""},
		{OpenAIResponses, `{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`, Refused, true, "", ""},
		{OpenAIResponses, `{"status":"incomplete","output":[]}`, Stopped, false, "", ""},
		{OpenAIResponses, `{"status":"failed","error":{"message":"down"}}`, Failed, false, "", ""},
		{OpenAIResponses, `{"status":"queued"}`, Finished, false, "", "queued"},
		{AnthropicMessages, `{"type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"a"}]}`, Finished, false, "a", ""},
		{AnthropicMessages, `{"type":"message","stop_reason":"max_tokens","content":[]}`, Cut, false, "", ""},
		{AnthropicMessages, `{"type":"message","stop_reason":"refusal","content":[]}`, Refused, true, "", ""},
		{AnthropicMessages, `{"type":"message","stop_reason":"pause_turn","content":[]}`, Stopped, false, "", ""},
		{AnthropicMessages, `{"type":"error","error":{}}`, Stopped, false, "", "expected message"},
	} {
		r, err := ReadReply(tt.api, []byte(tt.body))
		if tt.problem != "" {
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%s %s: got %v, want %q", tt.api, tt.body, err, tt.problem)
			}
			continue
		}
		if err != nil || r.End != tt.end || r.Refused() != tt.refused || r.Text() != tt.text {
			t.Errorf("%s %s: got %+v, %v", tt.api, tt.body, r, err)
		}
	}
}

// A request that we make says what it was made of.
func TestRequestsReadBack(t *testing.T) {
	AddMadeUp(t)
	calls := []Call{{ID: "c1", Name: "read", Args: []byte(`{"path":"a"}`)}, {ID: "c2", Name: "write", Args: []byte(`{}`)}}
	results := []Result{{ID: "c2", Text: "denied", IsError: true}, {ID: "c1", Text: "A"}}
	for _, api := range APIs() {
		e := NewEnvelope(api, Options{Model: "m", MaxOutput: 77, Temperature: []byte("0.5"), Shape: &Tool{Name: "v", Schema: []byte(`{"type":"object"}`)}})
		body := e.Request(e.System("be brief"), [][]byte{api.User("go"), api.Say("let me see", calls), api.Results(results)}, nil)
		if text := canonicalText(t, string(body)); api != MadeUp && text != string(body) {
			t.Errorf("%s: not canonical:\n%s\n%s", api, body, text)
		}
		if !json.Valid(e.Request(nil, [][]byte{api.User("go")}, nil)) {
			t.Errorf("%s: a request without system text is not JSON", api)
		}
		r, err := ReadRequest(api, body)
		if err != nil || r.Model != "m" || r.MaxOutput != 77 {
			t.Fatalf("%s: %+v, %v", api, r, err)
		}
		gotCalls, gotResults, err := ToolsOf(api, body)
		if err != nil || !slices.Equal(shortCalls(gotCalls), shortCalls(calls)) {
			t.Errorf("%s: calls %q, %v", api, shortCalls(gotCalls), err)
		}
		want := []string{"c2 write {} = denied", `c1 read {"path":"a"} = A`}
		if api == AnthropicMessages || api == GeminiGenerate || api == BedrockConverse { // the others cannot say so
			want[0] += " !"
		}
		if got := shortResults(gotResults); !slices.Equal(got, want) {
			t.Errorf("%s: results %q, want %q", api, got, want)
		}
		if recognised, err := Recognise(api.Provider().Name, body); err != nil || recognised != api {
			t.Errorf("%s is taken for %s, %v", api, recognised, err)
		}
		w := WordsOf(api, body)
		if all := strings.Join(w.Texts, "\n"); w.Model != "m" || !strings.Contains(all, "be brief") || !strings.Contains(all, "denied") {
			t.Errorf("%s: words %+v", api, w)
		}
	}
}

func TestRequestsAreRecognisedByShapeAlone(t *testing.T) {
	for body, want := range map[string]API{
		`{"messages":[{"role":"user","content":"a"}]}`: OpenAIChat,
		`{"input":"a"}`: OpenAIResponses,
		`{"messages":[{"role":"user","content":"a"}],"system":"s"}`:                               AnthropicMessages,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`:     AnthropicMessages,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`: OpenAIChat,
		`{}`: OpenAIChat,
	} {
		if got, err := Recognise("", []byte(body)); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", body, got, err, want)
		}
	}
}

// TestNoCallOfAReplyIsLeftOut: a client may act on whatever it is sent, so what
// an unusual reply asks for is listed too.
func TestNoCallOfAReplyIsLeftOut(t *testing.T) {
	for _, tt := range []struct {
		name         string
		api          API
		body         string
		calls, built []string
		served       []string
	}{
		{"every choice", OpenAIChat, `{"choices":[{"message":{"content":"a"}},{"message":{"tool_calls":[{"id":"c1","type":"function","function":{"name":"refund","arguments":"{}"}}]}},{"message":{"function_call":{"name":"pay","arguments":"{}"}}}]}`,
			[]string{"c1 refund {}", " pay {}"}, nil, nil},
		{"the oldest form", OpenAIChat, `{"choices":[{"finish_reason":"function_call","message":{"content":null,"function_call":{"name":"refund","arguments":"{\"n\":1}"}}}]}`, []string{` refund {"n":1}`}, nil, nil},
		{"a custom tool", OpenAIChat, `{"choices":[{"message":{"tool_calls":[{"id":"c1","type":"custom","custom":{"name":"shell","input":"rm"}}]}}]}`, []string{"c1 shell rm"}, []string{"c1 shell rm"}, nil},
		{"a reply that broke off", OpenAIResponses, `{"status":"failed","error":{"message":"down"},"output":[{"type":"function_call","call_id":"c1","name":"refund","arguments":"{}"}]}`, []string{"c1 refund {}"}, nil, nil},
		{"tools of the provider", OpenAIResponses, `{"status":"completed","output":[{"type":"mcp_call","id":"mcp_1","name":"refund","server_label":"s","arguments":"{\"n\":1}","output":"done","error":null},{"type":"web_search_call","id":"ws_1","status":"failed","action":{"query":"q"}}]}`,
			nil, nil, []string{`mcp_1 refund {"n":1} = done`, `ws_1 web_search {"query":"q"} =  !`}},
		{"tools of the other provider", AnthropicMessages, `{"type":"message","stop_reason":"end_turn","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[]},{"type":"mcp_tool_use","id":"m1","name":"refund","server_name":"x","input":{}},{"type":"mcp_tool_result","tool_use_id":"m1","is_error":true,"content":[{"type":"text","text":"no"}]}]}`,
			nil, nil, []string{`s1 web_search {"query":"q"} = []`, `m1 refund {} = [{"text":"no","type":"text"}] !`}},
	} {
		r, err := ReadReply(tt.api, []byte(tt.body))
		if err != nil || !slices.Equal(shortCalls(r.AllCalls()), tt.calls) || !slices.Equal(shortCalls(r.Calls()), tt.built) {
			t.Errorf("%s: calls %q, for the built-in agent %q, %v", tt.name, shortCalls(r.AllCalls()), shortCalls(r.Calls()), err)
		}
		served := r.Served()
		for i := range served {
			served[i].Text = served[i].Sent
		}
		if got := shortResults(served); !slices.Equal(got, tt.served) {
			t.Errorf("%s: served %q, want %q", tt.name, got, tt.served)
		}
	}
}

func TestOfferedToolsAreNamed(t *testing.T) {
	for body, want := range map[string][]string{
		`{"tools":[{"type":"function","function":{"name":"a"}},{"type":"custom","custom":{"name":"b"}}],"functions":[{"name":"c"}]}`:                 {"a", "b", "c"},
		`{"tools":[{"type":"function","name":"a"},{"type":"local_shell"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"b"}]}]}`: {"a", "local_shell", "n", "b"},
		`{"tools":[{"name":"a","input_schema":{}}]}`: {"a"},
		`{"tools":[{}, 7], "messages":[]}`:           {},
		`{}`:                                         nil,
	} {
		if got, err := OfferedTools(OpenAIChat, []byte(body)); err != nil || !slices.Equal(offeredNames(got), want) {
			t.Errorf("%s: %q, %v, want %q", body, got, err, want)
		}
	}
	if _, err := OfferedTools(OpenAIChat, []byte("{")); err == nil {
		t.Error("what is not JSON has no error")
	}
	// All that is said of a tool is its definition, and what is said of others is not.
	said, err := OfferedTools(OpenAIChat, []byte(`{"tools":[{"type":"namespace","name":"n","description":"of two","tools":[{"name":"b","description":"the second","parameters":{"x":{"description":"deep"}}}]}]}`))
	if err != nil || len(said) != 2 || string(said[0].Definition) != `{"description":"of two","name":"n","type":"namespace"}` ||
		string(said[1].Definition) != `{"description":"the second","name":"b","parameters":{"x":{"description":"deep"}}}` {
		t.Errorf("%s, %v", said, err)
	}
}

func offeredNames(list []Offered) []string {
	var names []string
	for _, o := range list {
		names = append(names, o.Name)
	}
	return names
}

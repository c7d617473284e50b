package wire

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Whatever a request says about tools, a request that we make of it says again.
func FuzzRequest(f *testing.F) {
	for _, api := range APIs() {
		e := NewEnvelope(api, Options{Model: "m", MaxOutput: 7})
		f.Add(string(api), e.Request(e.System("s"), [][]byte{api.User("u"), api.Say("hm", []Call{{ID: "a", Name: "f", Args: []byte(`{"b":1}`)}}), api.Results([]Result{{ID: "a", Text: "r", IsError: true}})}, nil))
	}
	f.Add(string(OpenAIChat), []byte(`{"messages":[{"role":"tool","tool_call_id":"a","content":[{"text":"x"}]},{"role":"assistant","content":1,"tool_calls":[{"function":{"arguments":{"a":1}}}]}]}`))
	f.Add(string(OpenAIResponses), []byte(`{"input":[{"type":"function_call_output","call_id":"a","output":[]},{"type":"x_call","call_id":"b"}],"max_output_tokens":1}`))
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		api := API(name)
		calls, results, err := ToolsOf(api, body)
		if err != nil {
			return
		}
		for i := range calls {
			// What is not an object cannot be said in every API.
			args, ok := ArgumentsObject(calls[i].Args)
			if !ok {
				args = []byte("{}")
			}
			calls[i].Args = args
		}
		e := NewEnvelope(api, Options{Model: "m", MaxOutput: 1})
		messages := [][]byte{api.User("u")}
		if say := api.Say("", calls); say != nil {
			messages = append(messages, say)
		}
		if len(results) > 0 {
			messages = append(messages, api.Results(results))
		}
		made := e.Request(nil, messages, nil)
		againCalls, againResults, err := ToolsOf(api, made)
		if err != nil {
			t.Fatalf("%v\n%s", err, made)
		}
		if !slices.EqualFunc(againCalls, calls, func(a, b Call) bool { return a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.Args, b.Args) }) {
			t.Fatalf("calls %q became %q", shortCalls(calls), shortCalls(againCalls))
		}
		if !slices.EqualFunc(againResults, results, func(a, b Result) bool { return a.ID == b.ID && a.Text == b.Text }) {
			t.Fatalf("results %q became %q", shortResults(results), shortResults(againResults))
		}
	})
}

// A reply that is read, written again as an answer and read again says the
// same, as a body and as a stream.
func FuzzReply(f *testing.F) {
	for _, b := range bodies {
		f.Add(string(b.api), []byte(b.body))
	}
	f.Add(string(OpenAIChat), []byte(`{"choices":[{"message":{"content":[{"type":"text"},1],"tool_calls":[{"function":{"arguments":{"a":1}}},{}]}}]}`))
	f.Add(string(AnthropicMessages), []byte(`{"type":"message","content":[{"type":"tool_use","input":null},{"type":"text","text":5}],"stop_reason":1}`))
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		api := API(name)
		r, err := ReadReply(api, body)
		if err != nil || r.End == Failed {
			return
		}
		a := Answer{ID: "1", Model: r.Model, Text: r.Text()}
		for _, c := range r.Calls() {
			args, ok := ArgumentsObject(c.Args)
			if !ok {
				args = []byte("{}")
			}
			c.Args = args
			a.Calls = append(a.Calls, AnswerCall{Call: c, Item: c.ID})
		}
		made, err := Body(api, &a)
		if err != nil {
			t.Fatalf("%v\n%+v", err, a)
		}
		again, err := ReadReply(api, made)
		if err != nil {
			t.Fatalf("%v\n%s", err, made)
		}
		requireSays(t, &again, &a)
		chunks, err := StreamOfBody(api, made, true)
		if err != nil {
			t.Fatalf("%v\n%s", err, made)
		}
		streamed, err := ReadStream(api, chunks)
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(chunks, ""))
		}
		if !reflect.DeepEqual(streamed, again) {
			t.Fatalf("streamed %+v, whole %+v", streamed, again)
		}
	})
}

func requireSays(t *testing.T, r *Reply, a *Answer) {
	t.Helper()
	var calls []Call
	for _, c := range a.Calls {
		calls = append(calls, c.Call)
	}
	if r.Text() != a.Text || r.Model != a.Model || !slices.Equal(shortCalls(r.Calls()), shortCalls(calls)) {
		t.Fatalf("got %q of %q with %q\nwant %q of %q with %q", r.Text(), r.Model, shortCalls(r.Calls()), a.Text, a.Model, shortCalls(calls))
	}
}

// Events joined are the stream, whatever the stream is, and a body that a
// stream has given survives being streamed.
func FuzzStream(f *testing.F) {
	for _, b := range bodies {
		chunks, err := StreamOfBody(b.api, []byte(b.body), true)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b.api), strings.Join(chunks, ""))
	}
	f.Fuzz(func(t *testing.T, name, stream string) {
		chunks := SplitEvents(stream)
		if strings.Join(chunks, "") != stream {
			t.Fatalf("%q is cut into %q", stream, chunks)
		}
		api := API(name)
		first, err := BodyOfStream(api, chunks)
		if err != nil {
			return
		}
		before, err := ReadReply(api, first)
		if err != nil {
			return // a body, but not one of this API
		}
		made, err := StreamOfBody(api, first, true)
		if err != nil {
			t.Fatal(err)
		}
		after, err := ReadStream(api, made)
		if err != nil {
			return // a body of odd members may make a stream that is refused
		}
		if after.Text() != before.Text() || !slices.Equal(shortCalls(after.AllCalls()), shortCalls(before.AllCalls())) {
			t.Fatalf("%s\nsays %+v, streamed %+v", first, before, after)
		}
	})
}

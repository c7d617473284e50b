package agent

import (
	"strconv"

	"tallystick/internal/canon"
	"tallystick/internal/cassette"
)

// A toolSpec is a tool as the model is told about it. The schema is a JSON
// object.
type toolSpec struct {
	name, description string
	schema            []byte
}

// A call is a tool call of a reply. Its arguments are as the model wrote them.
type call struct {
	id, name string
	args     []byte
}

// A result is what the model is told about one of its calls.
type result struct {
	id, text string
	isError  bool
}

// Requests are written straight into canonical JSON, names in order, because a
// cassette matches the canonical request: it finds nothing to rearrange. Each
// message is encoded once and joined into every request that has it.

// appendMember writes "name":"text", with a comma before it unless one is
// there or the object has just been opened.
func appendMember(b []byte, name, text string) []byte {
	if last := b[len(b)-1]; last != '{' && last != ',' {
		b = append(b, ',')
	}
	b = append(append(append(b, '"'), name...), '"', ':')
	return canon.AppendString(b, text)
}

// userMessage encodes what the user says. It has the same form in all APIs.
func userMessage(text string) []byte {
	b := appendMember([]byte("{"), "content", text)
	return append(appendMember(b, "role", "user"), '}')
}

// sayMessage encodes a reply of the model for the requests that follow it, as
// one or more elements of the list of messages. Nothing said is no element.
func sayMessage(api cassette.API, text string, calls []call) []byte {
	if text == "" && len(calls) == 0 {
		return nil
	}
	switch api {
	case cassette.OpenAIResponses:
		return sayResponses(text, calls)
	case cassette.AnthropicMessages:
		return sayAnthropic(text, calls)
	}
	b := []byte("{")
	if text != "" {
		b = appendMember(b, "content", text)
	}
	b = appendMember(b, "role", "assistant")
	for i, c := range calls {
		b = append(b, separator(i, `,"tool_calls":[`)...)
		b = append(b, `{"function":{`...)
		b = appendMember(b, "arguments", string(c.args))
		b = append(appendMember(b, "name", c.name), '}')
		b = appendMember(b, "id", c.id)
		b = append(b, `,"type":"function"}`...)
	}
	if len(calls) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// separator is what stands before element i of a list that opens so.
func separator(i int, open string) string {
	if i == 0 {
		return open
	}
	return ","
}

func sayResponses(text string, calls []call) []byte {
	var b []byte
	if text != "" {
		b = appendMember(append(b, '{'), "content", text)
		b = append(appendMember(b, "role", "assistant"), '}')
	}
	for _, c := range calls {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = appendMember(append(b, '{'), "arguments", string(c.args))
		b = appendMember(b, "call_id", c.id)
		b = appendMember(b, "name", c.name)
		b = append(b, `,"type":"function_call"}`...)
	}
	return b
}

func sayAnthropic(text string, calls []call) []byte {
	b := []byte(`{"content":[`)
	if text != "" {
		b = appendMember(append(b, '{'), "text", text)
		b = append(b, `,"type":"text"}`...)
	}
	for _, c := range calls {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = appendMember(append(b, '{'), "id", c.id)
		b = append(b, `,"input":`...)
		// What is no object cannot be said in this API; the error that answers
		// the call quotes it.
		if input, ok := object(c.args); ok {
			b = append(b, input...)
		} else {
			b = append(b, "{}"...)
		}
		b = appendMember(b, "name", c.name)
		b = append(b, `,"type":"tool_use"}`...)
	}
	return append(b, `],"role":"assistant"}`...)
}

// resultMessages encodes the results of one reply's calls, in their order.
func resultMessages(api cassette.API, results []result) []byte {
	var b []byte
	if api == cassette.AnthropicMessages {
		b = append(b, `{"content":[`...)
	}
	for i, r := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		switch api {
		case cassette.OpenAIResponses:
			b = appendMember(b, "call_id", r.id)
			b = appendMember(b, "output", r.text)
			b = append(b, `,"type":"function_call_output"}`...)
		case cassette.AnthropicMessages:
			b = appendMember(b, "content", r.text)
			if r.isError {
				b = append(b, `,"is_error":true`...)
			}
			b = appendMember(b, "tool_use_id", r.id)
			b = append(b, `,"type":"tool_result"}`...)
		default:
			b = appendMember(b, "content", r.text)
			b = appendMember(b, "role", "tool")
			b = append(appendMember(b, "tool_call_id", r.id), '}')
		}
	}
	if api == cassette.AnthropicMessages {
		b = append(b, `],"role":"user"}`...)
	}
	return b
}

// encodeTools encodes the member of the request that lists the tools, with the
// comma before it; nothing, if there are none.
func encodeTools(api cassette.API, tools []toolSpec) []byte {
	var b []byte
	for i, t := range tools {
		b = append(b, separator(i, `,"tools":[`)...)
		b = append(b, '{')
		switch api {
		case cassette.OpenAIResponses:
			b = appendMember(b, "description", t.description)
			b = appendMember(b, "name", t.name)
			b = append(append(b, `,"parameters":`...), t.schema...)
			b = append(b, `,"strict":false,"type":"function"}`...)
		case cassette.AnthropicMessages:
			b = appendMember(b, "description", t.description)
			b = append(append(b, `,"input_schema":`...), t.schema...)
			b = append(appendMember(b, "name", t.name), '}')
		default:
			b = append(b, `"function":{`...)
			b = appendMember(b, "description", t.description)
			b = appendMember(b, "name", t.name)
			b = append(append(b, `,"parameters":`...), t.schema...)
			b = append(b, `},"type":"function"}`...)
		}
	}
	if len(tools) > 0 {
		b = append(b, ']')
	}
	return b
}

// An envelope is everything of a request but system text, messages and tools:
// the bytes that stand around them, which a target fixes once.
type envelope struct {
	api cassette.API

	// The request is head, [system,] messages, middle, [system,] tail, tools, }.
	head, middle, tail []byte
}

// newEnvelope encodes what stays the same. Zero maxOutput leaves it to the
// server, except where the API wants a number. The temperature is canonical
// JSON, or nothing.
func newEnvelope(api cassette.API, model string, maxOutput int64, temperature []byte) envelope {
	e := envelope{api: api}
	limit := strconv.FormatInt(maxOutput, 10)
	switch api {
	case cassette.OpenAIResponses:
		e.head = []byte(`{"input":[`)
		e.middle = []byte(`]`)
		if maxOutput > 0 {
			e.tail = append(e.tail, `,"max_output_tokens":`+limit...)
		}
		e.tail = append(appendMember(append(e.tail, ','), "model", model), `,"store":false`...)
	case cassette.AnthropicMessages:
		e.head = []byte(`{"max_tokens":` + limit + `,"messages":[`)
		e.middle = appendMember([]byte(`],`), "model", model)
	default:
		e.head = []byte(`{`)
		if maxOutput > 0 {
			e.head = append(e.head, `"max_completion_tokens":`+limit+`,`...)
		}
		e.head = append(e.head, `"messages":[`...)
		e.middle = appendMember([]byte(`],`), "model", model)
	}
	if temperature != nil {
		e.tail = append(append(e.tail, `,"temperature":`...), temperature...)
	}
	return e
}

// system encodes the system text where this API has it. No text is nothing.
func (e *envelope) system(text string) []byte {
	if text == "" {
		return nil
	}
	switch e.api {
	case cassette.OpenAIResponses:
		return appendMember([]byte(`,`), "instructions", text)
	case cassette.AnthropicMessages:
		return appendMember([]byte(`,`), "system", text)
	}
	b := appendMember([]byte(`{`), "content", text)
	return append(appendMember(b, "role", "system"), '}')
}

// size is how many bytes the envelope itself takes of a request.
func (e *envelope) size() int { return len(e.head) + len(e.middle) + len(e.tail) + 1 }

// request joins a request. System comes from [envelope.system], messages are
// encoded lists of messages, of which none is empty.
func (e *envelope) request(system []byte, messages [][]byte, tools []byte) []byte {
	size := e.size() + len(system) + len(tools) + len(messages)
	for _, m := range messages {
		size += len(m)
	}
	b := append(make([]byte, 0, size+1), e.head...)
	inList := e.api != cassette.OpenAIResponses && e.api != cassette.AnthropicMessages
	if inList && system != nil {
		b = append(append(b, system...), ',')
	}
	for i, m := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m...)
	}
	b = append(b, e.middle...)
	if !inList {
		b = append(b, system...)
	}
	b = append(append(b, e.tail...), tools...)
	return append(b, '}')
}

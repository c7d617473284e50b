package audit

import (
	"encoding/json"
	"maps"
	"slices"
)

// A request is what a model was sent, by who said it. An agent sends the whole
// conversation each time: what its model and its tools said is not told by the
// harness.
type request struct{ told, model, tools []byte }

// Who a message, or a part of one, is of; any other is told.
var (
	modelParts = []string{"assistant", "model", "function_call", "tool_use", "tool_call", "functionCall", "tool_calls", "reasoning", "thinking"}
	toolParts  = []string{"tool", "function", "tool_result", "function_call_output", "functionResponse", "custom_tool_call_output"}
)

// requestOf reads a request that is whole and JSON; ok is false for any other text.
func requestOf(text []byte) (r request, ok bool) {
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return r, false
	}
	var v any
	if json.Unmarshal(text, &v) != nil {
		return r, false
	}
	r.add(v, &r.told)
	return r, true
}

// add takes the texts of a value, which are those of to unless a role or a type
// says otherwise.
func (r *request) add(v any, to *[]byte) {
	switch v := v.(type) {
	case string:
		*to = append(append(*to, v...), '\n')
	case []any:
		for _, e := range v {
			r.add(e, to)
		}
	case map[string]any:
		for _, member := range []string{"role", "type"} {
			who, _ := v[member].(string)
			to = r.of(who, to)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			r.add(v[name], r.of(name, to))
		}
	}
}

func (r *request) of(who string, to *[]byte) *[]byte {
	switch {
	case slices.Contains(toolParts, who):
		return &r.tools
	case slices.Contains(modelParts, who) && to != &r.tools:
		return &r.model
	}
	return to
}

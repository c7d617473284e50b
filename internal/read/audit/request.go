package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A request is what a model was sent, by who said it. An agent sends the whole
// conversation each time: what its model and its tools said is not told by the
// harness.
type request struct{ told, model, tools []byte }

// What a role, a type or a name of a member says, in any of the spellings that APIs
// have: a result of a tool, or what a model said or asked for. Any other is told.
var (
	aTool   = []string{"tool", "function"}
	aResult = []string{"result", "output", "response"}
	aCall   = []string{"call", "use"}
	aModel  = []string{"assistant", "model", "reasoning", "thinking"}
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
		role, _ := v["role"].(string)
		kind, _ := v["type"].(string)
		if slices.Contains(aTool, role) { // as a type, it is what a tool is described as
			to = &r.tools
		}
		to = r.of(kind, r.of(role, to))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			r.add(v[name], r.of(name, to))
		}
	}
}

func (r *request) of(who string, to *[]byte) *[]byte {
	who = strings.ToLower(who)
	has := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(who, w) })
	}
	switch {
	case has(aTool) && has(aResult):
		return &r.tools
	case to != &r.tools && (slices.Contains(aModel, who) || has(aTool) && has(aCall)):
		return &r.model
	}
	return to
}

package otel

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
	"tallystick/internal/share/foreign"
)

// What only OpenInference has: lists that are spread over attributes, what went into and
// came out of a span as one value, documents that were found, annotations.

// lists are attributes that OpenInference spreads over several, such as
// llm.input_messages.0.message.role. Some exporters leave them whole.
var lists = []string{"llm.input_messages", "llm.output_messages", "llm.prompts", "llm.choices", "retrieval.documents",
	"annotations", "evaluations", "trace.annotations", "trace.evaluations", "session.annotations", "session.evaluations"}

// flatten spreads lists that were left whole.
func (t *story) flatten(n *node) error {
	if !slices.ContainsFunc(n.attrs, func(a attribute) bool { return slices.Contains(lists, a.key) }) {
		return nil
	}
	var flat attributes
	for _, a := range n.attrs {
		var v any
		text := jsontext.Value(a.bytes())
		if k := text.Kind(); !slices.Contains(lists, a.key) || k != '[' && k != '{' {
			flat = append(flat, a)
			continue
		}
		if err := t.budget.Decode(text, &v); err != nil {
			return fmt.Errorf("attribute %s: %w", a.key, err)
		}
		flat = spread(flat, a.key, v, 0)
	}
	n.attrs = flat
	return n.attrs.checkNames()
}

// spread adds a value member by member. What lies deeper than any convention has it is
// added as it is.
func spread(to attributes, key string, v any, depth int) attributes {
	switch x := v.(type) {
	case map[string]any:
		if depth < 8 {
			for _, name := range slices.Sorted(maps.Keys(x)) {
				to = spread(to, key+"."+name, x[name], depth+1)
			}
			return to
		}
	case []any:
		if depth < 8 {
			for i, item := range x {
				to = spread(to, key+"."+strconv.Itoa(i), item, depth+1)
			}
			return to
		}
	case string:
		return append(to, attribute{key, value{text: x, isText: true}})
	case nil:
		return to
	}
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return to // what was decoded can be encoded
	}
	return append(to, attribute{key, value{json: text}})
}

// valueMessages reads input.value or output.value: a text, or JSON that is a message, a
// list of them, a request or a reply with such a list, or an object with one text.
func (t *story) valueMessages(n *node, key, role string) ([]foreign.Message, error) {
	v, ok := n.takeOf(key)
	if !ok {
		return nil, nil
	}
	text := jsontext.Value(v.bytes())
	isJSON := strings.Contains(n.attrs.text(strings.TrimSuffix(key, "value")+"mime_type"), "json")
	if s, _ := foreign.TextOf(text); isJSON && text.Kind() == '"' && text.IsValid() {
		return []foreign.Message{{Role: role, Parts: []foreign.Part{{Kind: "text", Text: s}}}}, nil
	}
	// An answer that happens to be JSON stays as it is.
	if text.Kind() != '{' || !isJSON && role == "assistant" {
		return messagesOf(t.budget, v, role, false)
	}
	var members map[string]jsontext.Value
	if err := t.budget.Decode(text, &members); err != nil {
		if refusal.Is(err, refusal.TooLarge) {
			return nil, err
		}
		return messagesOf(t.budget, v, role, false)
	}
	for _, name := range []string{"messages", "choices"} {
		if list := members[name]; list.Kind() == '[' {
			return messagesOf(t.budget, value{json: list}, role, false)
		}
	}
	if len(members) == 1 {
		for _, only := range members {
			if s, _ := foreign.TextOf(only); only.Kind() == '"' {
				return []foreign.Message{{Role: role, Parts: []foreign.Part{{Kind: "text", Text: s}}}}, nil
			}
		}
	}
	return messagesOf(t.budget, v, role, false)
}

// documents are what a search found, as a JSON list; "" if the span has none.
func (n *node) documents() string {
	if found := n.recalled(); found != "" {
		return found
	}
	const prefix = "retrieval.documents."
	type document map[string]value
	found := map[int]document{}
	for _, a := range n.attrs {
		rest, ok := strings.CutPrefix(a.key, prefix)
		if !ok {
			continue
		}
		number, member, _ := strings.Cut(rest, ".")
		i, err := strconv.Atoi(number)
		member = strings.TrimPrefix(member, "document.")
		if err != nil || i < 0 || member != "content" && member != "id" && member != "score" && member != "metadata" {
			continue
		}
		if found[i] == nil {
			found[i] = document{}
		}
		found[i][member] = a.value
		n.use(a.key)
	}
	if len(found) == 0 {
		return ""
	}
	out := []byte{'['}
	for _, i := range slices.Sorted(maps.Keys(found)) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, '{')
		for k, member := range slices.Sorted(maps.Keys(found[i])) {
			if k > 0 {
				out = append(out, ',')
			}
			out = append(foreign.AppendText(out, member), ':')
			out = append(out, found[i][member].raw()...)
		}
		out = append(out, '}')
	}
	return string(append(out, ']'))
}

// readAnnotations keeps the scores that a span carries: annotations.0.annotation.score,
// evaluations.0.evaluation.score, and the same for a trace or a session.
func (t *story) readAnnotations(n *node) {
	type scored struct {
		of    string
		index int
	}
	found := map[scored]*foreign.Evaluation{}
	var order []scored
	for _, a := range n.attrs {
		of, rest, ok := cutAnnotation(a.key)
		if !ok {
			continue
		}
		number, member, _ := strings.Cut(rest, ".")
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 {
			continue
		}
		key := scored{of, i}
		e := found[key]
		if e == nil {
			e = &foreign.Evaluation{}
			found[key] = e
			order = append(order, key)
		}
		switch strings.TrimPrefix(strings.TrimPrefix(member, "annotation."), "evaluation.") {
		case "name":
			e.Name = a.string()
		case "label":
			e.Label = a.string()
		case "explanation":
			e.Explanation = a.string()
		case "score":
			if f, ok := foreign.NumberOf(a.raw()); ok {
				e.Score = &f
			}
		default:
			continue
		}
		n.use(a.key)
	}
	for _, key := range order {
		t.evaluated = append(t.evaluated, *found[key])
	}
}

func cutAnnotation(key string) (of, rest string, ok bool) {
	for _, list := range lists {
		if rest, ok := strings.CutPrefix(key, list+"."); ok && strings.HasSuffix(list, "tions") {
			return list, rest, true
		}
	}
	return "", "", false
}

// checkNames refuses an attribute that is there twice: two readers would believe two
// values.
func (a attributes) checkNames() error {
	seen := make(map[string]struct{}, len(a))
	for i := range a {
		if _, twice := seen[a[i].key]; twice {
			return repeated(a[i].key)
		}
		seen[a[i].key] = struct{}{}
	}
	return nil
}

func repeated(key string) error {
	return refusal.Newf(refusal.Malformed, "the attribute %.80q is there twice, expected once", foreign.Clean(key))
}

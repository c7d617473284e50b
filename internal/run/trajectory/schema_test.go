package trajectory

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/schema"
	"tallystick/internal/testing/rules"
)

var updateSchema = flag.Bool("update", false, "write docs/formats/trajectory.schema.json")

const schemaFile = "../../../docs/formats/trajectory.schema.json"

// An ordered is a JSON object whose members stay in the order in which they
// are added, so that the file can be read from the top.
type ordered []member

type member struct {
	name  string
	value any
}

func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s:%s", name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// TestSchemaFile writes docs/formats/trajectory.schema.json from the rules of
// events and compares.
func TestSchemaFile(t *testing.T) {
	want := schemaDocument(t)
	if *updateSchema {
		if err := os.WriteFile(filepath.FromSlash(schemaFile), want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.FromSlash(schemaFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s does not match the rules; run \"go test ./internal/run/trajectory -run SchemaFile -update\" and read the diff", schemaFile)
	}
}

func schemaDocument(t testing.TB) []byte {
	t.Helper()
	types, file := Types(), eventRules(t)
	defs := ordered{
		{"id", ordered{{"type", "string"}, {"pattern", "^sha256:[0-9a-f]{64}$"}}},
		{"digest", ordered{{"type", "string"}, {"pattern", "^blake3:[0-9a-f]{64}$"}}},
		{"content", valueSchema(file.Shapes["content"])},
		{"args", valueSchema(file.Shapes["args"])},
		{"reported_score", valueSchema(file.Shapes["reported_score"])},
		{"sent_file", valueSchema(file.Shapes["sent_file"])},
	}
	var byType []any
	for _, typ := range types {
		defs = append(defs, member{string(typ), valueSchema(file.Documents[string(typ)])})
		byType = append(byType, ordered{
			{"if", ordered{{"properties", ordered{{"type", ordered{{"const", typ}}}}}}},
			{"then", ordered{{"properties", ordered{{"payload", ordered{{"$ref", "#/$defs/" + string(typ)}}}}}}},
		})
	}
	whole := ordered{{"type", "integer"}, {"minimum", 0}}
	doc := ordered{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", Format},
		{"description", "One line of a trajectory. docs/formats/trajectory.md has what a schema cannot say: the canonical spelling, the chain, the order of events and the digests of texts."},
		{"type", "object"},
		{"properties", ordered{
			{"payload", ordered{{"type", "object"}}},
			{"prev", ordered{{"$ref", "#/$defs/id"}}},
			{"seq", ordered{{"type", "integer"}, {"minimum", 1}, {"maximum", MaxEvents}}},
			{"t", whole},
			{"turn", whole},
			{"type", ordered{{"enum", types}}},
		}},
		{"required", []string{"payload", "prev", "seq", "t", "turn", "type"}},
		{"additionalProperties", false},
		{"allOf", byType},
		{"$defs", defs},
	}
	compact, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", " "); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), '\n')
}

// valueSchema says in JSON Schema what a rule says of a value, as far as it can. A
// schema counts characters and a rule bytes, so a bound here is never the tighter one.
func valueSchema(s *rules.Shape) any {
	bounds := func(out ordered, least, most string) ordered {
		if s.Max != nil {
			out = append(out, member{most, *s.Max})
		}
		if s.Min != nil {
			out = append(out, member{least, *s.Min})
		}
		return out
	}
	switch {
	case s.Is == rules.Any:
		return true
	case s.Is == rules.Flag && s.OneOf != nil:
		return ordered{{"const", s.OneOf[0]}}
	case s.OneOf != nil:
		return ordered{{"enum", s.OneOf}}
	case slices.Contains(s.Like, "sha256"):
		return ordered{{"$ref", "#/$defs/id"}}
	case slices.Contains(s.Like, "blake3"):
		return ordered{{"$ref", "#/$defs/digest"}}
	case s.Pattern != "":
		return ordered{{"type", "string"}, {"pattern", "^" + s.Pattern + "$"}}
	}
	switch s.Is {
	case rules.Text:
		return bounds(ordered{{"type", "string"}}, "minLength", "maxLength")
	case rules.Flag:
		return ordered{{"type", "boolean"}}
	case rules.Count:
		return bounds(ordered{{"type", "integer"}}, "minimum", "maximum")
	case rules.Number:
		return bounds(ordered{{"type", "number"}}, "minimum", "maximum")
	case rules.List:
		return bounds(ordered{{"type", "array"}, {"items", valueSchema(s.Of)}}, "minItems", "maxItems")
	case rules.Map:
		object := ordered{{"type", "object"}, {"additionalProperties", valueSchema(s.Of)}}
		if s.Names != nil {
			object = append(object, member{"propertyNames", valueSchema(s.Names)})
		}
		return bounds(object, "minProperties", "maxProperties")
	case rules.Object:
		return objectSchema(s)
	}
	return ordered{{"$ref", "#/$defs/" + s.Is}}
}

// objectSchema has every member, and no other.
func objectSchema(s *rules.Shape) ordered {
	var properties ordered
	required := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.Members)) {
		if !s.Members[name].Optional {
			required = append(required, name)
		}
		properties = append(properties, member{name, valueSchema(s.Members[name])})
	}
	return ordered{{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}}
}

func readSchema(t testing.TB) *schema.Schema {
	t.Helper()
	doc, err := os.ReadFile(filepath.FromSlash(schemaFile))
	if err != nil {
		t.Fatal(err)
	}
	// Compile refuses keywords that it would not apply, so nothing in the file
	// is there for show.
	s, err := schema.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTrajectoriesFitTheirSchema(t *testing.T) {
	s := readSchema(t)
	page, err := os.ReadFile("../../../docs/formats/trajectory.md")
	if err != nil {
		t.Fatal(err)
	}
	failed := write(t, []step{{0, started(plainRun)}, {0, &RunFailed{Name: "AgentFailed", Detail: "died"}}}, time.Millisecond)
	seen := map[Type]bool{}
	for what, data := range map[string][]byte{
		"the sample":                    write(t, sample(plainRun), time.Millisecond).Bytes(),
		"the other sample":              write(t, sample(otherRun), time.Second).Bytes(),
		"the worked example":            block(t, page, "jsonl example"),
		"a failed run":                  failed.Bytes(),
		"texts that are cut and hidden": write(t, hardTexts(), time.Millisecond).Bytes(),
	} {
		v, err := Verify(data, UnsafeAnyHead())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for e := range v.Events() {
			seen[e.Type] = true
		}
		for line := range bytes.Lines(data) {
			if p := s.Check(bytes.TrimSuffix(line, []byte("\n"))); p != nil {
				t.Errorf("%s: %s\n%v", what, line, p)
			}
		}
	}
	for _, typ := range Types() {
		if !seen[typ] {
			t.Errorf("no trajectory here has a %s, so its schema was not tried", typ)
		}
	}
}

// hardTexts has every form of a content and of arguments.
func hardTexts() []step {
	long := strings.Repeat("x", ArgumentHead+1)
	args := NewArgs([]byte(`{"long":"` + long + `","short":[1,null,{"a":""}]}`))
	cutText := NewContent([]byte(long), PromptHead)
	return []step{
		{0, started(plainRun)},
		{1, &TurnStarted{Input: &cutText}},
		{1, &ToolProposed{Args: args, Call: "c", Name: "n"}},
		{1, &ToolProposed{Args: NewRedactedArgs([]byte(`{"k":"secret"}`), []byte(`{"k":"*"}`)), Call: "d", Name: "n"}},
		{1, &ToolProposed{Args: NewArgs(nil), Call: "e", Name: "n"}},
		{1, &ToolExecuted{Args: args, Call: "c", Name: "n", Source: "live", Result: NewContent([]byte("\xff"), ResultHead)}},
		{1, &Plan{Text: NewRedacted([]byte("secret"), []byte("*"), PromptHead)}},
	}
}

// TestSchemaRefusesWhatVerifyRefuses changes single things in good lines. What
// the schema can say, it must.
func TestSchemaRefusesWhatVerifyRefuses(t *testing.T) {
	s := readSchema(t)
	for i, line := range bytes.Split(bytes.TrimSpace(write(t, sample(plainRun), time.Millisecond).Bytes()), []byte("\n")) {
		var event map[string]any
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		typ := event["type"].(string)
		for _, m := range mutations(typ, event) {
			bad, err := canon.Marshal(m.event)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decode(bad); err == nil {
				t.Errorf("line %d (%s): %s: Verify accepts it, so the mutation shows nothing", i+1, typ, m.what)
			}
			if s.Check(bad) == nil {
				t.Errorf("line %d (%s): %s: the schema accepts it", i+1, typ, m.what)
			}
		}
	}
}

type mutation struct {
	what  string
	event map[string]any
}

// mutations changes one thing each: a member of the event or the payload is
// gone, is of another type, or there is one more.
func mutations(typ string, event map[string]any) []mutation {
	var out []mutation
	add := func(what string, change func(event, payload map[string]any)) {
		text, _ := json.Marshal(event)
		var fresh map[string]any
		_ = json.Unmarshal(text, &fresh)
		change(fresh, fresh["payload"].(map[string]any))
		out = append(out, mutation{what, fresh})
	}
	add("another type", func(e, _ map[string]any) { e["type"] = "run_ended" })
	add("one more member", func(e, _ map[string]any) { e["extra"] = 1 })
	add("one more member in the payload", func(_, p map[string]any) { p["zzz"] = "x" })
	add("no payload", func(e, _ map[string]any) { delete(e, "payload") })
	add("a short hash", func(e, _ map[string]any) { e["prev"] = "sha256:00" })
	add("seq as a text", func(e, _ map[string]any) { e["seq"] = "1" })
	add("a negative time", func(e, _ map[string]any) { e["t"] = -1 })
	for f := range reflect.TypeOf(NewPayload(Type(typ))).Elem().Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(options, "omit") {
			add("no "+name, func(_, p map[string]any) { delete(p, name) })
		}
		add(name+" of another kind", func(_, p map[string]any) { p[name] = []any{map[string]any{}} })
	}
	for name, v := range event["payload"].(map[string]any) {
		switch v.(type) {
		case map[string]any:
			add(name+" with one more member", func(_, p map[string]any) { p[name].(map[string]any)["zzz"] = "x" })
		case bool:
			add(name+" as a number", func(_, p map[string]any) { p[name] = 1 })
		}
	}
	return out
}

// TestSchemaAndValidateKnowTheSameWords: lists, empty texts and bounds that the
// schema has are those of Validate.
func TestSchemaAndValidateKnowTheSameWords(t *testing.T) {
	s := readSchema(t)
	byType := map[string]map[string]any{}
	for _, line := range bytes.Split(bytes.TrimSpace(append(write(t, sample(plainRun), time.Millisecond).Bytes(),
		write(t, []step{{0, started(plainRun)}, {0, &RunFailed{Name: "n", Detail: "d"}}}, time.Millisecond).Bytes()...)), []byte("\n")) {
		var event map[string]any
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		byType[event["type"].(string)] = event
	}
	try := func(path string, v any) (valid, fits bool) {
		typ, name, _ := strings.Cut(path, ".")
		text, _ := json.Marshal(byType[typ])
		var event map[string]any
		_ = json.Unmarshal(text, &event)
		payload := event["payload"].(map[string]any)
		payload[name] = v
		if path == "policy_decision.verdict" && (v == "deny" || v == "escalate") {
			payload["check"] = 1
		} else if path == "policy_decision.verdict" {
			payload["check"] = 0
		}
		if v == string(Proposed) && typ == "tool_observed" {
			delete(payload, "result")
			delete(payload, "error")
			delete(payload, "judged")
		}
		if path == "test_run.exit" {
			payload["passed"] = v == 0
		}
		doc, err := canon.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		_, err = decode(doc)
		return err == nil, s.Check(doc) == nil
	}
	agree := func(path string, v any, want bool) {
		t.Helper()
		if valid, fits := try(path, v); valid != want || fits != want {
			t.Errorf("%s = %v: Validate says %v, the schema %v, want %v", path, v, valid, fits, want)
		}
	}
	file := eventRules(t)
	for typ := range byType {
		for name, shape := range file.Documents[typ].Members {
			path := typ + "." + name
			switch {
			case shape.Is == rules.Text && shape.OneOf != nil:
				for _, w := range shape.OneOf {
					agree(path, w, true)
				}
				agree(path, "zzz", false)
			case shape.Is == rules.Text && shape.Max != nil:
				agree(path, "", shape.Min == nil)
				agree(path, strings.Repeat("x", int(*shape.Max)), true)
				agree(path, strings.Repeat("x", int(*shape.Max)+1), false)
			case shape.Is == rules.Count && shape.Min != nil && path != "context_compiled.used" && path != "policy_decision.check": // these are tied to other members
				agree(path, *shape.Min, true)
				agree(path, *shape.Min-1, false)
			}
		}
	}
	agree("test_run.exit", -1, true)
	agree("memory_written.confidence", 1.5, false)
	agree("policy_decision.check", 3, false)
	agree("context_compiled.sections", map[string]any{"other": 120}, false)
	agree("test_run.command", []any{}, false)
}

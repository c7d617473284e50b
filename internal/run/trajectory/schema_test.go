package trajectory

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/schema"
	"tallystick/internal/run/policy"
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

// A rule is what a member's tag "schema" says, or its Go type.
type rule struct {
	words    []string // the texts that it may be
	names    []string // the names that the members of an object may have
	bounds   [2]any   // of a number
	mayEmpty bool     // a text that may be empty; all others that must be there must not
	notEmpty bool     // a list with at least one element
	maxBytes int      // of a text
}

// ruleOf reads a tag. TestSchemaAndValidateKnowTheSameWords tries everything
// that it says against Validate.
func ruleOf(f reflect.StructField) rule {
	r := rule{words: wordsOf(f.Type), bounds: [2]any{0, nil}, maxBytes: maxShort}
	tag := f.Tag.Get("schema")
	for phrase := range strings.SplitSeq(tag, "; ") {
		one, isOne := strings.CutPrefix(phrase, "one of ")
		names, isNames := strings.CutPrefix(phrase, "names ")
		switch {
		case isOne:
			r.words = strings.Split(one, ", ")
		case isNames:
			r.names = strings.Split(names, ", ")
		case phrase == "":
		case phrase == "may be empty":
			r.mayEmpty = true
		case phrase == "not empty":
			r.notEmpty = true
		case phrase == "long":
			r.maxBytes = maxLong
		case phrase == "head":
			r.maxBytes = maxHead
		case phrase == "from 1":
			r.bounds = [2]any{1, nil}
		case phrase == "0 to 1":
			r.bounds = [2]any{0, 1}
		case phrase == "0 to 2":
			r.bounds = [2]any{0, 2}
		case phrase == "any number":
			r.bounds = [2]any{nil, nil}
		default:
			panic(f.Name + " has the tag " + tag + ", which says nothing that is known here")
		}
	}
	return r
}

// wordsOf lists the values of types that have few.
func wordsOf(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[policy.Mode]():
		return []string{"restricted", "approved", "autonomous"}
	case reflect.TypeFor[policy.Class]():
		return texted(policy.Classes())
	case reflect.TypeFor[policy.Action]():
		return texted(policy.Actions())
	case reflect.TypeFor[policy.Verdict]():
		return []string{"allow", "deny", "escalate"}
	case reflect.TypeFor[Tier]():
		return []string{"working", "episodic", "semantic", "procedural"}
	case reflect.TypeFor[evidence.Severity]():
		return []string{"block", "warn", "info"}
	}
	return nil
}

func texted[T ~string](list []T) []string {
	var out []string
	for _, v := range list {
		out = append(out, string(v))
	}
	return out
}

// TestSchemaFile writes docs/formats/trajectory.schema.json from the payload
// types and compares.
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
		t.Errorf("%s does not match the types; run \"go test ./internal/run/trajectory -run SchemaFile -update\" and read the diff", schemaFile)
	}
}

func schemaDocument(t testing.TB) []byte {
	t.Helper()
	types := Types()
	defs := ordered{
		{"id", ordered{{"type", "string"}, {"pattern", "^sha256:[0-9a-f]{64}$"}}},
		{"digest", ordered{{"type", "string"}, {"pattern", "^blake3:[0-9a-f]{64}$"}}},
		{"content", objectSchema(reflect.TypeFor[Content]())},
		{"args", objectSchema(reflect.TypeFor[Args]())},
	}
	var rules []any
	for _, typ := range types {
		defs = append(defs, member{string(typ), objectSchema(reflect.TypeOf(NewPayload(typ)).Elem())})
		rules = append(rules, ordered{
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
		{"allOf", rules},
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

// objectSchema describes a struct: every member, and no other.
func objectSchema(typ reflect.Type) ordered {
	var properties ordered
	required := []string{}
	for f := range typ.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		optional := strings.Contains(options, "omit")
		if !optional {
			required = append(required, name)
		}
		properties = append(properties, member{name, valueSchema(ruleOf(f), f.Type, optional)})
	}
	return ordered{{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}}
}

func valueSchema(r rule, typ reflect.Type, optional bool) any {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if r.words != nil {
		return ordered{{"enum", r.words}}
	}
	switch typ {
	case reflect.TypeFor[digest.ID]():
		return ordered{{"$ref", "#/$defs/id"}}
	case reflect.TypeFor[digest.Content]():
		return ordered{{"$ref", "#/$defs/digest"}}
	case reflect.TypeFor[Content]():
		return ordered{{"$ref", "#/$defs/content"}}
	case reflect.TypeFor[Args]():
		return ordered{{"$ref", "#/$defs/args"}}
	case reflect.TypeFor[policy.ShortHash]():
		return ordered{{"type", "string"}, {"pattern", "^[0-9a-f]{16}$"}}
	case reflect.TypeFor[canon.RawMessage]():
		return true
	}
	switch typ.Kind() {
	case reflect.String:
		return textSchema(r)
	case reflect.Bool:
		// An optional flag is there only when it is true.
		if optional {
			return ordered{{"const", true}}
		}
		return ordered{{"type", "boolean"}}
	case reflect.Int, reflect.Int64, reflect.Uint8:
		return numberSchema(r, "integer")
	case reflect.Float64:
		return numberSchema(r, "number")
	case reflect.Slice:
		list := ordered{{"type", "array"}, {"items", ordered{{"type", "string"}, {"maxLength", maxLong}}}, {"maxItems", maxList}}
		if r.notEmpty {
			list = append(list, member{"minItems", 1})
		}
		return list
	case reflect.Map:
		object := ordered{{"type", "object"}, {"additionalProperties", valueSchema(rule{bounds: r.bounds, maxBytes: r.maxBytes}, typ.Elem(), false)}}
		if r.names != nil {
			object = append(object, member{"propertyNames", ordered{{"enum", r.names}}})
		}
		if optional {
			object = append(object, member{"minProperties", 1})
		}
		return object
	}
	panic("no schema for " + typ.String())
}

// textSchema bounds a text. A schema counts characters and Validate bytes, so
// a bound here is never the tighter one.
func textSchema(r rule) ordered {
	s := ordered{{"type", "string"}, {"maxLength", r.maxBytes}}
	if !r.mayEmpty {
		s = append(s, member{"minLength", 1})
	}
	return s
}

func numberSchema(r rule, typ string) ordered {
	s := ordered{{"type", typ}}
	for i, name := range []string{"minimum", "maximum"} {
		if r.bounds[i] != nil {
			s = append(s, member{name, r.bounds[i]})
		}
	}
	return s
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
	for typ := range byType {
		for f := range reflect.TypeOf(NewPayload(Type(typ))).Elem().Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			path, r := typ+"."+name, ruleOf(f)
			switch {
			case r.words != nil:
				for _, w := range r.words {
					agree(path, w, true)
				}
				agree(path, "zzz", false)
			case f.Type.Kind() == reflect.String:
				agree(path, "", r.mayEmpty)
				agree(path, strings.Repeat("x", r.maxBytes), true)
				agree(path, strings.Repeat("x", r.maxBytes+1), false)
			case f.Type.Kind() == reflect.Int || f.Type.Kind() == reflect.Int64:
				if path == "context_compiled.used" || r.bounds[0] == nil {
					continue // tied to other members
				}
				least := r.bounds[0].(int)
				agree(path, least, true)
				agree(path, least-1, false)
			}
		}
	}
	agree("test_run.exit", -1, true)
	agree("memory_written.confidence", 1.5, false)
	agree("policy_decision.check", 3, false)
	agree("context_compiled.sections", map[string]any{"other": 120}, false)
	agree("test_run.command", []any{}, false)
}

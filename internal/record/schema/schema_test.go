package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

func mustCompile(t testing.TB, doc string) *Schema {
	t.Helper()
	s, err := Compile([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// refusedGroups are the groups of the test suite that use what this package
// refuses on purpose. All others must come out as the suite says.
var refusedGroups = map[string]string{
	"const.json: float and integers are equal up to 64-bit representation limits":      "2^53-1",
	"defs.json: validate definition against metaschema":                                "nothing is fetched",
	"not.json: collect annotations inside a 'not', even if collection is disabled":     "unevaluatedProperties",
	"ref.json: ref creates new scope when adjacent to keywords":                        "unevaluatedProperties",
	"ref.json: remote ref, containing refs itself":                                     "nothing is fetched",
	"ref.json: Recursive references between schemas":                                   "",
	"ref.json: refs with relative uris and defs":                                       "nothing is fetched",
	"ref.json: relative refs with absolute uris and defs":                              "nothing is fetched",
	"ref.json: $id must be resolved against nearest parent, not just immediate parent": "",
	"ref.json: order of evaluation: $id and $ref":                                      "",
	"ref.json: order of evaluation: $id and $anchor and $ref":                          "",
	"ref.json: simple URN base URI with $ref via the URN":                              "nothing is fetched",
	"ref.json: URN base URI with URN and JSON pointer ref":                             "nothing is fetched",
	"ref.json: URN base URI with URN and anchor ref":                                   "",
	"ref.json: URN ref with nested pointer ref":                                        "",
	"ref.json: ref to if":                        "",
	"ref.json: ref to then":                      "",
	"ref.json: ref to else":                      "",
	"ref.json: ref with absolute-path-reference": "",
}

func TestPublishedTestSuite(t *testing.T) {
	file, err := os.ReadFile("testdata/suite-2020-12.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	ran, refused := 0, 0
	for line := range bytes.Lines(file) {
		var group struct {
			File, Description string
			Schema            json.RawMessage
			Tests             [][3]json.RawMessage
		}
		if err := json.Unmarshal(line, &group); err != nil {
			t.Fatal(err)
		}
		name := group.File + ": " + group.Description
		s, err := Compile(group.Schema)
		reason, expected := refusedGroups[name]
		if (err != nil) != expected {
			t.Errorf("%s: Compile: %v", name, err)
			continue
		}
		if err != nil {
			if !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: refused for another reason: %v", name, err)
			}
			refused++
			continue
		}
		for _, test := range group.Tests {
			ran++
			problems := s.Check(test[1])
			if valid := string(test[2]) == "true"; valid != (len(problems) == 0) {
				t.Errorf("%s: %s: valid is %v, problems are %v", name, test[0], valid, problems)
			}
		}
	}
	t.Logf("%d values checked, %d groups refused", ran, refused)
	if ran < 700 {
		t.Errorf("only %d values were checked", ran)
	}
}

func TestProblemsSayWhatWasFoundAndWhatWasExpected(t *testing.T) {
	transfer := `{"type":"object","additionalProperties":false,"required":["to","amount"],"properties":{
		"to":{"type":"string","minLength":1,"pattern":"^[a-z]+$"},"amount":{"type":"number","exclusiveMinimum":0,"maximum":100},
		"tags":{"type":"array","items":{"enum":["a","b"]},"uniqueItems":true,"maxItems":3}}}`
	for _, tt := range []struct{ name, schema, value, want string }{
		{"nothing is wrong", transfer, `{"to":"alice","amount":3}`, ""},
		{"a missing member", transfer, `{"to":"alice"}`, "amount: found nothing, expected a number"},
		{"a wrong type", transfer, `{"to":"alice","amount":"3"}`, `amount: found the text "3", expected a number`},
		{"too much", transfer, `{"to":"alice","amount":100.5}`, "amount: found the number 100.5, expected at most 100"},
		{"too little", transfer, `{"to":"alice","amount":0}`, "amount: found the number 0, expected more than 0"},
		{"a pattern", transfer, `{"to":"Alice","amount":1}`, `to: found the text "Alice", expected a text in which the pattern "^[a-z]+$" is found`},
		{"an unknown member", transfer, `{"to":"a","amount":1,"memo":1}`, "memo: found the number 1, expected no such member, only amount, tags, to"},
		{"a deep value", transfer, `{"to":"a","amount":1,"tags":["a","c"]}`, `tags[1]: found the text "c", expected one of "a", "b"`},
		{"equal items", transfer, `{"to":"a","amount":1,"tags":["a","a"]}`, "tags: found equal items at 0 and 1, expected items that are all different"},
		{"too many items", transfer, `{"to":"a","amount":1,"tags":["a","b","a","b"]}`, "tags: found a list of 4 (4 items), expected at most 3 items"},
		{"not an object", transfer, `[]`, "found a list of 0, expected an object"},
		{"not JSON", transfer, `{`, "expected a JSON value"},
		{"a member twice", transfer, `{"to":"a","to":"b","amount":1}`, "expected a JSON value"},
		{"odd names are quoted", `{"additionalProperties":{"type":"null"}}`, `{"a b\u202e":1}`, `["a b\u202e"]: found the number 1, expected null`},
		{"hostile text is made visible", `{"type":"null"}`, `"\u001b[2J\u202e"`, `found the text "\x1b[2J\u202e", expected null`},
		{"long text is cut", `{"type":"null"}`, `"` + strings.Repeat("x", 1000) + `"`, `xxx"..., expected null`},
		{"alternatives name the nearest", `{"anyOf":[{"type":"null"},{"required":["a"]}]}`, `{}`, "one of 2 alternatives (the nearest: found an empty object, expected null)"},
		{"more than one", `{"oneOf":[{"type":"number"},{"minimum":1},{"type":"null"}]}`, `2`, "exactly one of 3 alternatives, not 1 and 2"},
		{"not", `{"not":{"type":"number"}}`, `2`, "found the number 2, expected a value that does not fit the schema in not"},
		{"decimals as they are written", `{"multipleOf":0.1}`, `0.3`, ""},
		{"a dependency", `{"dependentRequired":{"card":["cvc"]}}`, `{"card":1}`, `cvc: found nothing, expected a value, since "card" is there`},
		{"true", `true`, `{"a":1}`, ""},
		{"false", `false`, `1`, "found the number 1, expected nothing here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var texts []string
			for _, p := range mustCompile(t, tt.schema).Check([]byte(tt.value)) {
				texts = append(texts, p.String())
			}
			got := strings.Join(texts, "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	for format, values := range map[string]map[string]bool{
		"date":      {"2026-02-28": true, "2026-02-30": false, "2026-2-3": false, "": false},
		"date-time": {"2026-05-01T09:00:00Z": true, "2026-05-01t09:00:00.5+02:00": true, "2026-05-01T09:00:00": false, "2026-05-01T09:00:00,5Z": false, "2026-05-01T09:00:00+24:00": false, "2026-05-01 09:00:00Z": false},
		"time":      {"09:00:00Z": true, "25:00:00Z": false, "09:00:00": false},
		"email":     {"a.b+c@example.com": true, "a@localhost": true, "a": false, "@b": false, "a@@b": false, "a b@c": false, "a@b..c": false, ".a@b": false, "a@-b": false, "\u0430@b": false},
		"ipv4":      {"127.0.0.1": true, "127.0.0.01": false, "127.1": false, "::1": false},
		"ipv6":      {"::1": true, "fe80::1%eth0": false, "127.0.0.1": false},
		"uri":       {"https://a.example/x?y#z": true, "urn:x:y": true, "/x": false, "https://a.example/ x": false, "": false},
		"uuid":      {"123e4567-e89b-12d3-a456-426614174000": true, "123e4567e89b12d3a456426614174000": false, "g23e4567-e89b-12d3-a456-426614174000": false},
	} {
		s := mustCompile(t, fmt.Sprintf(`{"format":%q}`, format))
		for value, valid := range values {
			text, _ := json.Marshal(value)
			if problems := s.Check(text); valid != (problems == nil) {
				t.Errorf("format %s of %q: %v", format, value, problems)
			}
		}
		if !strings.Contains(knownFormats, format) {
			t.Errorf("format %s is not in the list", format)
		}
	}
}

// A schema is refused when something in it would not be applied, could not be
// applied in bounded time, or lies somewhere else.
func TestCompileRefuses(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 62) + `{}` + strings.Repeat(`}`, 62)
	chain := `{"$ref":"#/$defs/0","$defs":{`
	for i := range 200 {
		chain += fmt.Sprintf(`"%d":{"$ref":"#/$defs/%d"},`, i, i+1)
	}
	chain += `"200":{}}}`
	for _, tt := range []struct{ name, schema, want string }{
		{"an unknown keyword", `{"properties":{"a":{"tpye":"string"}}}`, `at #/properties/a/tpye: the keyword "tpye" is not understood`},
		{"a keyword of the language that is not applied", `{"unevaluatedProperties":false}`, "is not understood"},
		{"an unknown format", `{"format":"iban"}`, "is not understood"},
		{"an unknown type", `{"type":"text"}`, "expected null, boolean"},
		{"an empty list of types", `{"type":[]}`, "empty list"},
		{"a number as schema", `{"items":3}`, "expected an object, true or false"},
		{"a text as number", `{"minimum":"3"}`, "expected a number"},
		{"a negative count", `{"minLength":-1}`, "whole number of at least 0"},
		{"a multiple of nothing", `{"multipleOf":0}`, "above 0"},
		{"an empty choice", `{"anyOf":[]}`, "at least one schema"},
		{"names that are not texts", `{"required":[1]}`, "expected a text"},
		{"a look-ahead", `{"pattern":"(?=a)b"}`, "is not RE2"},
		{"a pattern that explodes", `{"pattern":"((((a{30}){30})b){30}"}`, "the pattern"},
		{"a pattern that is large", `{"pattern":"([a-z]{500}[0-9]{500}){1}x{1000}y{1000}z{1000}[0-9]{1000}"}`, "instructions"},
		{"a pattern of names that is not a pattern", `{"patternProperties":{"(":true}}`, "is not RE2"},
		{"a file", `{"$ref":"file:///etc/passwd"}`, "nothing is fetched"},
		{"a host", `{"$ref":"https://example.com/x"}`, "nothing is fetched"},
		{"an anchor", `{"$ref":"#a"}`, "no anchors"},
		{"a place that is not there", `{"$ref":"#/$defs/a"}`, `there is no "$defs"`},
		{"a list that is not so long", `{"allOf":[true],"$ref":"#/allOf/1"}`, `there is no "1"`},
		{"itself", `{"$ref":"#"}`, "never end"},
		{"itself by way of another", `{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, "never end"},
		{"a long chain", chain, "expected at most 128"},
		{"nested deeper than JSON may be", `{"not":{"not":` + deep + `}}`, "nesting of"},
		{"a change of base", `{"properties":{"a":{"$id":"x"}}}`, "not understood"},
		{"too large", `{"description":"` + strings.Repeat("x", MaxBytes) + `"}`, "at most"},
		{"too many", `{"enum":[],"properties":{` + manySchemas(10_001) + `}}`, "more than 10000 schemas"},
		{"not JSON", `{`, "reading a JSON Schema"},
		{"a member twice", `{"type":"null","type":"string"}`, "reading a JSON Schema"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile([]byte(tt.schema))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			if r := refusal.Of(err); r.Name != refusal.Malformed && r.Name != refusal.TooLarge {
				t.Errorf("the refusal is %s", r.Name)
			}
		})
	}
}

func manySchemas(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%d":{}`, i)
	}
	return b.String()
}

func TestForeignSchemasAreAppliedAsFarAsTheyGo(t *testing.T) {
	s, err := CompileForeign([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","nullable":true,"unevaluatedProperties":false,
		"properties":{"a":{"type":"string","pattern":"(?=x)","format":"color"}},"patternProperties":{"(?!y)":{"type":"null"}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(s.Ignored()), "[format nullable pattern patternProperties unevaluatedProperties]"; got != want {
		t.Errorf("ignored: %s, want %s", got, want)
	}
	if p := s.Check([]byte(`{"a":1}`)); len(p) != 1 {
		t.Errorf("the type is not checked: %v", p)
	}
	// Which members are additional is not known without the pattern.
	if p := s.Check([]byte(`{"a":"x","zzz":null}`)); p != nil {
		t.Errorf("problems: %v", p)
	}
	if _, err := CompileForeign([]byte(`{"$ref":"https://example.com/x"}`)); err == nil {
		t.Error("a foreign schema may refer to another host")
	}
}

// A tree of a recursive type is a fair use; a schema that doubles the work at
// each step must end all the same, and not in a pass.
func TestChecksEnd(t *testing.T) {
	tree := mustCompile(t, `{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}}}`)
	if p := tree.Check([]byte(`{"name":"a","children":[{"name":"b"},{"name":"c","children":[{"name":7}]}]}`)); len(p) != 1 || p[0].Path != "children[1].children[0].name" {
		t.Errorf("problems: %v", p)
	}

	doubling := `{"$ref":"#/$defs/0","$defs":{`
	for i := range 60 {
		doubling += fmt.Sprintf(`"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
	}
	doubling += `"60":{}}}`
	// Each not turns a failure for lack of steps into a pass, if it is let.
	negated := `{"not":{"$ref":"#/$defs/0"},` + strings.TrimPrefix(doubling, `{"$ref":"#/$defs/0",`)
	dear := mustCompile(t, `{"properties":{"a":{"pattern":"(a|b|ab)*c(x{500})"}}}`)
	for name, problems := range map[string][]Problem{
		"doubling":      mustCompile(t, doubling).Check([]byte(`1`)),
		"negated":       mustCompile(t, negated).Check([]byte(`1`)),
		"a costly text": dear.Check([]byte(`{"a":"` + strings.Repeat("ab", 1<<20) + `"}`)),
	} {
		if len(problems) != 1 || !strings.Contains(problems[0].Found, "steps to check") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	s := mustCompile(t, `{"items":{"type":"null"}}`)
	if p := s.Check([]byte(`[` + strings.Repeat("1,", 10_000) + `1]`)); len(p) != maxListed {
		t.Errorf("%d problems", len(p))
	}
}

// FuzzSchema: whatever the schema and the value, compiling and checking end,
// and a schema that is accepted as ours has nothing ignored, and says the same
// when it is read as a foreign one, formats aside.
func FuzzSchema(f *testing.F) {
	file, err := os.ReadFile("testdata/suite-2020-12.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(file) {
		var group struct {
			Schema json.RawMessage
			Tests  [][3]json.RawMessage
		}
		if err := json.Unmarshal(line, &group); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(group.Schema), []byte(group.Tests[0][1]))
	}
	f.Fuzz(func(t *testing.T, doc, value []byte) {
		foreign, foreignErr := CompileForeign(doc)
		s, err := Compile(doc)
		if err != nil {
			return
		}
		if s.Ignored() != nil {
			t.Errorf("ignored in a schema of ours: %v", s.Ignored())
		}
		if foreignErr != nil {
			t.Fatalf("refused only as a foreign schema: %v", foreignErr)
		}
		got, again := s.Check(value), foreign.Check(value)
		if foreign.Ignored() == nil && fmt.Sprint(got) != fmt.Sprint(again) {
			t.Errorf("problems differ: %v and %v", got, again)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	s := mustCompile(b, `{"type":"object","additionalProperties":false,"required":["to","amount"],"properties":{"to":{"type":"string"},"amount":{"type":"number","minimum":0}}}`)
	value := []byte(`{"amount":100,"to":"alice"}`)
	b.ReportAllocs()
	for b.Loop() {
		if p := s.Check(value); p != nil {
			b.Fatal(p)
		}
	}
}

package grade

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/extract"
)

func TestParseRefusesWithThePlace(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{`{}`, "no grade, no checks and no expect"},
		{`[]`, "expected"},
		{`{"version":2,"grade":{"kind":"absent"}}`, "version: is 2"},
		{`{"grade":{"kind":"vibes"}}`, `grade.kind: is "vibes", expected one of exact`},
		{`{"grade":{"knd":"exact"}}`, "grade.knd: unknown"},
		{`{"grad":{"kind":"exact"}}`, "grad: unknown"},
		{`{"grade":{"kind":"exact","expected":"a","Expected":"b"}}`, "grade.Expected: unknown"},
		{`{"grade":{"kind":"exact","expected":"a","expected":"b"}}`, "duplicate"},
		{`{"grade":{"kind":1}}`, "grade.kind: found a number, expected a string"},
		{`{"grade":null}`, "grade"},
		{`{"checks":[]}`, "no grade"},
		{`{"expect":{}}`, "no grade"},
		{`{"grade":{"kind":"absent"},"checks":[{"name":"a","grade":{"kind":"absent"}}]}`, "checks: there is a grade too"},
		{`{"extract":{"kind":"answer"},"checks":[{"name":"a","grade":{"kind":"absent"}}]}`, "extract: there is no grade for it"},
		{`{"grade":{"kind":"absent","expected":"a"}}`, "grade.expected: a grader of kind absent has none"},
		{`{"grade":{"kind":"exact","pattern":"a"}}`, "grade.pattern: a grader of kind exact has none"},
		{`{"grade":{"kind":"exact","expected":"a","expected_file":"b"}}`, "more than one of"},
		{`{"grade":{"kind":"regex"}}`, "needs pattern"},
		{`{"grade":{"kind":"regex","pattern":"a","match":"some"}}`, `match: is "some"`},
		{`{"grade":{"kind":"number","expected":1,"tolerance":-1}}`, "tolerance: is -1"},
		{`{"grade":{"kind":"number","expected":1,"unit_required":true}}`, "unit_required: there is no unit"},
		{`{"grade":{"kind":"number","expected":1,"find":"best"}}`, `find: is "best"`},
		{`{"grade":{"kind":"normalised","expected":"a","keep":["accents"]}}`, `grade.keep.0: is "accents"`},
		{`{"grade":{"kind":"json_schema"}}`, "needs schema or schema_file"},
		{`{"grade":{"kind":"json_schema","schema":{},"schema_file":"a"}}`, "needs schema or schema_file"},
		{`{"grade":{"kind":"tool_calls","mode":"loose"}}`, `mode: is "loose"`},
		{`{"grade":{"kind":"tool_calls","args":"fuzzy"}}`, `args: is "fuzzy"`},
		{`{"grade":{"kind":"cel"}}`, "needs expression"},
		{`{"grade":{"kind":"cel","expression":"true"}}`, "needs always or at_turn"},
		{`{"grade":{"kind":"cel","expression":"true","always":true,"at_turn":1}}`, "needs always or at_turn"},
		{`{"grade":{"kind":"cel","expression":"true","at_turn":0}}`, "at_turn: is 0"},
		{`{"grade":{"kind":"cel","expression":"true","always":true},"extract":{"kind":"answer"}}`, "takes no extractor"},
		{`{"grade":{"kind":"compare"}}`, "needs expect"},
		{`{"grade":{"kind":"judge"}}`, "needs criteria"},
		{`{"grade":{"kind":"judge","criteria":"x","votes":100}}`, "votes: is 100"},
		{`{"grade":{"kind":"judge","criteria":"x","threshold":1.5}}`, "threshold: is 1.5"},
		{`{"grade":{"kind":"judge","criteria":"x","threshold":0}}`, "which every value reaches"},
		{`{"grade":{"kind":"all"}}`, "needs checks"},
		{`{"grade":{"kind":"not","checks":[{"name":"a","grade":{"kind":"absent"}},{"name":"b","grade":{"kind":"absent"}}]}}`, "has 2 checks, expected the one"},
		{`{"grade":{"kind":"all","checks":[{"name":"a","weight":2,"grade":{"kind":"absent"}}]}}`, "grade.checks.0.weight: is 2"},
		{`{"checks":[{"name":"a","weight":-1,"grade":{"kind":"absent"}}]}`, "checks.0.weight: is -1"},
		{`{"checks":[{"name":"a","weight":0,"grade":{"kind":"absent"}}]}`, "nothing could fail"},
		{`{"checks":[{"grade":{"kind":"absent"}}]}`, "checks.0.name: has 0 bytes"},
		{`{"checks":[{"name":"A b","grade":{"kind":"absent"}}]}`, "checks.0.name: is"},
		{`{"checks":[{"name":"grade","grade":{"kind":"absent"}}]}`, "key of the whole grade"},
		{`{"checks":[{"name":"llm_opinion","grade":{"kind":"absent"}}]}`, `contains "llm"`},
		{`{"checks":[{"name":"a","grade":{"kind":"absent"}},{"name":"a","grade":{"kind":"absent"}}]}`, "checks.1.name: there are two"},
		{`{"checks":[{"name":"a","grade":{"kind":"any","checks":[{"name":"a","grade":{"kind":"absent"}}]}}]}`, "there are two"},
		{`{"checks":[{"name":"a","failure_mode":"rubric.timeout","grade":{"kind":"absent"}}]}`, "is reserved"},
		{`{"checks":[{"name":"a","failure_mode":"grade.mismatch","grade":{"kind":"absent"}}]}`, "is reserved"},
		{`{"checks":[{"name":"a"}]}`, "checks.0.grade.kind"},
		{`{"grade":{"kind":"contains","expected":"a","normalised":false}}`, "expected"},
		{`{"grade":{"kind":"all","checks":[{"name":"a","grade":{"kind":"all","checks":[{"name":"b","grade":{"kind":"all","checks":[{"name":"c","grade":{"kind":"all","checks":[{"name":"d","grade":{"kind":"all","checks":[{"name":"e","grade":{"kind":"absent"}}]}}]}}]}}]}}]}}`, "nested deeper than 4"},
	} {
		p, err := Parse(canon.RawMessage(tt.doc), byName)
		if err == nil || p != nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", tt.doc, err, tt.want)
		}
		if err != nil && !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: refused as %s", tt.doc, refusal.Of(err).Name)
		}
	}
}

func TestCompileRefusesWithThePlace(t *testing.T) {
	m := Materials{
		Expected:      canon.RawMessage(`{"city":"Paris","n":1,"blank":""}`),
		ExpectedFiles: map[string][]byte{"a.txt": []byte("x"), "bad.json": []byte("{"), "bytes": {0xff}},
		Registration:  bench.Registration{FailureModes: map[string]evidence.Severity{"leak": evidence.Block}},
	}
	for _, tt := range []struct{ doc, want string }{
		{`{"grade":{"kind":"exact"}}`, "expected is an object"},
		{`{"grade":{"kind":"exact","expected":""}}`, "grade.expected: expected is an empty text"},
		{`{"grade":{"kind":"exact","expected":[1]}}`, "expected is a list"},
		{`{"grade":{"kind":"exact","expected_pointer":"/blank"}}`, "empty text"},
		{`{"grade":{"kind":"exact","expected_pointer":"/gone"}}`, `grade.expected_pointer: what the case expects has nothing at "/gone"`},
		{`{"grade":{"kind":"exact","expected_pointer":"gone"}}`, "expected_pointer: is"},
		{`{"grade":{"kind":"exact","expected_file":"gone"}}`, "grade.expected_file: the case has no file expected/gone"},
		{`{"grade":{"kind":"exact","expected_file":"bytes"}}`, "not UTF-8"},
		{`{"grade":{"kind":"json_equal","expected_file":"bad.json"}}`, "expected/bad.json"},
		{`{"grade":{"kind":"json_equal","expected":{},"ignore":[""]}}`, "grade.ignore.0: is the whole document"},
		{`{"grade":{"kind":"json_equal","expected":{},"ignore":["/a","b"]}}`, "grade.ignore.1: is"},
		{`{"grade":{"kind":"normalised","expected":"?!"}}`, "empty text"},
		{`{"grade":{"kind":"squad","expected":"a"}}`, "empty text"},
		{`{"grade":{"kind":"squad","expected":["Paris","The. An!"]}}`, "empty text"},
		{`{"grade":{"kind":"token_f1","expected":"the","threshold":0.5}}`, "empty text"},
		{`{"grade":{"kind":"rouge_l","expected":"?!","threshold":0.5}}`, "empty text"},
		{`{"grade":{"kind":"one_of","expected":["a","..."],"normalised":true}}`, "empty text"},
		{`{"grade":{"kind":"contains","expected":"(!)","normalised":true}}`, "empty text"},
		{`{"grade":{"kind":"gaia","expected":",;."}}`, "nothing is left of it"},
		{`{"grade":{"kind":"normalised","expected":["a"]}}`, "expected is a list, where text is needed"},
		{`{"grade":{"kind":"contains","expected":[]}}`, "empty list"},
		{`{"grade":{"kind":"contains","expected":["a",""]}}`, "empty text"},
		{`{"grade":{"kind":"contains","expected":["a",1]}}`, "something else than texts"},
		{`{"grade":{"kind":"one_of","expected":{"a":1}}}`, "text or a list of texts"},
		{`{"grade":{"kind":"number","expected":"1"}}`, "expected is text, where a number is needed"},
		{`{"grade":{"kind":"number","expected":1,"unit":"furlong"}}`, "grade.unit:"},
		{`{"grade":{"kind":"regex","pattern":"("}}`, "grade.pattern:"},
		{`{"grade":{"kind":"regex","pattern":"a)(b"}}`, "grade.pattern:"},
		{`{"grade":{"kind":"regex","pattern":"(?=a)"}}`, "grade.pattern:"},
		{`{"grade":{"kind":"compare","expect":">=many"}}`, "grade.expect:"},
		{`{"grade":{"kind":"compare","expect":">="}}`, "nothing to compare with"},
		{`{"grade":{"kind":"compare","expect":"=>1"}}`, "begins with no operator that there is"},
		{`{"grade":{"kind":"compare","expect":"!done"}}`, "begins with no operator that there is"},
		{`{"expect":{"tool_calls":"=1"}}`, "expect.tool_calls:"},
		{`{"expect":{"tool_calls":"several"}}`, "expect.tool_calls: is ==several, and is a number in every run"},
		{`{"expect":{"tool_calls.look":true}}`, "is a number in every run"},
		{`{"expect":{"test_passed":"yes"}}`, "is true or false in every run"},
		{`{"grade":{"kind":"compare","expect":[1]}}`, "expected a number, true, false, or text"},
		{`{"grade":{"kind":"json_schema","schema":{"type":"thing"}}}`, "grade.schema:"},
		{`{"grade":{"kind":"json_schema","schema":{"magic":true}}}`, "grade.schema:"},
		{`{"grade":{"kind":"json_schema","schema_file":"bad.json"}}`, "grade.schema_file:"},
		{`{"grade":{"kind":"tool_calls"}}`, "expected is an object, where a list of calls"},
		{`{"grade":{"kind":"tool_calls","expected":[{"name":"a","arg":{}}]}}`, "grade.expected:"},
		{`{"grade":{"kind":"tool_calls","expected":[{"name":""}]}}`, "call 1 has no name"},
		{`{"grade":{"kind":"tool_calls","expected":[{"name":"a","args":[1]}]}}`, "args is a list"},
		{`{"grade":{"kind":"tool_calls","mode":"superset","expected":[]}}`, "could not fail"},
		{`{"grade":{"kind":"cel","expression":"run.","always":true}}`, "grade.expression:"},
		{`{"grade":{"kind":"cel","expression":"1","always":true}}`, "expected bool"},
		{`{"grade":{"kind":"judge","criteria":" "}}`, "criteria are empty"},
		{`{"grade":{"kind":"judge","criteria_file":"gone"}}`, "criteria_file: the case has no file"},
		{`{"extract":{"kind":"memory"},"grade":{"kind":"absent"}}`, "extract: an extractor of kind memory needs tier"},
		{`{"checks":[{"name":"a","extract":{"kind":"file","path":"/x"},"grade":{"kind":"absent"}}]}`, "checks.0.extract.path: is"},
		{`{"checks":[{"name":"a","failure_mode":"slow","grade":{"kind":"absent"}}]}`, `checks.0.failure_mode: "slow" is not in the registration`},
		{`{"expect":{"luck":1}}`, "expect.luck: cannot be expected; what can be: answer"},
		{`{"expect":{"tokens":">lots"}}`, "expect.tokens:"},
		{`{"expect":{"tokens":null}}`, "expect.tokens:"},
	} {
		p, err := Parse(canon.RawMessage(tt.doc), byName)
		if err == nil {
			_, err = p.Compile(m)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: got %v, want one line with %q", tt.doc, err, tt.want)
		}
	}
	if _, err := Compile(Spec{Grade: &Rule{Kind: Exact}}, Materials{}); err == nil || !strings.Contains(err.Error(), "the case expects nothing") {
		t.Errorf("no expectation: got %v", err)
	}
	if _, err := Compile(Spec{}, Materials{}); err == nil {
		t.Error("an empty spec was compiled")
	}
}

// TestYAMLRefusalsNameLineAndColumn: in what the file says, and in what its
// values mean.
func TestYAMLRefusalsNameLineAndColumn(t *testing.T) {
	if _, err := ParseYAML("grading.yaml", []byte("version: 2\ngrade: {kind: absent}\n")); !refusal.Is(err, refusal.NewerFormat) || !strings.Contains(err.Error(), "grading.yaml:1:1: version:") {
		t.Errorf("a version of the future: %v", err)
	}
	for _, tt := range []struct{ text, want string }{
		{"grade:\n  kind: vibes\n", `grading.yaml:2:3: grade.kind: is "vibes"`},
		{"grade:\n  kind: exact\n  expcted: x\n", "grading.yaml:3:3: grade.expcted: is not a known key"},
		{"checks:\n  - name: a\n    grade: {kind: regex, pattern: \"(\"}\n", "grading.yaml:3:26: checks.0.grade.pattern:"},
		{"checks:\n  - name: a\n    grade: {kind: exact, expected_pointer: /gone}\n", "grading.yaml:3:26: checks.0.grade.expected_pointer:"},
		{"extract: {kind: file, path: ../x}\ngrade: {kind: absent}\n", "grading.yaml:1:23: extract.path:"},
		{"expect:\n  tokens: many more\n  luck: 1\n", "grading.yaml:3:3: expect.luck:"},
		{"grade: {kind: exact, kind: exact}\n", "grading.yaml:1:"},
	} {
		p, err := ParseYAML("grading.yaml", []byte(tt.text))
		if err == nil {
			_, err = p.Compile(Materials{Expected: canon.RawMessage(`{"city":"Paris"}`)})
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%q: got %v, want %q", tt.text, err, tt.want)
		}
	}
}

// TestTheTwoFormsAreOneSpec: what grading.yaml and the JSON document say alike
// grades alike.
func TestTheTwoFormsAreOneSpec(t *testing.T) {
	yaml := "extract: {kind: answer, pattern: \"(\\\\w+)\"}\ngrade: {kind: exact, expected: Paris}\nexpect: {turns: \"<5\"}\n"
	fromYAML, err := ParseYAML("grading.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	doc := `{"extract":{"kind":"answer","pattern":"(\\w+)"},"grade":{"kind":"exact","expected":"Paris"},"expect":{"turns":"<5"}}`
	fromJSON, err := Parse(canon.RawMessage(doc), byName)
	if err != nil {
		t.Fatal(err)
	}
	var first []byte
	for i, p := range []*Parsed{fromYAML, fromJSON} {
		data, err := canon.Marshal(p.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && string(data) != string(first) {
			t.Errorf("form %d is %s, the first is %s", i, data, first)
		}
		first = data
		g, err := p.Compile(Materials{})
		if err != nil {
			t.Fatal(err)
		}
		if r := g.Grade(Input{Source: said(t, "Paris, of course")}); !r.Passed {
			t.Errorf("form %d: %+v", i, r)
		}
	}
}

// TestTheDocumentedExamplesAreAsTheySay runs the examples of grading.md.
func TestTheDocumentedExamplesAreAsTheySay(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "grading.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(yaml|json|jsonl) example\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 3 {
		t.Fatalf("found %d examples", len(blocks))
	}
	m := Materials{
		Expected:      canon.RawMessage(`{"city":"Paris","total":1250.5}`),
		ExpectedFiles: map[string][]byte{"shape.json": []byte(`{"type":"object"}`)},
		Registration:  bench.Registration{FailureModes: map[string]evidence.Severity{"leak": evidence.Block}},
	}
	var lastDocument string
	for _, b := range blocks {
		var p *Parsed
		switch b[1] {
		case "yaml":
			p, err = ParseYAML("grading.yaml", []byte(b[2]))
		case "jsonl":
			for _, line := range strings.Split(strings.TrimSpace(b[2]), "\n") {
				var own map[string]canon.RawMessage
				if err := canon.Unmarshal([]byte(line), &own); err != nil {
					t.Fatal(err)
				}
				with := m
				with.Expected = own["expected"]
				maps.DeleteFunc(own, func(key string, _ canon.RawMessage) bool {
					return !slices.Contains([]string{"extract", "grade", "checks", "expect"}, key)
				})
				doc, err := canon.Marshal(own)
				if err != nil {
					t.Fatal(err)
				}
				if p, err = Parse(doc, byName); err == nil {
					_, err = p.Compile(with)
				}
				if err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
			continue
		case "json":
			lastDocument = strings.TrimSpace(b[2])
			continue
		}
		if err == nil {
			_, err = p.Compile(m)
		}
		if err != nil {
			t.Errorf("%s: %v", b[2], err)
		}
	}
	r := compiled(t, `{"checks":[{"name":"city","grade":{"kind":"normalised","expected":"Paris"}},{"name":"calls","weight":0.5,"extract":{"kind":"count","event":"tool_executed"},"grade":{"kind":"compare","expect":">=1"}}]}`, Materials{}).Grade(Input{Source: said(t, "PARIS.")})
	doc, err := Document(&r)
	if err != nil || string(doc) != lastDocument {
		t.Errorf("the grading document is\n%s\nthe page says\n%s", doc, lastDocument)
	}
	for _, k := range Kinds() {
		if !strings.Contains(string(page), "`"+string(k)+"`") {
			t.Errorf("the page does not have the grader %s", k)
		}
	}
	for _, k := range extract.Kinds() {
		if !strings.Contains(string(page), "`"+string(k)+"`") {
			t.Errorf("the page does not have the extractor %s", k)
		}
	}
	for name := range Expectations() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the page does not have the expectation %s", name)
		}
	}
	for spelling := range units() {
		// The page gives words in the singular and in British spelling.
		word := strings.NewReplacer("meter", "metre", "liter", "litre").Replace(spelling)
		if len(word) > 3 {
			word = strings.TrimSuffix(strings.TrimSuffix(word, "s"), "inche")
		}
		if !strings.Contains(string(page), word) {
			t.Errorf("the page does not have the unit %s", spelling)
		}
	}
	for _, code := range gradeCodes() {
		if !strings.Contains(string(page), "`"+code+"`") {
			t.Errorf("the page does not have the code %s", code)
		}
	}
}

package tools

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
)

// Every refusal names line and column of the file, and the key.
func TestDefinitionsAreRefusedWhereTheyAreWrong(t *testing.T) {
	const honest = `version: 1
tools:
  - name: transfer
    class: financial
    state: {balance: 5, keys: []}
    replies:
      - result: 1
`
	if doc, defs, err := decode(honest); err != nil || Validate(defs) != nil {
		t.Fatal(err, doc)
	}
	long := strings.Repeat("x", maxDescription+1)
	for _, tt := range []struct{ name, old, new, want string }{
		{"a name with a blank", "name: transfer", `name: "a b"`, `scenario.yaml:3:5: tools.0.name: found "a b"`},
		{"a name that is too long", "name: transfer", "name: " + strings.Repeat("x", 65), "tools.0.name: found"},
		{"a letter of another alphabet", "name: transfer", `name: "tr` + "\u0430" + `nsfer"`, "tools.0.name: found"},
		{"an empty name", "name: transfer", `name: ""`, "tools.0.name: found"},
		{"no class", "    class: financial\n", "", `scenario.yaml:3:5: tools.0.class: found "", expected one of read`},
		{"an unknown class", "class: financial", "class: harmless", `scenario.yaml:4:5: tools.0.class: found "harmless"`},
		{"an unknown trust", "class: financial", "class: financial\n    trust: full", `scenario.yaml:5:5: tools.0.trust: found "full"`},
		{"an unknown source", "class: financial", "class: financial\n    source: shell", `tools.0.source: found "shell"`},
		{"a server without a name", "class: financial", `class: financial` + "\n" + `    source: "mcp:"`, "tools.0.source: found"},
		{"a server with an odd name", "class: financial", `class: financial` + "\n" + `    source: "mcp:../x"`, "tools.0.source: found"},
		{"a trusted server", "    state: {balance: 5, keys: []}\n    replies:\n      - result: 1\n", "    trust: bench\n    source: \"mcp:x\"\n", "tools.0.trust: found bench"},
		{"an unknown key", "class: financial", "class: financial\n    run: rm", "tools.0.run: is not a known key"},
		{"a description that is too long", "class: financial", "class: financial\n    description: " + long, "tools.0.description: found 4097 bytes"},
		{"a negative latency", "class: financial", "class: financial\n    latency_ms: -1", "tools.0.latency_ms: found -1"},
		{"a cost beyond all bounds", "class: financial", "class: financial\n    cost_microdollars: 9007199254740991", "tools.0.cost_microdollars: found"},
		{"an unknown keyword in the schema", "class: financial", "class: financial\n    schema: {tpye: object}", `scenario.yaml:5:5: tools.0.schema: JSON Schema at #/tpye`},
		{"a schema that is not an object", "class: financial", "class: financial\n    schema: true", "tools.0.schema: expected an object"},
		{"a schema that never ends", "class: financial", `class: financial` + "\n" + `    schema: {"$ref": "#"}`, "never end"},
		{"an invisible name in the schema", "class: financial", `class: financial` + "\n" + `    schema: {properties: {"a\u200b": true}}`, "invisible characters"},
		{"an operation of a fixture", "class: financial", "class: financial\n    operation: fs_read", "tools.0.operation: only tools of the source folder"},
		{"a remote name of a fixture", "class: financial", "class: financial\n    remote: x", "tools.0.remote: only tools of an MCP server"},
		{"replies of a recorded tool", "class: financial", "class: financial\n    source: cassette", "tools.0.replies: only fixtures"},
		{"a tool that cannot answer", "    replies:\n      - result: 1\n", "", "scenario.yaml:3:5: tools.0.replies: found none"},
		{"neither result nor error", "result: 1", "times: 1", "tools.0.replies.0: found neither result nor error"},
		{"result and error", "result: 1", "result: 1\n        error: x", "scenario.yaml:8:9: tools.0.replies.0.error: found a result and an error"},
		{"a result of nothing", "result: 1", "result: null", "tools.0.replies.0.result: found nothing"},
		{"arguments that are a list", "result: 1", "result: 1\n        args: [1]", "tools.0.replies.0.args: expected an object"},
		{"arguments with a template", "result: 1", "result: 1\n        has: {a: \"{{state.balance}}\"}", "compare with where instead"},
		{"a negative number of times", "result: 1", "result: 1\n        times: -1", "tools.0.replies.0.times: found -1"},
		{"a negative call", "result: 1", "result: 1\n        call: -1", "tools.0.replies.0.call: found -1"},
		{"an empty condition", "result: 1", "result: 1\n        where: {a: {}}", "tools.0.replies.0.where.a: found no condition"},
		{"an unknown condition", "result: 1", "result: 1\n        where: {a: {equals: 1}}", "tools.0.replies.0.where.a.equals: is not a known key"},
		{"a condition that cannot hold", "result: 1", "result: 1\n        where: {a: {exists: false, eq: 1}}", "no other condition can hold"},
		{"an order of lists", "result: 1", "result: 1\n        where: {a: {lt: [1]}}", "lt: expected a number or a text"},
		{"in something that is not a list", "result: 1", "result: 1\n        where: {a: {in: 1}}", "in: expected a list"},
		{"a pattern with a look-ahead", "result: 1", "result: 1\n        where: {a: {matches: \"(?=x)\"}}", "matches: the pattern"},
		{"a path with an empty name", "result: 1", "result: 1\n        where: {\"a..b\": {eq: 1}}", "expected letters, digits"},
		{"a template that is code", "result: 1", "result: \"{{args.a + 1}}\"", "expected letters, digits"},
		{"a template of something else", "result: 1", "result: \"{{env.HOME}}\"", "expected {{args.NAME}} or {{state.NAME}}"},
		{"a template of all arguments", "result: 1", "result: \"{{args}}\"", "expected {{args.NAME}}"},
		{"a template that is not closed", "result: 1", "result: {a: [\"x {{args.a\"]}", "found {{ without }}"},
		{"a misspelled value in the answer", "result: 1", "result: \"{{state.balanc}}\"", `tools.0.replies.0.result: uses "balanc" of the state`},
		{"a misspelled value in an error", "result: 1", "error: \"{{state.balanc}}\"", `tools.0.replies.0.error: uses "balanc"`},
		{"a misspelled value in a condition", "result: 1", "result: 1\n        where: {a: {eq: \"{{state.x}}\"}}", `where: uses "x"`},
		{"a misspelled value in if", "result: 1", "result: 1\n        if: {x: {eq: 1}}", `if: uses "x"`},
		{"a misspelled value that is changed", "result: 1", "result: 1\n        add: {x: 1}", `add: uses "x"`},
		{"a misspelled value that is removed", "result: 1", "result: 1\n        delete: [x]", `delete: uses "x"`},
		{"adding a text", "result: 1", "result: 1\n        add: {balance: \"1\"}", "add.balance: expected a number"},
		{"two changes of one value", "result: 1", "result: 1\n        add: {balance: 1}\n        set: {balance: 1}", "add.balance: the same value is changed by set too"},
		{"the same value removed twice", "result: 1", "result: 1\n        delete: [balance, balance]", "is changed by delete too"},
		{"a default with conditions", "replies:\n      - result: 1", "default: {result: 1, times: 1}", "tools.0.default: the default answers every call"},
		{"a value with an odd name", "keys: []", `"a.b": 1`, "tools.0.state.a.b: found the name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(honest, tt.old, tt.new, 1)
			if text == honest {
				t.Fatal("nothing was changed")
			}
			doc, defs, err := decode(text)
			if err == nil {
				if err = Validate(defs); err != nil {
					if _, again := New(defs, "", nil, nil); !refusal.Is(again, refusal.Malformed) {
						t.Errorf("New gives %v", again)
					}
					err = doc.Refuse(err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestNamesThatLookAlikeAreRefused(t *testing.T) {
	def := func(name string) string {
		return fmt.Sprintf("  - {name: %q, class: read, default: {result: 1}}\n", name)
	}
	for _, pair := range [][2]string{{"transfer", "transfer"}, {"transfer", "Transfer"}, {"read_file", "read-file"}, {"pay1", "payl"}, {"modem", "modern"}, {"g0", "go"}} {
		doc, defs, err := decode("version: 1\ntools:\n" + def(pair[0]) + def(pair[1]))
		if err != nil {
			t.Fatal(err)
		}
		err = Validate(defs)
		if err == nil || !strings.Contains(doc.Refuse(err).Error(), "scenario.yaml:4:6: tools.1.name: ") {
			t.Errorf("%v: %v", pair, err)
		}
	}
	if doc, defs, err := decode("version: 1\ntools:\n" + def("a") + def("b")); err != nil || Validate(defs) != nil {
		t.Error(err, doc)
	}
}

func TestOneValueHasOneOwner(t *testing.T) {
	_, defs, err := decode("version: 1\ntools:\n  - {name: a, class: read, state: {x: 1}, default: {result: 1}}\n  - {name: b, class: read, state: {x: 2}, default: {result: 1}}\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(defs); err == nil || !strings.Contains(err.Error(), `tools.1.state.x: the tool "a" has a value of this name`) {
		t.Error(err)
	}
}

func TestTooMuchIsRefused(t *testing.T) {
	for name, defs := range map[string][]Definition{
		"tools":   make([]Definition, maxTools+1),
		"replies": {{Name: "a", Class: policy.Read, Replies: make([]Reply, maxReplies+1)}},
		"schema":  {{Name: "a", Class: policy.Read, Source: Cassette, Schema: []byte(`{"title":"` + strings.Repeat("x", maxSchemaBytes) + `"}`)}},
		"foreign": {{Name: "a", Class: policy.Read, Source: Cassette, Trust: Outside, Description: strings.Repeat("x", maxForeignDescription+1)}},
	} {
		if err := Validate(defs); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Errorf("%s: %v", name, err)
		}
	}
	big := Definition{Name: "a", Class: policy.Read, Default: &Reply{Error: "x"}, State: map[string]rawMessage{"x": rawMessage(`"` + strings.Repeat("x", maxStateBytes) + `"`)}}
	if err := Validate([]Definition{big}); err == nil || !strings.Contains(err.Error(), "the state has") {
		t.Errorf("state: %v", err)
	}
}

// A write that calls itself a read would pass a policy that permits reading.
func TestFolderToolsCannotUnderstateTheirClass(t *testing.T) {
	for op, class := range map[string]policy.Class{FSRead: policy.Read, FSList: policy.Read, FSWrite: policy.Write, FSDelete: policy.Write, FSReplace: policy.Write} {
		for given, wrong := range map[policy.Class]bool{"": false, policy.Read: class != policy.Read, policy.Privileged: false} {
			defs := []Definition{{Name: op, Source: Folder, Class: given}}
			if err := Validate(defs); (err != nil) != wrong {
				t.Errorf("%s of class %q: %v", op, given, err)
			}
			if wrong {
				continue
			}
			s, err := New(defs, t.TempDir(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := s.Lookup(op)
			if want := class; given == "" && got.Class != want || given != "" && got.Class != given {
				t.Errorf("%s of class %q became %q", op, given, got.Class)
			}
		}
	}
	for _, d := range []Definition{{Name: "x", Source: Folder}, {Name: FSRead, Source: Folder, Schema: rawMessage(`{}`)}, {Name: FSRead, Source: Folder, Operation: "fs_exec"}} {
		if Validate([]Definition{d}) == nil {
			t.Errorf("%+v is accepted", d)
		}
	}
	if _, err := New([]Definition{{Name: FSRead, Source: Folder}}, "", nil, nil); err == nil || !strings.Contains(err.Error(), "the case has none") {
		t.Errorf("without a folder: %v", err)
	}
}

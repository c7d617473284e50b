package world

import (
	"encoding/json"
	"strings"
	"testing"

	"tallystick/internal/run/tools"
)

func TestParseRefusesWhatIsNotOneAnswer(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{"an answer", `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, ""},
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`, ""},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/message"}`, ""},
		{"not JSON", `hello`, "not a JSON-RPC message"},
		{"two answers in a line", `{"jsonrpc":"2.0","id":1,"result":1}{"jsonrpc":"2.0","id":1,"result":2}`, "not a JSON-RPC message"},
		{"a result twice", `{"jsonrpc":"2.0","id":1,"result":1,"result":2}`, "not a JSON-RPC message"},
		{"another case", `{"jsonrpc":"2.0","id":1,"Result":1}`, "does not know"},
		{"a score", `{"jsonrpc":"2.0","id":1,"result":1,"score":1}`, "does not know"},
		{"neither", `{"jsonrpc":"2.0","id":1}`, "a result or an error"},
		{"both", `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, "a result or an error"},
		{"another version", `{"jsonrpc":"1.0","id":1,"result":1}`, "expected"},
		{"no version", `{"id":1,"result":1}`, "expected"},
		{"a list", `[{"jsonrpc":"2.0","id":1,"result":1}]`, "not a JSON-RPC message"},
		{"too deep", `{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "not a JSON-RPC message"},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}", "not a JSON-RPC message"},
		{"a request with a result", `{"jsonrpc":"2.0","id":1,"method":"x","result":1}`, "not an answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse([]byte(tt.line))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, expected %q", err, tt.want)
			}
		})
	}
}

// Whatever is parsed is one JSON object in which no member has two values.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parse(line)
		if err != nil {
			return
		}
		var again map[string]json.RawMessage
		if err := json.Unmarshal(line, &again); err != nil {
			t.Fatalf("%q was parsed and is not JSON: %v", line, err)
		}
		if m.method == "" && (m.result == nil) == (m.failure == nil) {
			t.Fatalf("%q has no one answer", line)
		}
	})
}

func TestLinesKeepWhatWasPrintedWithinBounds(t *testing.T) {
	l := newLines()
	l.write([]byte("one\ntw"))
	l.write([]byte("o\n"))
	for _, want := range []string{"one", "two"} {
		if line, over := l.take(); string(line) != want || over {
			t.Errorf("got %q, %v, expected %q", line, over, want)
		}
	}
	if line, over := l.take(); line != nil || over {
		t.Errorf("got %q, %v, expected nothing", line, over)
	}
	l.write([]byte("half"))
	if got := l.stray(); got != `"half"` {
		t.Errorf("stray is %s", got)
	}
	chunk := []byte(strings.Repeat("x", 1<<20))
	for range 40 {
		l.write(chunk)
	}
	if _, over := l.take(); !over {
		t.Error("40 MiB without a line are not too much")
	}
	if len(l.rest) > maxUnread {
		t.Errorf("%d bytes are kept", len(l.rest))
	}
}

func TestWithoutTakesFilesAndFramesOut(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"Traceback (most recent call last):\n  File \"/world/shop.py\", line 3, in refund\n    assert expected == 450\nValueError: no such order", "ValueError: no such order"},
		{"no such order", "no such order"},
		{"FileNotFoundError: [Errno 2] No such file or directory: '/world/expected.json'", "FileNotFoundError: [Errno 2] No such file or directory: '[file]'"},
		{"first line\nat /usr/lib/python3.11/json/__init__.py:346", "at [file]:346"},
	} {
		if got := Without(tt.text); got != tt.want {
			t.Errorf("%q became %q, expected %q", tt.text, got, tt.want)
		}
	}
}

func TestReadToolsRefusesNamesThatAreNotOne(t *testing.T) {
	for _, tt := range []struct{ list, want string }{
		{`[{"name":"a"},{"name":"b","description":"x","inputSchema":{"type":"object"}}]`, ""},
		{`[{"name":"a"},{"name":"a"}]`, "two tools"},
		{`[{"description":"x"}]`, "no name"},
		{`[{"name":"a","description":1}]`, "not a text"},
		{`{"name":"a"}`, "list of tools"},
	} {
		_, err := ReadTools([]byte(tt.list))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, expected %q", tt.list, err, tt.want)
		}
	}
}

// What the case says of a tool stands; the world fills in what it leaves out, and nothing
// of other tools.
func TestDefineLeavesTheCaseItsWords(t *testing.T) {
	list := []Tool{{Name: "refund", Description: "the world's words", Schema: []byte(`{"type":"object"}`)}}
	fail := func(format string, args ...any) error { return errLacks }
	defs, err := Define([]tools.Definition{{Name: "pay_back", Remote: "refund", Source: tools.World}, {Name: "refund", Description: "the case's words", Source: tools.World}, {Name: "other"}}, list, fail)
	if err != nil || defs[0].Description != "the world's words" || defs[1].Description != "the case's words" || defs[2].Description != "" || defs[2].Schema != nil {
		t.Errorf("got %+v, %v", defs, err)
	}
	if _, err := Define([]tools.Definition{{Name: "cancel", Source: tools.World}}, list, fail); err != errLacks {
		t.Errorf("a tool that the world lacks: %v", err)
	}
}

type lacking string

func (e lacking) Error() string { return string(e) }

const errLacks = lacking("lacks")

func TestReadStateRefusesMembersThatItDoesNotKnow(t *testing.T) {
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{`{"state":null}`, true},
		{`{"dump":"create table","events":[1],"files":{"a":"x","b":{"base64":"eA=="}},"state":{"a":1}}`, true},
		{`{"files":{}}`, false},
		{`{"state":1,"score":1}`, false},
		{`{"files":{"a":1},"state":1}`, false},
		{`[]`, false},
	} {
		if _, err := ReadState([]byte(tt.text)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.text, err)
		}
	}
}

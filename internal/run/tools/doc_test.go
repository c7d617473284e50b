package tools

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/strictyaml"
)

// A scenario is what the examples are part of.
type scenario struct {
	Version int          `json:"version"`
	Tools   []Definition `json:"tools"`
}

func decode(text string) (*strictyaml.Document, []Definition, error) {
	var s scenario
	doc, err := strictyaml.Decode("scenario.yaml", []byte(text), strictyaml.Rules{}, &s)
	return doc, s.Tools, err
}

// parse reads definitions that must be right.
func parse(t testing.TB, text string) []Definition {
	t.Helper()
	if !strings.HasPrefix(text, "version:") {
		text = "version: 1\ntools:\n" + text
	}
	doc, defs, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(defs); err != nil {
		t.Fatal(doc.Refuse(err))
	}
	return defs
}

// start makes the tools of a case without a cassette.
func start(t testing.TB, text, folder string) *State {
	t.Helper()
	s, err := New(parse(t, text), folder, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func call(t testing.TB, s *State, name, args string) Result {
	t.Helper()
	r, err := s.Call(t.Context(), name, []byte(args))
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	return r
}

func documented(t testing.TB, kind string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "tools.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatalf("the page has no block %q", kind)
	}
	return string(m[1])
}

func TestDocumentedExample(t *testing.T) {
	s := start(t, documented(t, "yaml example"), t.TempDir())
	n := 0
	for line := range strings.Lines(documented(t, "jsonl calls")) {
		var want struct {
			Args   canon.RawMessage `json:"args"`
			Error  string           `json:"error,omitempty"`
			Name   string           `json:"name"`
			Result canon.RawMessage `json:"result,omitempty"`
		}
		if err := canon.UnmarshalCanonical([]byte(strings.TrimSuffix(line, "\n")), &want); err != nil {
			t.Fatal(err)
		}
		n++
		got := call(t, s, want.Name, string(want.Args))
		if string(got.JSON) != string(want.Result) || got.Error != want.Error {
			t.Errorf("call %d of %s gave %s %s, the page says %s %s", n, want.Name, got.JSON, got.Error, want.Result, want.Error)
		}
	}
	if n != 10 {
		t.Errorf("%d calls", n)
	}
}

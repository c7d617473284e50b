package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// requireSound wants of a result that every event and every agent can take it.
func requireSound(t *testing.T, r Result) {
	t.Helper()
	if r.JSON == nil && r.Error == "" {
		t.Errorf("a result of nothing")
	}
	if r.JSON != nil && canon.Validate(r.JSON) != nil || len(r.JSON) > MaxResultBytes {
		t.Errorf("not a proper result: %.200s", r.JSON)
	}
	event := trajectory.ToolExecuted{Args: trajectory.NewArgs([]byte(`{}`)), Call: "c", Name: "x", Error: r.Error, Source: r.Source, Trust: r.Trust,
		Result: trajectory.NewContent(r.JSON, trajectory.ResultHead)}
	if err := event.Validate(); err != nil || !utf8.ValidString(r.Error) {
		t.Errorf("%+v: %v", r, err)
	}
	for _, f := range r.Findings {
		requireEvent(t, f)
	}
	if r.Trust == "untrusted" && strings.ContainsFunc(string(r.JSON)+strings.NewReplacer("\r", "").Replace(r.Error), isHidden) {
		t.Errorf("hidden characters are left: %q %q", r.JSON, r.Error)
	}
}

// FuzzDefinitions: definitions are refused, with a place, or they work: New
// takes them, nothing hidden is shown, and calls give sound results.
func FuzzDefinitions(f *testing.F) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "tools.md"))
	if err != nil {
		f.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml example\n")
	example, _, _ = strings.Cut(example, "```")
	f.Add([]byte(example), []byte(`{"amount":1,"to":"alice"}`))
	f.Add([]byte("version: 1\ntools:\n"+withReply("result: \"{{args.a}}{{state.num}}\"\nwhere: {a.0: {gt: 1, in: \"{{state.list}}\", matches: a+}}\nadd: {num: \"{{args.a}}\"}")), []byte(`{"a":[1]}`))
	f.Add([]byte("version: 1\ntools:\n  - {name: a, class: read, source: \"mcp:s\", remote: b, schema: {nullable: true}, description: \"x\\u200b\"}\n"), []byte(`{}`))
	f.Add([]byte("version: 1\ntools: "+folderTools), []byte(`{"path":"a","text":"b"}`))
	f.Fuzz(func(t *testing.T, text, args []byte) {
		doc, defs, err := decode(string(text))
		if err != nil {
			return
		}
		if err := Validate(defs); err != nil {
			if place := doc.Refuse(err).Error(); !strings.HasPrefix(place, "scenario.yaml:") || !refusal.Is(doc.Refuse(err), refusal.Malformed) {
				t.Errorf("refused without a place: %s", place)
			}
			if _, err := New(defs, "x", nil, nil); err == nil {
				t.Error("New takes what Validate refuses")
			}
			return
		}
		s, err := New(defs, t.TempDir(), nil, nil)
		if err != nil {
			t.Fatalf("New refuses what Validate takes: %v", err)
		}
		again, _ := New(defs, t.TempDir(), nil, nil)
		for _, finding := range s.Findings() {
			requireEvent(t, finding)
		}
		for _, d := range s.Definitions() {
			if strings.ContainsFunc(d.Description+string(d.Schema), isHidden) || len(d.Description) > maxDescription+200 {
				t.Errorf("%s is shown as %q %q", d.Name, d.Description, d.Schema)
			}
			for range 2 {
				r, err := s.Call(context.Background(), d.Name, args)
				if err != nil {
					if !refusal.Is(err, refusal.CassetteMiss) {
						t.Fatalf("%s: %v", d.Name, err)
					}
					continue
				}
				requireSound(t, r)
				if same, _ := again.Call(context.Background(), d.Name, args); fmt.Sprintf("%+v", same) != fmt.Sprintf("%+v", r) {
					t.Errorf("%s gives %+v, then %+v", d.Name, r, same)
				}
			}
		}
	})
}

// FuzzCall: whatever an agent sends, the result is sound, equal in two runs,
// and a call that fails changes nothing.
func FuzzCall(f *testing.F) {
	page := `  - name: x
    class: read
    trust: outside
    schema: {type: object, properties: {"n": {type: number}, t: {type: string, pattern: "^[a-z]*$"}}}
    state: {num: 1, list: []}
    replies:
      - {where: {t: {matches: "^(a|b)*c$"}}, error: "{{args.t}} {{args.n}}"}
      - {where: {"n": {exists: true}}, add: {num: "{{args.n}}"}, append: {list: "{{args.n}}"}, result: {"n": "{{state.num}}", all: "{{state.list}}"}}
    default: {result: "{{args.t}} and {{args.other}}", append: {list: "{{args.other}}"}}
` + folderTools
	for _, args := range []string{`{}`, `{"n":0.1,"t":"abc"}`, `{"n":-0,"other":"\u202e{{state.list}}"}`, `{"path":"a/b","text":"x"}`, `{"path":"a","old":"x","new":"y"}`, `[`, `{"n":1e308}`, "{\"\xff\":1}"} {
		for _, name := range []string{"x", "fs_read", "fs_write", "fs_list", "fs_delete", "edit", "y"} {
			f.Add(name, []byte(args))
		}
	}
	defs := parse(f, page)
	f.Fuzz(func(t *testing.T, name string, args []byte) {
		var last string
		folder := func() string {
			if name == "x" {
				return "not used"
			}
			return t.TempDir()
		}
		for range 2 {
			s, err := New(defs, folder(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			before, _ := s.Snapshot().Values()
			r, err := s.Call(t.Context(), name, args)
			if err != nil {
				t.Fatal(err)
			}
			requireSound(t, r)
			after, err := s.Snapshot().Values()
			if err != nil {
				t.Fatal(err)
			}
			if r.Error != "" && string(before) != string(after) {
				t.Errorf("%s failed with %s and changed the state to %s", name, r.Error, after)
			}
			got := fmt.Sprintf("%+v %s", r, after)
			if last != "" && got != last {
				t.Errorf("gave %s, then %s", last, got)
			}
			last = got
		}
	})
}

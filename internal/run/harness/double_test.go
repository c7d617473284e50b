package harness

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// TestTwoRunsAreComparedInAllThatCounts: a second run that called another tool, or one
// less, broke another rule, cost something else, left another file or said something else
// does not agree, whatever its score.
func TestTwoRunsAreComparedInAllThatCounts(t *testing.T) {
	graded := func(act func(*session.Session, *session.Folder) string) *Graded {
		t.Helper()
		k := newWorked(t, false, act)
		r, err := k.w.take(0, k.job())
		if err == nil {
			_, _, err = r.models()
		}
		if err != nil {
			t.Fatal(err)
		}
		remove, err := k.w.accept(context.Background(), r, k.driven)
		defer remove()
		if err != nil {
			t.Fatal(err)
		}
		g, err := r.finish(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	type does struct {
		tools  []string
		models []string
		file   string
		act    string
		answer string
	}
	usual := does{tools: []string{"lookup", "rm"}, models: []string{"one"}, file: "x", act: "10.0.0.1", answer: "done"}
	run := func(d does) *Graded {
		return graded(func(s *session.Session, f *session.Folder) string {
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(s.StartTurn("", "go"))
			for _, m := range d.models {
				must(asks(s, m))
			}
			for _, name := range d.tools {
				_, err := s.Tool(context.Background(), session.ToolCall{Name: name, Args: []byte(`{"a":1}`)})
				must(err)
			}
			must(os.WriteFile(filepath.Join(f.Dir, "own.txt"), []byte(d.file), 0o644))
			must(s.Attempted(trajectory.SecurityEvent{Name: "agent.connect", Detail: d.act, Severity: evidence.Warn}, "sandbox:connect"))
			must(s.CompleteTurn(d.answer))
			return d.answer
		})
	}
	first := run(usual)
	for name, tt := range map[string]struct {
		change func(*does)
		want   string
	}{
		"the same":                        {func(*does) {}, ""},
		"the same in another order":       {func(d *does) { d.tools = []string{"rm", "lookup"} }, ""},
		"a tool call less":                {func(d *does) { d.tools = []string{"rm"} }, "the tool calls differ: 3 and 2 of them"},
		"a denied call less":              {func(d *does) { d.tools = []string{"lookup"} }, "the tool calls differ"},
		"a tool call more":                {func(d *does) { d.tools = []string{"lookup", "lookup", "rm"} }, "the tool calls differ"},
		"another file":                    {func(d *does) { d.file = "y" }, "the files that the agent left differ"},
		"another violation":               {func(d *does) { d.act = "10.0.0.2" }, "the violations differ"},
		"another question to the model":   {func(d *does) { d.models = []string{"two"} }, "the model calls differ"},
		"one more question to the model":  {func(d *does) { d.models = []string{"one", "one"} }, "the model calls differ"},
		"another answer, with that score": {func(d *does) { d.answer = "done " }, "differ"},
	} {
		d := usual
		tt.change(&d)
		got, err := first.differs(run(d))
		if err != nil || (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) && name != "another answer, with that score" {
			t.Errorf("%s: %q, %v; expected %q", name, got, err, tt.want)
		}
	}
	cheap := *first
	cheap.Record.CostMicroUSD++
	if got, _ := first.differs(&cheap); !strings.Contains(got, "the cost is") {
		t.Errorf("another cost: %q", got)
	}
}

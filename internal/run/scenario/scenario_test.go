package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

const registration = `version: 1
class: c
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

const caseYAML = `schema_version: 1
case_id: one
title: A case
disposition: positive
difficulty: easy
tags: [a, b]
provenance:
  source: curated
  source_ref: {type: synthetic, value: written by hand}
  added_at: "2026-05-01T09:00:00Z"
  last_validated_at: "2026-05-01T09:00:00Z"
expected: {answer: hello}
`

// load verifies a class of these files, by path below the class.
func load(t *testing.T, files map[string]string) (*Set, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, "bench", "c", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	v, err := bench.Verify(root, "c", bench.Options{Now: time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	return Of(v, "default"), nil
}

// folder is a class of one case folder with a scenario, or none if it is "".
func folder(scenario string) map[string]string {
	files := map[string]string{"registration.yaml": registration, "cases/one/case.yaml": caseYAML, "cases/one/grading.yaml": "grade: {kind: exact, expected_pointer: /answer}\n",
		"cases/one/input/prompt.txt": "Say hello.\n", "cases/one/input/lib/a.txt": "a\n", "cases/one/expected/note.txt": "hello\n"}
	if scenario != "" {
		files["cases/one/scenario.yaml"] = scenario
	}
	return files
}

func TestFolderWithoutAScenarioAsksItsPrompt(t *testing.T) {
	set, err := load(t, folder(""))
	if err != nil {
		t.Fatal(err)
	}
	c, err := set.Case(0)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Scenario.Turns) != 1 || c.Scenario.Turns[0].Text != "Say hello." || len(c.Files) != 2 || string(c.ExpectedFiles["note.txt"]) != "hello\n" ||
		string(c.Grading) != `{"grade":{"expected_pointer":"/answer","kind":"exact"}}` || len(c.Tags) != 2 {
		t.Errorf("case %+v", c)
	}
	for _, f := range c.Files {
		if strings.Contains(f.Path, "expected") || strings.Contains(f.Path, "scenario") || strings.Contains(f.Path, "grading") {
			t.Errorf("the agent would be given %s", f.Path)
		}
	}
}

func TestScenarioMistakesNameTheirPlace(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"unknown key":         {"version: 1\nturns: [{text: hi}]\ncolour: red\n", "scenario.yaml:3"},
		"another version":     {"version: 2\nturns: [{text: hi}]\n", "scenario.yaml:1"},
		"no turns":            {"version: 1\nturns: []\n", "turns"},
		"an empty turn":       {"version: 1\nturns: [{text: \"\"}]\n", "turns"},
		"unknown action":      {"version: 1\nturns: [{text: hi}]\napprovals: [{action: fly, name: x, approve: true}]\n", "no action is called"},
		"unknown tier":        {"version: 1\nturns: [{text: hi}]\nmemory: [{tier: deep, key: a, value: b}]\n", "no tier is called"},
		"a bad start":         {"version: 1\nturns: [{text: hi}]\nstart: tomorrow\n", "expected a time such as"},
		"a reply of nothing":  {"version: 1\nturns: [{text: hi}]\nmodel: [{repeat: true}]\n", "expected text or tool_calls"},
		"a reply of both":     {"version: 1\nturns: [{text: hi}]\nmodel: [{text: a, status: 500}]\n", "expected text or tool_calls"},
		"a status of success": {"version: 1\nturns: [{text: hi}]\nmodel: [{status: 200}]\n", "expected 400 to 599"},
		"a test of nothing":   {"version: 1\nturns: [{text: hi}]\ntest: {command: [], timeout_seconds: 5}\n", "expected a command"},
		"twice the tool":      {"version: 1\nturns: [{text: hi}]\ntools: [{name: a, class: read, replies: [{result: 1}]}, {name: A, class: read, replies: [{result: 1}]}]\n", "tools"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := load(t, folder(tt.text))
			if err == nil {
				_, err = set.Case(0)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want something with %q", err, tt.want)
			}
		})
	}
}

func TestDatasetLines(t *testing.T) {
	dataset := func(lines string) (*Task, error) {
		set, err := load(t, map[string]string{"registration.yaml": registration, "dataset.jsonl": lines})
		if err != nil {
			return nil, err
		}
		return set.Case(set.Len() - 1)
	}
	c, err := dataset(`{"id":"a","input":"hi","files":{"x/y.txt":"1"},"expected":"ho","grade":{"kind":"exact"}}` + "\n")
	if err != nil || c.Scenario.Turns[0].Text != "hi" || len(c.Files) != 1 || string(c.Expected) != `"ho"` || string(c.Grading) != `{"grade":{"kind":"exact"}}` {
		t.Fatalf("case %+v, %v", c, err)
	}
	for name, line := range map[string]string{
		"unknown member":       `{"id":"a","input":"hi","shade":1}`,
		"input and turns":      `{"id":"a","input":"hi","turns":[{"text":"hi"}]}`,
		"neither":              `{"id":"a"}`,
		"a path that goes out": `{"id":"a","input":"hi","files":{"../x":"1"}}`,
		"a strange tag":        `{"id":"a","input":"hi","tags":["a b"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := dataset(`{"id":"first","input":"hi"}` + "\n" + line + "\n"); err == nil || !strings.Contains(err.Error(), "dataset.jsonl:2") {
				t.Errorf("got %v, want a refusal of line 2", err)
			}
		})
	}
	// Line and column, as editors count; a character is one, however many bytes.
	for _, tt := range []struct{ line, at, want string }{
		{`{"id":"a","input":"hi","shade":1}`, `"shade"`, "unknown"},
		{`{"id":"a","input":"hé","tags":["ok","a b"]}`, `"a b"`, "tags.1: "},
		{`{"id":"a","turns":[{"text":"x"}], "memory":[{"tier":"deep","key":"k","value":"v"}]}`, `{"tier"`, "memory.0: no tier"},
		{`{"id":"a","input":"hi","tools":[{"name":"t","source":"folder","operation":"fly"}]}`, `"operation"`, "tools.0.operation: found"},
	} {
		_, err := dataset(`{"id":"first","input":"hi"}` + "\n" + tt.line + "\n")
		want := fmt.Sprintf("dataset.jsonl:2:%d: ", utf8.RuneCountInString(tt.line[:strings.LastIndex(tt.line, tt.at)])+1)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), tt.want) || !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: got %v, want %s… %s", tt.line, err, want, tt.want)
		}
	}
}

// What is wrong with how a case is graded is found by package grade, after the
// file was read; the place is told all the same.
func TestRefuseGradingNamesThePlace(t *testing.T) {
	files := folder("version: 1\nturns: [{text: hi}]\n")
	files["cases/one/grading.yaml"] = "grade:\n  kind: exact\n  pattern: x\n"
	files["dataset.jsonl"] = `{"id":"a","input":"é","grade" : {"kind":"exact","pattern":"x"}}` + "\n"
	set, err := load(t, files)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"one/grading.yaml:3:3: grade.pattern: wrong", "dataset.jsonl:1:49: grade.pattern: wrong"} {
		c, err := set.Case(i)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.RefuseGrading([]string{"grade", "pattern"}, errors.New("wrong")); err.Error() != want || !refusal.Is(err, refusal.Malformed) {
			t.Errorf("case %d: got %v, want %s", i, err, want)
		}
	}
}

// What happened becomes a scenario in which everything answers as it did.
func TestScenarioOfATrajectory(t *testing.T) {
	log := trajectory.NewLogWithEvents()
	add := func(turn int, p trajectory.Payload) {
		t.Helper()
		if _, err := log.Append(turn, p, 0); err != nil {
			t.Fatal(err)
		}
	}
	text := func(s string) trajectory.Content { return trajectory.NewContent([]byte(s), trajectory.ResultHead) }
	hi := text("find it")
	add(0, &trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Repeat: 1, Target: "t"})
	add(1, &trajectory.TurnStarted{Input: &hi})
	add(1, &trajectory.ModelCallCompleted{Call: "c1", Source: "cassette", FinishReason: "tool_calls", TokensIn: 5, Output: text(`{"tool_calls":[{"args":"{\"q\":1}","name":"look"}]}`)})
	add(1, &trajectory.ToolProposed{Call: "c2", Name: "look", Class: "read", Args: trajectory.NewArgs([]byte(`{"q":1}`))})
	add(1, &trajectory.ToolExecuted{Call: "c2", Name: "look", Source: "cassette", Args: trajectory.NewArgs([]byte(`{"q":1}`)), Result: text(`{"is":"here"}`)})
	add(1, &trajectory.ModelCallCompleted{Call: "c3", Source: "cassette", FinishReason: "stop", Output: text("found")})
	add(1, &trajectory.RunCompleted{Status: "completed"})
	s, err := FromTrajectory(log.Verified(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Turns) != 1 || len(s.Model) != 2 || s.Model[0].ToolCalls[0].Name != "look" || s.Model[1].Text != "found" || len(s.Tools) != 1 || len(s.Tools[0].Replies) != 1 {
		t.Errorf("scenario %+v", s)
	}
	long := trajectory.NewContent([]byte(strings.Repeat("x", 10_000)), trajectory.PromptHead)
	other := trajectory.NewLogWithEvents()
	log = other
	add(0, &trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Repeat: 1, Target: "t"})
	add(1, &trajectory.TurnStarted{Input: &long})
	if _, err := FromTrajectory(other.Verified(), nil); err == nil || !strings.Contains(err.Error(), "only in part") {
		t.Errorf("half a text was taken for the whole: %v", err)
	}
}

// Templates are for people who write tools. What a tool once gave is given
// again as it was, with whatever braces it has.
func TestScenarioOfATrajectoryHasNoTemplates(t *testing.T) {
	log := trajectory.NewLogWithEvents()
	hi := trajectory.NewContent([]byte("read it"), trajectory.PromptHead)
	payloads := []trajectory.Payload{
		&trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Repeat: 1, Target: "t"},
		&trajectory.TurnStarted{Input: &hi},
	}
	gave := []string{`{"page":["{{args.q}}",{"{{name}}":"Dear {{customer}}, {{"}]}`, `plain {{state.secret}} {{open}}`, `{{`}
	for i, text := range gave {
		done := &trajectory.ToolExecuted{Call: fmt.Sprint(i), Name: "look", Source: "cassette", Args: trajectory.NewArgs([]byte(`{"q":"mine"}`)), Result: trajectory.NewContent([]byte(text), trajectory.ResultHead)}
		if i == len(gave)-1 {
			done.Error = "failed"
		}
		payloads = append(payloads, done)
	}
	for i, p := range payloads {
		if _, err := log.Append(min(i, 1), p, 0); err != nil {
			t.Fatal(err)
		}
	}
	s, err := FromTrajectory(log.Verified(), nil)
	if err != nil {
		t.Fatal(err)
	}
	state, err := tools.New(s.Tools, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range gave {
		got, err := state.Call(context.Background(), "look", []byte(`{"q":"mine"}`))
		said := got.Error
		if i < len(gave)-1 {
			said = string(got.JSON)
		}
		if quoted, _ := canon.Marshal(want); err != nil || said != want && said != string(quoted) {
			t.Errorf("call %d gives %q, %v, want %s", i, said, err, want)
		}
	}
}

// The example on the page is a scenario.
func TestFormatPageExample(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/scenario.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("the page has no example")
	}
	set, err := load(t, folder(string(example[1])))
	if err != nil {
		t.Fatal(err)
	}
	c, err := set.Case(0)
	if err != nil || len(c.Scenario.Turns) != 2 || len(c.Scenario.Model) != 3 || c.Scenario.Test == nil {
		t.Errorf("%+v, %v", c, err)
	}
	line := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if line == nil {
		t.Fatal("the page has no line")
	}
	set, err = load(t, map[string]string{"registration.yaml": registration, "dataset.jsonl": string(line[1])})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Case(0); err != nil {
		t.Error(err)
	}
}

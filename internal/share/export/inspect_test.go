package export

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/conversation"
	"tallystick/internal/read/results"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

func content(s string) trajectory.Content {
	return trajectory.Content{Head: s, Bytes: int64(len(s))}
}

// told is the transcript of a case in which a tool was called, another call was denied,
// something was remembered, and a limit ended it.
func told(t *testing.T) *Told {
	t.Helper()
	long := strings.Repeat("a long answer ", 20)
	payloads := []trajectory.Payload{
		&trajectory.ModelCallStarted{Call: "m1", Model: "acme/tiny", Messages: 1, Prompt: content("What is it?")},
		&trajectory.ModelCallCompleted{Call: "m1", FinishReason: "tool_calls", Output: content(long), Source: "cassette", TokensIn: 7, TokensOut: 3, LatencyMS: 5, CostMicroUSD: 12},
		&trajectory.ToolExecuted{Call: "t1", Name: "read", Args: trajectory.Args{Values: map[string]canon.RawMessage{"path": canon.RawMessage(`"a.txt"`)}}, Result: content("nine")},
		&trajectory.LimitReached{Limit: "cost_microdollars", Max: 1000000},
	}
	events := map[int]*trajectory.Event{}
	var all []trajectory.Event
	for i, p := range payloads {
		e := trajectory.Event{Seq: i + 1, Turn: 1, At: time.Duration(i) * time.Millisecond, Type: p.Type(), Payload: p}
		all = append(all, e)
		events[e.Seq] = &e
	}
	var seq iter.Seq[trajectory.Event] = slices.Values(all)
	expected := content("ten")
	return &Told{Conversation: conversation.Of(seq, conversation.Options{}), Events: events, Checks: []grade.Detail{{Check: "number", Grader: "exact", Outcome: "mismatch", Why: "it is another", Expected: &expected}}}
}

// withTranscript is an attempt whose first sample has one.
func withTranscript(t *testing.T) *Facts {
	a := attempt(1)
	a.Samples[0].Transcript = func() (*Told, error) { return told(t), nil }
	return a
}

type inspected struct {
	Messages []map[string]any
	Events   []map[string]any
	Limit    struct {
		Type  string
		Limit float64
	}
	Attachments map[string]string
	Usage       map[string]map[string]float64 `json:"model_usage"`
	Scores      map[string]struct{ Explanation string }
	EventsData  struct{ Messages []map[string]any } `json:"events_data"`
}

func TestAnInspectLogHasTheTranscript(t *testing.T) {
	a := withTranscript(t)
	a.Ending = ".json"
	files, err := Inspect(a)
	if err != nil || len(files) != 1 || !strings.HasSuffix(files[0].Name, ".json") {
		t.Fatal(files, err)
	}
	var log struct{ Samples []inspected }
	if err := json.Unmarshal(files[0].Data, &log); err != nil {
		t.Fatal(err)
	}
	s := log.Samples[0]
	var kinds []string
	depth := 0
	for _, e := range s.Events {
		switch e["event"] {
		case "span_begin":
			depth++
		case "span_end":
			depth--
		default:
			kinds = append(kinds, e["event"].(string))
			if depth == 0 || e["span_id"] == nil {
				t.Errorf("%v is in no span", e)
			}
		}
	}
	if got, want := strings.Join(kinds, " "), "sample_init model tool sample_limit score score"; got != want || depth != 0 {
		t.Errorf("events %s, want %s, depth %d", got, want, depth)
	}
	var roles []string
	for _, m := range s.Messages {
		roles = append(roles, m["role"].(string))
	}
	if got := strings.Join(roles, " "); got != "user assistant assistant tool" || len(s.EventsData.Messages) != len(s.Messages) {
		t.Errorf("messages %s, and %d that events refer to", got, len(s.EventsData.Messages))
	}
	if s.Limit.Type != "cost" || s.Limit.Limit != 1 {
		t.Errorf("limit %+v", s.Limit)
	}
	if u := s.Usage["acme/tiny"]; u["input_tokens"] != 7 || u["output_tokens"] != 3 || u["total_cost"] != 0.000012 {
		t.Errorf("usage %v", s.Usage)
	}
	if why := s.Scores["passed"].Explanation; !strings.Contains(why, "number (exact): mismatch, it is another; wanted ten") {
		t.Errorf("explained by %q", why)
	}
	whole := false
	for _, text := range s.Attachments {
		whole = whole || strings.HasPrefix(text, "a long answer a long")
	}
	if !whole {
		t.Errorf("attachments %v", s.Attachments)
	}
}

// Both forms are the same log, and both come in again with the same numbers.
func TestBothFormsOfAnInspectLogImportAgain(t *testing.T) {
	want := attempt(1).Totals()
	for _, ending := range []string{".eval", ".json"} {
		a := withTranscript(t)
		a.Ending = ending
		files, err := Inspect(a)
		runs, _ := imported(t, files, err)
		if len(runs) != 1 || runs[0].Samples != int64(want.Total) || runs[0].Scored != int64(want.Scored) || !results.Close(runs[0].Metrics["score/mean"], *want.Mean) {
			t.Errorf("%s: %+v, want %+v", ending, runs, want)
		}
	}
}

func TestAWithheldInspectLogHasNoTranscript(t *testing.T) {
	a := withTranscript(t)
	if _, err := a.Withhold(bytes.NewReader(bytes.Repeat([]byte{7}, 32))); err != nil {
		t.Fatal(err)
	}
	a.Ending = ".json"
	files, err := Inspect(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a long answer", "a.txt", "nine", "it is another", "What is it?"} {
		if bytes.Contains(files[0].Data, []byte(text)) {
			t.Errorf("the log has %q", text)
		}
	}
}

func TestTheEndingOfAnInspectLogDecidesItsForm(t *testing.T) {
	for name, ok := range map[string]bool{"x.eval": true, "x.json": true, "a.b/x.json": true, "x": false, "x.zip": false, "x.JSON": false, "x.json.txt": false, "x.eval/": false, "a.json/x": false} {
		err := Request{Format: "inspect", Out: true, File: name}.Validate()
		if (err == nil) != ok || err != nil && (refusal.Of(err).Name != refusal.Usage || !strings.Contains(err.Error(), ".eval or .json")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

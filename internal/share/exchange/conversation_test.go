package exchange

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/record/refusal"
	"tallystick/internal/share/foreign"
	"tallystick/internal/share/otel"
	"tallystick/internal/testing/doubled"
)

// A spanOf is a span that a test writes in few words.
type spanOf struct {
	trace, id, parent int
	start, end        int // milliseconds
	kind              string
	attrs             []string
}

func (s spanOf) json() string {
	list := []string{fmt.Sprintf(`{"key":"openinference.span.kind","value":{"stringValue":%q}}`, s.kind)}
	for i := 0; i+1 < len(s.attrs); i += 2 {
		list = append(list, fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, s.attrs[i], s.attrs[i+1]))
	}
	up := ""
	if s.parent > 0 {
		up = fmt.Sprintf(`"parentSpanId":"%016x",`, s.parent)
	}
	return fmt.Sprintf(`{"traceId":"%032x","spanId":"%016x",%s"name":"span %d","startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[%s]}`,
		s.trace, s.id, up, s.id, s.start*1e6, s.end*1e6, strings.Join(list, ","))
}

func fileOf(spans ...spanOf) []byte {
	var list []string
	for _, s := range spans {
		list = append(list, s.json())
	}
	return otlp(list...)
}

// turnOf is a trace with one turn: an agent that asks a model once. The id of the
// conversation is in the attribute name.
func turnOf(trace, start int, name, conversation, said string) []spanOf {
	about := []string{"llm.model_name", "m", "llm.input_messages.0.message.role", "user", "llm.input_messages.0.message.content", "ask " + said, "llm.output_messages.0.message.content", said}
	agent := []string{"agent.name", "a", "input.value", "ask " + said, "output.value", said}
	if name != "" {
		agent = append(agent, name, conversation)
	}
	return []spanOf{{trace, 1, 0, start, start + 10, "AGENT", agent}, {trace, 2, 1, start + 1, start + 9, "LLM", about}}
}

func told(said ...string) []string {
	var out []string
	for i, s := range said {
		n := i + 1
		out = append(out, fmt.Sprintf("%d turn ask %s", n, s), fmt.Sprintf("%d ask m", n), fmt.Sprintf("%d reply %s () 0/0", n, s), fmt.Sprintf("%d answer %s", n, s))
	}
	return append(out, fmt.Sprintf("%d end completed %s", len(said), said[len(said)-1]))
}

// TestTracesOfOneConversationAreOneTrajectory, in whichever order and attribute the file has
// them, and those of another conversation, or of none, stay apart.
func TestTracesOfOneConversationAreOneTrajectory(t *testing.T) {
	const genai, session = "gen_ai.conversation.id", "session.id"
	join := func(lists ...[]spanOf) []spanOf { return slices.Concat(lists...) }
	for _, tt := range []struct {
		name  string
		spans []spanOf
		want  map[string][]string // what each turn said, by the id of the trajectory
	}{
		{"two traces", join(turnOf(1, 10, session, "c", "one"), turnOf(2, 30, session, "c", "two")), map[string][]string{"c": {"one", "two"}}},
		{"the later first in the file", join(turnOf(2, 30, genai, "c", "two"), turnOf(1, 10, genai, "c", "one")), map[string][]string{"c": {"one", "two"}}},
		{"spans of two traces mixed", join(turnOf(2, 30, genai, "c", "two")[1:], turnOf(1, 10, genai, "c", "one"), turnOf(2, 30, genai, "c", "two")[:1]), map[string][]string{"c": {"one", "two"}}},
		{"two conversations, interleaved", join(turnOf(1, 10, session, "c", "one"), turnOf(2, 20, session, "d", "uno"), turnOf(3, 30, session, "c", "two"), turnOf(4, 40, session, "d", "dos")),
			map[string][]string{"c": {"one", "two"}, "d": {"uno", "dos"}}},
		{"two conversations at the same time", join(turnOf(1, 10, session, "c", "one"), turnOf(2, 12, session, "d", "uno"), turnOf(3, 30, session, "d", "dos")), map[string][]string{"c": {"one"}, "d": {"uno", "dos"}}},
		{"no ids", join(turnOf(1, 10, "", "", "one"), turnOf(2, 30, "", "", "two")), map[string][]string{fmt.Sprintf("%032x", 1): {"one"}, fmt.Sprintf("%032x", 2): {"two"}}},
		{"blank ids", join(turnOf(1, 10, session, "", "one"), turnOf(2, 30, session, " ", "two"), turnOf(3, 40, genai, "", "three")),
			map[string][]string{fmt.Sprintf("%032x", 1): {"one"}, fmt.Sprintf("%032x", 2): {"two"}, fmt.Sprintf("%032x", 3): {"three"}}},
		{"one with an id and one without", join(turnOf(1, 10, session, "c", "one"), turnOf(2, 30, "", "", "two")), map[string][]string{"c": {"one"}, fmt.Sprintf("%032x", 2): {"two"}}},
		{"ids that differ in case or blanks", join(turnOf(1, 10, session, "c", "one"), turnOf(2, 20, session, "C", "two"), turnOf(3, 30, session, "c ", "three")), map[string][]string{"c": {"one"}, "C": {"two"}, "c ": {"three"}}},
		{"an id by each name", join(turnOf(1, 10, session, "c", "one"), turnOf(2, 30, genai, "c", "two")), map[string][]string{"c": {"one", "two"}}},
		{"an id that is another trace's", join(turnOf(1, 10, session, fmt.Sprintf("%032x", 2), "one"), turnOf(2, 30, "", "", "two")), nil},
		{"a conversation within a session", join(addTo(turnOf(1, 10, session, "s", "one"), genai, "c"), addTo(turnOf(2, 30, session, "s", "two"), genai, "d"), addTo(turnOf(3, 50, session, "s", "three"), genai, "c")),
			map[string][]string{"c": {"one", "three"}, "d": {"two"}}},
		{"the id on the last span of a trace only", join(onLast(turnOf(1, 10, "", "", "one"), session, "c"), onLast(turnOf(2, 30, "", "", "two"), session, "c")), map[string][]string{"c": {"one", "two"}}},
		{"two conversations in one trace", join(
			[]spanOf{{trace: 1, id: 9, start: 1, end: 99, kind: "CHAIN"}}, under(9, 10, turnOf(1, 10, session, "c", "one")), under(9, 20, turnOf(1, 30, session, "d", "uno")), under(9, 30, turnOf(1, 50, session, "c", "two"))),
			map[string][]string{"c": {"one", "two"}, "d": {"uno"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, file := range [][]byte{fileOf(tt.spans...), protoOf(t, fileOf(tt.spans...))} {
				list, err := Import("f", file)
				if err != nil {
					t.Fatal(err)
				}
				if tt.want == nil {
					if len(list) != 2 || list[0].Verified.Turns() != 1 {
						t.Fatalf("%d trajectories", len(list))
					}
					if _, err := pickTrajectory("f", list, list[0].ID); !refusal.Is(err, refusal.Malformed) {
						t.Errorf("one of two with the same id was picked: %v", err)
					}
					continue
				}
				got, want := map[string][]string{}, map[string][]string{}
				for _, one := range list {
					got[one.ID] = lines(one)
				}
				for id, said := range tt.want {
					want[id] = told(said...)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("want -, got +\n%s", d)
				}
			}
		})
	}
}

func addTo(spans []spanOf, name, id string) []spanOf {
	spans[0].attrs = append(spans[0].attrs, name, id)
	return spans
}

func onLast(spans []spanOf, name, id string) []spanOf {
	last := &spans[len(spans)-1]
	last.attrs = append(last.attrs, name, id)
	return spans
}

// under puts the spans of a turn below another, with other ids.
func under(parent, base int, spans []spanOf) []spanOf {
	for i := range spans {
		spans[i].id += base
		if spans[i].parent == 0 {
			spans[i].parent = parent
		} else {
			spans[i].parent += base
		}
	}
	return spans
}

// TestAConversationMayBeInSeveralFiles: the folder gives what one file with all spans gives.
func TestAConversationMayBeInSeveralFiles(t *testing.T) {
	one, two := turnOf(1, 10, "session.id", "c", "one"), turnOf(2, 30, "session.id", "c", "two")
	dir := t.TempDir()
	for name, data := range map[string][]byte{"b.json": fileOf(one...), "deep/a.pb": protoOf(t, fileOf(two...)), "README.md": []byte("# Traces\n"), "other.json": []byte(`{"a":1}`), "atif.json": load(t, "atif.json")} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := ImportFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 3 || list[0].ID != "c" || list[0].Source.Format != foreign.OTLP || list[1].ID != "s-1" {
		t.Fatalf("got %d trajectories, the first %s of %s", len(list), list[0].ID, list[0].Source.Format)
	}
	if d := cmp.Diff(told("one", "two"), lines(list[0])); d != "" {
		t.Error(d)
	}
	if n := list[0].Notes; len(n) != 1 || n[0].What != "file that holds no traces" || n[0].Count != 2 {
		t.Errorf("notes %+v", n)
	}
	loaded, err := Load(nil, dir, "c", false)
	if err != nil || loaded.Imported.ID != "c" || loaded.Turns() != 2 {
		t.Errorf("got %+v, %v", loaded, err)
	}
	// What is damaged is refused, and not taken for a file of another program.
	if err := os.WriteFile(filepath.Join(dir, "cut.json"), fileOf(one...)[:200], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ImportFolder(dir); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "cut.json") {
		t.Errorf("got %v", err)
	}
	if _, err := ImportFolder(t.TempDir()); !refusal.Is(err, refusal.Unrecognised) {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestCausesComeBeforeWhatTheyCause, whatever the clocks say.
func TestCausesComeBeforeWhatTheyCause(t *testing.T) {
	asks := func(id string) []string {
		return []string{"llm.model_name", "m", "llm.output_messages.0.message.tool_calls.0.tool_call.id", id, "llm.output_messages.0.message.tool_calls.0.tool_call.function.name", "get",
			"llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments", `{"city":"Oslo"}`}
	}
	shown := func(id, said string) []string {
		return []string{"llm.model_name", "m", "llm.input_messages.0.message.role", "tool", "llm.input_messages.0.message.tool_call_id", id, "llm.input_messages.0.message.content", "r", "llm.output_messages.0.message.content", said}
	}
	does := func(id, gave string) []string {
		return []string{"tool.name", "get", "tool_call.id", id, "output.value", gave}
	}
	const wish = `{"tool_calls":[{"args":"{\"city\":\"Oslo\"}","name":"get"}]}`
	for _, tt := range []struct {
		name  string
		spans []spanOf
		want  []string
	}{
		{"the tool's clock is behind that of the model", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", nil}, {1, 2, 1, 50, 60, "LLM", asks("x")}, {1, 3, 1, 10, 20, "TOOL", does("x", "r")}, {1, 4, 1, 70, 80, "LLM", shown("x", "done")}},
			[]string{"1 turn -", "1 ask m", "1 reply " + wish + " () 0/0", `1 wants x get "Oslo" imported`, "1 got x r imported", "1 ask m", "1 reply done () 0/0", "1 answer done", "1 end completed done"}},
		{"the tool's clock is ahead of the model's", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", nil}, {1, 2, 1, 5, 6, "LLM", asks("x")}, {1, 3, 1, 500, 600, "TOOL", does("x", "r")}, {1, 4, 1, 70, 80, "LLM", shown("x", "done")}},
			[]string{"1 turn -", "1 ask m", "1 reply " + wish + " () 0/0", `1 wants x get "Oslo" imported`, "1 got x r imported", "1 ask m", "1 reply done () 0/0", "1 answer done", "1 end completed done"}},
		{"the model's span was ended late", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", nil}, {1, 2, 1, 5, 90, "LLM", asks("x")}, {1, 3, 1, 10, 20, "TOOL", does("x", "r")}, {1, 4, 1, 30, 40, "LLM", shown("x", "done")}},
			[]string{"1 turn -", "1 ask m", "1 reply " + wish + " () 0/0", `1 wants x get "Oslo" imported`, "1 got x r imported", "1 ask m", "1 reply done () 0/0", "1 answer done", "1 end completed done"}},
		{"the reply ends after the agent", []spanOf{
			{1, 1, 0, 1, 5, "AGENT", nil}, {1, 2, 1, 2, 90, "LLM", []string{"llm.model_name", "m", "llm.output_messages.0.message.content", "late"}}},
			[]string{"1 turn -", "1 ask m", "1 reply late () 0/0", "1 answer late", "1 end completed late"}},
		{"a call that was tried again", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", nil}, {1, 2, 1, 50, 60, "LLM", asks("x")}, {1, 3, 1, 10, 20, "TOOL", does("x", "lost")}, {1, 4, 1, 30, 40, "TOOL", does("x", "r")}, {1, 5, 1, 70, 80, "LLM", shown("x", "done")}},
			[]string{"1 turn -", "1 ask m", "1 reply " + wish + " () 0/0", `1 wants x get "Oslo" imported`, "1 got x lost imported", "1 wants x#2 get null imported", "1 got x#2 r imported", "1 ask m", "1 reply done () 0/0", "1 answer done", "1 end completed done"}},
		{"two calls at the same time", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", nil}, {1, 2, 1, 5, 6, "LLM", append(asks("x"), "llm.output_messages.0.message.tool_calls.1.tool_call.id", "y", "llm.output_messages.0.message.tool_calls.1.tool_call.function.name", "get")},
			{1, 4, 1, 11, 15, "TOOL", does("y", "ry")}, {1, 3, 1, 10, 20, "TOOL", does("x", "rx")}},
			[]string{"1 turn -", "1 ask m", `1 reply {"tool_calls":[{"args":"{\"city\":\"Oslo\"}","name":"get"},{"args":"{}","name":"get"}]} () 0/0`, `1 wants x get "Oslo" imported`, "1 wants y get null imported", "1 got y ry imported", "1 got x rx imported", "1 answer -", "1 end completed -"}},
		{"ids that begin again in every trace", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", []string{"session.id", "c"}}, {1, 2, 1, 5, 6, "LLM", asks("0")}, {1, 3, 1, 10, 20, "TOOL", does("0", "first")},
			{2, 1, 0, 201, 300, "AGENT", []string{"session.id", "c"}}, {2, 3, 1, 210, 220, "TOOL", does("0", "second")}, {2, 2, 1, 230, 240, "LLM", asks("0")}},
			[]string{"1 turn -", "1 ask m", "1 reply " + wish + " () 0/0", `1 wants 0 get "Oslo" imported`, "1 got 0 first imported", "1 answer -",
				"2 turn -", "2 ask m", "2 reply " + wish + " () 0/0", `2 wants 0#2 get "Oslo" imported`, "2 got 0#2 second imported", "2 answer -", "2 end completed -"}},
		{"spans that are the cause of each other", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", nil}, {1, 2, 1, 5, 6, "LLM", append(asks("x"), shown("y", "")[2:8]...)}, {1, 3, 1, 7, 8, "LLM", append(asks("y"), shown("x", "")[2:8]...)}},
			[]string{"1 turn -", "1 ask m", "1 reply " + wish + " () 0/0", `1 wants x get "Oslo" imported`, "1 got x r imported", "1 ask m", "1 reply " + wish + " () 0/0", `1 wants y get "Oslo" imported`, "1 answer -", "1 end completed -"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Import("f", fileOf(tt.spans...))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, lines(got[0])); d != "" {
				t.Errorf("want -, got +\n%s", d)
			}
		})
	}
}

// TestOpenInferenceSpans: what else the conventions have.
func TestOpenInferenceSpans(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spans []spanOf
		want  []string
	}{
		{"a chain without agents is a turn", []spanOf{
			{1, 1, 0, 1, 100, "CHAIN", []string{"input.value", "What is it?", "output.value", "It is a lamp."}},
			{1, 2, 1, 5, 10, "RETRIEVER", []string{"input.value", "lamp", "retrieval.documents.0.document.content", "a lamp", "retrieval.documents.0.document.id", "d1", "retrieval.documents.1.document.content", "another"}},
			{1, 3, 1, 20, 30, "llm", []string{"llm.model_name", "m", "llm.prompts.0.prompt.text", "context: a lamp", "llm.choices.0.completion.text", "lamp"}}},
			[]string{"1 turn What is it?", `1 wants 0000000000000002 span 2 null imported`, `1 got 0000000000000002 [{"content":"a lamp","id":"d1"},{"content":"another"}] imported`, "1 ask m", "1 reply lamp () 0/0", "1 answer It is a lamp.", "1 end completed It is a lamp."}},
		{"requests and replies as JSON", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", []string{"input.value", `{"messages":[{"type":"human","content":"hi"}]}`, "input.mime_type", "application/json", "output.value", `{"output":"hello"}`, "output.mime_type", "application/json"}},
			{1, 2, 1, 5, 10, "LLM", []string{"llm.model_name", "m", "input.value", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "output.value", `{"choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`, "output.mime_type", "application/json"}}},
			[]string{"1 turn hi", "1 ask m", "1 reply hello (stop) 0/0", "1 answer hello", "1 end completed hello"}},
		{"an answer that is JSON stays as it is", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", []string{"input.value", "count", "output.value", `{"total":5}`}}},
			[]string{"1 turn count", `1 answer {"total":5}`, `1 end completed {"total":5}`}},
		{"the agent of an agent answers", []spanOf{
			{1, 1, 0, 1, 100, "AGENT", nil}, {1, 2, 1, 2, 90, "AGENT", []string{"agent.name", "triage"}},
			{1, 3, 2, 5, 10, "LLM", []string{"llm.model_name", "m", "llm.input_messages.0.message.role", "user", "llm.input_messages.0.message.content", "go", "llm.output_messages.0.message.content", "gone"}}},
			[]string{"1 turn go", "1 handoff span 1 to triage", "1 ask m", "1 reply gone () 0/0", "1 answer gone", "1 end completed gone"}},
		{"results that name the tool", []spanOf{
			{1, 2, 0, 5, 6, "LLM", []string{"llm.model_name", "m", "llm.output_messages.0.message.function_call_name", "get", "llm.output_messages.0.message.function_call_arguments_json", `{"city":"Oslo"}`}},
			{1, 3, 0, 7, 8, "LLM", []string{"llm.model_name", "m", "llm.input_messages.0.message.role", "function", "llm.input_messages.0.message.name", "get", "llm.input_messages.0.message.content", "-3", "llm.output_messages.0.message.content", "cold"}}},
			[]string{"1 turn -", "1 ask m", `1 reply {"tool_calls":[{"args":"{\"city\":\"Oslo\"}","name":"get"}]} () 0/0`, `1 wants call get "Oslo" imported`, "1 got call -3 imported", "1 ask m", "1 reply cold () 0/0", "1 answer cold", "1 end completed cold"}},
		{"lists that were left whole", []spanOf{
			{1, 2, 0, 5, 6, "LLM", []string{"llm.model_name", "m", "llm.input_messages", `[{"message.role":"user","message.content":"hi"}]`, "llm.output_messages", `[{"message":{"role":"assistant","content":"hello"}}]`}}},
			[]string{"1 turn hi", "1 ask m", "1 reply hello () 0/0", "1 answer hello", "1 end completed hello"}},
		{"a model call without a kind", []spanOf{{1, 2, 0, 5, 6, "", []string{"llm.model_name", "m", "llm.output_messages.0.message.content", "hello"}}},
			[]string{"1 turn -", "1 ask m", "1 reply hello () 0/0", "1 answer hello", "1 end completed hello"}},
		{"parameters as arguments", []spanOf{{1, 2, 0, 5, 6, "TOOL", []string{"tool.name", "get", "tool.parameters", `{"city":"Oslo"}`, "output.value", "r"}}},
			[]string{"1 turn -", `1 wants 0000000000000002 get "Oslo" imported`, "1 got 0000000000000002 r imported", "1 answer -", "1 end completed -"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, file := range [][]byte{fileOf(tt.spans...), protoOf(t, fileOf(tt.spans...))} {
				got, err := Import("f", file)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tt.want, lines(got[0])); d != "" {
					t.Errorf("want -, got +\n%s", d)
				}
			}
		})
	}
}

// TestMemorySpansAreCalls: what an agent says of its memory is a call of a tool by the
// name of the operation, with records as arguments where it writes and as the result
// where it searches.
func TestMemorySpansAreCalls(t *testing.T) {
	records := `[{"id":"r1","content":"Ana likes tea"}]`
	file := fileOf([]spanOf{
		{1, 1, 0, 1, 100, "AGENT", nil},
		{1, 2, 1, 5, 10, "", []string{"gen_ai.operation.name", "search_memory", "gen_ai.memory.store.id", "s", "gen_ai.memory.query.text", "tea", "gen_ai.memory.records", records}},
		{1, 3, 1, 11, 12, "", []string{"gen_ai.operation.name", "upsert_memory", "gen_ai.memory.store.id", "s", "gen_ai.memory.records", records}},
		{1, 4, 1, 13, 14, "", []string{"gen_ai.operation.name", "delete_memory", "gen_ai.memory.record.id", "r1"}},
		{1, 5, 1, 15, 16, "", []string{"gen_ai.operation.name", "forget_everything"}},
	}...)
	for i, file := range [][]byte{file, protoOf(t, file)} {
		budget := &foreign.Budget{Left: 1 << 20}
		batch, err := otel.ParseJSON(file)
		if i == 1 {
			batch, err = otel.ParseProtobuf(file, budget)
		}
		if err != nil {
			t.Fatal(err)
		}
		calls, err := otel.ToolCalls(budget, batch)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range calls {
			got = append(got, fmt.Sprintf("%s %s = %s", c.Result.Name, c.Result.Args, c.Result.Sent))
		}
		want := []string{
			`search_memory {"query":"tea","store":"s"} = ` + records,
			`upsert_memory {"records":` + records + `,"store":"s"} = `,
			`delete_memory {"record":"r1"} = `,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("want -, got +\n%s", d)
		}
	}
}

// TestAFailedTurnThatWasFollowedIsNotAFailedRun, and the last one is.
func TestAFailedTurnThatWasFollowedIsNotAFailedRun(t *testing.T) {
	failed := func(trace, start int) []spanOf {
		return []spanOf{{trace, 1, 0, start, start + 5, "AGENT", []string{"session.id", "c", "input.value", "ask", "error.type", "timeout"}}}
	}
	list, err := Import("f", fileOf(slices.Concat(failed(1, 10), turnOf(2, 30, "session.id", "c", "two"))...))
	if err != nil {
		t.Fatal(err)
	}
	got := lines(list[0])
	if got[len(got)-1] != "2 end completed two" || !strings.Contains(string(list[0].Trajectory), `"type":"error"`) {
		t.Errorf("got %q", got)
	}
	if list, err = Import("f", fileOf(slices.Concat(turnOf(1, 10, "session.id", "c", "one"), failed(2, 30))...)); err != nil {
		t.Fatal(err)
	}
	if got = lines(list[0]); got[len(got)-1] != "2 failed timeout" {
		t.Errorf("got %q", got)
	}
}

// TestAnAttributeThatIsThereTwiceIsRefused: two readers would believe two values.
func TestAnAttributeThatIsThereTwiceIsRefused(t *testing.T) {
	span := func(attributes string) string {
		return string(otlp(`{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001","name":"s","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}` + attributes + `]}`))
	}
	answer := func(s string) string { return `,{"key":"gen_ai.completion","value":{"stringValue":"` + s + `"}}` }
	for name, file := range map[string]string{
		"twice":                 span(answer("one") + answer("two")),
		"twice the same":        span(answer("one") + answer("one")),
		"of two types":          span(`,{"key":"gen_ai.completion","value":{"stringValue":"one","intValue":"2"}}`),
		"within a value":        span(`,{"key":"x","value":{"kvlistValue":{"values":[{"key":"a","value":{"intValue":1}},{"key":"a","value":{"intValue":2}}]}}}`),
		"within a list":         span(`,{"key":"x","value":{"arrayValue":{"values":[{"kvlistValue":{"values":[{"key":"a","value":{}},{"key":"a","value":{}}]}}]}}}`),
		"of a resource":         `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"a"}},{"key":"service.name","value":{"stringValue":"b"}}]},"scopeSpans":[]}]}`,
		"of an event":           strings.Replace(span(""), `"attributes"`, `"events":[{"name":"e","attributes":[{"key":"a","value":{}},{"key":"a","value":{}}]}],"attributes"`, 1),
		"in the JSON of a text": span(`,{"key":"gen_ai.output.messages","value":{"stringValue":"[{\"role\":\"assistant\",\"content\":\"a\",\"content\":\"b\"}]"}}`),
		"flat and in a list":    span(`,{"key":"llm.output_messages","value":{"stringValue":"[{\"message.content\":\"a\"}]"}},{"key":"llm.output_messages.0.message.content","value":{"stringValue":"b"}}`),
		"of Phoenix":            `[{"context":{"trace_id":"t","span_id":"s"},"attributes":{"llm.model_name":"m","llm":{"model_name":"n"}}}]`,
	} {
		if _, err := Import("f", []byte(file)); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := fileOf(spanOf{1, 1, 0, 1, 2, "LLM", []string{"llm.model_name", "m", "llm.model_name", "n"}})
	if _, err := Import("f", protoOf(t, twice)); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "llm.model_name") {
		t.Errorf("in protobuf: %v", err)
	}
}

// TestNoMemberMayBeThereTwice doubles every member of every format.
func TestNoMemberMayBeThereTwice(t *testing.T) {
	for _, name := range []string{"current.json", "events.json", "indexed.json", "openinference.json", "phoenix.json", "atif.json"} {
		files, err := doubled.Every(load(t, name))
		if err != nil || len(files) < 10 {
			t.Fatalf("%s: %d members, %v", name, len(files), err)
		}
		for _, f := range files {
			if _, err := Import(name, f.Data); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "twice") || !strings.Contains(err.Error(), name+": line ") {
				t.Errorf("%s, %s: got %v", name, f.Path, err)
			}
		}
	}
}

// TestTheSampleOfPhoenix reads a real file, if the shared samples are here.
func TestTheSampleOfPhoenix(t *testing.T) {
	data, err := os.ReadFile("../../../../shared/samples/phoenix-openinference/pxi_turn_trace.json")
	if err != nil {
		t.Skip("no shared samples here")
	}
	list, err := Import("pxi", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].ID != "fixture-session" {
		t.Fatalf("%d trajectories, the first %s", len(list), list[0].ID)
	}
	got := strings.Join(lines(list[0]), "\n")
	for _, want := range []string{"1 turn can you save this trace to a dataset?", "1 ask claude-fable-5", "1 wants call-04 list_datasets", "1 got call-04 {\"datasets\"", "end completed Done! I created the dataset"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}

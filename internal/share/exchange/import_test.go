package exchange

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/foreign"
)

func load(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func importFile(t testing.TB, name string) []foreign.Trajectory {
	t.Helper()
	out, err := Import(name, load(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// lines tells a trajectory in a few words for each event that matters here.
func lines(i foreign.Trajectory) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	head := func(c *trajectory.Content) string {
		if c == nil {
			return "-"
		}
		return c.Head
	}
	for e := range i.Verified.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.TurnStarted:
			add("%d turn %s", e.Turn, head(p.Input))
		case *trajectory.TurnCompleted:
			add("%d answer %s", e.Turn, head(p.Answer))
		case *trajectory.ModelCallStarted:
			add("%d ask %s", e.Turn, p.Model)
		case *trajectory.ModelCallCompleted:
			add("%d reply %s (%s) %d/%d", e.Turn, p.Output.Head, p.FinishReason, p.TokensIn, p.TokensOut)
		case *trajectory.ToolProposed:
			add("%d wants %s %s %s %s", e.Turn, p.Call, p.Name, p.Args.Values["city"], p.Trust)
		case *trajectory.ToolExecuted:
			add("%d got %s %s %s", e.Turn, p.Call, p.Result.Head, p.Trust)
		case *trajectory.HandedOff:
			add("%d handoff %s to %s", e.Turn, p.From, p.To)
		case *trajectory.RunCompleted:
			add("%d end %s %s", e.Turn, p.Status, head(p.Answer))
		case *trajectory.RunFailed:
			add("%d failed %s", e.Turn, p.Detail)
		}
	}
	return out
}

const toolReply = `{"tool_calls":[{"args":"{\"city\":\"Oslo\"}","name":"get_weather"}]}`

// weather is the run that every fixture tells in its own way.
func weather(model string, tokens [4]int, firstFinish, lastFinish string, order ...string) []string {
	return []string{
		"1 turn Weather in Oslo?",
		"1 ask " + model,
		fmt.Sprintf("1 reply %s (%s) %d/%d", toolReply, firstFinish, tokens[0], tokens[1]),
		`1 wants call_1 get_weather "Oslo" imported`,
		`1 got call_1 {"temperature":-3} imported`,
		"1 ask " + model,
		fmt.Sprintf("1 reply It is -3 degrees. (%s) %d/%d", lastFinish, tokens[2], tokens[3]),
		"1 answer It is -3 degrees.",
		"1 end completed It is -3 degrees.",
	}
}

func TestBothGenerationsAndATIFTellTheSameRun(t *testing.T) {
	for _, tt := range []struct {
		file   string
		format foreign.Format
		id     string
		target string
		want   []string
	}{
		{"current.json", foreign.OTLPJSON, "5b8efff798038103d269b633813fc60c", "forecaster", weather("gpt-4o", [4]int{31, 12, 60, 9}, "tool_calls", "stop")},
		{"events.json", foreign.OTLPJSON, "00000000000000000000000000000001", "unknown", weather("m", [4]int{5, 6, 0, 0}, "tool_calls", "stop")},
		{"indexed.json", foreign.OTLPJSON, "00000000000000000000000000000002", "unknown", weather("m", [4]int{}, "tool_calls", "stop")},
		{"openinference.json", foreign.OTLPJSON, "5b8efff798038103d269b633813fc60e", "forecaster", weather("gpt-4o", [4]int{31, 12, 60, 9}, "tool_calls", "stop")},
		{"phoenix.json", foreign.Phoenix, "trace-1", "forecaster", weather("gpt-4o", [4]int{31, 12, 60, 9}, "tool_calls", "stop")},
		{"atif.json", foreign.ATIF, "s-1", "forecaster@2.0", weather("gpt-4o", [4]int{31, 12, 60, 9}, "tool_calls", "")},
	} {
		t.Run(tt.file, func(t *testing.T) {
			got := importFile(t, tt.file)[0]
			if d := cmp.Diff(tt.want, lines(got)); d != "" {
				t.Errorf("want -, got +\n%s", d)
			}
			if got.Source.Format != tt.format || got.Source.Name != tt.file || got.Source.Digest != digest.IDOf(load(t, tt.file)) || got.ID != tt.id {
				t.Errorf("source %+v, id %s", got.Source, got.ID)
			}
			first := firstEvent(got)
			if first.Class != foreign.Class || first.Target != tt.target || !first.Policy.IsZero() {
				t.Errorf("started %+v", first)
			}
			if got.Verified.Pinned() || !got.Verified.Complete() {
				t.Error("an imported trajectory is complete and nothing vouches for it")
			}
			if !bytes.Contains(got.Trajectory, []byte(got.Source.Digest.String())) {
				t.Error("the trajectory does not say what it was made of")
			}
			if _, err := trajectory.Replay(got.Verified, got.Verified.Turns()); err != nil {
				t.Error(err)
			}
		})
	}
}

func firstEvent(i foreign.Trajectory) trajectory.RunStarted {
	for e := range i.Verified.Events() {
		return *e.Payload.(*trajectory.RunStarted)
	}
	return trajectory.RunStarted{}
}

func TestWhatHasNoPlaceIsCounted(t *testing.T) {
	for _, tt := range []struct {
		file string
		want map[string]int
	}{
		{"current.json", map[string]int{"attribute server.address": 1, "message part reasoning": 1, "span of the operation embeddings": 1, "spans that belong to no conversation with an agent or a model": 1}},
		{"indexed.json", map[string]int{}},
		{"openinference.json", map[string]int{"attribute user.id": 1, "attribute llm.system": 2, "attribute llm.invocation_parameters": 1, "attribute llm.tools.N.tool.json_schema": 2,
			"attribute llm.token_count.total": 1, "attribute tool.description": 1, "attribute embedding.model_name": 1, "span of the kind EMBEDDING": 1}},
		{"atif.json", map[string]int{"reasoning_content": 1, "tool definition": 1, "message part image": 1, "total_steps is not what the steps add up to": 1}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			i := importFile(t, tt.file)[0]
			got := map[string]int{}
			for _, n := range i.Notes {
				got[n.What] = n.Count
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("want -, got +\n%s", d)
			}
			if len(tt.want) > 0 && !bytes.Contains(i.Trajectory, []byte("import.unmapped")) {
				t.Error("the trajectory does not say that something was left out")
			}
		})
	}
}

func TestEvaluationsAreKept(t *testing.T) {
	for _, file := range []string{"current.json", "openinference.json", "phoenix.json"} {
		got := importFile(t, file)[0].Evaluations
		if len(got) != 1 || got[0].Name != "Relevance" || got[0].Score == nil || *got[0].Score != 0.75 || got[0].Label != "relevant" {
			t.Errorf("%s: got %+v", file, got)
		}
	}
}

func TestSubagentsOfATIFAreTrajectoriesOfTheirOwn(t *testing.T) {
	got := importFile(t, "atif.json")
	if len(got) != 2 || got[1].ID != "sub" || firstEvent(got[1]).Target != "helper@1" {
		t.Fatalf("got %d trajectories", len(got))
	}
	want := []string{"1 turn -", "1 ask unknown", "1 reply done () 0/0", "1 answer done", "1 end completed done"}
	if d := cmp.Diff(want, lines(got[1])); d != "" {
		t.Error(d)
	}
}

// TestATIFStepsThatWereCopiedAreNotDoneTwice: a continued session repeats what
// the one before it did.
func TestATIFStepsThatWereCopiedAreNotDoneTwice(t *testing.T) {
	doc := `{"schema_version":"ATIF-v1.6","session_id":"s","agent":{"name":"a","version":"1"},"steps":[
{"step_id":1,"source":"user","message":"go","is_copied_context":true},
{"step_id":2,"source":"agent","message":"x","is_copied_context":true,"tool_calls":[{"tool_call_id":"c","function_name":"pay","arguments":{}}]},
{"step_id":3,"source":"agent","message":"by hand","llm_call_count":0},
{"step_id":4,"source":"agent","message":"done"}]}`
	got, err := Import("x", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1 turn -", "1 ask unknown", "1 reply done () 0/0", "1 answer done", "1 end completed done"}
	if d := cmp.Diff(want, lines(got[0])); d != "" {
		t.Error(d)
	}
}

// otlp makes an OTLP file of spans that are given as JSON.
func otlp(spans ...string) []byte {
	return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Join(spans, ",") + `]}]}]}`)
}

func spanJSON(id, parent int, start, end int, op string, attrs ...string) string {
	list := []string{fmt.Sprintf(`{"key":"gen_ai.operation.name","value":{"stringValue":%q}}`, op)}
	for i := 0; i+1 < len(attrs); i += 2 {
		list = append(list, fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, attrs[i], attrs[i+1]))
	}
	up := ""
	if parent > 0 {
		up = fmt.Sprintf(`"parentSpanId":"%016x",`, parent)
	}
	return fmt.Sprintf(`{"traceId":"%032x","spanId":"%016x",%s"name":"s%d","startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[%s]}`,
		7, id, up, id, start*1e6, end*1e6, strings.Join(list, ","))
}

func TestTurnsAndHandoffs(t *testing.T) {
	user := func(texts ...string) string {
		var list []string
		for _, s := range texts {
			list = append(list, fmt.Sprintf(`{"role":"user","content":%q}`, s))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	for _, tt := range []struct {
		name string
		file []byte
		want []string
	}{
		{"each agent that no other agent called is a turn", otlp(
			spanJSON(1, 0, 1, 100, "invoke_workflow"),
			spanJSON(3, 1, 50, 90, "invoke_agent", "gen_ai.agent.name", "a", "gen_ai.input.messages", user("two"), "gen_ai.output.messages", "2"),
			spanJSON(2, 1, 10, 40, "invoke_agent", "gen_ai.agent.name", "a", "gen_ai.input.messages", user("one"), "gen_ai.output.messages", "1")),
			[]string{"1 turn one", "1 answer 1", "2 turn two", "2 answer 2", "2 end completed 2"}},
		{"an agent that an agent called is a hand-off", otlp(
			spanJSON(1, 0, 1, 100, "invoke_agent", "gen_ai.agent.name", "a"),
			spanJSON(2, 1, 10, 40, "invoke_agent", "gen_ai.agent.name", "b"),
			spanJSON(3, 2, 11, 39, "invoke_agent", "gen_ai.agent.name", "b"),
			spanJSON(4, 3, 12, 38, "chat", "gen_ai.request.model", "m", "gen_ai.output.messages", "inner"),
			spanJSON(5, 1, 50, 60, "chat", "gen_ai.request.model", "m", "gen_ai.input.messages", user("go"), "gen_ai.output.messages", "outer")),
			[]string{"1 turn go", "1 handoff a to b", "1 ask m", "1 reply inner () 0/0", "1 ask m", "1 reply outer () 0/0", "1 answer outer", "1 end completed outer"}},
		{"without agents a new message of the user is a turn", otlp(
			spanJSON(1, 0, 1, 2, "chat", "gen_ai.request.model", "m", "gen_ai.input.messages", user("one"), "gen_ai.output.messages", "1"),
			spanJSON(2, 0, 3, 4, "chat", "gen_ai.request.model", "m", "gen_ai.input.messages", user("one"), "gen_ai.output.messages", "1b"),
			spanJSON(3, 0, 5, 6, "chat", "gen_ai.request.model", "m", "gen_ai.input.messages", user("one", "one"), "gen_ai.output.messages", "2")),
			[]string{"1 turn one", "1 ask m", "1 reply 1 () 0/0", "1 ask m", "1 reply 1b () 0/0", "1 answer 1b", "2 turn one", "2 ask m", "2 reply 2 () 0/0", "2 answer 2", "2 end completed 2"}},
		{"a failed agent is a failed run", otlp(
			spanJSON(1, 0, 1, 100, "invoke_agent", "gen_ai.agent.name", "a", "error.type", "timeout")),
			[]string{"1 turn -", "1 answer -", "1 failed timeout"}},
		{"the client's and the server's span of a tool are one call", otlp(
			spanJSON(1, 0, 1, 100, "execute_tool", "gen_ai.tool.name", "get", "gen_ai.tool.call.result", "r"),
			spanJSON(2, 1, 2, 99, "execute_tool", "gen_ai.tool.name", "get", "gen_ai.tool.call.result", "r")),
			[]string{"1 turn -", "1 wants 0000000000000001 get null imported", "1 got 0000000000000001 r imported", "1 answer -", "1 end completed -"}},
		{"an answer that is JSON stays as it is", otlp(
			spanJSON(1, 0, 1, 2, "chat", "gen_ai.request.model", "m", "gen_ai.completion", `{"total": 5}`)),
			[]string{"1 turn -", "1 ask m", `1 reply {"total": 5} () 0/0`, `1 answer {"total": 5}`, `1 end completed {"total": 5}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Import("x", tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, lines(got[0])); d != "" {
				t.Errorf("want -, got +\n%s", d)
			}
		})
	}
}

// TestLogRecordsAreMessages: before 1.37 messages were log records, with a
// body, in a document of their own.
func TestLogRecordsAreMessages(t *testing.T) {
	record := func(event, body string) string {
		return fmt.Sprintf(`{"timeUnixNano":"1","eventName":%q,"traceId":"%032x","spanId":"%016x","body":{"kvlistValue":{"values":[{"key":"content","value":{"stringValue":%q}}]}}}`, event, 7, 1, body)
	}
	choice := fmt.Sprintf(`{"timeUnixNano":"1","eventName":"gen_ai.choice","traceId":"%032x","spanId":"%016x","body":{"kvlistValue":{"values":[{"key":"finish_reason","value":{"stringValue":"stop"}},{"key":"message","value":{"kvlistValue":{"values":[{"key":"content","value":{"stringValue":"hello"}}]}}}]}}}`, 7, 1)
	stray := fmt.Sprintf(`{"timeUnixNano":"1","eventName":"x","traceId":"%032x","spanId":"%016x"}`, 7, 99)
	logs := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + record("gen_ai.user.message", "hi") + "," + choice + "," + stray + `]}]}]}`
	file := append(append([]byte(logs), '\n'), otlp(spanJSON(1, 0, 1, 2, "chat", "gen_ai.request.model", "m"))...)
	got, err := Import("x", file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1 turn hi", "1 ask m", "1 reply hello (stop) 0/0", "1 answer hello", "1 end completed hello"}
	if d := cmp.Diff(want, lines(got[0])); d != "" {
		t.Error(d)
	}
	if n := got[0].Notes; len(n) != 1 || n[0].What != "log records that belong to no span of the file" {
		t.Errorf("notes %+v", n)
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat(`{"arrayValue":{"values":[`, 60) + strings.Repeat(`]}}`, 60)
	for _, tt := range []struct {
		name string
		file string
		want refusal.Name
		text string
	}{
		{"nothing", "", refusal.Unrecognised, "neither"},
		{"a text", "hello", refusal.Unrecognised, "neither"},
		{"another JSON document", `{"a":1}`, refusal.Unrecognised, "neither"},
		{"a list", `[]`, refusal.Unrecognised, "neither"},
		{"broken JSON", `{"resourceSpans":[`, refusal.Malformed, "not JSON"},
		{"a name twice", `{"resourceSpans":[],"resourceSpans":[]}`, refusal.Malformed, "duplicate"},
		{"no spans", `{"resourceSpans":[]}`, refusal.Unrecognised, "0 spans"},
		{"spans of something else", string(otlp(`{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001","name":"GET /"}`)), refusal.Unrecognised, "none of which has attributes of the OpenTelemetry GenAI or OpenInference conventions"},
		{"a short id", string(otlp(`{"traceId":"01","spanId":"0000000000000001"}`)), refusal.Malformed, "expected 32 hexadecimal digits"},
		{"a zero id", string(otlp(`{"traceId":"00000000000000000000000000000000","spanId":"0000000000000001"}`)), refusal.Malformed, "zero"},
		{"a negative time", string(otlp(`{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001","startTimeUnixNano":"-1"}`)), refusal.Malformed, "nanoseconds since 1970"},
		{"values nested too deep", string(otlp(`{"attributes":[{"key":"a","value":` + deep + `}]}`)), refusal.TooLarge, "nested deeper"},
		{"ATIF of another major version", `{"schema_version":"ATIF-v2.0","steps":[]}`, refusal.Malformed, "expected ATIF-v1.0 to ATIF-v1.7"},
		{"ATIF without steps", `{"schema_version":"ATIF-v1.0","steps":[]}`, refusal.Malformed, "has no steps"},
		{"ATIF of an unknown source", `{"schema_version":"ATIF-v1.0","steps":[{"step_id":1,"source":"ghost"}]}`, refusal.Malformed, "expected system, user or agent"},
		{"ATIF with NaN", `{"schema_version":"ATIF-v1.0","steps":[{"step_id":NaN}]}`, refusal.Malformed, "not JSON"},
		{"protobuf that is cut off", "\n\xff", refusal.Unrecognised, "not an OTLP protobuf message"},
		{"protobuf without spans", "\n\x00", refusal.Unrecognised, "neither"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Import("f", []byte(tt.file))
			if !refusal.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) || !strings.Contains(err.Error(), "f: ") {
				t.Errorf("got %v, want %s with %q", err, tt.want, tt.text)
			}
		})
	}
}

func TestAFileOfTooManyValuesIsRefused(t *testing.T) {
	file := []byte(`{"resourceSpans":[` + strings.Repeat("{},", foreign.MaxElements) + `{}]}`)
	if _, err := Import("f", file); !refusal.Is(err, refusal.TooLarge) || !strings.Contains(err.Error(), "in one list") {
		t.Errorf("got %v", err)
	}
	list := `"a":[` + strings.Repeat("{},", foreign.MaxElements-1) + `{}]`
	file = []byte(`{"resourceSpans":[` + strings.Repeat("{"+list+"},", foreign.MaxParts/foreign.MaxElements/2) + `{}]}`)
	if _, err := Import("f", file); !refusal.Is(err, refusal.TooLarge) || !strings.Contains(err.Error(), "values") {
		t.Errorf("got %v", err)
	}
	if _, err := Import("f", make([]byte, foreign.MaxBytes+1)); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("got %v", err)
	}
	file = []byte(`{"schema_version":"ATIF-v1.0","steps":[` + strings.Repeat("{},", 50_000) + `{}]}`)
	if _, err := Import("f", file); !refusal.Is(err, refusal.TooLarge) || !strings.Contains(err.Error(), "steps") {
		t.Errorf("got %v", err)
	}
	// The same within a text within the file.
	inner := strings.Repeat("[],", foreign.MaxParts/2)
	file = otlp(spanJSON(1, 0, 1, 2, "chat", "gen_ai.request.model", "m", "gen_ai.input.messages", "["+inner+"[]]"))
	if _, err := Import("f", file); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("got %v", err)
	}
}

// TestHostileTreesEnd: spans that are each other's parents, a chain as deep as
// the file is long, the same span twice.
func TestHostileTreesEnd(t *testing.T) {
	got, err := Import("f", otlp(spanJSON(1, 2, 1, 5, "invoke_agent", "gen_ai.agent.name", "a"), spanJSON(2, 1, 2, 4, "invoke_agent", "gen_ai.agent.name", "b"),
		spanJSON(3, 3, 2, 4, "chat", "gen_ai.request.model", "m"), spanJSON(3, 3, 2, 4, "chat", "gen_ai.request.model", "m"), spanJSON(4, 77, 2, 4, "chat", "gen_ai.request.model", "m")))
	if err != nil {
		t.Fatal(err)
	}
	notes := fmt.Sprint(got[0].Notes)
	for _, want := range []string{"each other's parents", "there twice", "parent is not in the file"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes %s, want one with %q", notes, want)
		}
	}
	var chain []string
	for i := 1; i <= 20_000; i++ {
		chain = append(chain, spanJSON(i, i-1, i, 100_000, "execute_tool", "gen_ai.tool.name", "t"))
	}
	if _, err := Import("f", otlp(chain...)); err != nil {
		t.Fatal(err)
	}
}

func TestLongTextsAreKept(t *testing.T) {
	long := strings.Repeat("æ", 30_000)
	got, err := Import("f", otlp(spanJSON(1, 0, 1, 2, "execute_tool", "gen_ai.tool.name", "t", "gen_ai.tool.call.arguments", `{"b" : "`+long+`"}`, "gen_ai.tool.call.result", long)))
	if err != nil {
		t.Fatal(err)
	}
	for e := range got[0].Verified.Events() {
		p, ok := e.Payload.(*trajectory.ToolExecuted)
		if !ok {
			continue
		}
		if text, ok := got[0].Content(p.Result.Digest); !ok || string(text) != long {
			t.Error("the result is not kept")
		}
		if text, ok := got[0].Content(p.Args.Digest); !ok || digest.ContentOf(text) != p.Args.Digest {
			t.Error("the arguments are not kept under their digest")
		}
	}
}

func TestIsOurs(t *testing.T) {
	ours := importFile(t, "current.json")[0].Trajectory
	if !IsOurs(ours) || !IsOurs(append([]byte(" "), ours...)) || !IsOurs([]byte(`{"payload":{}}`)) || IsOurs(load(t, "current.json")) || IsOurs(load(t, "atif.json")) {
		t.Error("a trajectory of ours is not told from others")
	}
}

// TestTheSampleOfHarbor reads a real file, if the shared samples are here.
func TestTheSampleOfHarbor(t *testing.T) {
	data, err := os.ReadFile("../../../../shared/samples/harbor-atif/openhands_hello-world.trajectory.json")
	if err != nil {
		t.Skip("no shared samples here")
	}
	got, err := Import("openhands", data)
	if err != nil {
		t.Fatal(err)
	}
	told := strings.Join(lines(got[0]), "\n")
	for _, want := range []string{"1 turn Create a file called hello.txt", "wants call_fake_1 str_replace_editor", "got call_fake_1 File created successfully", "wants call_fake_2 finish", "end completed All done!"} {
		if !strings.Contains(told, want) {
			t.Errorf("want %q in\n%s", want, told)
		}
	}
	for e := range got[0].Verified.Events() {
		if p, ok := e.Payload.(*trajectory.ModelCallCompleted); ok && p.CostMicroUSD != 750 && p.CostMicroUSD != 600 {
			t.Errorf("cost %d", p.CostMicroUSD)
		}
	}
}

func FuzzImport(f *testing.F) {
	for _, name := range []string{"current.json", "events.json", "indexed.json", "openinference.json", "phoenix.json", "atif.json"} {
		f.Add(load(f, name))
	}
	f.Add(protoOf(f, load(f, "current.json")))
	f.Add(otlp(spanJSON(1, 2, 1, 5, "invoke_agent"), spanJSON(2, 1, 2, 4, "execute_tool")))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Import("f", data)
		if err != nil {
			if n := refusal.Of(err).Name; n != refusal.Malformed && n != refusal.TooLarge && n != refusal.Unrecognised && n != refusal.NewerFormat {
				t.Fatalf("refused as %s: %v", n, err)
			}
			return
		}
		again, err := Import("other", data)
		if err != nil || len(again) != len(out) {
			t.Fatalf("the second time: %d of %d, %v", len(again), len(out), err)
		}
		for i, o := range out {
			v, err := trajectory.Verify(o.Trajectory, trajectory.UnsafeAnyHead())
			if err != nil {
				t.Fatal(err)
			}
			if !v.Complete() || firstEvent(o).Class != foreign.Class {
				t.Fatal("an imported trajectory is complete and says that it was imported")
			}
			if !bytes.Equal(again[i].Trajectory, o.Trajectory) {
				t.Fatal("the same bytes gave another trajectory")
			}
			if _, err := trajectory.Replay(v, v.Turns()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

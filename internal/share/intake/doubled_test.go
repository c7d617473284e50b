package intake

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/read/audit"
	"tallystick/internal/record/refusal"
	"tallystick/internal/testing/doubled"
)

const inspectLog = `{"version":2,"status":"success","eval":{"task":"t","model":"m","created":"2026-01-01T00:00:00Z","config":{"epochs":1}},
"stats":{"completed_at":"2026-01-01T00:01:00Z","model_usage":{"m":{"input_tokens":1}}},
"samples":[{"id":1,"epoch":1,"input":"What is 1 + 1?","target":"2","messages":[{"role":"user","content":"What is 1 + 1?"},
{"role":"assistant","content":[{"type":"text","text":"2"}],"tool_calls":[{"id":"c","function":"add","arguments":{"a":1}}]},{"role":"tool","function":"add","content":"2","error":null}],
"output":{"completion":"2","choices":[{"message":{"role":"assistant"}}]},"scores":{"match":{"value":"C","answer":"2"}},"attachments":{"x":"y"},"events":[{"event":"model","output":{"a":1}}]}]}`

// TestNoMemberOfALogMayBeThereTwice: in the log of another harness that is audited, whether
// the audit looks at the member or not.
func TestNoMemberOfALogMayBeThereTwice(t *testing.T) {
	run := func(data string) error {
		path := filepath.Join(t.TempDir(), "log.json")
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := Files{}.Log(path)
		if err != nil {
			return err
		}
		_, err = audit.Run(context.Background(), in)
		return err
	}
	if err := run(inspectLog); err != nil {
		t.Fatal(err)
	}
	files, err := doubled.Every([]byte(inspectLog))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d members, %v", len(files), err)
	}
	for _, f := range files {
		if err := run(string(f.Data)); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "twice") || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: got %v", f.Path, err)
		}
	}
}

// TestAFolderOfTracesIsAudited: a conversation in two files is one task of the audit.
func TestAFolderOfTracesIsAudited(t *testing.T) {
	span := func(trace, start, said string) string {
		text := func(key, value string) string { return `{"key":"` + key + `","value":{"stringValue":"` + value + `"}}` }
		return `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"` + strings.Repeat("0", 31) + trace + `","spanId":"0000000000000001","name":"agent","startTimeUnixNano":"` + start + `","endTimeUnixNano":"` + start + `0","attributes":[` +
			strings.Join([]string{text("openinference.span.kind", "AGENT"), text("session.id", "chat"), text("input.value", "ask "+said), text("output.value", said)}, ",") + `]}]}]}]}`
	}
	dir := t.TempDir()
	for name, data := range map[string]string{"1.json": span("1", "100", "one"), "2.json": span("2", "2000", "two")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, err := Files{}.Log(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := in.Results.Open()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := io.ReadAll(r)
	if err != nil || strings.Count(string(rows), "\n") != 1 || !strings.Contains(string(rows), `"task_id":"chat"`) || !strings.Contains(string(rows), `"answer":"two"`) {
		t.Errorf("got %s, %v", rows, err)
	}
	if _, err := audit.Run(context.Background(), in); err != nil {
		t.Error(err)
	}
	if _, err := (Files{}).Log(t.TempDir()); !refusal.Is(err, refusal.Unrecognised) {
		t.Errorf("an empty folder: %v", err)
	}
}

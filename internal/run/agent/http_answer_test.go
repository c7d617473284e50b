package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/vantage"
)

func TestAnswersOfHTTPAgents(t *testing.T) {
	for _, tt := range []struct {
		name, body, want string
		refused          bool
	}{
		{"ours", `{"answer":"Oslo"}`, "Oslo", false},
		{"ours, declined", `{"answer":"no","refused":true}`, "no", true},
		{"ours, empty", `{"answer":""}`, "", false},
		{"OpenAI chat", `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Oslo"}}]}`, "Oslo", false},
		{"OpenAI chat, declined", `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":null,"refusal":"I will not"}}]}`, "I will not", true},
		{"OpenAI responses", `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Oslo","annotations":[]}]}]}`, "Oslo", false},
		{"Anthropic", `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Oslo"}],"stop_reason":"end_turn"}`, "Oslo", false},
	} {
		got, refused, err := parseHTTPAnswer(1, []byte(tt.body))
		if err != nil || got != tt.want || refused != tt.refused {
			t.Errorf("%s: %q, %v, %v", tt.name, got, refused, err)
		}
	}
	for _, body := range []string{`{}`, `{"answer":7}`, `[]`, `Oslo`, "{\"answer\":\"\xff\"}", `{"choices":[]}`, `{"content":[]}`,
		`{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t","name":"f","input":{}}],"stop_reason":"tool_use"}`} {
		if got, _, err := parseHTTPAnswer(1, []byte(body)); !refusal.Is(err, refusal.AgentFailed) {
			t.Errorf("%s: %q, %v", body, got, err)
		}
	}
}

func TestATurnCarriesMessagesThatAModelTakes(t *testing.T) {
	got, err := json.Marshal(newHTTPTurn(2, "and?", []httpMessage{{"user", "hi"}, {"agent", "yes"}}, nil))
	want := `{"turn":2,"input":"and?","history":[{"role":"user","text":"hi"},{"role":"agent","text":"yes"}],` +
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"and?"}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

// TestWhatTheAskingProcessReports: its error is the case's, its scores are numbers from
// 0 to 1 with a name, each once, and anything else is an error of the case.
func TestWhatTheAskingProcessReports(t *testing.T) {
	got, err := parseReported(1, []byte(`{"answer":"Oslo","scores":[{"name":"close","score":0.25,"reason":"near"},{"name":"style","skipped":true}]}`))
	if err != nil || got.text != "Oslo" || len(got.scores) != 2 || *got.scores[0].Score != 0.25 || !got.scores[1].Skipped {
		t.Errorf("%+v, %v", got, err)
	}
	for body, want := range map[string]string{
		`{"error":"ValueError: no"}`:    "the task failed: ValueError: no",
		`{"answer":"x","error":"late"}`: "the task failed: late",
		`{}`:                            "expected JSON",
		`{"answer":null}`:               "expected JSON",
		`{"answer":"x","scores":[{"name":"a","score":1.1}]}`:              "expected 0 to 1",
		`{"answer":"x","scores":[{"name":"a","score":-0.1}]}`:             "expected 0 to 1",
		`{"answer":"x","scores":[{"name":"a","score":NaN}]}`:              "expected JSON",
		`{"answer":"x","scores":[{"name":"a","score":1e999}]}`:            "expected JSON",
		`{"answer":"x","scores":[{"name":"a","score":"1"}]}`:              "expected JSON",
		`{"answer":"x","scores":[{"score":1}]}`:                           "name",
		`{"answer":"x","scores":[{"name":"a"},{"name":"a"}]}`:             "twice",
		`{"answer":"x","scores":[{"name":"a","score":1,"skipped":true}]}`: "skipped",
		"{\"answer\":\"\xff\"}":                                           "expected JSON",
	} {
		if _, err := parseReported(1, []byte(body)); !refusal.Is(err, refusal.AgentFailed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestATargetInTheAskingProcess: it names no URL, its digest does not depend on where
// it listens, and it listens on this machine or is refused.
func TestATargetInTheAskingProcess(t *testing.T) {
	const settings = "version: 1\nkind: http\nhttp: {in_process: true, code: \"sha256:00\"}\n"
	a, err := Parse("task", "targets/task.yaml", []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	before := a.Digest
	for url, want := range map[string]string{
		"":                        "is not set",
		"https://example.com/":    "not on this machine",
		"http://example.com/":     "for this machine only",
		"http://127.0.0.1.nip.io": "for this machine only",
		"ftp://127.0.0.1/":        "expected http",
		"http://u:p@127.0.0.1:1/": "secrets",
	} {
		if err := a.HTTP.Find(func(string) string { return url }); !refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", url, err, want)
		}
	}
	if err := a.HTTP.Find(func(string) string { return "http://127.0.0.1:4711/" }); err != nil || !a.HTTP.Local() {
		t.Fatal(err)
	}
	if err := a.computeDigest(); err != nil || a.Digest != before || a.Vantage() != vantage.Reported || a.HTTP.Isolation() != "none" {
		t.Errorf("digest %s and then %s, vantage %s, isolation %s, %v", before, a.Digest, a.Vantage(), a.HTTP.Isolation(), err)
	}
	for _, bad := range []string{"{in_process: true, url: \"http://127.0.0.1:1/\"}", "{url: \"http://127.0.0.1:1/\", code: \"sha256:00\"}", "{in_process: true, timeout_seconds: -1}", "{code: \"x\"}", "{timeout_seconds: 1}"} {
		if _, err := Parse("task", "targets/task.yaml", []byte("version: 1\nkind: http\nhttp: "+bad+"\n")); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

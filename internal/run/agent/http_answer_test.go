package agent

import (
	"encoding/json"
	"testing"

	"tallystick/internal/record/refusal"
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

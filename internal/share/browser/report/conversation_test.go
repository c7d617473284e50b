package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func event(kind, payload string) string {
	return `{"payload":` + payload + `,"t":1,"turn":1,"type":"` + kind + "\"}\n"
}

// One card for each call, whoever told of it, and each text said once.
func TestAConversationHasOneCardForEachCall(t *testing.T) {
	lines := []string{
		event("turn_started", `{"input":{"head":"When?"}}`),
		event("model_call_completed", `{"call":"c1","output":{"head":"{\"tool_calls\":[]}"}}`),
		event("tool_observed", `{"call":"c1","id":"x","name":"find","args":{"values":{"id":3}}}`),
		event("tool_proposed", `{"call":"c2","id":"x","name":"find","args":{"values":{"id":3}}}`),
		event("policy_decision", `{"call":"c2","verdict":"allow","reason":"fine"}`),
		event("tool_executed", `{"call":"c2","name":"find","args":{"values":{"id":3}},"result":{"head":"nine"}}`),
		event("tool_proposed", `{"call":"c3","name":"find","args":{}}`),
		event("limit_reached", `{"limit":"turns","max":5}`),
		event("model_call_completed", `{"call":"c4","output":{"head":"At nine."}}`),
		event("turn_completed", `{"answer":{"head":"At nine."}}`),
		event("run_completed", `{"answer":{"head":"At nine."}}`),
	}
	var got []string
	for _, item := range talkOf(lines) {
		got = append(got, fmt.Sprintf("%s %d %t %d", item.role, item.seq, item.result != nil, len(item.decisions)))
	}
	if want := "user 1 false 0, tool 3 true 1, tool 7 false 0, note 8 false 0, assistant 9 false 0"; strings.Join(got, ", ") != want {
		t.Errorf("got %s\nwant %s", strings.Join(got, ", "), want)
	}
}

// What agents, models and tools say is drawn alike by the program and by the script,
// whatever it looks like: a difference would make an honest report red.
func TestTheScriptDrawsEveryConversationAlike(t *testing.T) {
	d := sample(t)
	var lines []string
	for i, text := range []string{
		`{"tool_calls":[{"args":"{}","name":"x"}]}`,
		`{"text":"","tool_calls":[1]}`,
		`{"text":"I look.\nTwice \"so\" \\ <b>é😀","tool_calls":[1]}`,
		`{"text":"\u0041","tool_calls":[1]}`,
		`{"text":"\ud800","tool_calls":[1]}`,
		`{"text":"unfinished","tool_calls"`,
		`{"Tool_calls":[1]}`,
		" \u0085\u2028<script>alert(1)</script>\u202e",
		"plain", "plain",
	} {
		head, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		call := fmt.Sprintf("c%d", i)
		lines = append(lines,
			event("turn_started", fmt.Sprintf(`{"input":{"head":%s}}`, head)),
			event("model_call_completed", fmt.Sprintf(`{"call":%q,"output":{"head":%s}}`, call, head)),
			event("tool_observed", fmt.Sprintf(`{"call":%q,"id":"i%d","name":%s,"args":{"raw":{"head":%s}},"error":true}`, call, i%3, head, head)),
			event("tool_proposed", fmt.Sprintf(`{"call":"t%d","id":"i%d","name":%s,"args":{"values":{"a/b~c":%s,"z":[1,true,null,{"y":%s}]},"cut":{"q":{"head":%s}}}}`, i%4, i%3, head, head, head, head)),
			event("policy_decision", fmt.Sprintf(`{"call":"t%d","verdict":"deny","reason":%s}`, i%4, head)),
			event("approval_resolved", fmt.Sprintf(`{"call":"t%d","approved":false,"by":%s}`, i%4, head)),
			event("tool_executed", fmt.Sprintf(`{"call":"t%d","name":%s,"error":%s,"result":{"head":%s}}`, i%4, head, head, head)),
			event("security_event", fmt.Sprintf(`{"detail":%s}`, head)),
			event("no_such_event", fmt.Sprintf(`{"detail":%s}`, head)))
	}
	lines = append(lines, event("tool_executed", `{}`), event("tool_proposed", `{"call":7}`), event("turn_started", `{"input":{"head":7}}`), event("run_completed", `{"answer":null}`))
	d.Cases[0].Trajectory = strings.Join(lines, "")
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	page := string(render(t, d))
	for _, want := range []string{"I look.\nTwice &#34;so&#34; \\ &lt;b&gt;é😀</pre>", "Approved: ", "Policy: "} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	drawAll(t, true, [][]byte{text})[0].compare(t, d)
}

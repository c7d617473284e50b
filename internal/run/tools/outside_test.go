package tools

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/testing/tape"
)

func player(t testing.TB, text string) *cassette.Player {
	t.Helper()
	c, err := tape.FromYAML("test.yaml", []byte("format: tallystick-cassette/1-draft\ninteractions:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return cassette.NewPlayer(c)
}

func TestRecordedToolsAnswerFromTheCassette(t *testing.T) {
	p := player(t, `
  - tool: {name: search, arguments: {q: cats}, result: [first]}
    latency_ms: 250
  - tool: {name: search, arguments: {q: cats}, error: rate limited}
  - tool: {name: search, result: {}}
`)
	s, err := New(parse(t, `
  - {name: search, class: network, source: cassette, cost_microdollars: 5, schema: {properties: {q: {type: string}}}}
`), "", p, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := call(t, s, "search", `{ "q": "cats" }`)
	if string(first.JSON) != `["first"]` || first.Source != "cassette" || first.Trust != "imported" || first.Latency != 250*time.Millisecond || first.CostMicroUSD != 5 {
		t.Errorf("first: %+v", first)
	}
	if second := call(t, s, "search", `{"q":"cats"}`); second.Error != "rate limited" || second.JSON != nil {
		t.Errorf("second: %+v", second)
	}
	if none := call(t, s, "search", ``); string(none.JSON) != `{}` {
		t.Errorf("without arguments: %+v", none)
	}
	// Arguments that do not fit never reach the cassette.
	if bad := call(t, s, "search", `{"q":1}`); bad.Error == "" {
		t.Errorf("bad arguments: %+v", bad)
	}
	for _, args := range []string{`{"q":"cats"}`, `{"q":"dogs"}`} {
		_, err := s.Call(t.Context(), "search", []byte(args))
		var miss *cassette.Miss
		if !errors.As(err, &miss) || !refusal.Is(err, refusal.CassetteMiss) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestWithoutACassetteRecordedToolsMiss(t *testing.T) {
	s := start(t, "  - {name: search, class: network, source: cassette}\n  - {name: ask, class: network, source: \"mcp:help\"}\n", "")
	for _, name := range []string{"search", "ask"} {
		if _, err := s.Call(t.Context(), name, nil); !refusal.Is(err, refusal.CassetteMiss) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsMatchAtReplay(t *testing.T) {
	redactor, err := cassette.NewRedactor("hunter2-hunter2")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(parse(t, "  - {name: login, class: network, source: cassette}\n"), "", player(t, "  - tool: {name: login, arguments: {word: \"[redacted:literal]\"}, result: in}\n"), redactor)
	if err != nil {
		t.Fatal(err)
	}
	if r := call(t, s, "login", `{"word":"hunter2-hunter2"}`); string(r.JSON) != `"in"` {
		t.Errorf("got %+v", r)
	}
}

const mailServer = `
  - mcp:
      server: mail
      method: tools/call
      params: {name: send, arguments: {to: bob}}
      result: {content: [{type: text, text: "sent\u202e"}], isError: false}
    latency_ms: 30
  - mcp:
      server: mail
      method: tools/call
      params: {name: send, arguments: {to: eve}}
      result: {content: [{type: text, text: denied}, {type: image, data: ""}, {type: text, text: by the server}], isError: true}
  - mcp:
      server: mail
      method: tools/call
      params: {name: list, arguments: {}}
      error: {code: -32000, message: "no mailbox\u001b[2J"}
`

func TestMCPServersAreReplayed(t *testing.T) {
	p := player(t, mailServer)
	s, err := New([]Definition{
		{Name: "send", Class: policy.Network, Source: MCPPrefix + "mail", Trust: Outside, Description: "Sends mail.\U000E0049\U000E0047\U000E004E",
			Schema: []byte("{\"nullable\":true,\"properties\":{\"to\":{\"description\":\"who\u200b\",\"type\":\"string\"}},\"required\":[\"to\"],\"type\":\"object\"}")},
		{Name: "list", Class: policy.Privileged, Source: MCPPrefix + "mail", Trust: Outside, Schema: []byte(`{"type":"object"}`)},
	}, "", p, nil)
	if err != nil {
		t.Fatal(err)
	}
	send, _ := s.Lookup("send")
	if send.Description != "[from untrusted MCP server: mail] Sends mail." || send.Label() != "untrusted" || send.Trust != Outside ||
		string(send.Schema) != `{"nullable":true,"properties":{"to":{"description":"who","type":"string"}},"required":["to"],"type":"object"}` {
		t.Errorf("send is shown as %+v", send)
	}
	var names []string
	for _, f := range s.Findings() {
		names = append(names, f.Name+"/"+string(f.Severity))
		requireEvent(t, f)
	}
	if got := strings.Join(names, " "); got != "hidden_characters/warn schema_keyword_ignored/info hidden_characters/warn" {
		t.Errorf("findings: %v", s.Findings())
	}

	sent := call(t, s, "send", `{"to":"bob"}`)
	if string(sent.JSON) != `{"content":[{"text":"sent","type":"text"}],"isError":false}` || sent.Error != "" || sent.Trust != "untrusted" ||
		sent.Source != "cassette" || sent.Latency != 30*time.Millisecond || len(sent.Findings) != 1 {
		t.Errorf("sent: %+v", sent)
	}
	if r := call(t, s, "send", `{"to":"eve"}`); r.Error != "denied\nby the server" || !strings.Contains(string(r.JSON), `"isError":true`) {
		t.Errorf("denied: %+v", r)
	}
	if r := call(t, s, "list", ``); r.Error != "no mailbox[2J" || r.JSON != nil || len(r.Findings) != 1 {
		t.Errorf("error: %+v", r)
	}
	if r := call(t, s, "send", `{}`); !strings.HasPrefix(r.Error, "bad arguments: to: found nothing") {
		t.Errorf("bad arguments: %+v", r)
	}
	if _, err := s.Call(t.Context(), "send", []byte(`{"to":"dan"}`)); !refusal.Is(err, refusal.CassetteMiss) {
		t.Errorf("miss: %v", err)
	}
	if left := p.Unused(); len(left) != 0 {
		t.Errorf("unused: %v", left)
	}
}

func TestRemoteNames(t *testing.T) {
	s, err := New(parse(t, "  - {name: mail_send, class: network, source: \"mcp:mail\", remote: send}\n"), "",
		player(t, "  - mcp: {server: mail, method: tools/call, params: {name: send, arguments: {}}, result: {content: []}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := call(t, s, "mail_send", ""); r.Error != "" {
		t.Errorf("got %+v", r)
	}
}

// requireEvent wants that a finding can be recorded as it is.
func requireEvent(t *testing.T, f Finding) {
	t.Helper()
	event := trajectory.SecurityEvent{Detail: f.Detail, Name: f.Name, Severity: f.Severity}
	if err := event.Validate(); err != nil {
		t.Errorf("%+v: %v", f, err)
	}
}

func TestHiddenTextIsTakenOutOfWhatComesFromOutside(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		severity       evidence.Severity // none: nothing is found
	}{
		{"ordinary text", "naïve 試験\n\t🙂 e\u0301", "naïve 試験\n\t🙂 e\u0301", ""},
		{"tag characters", "ok\U000E0001\U000E0049\U000E007F", "ok", evidence.Warn},
		{"zero width", "a\u200b\u2060\ufeffb", "ab", evidence.Warn},
		{"direction", "a\u202e\u2066b\u2069\u200f", "ab", evidence.Warn},
		{"the supplement of variation selectors", "a\U000E0100\U000E01EF", "a", evidence.Warn},
		{"variation selectors that carry bytes", "a\ufe00\ufe01\ufe02", "a", evidence.Warn},
		{"an emoji with a selector and joiners", "❤\ufe0f👩\u200d🔬", "❤👩🔬", evidence.Info},
		{"a soft hyphen and fillers", "a\u00ad\u3164\u115fb", "ab", evidence.Warn},
		{"terminal controls", "a\x1b[31m\u009b2J\x00\x7f", "a[31m2J", evidence.Warn},
		{"line ends", "a\r\nb", "a\r\nb", ""},
		{"Unicode line ends", "a\u2028b", "ab", evidence.Warn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			value, err := canon.Marshal(map[string]any{"k" + tt.in: []any{tt.in}})
			if err != nil {
				t.Fatal(err)
			}
			want, _ := canon.Marshal(map[string]any{"k" + tt.want: []any{tt.want}})
			outside := Definition{Name: "x", Trust: Outside, Source: Cassette}
			got := outside.Admit("live", value, "")
			if string(got.JSON) != string(want) || got.Trust != "untrusted" || got.Source != "live" {
				t.Errorf("got %s, want %s", got.JSON, want)
			}
			failed := outside.Admit("live", nil, tt.in)
			if failed.Error != tt.want || failed.JSON != nil {
				t.Errorf("the error is %q", failed.Error)
			}
			for _, r := range []Result{got, failed} {
				if tt.severity == "" && r.Findings != nil || tt.severity != "" && (len(r.Findings) != 1 || r.Findings[0].Severity != tt.severity || r.Findings[0].Name != HiddenCharacters) {
					t.Errorf("findings %+v", r.Findings)
				}
				for _, f := range r.Findings {
					requireEvent(t, f)
				}
			}
			// What the bench wrote is given as it was written.
			bench := Definition{Name: "x", Trust: Bench, Source: Fixture}
			if got := bench.Admit("fixture", value, ""); string(got.JSON) != string(value) || got.Findings != nil || got.Trust != "pinned" {
				t.Errorf("of the bench: %+v", got)
			}
		})
	}
}

func TestNamesThatCleaningMakesEqualAreNotMixedUp(t *testing.T) {
	d := Definition{Name: "x", Trust: Outside, Source: Fixture}
	r := d.Admit("fixture", []byte("{\"to\":\"bob\",\"to\u200b\":\"eve\"}"), "")
	if r.JSON != nil || !strings.Contains(r.Error, "two names differ only in characters that nobody sees") || len(r.Findings) != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestDescriptionsAreCleanedAndCut(t *testing.T) {
	long := strings.Repeat("é", maxDescription)
	s, err := New([]Definition{
		{Name: "a", Class: policy.Read, Source: Cassette, Trust: Outside, Description: long + "\u200b"},
		{Name: "b", Class: policy.Read, Source: Cassette, Description: "of the bench\u202e, hidden all the same\xff"},
	}, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defs := s.Definitions()
	if len(defs[0].Description) != maxDescription || !strings.HasPrefix(long, defs[0].Description) {
		t.Errorf("the description has %d bytes", len(defs[0].Description))
	}
	if defs[1].Description != "of the bench, hidden all the same\ufffd" {
		t.Errorf("the description is %q", defs[1].Description)
	}
	var got []string
	for _, f := range s.Findings() {
		requireEvent(t, f)
		got = append(got, f.Name)
	}
	if fmt.Sprint(got) != "[hidden_characters oversize_description hidden_characters]" {
		t.Errorf("findings %v", s.Findings())
	}
	// What Definitions returns is a copy.
	defs[0].Name, defs[0].Description = "changed", "changed"
	if again := s.Definitions(); again[0].Name != "a" || again[0].Description == "changed" {
		t.Error("the definitions were changed from outside")
	}
}

func TestLargeResultsAreCut(t *testing.T) {
	for _, trust := range []string{Bench, Outside} {
		d := Definition{Name: "x", Trust: trust, Source: Fixture}
		for name, v := range map[string]any{
			"a text":          strings.Repeat("é", MaxResultBytes),
			"a text in MCP":   map[string]any{"content": []any{map[string]any{"type": "text", "text": strings.Repeat("x", 1<<20)}}},
			"many texts":      slicesOf(strings.Repeat("x", 1000), 1000),
			"many numbers":    slicesOf(1.0, 200_000),
			"escapes":         strings.Repeat("\"\\", MaxResultBytes),
			"many with names": map[string]any{strings.Repeat("n", MaxResultBytes+1): true},
		} {
			text, err := canon.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			r := d.Admit("fixture", text, "")
			if len(r.JSON) > MaxResultBytes || len(r.JSON) < MaxResultBytes/8 || canon.Validate(r.JSON) != nil || r.Error != "" {
				t.Errorf("%s: %d bytes, %s", name, len(r.JSON), r.Error)
			}
			if !strings.Contains(string(r.JSON), "cut") {
				t.Errorf("%s: the cut is not marked", name)
			}
			if len(r.Findings) != 1 || r.Findings[0].Name != OversizeResult {
				t.Errorf("%s: findings %v", name, r.Findings)
			}
		}
		r := d.Admit("fixture", nil, strings.Repeat("é", maxErrorBytes))
		if len(r.Error) != maxErrorBytes || len(r.Findings) != 1 {
			t.Errorf("an error: %d bytes, findings %v", len(r.Error), r.Findings)
		}
		if exact := d.Admit("fixture", []byte(`"`+strings.Repeat("x", MaxResultBytes-2)+`"`), ""); len(exact.JSON) != MaxResultBytes || exact.Findings != nil {
			t.Errorf("a result of exactly the size: %d bytes, %v", len(exact.JSON), exact.Findings)
		}
	}
}

func slicesOf(v any, n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = v
	}
	return list
}

func TestLiveAnswersThatAreNotJSON(t *testing.T) {
	d := Definition{Name: "x", Trust: Outside, Source: Cassette}
	for _, bad := range []string{"", "{", `{"a":1,"a":2}`, "\"\xff\"", `1 2`} {
		if r := d.Admit("live", []byte(bad), ""); r.JSON != nil || r.Error == "" {
			t.Errorf("%q: %+v", bad, r)
		}
		if r := d.AdmitMCP("live", []byte(bad), nil); r.JSON != nil || r.Error == "" {
			t.Errorf("%q of a server: %+v", bad, r)
		}
	}
	for _, bad := range []string{`7`, `[]`} {
		if r := d.AdmitMCP("live", []byte(bad), nil); r.JSON != nil || r.Error == "" {
			t.Errorf("%q of a server: %+v", bad, r)
		}
	}
	if r := d.AdmitMCP("live", nil, []byte(`{`)); r.Error == "" {
		t.Errorf("not an error: %+v", r)
	}
}

func TestLabels(t *testing.T) {
	for want, defs := range map[string][]Definition{
		"untrusted": {{Trust: Outside}, {Source: "mcp:x"}, {Source: Folder, Trust: Outside}, {Source: Cassette, Trust: Outside}},
		"imported":  {{Source: Cassette}},
		"internal":  {{Source: Folder}},
		"pinned":    {{}, {Source: Fixture, Trust: Bench}},
	} {
		for _, d := range defs {
			if got := d.Label(); got != want {
				t.Errorf("%+v is %s, want %s", d, got, want)
			}
		}
	}
}

package policy

import (
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
)

// The texts and hashes that the implementation of RVF gives
// (ruvnet/RuVector, crates/rvf, run at commit 20aca12). They are promises to
// readers of witness bundles and never change.
var published = []struct {
	mode        Mode
	text, short string
}{
	{Restricted, "mode=0+Read+Glob+Grep+WebFetch+WebSearch-Bash-Write-Edit|cost=10000|calls=50", "66fb836fa37e48ef"},
	{Approved, "mode=1|cost=100000|calls=200", "37174386ed336528"},
	{Autonomous, "mode=2|cost=1000000|calls=500", "f9210ee4856ff1e0"},
}

func TestPolicyHashesAreThePublishedOnes(t *testing.T) {
	for _, tt := range published {
		p := ForMode(tt.mode)
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
		if got := p.Serialised(); got != tt.text {
			t.Errorf("%s: serialised as %q, want %q", tt.mode, got, tt.text)
		}
		if got := p.ShortHash().String(); got != tt.short {
			t.Errorf("%s: hash %s, want %s", tt.mode, got, tt.short)
		}
		full, err := p.Digest()
		if err != nil || full != p.SerialisedDigest() || !strings.HasPrefix(full.String(), "sha256:"+tt.short) {
			t.Errorf("%s: digest %s, %v, want one that begins with %s", tt.mode, full, err, tt.short)
		}
	}
}

// The serialised text cannot tell these apart, so the digest must not be made
// of it.
func TestDigestTellsPoliciesApart(t *testing.T) {
	rule := Rule{ID: "no", Priority: 1, Kind: DenyList, Names: []string{"x"}}
	other := rule
	other.Names = []string{"y"}
	policies := map[string]Policy{
		"two tools":           {Allow: []string{"a", "b"}},
		"one tool with plus":  {Allow: []string{"a+b"}},
		"allowed and denied":  {Allow: []string{"a"}, Deny: []string{"b"}},
		"one tool with minus": {Allow: []string{"a-b"}},
		"one denied":          {Deny: []string{"b"}},
		"a budget in a name":  {Allow: []string{"a|cost=0|calls=0"}},
		"one tool":            {Allow: []string{"a"}},
		"one more call":       {Allow: []string{"a"}, MaxToolCalls: 1},
		"one more cent":       {Allow: []string{"a"}, MaxCostMicroUSD: 1},
		"another mode":        {Mode: Approved, Allow: []string{"a"}},
		"other order":         {Allow: []string{"b", "a"}},
		"a rule":              {Allow: []string{"a"}, Rules: []Rule{rule}},
		"another rule":        {Allow: []string{"a"}, Rules: []Rule{other}},
	}
	seen := map[string]string{}
	for name, p := range policies {
		d, err := p.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if twin, ok := seen[d.String()]; ok {
			t.Errorf("%s and %s have one digest", name, twin)
		}
		seen[d.String()] = name
	}
}

const exampleYAML = `mode: autonomous
deny: [Bash]
max_cost_microdollars: 250000
max_tool_calls: 40
rules:
  - id: no-privileged
    priority: 10
    kind: block_class
    classes: [privileged]
  - id: office-hours
    priority: 20
    kind: time_window
    from: "09:00"
    to: "17:30"
    days: [mon, tue, wed, thu, fri]
    classes: [financial]
  - id: large-transfer
    priority: 30
    kind: condition
    tools: [transfer]
    when: args.amount > 100.0
    then: escalate
  - id: slow-down
    priority: 40
    kind: rate_limit
    max_calls: 3
    window_ms: 60000
`

// fromYAML reads a policy as it stands in a registration.
func fromYAML(t testing.TB, text string) Policy {
	t.Helper()
	doc, err := strictyaml.Parse("registration.yaml", []byte(text), strictyaml.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse("registration.yaml", doc.JSON)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPolicyIsWrittenAndReadAgain(t *testing.T) {
	first := fromYAML(t, exampleYAML)
	text, err := canon.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("policy.json", text)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := first.Digest()
	two, _ := again.Digest()
	if one != two || len(first.Rules) != 4 || first.Rules[2].Then != Escalate {
		t.Errorf("%s and %s, %+v", one, two, first)
	}
}

func TestParseRefuses(t *testing.T) {
	policy := func(rule string) string {
		return `{"mode":"autonomous","max_cost_microdollars":1,"max_tool_calls":1,"rules":[` + rule + `]}`
	}
	for _, tt := range []struct{ name, json, want string }{
		{"an unknown key", `{"mode":"approved","max_cost_microdollars":1,"max_tool_calls":1,"max_cost":2}`, "unknown"},
		{"a missing budget", `{"mode":"approved","max_cost_microdollars":1}`, "ax_tool_calls"},
		{"a key twice", `{"mode":"approved","mode":"autonomous","max_cost_microdollars":1,"max_tool_calls":1}`, "duplicate"},
		{"an unknown mode", `{"mode":"yolo","max_cost_microdollars":1,"max_tool_calls":1}`, "expected restricted, approved or autonomous"},
		{"a mode by number", `{"mode":2,"max_cost_microdollars":1,"max_tool_calls":1}`, "mode"},
		{"a negative budget", `{"mode":"approved","max_cost_microdollars":-1,"max_tool_calls":1}`, "max_cost_microdollars is -1"},
		{"a fractional budget", `{"mode":"approved","max_cost_microdollars":1.5,"max_tool_calls":1}`, "max_cost_microdollars"},
		{"a tool twice", `{"mode":"approved","allow":["a","a"],"max_cost_microdollars":1,"max_tool_calls":1}`, `lists "a" twice`},
		{"an empty name", `{"mode":"approved","deny":[""],"max_cost_microdollars":1,"max_tool_calls":1}`, "0 bytes"},
		{"an unknown action", `{"mode":"approved","deny":["action:fly"],"max_cost_microdollars":1,"max_tool_calls":1}`, "action:memory_write"},
		{"a rule without kind", policy(`{"id":"a","priority":1,"kind":""}`), "rule a: kind is"},
		{"an unknown kind", policy(`{"id":"a","priority":1,"kind":"allow_all"}`), "rule a: kind is"},
		{"a bad id", policy(`{"id":"mode:approved","priority":1,"kind":"require_approval"}`), "rules[0]: id"},
		{"one id twice", policy(`{"id":"a","priority":1,"kind":"require_approval"},{"id":"a","priority":2,"kind":"require_approval"}`), "two rules with this id"},
		{"one priority twice", policy(`{"id":"a","priority":1,"kind":"require_approval"},{"id":"b","priority":1,"kind":"require_approval"}`), "also that of rule a"},
		{"a cap without a number", policy(`{"id":"a","priority":1,"kind":"cap_spend"}`), "needs max_cost_microdollars"},
		{"a cap of something else", policy(`{"id":"a","priority":1,"kind":"cap_spend","max_cost_microdollars":1,"max_tokens":1}`), "has no max_tokens"},
		{"a list without names", policy(`{"id":"a","priority":1,"kind":"allow_list"}`), "needs names"},
		{"a class that does not exist", policy(`{"id":"a","priority":1,"kind":"block_class","classes":["magic"]}`), "classes[0]"},
		{"a block of nothing", policy(`{"id":"a","priority":1,"kind":"block_class"}`), "needs classes"},
		{"an action that does not exist", policy(`{"id":"a","priority":1,"kind":"require_approval","actions":["fly"]}`), "actions[0]"},
		{"a scope that no call can meet", policy(`{"id":"a","priority":1,"kind":"require_approval","actions":["handoff"],"tools":["x"]}`), "actions leaves out"},
		{"a condition that allows", policy(`{"id":"a","priority":1,"kind":"condition","when":"true","then":"allow"}`), "then is"},
		{"a condition without effect", policy(`{"id":"a","priority":1,"kind":"condition","when":"true"}`), "needs then"},
		{"an effect where none is chosen", policy(`{"id":"a","priority":1,"kind":"deny_list","names":["x"],"then":"escalate"}`), "has no then"},
		{"a window of nothing", policy(`{"id":"a","priority":1,"kind":"time_window","from":"10:00","to":"10:00"}`), "not before"},
		{"a time that does not exist", policy(`{"id":"a","priority":1,"kind":"time_window","from":"9:00","to":"10:00"}`), "time of day"},
		{"a day that does not exist", policy(`{"id":"a","priority":1,"kind":"time_window","from":"09:00","to":"10:00","days":["Mon"]}`), "days[0]"},
		{"a rate without window", policy(`{"id":"a","priority":1,"kind":"rate_limit","max_calls":1}`), "needs window_ms"},
		{"a window of no length", policy(`{"id":"a","priority":1,"kind":"rate_limit","max_calls":1,"window_ms":0}`), "window_ms is 0"},
		{"an empty optional list", `{"mode":"approved","deny":[],"max_cost_microdollars":1,"max_tool_calls":1}`, "expected"},
	} {
		_, err := Parse("p.json", []byte(tt.json))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "p.json: ") || !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: got %v, want a refusal with %q", tt.name, err, tt.want)
		}
	}
	if _, err := Parse("p.json", make([]byte, maxPolicyBytes+1)); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("a huge file: %v", err)
	}
}

// FuzzParse: what is accepted encodes to the canonical form of the text, and
// is accepted again.
func FuzzParse(f *testing.F) {
	for _, p := range []Policy{fromYAML(f, exampleYAML), ForMode(Restricted), ForMode(Approved), ForMode(Autonomous)} {
		text, err := canon.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("p", data)
		if err != nil {
			return
		}
		text, err := canon.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("p", text)
		if err != nil {
			t.Fatalf("accepted, and then not: %v", err)
		}
		one, _ := p.Digest()
		if two, _ := again.Digest(); one != two {
			t.Fatalf("%s became %s", one, two)
		}
	})
}

package cassette

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/wire"
)

// promptBody is a request of an agent whose prompt has the date.
func promptBody(system, user string) string {
	return fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`, system, user)
}

// tapeOf records the bodies; the n-th reply says n.
func tapeOf(t testing.TB, api wire.API, bodies ...string) *Cassette {
	t.Helper()
	var list []Interaction
	for i, body := range bodies {
		r, err := ModelRequest(api, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		it := r.it
		it.Model.Response = Response{Status: 200, Text: fmt.Sprint(i + 1)}
		list = append(list, it)
	}
	c, err := New(Recorded, nil, 0, list)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func asked(t testing.TB, api wire.API, body string) Request {
	t.Helper()
	r, err := ModelRequest(api, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// answer is the reply to a chat request, "miss" if there is none.
func answer(t testing.TB, p *Player, body string) string {
	t.Helper()
	it, err := p.Next(asked(t, wire.OpenAIChat, body))
	if err != nil {
		return "miss"
	}
	return it.Model.Response.Text
}

func by(names ...evidence.Normaliser) []evidence.Normaliser { return names }

func saysNow(texts ...string) func() []string { return func() []string { return texts } }

// home is where home folders lie, in a spelling that is not a path of a machine.
const home = "/ho" + "me/"

const today, tomorrow = "You are a bot. Today is Sunday, 2026-11-15.", "You are a bot. Today is Monday, 2026-11-16."

func TestNextDayIsAnsweredWithTheNormaliserAndOnlyThen(t *testing.T) {
	tape := tapeOf(t, wire.OpenAIChat, promptBody(today, "Where is my order?"))
	if got := answer(t, NewPlayer(tape), promptBody(tomorrow, "Where is my order?")); got != "miss" {
		t.Errorf("without normalisers: %s", got)
	}
	p := NewMatchingPlayer(tape, Matching{Target: by("dates"), Given: saysNow("Where is my order?")})
	if got := answer(t, p, promptBody(tomorrow, "Where is my orders?")); got != "miss" {
		t.Errorf("another question: %s", got)
	}
	if got := answer(t, p, promptBody(tomorrow, "Where is my order?")); got != "1" {
		t.Errorf("the same question: %s", got)
	}
	if got := answer(t, p, promptBody(tomorrow, "Where is my order?")); got != "miss" {
		t.Errorf("a recording answered twice: %s", got)
	}
	if n := p.Normalised(); n != (evidence.NormalisedCount{Target: 1}) {
		t.Errorf("counted %+v", n)
	}
	if n := len(p.Unused()); n != 0 {
		t.Errorf("%d unused", n)
	}
}

// A miss shows what makes it one, and not the date, which the normaliser leaves out.
func TestMissBesideNormalisersShowsWhatReallyDiffers(t *testing.T) {
	tape := tapeOf(t, wire.OpenAIChat, promptBody(today, "Where is my order?"))
	p := NewMatchingPlayer(tape, Matching{Class: by("dates")})
	_, err := p.Next(asked(t, wire.OpenAIChat, promptBody(tomorrow, "Where is our order?")))
	var miss *Miss
	if !errors.As(err, &miss) || miss.Path != "messages[1].content" || miss.Asked != `"Where is our order?"` {
		t.Errorf("got %v", err)
	}
}

func TestMatchIsTheClassesIfItsNormalisersAreEnough(t *testing.T) {
	id := " 550e8400-e29b-41d4-a716-446655440000"
	tape := tapeOf(t, wire.OpenAIChat, promptBody(today, "a"), promptBody(today+id, "b"))
	p := NewMatchingPlayer(tape, Matching{Class: by("dates"), Target: by("ids", "dates")})
	for _, body := range []string{promptBody(tomorrow, "a"), promptBody(tomorrow+strings.ReplaceAll(id, "5", "6"), "b")} {
		if answer(t, p, body) == "miss" {
			t.Errorf("missed %s", body)
		}
	}
	if n := p.Normalised(); n != (evidence.NormalisedCount{Class: 1, Target: 1}) {
		t.Errorf("counted %+v", n)
	}
}

// Whatever is answered without normalisers is answered the same with all of them.
func TestNormalisersChangeNothingThatMatchesExactly(t *testing.T) {
	jan, feb := promptBody("Orders of 2024-01-01", "sum?"), promptBody("Orders of 2024-02-01", "sum?")
	tape := tapeOf(t, wire.OpenAIChat, jan, feb, jan, feb)
	p := NewMatchingPlayer(tape, Matching{Class: evidence.Normalisers()})
	var got []string
	for _, body := range []string{feb, jan, feb, jan} {
		got = append(got, answer(t, p, body))
	}
	if want := []string{"2", "1", "4", "3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := p.Normalised(); n != (evidence.NormalisedCount{}) {
		t.Errorf("counted %+v", n)
	}
}

func TestRecordingsThatBecomeEqualAnswerInTheirOrder(t *testing.T) {
	tape := tapeOf(t, wire.OpenAIChat, promptBody(today+" 10:00:01", "a"), promptBody(today+" 10:00:05", "a"))
	p := NewMatchingPlayer(tape, Matching{Class: by("dates")})
	for i, want := range []string{"1", "2", "miss"} {
		if got := answer(t, p, promptBody(fmt.Sprintf("%s 11:00:0%d", tomorrow, i), "a")); got != want {
			t.Errorf("request %d: got %s, want %s", i+1, got, want)
		}
	}
}

// An answer is never replayed for a question that means something else: what the
// case has now is compared as it is, in whatever spelling.
func TestQuestionsOfTheCaseAreNeverMixedUp(t *testing.T) {
	tests := []struct{ name, recorded, now, askedNow string }{
		{"a date", "refund on 2024-01-01", "refund on 2024-02-01", ""},
		{"a date that the agent spells out", "Refund on January 1, 2024", "refund on 2024-02-01", "Refund on February 1, 2024"},
		{"a date with slashes", "Refund on 2024-01-01", "refund on 2/1/2024", "Refund on 2024-02-01"},
		{"a time", "meet at 10:00", "meet at 11:00", ""},
		{"a time in words", "meet at 10:00", "meet at 11am", "meet at 11:00"},
		{"an id", "order 550e8400-e29b-41d4-a716-446655440000", "order 660e8400-e29b-41d4-a716-446655440000", ""},
		{"a commit", "review 0123456789abcdef0123456789abcdef01234567", "review 1123456789abcdef0123456789abcdef01234567", ""},
		{"a home folder", "list " + home + "alice", "list " + home + "bob", ""},
		{"a temporary folder", "list /tmp/tmpab12cd_9", "list /tmp/tmpab12cd_8", ""},
		{"indentation", "if x:\n    y\nz", "if x:\n    y\n    z", ""},
		{"white space that went away", "a  b", "a b", ""},
	}
	for _, tt := range tests {
		if tt.askedNow == "" {
			tt.askedNow = tt.now
		}
		tape := tapeOf(t, wire.OpenAIChat, promptBody(today, tt.recorded))
		m := Matching{Class: evidence.Normalisers(), Given: saysNow(tt.now)}
		if got := answer(t, NewMatchingPlayer(tape, m), promptBody(today, tt.askedNow)); got != "miss" {
			t.Errorf("%s: %q answered %q", tt.name, tt.recorded, tt.askedNow)
		}
		for _, one := range evidence.Normalisers() {
			m := Matching{Class: by(one), Given: saysNow(tt.now)}
			if got := answer(t, NewMatchingPlayer(tape, m), promptBody(today, tt.askedNow)); got != "miss" {
				t.Errorf("%s, by %s: %q answered %q", tt.name, one, tt.recorded, tt.askedNow)
			}
		}
		m.Given = saysNow(tt.recorded)
		if got := answer(t, NewMatchingPlayer(tape, m), promptBody(tomorrow, tt.recorded)); got != "1" {
			t.Errorf("%s: the same question missed", tt.name)
		}
	}
}

func TestIDsThatAreMixedUpMiss(t *testing.T) {
	a, b := "550e8400-e29b-41d4-a716-446655440000", "660e8400-e29b-41d4-a716-446655440000"
	tape := tapeOf(t, wire.OpenAIChat, promptBody(a+" owes "+b, "who owes "+a+"?"))
	m := Matching{Class: by("ids")}
	if got := answer(t, NewMatchingPlayer(tape, m), promptBody(b+" owes "+a, "who owes "+b+"?")); got != "1" {
		t.Error("renamed ids missed")
	}
	if got := answer(t, NewMatchingPlayer(tape, m), promptBody(a+" owes "+b, "who owes "+b+"?")); got != "miss" {
		t.Error("another id answered")
	}
}

var parallelBodies = map[wire.API][3]string{
	wire.OpenAIChat: {
		`{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":"call_a","type":"function","function":{"name":"x","arguments":"{}"}},{"id":"call_b","type":"function","function":{"name":"y","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_a","content":"1"},{"role":"tool","tool_call_id":"call_b","content":"2"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":"call_b","type":"function","function":{"name":"y","arguments":"{}"}},{"id":"call_a","type":"function","function":{"name":"x","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_b","content":"2"},{"role":"tool","tool_call_id":"call_a","content":"1"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":"call_b","type":"function","function":{"name":"y","arguments":"{}"}},{"id":"call_a","type":"function","function":{"name":"x","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_b","content":"1"},{"role":"tool","tool_call_id":"call_a","content":"2"}]}`},
	wire.AnthropicMessages: {
		`{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"text","text":"so"},{"type":"tool_use","id":"toolu_a","name":"x","input":{}},{"type":"tool_use","id":"toolu_b","name":"x","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":"1"},{"type":"tool_result","tool_use_id":"toolu_b","content":"2"}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"text","text":"so"},{"type":"tool_use","id":"toolu_a","name":"x","input":{}},{"type":"tool_use","id":"toolu_b","name":"x","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_b","content":"2"},{"type":"tool_result","tool_use_id":"toolu_a","content":"1"}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"text","text":"so"},{"type":"tool_use","id":"toolu_a","name":"x","input":{}},{"type":"tool_use","id":"toolu_b","name":"x","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":"2"},{"type":"tool_result","tool_use_id":"toolu_b","content":"1"}]}]}`},
	wire.OpenAIResponses: {
		`{"model":"m","input":[{"role":"user","content":"go"},{"type":"function_call","id":"fc_a","call_id":"call_a","name":"x","arguments":"{}"},{"type":"function_call","id":"fc_b","call_id":"call_b","name":"y","arguments":"{}"},{"type":"function_call_output","call_id":"call_a","output":"1"},{"type":"function_call_output","call_id":"call_b","output":"2"}]}`,
		`{"model":"m","input":[{"role":"user","content":"go"},{"type":"function_call","id":"fc_b","call_id":"call_b","name":"y","arguments":"{}"},{"type":"function_call","id":"fc_a","call_id":"call_a","name":"x","arguments":"{}"},{"type":"function_call_output","call_id":"call_a","output":"1"},{"type":"function_call_output","call_id":"call_b","output":"2"}]}`,
		`{"model":"m","input":[{"role":"user","content":"go"},{"type":"function_call","id":"fc_b","call_id":"call_b","name":"y","arguments":"{}"},{"type":"function_call","id":"fc_a","call_id":"call_a","name":"x","arguments":"{}"},{"type":"function_call_output","call_id":"call_a","output":"2"},{"type":"function_call_output","call_id":"call_b","output":"1"}]}`},
}

func TestParallelCallsMatchInAnyOrderWithTheirOwnResults(t *testing.T) {
	for api, bodies := range parallelBodies {
		tape := tapeOf(t, api, bodies[0])
		if _, err := NewPlayer(tape).Next(asked(t, api, bodies[1])); err == nil {
			t.Errorf("%s: another order matches without the normaliser", api)
		}
		p := NewMatchingPlayer(tape, Matching{Class: by("parallel")})
		if _, err := p.Next(asked(t, api, bodies[2])); err == nil {
			t.Errorf("%s: results of other calls match", api)
		}
		if _, err := p.Next(asked(t, api, bodies[1])); err != nil {
			t.Errorf("%s: another order: %v", api, err)
		}
		if got := NewPlayer(tape).Suggest(asked(t, api, bodies[1])); !slices.Equal(got, by("parallel")) {
			t.Errorf("%s: suggested %v", api, got)
		}
	}
}

func TestMissSuggestsTheNormalisersThatWouldHaveMatched(t *testing.T) {
	id := " run 550e8400-e29b-41d4-a716-446655440000"
	tape := tapeOf(t, wire.OpenAIChat, promptBody(today+id, "a"), promptBody("v1 in "+home+"alice", "a"))
	tests := []struct {
		name string
		m    Matching
		body string
		want []evidence.Normaliser
	}{
		{"one", Matching{}, promptBody(tomorrow+id, "a"), by("dates")},
		{"two", Matching{}, promptBody(tomorrow+strings.ReplaceAll(id, "5", "6"), "a"), by("dates", "ids")},
		{"one beside the one in force", Matching{Class: by("dates")}, promptBody(tomorrow+strings.ReplaceAll(id, "5", "6"), "a"), by("ids")},
		{"a path", Matching{}, promptBody("v1 in /root", "a"), by("paths")},
		{"none for another question", Matching{}, promptBody(tomorrow+id, "b"), nil},
		{"none for a date of the case", Matching{Given: saysNow("on 2026-11-16")}, promptBody(tomorrow+id, "a"), nil},
	}
	for _, tt := range tests {
		if got := NewMatchingPlayer(tape, tt.m).Suggest(asked(t, wire.OpenAIChat, tt.body)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: suggested %v, want %v", tt.name, got, tt.want)
		}
	}
	p := NewMatchingPlayer(tapeOf(t, wire.OpenAIChat, promptBody(today, "a")), Matching{Class: by("dates")})
	answer(t, p, promptBody(tomorrow, "a"))
	if got := p.Suggest(asked(t, wire.OpenAIChat, promptBody(tomorrow, "a"))); got != nil {
		t.Errorf("a recording that is used up is suggested: %v", got)
	}
}

// Tools are asked with their arguments, which mean what they say.
func TestToolCallsAreNeverNormalised(t *testing.T) {
	it := Interaction{Tool: &ToolCall{Name: "orders", Arguments: []byte(`{"day":"2024-01-01"}`), Result: []byte("1")}}
	tape, err := New(Recorded, nil, 0, []Interaction{it})
	if err != nil {
		t.Fatal(err)
	}
	r, err := ToolRequest("orders", []byte(`{"day":"2024-02-01"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := NewMatchingPlayer(tape, Matching{Class: evidence.Normalisers()})
	if _, err := p.Next(r); err == nil || p.Suggest(r) != nil {
		t.Errorf("a tool call of another day: %v, suggested %v", err, p.Suggest(r))
	}
}

// FuzzNormalise: applied to its own result, every set of normalisers changes
// nothing, and what the case gives is still there.
func FuzzNormalise(f *testing.F) {
	for _, s := range []string{today, "Sun Nov 15 23:34:33 UTC 2026", "at 2026-11-15T23:34:33Z or 9:05 PM, 2026-11-15 (Sunday)", "/tmp/tmpab12cd_9/a " + home + "x",
		"call_Ab3dEf9hIjKl 550e8400-e29b-41d4-a716-446655440000", " a  b\n\tc ", "⟨date⟩ ␣ ⟨id1⟩", "2026-11-15 Sunday, 2026-11-16, Monday 3 Mar 2026"} {
		f.Add(s, "on 2024-01-01", uint8(31))
		f.Add(s, s, uint8(31))
	}
	f.Fuzz(func(t *testing.T, text, said string, set uint8) {
		var names []evidence.Normaliser
		for i, n := range evidence.Normalisers() {
			if set&(1<<i) != 0 {
				names = append(names, n)
			}
		}
		body, err := ModelRequest(wire.OpenAIChat, []byte(chatBodyOf(text)), nil)
		if err != nil {
			t.Skip()
		}
		n := newNormaliser(names, newGiven([]string{said}))
		once := wire.ParseCanonical(string(body.Canonical()))
		n.request(wire.OpenAIChat, &once)
		first := string(once.AppendJSON(nil))
		twice := wire.ParseCanonical(first)
		n.request(wire.OpenAIChat, &twice)
		if second := string(twice.AppendJSON(nil)); second != first {
			t.Errorf("%v: %q given %q\nonce  %s\ntwice %s", names, text, said, first, second)
		}
	})
}

// Texts made of what normalisers look for, cut and joined at random: a second pass
// finds nothing, whichever set is in force and whatever the case gives.
func TestNormalisingTwiceChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	pieces := []string{"2026-11-15", "T", "23:34", ":33", ".5", "Z", " ", ", ", "Sunday", "Sun", " (", ")", "15", "Nov", "November", " 2026", "9:05 PM", "-", "/", "_", ".", "\n", "\t",
		"550e8400-e29b-41d4-a716-446655440000", "call_Ab3dEf9hIjKl", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "deadbeef0123456789", "/tmp/", "tmpab12cd_9", home, "alice", "/proc/", "42",
		"⟨date⟩", "⟨time⟩", "⟨id1⟩", "⟨tmp⟩", "␣", "é", "—", "a", "UTC", "+01:00", "th", "of"}
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var b strings.Builder
		for range 1 + random.IntN(9) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	for range 20000 {
		s, said, set := text(), text(), random.IntN(32)
		var names []evidence.Normaliser
		for i, n := range evidence.Normalisers() {
			if set&(1<<i) != 0 {
				names = append(names, n)
			}
		}
		once := normalised(s, names, said)
		if twice := normalised(once, names, said); twice != once {
			t.Fatalf("%v: %q given %q\nonce  %q\ntwice %q", names, s, said, once, twice)
		}
	}
}

// A long text takes as long as its length, whatever is in it: with a
// quadratic step in it this test would not end.
func TestNormalisersTakeTheTimeOfTheLength(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	const size = 1 << 18
	for _, piece := range []string{"2026-11-15T", "2026-11-15 ", "Sunday, ", "1:", "11:11:", "1 Nov ", "Nov 1 ", "12", "a", "a-", "_", "call_", "call_a1", "0a", "550e8400-e29b-41d4-a716-",
		"/", "/tmp/", "/tmp/a", home, "/var/folders/", "/proc/1", " ", "a ", "\u2003", "␣", "⟨date⟩", "+01:00", "é"} {
		text := strings.Repeat(piece, size/len(piece))
		normalised(text, evidence.Normalisers(), text[:len(text)/2])
	}
	calls := strings.Repeat(`{"id":"call_a","type":"function","function":{"name":"x","arguments":"{}"}},`, 5000)
	results := strings.Repeat(`{"role":"tool","tool_call_id":"call_a","content":"1"},`, 5000)
	body := `{"model":"m","messages":[{"role":"assistant","tool_calls":[` + calls[:len(calls)-1] + `]},` + results + `{"role":"tool","tool_call_id":"call_a","content":"` + strings.Repeat("x", size) + `"}]}`
	p := NewMatchingPlayer(tapeOf(t, wire.OpenAIChat, body), Matching{Class: by("parallel", "ids")})
	if _, err := p.Next(asked(t, wire.OpenAIChat, strings.Replace(body, "xxx", "yyy", 1))); err == nil {
		t.Error("another result matches")
	}
}

func chatBodyOf(text string) string {
	n := wire.ObjectNode("model", wire.StringNode("m"), "messages", wire.ArrayNode(
		wire.ObjectNode("role", wire.StringNode("system"), "content", wire.StringNode(text)),
		wire.ObjectNode("role", wire.StringNode("user"), "content", wire.StringNode("again "+text))))
	return string(n.AppendJSON(nil))
}

package trajectory

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/run/policy"
	"tallystick/internal/run/vantage"
)

// Short ways to write events about tools.
func asks(id, name, args string) Payload {
	return &ToolObserved{Args: NewArgs([]byte(args)), Call: "c0", ID: id, Name: name, Vantage: Proposed}
}

func reports(id, name, args, result string) Payload {
	return &ToolObserved{Args: NewArgs([]byte(args)), Call: "c0", ID: id, Name: name, Result: textPointer(result), Vantage: Reported}
}

func arrives(call, id, name, args string) Payload {
	return &ToolProposed{Args: NewArgs([]byte(args)), Call: call, ID: id, Name: name}
}

func allowed(call, name string) Payload {
	return &PolicyDecision{policy.Tool, call, policy.Allowed, name, "r", policy.RuleAutonomous, policy.Allow}
}

func denied(call, name string) Payload {
	return &PolicyDecision{policy.Tool, call, policy.Denied, name, "r", policy.RuleDenyList, policy.Deny}
}

func made(call, name, args, result string) Payload {
	return &ToolExecuted{Args: NewArgs([]byte(args)), Call: call, Name: name, Result: text(result), Source: "fixture"}
}

func viewOf(t testing.TB, events ...Payload) *CallView {
	t.Helper()
	steps := []step{{0, started(plainRun)}, {1, &TurnStarted{}}}
	for _, p := range events {
		steps = append(steps, step{1, p})
	}
	return CallsOf(verified(t, steps, time.Millisecond))
}

func shortView(v *CallView) []string {
	list := []string{}
	for i := range v.Calls {
		c := &v.Calls[i]
		line := fmt.Sprintf("%s %s", c.Vantage, c.Name)
		if c.Denied {
			line += " denied"
		}
		list = append(list, line)
	}
	return list
}

// TestOneCallIsOneCallAndNoneIsHidden: whatever an agent does with its history,
// the calls that were seen are all there, and none is there twice for having
// been seen from two sides.
func TestOneCallIsOneCallAndNoneIsHidden(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []Payload
		want   []string
	}{
		{"only proposed", []Payload{asks("a", "refund", `{"n":1}`)}, []string{"proposed refund"}},
		{"in the agent's own process", []Payload{asks("a", "refund", `{"n":1}`), reports("a", "refund", `{"n":1}`, "ok")}, []string{"reported refund"}},
		{"through us, without a model", []Payload{arrives("c1", "", "refund", `{}`), allowed("c1", "refund"), made("c1", "refund", `{}`, "ok")}, []string{"executed refund"}},
		{"proposed, executed, reported", []Payload{asks("a", "refund", `{"n":1}`), arrives("c1", "", "refund", `{"n": 1.0}`), allowed("c1", "refund"), made("c1", "refund", `{"n":1}`, "ok"),
			reports("a", "refund", `{"n":1}`, "ok")}, []string{"executed refund"}},
		{"by an MCP client with longer names", []Payload{asks("a", "mcp__bank__refund", `{"n":1}`), arrives("c1", "", "refund", `{"n":1}`), allowed("c1", "refund"), made("c1", "refund", `{"n":1}`, "ok"),
			reports("a", "mcp__bank__refund", `{"n":1}`, "ok")}, []string{"executed refund"}},
		{"by a client that completes arguments", []Payload{asks("a", "refund", `{"n":1}`), arrives("c1", "", "refund", `{"n":1,"currency":"EUR"}`), allowed("c1", "refund"), made("c1", "refund", `{"n":1,"currency":"EUR"}`, `{"paid":1}`),
			reports("a", "refund", `{"n":1}`, `[{"text":"{\"paid\":1}"}]`)}, []string{"executed refund"}},
		{"executed here, and another result reported", []Payload{asks("a", "refund", `{"n":1}`), arrives("c1", "", "refund", `{"n":2}`), allowed("c1", "refund"), made("c1", "refund", `{"n":2}`, "two"),
			reports("a", "refund", `{"n":1}`, "one")}, []string{"reported refund", "executed refund"}},
		{"by the built-in agent, which adds a key", []Payload{asks("a", "pay", `{"n":1}`), arrives("c1", "a", "pay", `{"n":1,"key":"k"}`), allowed("c1", "pay"), made("c1", "pay", `{"n":1,"key":"k"}`, "ok")}, []string{"executed pay"}},
		{"denied, and the agent says so", []Payload{asks("a", "refund", `{}`), arrives("c1", "", "refund", `{}`), denied("c1", "refund"), reports("a", "refund", `{}`, DeniedText(policy.RuleDenyList)+": r")}, []string{"proposed refund denied"}},
		{"denied, and reported with a result all the same", []Payload{asks("a", "refund", `{}`), arrives("c1", "", "refund", `{}`), denied("c1", "refund"), reports("a", "refund", `{}`, "paid 100")}, []string{"reported refund denied"}},

		{"parallel calls that are equal", []Payload{asks("a", "refund", `{}`), asks("b", "refund", `{}`), reports("a", "refund", `{}`, "ok"), reports("b", "refund", `{}`, "ok")}, []string{"reported refund", "reported refund"}},
		{"one of two is executed here", []Payload{asks("a", "refund", `{}`), asks("b", "refund", `{}`), arrives("c1", "", "refund", `{}`), allowed("c1", "refund"), made("c1", "refund", `{}`, "ok"),
			reports("b", "refund", `{}`, "ok"), reports("a", "refund", `{}`, "ok")}, []string{"reported refund", "executed refund"}},
		{"the same id twice", []Payload{asks("a", "refund", `{}`), reports("a", "refund", `{}`, "ok"), asks("a", "refund", `{}`), reports("a", "refund", `{}`, "ok")}, []string{"reported refund", "reported refund"}},
		{"the same id for another tool", []Payload{asks("a", "refund", `{}`), reports("a", "look", `{}`, "ok")}, []string{"proposed refund", "reported look"}},
		{"the same id, other arguments", []Payload{asks("a", "refund", `{"n":100}`), reports("a", "refund", `{"n":1}`, "ok")}, []string{"proposed refund", "reported refund"}},
		{"other ids in the history", []Payload{asks("a", "refund", `{}`), reports("x", "refund", `{}`, "ok")}, []string{"reported refund"}},
		{"other ids, and more results than proposals", []Payload{asks("a", "refund", `{}`), reports("x", "refund", `{}`, "ok"), reports("y", "refund", `{}`, "ok")}, []string{"reported refund", "reported refund"}},
		{"no ids", []Payload{asks("", "refund", `{}`), reports("", "refund", `{}`, "ok")}, []string{"reported refund"}},
		{"a result that was not asked for", []Payload{reports("x", "refund", `{}`, "ok")}, []string{"reported refund"}},
		{"a result before the proposal", []Payload{reports("x", "refund", `{}`, "ok"), asks("a", "refund", `{}`)}, []string{"reported refund", "proposed refund"}},
		{"a result without a name", []Payload{asks("a", "refund", `{}`), reports("x", "", `{}`, "ok")}, []string{"proposed refund", "reported "}},
		{"a name that only ends alike", []Payload{asks("a", "norefund", `{}`), arrives("c1", "", "refund", `{}`), allowed("c1", "refund"), made("c1", "refund", `{}`, "ok")}, []string{"proposed norefund", "executed refund"}},
		{"executed twice for one proposal", []Payload{asks("a", "refund", `{}`), arrives("c1", "", "refund", `{}`), allowed("c1", "refund"), made("c1", "refund", `{}`, "ok"),
			arrives("c2", "", "refund", `{}`), allowed("c2", "refund"), made("c2", "refund", `{}`, "ok"), reports("a", "refund", `{}`, "ok")}, []string{"executed refund", "executed refund"}},
		{"reported, then executed here", []Payload{asks("a", "refund", `{}`), reports("a", "refund", `{}`, "ok"), arrives("c1", "", "refund", `{}`), allowed("c1", "refund"), made("c1", "refund", `{}`, "ok")},
			[]string{"reported refund", "executed refund"}},
		{"arguments that are not JSON", []Payload{asks("a", "refund", `n=1`), reports("a", "refund", `n=1`, "ok")}, []string{"reported refund"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := shortView(viewOf(t, tt.events...)); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestStoppedCallsAreKnownNotToHaveHappened: what the policy denied, and what
// the built-in agent did not carry out. Of any other agent this is unknown.
func TestStoppedCallsAreKnownNotToHaveHappened(t *testing.T) {
	events := []Payload{asks("a", "cut", `{}`), asks("b", "denied", `{}`), arrives("c1", "", "denied", `{}`), denied("c1", "denied"), arrives("c2", "", "broken", `{}`), allowed("c2", "broken")}
	for at, want := range map[vantage.Vantage]string{vantage.Inside: "true true false", vantage.Gateway: "false true false"} {
		run := started(plainRun)
		run.Vantage = at
		steps := []step{{0, run}}
		for _, p := range events {
			steps = append(steps, step{0, p})
		}
		view := CallsOf(verified(t, steps, time.Millisecond))
		if got := fmt.Sprint(view.Calls[0].Stopped, view.Calls[1].Stopped, view.Calls[2].Stopped); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

func TestTheViewSaysWhatItCannotSee(t *testing.T) {
	remote := started(plainRun)
	remote.Vantage = vantage.Answers
	v := CallsOf(verified(t, []step{{0, remote}}, time.Millisecond))
	if !strings.Contains(v.Unseen, "answers only") {
		t.Errorf("a remote agent: %q", v.Unseen)
	}
	if v := viewOf(t, &Failure{Name: CallsUnread, Detail: "not JSON"}); v.Unseen != "not JSON" {
		t.Errorf("what cannot be read: %q", v.Unseen)
	}
	if v := viewOf(t, asks("a", "refund", `{}`)); v.Unseen != "" {
		t.Errorf("everything was seen, and it says %q", v.Unseen)
	}
}

// TestTheViewTakesTimeInProportion: an agent decides how many calls there are
// and what they are called.
func TestTheViewTakesTimeInProportion(t *testing.T) {
	if testing.Short() {
		t.Skip("much work in one goroutine: under the race detector it shows nothing more")
	}
	l := NewLogWithEvents()
	add := func(turn int, p Payload) {
		if _, err := l.Append(turn, p, 0); err != nil {
			t.Fatal(err)
		}
	}
	const n = 20_000
	add(0, started(plainRun))
	for i := range n {
		add(0, asks("a", fmt.Sprintf("x%d__t", i%7), `{}`))
		add(0, reports(fmt.Sprint(i), "y__t", `{}`, "ok"))
	}
	if v := CallsOf(l.Verified()); len(v.Calls) != 2*n {
		t.Errorf("%d calls, want %d", len(v.Calls), 2*n)
	}
}

func TestCountsNameTheVantages(t *testing.T) {
	v := viewOf(t, asks("a", "x", `{}`), asks("b", "y", `{}`), reports("b", "y", `{}`, "ok"), arrives("c1", "", "z", `{}`), allowed("c1", "z"), made("c1", "z", `{}`, "ok"))
	n := v.Count()
	if n != (CallCount{1, 1, 1}) || n.Sure() != 2 || n.All() != 3 || n.String() != "1 executed here, 1 reported by the agent, 1 proposed by the model" {
		t.Errorf("%+v, %s", n, n)
	}
	if (CallCount{}).String() != "none" {
		t.Error("no calls have a text")
	}
}

// What a call was asked for with is kept where the call was made with something
// else, and is not a second call.
func TestACallKeepsWhatItWasAskedForWith(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		asked, made, arrived string
		want                 []string
	}{
		{"the same", `{"n":1}`, `{"n":1.0}`, "a", nil},
		{"completed", `{"n":1}`, `{"n":1,"key":"k"}`, "a", nil},
		{"completed inside", `{"to":{"iban":"x"}}`, `{"to":{"iban":"x","bic":"y"}}`, "a", nil},
		{"completed, without the id", `{"n":1}`, `{"n":1,"key":"k"}`, "", nil},
		{"another value", `{"n":1000000}`, `{"n":1}`, "a", []string{"1000000"}},
		{"another value, without the id", `{"n":1000000}`, `{"n":1}`, "", []string{"1000000"}},
		{"a member less", `{"n":1,"m":2}`, `{"n":1}`, "a", []string{"1"}},
		{"another value inside", `{"n":{"x":1}}`, `{"n":{"x":2}}`, "a", []string{`{"x":1}`}},
		{"a list that grew", `{"n":[1]}`, `{"n":[1,2]}`, "a", []string{"[1]"}},
		{"not JSON", `n=1`, `{"n":1}`, "a", []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := viewOf(t, asks("a", "pay", tt.asked), arrives("c1", tt.arrived, "pay", tt.made), allowed("c1", "pay"), made("c1", "pay", tt.made, "paid it"), reports("a", "pay", tt.asked, "paid it"))
			if len(v.Calls) != 1 || v.Calls[0].Vantage != Executed {
				t.Fatalf("got %q", shortView(v))
			}
			var got []string
			for _, c := range v.Calls[0].Otherwise() {
				if c.Vantage != Proposed || c.Stopped {
					t.Errorf("it is %s, stopped %v", c.Vantage, c.Stopped)
				}
				got = append(got, string(c.Args.Values["n"]))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("asked for otherwise with n = %q, want %q", got, tt.want)
			}
		})
	}
}

package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// about is a language for these tests: what a policy's conditions see.
var about = NewLanguage(200_000, Variable{"action", Text}, Variable{"name", Text}, Variable{"class", Text}, Variable{"args", Object},
	Variable{"turn", Number}, Variable{"cost_microdollars", Number}, Variable{"spent_microdollars", Number}, Variable{"tokens_used", Number},
	Variable{"tool_calls", Number}, Variable{"list", ListOfObjects})

func vars(t testing.TB, args string) map[string]any {
	t.Helper()
	var a map[string]any
	if err := json.Unmarshal([]byte(args), &a); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"action": "tool", "name": "transfer", "class": "financial", "args": a, "turn": 3.0,
		"cost_microdollars": 0.0, "spent_microdollars": 20.0, "tokens_used": 5.0, "tool_calls": 2.0, "list": []any{a}}
}

func TestConditionsAnswer(t *testing.T) {
	const args = `{"amount":100.5,"n":7,"to":{"iban":"DE1"},"tags":["a","b"],"flag":true}`
	for _, tt := range []struct {
		expression string
		want       bool
		err        string
	}{
		{`args.amount > 100.0`, true, ""},
		{`args.amount > 100`, true, ""}, // a whole number in the expression is compared by value
		{`args.n == 7`, true, ""},
		{`args.to.iban.startsWith("DE")`, true, ""},
		{`args.to.iban.matches("^FR")`, false, ""},
		{`"a" in args.tags && size(args.tags) == 2`, true, ""},
		{`args.flag`, true, ""},
		{`has(args.amount) && !has(args.memo)`, true, ""},
		{`args.tags.exists(x, x == "b")`, true, ""},
		{`name == "transfer" && class == "financial" && action == "tool"`, true, ""},
		{`spent_microdollars + cost_microdollars > 10.0 && turn == 3.0 && tool_calls < 3.0 && tokens_used == 5.0`, true, ""},
		{`args.memo == "x"`, false, "no such key: memo"},
		{`args.to.name == "x"`, false, "no such key: name"},
		{`args.to`, false, "expected a bool"},
		{`args.n + 1 > 2`, false, "no such overload"}, // numbers of JSON are doubles: 1.0
		{`args.amount > "x"`, false, "no such overload"},
		{`args.tags[5] == "a"`, false, "index out of bounds"},
	} {
		p, err := about.CompileCondition(tt.expression)
		if err != nil {
			t.Errorf("%s: %v", tt.expression, err)
			continue
		}
		got, err := p.Holds(vars(t, args))
		switch {
		case tt.err == "" && (err != nil || got != tt.want):
			t.Errorf("%s: got %v, %v, want %v", tt.expression, got, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: got %v, %v, want an error with %q", tt.expression, got, err, tt.err)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, tt := range []struct{ name, expression, want string }{
		{"an unknown variable", `amount > 1.0`, "undeclared reference to 'amount'"},
		{"a misspelt one", `arg.amount > 1.0`, "undeclared reference to 'arg'"},
		{"not a bool", `"yes"`, "type string, expected bool"},
		{"a number", `args.amount + 1.0`, "type double, expected bool"},
		{"bad syntax", `args.amount >`, "1:14: Syntax error"},
		{"nothing", " ", "empty"},
		{"a clock", `timestamp("2026-01-01T00:00:00Z") == timestamp("2026-01-01T00:00:00Z")`, "undeclared reference to 'timestamp'"},
		{"a duration", `duration("1s") == duration("1s")`, "undeclared reference to 'duration'"},
		{"a time zone", `args.at.getHours("Asia/Tokyo") == 3`, "undeclared reference to 'getHours'"},
		{"a broken pattern", `name.matches("(")`, "invalid matches"},
		{"types that cannot be compared", `name > 3.0`, "no matching overload"},
		{"too long", strings.Repeat(" ", maxSource) + "true", "exceeds limit"},
		{"too deep", strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500), "recursion"},
		{"loops in loops in loops", `args.a.all(x, args.a.all(y, args.a.all(z, x == y && y == z)))`, "nest"},
	} {
		_, err := about.CompileCondition(tt.expression)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", tt.name, err, tt.want)
		}
	}
}

func TestValueGivesWhatJSONHas(t *testing.T) {
	for _, tt := range []struct{ expression, want, err string }{
		{`list[0].to`, `{"iban":"DE1"}`, ""},
		{`args.map(k, k)`, `["n","to"]`, ""},
		{`[1, 2u, 3.5, "x", null, true, {"a": [args.n]}]`, `[1,2,3.5,"x",null,true,{"a":[7]}]`, ""},
		{`{1: "a"}`, "", "a key of type int"},
		{`b"bytes"`, "", "which JSON does not have"},
		{`args.memo`, "", "no such key: memo"},
	} {
		p, err := about.Compile(tt.expression)
		if err != nil {
			t.Errorf("%s: %v", tt.expression, err)
			continue
		}
		got, err := p.Value(t.Context(), vars(t, `{"n":7,"to":{"iban":"DE1"}}`), about.Budget())
		text, _ := json.Marshal(got)
		switch {
		case tt.err == "" && (err != nil || string(text) != tt.want):
			t.Errorf("%s: got %s, %v, want %s", tt.expression, text, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: got %s, %v, want an error with %q", tt.expression, text, err, tt.err)
		}
	}
}

// An expression cannot run for long, whatever the agent puts into the
// arguments.
func TestHoldsStopsAtTheCostLimit(t *testing.T) {
	p, err := about.CompileCondition(`args.a.all(x, args.a.all(y, x + y < 1e9))`)
	if err != nil {
		t.Fatal(err)
	}
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + "]"
	_, err = p.Holds(vars(t, `{"a":`+list+`}`))
	var spent *SpentError
	if !errors.As(err, &spent) || spent.Allowed != 200_000 || spent.Spent <= spent.Allowed {
		t.Errorf("got %v, want that it is too dear", err)
	}
}

// Go walks maps in random order. Asked many times, an expression that depends
// on the order must always say the same.
func TestHoldsDoesNotDependOnTheOrderOfMaps(t *testing.T) {
	var members []string
	for i := range 40 {
		members = append(members, fmt.Sprintf(`"k%02d":%d`, i, i))
	}
	inner := "{" + strings.Join(members, ",") + "}"
	p, err := about.CompileCondition(`args.o.map(k, k)[0] == "k00" && args.map(k, k)[0] == "a"`)
	if err != nil {
		t.Fatal(err)
	}
	failing, err := about.CompileCondition(`args.o.all(k, args.o[k] == "text".size() || args.missing[k])`)
	if err != nil {
		t.Fatal(err)
	}
	first := ""
	for range 50 {
		v := vars(t, `{"b":1,"a":2,"c":3,"o":`+inner+`}`)
		if got, err := p.Holds(v); err != nil || !got {
			t.Fatalf("got %v, %v", got, err)
		}
		_, err := failing.Holds(v)
		if first == "" && err != nil {
			first = err.Error()
		}
		if err == nil || err.Error() != first {
			t.Fatalf("got %v, before it was %s", err, first)
		}
	}
}

// FuzzCompile: whatever compiles ends, with the same answer twice.
func FuzzCompile(f *testing.F) {
	f.Add(`args.amount > 100.0 && name == "x"`, `{"amount":1}`)
	f.Add(`args.map(k, k)[0] == "a"`, `{"b":1,"a":[1,{"c":null}]}`)
	f.Fuzz(func(t *testing.T, expression, args string) {
		var a map[string]any
		if json.Unmarshal([]byte(args), &a) != nil {
			return
		}
		p, err := about.Compile(expression)
		if err != nil {
			return
		}
		one, err1 := p.Value(t.Context(), vars(t, args), about.Budget())
		two, err2 := p.Value(t.Context(), vars(t, args), about.Budget())
		if fmt.Sprint(one, err1) != fmt.Sprint(two, err2) {
			t.Fatalf("%v, %v and then %v, %v", one, err1, two, err2)
		}
	})
}

func BenchmarkHolds(b *testing.B) {
	p, err := about.CompileCondition(`args.amount > 100.0 && name == "transfer"`)
	if err != nil {
		b.Fatal(err)
	}
	v := vars(b, `{"amount":101}`)
	for b.Loop() {
		if ok, err := p.Holds(v); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

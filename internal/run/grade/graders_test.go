package grade

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// A step is an event to be written.
type step struct {
	turn    int
	payload trajectory.Payload
}

func verified(t testing.TB, steps ...step) *trajectory.Verified {
	t.Helper()
	p := policy.ForMode(policy.Autonomous)
	start := &trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Governance: p.Mode,
		Policy: p.SerialisedDigest(), PolicyShort: p.ShortHash(), Repeat: 1, Target: "t", Vantage: vantage.Inside}
	l := trajectory.NewLog()
	for _, s := range append([]step{{0, start}}, steps...) {
		if _, err := l.Append(s.turn, s.payload, 0); err != nil {
			t.Fatal(err)
		}
	}
	v, err := trajectory.Verify(l.Bytes(), trajectory.HeadIs(l.Head()))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func text(s string) trajectory.Content {
	return trajectory.NewContent([]byte(s), trajectory.ArgumentHead)
}

// said is a run of one turn with this answer.
func said(t testing.TB, answer string) *extract.Source {
	t.Helper()
	c := text(answer)
	return &extract.Source{Answer: answer, HasAnswer: true,
		Trajectory: verified(t, step{1, &trajectory.TurnStarted{}}, step{1, &trajectory.RunCompleted{Answer: &c, Status: "completed"}})}
}

// called is a run that made these calls: name, then arguments.
func called(t testing.TB, calls ...string) *extract.Source {
	t.Helper()
	steps := []step{{1, &trajectory.TurnStarted{}}}
	for i, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		id := fmt.Sprint("c", i)
		steps = append(steps, step{1, &trajectory.PolicyDecision{Action: policy.Tool, Call: id, Check: policy.Allowed, Name: name, Reason: "r", Rule: "r", Verdict: policy.Allow}},
			step{1, &trajectory.ToolExecuted{Args: trajectory.NewArgs([]byte(args)), Call: id, Name: name, Result: text("ok"), Source: "fixture", Tokens: 10}})
	}
	return &extract.Source{Trajectory: verified(t, append(steps, step{1, &trajectory.RunCompleted{Status: "completed"}})...)}
}

// byName refuses by the name of the member alone.
func byName(member []string, err error) error {
	return refusal.Newf(refusal.Malformed, "grading: %w", &placed{member, err})
}

func compiled(t testing.TB, doc string, m Materials) *Grader {
	t.Helper()
	p, err := Parse(canon.RawMessage(doc), byName)
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	g, err := p.Compile(m)
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return g
}

// check grades and makes sure that the result can be recorded.
func check(t testing.TB, g *Grader, in Input) Result {
	t.Helper()
	r := g.Grade(in)
	doc, err := Document(&r)
	if err != nil {
		t.Fatal(err)
	}
	if err := canon.Validate(doc); err != nil {
		t.Fatal(err)
	}
	score, err := r.EvidenceScore(registration, 1_500_000, 1234567*time.Microsecond)
	if (err == nil) != (r.Unscored == "") {
		t.Fatalf("unscored %q, and the score is %+v, %v", r.Unscored, score, err)
	}
	if err == nil && (score.CostUSD != 1.5 || score.DurationSeconds != 1.235 || score.Passed != r.Passed || len(score.FailureModes) == 0 && !r.Passed) {
		t.Fatalf("score %+v of %+v", score, r)
	}
	return r
}

// A row is one grader with right, wrong and hostile values.
type row struct {
	grade    string // the rule
	expected string // of the case
	answer   string
	want     string // passed, or the code
	why      string // part of the reason
}

func runRows(t *testing.T, rows []row) {
	for _, tt := range rows {
		t.Run(fmt.Sprintf("%s on %.60s", tt.grade, tt.answer), func(t *testing.T) {
			g := compiled(t, `{"grade":`+tt.grade+`}`, Materials{Expected: canon.RawMessage(tt.expected)})
			r := check(t, g, Input{Source: said(t, tt.answer)})
			got := strings.Join(r.FailureModes, " ")
			if r.Passed {
				got = "passed"
			}
			if got != tt.want || r.Unscored != "" || !strings.Contains(r.Details[0].Why, tt.why) {
				t.Errorf("got %s (%s) %s, want %s with %q", got, r.Details[0].Why, r.Unscored, tt.want, tt.why)
			}
			if r.Passed != (r.Score == 1) || r.Breakdown["grade"] != r.Score {
				t.Errorf("passed %v with score %v and breakdown %v", r.Passed, r.Score, r.Breakdown)
			}
			if strings.ContainsAny(r.Details[0].Why, "\n\x1b\u202e") {
				t.Errorf("the reason can hurt a terminal: %q", r.Details[0].Why)
			}
		})
	}
}

func TestTextGraders(t *testing.T) {
	runRows(t, []row{
		{`{"kind":"exact","expected":"Paris"}`, "", "Paris", "passed", "the same"},
		{`{"kind":"exact","expected":"Paris"}`, "", "paris", CodeMismatch, `it is "paris", expected "Paris"`},
		{`{"kind":"exact","expected":"Paris"}`, "", "Paris\n", CodeMismatch, ""},
		{`{"kind":"exact","expected":"Paris"}`, "", "\x1b[2JParis\u202e\n", CodeMismatch, `\x1b[2JParis`},
		{`{"kind":"exact","expected":"Paris"}`, "", " ", CodeNothingFound, "is empty"},
		{`{"kind":"exact","expected":"Paris"}`, "", strings.Repeat("Paris", 1000), CodeMismatch, "bytes more"},
		{`{"kind":"exact"}`, `"Paris"`, "Paris", "passed", ""},
		{`{"kind":"exact","expected_pointer":"/city"}`, `{"city":"Paris"}`, "Paris", "passed", ""},
		{`{"kind":"exact","expected":42}`, "", "42", CodeNotComparable, "the value is a text, expected a number"},

		{`{"kind":"normalised","expected":"The Eiffel Tower"}`, "", "  the EIFFEL\ttower!\n", "passed", ""},
		{`{"kind":"normalised","expected":"café"}`, "", "CAFE\u0301", "passed", ""},
		{`{"kind":"normalised","expected":"don't"}`, "", "Don’t.", "passed", ""},
		{`{"kind":"normalised","expected":"１２"}`, "", "12", "passed", ""},
		{`{"kind":"normalised","expected":"3.14"}`, "", "3.14.", "passed", ""},
		{`{"kind":"normalised","expected":"3.14"}`, "", "314", CodeMismatch, ""},
		{`{"kind":"normalised","expected":".5"}`, "", "5", CodeMismatch, ""},
		{`{"kind":"normalised","expected":"-5"}`, "", "5", CodeMismatch, ""},
		{`{"kind":"normalised","expected":"C#"}`, "", "C", CodeMismatch, ""},
		{`{"kind":"normalised","expected":"C++"}`, "", "c", CodeMismatch, ""},
		{`{"kind":"normalised","expected":"100%"}`, "", "100", CodeMismatch, ""},
		{`{"kind":"normalised","expected":"a b"}`, "", "ab", CodeMismatch, ""},
		{`{"kind":"normalised","expected":"yes"}`, "", "?!...", CodeNothingFound, "nothing is left"},
		{`{"kind":"normalised","expected":"yes"}`, "", "(\"yes\")", "passed", ""},
		{`{"kind":"normalised","expected":"Yes","keep":["case"]}`, "", "yes", CodeMismatch, ""},
		{`{"kind":"normalised","expected":"yes!","keep":["punctuation"]}`, "", "yes", CodeMismatch, ""},
		{`{"kind":"normalised","expected":"a b","keep":["space"]}`, "", "a  b", CodeMismatch, ""},
		{`{"kind":"normalised","expected":"x"}`, "", strings.Repeat("x", maxText+1), CodeTooLarge, "more than"},

		{`{"kind":"contains","expected":["Paris","France"]}`, "", "Paris is in France", "passed", ""},
		{`{"kind":"contains","expected":["Paris","France"]}`, "", "Paris is in Texas", CodeMismatch, `does not contain "France"`},
		{`{"kind":"contains","expected":"paris"}`, "", "Paris", CodeMismatch, ""},
		{`{"kind":"contains","expected":"paris","normalised":true}`, "", "PARIS, France", "passed", ""},
		{`{"kind":"contains","expected":["Paris","France"],"words":true}`, "", "Paris is in France", "passed", ""},
		{`{"kind":"contains","expected":["Paris","Fran"],"words":true}`, "", "Paris is in France", CodeMismatch, "as whole words"},
		{`{"kind":"contains","expected":"Paris","normalised":true,"words":true}`, "", "It is PARIS.", "passed", ""},
		{`{"kind":"contains","expected":"Paris","normalised":true,"words":true}`, "", "Parisian food", CodeMismatch, ""},
		{`{"kind":"contains","expected":"B","normalised":true,"words":true}`, "", "Because it is better.", CodeMismatch, ""},
		{`{"kind":"contains","expected":"B","normalised":true,"words":true}`, "", "The answer is (B).", "passed", ""},
		{`{"kind":"contains","expected":"cat","normalised":true,"words":true}`, "", "concatenate", CodeMismatch, ""},
		{`{"kind":"contains","expected":"cat","normalised":true,"words":true}`, "", "a cat; no dog", "passed", ""},
		{`{"kind":"contains","expected":"3","normalised":true,"words":true}`, "", "13 or 3.14 or -3 or 3,000 or .3", CodeMismatch, ""},
		{`{"kind":"contains","expected":"3","normalised":true,"words":true}`, "", "there are 3.", "passed", ""},
		{`{"kind":"contains","expected":"3","normalised":true,"words":true}`, "", "3, not 4", "passed", ""},
		{`{"kind":"contains","expected":"toxic","normalised":true,"words":true}`, "", "it is non-toxic", CodeMismatch, ""},
		{`{"kind":"contains","expected":"don","normalised":true,"words":true}`, "", "I don't", CodeMismatch, ""},
		{`{"kind":"contains","expected":"C","normalised":true,"words":true}`, "", "C++ and C#", CodeMismatch, ""},
		{`{"kind":"contains","expected":"C++","normalised":true,"words":true}`, "", "use C++.", "passed", ""},
		{`{"kind":"contains","expected":"C","normalised":true,"words":true}`, "", "in C, of course", "passed", ""},
		{`{"kind":"contains","expected":"New York","normalised":true,"words":true}`, "", "new   york city", "passed", ""},
		{`{"kind":"contains","expected":"New York","normalised":true,"words":true}`, "", "New Yorker", CodeMismatch, ""},
		{`{"kind":"contains","expected":"ä","normalised":true,"words":true}`, "", "ä", "passed", ""},
		{`{"kind":"contains","expected":"München","normalised":true,"words":true}`, "", "Ich wohne in MÜNCHEN!", "passed", ""},
		{`{"kind":"contains","expected":"日本","normalised":true,"words":true}`, "", "日本語", CodeMismatch, ""},
		{`{"kind":"contains","expected":"no","normalised":true,"words":true}`, "", "none, nothing, know", CodeMismatch, ""},

		{`{"kind":"one_of","expected":["yes","true"]}`, "", "true", "passed", ""},
		{`{"kind":"one_of","expected":["yes","true"]}`, "", "yes true", CodeMismatch, "is none of"},
		{`{"kind":"one_of","expected":["yes","true"],"normalised":true}`, "", "Yes.", "passed", ""},

		{`{"kind":"regex","pattern":"[0-9]+"}`, "", "123", "passed", ""},
		{`{"kind":"regex","pattern":"[0-9]+"}`, "", "a123", CodeMismatch, "all of it"},
		{`{"kind":"regex","pattern":"[0-9]+"}`, "", "123\n", CodeMismatch, ""},
		{`{"kind":"regex","pattern":"a|b"}`, "", "ab", CodeMismatch, ""},
		{`{"kind":"regex","pattern":"[0-9]+","match":"anywhere"}`, "", "a123b", "passed", ""},
		{`{"kind":"regex","pattern":"(a+)+b","match":"anywhere"}`, "", strings.Repeat("a", 5000), CodeMismatch, ""},
		{`{"kind":"regex","pattern":"[0-9]+"}`, "", strings.Repeat("1", maxText+1), CodeTooLarge, ""},

		{`{"kind":"absent"}`, "", " ", "passed", "is empty"},
		{`{"kind":"absent"}`, "", "something", CodeMismatch, "there is a value"},
	})
}

func TestNumberGrader(t *testing.T) {
	runRows(t, []row{
		{`{"kind":"number","expected":42}`, "", "42", "passed", ""},
		{`{"kind":"number","expected":42}`, "", " 42.000 \n", "passed", ""},
		{`{"kind":"number","expected":42}`, "", "4.2e1", "passed", ""},
		{`{"kind":"number","expected":42}`, "", "42.0000001", CodeMismatch, "apart"},
		{`{"kind":"number","expected":1,"tolerance":0.1}`, "", "1.1", "passed", "0.1 apart, 0.1 allowed"},
		{`{"kind":"number","expected":1,"tolerance":0.1}`, "", "1.10000000000000000001", CodeMismatch, ""},
		{`{"kind":"number","expected":200,"relative":0.01}`, "", "202", "passed", ""},
		{`{"kind":"number","expected":200,"relative":0.01}`, "", "202.1", CodeMismatch, ""},
		{`{"kind":"number","expected":-200,"relative":0.01}`, "", "-198", "passed", ""},
		{`{"kind":"number","expected":0,"relative":0.5}`, "", "0.0001", CodeMismatch, ""},
		{`{"kind":"number","expected":-5}`, "", "\u22125", "passed", ""},
		{`{"kind":"number","expected":-5}`, "", "5", CodeMismatch, ""},
		{`{"kind":"number","expected":1234567.5}`, "", "1,234,567.5", "passed", ""},
		{`{"kind":"number","expected":1.5}`, "", "1,5", CodeNotComparable, "is no number"},
		{`{"kind":"number","expected":15}`, "", "1,5", CodeNotComparable, ""},
		{`{"kind":"number","expected":1}`, "", "one", CodeNotComparable, ""},
		{`{"kind":"number","expected":0}`, "", "NaN", CodeNotComparable, ""},
		{`{"kind":"number","expected":0}`, "", "Infinity", CodeNotComparable, ""},
		{`{"kind":"number","expected":0}`, "", "0x0", CodeNotComparable, ""},
		{`{"kind":"number","expected":0}`, "", "", CodeNothingFound, ""},
		{`{"kind":"number","expected":0}`, "", "1e999999999", CodeNotComparable, ""},
		{`{"kind":"number","expected":0}`, "", "0" + strings.Repeat("0", 900), CodeNotComparable, ""},
		{`{"kind":"number","expected":7}`, "", "3 4 7", CodeNotComparable, ""},
		{`{"kind":"number","expected":7,"find":"last"}`, "", "3 and 4 make 7.", "passed", ""},
		{`{"kind":"number","expected":3,"find":"first"}`, "", "3 and 4 make 7.", "passed", ""},
		{`{"kind":"number","expected":-3,"find":"first"}`, "", "it is -3", "passed", ""},
		{`{"kind":"number","expected":3,"find":"last"}`, "", "v2 of 1.2.3 has 3 for the 2nd time", "passed", ""},
		{`{"kind":"number","expected":3,"find":"last"}`, "", "none", CodeNotComparable, ""},
		{`{"kind":"number","expected":3,"find":"last"}`, "", strings.Repeat("1", 500_000), CodeNotComparable, ""},
		{`{"kind":"number","expected":3,"find":"last"}`, "", strings.Repeat("111,", 100_000), CodeNotComparable, ""},

		{`{"kind":"number","expected":42,"unit":"km"}`, "", "42 km", "passed", ""},
		{`{"kind":"number","expected":42,"unit":"km"}`, "", "42,000 m", "passed", ""},
		{`{"kind":"number","expected":42,"unit":"km"}`, "", "42000 metres", "passed", ""},
		{`{"kind":"number","expected":26.0976,"unit":"mi","tolerance":0.0001}`, "", "42 km", "passed", ""},
		{`{"kind":"number","expected":42,"unit":"km"}`, "", "42", "passed", ""},
		{`{"kind":"number","expected":42,"unit":"km","unit_required":true}`, "", "42", CodeNotComparable, "no unit"},
		{`{"kind":"number","expected":42,"unit":"km"}`, "", "42 kg", CodeNotComparable, "measures mass"},
		{`{"kind":"number","expected":42,"unit":"km"}`, "", "42 parsecs", CodeNotComparable, "no unit that is known"},
		{`{"kind":"number","expected":42}`, "", "42 km", CodeNotComparable, "none is expected"},
		{`{"kind":"number","expected":42,"unit":"km","find":"last"}`, "", "It is 5 h away, about 42 km.", "passed", ""},
		{`{"kind":"number","expected":1,"unit":"in"}`, "", "2.54 cm", "passed", ""},
		{`{"kind":"number","expected":12,"find":"first"}`, "", "There are 12 in total.", "passed", ""},
		{`{"kind":"number","expected":12,"find":"last"}`, "", "of them 12 in the box", "passed", ""},
		{`{"kind":"number","expected":12,"find":"first"}`, "", "It is 12 in.", CodeNotComparable, "none is expected"},
		{`{"kind":"number","expected":12,"unit":"in","find":"first"}`, "", "It is 12 in long", "passed", ""},
		{`{"kind":"number","expected":42}`, "", "42.", "passed", ""},
		{`{"kind":"number","expected":42}`, "", "$42", "passed", ""},
		{`{"kind":"number","expected":42}`, "", "42 EUR", "passed", ""},
		{`{"kind":"number","expected":42}`, "", "42..", CodeNotComparable, ""},
		{`{"kind":"number","expected":1,"unit":"lb"}`, "", "453.59237 g", "passed", ""},
		{`{"kind":"number","expected":90,"unit":"min"}`, "", "1.5 h", "passed", ""},
		{`{"kind":"number","expected":1,"unit":"MiB"}`, "", "1.048576 MB", "passed", ""},
		{`{"kind":"number","expected":1,"unit":"MB"}`, "", "1 mB", CodeNotComparable, ""},
		{`{"kind":"number","expected":212,"unit":"°F"}`, "", "100 °C", "passed", ""},
		{`{"kind":"number","expected":-40,"unit":"°F"}`, "", "-40 °C", "passed", ""},
		{`{"kind":"number","expected":0,"unit":"K"}`, "", "-273.15 °C", "passed", ""},
		{`{"kind":"number","expected":1250.5,"unit":"USD"}`, "", "$1,250.50", "passed", ""},
		{`{"kind":"number","expected":1250.5,"unit":"USD"}`, "", "€1,250.50", CodeNotComparable, "euros"},
		{`{"kind":"number","expected":12,"unit":"%"}`, "", "12%", "passed", ""},
		{`{"kind":"number","expected":12,"unit":"%"}`, "", "12 percent", "passed", ""},
		{`{"kind":"number","expected_pointer":"/n"}`, `{"n":7}`, "7", "passed", ""},
	})
}

func TestCompareGrader(t *testing.T) {
	runRows(t, []row{
		{`{"kind":"compare","expect":">=1"}`, "", "1", "passed", `"1" is >=1`},
		{`{"kind":"compare","expect":">= 1"}`, "", "1.0", "passed", ""},
		{`{"kind":"compare","expect":"<5"}`, "", "5", CodeMismatch, `"5" is not <5`},
		{`{"kind":"compare","expect":">1"}`, "", "10", "passed", ""}, // as numbers; as texts 10 comes before 9
		{`{"kind":"compare","expect":">9"}`, "", "10", "passed", ""},
		{`{"kind":"compare","expect":">9"}`, "", "many", CodeNotComparable, "cannot be compared"},
		{`{"kind":"compare","expect":"!=refused"}`, "", "done", "passed", ""},
		{`{"kind":"compare","expect":"!=refused"}`, "", "refused", CodeMismatch, ""},
		{`{"kind":"compare","expect":"!=refused"}`, "", " ", CodeNothingFound, ""},
		{`{"kind":"compare","expect":"==>=1"}`, "", ">=1", "passed", ""},
		{`{"kind":"compare","expect":"done"}`, "", "done", "passed", ""},
	})
}

func TestJSONGraders(t *testing.T) {
	shape := `{"kind":"json_schema","schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number","minimum":0}},"additionalProperties":false}}`
	equal := `{"kind":"json_equal","expected":{"id":1,"items":[{"id":"a","n":1},{"id":"b","n":2}],"at":"now"},"ignore":["/at","/items/*/id"]}`
	runRows(t, []row{
		{shape, "", `{"total": 4.5}`, "passed", ""},
		{shape, "", `{"total": -1}`, CodeMismatch, "does not fit the schema"},
		{shape, "", `{"total":1,"more":2}`, CodeMismatch, ""},
		{shape, "", `{"total":1,"total":2}`, CodeNotComparable, "is no JSON"},
		{shape, "", `{"total":1} trailing`, CodeNotComparable, ""},
		{shape, "", "total: 1", CodeNotComparable, ""},
		{shape, "", strings.Repeat("[", 100_000), CodeNotComparable, ""},
		{shape, "", "[" + strings.Repeat("1,", maxText/2) + "1]", CodeTooLarge, ""},

		{equal, "", `{"items":[{"id":"x","n":1},{"n":2.0}],"id":1,"at":"later"}`, "passed", ""},
		{equal, "", `{"items":[{"n":1},{"n":2}],"id":1}`, "passed", ""},
		{equal, "", `{"items":[{"n":1},{"n":3}],"id":1}`, CodeMismatch, `at "/items/1/n" it is "3", expected "2"`},
		{equal, "", `{"items":[{"n":1}],"id":1}`, CodeMismatch, "a list of 1"},
		{equal, "", `{"items":[{"n":1},{"n":2}],"id":1,"more":null}`, CodeMismatch, `at "/more" it is "null", expected nothing`},
		{equal, "", `{"items":[{"n":1},{"n":2}]}`, CodeMismatch, `at "/id" it is nothing, expected "1"`},
		{equal, "", `{"items":{"0":{"n":1},"1":{"n":2}},"id":1}`, CodeMismatch, `at "/items"`},
		{equal, "", `[]`, CodeMismatch, ""},
		{`{"kind":"json_equal"}`, `{"a":1.0}`, `{ "a" : 1 }`, "passed", ""},
	})
}

func TestToolCallGrader(t *testing.T) {
	two := `[{"name":"a","args":{"x":1}},{"name":"b"}]`
	for _, tt := range []struct {
		rule  string
		calls []string
		want  string
		why   string
	}{
		{`"expected":` + two, []string{`a {"x":1}`, `b {"y":2}`}, "passed", "the 2 calls are as expected"},
		{`"expected":` + two, []string{`a {"x":1.0}`, `b {}`}, "passed", ""},
		{`"expected":` + two, []string{`b {}`, `a {"x":1}`}, CodeMismatch, `call 1 is "b {}", expected`},
		{`"expected":` + two, []string{`a {"x":2}`, `b {}`}, CodeMismatch, "call 1"},
		{`"expected":` + two, []string{`a {"x":1,"z":1}`, `b {}`}, CodeMismatch, ""},
		{`"expected":` + two, []string{`a {"x":1}`}, CodeMismatch, `1 calls, expected 2; the first one missing is "b"`},
		{`"expected":` + two, []string{`a {"x":1}`, `b {}`, `c {}`}, CodeMismatch, `the first one more is "c {}"`},
		{`"expected":` + two, []string{`a not json`, `b {}`}, CodeMismatch, "not json"},
		{`"expected":[]`, nil, "passed", ""},
		{`"expected":[]`, []string{`a {}`}, CodeMismatch, "1 calls, expected 0"},
		{`"expected":[{"name":"a"}]`, []string{`A {}`}, CodeMismatch, ""},

		{`"mode":"unordered","expected":` + two, []string{`b {}`, `a {"x":1}`}, "passed", ""},
		{`"mode":"unordered","expected":` + two, []string{`b {}`, `a {"x":1}`, `b {}`}, CodeMismatch, "nothing expects call 3"},
		{`"mode":"unordered","expected":` + two, []string{`b {}`, `b {}`}, CodeMismatch, "no call is left for"},
		{`"mode":"superset","expected":` + two, []string{`c {}`, `b {}`, `a {"x":1}`}, "passed", ""},
		{`"mode":"superset","expected":` + two, []string{`c {}`, `b {}`}, CodeMismatch, "no call is left"},
		{`"mode":"superset","expected":[{"name":"a"},{"name":"a"}]`, []string{`a {}`}, CodeMismatch, "no call is left"},
		{`"mode":"subset","expected":` + two, []string{`b {}`}, "passed", ""},
		{`"mode":"subset","expected":` + two, nil, "passed", ""},
		{`"mode":"subset","expected":` + two, []string{`b {}`, `b {}`}, CodeMismatch, "nothing expects call 2"},
		{`"mode":"subset","expected":[]`, []string{`rm {}`}, CodeMismatch, "nothing expects call 1"},

		{`"args":"superset","expected":[{"name":"a","args":{"x":1}}]`, []string{`a {"x":1,"y":2}`}, "passed", ""},
		{`"args":"superset","expected":[{"name":"a","args":{"x":1}}]`, []string{`a {"y":2}`}, CodeMismatch, ""},
		{`"args":"subset","expected":[{"name":"a","args":{"x":1,"y":2}}]`, []string{`a {"x":1}`}, "passed", ""},
		{`"args":"subset","expected":[{"name":"a","args":{"x":1}}]`, []string{`a {"x":1,"y":2}`}, CodeMismatch, ""},
		{`"args":"ignore","expected":[{"name":"a","args":{"x":1}}]`, []string{`a {"x":9}`}, "passed", ""},
		{`"args":"ignore","expected":[{"name":"a","args":{"x":1}}]`, []string{`b {"x":1}`}, CodeMismatch, ""},
		// Greedy pairing would give the first call to the first expectation
		// and leave none for the second.
		{`"mode":"unordered","args":"superset","expected":[{"name":"a","args":{}},{"name":"a","args":{"x":1}}]`, []string{`a {"x":1}`, `a {}`}, "passed", ""},
	} {
		g := compiled(t, `{"grade":{"kind":"tool_calls",`+tt.rule+`}}`, Materials{})
		r := check(t, g, Input{Source: called(t, tt.calls...)})
		got := strings.Join(r.FailureModes, " ")
		if r.Passed {
			got = "passed"
		}
		if got != tt.want || !strings.Contains(r.Details[0].Why, tt.why) {
			t.Errorf("%s on %v: got %s (%s), want %s with %q", tt.rule, tt.calls, got, r.Details[0].Why, tt.want, tt.why)
		}
	}
}

// TestToolCallsWithoutTheirArgumentsAreUnscored: unless no check looks at them.
func TestToolCallsWithoutTheirArgumentsAreUnscored(t *testing.T) {
	s := called(t, `a {"body":"`+strings.Repeat("x", 20_000)+`"}`, `b {}`)
	for doc, want := range map[string]string{
		`[{"name":"a","args":{"body":"x"}},{"name":"b"}]`: "unscored",
		`[{"name":"a"},{"name":"b","args":{}}]`:           "passed",
		`[{"name":"c"},{"name":"b","args":{}}]`:           "failed",
	} {
		r := check(t, compiled(t, `{"grade":{"kind":"tool_calls","expected":`+doc+`}}`, Materials{}), Input{Source: s})
		got := "failed"
		if r.Unscored != "" {
			got = "unscored"
		} else if r.Passed {
			got = "passed"
		}
		if got != want {
			t.Errorf("%s: got %s (%s), want %s", doc, got, r.Details[0].Why, want)
		}
	}
}

// longRun is a run in which the agent knows a fact until a turn, and passes its
// budget in one.
func longRun(t testing.TB, turns, forgets, over int) *extract.Source {
	steps := []step{{0, &trajectory.MemoryWritten{Call: "s", Confidence: 1, Entry: "m0", Key: "fact", Source: "case", Tier: trajectory.Semantic, Value: text("F")}}}
	for i := 1; i <= turns; i++ {
		used := 100
		if i == over {
			used = 500
		}
		steps = append(steps, step{i, &trajectory.TurnStarted{}},
			step{i, &trajectory.ContextCompiled{Admitted: []string{}, Budget: 400, Compression: []string{}, Sections: map[string]int{"history": used}, Used: int64(used), Window: 1000}},
			step{i, &trajectory.ContextCompiled{Admitted: []string{}, Budget: 400, Compression: []string{}, Sections: map[string]int{"history": 1}, Used: 1, Window: 1000}})
		if i == forgets {
			steps = append(steps, step{i, &trajectory.MemoryWritten{Call: fmt.Sprint("w", i), Confidence: 1, Entry: "m1", Key: "fact", Source: "user", Supersedes: "m0", Tier: trajectory.Semantic, Value: text("G")}})
		}
		steps = append(steps, step{i, &trajectory.TurnCompleted{}})
	}
	return &extract.Source{Trajectory: verified(t, append(steps, step{turns, &trajectory.RunCompleted{Status: "completed"}})...)}
}

// TestConditionsAtATurnAndAlways: "at turn 50 the agent still knows F" and
// "context never exceeded V_e".
func TestConditionsAtATurnAndAlways(t *testing.T) {
	knows := `{"kind":"cel","expression":"memory.semantic.fact == 'F'","at_turn":50}`
	budget := `{"kind":"cel","expression":"size(context.over_budget) == 0","always":true}`
	for _, tt := range []struct {
		name, rule string
		source     *extract.Source
		want, why  string
	}{
		{"knows", knows, longRun(t, 50, 0, 0), "passed", "at the end of turn 50"},
		{"forgot before", knows, longRun(t, 50, 49, 0), CodeMismatch, "does not hold at the end of turn 50"},
		{"forgot after", knows, longRun(t, 60, 51, 0), "passed", ""},
		{"ended too early", knows, longRun(t, 49, 0, 0), CodeNothingFound, "49 turns, too few"},
		{"within budget", budget, longRun(t, 50, 0, 0), "passed", "each of 50 turns"},
		{"over in the middle of a turn", budget, longRun(t, 50, 0, 7), CodeMismatch, "does not hold at the end of turn 7"},
		{"no turns", budget, &extract.Source{Trajectory: verified(t)}, CodeNothingFound, "0 turns"},
		{"a key that is not there", `{"kind":"cel","expression":"memory.semantic.gone == 'F'","always":true}`, longRun(t, 3, 0, 0), CodeConditionFails, "no such key"},
		{"not a bool", `{"kind":"cel","expression":"memory.semantic.fact","always":true}`, longRun(t, 3, 0, 0), CodeConditionFails, "something else"},
		{"only events of the turn", `{"kind":"cel","expression":"events.all(e, e.turn == run.turn) && events.filter(e, e.type == 'turn_started').size() == 1","always":true}`, longRun(t, 3, 0, 0), "passed", ""},
	} {
		r := check(t, compiled(t, `{"grade":`+tt.rule+`}`, Materials{}), Input{Source: tt.source})
		got := strings.Join(r.FailureModes, " ")
		if r.Passed {
			got = "passed"
		}
		if got != tt.want || !strings.Contains(r.Details[0].Why, tt.why) {
			t.Errorf("%s: got %s (%s) %s, want %s with %q", tt.name, got, r.Details[0].Why, r.Unscored, tt.want, tt.why)
		}
	}
}

func TestExpectationsCompareCounts(t *testing.T) {
	s := called(t, `a {}`, `b {}`, `b {}`)
	for doc, want := range map[string]string{
		`{"expect":{"tool_calls":">=1","tokens":"<500"}}`:                                         "passed",
		`{"expect":{"tool_calls":3,"tool_calls.b":"==2","tool_calls.c":0}}`:                       "passed",
		`{"expect":{"tool_calls":">=4"}}`:                                                         CodeMismatch,
		`{"expect":{"status":"completed","policy_denials":0,"turns":1,"policy_violations":"<1"}}`: "passed",
		`{"expect":{"finalStatus":"completed","policyDenials":">=1"}}`:                            CodeMismatch,
		`{"expect":{"status":"!=completed"}}`:                                                     CodeMismatch,
		`{"expect":{"test_passed":true}}`:                                                         CodeNothingFound,
		`{"expect":{"answer":"x","tool_calls":3}}`:                                                CodeNothingFound,
		`{"expect":{"tool_calls":3},"grade":{"kind":"absent"}}`:                                   "passed",
		`{"expect":{"tool_calls":2},"grade":{"kind":"absent"}}`:                                   CodeMismatch,
	} {
		r := check(t, compiled(t, doc, Materials{}), Input{Source: s})
		got := strings.Join(r.FailureModes, " ")
		if r.Passed {
			got = "passed"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s: %+v", doc, got, want, r.Details)
		}
	}
	for name, spec := range Expectations() {
		if _, err := extract.Compile(spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const (
	right  = `{"kind":"exact","expected":"Paris"}`
	wrong  = `{"kind":"exact","expected":"Rome"}`
	broken = `{"kind":"number","expected":1}`
	judged = `{"kind":"judge","criteria":"is it good?"}`
)

func named(rules ...string) string {
	var checks []string
	for i, r := range rules {
		rule, rest, _ := strings.Cut(r, "#")
		checks = append(checks, fmt.Sprintf(`{"name":"c%d","grade":%s%s}`, i, rule, rest))
	}
	return "[" + strings.Join(checks, ",") + "]"
}

// TestCombinations states the rules, the unscored check's above all.
func TestCombinations(t *testing.T) {
	weight := func(rule, w string) string { return rule + `#,"weight":` + w }
	for _, tt := range []struct {
		name, kind string
		checks     string
		want       string
		score      float64
	}{
		{"all pass", `"kind":"all"`, named(right, right), "passed", 1},
		{"one of all fails", `"kind":"all"`, named(right, wrong), "failed", 0},
		{"all with an unscored check", `"kind":"all"`, named(right, judged), "unscored", 0},
		{"all that fails whatever the judge says", `"kind":"all"`, named(judged, wrong), "failed", 0},
		{"all with an unscored check of no weight", `"kind":"all"`, named(right, weight(judged, "0")), "passed", 1},
		{"all with a failed check of no weight", `"kind":"all"`, named(right, weight(wrong, "0")), "passed", 1},

		{"any passes", `"kind":"any"`, named(wrong, right), "passed", 1},
		{"any fails", `"kind":"any"`, named(wrong, broken), "failed", 0},
		{"any with an unscored check", `"kind":"any"`, named(wrong, judged), "unscored", 0},
		{"any that passes whatever the judge says", `"kind":"any"`, named(judged, right), "passed", 1},

		{"not a match", `"kind":"not"`, named(wrong), "passed", 1},
		{"not, but it matches", `"kind":"not"`, named(right), "failed", 0},
		{"not, but nothing was compared", `"kind":"not"`, named(broken), "failed", 0},
		{"not, but unscored", `"kind":"not"`, named(judged), "unscored", 0},
		{"not all, because one could not compare", `"kind":"not"`, named(`{"kind":"all","checks":[{"name":"x","grade":` + right + `},{"name":"y","grade":` + broken + `}]}`), "failed", 0},
		{"not all, because one differs", `"kind":"not"`, named(`{"kind":"all","checks":[{"name":"x","grade":` + wrong + `},{"name":"y","grade":` + broken + `}]}`), "passed", 1},
		{"not any, but one could not compare", `"kind":"not"`, named(`{"kind":"any","checks":[{"name":"x","grade":` + wrong + `},{"name":"y","grade":` + broken + `}]}`), "failed", 0},
		{"not weighted, but one could not compare", `"kind":"not"`, named(`{"kind":"weighted","checks":[{"name":"x","grade":` + wrong + `},{"name":"y","grade":` + broken + `}]}`), "failed", 0},

		{"weights that add up", `"kind":"weighted","threshold":1`, named(weight(right, "0.1"), weight(right, "0.2"), weight(right, "0.7")), "passed", 1},
		{"half", `"kind":"weighted","threshold":0.5`, named(right, wrong), "passed", 0.5},
		{"a third of it", `"kind":"weighted","threshold":0.5`, named(right, weight(wrong, "2")), "failed", 1.0 / 3},
		{"everything by default", `"kind":"weighted"`, named(right, wrong), "failed", 0.5},
		{"unscored and needed", `"kind":"weighted","threshold":0.6`, named(right, judged), "unscored", 0},
		{"unscored and not needed", `"kind":"weighted","threshold":0.5`, named(right, judged), "passed", 1},
		{"unscored and no help", `"kind":"weighted","threshold":0.8`, named(wrong, judged, right), "failed", 0.5},
		{"nothing but unscored", `"kind":"weighted","threshold":0.5`, named(judged), "unscored", 0},
	} {
		g := compiled(t, `{"grade":{`+tt.kind+`,"checks":`+tt.checks+`}}`, Materials{})
		r := check(t, g, Input{Source: said(t, "Paris"), Judge: func(JudgeSpec, extract.Value) (JudgeOutcome, error) {
			return JudgeOutcome{Unscored: "it rambled"}, nil
		}})
		got := "failed"
		switch {
		case r.Unscored != "":
			got = "unscored"
			if !strings.Contains(r.Unscored, "it rambled") || r.Passed || r.Score != 0 {
				t.Errorf("%s: %+v", tt.name, r)
			}
		case r.Passed:
			got = "passed"
		}
		if got != tt.want || r.Score != tt.score {
			t.Errorf("%s: got %s with %v (%s), want %s with %v", tt.name, got, r.Score, r.Details[0].Why, tt.want, tt.score)
		}
	}
}

func TestEachCheckIsInTheDetailsAndTheBreakdown(t *testing.T) {
	reg := bench.Registration{FailureModes: map[string]evidence.Severity{"leak": evidence.Block}, Breakdown: []string{"city", "inner"}}
	doc := `{"checks":[
		{"name":"city","grade":` + right + `},
		{"name":"group","weight":2,"grade":{"kind":"weighted","threshold":0.5,"checks":[{"name":"inner","grade":` + wrong + `},{"name":"other","grade":` + right + `}]}},
		{"name":"secret","failure_mode":"leak","grade":{"kind":"not","checks":[{"name":"has-it","grade":{"kind":"contains","expected":"ari"}}]}}]}`
	r := check(t, compiled(t, doc, Materials{Registration: reg}), Input{Source: said(t, "Paris")})
	var names []string
	for _, d := range r.Details {
		names = append(names, d.Check+"="+string(d.Outcome))
	}
	if got := strings.Join(names, " "); got != "=mismatch city=passed group=passed group/inner=mismatch group/other=passed secret=mismatch secret/has-it=passed" {
		t.Errorf("details: %s", got)
	}
	if r.Passed || r.Score != 0.5 || strings.Join(r.FailureModes, " ") != "leak" {
		t.Errorf("got %v %v %v", r.Passed, r.Score, r.FailureModes)
	}
	score, err := r.EvidenceScore(reg, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(score.Breakdown) != "map[city:1 grade:0.5 inner:0]" {
		t.Errorf("breakdown %v", score.Breakdown)
	}
	d := r.Details[1]
	if d.Extracted.Head != "Paris" || d.Extracted.Digest != digest.ContentOf([]byte("Paris")) || d.Expected.Head != "Paris" || d.Extractor != "answer" || d.Kind != "text" || *d.Score != 1 {
		t.Errorf("detail %+v", d)
	}
}

func TestJudge(t *testing.T) {
	g := compiled(t, `{"grade":{"kind":"judge","criteria":"is it good?","votes":3,"threshold":0.7}}`, Materials{Expected: canon.RawMessage(`{"b":1, "a":2}`)})
	if !g.UsesJudge() || g.UsesRubric() {
		t.Error("UsesJudge")
	}
	for _, tt := range []struct {
		name    string
		outcome JudgeOutcome
		err     error
		want    string
	}{
		{"good", JudgeOutcome{Score: 0.7, Votes: []float64{0.6, 0.7, 0.8}, Reason: "fine\n\x1b[31m"}, nil, "passed"},
		{"below", JudgeOutcome{Score: 0.69}, nil, CodeBelowThreshold},
		{"zero", JudgeOutcome{}, nil, CodeBelowThreshold},
		{"rambles", JudgeOutcome{Unscored: "malformed reply"}, nil, "unscored"},
		{"times out", JudgeOutcome{Score: 1}, errors.New("deadline exceeded"), "unscored"},
		{"NaN", JudgeOutcome{Score: math.NaN()}, nil, "unscored"},
		{"more than one", JudgeOutcome{Score: 1.5}, nil, "unscored"},
		{"less than nothing", JudgeOutcome{Score: -0.1}, nil, "unscored"},
	} {
		var asked JudgeSpec
		r := check(t, g, Input{Source: said(t, "Paris"), Judge: func(s JudgeSpec, v extract.Value) (JudgeOutcome, error) {
			asked = s
			return tt.outcome, tt.err
		}})
		got := strings.Join(r.FailureModes, " ")
		if r.Unscored != "" {
			got = "unscored"
		} else if r.Passed {
			got = "passed"
		}
		if got != tt.want || !r.JudgedByModel || strings.ContainsAny(r.Details[0].Why, "\n\x1b") {
			t.Errorf("%s: got %s (%q), want %s", tt.name, got, r.Details[0].Why, tt.want)
		}
		if asked.Criteria != "is it good?" || asked.Votes != 3 || asked.Threshold != 0.7 || string(asked.Expected) != `{"a":2,"b":1}` {
			t.Errorf("asked %+v", asked)
		}
		if len(r.Details[0].Votes) != len(tt.outcome.Votes) {
			t.Errorf("votes %v", r.Details[0].Votes)
		}
	}
	// No money is spent on nothing.
	r := check(t, g, Input{Source: said(t, " "), Judge: func(JudgeSpec, extract.Value) (JudgeOutcome, error) {
		t.Error("asked about nothing")
		return JudgeOutcome{}, nil
	}})
	if r.Passed || r.FailureModes[0] != CodeNothingFound {
		t.Errorf("got %+v", r)
	}
	if r := g.Grade(Input{Source: said(t, "Paris")}); r.Unscored == "" {
		t.Error("graded without a judge")
	}
	// A judge whose opinion does not count does not mark the score.
	g = compiled(t, `{"checks":[{"name":"a","grade":`+right+`},{"name":"j","weight":0,"grade":`+judged+`}]}`, Materials{})
	r = check(t, g, Input{Source: said(t, "Paris"), Judge: func(JudgeSpec, extract.Value) (JudgeOutcome, error) { return JudgeOutcome{Score: 1}, nil }})
	if r.JudgedByModel || !r.Passed {
		t.Errorf("got %+v", r)
	}
}

func TestRubricAsAGrader(t *testing.T) {
	alone := compiled(t, `{"grade":{"kind":"rubric"}}`, Materials{})
	if !alone.UsesRubric() || alone.UsesJudge() {
		t.Error("UsesRubric")
	}
	var given extract.Value
	rubric := func(g Graded, err error) func(extract.Value) (Graded, error) {
		return func(v extract.Value) (Graded, error) { given = v; return g, err }
	}
	full := Rubric(ok(answer("")), registration, 0)
	r := check(t, alone, Input{Source: said(t, "Paris"), Rubric: rubric(full, nil)})
	if !r.Passed || r.Score != 1 || fmt.Sprint(r.Breakdown) != "map[exact:1]" || len(r.Events) != len(full.Events) || given.Text != "Paris" {
		t.Errorf("got %+v, given %+v", r, given)
	}
	// It decides about a value that is not there, too.
	r = check(t, alone, Input{Source: said(t, ""), Rubric: rubric(full, nil)})
	if !r.Passed || given.Found {
		t.Errorf("got %+v, given %+v", r, given)
	}
	r = check(t, alone, Input{Source: said(t, "Paris"), Rubric: rubric(Graded{}, errors.New("no sandbox"))})
	if !strings.Contains(r.Unscored, "no sandbox") {
		t.Errorf("got %+v", r)
	}
	if r := alone.Grade(Input{Source: said(t, "x")}); r.Unscored == "" {
		t.Error("graded without a rubric")
	}

	// A rubric that broke fails what must not match as well, and its code
	// stays whatever the other checks say.
	dead := Graded{Score: failed(CodeTimeout)}
	not := compiled(t, `{"grade":{"kind":"not","checks":[{"name":"r","grade":{"kind":"rubric"}}]}}`, Materials{})
	r = check(t, not, Input{Source: said(t, "Paris"), Rubric: rubric(dead, nil)})
	if r.Passed || r.FailureModes[0] != CodeTimeout {
		t.Errorf("not: got %+v", r)
	}
	any := compiled(t, `{"grade":{"kind":"any","checks":[{"name":"a","grade":`+right+`},{"name":"r","grade":{"kind":"rubric"}}]}}`, Materials{})
	r = check(t, any, Input{Source: said(t, "Paris"), Rubric: rubric(dead, nil)})
	if !r.Passed || strings.Join(r.FailureModes, " ") != CodeTimeout {
		t.Errorf("any: got %+v", r)
	}
	// One that does not count leaves nothing behind but that it broke.
	aside := compiled(t, `{"checks":[{"name":"a","grade":`+right+`},{"name":"r","weight":0,"grade":{"kind":"rubric"}}]}`, Materials{})
	r = check(t, aside, Input{Source: said(t, "Paris"), Rubric: rubric(Graded{Score: failed("wrong_answer")}, nil)})
	if !r.Passed || len(r.FailureModes) != 0 {
		t.Errorf("aside: got %+v", r)
	}
	r = check(t, aside, Input{Source: said(t, "Paris"), Rubric: rubric(Graded{Score: failed(CodeEscape)}, nil)})
	if !r.Passed || strings.Join(r.FailureModes, " ") != CodeEscape {
		t.Errorf("aside and broken: got %+v", r)
	}
	// A score that cannot be recorded does not count.
	r = any.Grade(Input{Source: said(t, "Rome"), Rubric: rubric(Graded{Score: evidence.Score{Score: math.NaN()}}, nil)})
	if r.Unscored == "" {
		t.Errorf("NaN: got %+v", r)
	}
}

// TestSecretsStayOutOfTheDocument: neither the beginning of a value nor a
// reason shows what the redactor takes out, not even half of it.
func TestSecretsStayOutOfTheDocument(t *testing.T) {
	secret := "sk-live-0123456789abcdef"
	redact := func(s string) string { return strings.ReplaceAll(s, secret, "[secret]") }
	long := strings.Repeat("x", maxQuoted-12) + secret // a reason would cut it in two
	for _, doc := range []string{
		`{"grade":{"kind":"exact","expected":"Paris"}}`,
		`{"grade":{"kind":"normalised","expected":"Paris"}}`,
		`{"grade":{"kind":"contains","expected":"Paris"}}`,
		`{"grade":{"kind":"one_of","expected":["Paris"]}}`,
		`{"grade":{"kind":"regex","pattern":"Paris"}}`,
		`{"grade":{"kind":"number","expected":1}}`,
		`{"grade":{"kind":"compare","expect":">1"}}`,
		`{"grade":{"kind":"json_schema","schema":{"type":"number"}}}`,
		`{"grade":{"kind":"json_equal","expected":{"a":1}}}`,
	} {
		for _, answer := range []string{long, `{"a":"` + long + `"}`, `"` + long + `"`} {
			r := check(t, compiled(t, doc, Materials{}), Input{Source: said(t, answer), Redact: redact})
			data, err := Document(&r)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), secret[:10]) {
				t.Errorf("%s: %s", doc, data)
			}
			if !r.Details[0].Extracted.Redacted || r.Details[0].Extracted.Digest != digest.ContentOf([]byte(redact(answer))) {
				t.Errorf("%s: %+v", doc, r.Details[0].Extracted)
			}
		}
	}
	r := check(t, compiled(t, `{"grade":{"kind":"tool_calls","expected":[]}}`, Materials{}), Input{Source: called(t, `a {"k":"`+long+`"}`), Redact: redact})
	if data, err := Document(&r); err != nil || strings.Contains(string(data), secret[:10]) {
		t.Errorf("calls: %s, %v", data, err)
	}
}

// TestEvidenceThatIsNotWholeIsUnscored: and never a fail or a pass.
func TestEvidenceThatIsNotWholeIsUnscored(t *testing.T) {
	s := said(t, strings.Repeat("Paris", 5000))
	s.HasAnswer = false
	for _, rule := range []string{right, `{"kind":"absent"}`, judged, `{"kind":"cel","expression":"true","always":true}`, `{"kind":"not","checks":[{"name":"a","grade":` + right + `}]}`} {
		if r := compiled(t, `{"grade":`+rule+`}`, Materials{}).Grade(Input{Source: s}); r.Unscored == "" || r.Passed {
			t.Errorf("%s: got %+v", rule, r)
		}
	}
}

func TestGradeCodesWarnAndCannotBeTaken(t *testing.T) {
	soft := bench.Registration{FailureModes: map[string]evidence.Severity{CodeMismatch: evidence.Info, "grade.made_up": evidence.Info}}
	for _, code := range gradeCodes() {
		if got := SeverityOf(code, soft); got != evidence.Warn {
			t.Errorf("%s: %s", code, got)
		}
	}
	if got := SeverityOf("grade.made_up", soft); got != evidence.Block {
		t.Errorf("a made-up code: %s", got)
	}
	r := ok([]byte(strings.Replace(string(answer("")), `[]`, `["grade.mismatch"]`, 1)))
	soft.Breakdown = []string{"exact"}
	if g := Rubric(r, soft, 0); g.Score.FailureModes[0] != CodeUnknownFailureMode {
		t.Errorf("a rubric used a code of ours: %v", g.Score.FailureModes)
	}
}

// TestADocumentPassesWhenEveryCheckDoes: a judge that gives 0.75 where 0.5 is
// asked for passes, and so does the whole; the score is the mean (trials B5).
func TestADocumentPassesWhenEveryCheckDoes(t *testing.T) {
	const doc = `{"checks":[{"name":"judged","grade":{"kind":"judge","criteria":"Is it right?","threshold":0.5}},{"name":"plain","grade":{"kind":"contains","expected":"%s"}}]}`
	for _, tt := range []struct {
		contains string
		judged   JudgeOutcome
		want     string
		score    float64
	}{
		{"Par", JudgeOutcome{Score: 0.75}, "passed", 0.875},
		{"Par", JudgeOutcome{Score: 0.25}, "failed", 0.625},
		{"Rome", JudgeOutcome{Score: 0.75}, "failed", 0.375},
		{"Par", JudgeOutcome{Unscored: "it rambled"}, "unscored", 0},
		{"Rome", JudgeOutcome{Unscored: "it rambled"}, "failed", 0},
	} {
		g := compiled(t, fmt.Sprintf(doc, tt.contains), Materials{})
		r := check(t, g, Input{Source: said(t, "Paris"), Judge: func(JudgeSpec, extract.Value) (JudgeOutcome, error) { return tt.judged, nil }})
		got := "failed"
		if r.Unscored != "" {
			got = "unscored"
		} else if r.Passed {
			got = "passed"
		}
		if got != tt.want || r.Score != tt.score {
			t.Errorf("%s, judge %+v: got %s with %v (%s), want %s with %v", tt.contains, tt.judged, got, r.Score, r.Details[0].Why, tt.want, tt.score)
		}
	}
}

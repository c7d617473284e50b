package lab

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/run/harness"
	"tallystick/internal/run/trajectory"
)

// A person does not approve a payment without having seen to whom, nor what was cut off, nor
// a text that pretends to be the question.
func TestApprovalsShowWhatIsApproved(t *testing.T) {
	ask := func(args string) string {
		return ApprovalText("pay", harness.Question{ApprovalRequested: trajectory.ApprovalRequested{Action: "tool", Name: "transfer", Reason: "money", Rule: "class:financial"},
			Target: "desk", Turn: 2, Class: "financial", Args: args})
	}
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf(`"a%02d":1`, i))
	}
	for _, tt := range []struct{ name, args, want string }{
		{"amount and receiver", `{"to":"a stranger","amount":1000000}`, "  argument  amount = 1000000\n  argument  to = \"a stranger\"\n"},
		{"nothing", "", "arguments none"},
		{"an empty object", "{}", "arguments none"},
		{"what is not an object", `["x"]`, `arguments ["x"]`},
		{"the end of a long one", `{"note":"` + strings.Repeat("x", 1000) + `"}`, "(602 BYTES MORE ARE NOT SHOWN)"},
		{"too many", "{" + strings.Join(many, ",") + "}", "10 MORE ARE NOT SHOWN"},
		{"nested", `{"order":{"to":"mallory"}}`, `order = {"to":"mallory"}`},
		{"who and why", "{}", "asked by  target desk, in turn 2\n  effect    financial\n  rule      class:financial\n"},
	} {
		if got := ask(tt.args); !strings.Contains(got, tt.want) || !strings.HasSuffix(got, "\napprove? [y/n] ") {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	for _, hostile := range []string{"{\"to\":\"\x1b[2J\x1b[1A safe\"}", "{\"a\nargument  to = me\":1}", "{\"to\":\"\\u001b[2J\"}", "\x1b[31m"} {
		if got := ask(hostile); strings.ContainsAny(got, "\x1b\x07") || strings.Count(got, "\n") > 6 {
			t.Errorf("%q can steer a terminal or add a line: %q", hostile, got)
		}
	}
}

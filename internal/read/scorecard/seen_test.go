package scorecard

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/vantage"
	"tallystick/internal/testing/historytest"
)

// TestWhatIsNotSeenIsNull: from every vantage, every total that the table says cannot be
// seen is null in JSON, is named with a reason, and is neither 0 nor a number in the text;
// one task among others is enough. What is seen is there.
func TestWhatIsNotSeenIsNull(t *testing.T) {
	absent := []string{"tool_calls"} // says of how many tasks it is not known
	for _, v := range vantage.All() {
		for _, mixed := range []bool{false, true} {
			b := historytest.New(t)
			r := historytest.Registration("sums.agent.1", "agent", 1, 2, 1)
			b.Register(r)
			for i := range 2 {
				s := historytest.Score(r, i, 1, 1)
				s.Policy.Violations, s.Policy.Rollbacks, s.Policy.RollbacksVerified = 0, 1, 1
				if i == 0 || !mixed {
					s.Vantage = string(v)
				}
				s.ToolCalls = &evidence.ToolCallCount{Executed: 1}
				b.Case(r, s)
			}
			b.Finish(r)
			c := cardOf(t, read(b, history.Options{}), View{})
			data, err := json.Marshal(c.Totals)
			if err != nil {
				t.Fatal(err)
			}
			var members map[string]json.RawMessage
			if err := json.Unmarshal(data, &members); err != nil {
				t.Fatal(err)
			}
			for _, name := range vantage.Names(vantage.Total) {
				view := v.SeesName(vantage.Total, name)
				// Gates and promotion conclude nothing from violations that are seen in part.
				hidden := view.Sight == vantage.Not || view.Sight == vantage.Partly && slices.Contains([]string{"policy_violations", "rollback_count", "rollback_correctness"}, name)
				told := slices.ContainsFunc(c.NotSeen, func(n NotSeen) bool { return n.Total == name && n.Reason == view.Why && n.Tasks > 0 })
				value := string(members[name])
				switch {
				case hidden != told:
					t.Errorf("%q mixed %t: %s is %s, hidden %t, and the card says so: %t", v, mixed, name, view, hidden, told)
				case hidden && value != "null" && !slices.Contains(absent, name):
					t.Errorf("%q mixed %t: %s cannot be seen and is %s", v, mixed, name, value)
				case view.Sight == vantage.Seen && (value == "null" || hidden):
					t.Errorf("%q mixed %t: %s is seen, and is %s", v, mixed, name, value)
				}
			}
			for name, text := range map[string]string{"policy_violations": c.PolicyViolations.String(), "total_tokens": c.TotalTokens.String(), "rollback_correctness": c.rollbackText()} {
				if string(members[name]) == "null" && !strings.Contains(text, "not") {
					t.Errorf("%q mixed %t: %s cannot be seen, and the text has %q", v, mixed, name, text)
				}
			}
		}
	}
}

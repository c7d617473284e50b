package trajectory

import (
	"strings"
	"testing"
	"time"
)

// worldRun is a run in which the world was asked for amounts, and gave results.
func worldRun(t *testing.T, after string, calls ...[2]string) *Verified {
	t.Helper()
	steps := []step{{0, started(plainRun)}, {0, &WorldState{Phase: WorldBefore, State: text(`{"state":0}`)}}, {1, &TurnStarted{}}}
	for _, c := range calls {
		steps = append(steps, step{1, &ToolExecuted{Args: NewArgs([]byte(`{"cents":` + c[0] + `}`)), Call: "c", Name: "refund", Result: text(c[1]), Source: "world"}})
	}
	steps = append(steps, step{1, &TurnCompleted{}}, step{1, &WorldState{Phase: WorldAfter, State: text(after)}}, step{1, &RunCompleted{Status: "completed"}})
	l := NewLogWithEvents()
	for i, s := range steps {
		if _, err := l.Append(s.turn, s.payload, time.Duration(i)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	return l.Verified()
}

func TestWorldDifferenceIsTheWorldsAndNotTheAgents(t *testing.T) {
	was := worldRun(t, `{"state":2}`, [2]string{"1", "one"}, [2]string{"2", "two"})
	for _, tt := range []struct {
		name string
		now  *Verified
		want string
	}{
		{"the same", worldRun(t, `{"state":2}`, [2]string{"1", "one"}, [2]string{"2", "two"}), ""},
		{"another result", worldRun(t, `{"state":2}`, [2]string{"1", "one"}, [2]string{"2", "zwei"}), `the call refund: it was "two", and is "zwei"`},
		{"another state", worldRun(t, `{"state":3}`, [2]string{"1", "one"}, [2]string{"2", "two"}), "its state after the run"},
		{"the agent asked for something else", worldRun(t, `{"state":9}`, [2]string{"1", "one"}, [2]string{"9", "nine"}), ""},
		{"the agent asked for less", worldRun(t, `{"state":1}`, [2]string{"1", "one"}), ""},
	} {
		if got := WorldDifference(was, tt.now); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, expected %q", tt.name, got, tt.want)
		}
	}
}

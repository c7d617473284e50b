package trajectory

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
)

func TestReplayRebuildsTheStateAtEachTurn(t *testing.T) {
	v := verified(t, sample(plainRun), time.Millisecond)
	state := func(turn int) *State {
		t.Helper()
		s, err := Replay(v, turn)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	s := state(0)
	if e, ok := s.Recall(Semantic, "user.name"); !ok || e.Value.Head != "Bob" || len(s.Decisions) != 0 || s.Context != nil {
		t.Errorf("before the first turn: %+v", s)
	}

	s = state(1)
	if e, ok := s.Recall(Semantic, "user.name"); !ok || e.Value.Head != "Bob" {
		t.Errorf("turn 1 remembers %+v", e)
	}
	if s.Context == nil || s.Peak != 120 || s.Context.Budget != 4000 || len(s.OverBudget) != 0 {
		t.Errorf("context %+v, peak %d", s.Context, s.Peak)
	}
	if len(s.Decisions) != 2 || s.Decisions[0].Verdict != policy.Escalate || s.Decisions[1].Check != policy.Confirmed || len(s.Pending) != 0 {
		t.Errorf("decisions %+v, pending %+v", s.Decisions, s.Pending)
	}
	if tokens, uncounted := s.Spending.Tokens(); s.Spending.Cost() != cost.Of(20, 0) || tokens != 133 || uncounted != 0 {
		t.Errorf("cost %s, tokens %d, %d calls do not tell", s.Spending.Cost(), tokens, uncounted)
	}

	s = state(2)
	if e, ok := s.Recall(Semantic, "user.name"); !ok || e.Value.Head != "Robert" || e.Turn != 2 {
		t.Errorf("turn 2 remembers %+v", e)
	}
	if len(s.Memory) != 2 || s.Memory[0].SupersededBy != "m1" || len(s.Live(Semantic)) != 1 || len(s.Live(Working)) != 0 {
		t.Errorf("memory %+v", s.Memory)
	}
	if _, ok := s.Recall(Working, "user.name"); ok {
		t.Error("the tiers are mixed up")
	}
	if len(s.Violations) != 2 || s.Violations[0].Unprevented || !s.Violations[1].Unprevented || len(s.Unpermitted) != 0 {
		t.Errorf("violations %+v, unpermitted %+v", s.Violations, s.Unpermitted)
	}
	if len(s.Pending) != 1 || s.Pending[0].Call != "c6" {
		t.Errorf("pending %+v", s.Pending)
	}
	for _, turn := range []int{-1, 3} {
		if _, err := Replay(v, turn); !refusal.Is(err, refusal.UnknownName) {
			t.Errorf("turn %d: %v", turn, err)
		}
	}
}

// An agent that acts without permission is seen, whatever else the log says.
func TestReplayFindsActionsThatWereNotPermitted(t *testing.T) {
	decision := func(call, name string, v policy.Verdict) step {
		check := policy.Denied
		if v == policy.Allow {
			check = policy.Allowed
		}
		return step{1, &PolicyDecision{policy.Tool, call, check, name, "", "r", v}}
	}
	executed := func(call, name string) step {
		return step{1, &ToolExecuted{Args: NewArgs(nil), Call: call, Name: name, Result: text(""), Source: "fixture"}}
	}
	asked := step{1, &ApprovalRequested{Action: policy.Tool, Call: "1", Name: "pay", Rule: "r"}}
	answered := func(yes bool) step { return step{1, &ApprovalResolved{Approved: yes, By: "person", Call: "1"}} }
	for _, tt := range []struct {
		name  string
		steps []step
		want  int
	}{
		{"permitted", []step{decision("1", "pay", policy.Allow), executed("1", "pay")}, 0},
		{"never asked", []step{executed("1", "pay")}, 1},
		{"denied", []step{decision("1", "pay", policy.Deny), executed("1", "pay")}, 1},
		{"escalated only", []step{decision("1", "pay", policy.Escalate), executed("1", "pay")}, 1},
		{"approved", []step{decision("1", "pay", policy.Escalate), asked, answered(true), executed("1", "pay")}, 0},
		{"refused", []step{decision("1", "pay", policy.Escalate), asked, answered(false), executed("1", "pay")}, 1},
		{"permitted for another tool", []step{decision("1", "read", policy.Allow), executed("1", "pay")}, 1},
		{"permitted under another id", []step{decision("2", "pay", policy.Allow), executed("1", "pay")}, 1},
		{"permitted once, done twice", []step{decision("1", "pay", policy.Allow), executed("1", "pay"), executed("1", "pay")}, 1},
		{"memory written without asking", []step{{1, &MemoryWritten{Call: "1", Entry: "e", Key: "k", Tier: Working, Value: text("v")}}}, 1},
		{"handed over without asking", []step{{1, &HandedOff{Call: "1", From: "a", To: "b"}}}, 1},
	} {
		steps := append([]step{{0, started(plainRun)}, {1, &TurnStarted{}}}, tt.steps...)
		s, err := Replay(verified(t, steps, time.Millisecond), 1)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if len(s.Unpermitted) != tt.want {
			t.Errorf("%s: %+v, want %d", tt.name, s.Unpermitted, tt.want)
		}
	}
}

func TestReplayRefusesEventsThatContradictEachOther(t *testing.T) {
	wrote := func(entry, supersedes string) step {
		return step{0, &MemoryWritten{Call: "c", Entry: entry, Key: "k", Supersedes: supersedes, Tier: Episodic, Value: text(entry)}}
	}
	for _, tt := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"an entry twice", []step{wrote("a", ""), wrote("a", "")}, `entry "a" is written twice`},
		{"superseding nothing", []step{wrote("a", "z")}, "never written"},
		{"superseding twice", []step{wrote("a", ""), wrote("b", "a"), wrote("c", "a")}, `"b" has superseded`},
		{"remembering nothing", []step{{0, &MemoryRetrieved{Entries: []string{"z"}}}}, "never written"},
		{"a context with nothing", []step{{0, &ContextCompiled{Admitted: []string{"z"}}}}, "never written"},
		{"an answer to no question", []step{{0, &ApprovalResolved{By: "case", Call: "c"}}}, "no question was asked"},
		{"a question twice", slices.Repeat([]step{{0, &ApprovalRequested{Action: policy.Tool, Call: "c", Name: "n", Rule: "r"}}}, 2), "asked about twice"},
	} {
		v := verified(t, append([]step{{0, started(plainRun)}}, tt.steps...), time.Millisecond)
		_, err := Replay(v, 0)
		if !refusal.Is(err, refusal.EntryInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestReplaySeesTheBudgetPassed(t *testing.T) {
	compiled := func(used int) *ContextCompiled {
		return &ContextCompiled{Budget: 100, Sections: map[string]int{"history": used}, Used: int64(used)}
	}
	v := verified(t, []step{
		{0, started(plainRun)},
		{1, &TurnStarted{}}, {1, compiled(100)},
		{2, &TurnStarted{}}, {2, compiled(101)}, {2, compiled(150)},
		{3, &TurnStarted{}}, {3, compiled(50)},
	}, time.Millisecond)
	s, err := Replay(v, 3)
	if err != nil || !slices.Equal(s.OverBudget, []int{2}) || s.Peak != 150 || s.Context.Used != 50 {
		t.Errorf("%+v, %v", s, err)
	}
}

// The same events give the same state, in whichever order turns are asked for.
func TestReplayIsRepeatable(t *testing.T) {
	v := verified(t, sample(plainRun), time.Millisecond)
	late, err := Replay(v, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Replay(v, 1); err != nil {
		t.Fatal(err)
	}
	again, err := Replay(v, 2)
	if err != nil || len(late.Decisions) != len(again.Decisions) || late.Memory[0] != again.Memory[0] || late.Memory[1] != again.Memory[1] {
		t.Errorf("%+v and %+v", late, again)
	}
}

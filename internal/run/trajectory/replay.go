package trajectory

import (
	"fmt"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
)

// A State is what a run had come to at the end of a turn.
type State struct {
	Turn int

	// Memory has every entry ever written, in order, the superseded included.
	Memory []Entry

	// Context is the last that was compiled, nil if none was. Peak is the
	// most tokens that any used, and OverBudget lists the turns in which one
	// passed its budget.
	Context    *ContextCompiled
	Peak       int64
	OverBudget []int

	Decisions  []TurnDecision
	Violations []PolicyViolation

	// Pending are the unanswered questions.
	Pending []ApprovalRequested

	// Unpermitted are actions that took place without a decision that permits
	// them: evidence of an agent that went around the policy.
	Unpermitted []Unpermitted

	Spending Spending
}

// An Entry is one entry of memory.
type Entry struct {
	MemoryWritten
	Turn         int
	SupersededBy string // the entry that replaced it, or ""
}

// A TurnDecision is a decision and when it was made.
type TurnDecision struct {
	Turn int
	Seq  int
	PolicyDecision
}

// Unpermitted names an action that no decision permits.
type Unpermitted struct {
	Turn int
	Seq  int
	Type Type
	Call string
	Name string
}

// Recall gives the newest entry of a key that nothing superseded.
func (s *State) Recall(tier Tier, key string) (Entry, bool) {
	for i := len(s.Memory) - 1; i >= 0; i-- {
		if e := s.Memory[i]; e.Tier == tier && e.Key == key && e.SupersededBy == "" {
			return e, true
		}
	}
	return Entry{}, false
}

// Live lists the entries of a tier that nothing superseded, oldest first.
func (s *State) Live(tier Tier) []Entry {
	var live []Entry
	for _, e := range s.Memory {
		if e.Tier == tier && e.SupersededBy == "" {
			live = append(live, e)
		}
	}
	return live
}

// Replay rebuilds the state at the end of a turn; turn 0 is before the first.
// A trajectory whose events contradict each other (an entry written twice,
// something unknown superseded, an answer to no question) is refused.
func Replay(v *Verified, untilTurn int) (*State, error) {
	if untilTurn < 0 || untilTurn > v.Turns() {
		return nil, refusal.Newf(refusal.UnknownName, "replaying: turn %d, the run has turns 0 to %d", untilTurn, v.Turns())
	}
	r := replay{state: &State{Turn: untilTurn}, entries: map[string]int{}, permits: map[string]bool{}}
	for i := range v.events {
		e := &v.events[i]
		if e.Turn > untilTurn {
			break
		}
		if err := r.apply(e); err != nil {
			return nil, refusal.Newf(refusal.EntryInvalid, "replaying: %w", &Problem{e.Seq, fmt.Errorf("%s: %w", e.Type, err)})
		}
	}
	return r.state, nil
}

type replay struct {
	state   *State
	entries map[string]int  // entry to its place in Memory
	permits map[string]bool // by call: what action and name, and whether permitted
}

// subject is what a decision is about. A permission for one tool under some
// call id does not permit another.
func subject(call string, a policy.Action, name string) string {
	return fmt.Sprintf("%q %s %q", call, a, name)
}

func (r *replay) apply(e *Event) error {
	s := r.state
	s.Spending.Add(e.Payload)
	switch p := e.Payload.(type) {
	case *PolicyDecision:
		s.Decisions = append(s.Decisions, TurnDecision{e.Turn, e.Seq, *p})
		r.permits[subject(p.Call, p.Action, p.Name)] = p.Verdict == policy.Allow
	case *PolicyViolation:
		s.Violations = append(s.Violations, *p)
	case *ApprovalRequested:
		for _, q := range s.Pending {
			if q.Call == p.Call {
				return fmt.Errorf("call %q is asked about twice", p.Call)
			}
		}
		s.Pending = append(s.Pending, *p)
	case *ApprovalResolved:
		return r.resolve(p)
	case *MemoryWritten:
		// What is written before the first turn is what the case gives.
		if e.Turn > 0 {
			r.permitted(e, p.Call, policy.MemoryWrite, p.Key)
		}
		return r.remember(e.Turn, p)
	case *MemoryRetrieved:
		return r.known(p.Entries)
	case *ContextCompiled:
		s.Context, s.Peak = p, max(s.Peak, p.Used)
		if p.Used > p.Budget && (len(s.OverBudget) == 0 || s.OverBudget[len(s.OverBudget)-1] != e.Turn) {
			s.OverBudget = append(s.OverBudget, e.Turn)
		}
		return r.known(p.Admitted)
	case *ToolExecuted:
		r.permitted(e, p.Call, policy.Tool, p.Name)
	case *HandedOff:
		r.permitted(e, p.Call, policy.Handoff, p.To)
	}
	return nil
}

// permitted notes an action that the policy did not permit. A permission is
// used up by it.
func (r *replay) permitted(e *Event, call string, a policy.Action, name string) {
	key := subject(call, a, name)
	if !r.permits[key] {
		r.state.Unpermitted = append(r.state.Unpermitted, Unpermitted{e.Turn, e.Seq, e.Type, call, name})
	}
	delete(r.permits, key)
}

func (r *replay) resolve(p *ApprovalResolved) error {
	for i, q := range r.state.Pending {
		if q.Call == p.Call {
			r.state.Pending = append(r.state.Pending[:i:i], r.state.Pending[i+1:]...)
			r.permits[subject(q.Call, q.Action, q.Name)] = p.Approved
			return nil
		}
	}
	return fmt.Errorf("no question was asked about call %q", p.Call)
}

func (r *replay) remember(turn int, p *MemoryWritten) error {
	if _, twice := r.entries[p.Entry]; twice {
		return fmt.Errorf("entry %q is written twice", p.Entry)
	}
	if p.Supersedes != "" {
		at, ok := r.entries[p.Supersedes]
		if !ok {
			return fmt.Errorf("entry %q supersedes %q, which was never written", p.Entry, p.Supersedes)
		}
		if by := r.state.Memory[at].SupersededBy; by != "" {
			return fmt.Errorf("entry %q supersedes %q, which %q has superseded", p.Entry, p.Supersedes, by)
		}
		r.state.Memory[at].SupersededBy = p.Entry
	}
	r.entries[p.Entry] = len(r.state.Memory)
	r.state.Memory = append(r.state.Memory, Entry{MemoryWritten: *p, Turn: turn})
	return nil
}

func (r *replay) known(entries []string) error {
	for _, id := range entries {
		if _, ok := r.entries[id]; !ok {
			return fmt.Errorf("entry %q was never written", id)
		}
	}
	return nil
}

package promote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/bundle/derive"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
	"tallystick/internal/run/wire"
)

// seenCalls is what the generator of a trajectory counts by itself.
type seenCalls struct{ executed, reported, proposed, stopped, violations, broken int }

func (n *seenCalls) add(m seenCalls) {
	n.executed, n.reported, n.proposed = n.executed+m.executed, n.reported+m.reported, n.proposed+m.proposed
	n.stopped, n.violations, n.broken = n.stopped+m.stopped, n.violations+m.violations, n.broken+m.broken
}

// says is a model that gives one reply after the other.
type says struct{ next string }

func (m *says) Call(_ context.Context, api wire.API, _ []byte, _ func(string) error) (*cassette.Interaction, error) {
	return &cassette.Interaction{Model: &cassette.ModelCall{API: api, Response: cassette.Response{Status: 200, Body: canon.RawMessage(m.next)}}}, nil
}

const saysNothing = `{"choices":[{"finish_reason":"stop","message":{"content":"done"}}]}`

// A generated run is a session, and what its agent said so far.
type generated struct {
	t       *testing.T
	r       *rand.Rand
	s       *session.Session
	m       *says
	p       policy.Policy
	history []string // messages
	calls   int      // so far, for ids and arguments
	total   int64    // that the budget counts
	n       seenCalls
}

var toolNames = []string{"look", "issue_refund", "send_mail", "erase"}

func (g *generated) some(list []string) []string {
	var out []string
	for _, x := range list {
		if g.r.IntN(2) == 0 {
			out = append(out, x)
		}
	}
	return out
}

// generate drives a session at random, and counts what its policy should say.
func generate(t *testing.T, r *rand.Rand, at vantage.Vantage, run trajectory.RunStarted) (session.Result, seenCalls) {
	t.Helper()
	g := &generated{t: t, r: r, m: &says{}, p: policy.Policy{Mode: policy.Autonomous, MaxCostMicroUSD: 1000, MaxToolCalls: int64(r.IntN(7))}}
	g.p.Deny = g.some(toolNames)
	if r.IntN(2) == 0 {
		g.p.Mode, g.p.Allow = policy.Restricted, g.some(toolNames)
	}
	rules, err := policy.Compile(g.p)
	if err != nil {
		t.Fatal(err)
	}
	ok := canon.RawMessage(`{"ok":true}`)
	box, err := tools.New([]tools.Definition{{Name: "look", Class: policy.Read, Replies: []tools.Reply{{Result: &ok}}}}, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	run.Vantage = at
	if g.s, err = session.New(session.Config{Run: run, Rules: rules, Source: "authored", Models: g.m, Tools: box}); err != nil {
		t.Fatal(err)
	}
	g.must(g.s.StartTurn("", "do it"))
	for range r.IntN(9) {
		switch {
		case at == vantage.Answers:
		case at == vantage.Inside || r.IntN(4) == 0:
			g.bring(toolNames[r.IntN(len(toolNames))])
		default:
			g.own(toolNames[r.IntN(len(toolNames))])
		}
	}
	g.must(g.s.CompleteTurn("done"))
	return g.s.Complete("done", false), g.n
}

func (g *generated) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// permits is the policy, written again: lists, then the mode.
func (g *generated) permits(base string, spelledAsListed bool) bool {
	if slices.Contains(g.p.Deny, base) {
		return false
	}
	return g.p.Mode == policy.Autonomous || spelledAsListed && slices.Contains(g.p.Allow, base)
}

// judged counts a call that the policy judged.
func (g *generated) judged(permitted bool) {
	g.total++
	before := g.n.violations
	if !permitted {
		g.n.violations++
	}
	if g.total > g.p.MaxToolCalls {
		g.n.violations++
	}
	if g.n.violations > before {
		g.n.broken++
	}
}

// bring is a call that comes to the session; its result may be told to the model.
func (g *generated) bring(name string) {
	g.calls++
	args := fmt.Sprintf(`{"n":%d}`, g.calls)
	reply, err := g.s.Tool(context.Background(), session.ToolCall{Name: name, Args: []byte(args)})
	g.must(err)
	if g.permits(name, true) {
		g.n.executed++
	} else {
		g.n.stopped++
	}
	g.judged(g.permits(name, true))
	if g.r.IntN(2) == 0 {
		g.tell("mcp__srv__"+name, args, reply.Text)
		g.ask(saysNothing)
	}
}

// own is a call that the agent makes itself: proposed or not, told or not, under its
// name or another.
func (g *generated) own(name string) {
	g.calls++
	args, called, listed := fmt.Sprintf(`{"n":%d}`, g.calls), name, true
	switch g.r.IntN(3) {
	case 0:
		called = "mcp__srv__" + name
	case 1:
		called, listed = strings.ToUpper(name), false
	}
	proposed := g.r.IntN(3) > 0
	if proposed {
		quoted, err := canon.Marshal(args)
		g.must(err)
		g.ask(fmt.Sprintf(`{"choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":%q,"arguments":%s}}]}}]}`, g.calls, called, quoted))
	}
	if proposed && g.r.IntN(3) == 0 {
		g.n.proposed++ // and never answered
		return
	}
	g.tell(called, args, "did it")
	g.ask(saysNothing)
	if g.r.IntN(3) == 0 {
		g.ask(saysNothing) // the same history again
	}
	g.n.reported++
	g.judged(g.permits(name, listed))
}

// tell puts a call and its result into the history that the agent sends.
func (g *generated) tell(name, args, result string) {
	quoted, err := canon.Marshal(args)
	g.must(err)
	text, err := canon.Marshal(result)
	g.must(err)
	g.history = append(g.history, fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"call_%d","type":"function","function":{"name":%q,"arguments":%s}}]}`, g.calls, name, quoted),
		fmt.Sprintf(`{"role":"tool","tool_call_id":"call_%d","content":%s}`, g.calls, text))
}

func (g *generated) ask(reply string) {
	g.m.next = reply
	body := `{"model":"m","messages":[` + strings.Join(append([]string{`{"role":"user","content":"do it"}`}, g.history...), ",") + `]}`
	_, err := g.s.Model(context.Background(), wire.OpenAIChat, []byte(body), nil)
	g.must(err)
}

// bundled counts the entries of the bundle of a case, and those that are denied.
func bundled(t *testing.T, record *evidence.CaseScored, v *trajectory.Verified) (entries, denied int) {
	t.Helper()
	b, err := derive.Bundle(derive.Source{Record: record, Files: &evidence.CaseFiles{Version: format.Version}, Trajectory: v,
		Read: func(d digest.Content) ([]byte, error) { return nil, fmt.Errorf("there is no %s", d) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Trace {
		if c.Check == bundle.Denied {
			denied++
		}
	}
	return len(b.Trace), denied
}

// TestWhoCountsAgrees: record, bundle, scorecard, gate and promotion have the same
// calls, denials and violations, and these are what the generator of the trajectory
// counted by itself.
func TestWhoCountsAgrees(t *testing.T) {
	const attempts = 42 // of 12 cases each: 504 trajectories
	seen := standard()
	seen.registration += "gates: [{tag: \"*\", metric: policy_violations, threshold: 0}]\n"
	b := seen.verified(t)
	r := rand.New(rand.NewPCG(27, 1))
	k := newBook(t, b)
	counted, hidden := map[string]*seenCalls{}, map[string]int{}
	for range attempts {
		n, unseen := &seenCalls{}, 0
		id := k.runs(run{score: func(_ int, s *evidence.CaseScored) {
			at := []vantage.Vantage{vantage.Inside, vantage.Gateway, vantage.Gateway, vantage.Gateway}[r.IntN(4)]
			if len(counted)%3 == 2 && r.IntN(4) == 0 {
				at = vantage.Answers
				unseen++
			}
			result, mine := generate(t, r, at, trajectory.RunStarted{Attempt: s.Attempt, Case: s.CaseID, Class: s.Class, Target: "agent", Repeat: 1, Execution: 1})
			n.add(mine)
			calls := trajectory.CallsOf(result.Verified).Count()
			s.Vantage, s.Policy.Violations = string(at), result.Counts.Violations
			if at != vantage.Answers {
				s.ToolCalls = &evidence.ToolCallCount{Executed: calls.Executed, Reported: calls.Reported, Proposed: calls.Proposed}
			}
			if got := (seenCalls{calls.Executed, calls.Reported, calls.Proposed - mine.stopped, mine.stopped, result.Counts.Violations, mine.broken}); got != mine {
				t.Errorf("%s %s: counted %+v, generated %+v", s.Attempt, s.CaseID, got, mine)
			}
			entries, denied := bundled(t, s, result.Verified)
			if entries != mine.executed+mine.reported+mine.stopped || denied != mine.broken {
				t.Errorf("%s %s: the bundle has %d calls, %d denied; generated %+v", s.Attempt, s.CaseID, entries, denied, mine)
			}
		}})
		counted[id], hidden[id] = n, unseen
	}
	_, err := k.l.PublishAnchor(context.Background(), nil)
	k.must(err)
	in := k.input()
	total, unseen := 0, 0
	for _, a := range in.History.Attempts {
		want := counted[a.ID]
		total, unseen = total+want.violations, unseen+hidden[a.ID]
		card, err := scorecard.Of(in.History, scorecard.View{Attempts: []*history.Attempt{a}})
		k.must(err)
		calls := card.ToolCalls
		if card.PolicyViolations != (scorecard.Count{N: int64(want.violations), Unknown: hidden[a.ID] > 0}) ||
			*calls != (scorecard.ToolCalls{Executed: int64(want.executed), Reported: int64(want.reported), Proposed: int64(want.proposed + want.stopped), Unknown: hidden[a.ID]}) {
			t.Errorf("%s: the scorecard has %s violations, %+v; generated %+v, %d unseen", a.ID, card.PolicyViolations, calls, want, hidden[a.ID])
		}
		decision, err := gate.Decide(gate.Input{Bench: b, History: in.History, Attempt: a})
		k.must(err)
		g := decision.Results[0]
		switch {
		case hidden[a.ID] > 0 && (g.Met || g.Value != nil || !strings.Contains(g.Reason, "cannot be seen")):
			t.Errorf("%s: the gate says %+v, and %d tasks are not seen", a.ID, g, hidden[a.ID])
		case hidden[a.ID] == 0 && (*g.Value != float64(want.violations) || g.Met != (want.violations == 0)):
			t.Errorf("%s: the gate says %v, generated %+v", a.ID, *g.Value, want)
		}
	}
	rec, err := Recommend(in)
	k.must(err)
	text := strings.Join(rec.Unmet, "\n")
	if !strings.Contains(text, fmt.Sprintf("policy_violations=%d, in ", total)) || !strings.Contains(text, fmt.Sprintf("policy_violations of %d tasks cannot be seen", unseen)) {
		t.Errorf("promotion says\n%s\ngenerated %d violations, %d unseen", text, total, unseen)
	}
	if total < 500 || unseen < 10 {
		t.Errorf("%d violations and %d unseen tasks: the generator tries too little", total, unseen)
	}
}

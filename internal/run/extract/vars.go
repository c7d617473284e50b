package extract

import (
	"encoding/json"
	"fmt"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/expression"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// What expressions see of a run is bounded: an agent that leaves more behind
// fails every expression.
const (
	maxSeenEvents = 50_000
	maxSeenBytes  = 16 << 20 // of all payloads in canonical JSON
)

// maxExpressionCost is what all evaluations of one check may cost together: a second or
// two of the worst, of which all but the first hundredths are in a process of their own. A look
// at each of the events that expressions see at most costs about a million.
const maxExpressionCost = 10_000_000

// expressions is what expressions see. Numbers are doubles.
//
//	events   list of {seq, turn, type, t, payload}, as a line of the trajectory has them
//	memory   tier to key to value, of the entries that nothing superseded
//	context  of the last context_compiled: used, budget, window, sections; and
//	         over the run so far: peak, over_budget (the turns in which one passed its budget)
//	user     of a simulated user: by, turns (that it said), tool_calls, and at the end
//	         ended, broke (names of rules) and state, what its tools remember; {} without one
//	run      turn, tokens, cost_microdollars, model_calls, tool_calls, denials, escalations,
//	         violations; of tool_calls, tool_calls_executed, _reported and _proposed;
//	         answer if there is one; status when the run has ended
//
//	world    before and after, what the case's world said of its state: {state, files?,
//	         events?, dump?}
//
// Names that have no value are not there, and has() asks for them.
var expressions = expression.NewLanguage(maxExpressionCost,
	expression.Variable{Name: "events", Kind: expression.ListOfObjects},
	expression.Variable{Name: "memory", Kind: expression.Object},
	expression.Variable{Name: "context", Kind: expression.Object},
	expression.Variable{Name: "run", Kind: expression.Object},
	expression.Variable{Name: "user", Kind: expression.Object},
	expression.Variable{Name: "world", Kind: expression.Object},
)

// runNames are the counts that the variable run always has.
var runNames = []string{"turn", "tokens", "cost_microdollars", "model_calls", "tool_calls", "tool_calls_executed", "tool_calls_reported", "tool_calls_proposed", "denials", "escalations", "violations"}

// Variables lists what expressions can ask for, as package vantage names it.
func Variables() []string {
	list := []string{"events", "memory", "context", "user", "run.answer", "run.status", "world"}
	for _, name := range runNames {
		list = append(list, "run."+name)
	}
	return list
}

// CompileCondition compiles a condition over what [Source.EachTurn] gives.
func CompileCondition(source string) (*expression.Program, error) {
	return expressions.CompileCondition(source)
}

// NewBudget is what one check may spend on expressions.
func NewBudget() *expression.Budget { return expressions.Budget() }

// EachTurn calls visit with the variables as they were at the end of each
// turn, in order, until it returns false. Here events are those of the turn
// alone. Problem says that the run left more behind than expressions see. The
// variables are good until visit returns.
func (s *Source) EachTurn(visit func(turn int, vars map[string]any) bool) (problem string, err error) {
	seen, problem, err := s.seen()
	if problem != "" || err != nil {
		return problem, err
	}
	st, err := s.newStage()
	if err != nil {
		return "", err
	}
	begin, i := 0, 0
	for ev := range s.Trajectory.Events() {
		// A turn ends where the next begins. Before the first there is none.
		if _, next := ev.Payload.(*trajectory.TurnStarted); next {
			if ev.Turn > 1 && !visit(ev.Turn-1, st.vars(seen[begin:i])) {
				return "", nil
			}
			begin = i
		}
		if err := st.apply(s, &ev); err != nil {
			return "", err
		}
		i++
	}
	if turns := s.Trajectory.Turns(); turns > 0 {
		visit(turns, st.vars(seen[begin:]))
	}
	return "", nil
}

// endVars are the variables at the end of the run, with all events.
func (s *Source) endVars() (vars map[string]any, problem string, err error) {
	seen, problem, err := s.seen()
	if problem != "" || err != nil {
		return nil, problem, err
	}
	if s.stage == nil {
		st, err := s.newStage()
		if err != nil {
			return nil, "", err
		}
		for ev := range s.Trajectory.Events() {
			if err := st.apply(s, &ev); err != nil {
				return nil, "", err
			}
		}
		s.stage = st
	}
	return s.stage.vars(seen), "", nil
}

// seen gives all events as expressions see them.
func (s *Source) seen() (events []any, problem string, err error) {
	if s.events != nil {
		return s.events, "", nil
	}
	// Replaying refuses events that contradict each other.
	if _, err := s.final(); err != nil {
		return nil, "", err
	}
	if n := s.Trajectory.Len(); n > maxSeenEvents {
		return nil, fmt.Sprintf("the run has %d events, and expressions see at most %d", n, maxSeenEvents), nil
	}
	total := 0
	clock := s.Trajectory.Vantage().Sees(vantage.Time)
	events = make([]any, 0, s.Trajectory.Len())
	for ev := range s.Trajectory.Events() {
		data, err := canon.Marshal(ev.Payload)
		if err != nil {
			return nil, "", err
		}
		if total += len(data); total > maxSeenBytes {
			return nil, fmt.Sprintf("the run has more than %d bytes of events, which expressions do not see", maxSeenBytes), nil
		}
		var payload map[string]any
		if err := json.Unmarshal(data, &payload); err != nil {
			return nil, "", err
		}
		var at any = float64(ev.At.Milliseconds())
		if clock.Sight != vantage.Seen {
			at = expression.Unknown("the time of events cannot be seen: " + clock.Why)
		}
		events = append(events, map[string]any{"seq": float64(ev.Seq), "turn": float64(ev.Turn), "type": string(ev.Type), "t": at, "payload": payload})
	}
	s.events = events
	return events, "", nil
}

// A stage is a run at one point of its trajectory, as expressions see it.
type stage struct {
	memory  map[string]any // tier to map of key to value
	entries []remembered
	byID    map[string]int
	context map[string]any
	peak    int64
	over    []any
	run     map[string]any
	user    map[string]any
	world   map[string]any
	counts  map[string]int64

	spending trajectory.Spending
	calls    map[int]trajectory.Vantage // by the event that stands for a call
	unseen   map[string]any             // by variable, what stands for one that cannot be seen
}

type remembered struct {
	tier, key, value string
	superseded       bool
}

func (s *Source) newStage() (*stage, error) {
	world, err := s.worldStates()
	if err != nil {
		return nil, err
	}
	st := &stage{memory: map[string]any{}, byID: map[string]int{}, context: map[string]any{}, over: []any{}, run: map[string]any{}, user: map[string]any{}, world: world, counts: map[string]int64{}, calls: map[int]trajectory.Vantage{}}
	for _, t := range tiers() {
		st.memory[string(t)] = map[string]any{}
	}
	st.unseen = map[string]any{}
	for _, name := range Variables() {
		if sight := s.sees(vantage.Variable, name); sight.Sight != vantage.Seen {
			st.unseen[name] = expression.Unknown(name + " cannot be seen: " + sight.Why)
		}
	}
	for _, name := range runNames {
		st.counts[name] = 0
	}
	view := s.Calls()
	for i := range view.Calls {
		if c := &view.Calls[i]; !c.Stopped {
			st.calls[c.Seq] = c.Vantage
		}
	}
	return st, nil
}

func (st *stage) vars(events []any) map[string]any {
	st.context["peak"], st.context["over_budget"] = float64(st.peak), st.over
	tokens, uncounted := st.spending.Tokens()
	cost := st.spending.Cost()
	st.counts["tokens"], st.counts["cost_microdollars"] = tokens, cost.MicroUSD
	for name, n := range st.counts {
		st.run[name] = float64(n)
		switch {
		case name == "tokens" && uncounted > 0:
			st.run[name] = expression.Unknown("run.tokens is not known: " + uncountedText(uncounted))
		case name == "cost_microdollars" && !cost.Known():
			st.run[name] = expression.Unknown("run.cost_microdollars is not known: it is " + cost.String())
		}
		if u := st.unseen["run."+name]; u != nil {
			st.run[name] = u
		}
	}
	vars := map[string]any{"events": events, "memory": st.memory, "context": st.context, "run": st.run, "user": st.user, "world": st.world}
	for _, name := range []string{"memory", "context", "user", "world"} {
		if u := st.unseen[name]; u != nil {
			vars[name] = u
		}
	}
	return vars
}

func (st *stage) apply(s *Source, ev *trajectory.Event) error {
	st.spending.Add(ev.Payload)
	if v, ok := st.calls[ev.Seq]; ok {
		st.counts["tool_calls"]++
		st.counts["tool_calls_"+string(v)]++
	}
	switch p := ev.Payload.(type) {
	case *trajectory.TurnStarted:
		st.counts["turn"] = int64(ev.Turn)
		delete(st.run, "answer")
		if p.By != "" {
			st.talked(p.By, "turns")
		}
	case *trajectory.UserToolCalled:
		st.talked(p.By, "tool_calls")
	case *trajectory.UserBrokeRule:
		broke, _ := st.user["broke"].([]any)
		st.user["broke"] = append(broke, p.Rule)
	case *trajectory.UserEnded:
		return st.userEnded(s, p)
	case *trajectory.TurnCompleted:
		return st.say(s, p.Answer)
	case *trajectory.RunCompleted:
		st.run["status"] = p.Status
		return st.say(s, p.Answer)
	case *trajectory.RunFailed:
		st.run["status"] = "failed"
		delete(st.run, "answer")
	case *trajectory.MemoryWritten:
		return st.remember(s, p)
	case *trajectory.ContextCompiled:
		st.compile(ev.Turn, p)
	case *trajectory.ModelCallCompleted:
		st.counts["model_calls"]++
	case *trajectory.PolicyDecision:
		switch p.Verdict {
		case policy.Deny:
			st.counts["denials"]++
		case policy.Escalate:
			st.counts["escalations"]++
		}
	case *trajectory.PolicyViolation:
		st.counts["violations"]++
	}
	return nil
}

// talked counts what a simulated user did.
func (st *stage) talked(by trajectory.Speaker, what string) {
	st.user["by"] = string(by)
	for _, name := range []string{"turns", "tool_calls"} {
		n, _ := st.user[name].(float64)
		if name == what {
			n++
		}
		st.user[name] = n
	}
}

// userEnded is how the conversation ended, with what the user's tools remember.
func (st *stage) userEnded(s *Source, p *trajectory.UserEnded) error {
	st.talked(p.By, "")
	st.user["ended"] = p.Why
	if p.State == nil {
		return nil
	}
	text, err := s.visible("the state of the user's tools", p.State)
	if err != nil {
		return err
	}
	var state any
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return fmt.Errorf("the state of the user's tools: %w", err)
	}
	st.user["state"] = state
	return nil
}

func (st *stage) say(s *Source, c *trajectory.Content) error {
	if c == nil {
		return nil
	}
	text, err := s.visible("an answer", c)
	if err == nil && !isBlank(text) {
		st.run["answer"] = text
	}
	return err
}

func (st *stage) compile(turn int, p *trajectory.ContextCompiled) {
	sections := map[string]any{}
	for name, n := range p.Sections {
		sections[name] = float64(n)
	}
	st.context = map[string]any{"used": float64(p.Used), "budget": float64(p.Budget), "window": float64(p.Window), "sections": sections}
	st.peak = max(st.peak, p.Used)
	if p.Used > p.Budget && (len(st.over) == 0 || st.over[len(st.over)-1] != float64(turn)) {
		st.over = append(st.over, float64(turn))
	}
}

// remember keeps for each key the newest entry that nothing superseded, as
// [trajectory.State.Recall] has it.
func (st *stage) remember(s *Source, p *trajectory.MemoryWritten) error {
	value, err := s.visible(fmt.Sprintf("memory %s:%s", p.Tier, p.Key), &p.Value)
	if err != nil {
		return err
	}
	st.byID[p.Entry] = len(st.entries)
	st.entries = append(st.entries, remembered{tier: string(p.Tier), key: p.Key, value: value})
	st.recall(string(p.Tier), p.Key)
	if at, ok := st.byID[p.Supersedes]; ok {
		st.entries[at].superseded = true
		st.recall(st.entries[at].tier, st.entries[at].key)
	}
	return nil
}

func (st *stage) recall(tier, key string) {
	keys, ok := st.memory[tier].(map[string]any)
	if !ok {
		return
	}
	for i := len(st.entries) - 1; i >= 0; i-- {
		if e := &st.entries[i]; e.tier == tier && e.key == key && !e.superseded {
			keys[key] = e.value
			return
		}
	}
	delete(keys, key)
}

// visible is a text as expressions see it. What is not UTF-8 shows with marks
// in it: a key whose value cannot be read is still a key that was written.
func (s *Source) visible(what string, c *trajectory.Content) (string, error) {
	r, err := s.read(what, c)
	if r.problem != "" {
		return c.Head, err
	}
	return r.text, err
}

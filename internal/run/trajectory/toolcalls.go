package trajectory

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/vantage"
)

// A ToolCall is one call of a tool, put together from all events about it.
type ToolCall struct {
	Seq  int // of the event that stands for it: the execution, the arrival at the session, or the first about it
	Turn int

	Call string // as the session names it; "" for a call that never came there
	ID   string // the provider's; "" if none was given
	Name string // "" if it was not given
	Args Args

	Vantage Vantage
	Asked   bool          // it was proposed, by the model or to the session, or the agent tells of it
	Denied  bool          // it came to the session, and the policy denied it
	Stopped bool          // it is only proposed, and known not to have been made
	Check   policy.Check  // what the policy said last; denied if it was not asked
	Judged  bool          // the policy was asked
	Made    *ToolExecuted // nil unless executed
	Report  *ToolObserved // nil unless the agent sent a result back
	Class   policy.Class  // "" unless it came to the session
	Failed  bool          // executed or reported with an error

	events []int  // the numbers of the tool events that are about it
	gone   bool   // it turned out to be another one
	other  []Args // that it was asked for with, where they are not all in Args
	inside bool   // the agent is ours
	rule   string // of the policy, that decided last
}

// Otherwise lists what was asked for in the place of a call, where the call was
// made with other arguments: what the model proposed, or the agent brought to the
// session. Each is only proposed, and no call of its own that would be counted; what
// forbids a call must see it, because it may have been made too. An
// agent of ours is known to have made the call as it is.
func (c *ToolCall) Otherwise() []ToolCall {
	var list []ToolCall
	for _, args := range c.other {
		list = append(list, ToolCall{Seq: c.Seq, Turn: c.Turn, ID: c.ID, Name: c.Name, Args: args, Vantage: Proposed, Asked: true, Stopped: c.inside})
	}
	return list
}

// Events are the numbers of the tool events that were put together, in order.
func (c *ToolCall) Events() []int { return c.events }

// change gives a call the arguments that it was made with, and keeps those that it
// was asked for with unless they are part of them: a client may complete them.
func (c *ToolCall) change(args *Args) {
	if !c.Args.isPartOf(args) {
		c.other = append(c.other, c.Args)
	}
	c.Args = *args
}

// Is reports whether the call is one of the tool. Clients of MCP servers give
// tools longer names, such as mcp__bank__transfer for transfer.
func (c *ToolCall) Is(tool string) bool { return SameTool(c.Name, tool) }

// SameTool reports whether the name that a model knows is that of a tool, as it
// is or with what an MCP client puts before it.
func SameTool(seen, tool string) bool {
	return seen == tool || tool != "" && strings.HasSuffix(seen, "__"+tool)
}

// A CallView is every tool call of a run, each once, with the strongest vantage
// that there is of it. All that counts, grades or shows calls reads it.
//
// A call that the model proposed, that was executed here and whose result the
// agent sent back is one call. docs/formats/trajectory.md has the rule.
type CallView struct {
	Calls []ToolCall // in order

	// Unseen says why there may be calls that were not seen; "" if there are
	// none.
	Unseen string

	// Known are the names of tools that were offered to a model.
	Known map[string]bool
}

// Unprevented reports whether the agent made a call itself that the policy does not
// permit: it was seen, and could not be prevented.
func (c *ToolCall) Unprevented() bool {
	return c.Vantage == Reported && c.Judged && c.Check == policy.Denied
}

// Calls puts the tool calls of a run together while the run goes on.
type Calls struct{ b viewBuilder }

// NewCalls begins with no event.
func NewCalls() *Calls { return &Calls{newViewBuilder()} }

// Add tells of the next event.
func (c *Calls) Add(e *Event) { c.b.add(e) }

// Report tells of the next event, which says that the agent sent a result back, and
// returns the call that it is of: with its id in the session, if it came there, and
// what the policy said of it.
func (c *Calls) Report(e *Event, p *ToolObserved) ToolCall { return *c.b.report(e, p) }

func newViewBuilder() viewBuilder {
	return viewBuilder{view: &CallView{Known: map[string]bool{}}, bySession: map[string]*ToolCall{}, pool: map[string][]*ToolCall{}, made: map[string][]*ToolCall{}}
}

// CallsOf puts the tool calls of a run together.
func CallsOf(v *Verified) *CallView { return CallsIn(v.Events()) }

// CallsIn is [CallsOf] for events in order, such as those of a part of a run. What
// came of a call after the last of them, it does not know.
func CallsIn(events iter.Seq[Event]) *CallView {
	b := newViewBuilder()
	for e := range events {
		b.add(&e)
	}
	for _, c := range b.calls {
		if c.gone {
			continue
		}
		b.settle(c)
		b.view.Calls = append(b.view.Calls, *c)
	}
	slices.SortStableFunc(b.view.Calls, func(x, y ToolCall) int { return cmp.Compare(x.Seq, y.Seq) })
	return b.view
}

// settle says what came of a call that was not executed here. One that the
// policy denied did not happen, unless the agent tells its model of a result
// all the same; nor did one that an agent of ours never brought to the session.
func (b *viewBuilder) settle(c *ToolCall) {
	c.inside = b.inside
	c.Denied = c.wasDenied()
	if c.Defied() {
		c.Vantage, c.Failed = Reported, c.Report.Error
	}
	c.Stopped = c.Vantage == Proposed && (c.Denied || b.inside && c.Call == "")
}

func (c *ToolCall) wasDenied() bool {
	return c.Call != "" && c.Made == nil && c.Check == policy.Denied
}

// Defied reports whether the agent tells of a result of a call that was denied here. Who
// tells its model of the denial quotes it: that it was denied, by which rule.
func (c *ToolCall) Defied() bool {
	return c.wasDenied() && c.Report != nil && !strings.Contains(c.Report.Result.Head, DeniedText(c.rule))
}

// DeniedText begins what an agent is told about a call that a rule of the policy denied.
func DeniedText(rule string) string { return "denied by policy (" + rule + ")" }

// A viewBuilder finds the call that an event is about in a time that does not
// grow with the number of calls: an agent decides how many there are.
type viewBuilder struct {
	view      *CallView
	calls     []*ToolCall
	bySession map[string]*ToolCall
	pool      map[string][]*ToolCall // by what a later event can name them by
	made      map[string][]*ToolCall // executed, by name
	inside    bool                   // the agent is ours: it does nothing that the session does not see
}

func (b *viewBuilder) add(e *Event) {
	switch p := e.Payload.(type) {
	case *RunStarted:
		b.inside = p.Vantage == vantage.Inside
		if calls := vantage.Of(string(p.Vantage)).Sees(vantage.ToolCalls); calls.Sight == vantage.Not {
			b.view.Unseen = calls.Why
		}
	case *ModelCallStarted:
		for _, name := range p.Tools {
			b.view.Known[name] = true
		}
	case *Failure:
		if p.Name == CallsUnread && b.view.Unseen == "" {
			b.view.Unseen = p.Detail
		}
	case *ToolObserved:
		if p.Vantage == Reported {
			c := b.report(e, p)
			b.judge(c, p)
		} else {
			b.propose(b.append(e, &ToolCall{ID: p.ID, Name: p.Name, Args: p.Args, Vantage: Proposed, Asked: true}))
		}
	case *ToolProposed:
		b.arrive(e, p)
	case *PolicyDecision:
		if c := b.bySession[p.Call]; c != nil && p.Action == policy.Tool {
			c.Check, c.Judged, c.rule = p.Check, true, p.Rule
		}
	case *ToolExecuted:
		b.execute(e, p)
	}
}

func (b *viewBuilder) append(e *Event, c *ToolCall) *ToolCall {
	c.Seq, c.Turn, c.events = e.Seq, e.Turn, []int{e.Seq}
	b.calls = append(b.calls, c)
	return c
}

// maxWrapped bounds how many parts of a name are taken for what a client put
// before it.
const maxWrapped = 8

// tails are the names that a tool may have without what a client put before it,
// the name itself first.
func tails(name string) []string {
	list := []string{name}
	for rest := name; len(list) < maxWrapped; list = append(list, rest) {
		at := strings.Index(rest, "__")
		if at < 0 || at+2 == len(rest) {
			break
		}
		rest = rest[at+2:]
	}
	return list
}

// keys by which a call is found: in a whole name, or as the tail of one.
func wholeKey(id, name string, args *Args) string {
	return "=" + id + "\x00" + name + "\x00" + args.Digest.String()
}
func tailKey(id, name string, args *Args) string {
	return "~" + id + "\x00" + name + "\x00" + args.Digest.String()
}
func idKey(id, name string) string { return "#" + id + "\x00" + name }

// offer makes a call known to later events.
func (b *viewBuilder) offer(c *ToolCall) {
	add := func(key string) { b.pool[key] = append(b.pool[key], c) }
	for _, id := range slices.Compact([]string{"", c.ID}) {
		add(wholeKey(id, c.Name, &c.Args))
		for _, tail := range tails(c.Name) {
			add(tailKey(id, tail, &c.Args))
		}
	}
}

// propose is offer for a call that may still come to the session. The keys for
// that are its own: what is used up there may not be reported yet.
func (b *viewBuilder) propose(c *ToolCall) {
	b.offer(c)
	add := func(key string) { b.pool["+"+key] = append(b.pool["+"+key], c) }
	add(wholeKey("", c.Name, &c.Args))
	if c.ID != "" {
		add(idKey(c.ID, c.Name))
	}
	for _, tail := range tails(c.Name) {
		add(tailKey("", tail, &c.Args))
	}
}

// take returns the first call under a key that is still free. Those before it
// are used up for good.
func (b *viewBuilder) take(key string, free func(*ToolCall) bool) *ToolCall {
	list := b.pool[key]
	for len(list) > 0 && !free(list[0]) {
		list = list[1:]
	}
	b.pool[key] = list
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// Both only ever change from true to false, as take wants it.
func isUnreported(c *ToolCall) bool { return c.Report == nil && !c.gone }
func isUnmade(c *ToolCall) bool     { return c.Call == "" && isUnreported(c) }

// arrive joins a call that comes to the session with the proposal that it is
// from: by the provider's id if the agent gave it, or else by name and arguments.
func (b *viewBuilder) arrive(e *Event, p *ToolProposed) {
	var c *ToolCall
	if p.ID != "" {
		c = b.take("+"+idKey(p.ID, p.Name), isUnmade)
	} else if c = b.take("+"+wholeKey("", p.Name, &p.Args), isUnmade); c == nil {
		c = b.take("+"+tailKey("", p.Name, &p.Args), isUnmade)
	}
	isNew := c == nil
	if isNew {
		c = b.append(e, &ToolCall{Vantage: Proposed, Args: p.Args})
	} else {
		c.events = append(c.events, e.Seq)
	}
	c.change(&p.Args)
	c.Asked, c.Seq, c.Turn = true, e.Seq, e.Turn
	c.Call, c.Name, c.Class, c.Check = p.Call, p.Name, p.Class, policy.Denied
	if isNew {
		b.offer(c)
	}
	b.bySession[p.Call] = c
}

func (b *viewBuilder) execute(e *Event, p *ToolExecuted) {
	c := b.bySession[p.Call]
	if c == nil || c.Made != nil {
		c = b.append(e, &ToolCall{Call: p.Call, Name: p.Name, Args: p.Args})
		b.bySession[p.Call] = c
		b.offer(c)
	} else {
		c.events = append(c.events, e.Seq)
	}
	c.change(&p.Args)
	c.Seq, c.Turn, c.Name = e.Seq, e.Turn, p.Name
	c.Vantage, c.Made, c.Failed = Executed, p, p.Error != ""
	b.made[c.Name] = append(b.made[c.Name], c)
}

// report joins a result with its call: by id, name and arguments, or else by
// name and arguments alone, for an agent that gives its history other ids. One
// result is of one call, so no second call can hide behind it. A result that
// fits no call is a call of its own.
func (b *viewBuilder) report(e *Event, p *ToolObserved) *ToolCall {
	var c *ToolCall
	if p.ID != "" {
		if c = b.unreported(p.ID, p); c != nil && c.Call == "" {
			c = b.executedOtherwise(c, p)
		}
	}
	if c == nil {
		c = b.unreported("", p)
	}
	if c == nil {
		c = b.append(e, &ToolCall{ID: p.ID, Name: p.Name, Args: p.Args})
	} else {
		c.events = append(c.events, e.Seq)
	}
	c.Report, c.Asked = p, true
	if c.Call == "" { // what the session saw itself, it knows better
		c.Vantage, c.Failed = Reported, p.Error
	}
	return c
}

// judge makes the decision known that follows about a call of the agent's own.
func (b *viewBuilder) judge(c *ToolCall, p *ToolObserved) {
	if p.Judged == "" || c.Call != "" || b.bySession[p.Judged] != nil {
		return
	}
	c.Check, b.bySession[p.Judged] = policy.Denied, c
}

// unreported finds the first call that a result may be of: of the same name, or
// where one of the two names is the tail of the other.
func (b *viewBuilder) unreported(id string, p *ToolObserved) *ToolCall {
	if c := b.take(tailKey(id, p.Name, &p.Args), isUnreported); c != nil {
		return c
	}
	for _, tail := range tails(p.Name)[1:] {
		if c := b.take(wholeKey(id, tail, &p.Args), isUnreported); c != nil {
			return c
		}
	}
	return nil
}

// maxTried bounds how many executions are compared with one result.
const maxTried = 16

// executedOtherwise finds the execution of a proposal whose arguments a client
// completed on the way, by the result: the agent sends back what the tool gave
// here. The two become one call, with the arguments of the execution; those of the
// proposal are kept if they say anything else.
func (b *viewBuilder) executedOtherwise(proposal *ToolCall, p *ToolObserved) *ToolCall {
	for _, name := range tails(proposal.Name) {
		made := b.made[name]
		for _, c := range made[max(0, len(made)-maxTried):] {
			if c.ID == "" && c.Report == nil && c.Seq > proposal.Seq && quotes(p.Result, &c.Made.Result) {
				proposal.gone, c.ID = true, proposal.ID
				c.events = append(slices.Clone(proposal.events), c.events...)
				c.other = append(c.other, proposal.other...)
				if !proposal.Args.isPartOf(&c.Args) {
					c.other = append(c.other, proposal.Args)
				}
				return c
			}
		}
	}
	return proposal
}

// quotes reports whether a result that was sent back holds what a tool gave, as
// it is or inside JSON.
func quotes(sent, gave *Content) bool {
	if sent.Digest == gave.Digest {
		return true
	}
	inside, err := canon.Marshal(gave.Head)
	if err != nil || len(gave.Head) < 2 {
		return false
	}
	return strings.Contains(sent.Head, gave.Head) || strings.Contains(sent.Head, string(inside[1:len(inside)-1]))
}

// A CallCount is how many calls there are of each vantage.
type CallCount struct{ Executed, Reported, Proposed int }

// Sure is how many were made: here, or by the agent as it says.
func (n CallCount) Sure() int { return n.Executed + n.Reported }

// All counts those that were only proposed too.
func (n CallCount) All() int { return n.Sure() + n.Proposed }

// String tells them for people, those that there are.
func (n CallCount) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		text string
	}{{n.Executed, "executed here"}, {n.Reported, "reported by the agent"}, {n.Proposed, "proposed by the model"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.text))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// Add counts a call.
func (n *CallCount) Add(v Vantage) {
	switch v {
	case Executed:
		n.Executed++
	case Reported:
		n.Reported++
	default:
		n.Proposed++
	}
}

// Knows reports whether a tool of this name was offered to a model, or called.
func (v *CallView) Knows(name string) bool {
	for i := range v.Calls {
		if v.Calls[i].Is(name) {
			return true
		}
	}
	for known := range v.Known {
		if SameTool(known, name) {
			return true
		}
	}
	return false
}

// Count counts all calls.
func (v *CallView) Count() CallCount {
	var n CallCount
	for i := range v.Calls {
		n.Add(v.Calls[i].Vantage)
	}
	return n
}

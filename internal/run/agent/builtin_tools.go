package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// The tools of the loop itself.
const (
	memoryWriteTool  = "memory_write"
	memorySearchTool = "memory_search"
	planTool         = "plan"
	askApprovalTool  = "ask_approval"
	handoffTool      = "handoff"
)

// The sources of memory entries, and what they begin with.
const (
	caseSource  = "case"
	agentSource = "agent:"
	toolSource  = "tool:"
)

// Bounds of what the model writes into memory, asks and plans.
const (
	maxKeyBytes      = 128
	maxValueBytes    = 16 << 10
	maxQuestionBytes = 200 // as an approval_requested shows it
	maxFound         = 8
)

var memoryTools = []wire.Tool{
	{Name: memoryWriteTool, Description: "Remember something. Tiers: semantic (facts), episodic (what happened), procedural (how to behave), working (notes for this task only). " +
		"To replace an entry, give its id as supersedes; another value for a known key is refused without it.",
		Schema: []byte(`{"additionalProperties":false,"properties":{"confidence":{"maximum":1,"minimum":0,"type":"number"},"key":{"type":"string"},"supersedes":{"type":"string"},"tier":{"enum":["working","episodic","semantic","procedural"],"type":"string"},"value":{"type":"string"}},"required":["tier","key","value"],"type":"object"}`)},
	{Name: memorySearchTool, Description: "Search what you remember by words.",
		Schema: []byte(`{"additionalProperties":false,"properties":{"query":{"type":"string"},"tier":{"enum":["working","episodic","semantic","procedural"],"type":"string"}},"required":["query"],"type":"object"}`)},
}

var planSpec = wire.Tool{Name: planTool, Description: "Write down what you are going to do, before you do it.",
	Schema: []byte(`{"additionalProperties":false,"properties":{"text":{"type":"string"}},"required":["text"],"type":"object"}`)}

var askApprovalSpec = wire.Tool{Name: askApprovalTool, Description: "Ask a person a question that can be answered with yes or no, and wait for the answer.",
	Schema: []byte(`{"additionalProperties":false,"properties":{"question":{"type":"string"}},"required":["question"],"type":"object"}`)}

// handoffSpec lists the agents that work can be handed to.
func (f *frame) handoffSpec() wire.Tool {
	var b strings.Builder
	b.WriteString("Hand a piece of work to another agent and get its answer. It sees only the input that you give it. Agents:")
	names := []byte(`{"additionalProperties":false,"properties":{"agent":{"enum":[`)
	first := true
	for _, h := range f.run.target.Agents {
		if h.Name == f.name {
			continue
		}
		fmt.Fprintf(&b, "\n- %s: %s", h.Name, h.Description)
		if !first {
			names = append(names, ',')
		}
		names, first = canon.AppendString(names, h.Name), false
	}
	names = append(names, `],"type":"string"},"input":{"type":"string"}},"required":["agent","input"],"type":"object"}`...)
	return wire.Tool{Name: handoffTool, Description: b.String(), Schema: names}
}

// specs lists everything that the model of this agent is told about.
func (f *frame) specs() ([]wire.Tool, error) {
	var list []wire.Tool
	if slices.Contains(f.abilities, MemoryAbility) {
		list = append(list, memoryTools...)
	}
	if slices.Contains(f.abilities, PlanAbility) {
		list = append(list, planSpec)
	}
	if slices.Contains(f.abilities, ApprovalAbility) {
		list = append(list, askApprovalSpec)
	}
	if f.canHandOff() {
		list = append(list, f.handoffSpec())
	}
	own := len(list)
	for _, o := range f.offered {
		for _, t := range list[:own] {
			if t.Name == o.def.Name {
				return nil, refusal.Newf(refusal.AgentFailed, "the case has a tool called %s, and so has the built-in agent %s", t.Name, f.name).
					WithHint("rename the tool of the case, leave it out of tools in the target, or leave the ability out")
			}
		}
		list = append(list, o.spec)
	}
	return list, nil
}

func (f *frame) canHandOff() bool {
	others := len(f.run.target.Agents)
	if f.depth > 0 {
		others--
	}
	return others > 0 && f.depth < maxHandoffs
}

// An outcome is what became of a call: what the model is told, and whether text
// from outside is in it.
type outcome struct {
	text    string
	isError bool
	taint   string
}

func failed(format string, args ...any) outcome {
	return outcome{text: fmt.Sprintf(format, args...), isError: true}
}

// carryOut makes one call. Taint is the untrusted source in the context in
// which the model proposed it.
func (f *frame) carryOut(ctx context.Context, c wire.Call, taint string) (outcome, error) {
	can := func(a Ability) bool { return slices.Contains(f.abilities, a) }
	switch {
	case (c.Name == memoryWriteTool || c.Name == memorySearchTool) && can(MemoryAbility):
		if c.Name == memoryWriteTool {
			return f.memoryWrite(ctx, c, taint)
		}
		return f.memorySearch(c)
	case c.Name == planTool && can(PlanAbility):
		return f.plan(c)
	case c.Name == askApprovalTool && can(ApprovalAbility):
		return f.askApproval(ctx, c)
	case c.Name == handoffTool && f.canHandOff():
		return f.handoff(ctx, c, taint)
	}
	return f.useTool(ctx, c, taint)
}

// read decodes the arguments of a tool of the loop. What is wrong with them is
// told to the model and recorded.
func (f *frame) read(c wire.Call, v any) (*outcome, error) {
	args, ok := wire.ArgumentsObject(c.Args)
	var err error
	if !ok {
		err = fmt.Errorf("expected a JSON object, found %q", clip(string(c.Args), 100))
	} else {
		err = canon.Unmarshal(args, v)
	}
	if err == nil {
		return nil, nil
	}
	bad := failed("the arguments of %s are not as they should be: %s", c.Name, clip(err.Error(), 300))
	return &bad, f.event("malformed_arguments", bad.text)
}

func (f *frame) plan(c wire.Call) (outcome, error) {
	var args struct {
		Text string `json:"text"`
	}
	if bad, err := f.read(c, &args); bad != nil || err != nil {
		return give(bad), err
	}
	if args.Text == "" {
		return failed("the plan is empty"), nil
	}
	return outcome{text: "noted"}, f.run.session.Plan(args.Text)
}

func give(o *outcome) outcome {
	if o == nil {
		return outcome{}
	}
	return *o
}

func (f *frame) askApproval(ctx context.Context, c wire.Call) (outcome, error) {
	var args struct {
		Question string `json:"question"`
	}
	if bad, err := f.read(c, &args); bad != nil || err != nil {
		return give(bad), err
	}
	if args.Question == "" || len(args.Question) > maxQuestionBytes {
		return failed("the question has %d bytes, expected 1 to %d", len(args.Question), maxQuestionBytes), nil
	}
	yes, err := f.run.session.Ask(ctx, args.Question)
	if err != nil {
		return outcome{}, err
	}
	if yes {
		return outcome{text: "approved"}, nil
	}
	return outcome{text: "refused"}, nil
}

func (f *frame) memorySearch(c wire.Call) (outcome, error) {
	var args struct {
		Query string          `json:"query"`
		Tier  trajectory.Tier `json:"tier,omitempty"`
	}
	if bad, err := f.read(c, &args); bad != nil || err != nil {
		return give(bad), err
	}
	tiers := []trajectory.Tier{trajectory.Semantic, trajectory.Episodic, trajectory.Procedural}
	switch args.Tier {
	case "":
	case trajectory.Semantic, trajectory.Episodic, trajectory.Procedural:
		tiers = []trajectory.Tier{args.Tier}
	case trajectory.Working:
		tiers = nil // it is all in the context already
	default:
		return failed("there is no tier %q", clip(string(args.Tier), 40)), nil
	}
	found := f.run.memory.search(args.Query, maxFound, tiers...)
	if err := f.run.session.Retrieved(idsOf(found), args.Query); err != nil {
		return outcome{}, err
	}
	if len(found) == 0 {
		return outcome{text: "nothing found"}, nil
	}
	var o outcome
	for _, e := range found {
		o.text += string(e.tier) + " " + strings.TrimPrefix(e.line, "- ")
		if e.untrusted {
			o.taint = e.source
		}
	}
	return o, nil
}

func (f *frame) memoryWrite(ctx context.Context, c wire.Call, taint string) (outcome, error) {
	var args struct {
		Tier       trajectory.Tier `json:"tier"`
		Key        string          `json:"key"`
		Value      string          `json:"value"`
		Confidence *float64        `json:"confidence,omitempty"`
		Supersedes string          `json:"supersedes,omitempty"`
	}
	if bad, err := f.read(c, &args); bad != nil || err != nil {
		return give(bad), err
	}
	p := &proposal{tier: args.Tier, key: args.Key, value: args.Value, confidence: 1, supersedes: args.Supersedes,
		source: agentSource + f.name, handedOff: f.depth > 0}
	if args.Confidence != nil {
		p.confidence = *args.Confidence
	}
	if taint != "" {
		p.source, p.untrusted = taint, true
	}
	if p.tier == trajectory.Working {
		p.owner = f.task
	}
	if why := p.invalid(); why != "" {
		bad := failed("not written: %s", why)
		return bad, f.event("malformed_arguments", bad.text)
	}
	ruled, stopped, err := f.rule(ctx, p)
	if stopped != nil || err != nil {
		return give(stopped), err
	}
	id, decision, err := f.run.session.WriteMemory(ctx, session.MemoryWrite{Tier: p.tier, Key: p.key, Value: p.value, Source: p.source,
		Supersedes: ruled.replaces, Confidence: p.confidence})
	if err != nil {
		return outcome{}, err
	}
	if !decision.Permits() {
		return failed("not written: denied by policy (%s): %s", decision.Rule, decision.Reason), nil
	}
	f.run.memory.add(&entry{id: id, tier: p.tier, key: p.key, value: p.value, source: p.source, untrusted: p.untrusted,
		confidence: p.confidence, owner: p.owner}, ruled.replaces)
	return outcome{text: "written as entry " + id}, nil
}

// rule applies the rules of memory and has a person approve what untrusted text
// may have asked for. Something stopped is what the model is told.
func (f *frame) rule(ctx context.Context, p *proposal) (ruling, *outcome, error) {
	if p.untrusted && on(f.run.mitigations.GuardMemory) {
		if same := f.run.memory.review(p).same; same == nil {
			yes, err := f.run.session.Ask(ctx, "write memory "+p.key+" after untrusted text")
			if err != nil {
				return ruling{}, nil, err
			}
			if !yes {
				stopped := failed("not written: untrusted text from %s is in your context, and a person did not approve the write", p.source)
				return ruling{}, &stopped, f.security("memory_write_stopped", "key "+p.key+", source "+p.source)
			}
			p.approved = true
		}
	}
	ruled := f.run.memory.review(p)
	switch {
	case ruled.same != nil:
		return ruled, &outcome{text: "known already as entry " + ruled.same.id}, nil
	case ruled.conflict != "":
		stopped := failed("not written: %s", ruled.conflict)
		return ruled, &stopped, f.event("memory_conflict", ruled.conflict)
	}
	return ruled, nil, nil
}

// invalid says what is wrong with a proposal, "" if nothing is.
func (p *proposal) invalid() string {
	switch p.tier {
	case trajectory.Working, trajectory.Episodic, trajectory.Semantic, trajectory.Procedural:
	default:
		return fmt.Sprintf("there is no tier %q", clip(string(p.tier), 40))
	}
	switch {
	case p.key == "" || len(p.key) > maxKeyBytes || strings.ContainsFunc(p.key, unicode.IsControl):
		return fmt.Sprintf("the key has %d bytes, expected 1 to %d without control characters", len(p.key), maxKeyBytes)
	case p.value == "" || len(p.value) > maxValueBytes || !utf8.ValidString(p.value):
		return fmt.Sprintf("the value has %d bytes, expected 1 to %d", len(p.value), maxValueBytes)
	case !(p.confidence >= 0 && p.confidence <= 1):
		return fmt.Sprintf("confidence is %v, expected 0 to 1", p.confidence)
	}
	return ""
}

// handoff has another agent do a piece of work. It starts with nothing but the
// input and shares the memory, and its answer is the result of the call.
func (f *frame) handoff(ctx context.Context, c wire.Call, taint string) (outcome, error) {
	var args struct {
		Agent string `json:"agent"`
		Input string `json:"input"`
	}
	if bad, err := f.read(c, &args); bad != nil || err != nil {
		return give(bad), err
	}
	var helper *Helper
	for i := range f.run.target.Agents {
		if h := &f.run.target.Agents[i]; h.Name == args.Agent && h.Name != f.name {
			helper = h
		}
	}
	if helper == nil || args.Input == "" {
		bad := failed("there is no agent %q to hand work to, or there is no work", clip(args.Agent, 80))
		return bad, f.event("unknown_agent", bad.text)
	}
	decision, err := f.run.session.Handoff(ctx, f.name, helper.Name, args.Input)
	if err != nil {
		return outcome{}, err
	}
	if !decision.Permits() {
		return failed("not handed over: denied by policy (%s): %s", decision.Rule, decision.Reason), nil
	}
	g, err := f.run.frame(helper, f)
	if err != nil {
		return outcome{}, err
	}
	a, err := g.work(ctx, args.Input, taint)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{text: a.text, taint: g.taint}
	if a.refused {
		o.text, o.isError = "the agent refused: "+a.text, true
	}
	return o, nil
}

// useTool calls a tool of the case through the session. Names that no tool has
// go there too: the trajectory shows what the model tried.
func (f *frame) useTool(ctx context.Context, c wire.Call, taint string) (outcome, error) {
	o := f.offer(c.Name)
	if o == nil && f.run.has(c.Name) {
		name := "tool_not_offered"
		if slices.Contains(f.withheld, c.Name) {
			name = "handoff_tool_denied"
		}
		return failed("agent %s may not use the tool %s", f.name, c.Name), f.security(name, "agent "+f.name+" called "+c.Name)
	}
	args := c.Args
	if o != nil && taint != "" && o.def.Class != policy.Read && on(f.run.mitigations.ConfirmTainted) {
		yes, err := f.run.session.Ask(ctx, "call "+c.Name+" after untrusted text")
		if err != nil {
			return outcome{}, err
		}
		if !yes {
			return failed("not called: untrusted text from %s is in your context, and a person did not approve the call", taint),
				f.security("tainted_call_stopped", "tool "+c.Name+", source "+taint)
		}
	}
	var paid *payment
	if o != nil && o.def.Class == policy.Financial && on(f.run.mitigations.IdempotentCalls) {
		var done *outcome
		var err error
		if paid, args, done, err = f.once(ctx, o, c); done != nil || err != nil {
			return give(done), err
		}
	}
	r, err := f.run.session.Tool(ctx, session.ToolCall{Name: c.Name, Args: args, ID: c.ID})
	if err != nil {
		return outcome{}, err
	}
	done := f.received(o, c.Name, r)
	if paid != nil && !r.IsError {
		paid.turn, paid.made, paid.result = f.run.turn, paid.made+1, done
	}
	return done, nil
}

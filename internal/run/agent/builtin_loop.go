package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// maxHandoffs bounds how deep agents hand work on to each other.
const maxHandoffs = 4

// A run is one case while the loop drives it.
type run struct {
	target         *Builtin
	session        *session.Session
	mitigations    Mitigations
	window, budget int64
	temperature    []byte

	tools  []*offer // of the case, in its order
	memory *memory
	tasks  int // begun so far
	turn   int
	paid   map[string]*payment
}

// A frame is an agent at work: the main one through the whole case, a helper
// for one piece of work.
type frame struct {
	run       *run
	name      string
	depth     int // 0 for the main agent
	abilities []Ability

	envelope      wire.Envelope
	system        string
	encodedSystem []byte
	systemBytes   int
	offered       []*offer
	withheld      []string // of its own tools, those that narrowing took away
	tools         []byte   // encoded

	// The conversation.
	past      []*pastTurn
	pastBytes int // of all past turns, whole
	task      int
	input     []byte
	exchanges []*exchange
	recalled  []*entry

	// taint is the newest untrusted source whose text has reached the agent.
	// It never goes away: what the agent said since may repeat that text.
	taint string
}

// Drive takes the agent through the turns of a scenario. The outcome is that of
// the last turn.
//
// A [session.Stop] is returned as it is. An error of the loop itself, such as a
// model that keeps failing, is a refusal of the name AgentFailed.
func (b *Builtin) Drive(ctx context.Context, s *session.Session, c *scenario.Scenario) (Outcome, error) {
	r := &run{target: b, session: s, mitigations: b.mitigations(), memory: newMemory(), paid: map[string]*payment{}}
	r.window, r.budget = b.contextSize()
	var err error
	if r.temperature, err = b.temperature(); err != nil {
		return Outcome{}, fmt.Errorf("reading the target: temperature: %w", err)
	}
	if err := r.vetTools(); err != nil {
		return Outcome{}, err
	}
	for _, own := range []string{memoryWriteTool, memorySearchTool, planTool, askApprovalTool, handoffTool} {
		if !r.has(own) { // one of the case's may have the name of an ability that is off
			s.OwnTools(own)
		}
	}
	if err := r.seed(c.Memory); err != nil {
		return Outcome{}, err
	}
	main, err := r.frame(&Helper{Name: mainAgent, System: b.System, Model: b.Model, Tools: b.Tools, Abilities: b.Abilities}, nil)
	if err != nil {
		return Outcome{}, err
	}
	var last answer
	for {
		text, more, err := s.NextTurn(ctx, mainAgent, c.Turns)
		if err != nil {
			return Outcome{}, err
		}
		if !more {
			break
		}
		r.turn++
		if last, err = main.work(ctx, text, ""); err != nil {
			return Outcome{}, err
		}
		if err := s.CompleteTurn(last.text); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{Answer: last.text, Refused: last.refused}, nil
}

// seed gives the agent what the case says it knows. Events before the first
// turn are the case's own and need no decision.
func (r *run) seed(known []scenario.Memory) error {
	for i, m := range known {
		id := "case-" + strconv.Itoa(i+1)
		err := r.session.Event(&trajectory.MemoryWritten{Call: id, Entry: id, Tier: m.Tier, Key: m.Key, Source: caseSource, Confidence: 1,
			Value: r.session.Note(m.Value, trajectory.ArgumentHead)})
		if err != nil {
			return err
		}
		e := &entry{id: id, tier: m.Tier, key: m.Key, value: m.Value, source: caseSource, confidence: 1}
		if m.Tier == trajectory.Working {
			e.owner = 1 // the first task
		}
		r.memory.add(e, "")
	}
	return nil
}

// frame puts an agent to work. A helper has a caller, whose tools bound its
// own.
func (r *run) frame(h *Helper, caller *frame) (*frame, error) {
	f := &frame{run: r, name: h.Name, abilities: h.Abilities, system: h.System}
	narrow := caller != nil && on(r.mitigations.NarrowHandoffs)
	if caller != nil {
		f.depth = caller.depth + 1
	}
	if narrow {
		f.abilities = intersect(h.Abilities, caller.abilities)
	}
	outside := false
	for _, o := range r.tools {
		if h.Tools != nil && !slices.Contains(h.Tools, o.def.Name) {
			continue
		}
		if narrow && !slices.Contains(caller.offered, o) {
			f.withheld = append(f.withheld, o.def.Name)
			continue
		}
		f.offered = append(f.offered, o)
		outside = outside || o.outside
	}
	if outside && on(r.mitigations.FenceUntrusted) {
		f.system += fenceNote
	}
	specs, err := f.specs()
	if err != nil {
		return nil, err
	}
	model := h.Model
	if model == "" {
		model = r.target.Model
	}
	f.envelope = wire.NewEnvelope(r.target.API, wire.Options{Model: model, MaxOutput: r.target.maxOutput(), Temperature: r.temperature})
	f.encodedSystem = f.envelope.System(f.system)
	f.systemBytes = f.envelope.Size() + len(f.encodedSystem) + 1
	f.tools = r.target.API.Tools(specs)
	return f, nil
}

func intersect(a, b []Ability) []Ability {
	var both []Ability
	for _, x := range a {
		if slices.Contains(b, x) {
			both = append(both, x)
		}
	}
	return both
}

// An answer is how a turn, or the work of a helper, ended.
type answer struct {
	text    string
	refused bool
}

// work is one turn of the agent: it gets an input and calls the model until
// that answers in words. Taint is the untrusted source of the input, if any.
func (f *frame) work(ctx context.Context, input, taint string) (answer, error) {
	f.begin(input, taint)
	if err := f.remember(input); err != nil {
		return answer{}, err
	}
	for range f.run.target.maxSteps() {
		p, err := f.compile()
		if err != nil {
			return answer{}, f.fail("context_over_budget", err)
		}
		if err := f.run.session.ContextCompiled(p.event); err != nil {
			return answer{}, err
		}
		taint := f.taint
		r, err := f.ask(ctx, p.body)
		if err != nil {
			return answer{}, err
		}
		if err := f.note(&r); err != nil {
			return answer{}, err
		}
		if r.refused || len(r.calls) == 0 {
			f.end(input, r)
			return answer{r.text, r.refused}, nil
		}
		if err := f.act(ctx, r, taint); err != nil {
			return answer{}, err
		}
	}
	return answer{}, f.fail("step_limit", refusal.Newf(refusal.AgentFailed, "agent %s made %d model calls in turn %d and came to no answer",
		f.name, f.run.target.maxSteps(), f.run.turn).WithHint("raise max_steps in the target if the task needs more"))
}

func (f *frame) begin(input, taint string) {
	f.run.tasks++
	f.task = f.run.tasks
	f.input, f.exchanges = f.run.target.API.User(input), nil
	f.saw(taint)
}

// remember recalls what memory has about the input.
func (f *frame) remember(input string) error {
	f.recalled = nil
	if f.run.memory.alive == 0 {
		return nil
	}
	f.recalled = f.run.memory.recall(input, f.run.target.recall())
	return f.run.session.Retrieved(idsOf(f.recalled), input)
}

func idsOf(list []*entry) []string {
	ids := make([]string, len(list))
	for i, e := range list {
		ids[i] = e.id
	}
	return ids
}

// end makes the turn part of the history.
func (f *frame) end(input string, r reply) {
	t := &pastTurn{number: f.run.turn, input: input, answer: r.text, whole: f.input}
	for _, x := range f.exchanges {
		t.whole = append(append(t.whole, ','), x.whole...)
	}
	if say := f.run.target.API.Say(r.text, nil); say != nil {
		t.whole = append(append(t.whole, ','), say...)
	}
	f.past = append(f.past, t)
	f.pastBytes += len(t.whole) + 1
}

// saw notes that untrusted text has reached the agent.
func (f *frame) saw(taint string) {
	if taint != "" {
		f.taint = taint
	}
}

// ask calls the model. What may pass by itself is tried again, at once and a
// bounded number of times, and each time is an event: there is no clock here,
// and a live provider does its own waiting.
func (f *frame) ask(ctx context.Context, body []byte) (reply, error) {
	tries := f.run.target.retries() + 1
	for try := 1; ; try++ {
		it, err := f.run.session.Model(ctx, f.run.target.API, body, nil)
		if err != nil {
			return reply{}, err
		}
		r, err := parseReply(it)
		var bad *badReply
		if !errors.As(err, &bad) {
			return r, err
		}
		if !bad.again || try == tries {
			return reply{}, f.fail(bad.name, refusal.Newf(refusal.AgentFailed, "calling the model of agent %s in turn %d, try %d of %d: %s",
				f.name, f.run.turn, try, tries, clip(bad.detail, 300)).WithHint("the reply is in the trajectory; if a live model failed, run the case again"))
		}
		if err := f.event("model_retry", fmt.Sprintf("try %d of %d: %s", try, tries, bad.detail)); err != nil {
			return reply{}, err
		}
	}
}

// note records what is odd about a reply that can be used.
func (f *frame) note(r *reply) error {
	switch {
	case r.cut:
		if err := f.event("reply_cut", "the reply ends at the limit of output tokens"); err != nil {
			return err
		}
	case r.text == "" && len(r.calls) == 0 && !r.refused:
		return f.event("reply_empty", "the model said nothing and called no tool")
	}
	if r.dropped > 0 {
		return f.event("too_many_calls", fmt.Sprintf("the reply has %d tool calls, %d are accepted", r.dropped+maxCalls, maxCalls))
	}
	return nil
}

// act carries out the calls of a reply, one after the other.
func (f *frame) act(ctx context.Context, r reply, taint string) error {
	results := make([]wire.Result, len(r.calls))
	seen := "" // by the model only after all of them
	for i, c := range r.calls {
		done := outcome{text: "not executed: your reply was cut off at its limit, and this call may not be whole", isError: true}
		if !r.cut {
			var err error
			if done, err = f.carryOut(ctx, c, taint); err != nil {
				return err
			}
		}
		results[i] = wire.Result{ID: c.ID, Name: c.Name, Text: done.text, IsError: done.isError}
		if done.taint != "" {
			seen = done.taint
		}
	}
	f.saw(seen)
	f.exchanges = append(f.exchanges, f.newExchange(r, results))
	return nil
}

// event records something that went wrong and does not end the run.
func (f *frame) event(name, detail string) error {
	return f.run.session.Event(&trajectory.Failure{Name: name, Detail: clip(detail, 2<<10)})
}

// security records that a defence took effect.
func (f *frame) security(name, detail string) error {
	return f.run.session.Security(trajectory.SecurityEvent{Name: name, Detail: clip(detail, 2<<10), Severity: evidence.Warn})
}

// fail records why the run ends and returns it.
func (f *frame) fail(name string, err error) error {
	if eerr := f.event(name, err.Error()); eerr != nil {
		return eerr
	}
	return err
}

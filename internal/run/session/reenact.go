package session

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// A Reenactment takes a session through what a trajectory from elsewhere says that an
// agent did. What the agent did of itself is taken from the trajectory: which requests it
// sent, which tools it wanted, what it answered, what its machine saw of files and
// attempts. Everything that follows from that is computed here, by the code that would
// have written it: replies, decisions, violations, results of tools, costs, times.
type Reenactment struct {
	Turns []string // what the user says
	// Contents are the whole texts of which events have the beginning.
	Contents map[digest.Content][]byte
	// Ask gives the reply to a model call of which the trajectory tells, or why there is
	// none. Prompt is the canonical request; it is nil if that is not known.
	Ask func(p *trajectory.ModelCallStarted, prompt []byte, turn int) (*cassette.Interaction, error)
	// Answered, if not nil, is told when the trajectory comes to the reply of a call.
	Answered func(*cassette.Interaction)
	// Estimated says that the tokens of a request were not written by the author of a
	// reply but estimated from the request as it was sent. Of that only the canonical form
	// is known here, so that they are compared roughly.
	Estimated func(*cassette.Interaction, []byte) bool
	// Live, if not nil, gives what came of a call of a tool of an MCP server.
	Live func(name string, args []byte) (tools.Result, error)
	// Cut says that a call may fail on the other machine although it was answered: the
	// network of a live one.
	Cut bool
}

// Reenact compares a trajectory with what a session of cfg makes of the same actions. Cfg
// has no folder and no models. The stop is the session's own, nil if it was not stopped.
func Reenact(cfg Config, v *trajectory.Verified, r Reenactment) (*Stop, error) {
	cfg.Folder, cfg.Models, cfg.Memory, cfg.Person, cfg.Sink, cfg.Watch = nil, nil, nil, nil, nil, nil
	a := &actor{r: r, open: map[string]*asked{}, executed: map[string]*trajectory.ToolExecuted{}, hidden: map[string]bool{}, standing: map[string]*tools.Snapshot{}}
	for e := range v.Events() {
		if p, ok := e.Payload.(*trajectory.ToolExecuted); ok {
			a.executed[p.Call] = p
		}
	}
	if box, ok := cfg.Tools.(*tools.State); ok && box != nil {
		a.box = box
		cfg.Tools = a
	}
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	a.s = s
	if a.box != nil {
		for _, f := range a.box.Findings() {
			if err := s.Security(trajectory.SecurityEvent{Name: f.Name, Detail: f.Detail, Severity: f.Severity}); err != nil {
				return nil, err
			}
		}
	}
	n := 0
	for e := range v.Events() {
		n = e.Seq
		if s.log.Len() < e.Seq {
			if err := a.act(e); err != nil {
				return s.stop, fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
			}
		}
		if s.log.Len() < e.Seq {
			return s.stop, fmt.Errorf("event %d (%s) does not follow from what is before it", e.Seq, e.Type)
		}
		if err := a.same(s.log.Event(e.Seq), e); err != nil {
			return s.stop, fmt.Errorf("event %d: %w", e.Seq, err)
		}
		a.last = e.Payload
	}
	if s.log.Len() > n {
		return s.stop, fmt.Errorf("event %d is missing: %s", n+1, s.log.Event(n+1).Type)
	}
	return s.stop, nil
}

// An actor acts as the agent of a trajectory did.
type actor struct {
	s    *Session
	r    Reenactment
	box  *tools.State
	last trajectory.Payload // of the event before

	open     map[string]*asked // model calls that are under way
	executed map[string]*trajectory.ToolExecuted
	current  string          // the tool call that is being made
	untrue   error           // why it cannot have been made
	hidden   map[string]bool // calls of which secrets were taken out
	standing map[string]*tools.Snapshot
}

type asked struct {
	request digest.Content
	prompt  []byte
	it      *cassette.Interaction
	err     error
}

// act does what an event tells, if that is something an agent or its machine does.
func (a *actor) act(e trajectory.Event) error {
	s := a.s
	if call := callOf(e.Payload); call != "" && a.hidden[call] {
		return a.echoHidden(e.Payload)
	}
	switch p := e.Payload.(type) {
	case *trajectory.TurnStarted:
		if s.turn >= len(a.r.Turns) {
			return fmt.Errorf("the case has %d turns", len(a.r.Turns))
		}
		return s.StartTurn("", a.r.Turns[s.turn])
	case *trajectory.ModelCallStarted:
		return a.ask(p)
	case *trajectory.ModelCallCompleted:
		return a.replied(p)
	case *trajectory.ToolObserved:
		return a.reported(p)
	case *trajectory.ToolProposed:
		return a.tool(p)
	case *trajectory.Failure:
		return a.failed(p)
	case *trajectory.PolicyViolation:
		// What a sandbox or a gateway saw the agent try, and only its machine knows.
		seen, ok := a.last.(*trajectory.SecurityEvent)
		if !ok || seen.Detail != p.Text || !strings.HasPrefix(p.Rule, "sandbox:") && !strings.HasPrefix(p.Rule, "gateway:") {
			return errors.New("the policy does not give this violation")
		}
		if id := s.nextCall(); p.Call != id {
			return fmt.Errorf("it is of call %.40q, expected %s", p.Call, id)
		}
		return a.echo(p)
	case *trajectory.Rollback:
		if at := a.standing[p.Call]; at != nil && a.box != nil {
			a.box.Restore(*at)
		}
		return a.onlyAutonomous(p)
	case *trajectory.CheckpointSaved:
		return a.onlyAutonomous(p)
	case *trajectory.LimitReached:
		if max, known := s.cfg.Limits.named(p.Limit); known && max != p.Max {
			return fmt.Errorf("the limit of %s is %d, the trajectory says %d", p.Limit, max, p.Max)
		}
		err := a.echo(p)
		s.Halt(Truncated, refusal.LimitReached, LimitError(p.Limit, p.Max))
		return err
	case *trajectory.RunCompleted:
		if suspended := p.Status == "suspended"; suspended != (s.stop != nil && s.stop.Kind == Suspended) || s.stop != nil && !suspended {
			return errors.New("the run did not come to this end")
		}
		return a.echo(p)
	case *trajectory.RunFailed:
		if s.stop != nil && string(s.stop.Name) != p.Name {
			return fmt.Errorf("the run was stopped by %s", s.stop.Name)
		}
		return a.echo(p)
	case *trajectory.TurnCompleted, *trajectory.TransportRequest, *trajectory.SecurityEvent, *trajectory.FileWritten, *trajectory.FileDeleted:
		if s.stop != nil {
			if _, turn := p.(*trajectory.TurnCompleted); turn {
				return errors.New("the run was stopped before")
			}
		}
		return a.echo(p)
	}
	return errors.New("it does not follow from what is before it")
}

// named gives the limit of a name that an event has.
func (l Limits) named(name string) (max int64, known bool) {
	max, known = map[string]int64{"turns": l.Turns, "tokens": l.Tokens, "cost_microdollars": l.CostMicroUSD, "wall_clock_ms": l.Wall.Milliseconds(),
		"kept_bytes": l.KeptBytes, "events": l.Events, "read_bytes": l.ReadBytes}[name]
	return max, known
}

// echo writes an event as the trajectory has it.
func (a *actor) echo(p trajectory.Payload) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.s.event(p)
}

func (a *actor) onlyAutonomous(p trajectory.Payload) error {
	if a.s.enforcer.Mode() != policy.Autonomous {
		return errors.New("only the autonomous mode goes back")
	}
	return a.echo(p)
}

// ask begins a model call.
func (a *actor) ask(p *trajectory.ModelCallStarted) error {
	if err := a.s.enter(); err != nil {
		return err
	}
	defer a.s.mu.Unlock()
	if err := a.s.checkLimits(); err != nil {
		return err
	}
	if id := a.s.nextCall(); p.Call != id {
		return fmt.Errorf("it is call %.40q, expected %s", p.Call, id)
	}
	prompt, err := a.whole(&p.Prompt)
	if err != nil {
		return err
	}
	if digest.ContentOf(prompt) != p.Request {
		if !p.Prompt.Redacted || !strings.Contains(string(prompt), redactedMark) {
			return errors.New("the prompt is not the request")
		}
		prompt = nil
	}
	if prompt != nil && !slices.Equal(p.Files, a.s.newFiles(prompt)) {
		return errors.New("the files that it lists are not those of the prompt")
	}
	for _, f := range p.Files {
		if _, ok := a.r.Contents[f.Digest]; !ok {
			return fmt.Errorf("the file %s is missing", f.Digest)
		}
	}
	it, err := a.r.Ask(p, prompt, a.s.turn)
	if errors.Is(err, ErrNotAsked) || errors.Is(err, ErrHidden) {
		return err
	}
	a.open[p.Call] = &asked{request: p.Request, prompt: prompt, it: it, err: err}
	return a.s.event(p)
}

// ErrNotAsked says that a call of which a trajectory tells was not made, and ErrHidden
// that this cannot be said, because a secret was taken out of the request.
var (
	ErrNotAsked = errors.New("no such call was made")
	ErrHidden   = errors.New("a secret was taken out of a request, so that its reply cannot be looked up here")
)

// redactedMark is how what stands for a secret begins.
const redactedMark = "[redacted"

// replied ends a model call with the reply that is known here. Of equal requests that
// were under way at once either may have got either reply.
func (a *actor) replied(p *trajectory.ModelCallCompleted) error {
	own := a.open[p.Call]
	if own == nil {
		return errors.New("no such call is under way")
	}
	for _, other := range a.open {
		if other != own && other.request == own.request && other.it != nil && !a.gives(own.it, p) && a.gives(other.it, p) {
			own.it, other.it = other.it, own.it
			own.err, other.err = other.err, own.err
			break
		}
	}
	if own.err != nil || own.it == nil {
		return fmt.Errorf("the call was not answered: %v", own.err)
	}
	delete(a.open, p.Call)
	it := own.it
	if a.r.Answered != nil {
		a.r.Answered(it)
	}
	if n := int64(len(own.prompt)) / 4; a.r.Estimated != nil && a.r.Estimated(it, own.prompt) && p.TokensIn >= n/4 && p.TokensIn <= 4*n+1000 {
		it = withTokens(it, p)
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return stopless(a.s.modelDone(p.Call, it))
}

// gives reports whether a reply is the one that an event has.
func (a *actor) gives(it *cassette.Interaction, p *trajectory.ModelCallCompleted) bool {
	if it == nil {
		return false
	}
	text, _ := replyText(it.Model)
	return digest.ContentOf([]byte(a.s.safe(text))) == p.Output.Digest
}

// withTokens is an authored reply with the tokens of an event: they are counted from a
// request as it was sent.
func withTokens(it *cassette.Interaction, p *trajectory.ModelCallCompleted) *cassette.Interaction {
	m := *it.Model
	m.Usage = wire.Usage{InputTokens: p.TokensIn, OutputTokens: m.Usage.OutputTokens}
	other := *it
	other.Model = &m
	return &other
}

// failed ends a model call without a reply, or tells something that went wrong elsewhere.
func (a *actor) failed(p *trajectory.Failure) error {
	own := a.open[p.Call]
	if own == nil || p.Name == trajectory.CallsUnread {
		if p.Name == RetryName || p.Name == trajectory.CallsUnread || p.Name == string(refusal.FolderUnreadable) {
			return a.echo(p)
		}
		return errors.New("nothing failed here")
	}
	if own.err == nil && !a.r.Cut {
		return errors.New("the call was answered")
	}
	delete(a.open, p.Call)
	err := own.err
	if name, _ := nameOf(err); err == nil || string(name) != p.Name {
		if !a.r.Cut {
			return fmt.Errorf("the call failed with %s", name)
		}
		err = refusal.Newf(refusal.Name(p.Name), "%s", p.Detail)
	}
	if err := a.echo(p); err != nil {
		return err
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	name, _ := nameOf(err)
	kind := Failed
	if name == refusal.LimitReached {
		kind = Truncated
	}
	_ = a.s.halt(kind, name, err)
	return nil
}

// reported repeats what the agent said of a call that it made itself.
func (a *actor) reported(p *trajectory.ToolObserved) error {
	if p.Vantage != trajectory.Reported {
		return errors.New("the reply asks for no such call")
	}
	args, err := a.args(&p.Args)
	if err != nil {
		return err
	}
	var result *wire.Result
	if p.Result != nil {
		text, err := a.whole(p.Result)
		if err != nil {
			return err
		}
		result = &wire.Result{Sent: string(text), IsError: p.Error}
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return stopless(a.s.observed(p.Call, p.Vantage, wire.Call{ID: p.ID, Name: p.Name, Args: args}, result))
}

// tool makes a tool call again. One of which secrets were taken out cannot be made
// again: the policy and the tool saw other arguments.
func (a *actor) tool(p *trajectory.ToolProposed) error {
	args, err := a.args(&p.Args)
	if err != nil {
		return err
	}
	if p.Args.Redacted || args == nil || strings.Contains(p.Name, redactedMark) || len(p.Name) >= 200 {
		if args != nil && len(p.Name) < 200 && !strings.Contains(string(args)+p.Name, redactedMark) {
			return errors.New("nothing was taken out of the arguments")
		}
		if a.isLive(p.Name) {
			return ErrHidden
		}
		a.s.mu.Lock()
		a.s.nextCall()
		a.s.mu.Unlock()
		a.hidden[p.Call] = true
		return a.echo(p)
	}
	a.current = p.Call
	if a.box != nil && a.s.enforcer.Mode() == policy.Autonomous {
		at := a.box.Snapshot()
		a.standing[p.Call] = &at
	}
	_, err = a.s.Tool(context.Background(), ToolCall{Name: p.Name, Args: args, ID: p.ID})
	if a.untrue != nil {
		return a.untrue
	}
	return stopless(err)
}

// stopless hides that the case was stopped: that is an event, which is compared.
func stopless(err error) error {
	var stop *Stop
	if errors.As(err, &stop) && stop.Kind != Broken {
		return nil
	}
	return err
}

// echoHidden repeats the events of a call that cannot be made again.
func (a *actor) echoHidden(p trajectory.Payload) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if p, ok := p.(*trajectory.ToolExecuted); ok {
		a.s.elapsed += time.Duration(p.LatencyMS) * time.Millisecond
		a.s.spend(p)
	}
	if f, ok := p.(*trajectory.Failure); ok {
		_ = a.s.halt(Failed, refusal.Name(f.Name), errors.New(f.Detail))
	}
	return a.s.event(p)
}

// callOf is the call that an event of a tool call is about.
func callOf(p trajectory.Payload) string {
	switch p := p.(type) {
	case *trajectory.PolicyDecision:
		return p.Call
	case *trajectory.PolicyViolation:
		return p.Call
	case *trajectory.ApprovalRequested:
		return p.Call
	case *trajectory.ApprovalResolved:
		return p.Call
	case *trajectory.ToolExecuted:
		return p.Call
	case *trajectory.Failure:
		return p.Call
	case *trajectory.Rollback:
		return p.Call
	}
	return ""
}

// Definitions are those of the case's tools.
func (a *actor) Definitions() []tools.Definition { return a.box.Definitions() }

// Call answers a tool call: from what the case says, or, of a tool that acts on the
// agent's own folder, as the trajectory has it.
func (a *actor) Call(ctx context.Context, name string, args []byte) (tools.Result, error) {
	d, ok := a.box.Lookup(name)
	live := a.isLive(name)
	if !ok || d.Source != tools.Folder && !live {
		return a.box.Call(ctx, name, args)
	}
	if refused := a.box.Check(name, args); refused != nil {
		return *refused, nil
	}
	if live {
		r, err := a.r.Live(name, args)
		if errors.Is(err, ErrNotAsked) {
			a.untrue = err
		}
		return r, err
	}
	p := a.executed[a.current]
	if p == nil {
		return tools.Result{}, errors.New("the trajectory has no result of the call")
	}
	text, err := a.whole(&p.Result)
	if err != nil {
		return tools.Result{}, err
	}
	r := tools.Result{Source: p.Source, Trust: p.Trust, Latency: time.Duration(p.LatencyMS) * time.Millisecond, CostMicroUSD: p.CostMicroUSD, Tokens: p.Tokens}
	if p.Error != "" {
		r.Error = string(text)
	} else {
		r.JSON = text
	}
	if p.CostMicroUSD != 0 || p.Tokens != 0 {
		return r, errors.New("a tool of the folder costs nothing")
	}
	return r, nil
}

// isLive reports whether a tool is one of an MCP server that was called live.
func (a *actor) isLive(name string) bool {
	if a.r.Live == nil || a.box == nil {
		return false
	}
	d, ok := a.box.Lookup(name)
	return ok && strings.HasPrefix(d.Source, tools.MCPPrefix)
}

// whole is a text that an event stands for.
func (a *actor) whole(c *trajectory.Content) ([]byte, error) {
	if text, ok := a.r.Contents[c.Digest]; ok {
		return text, nil
	}
	if digest.ContentOf([]byte(c.Head)) == c.Digest {
		return []byte(c.Head), nil
	}
	if c.Lossy && !c.Truncated {
		return []byte(c.Head), nil
	}
	return nil, fmt.Errorf("the text %s is missing", c.Digest)
}

// args are the arguments of a call, nil if they are not known: long ones of a call that
// was denied are not kept.
func (a *actor) args(p *trajectory.Args) ([]byte, error) {
	if text, ok := a.r.Contents[p.Digest]; ok {
		return text, nil
	}
	if p.Raw != nil {
		if p.Raw.Truncated {
			return nil, nil
		}
		return a.whole(p.Raw)
	}
	if len(p.Cut) > 0 {
		return nil, nil
	}
	text, err := canon.Marshal(p.Values)
	if err != nil {
		return nil, err
	}
	if p.Values == nil {
		text = []byte("{}")
	}
	if digest.ContentOf(text) != p.Digest {
		return nil, errors.New("the arguments do not have their digest")
	}
	return text, nil
}

// same compares an event with the one of the trajectory. That something was taken out of
// a text is not seen in what is left.
func (a *actor) same(own, theirs trajectory.Event) error {
	if own.Type != theirs.Type || own.Turn != theirs.Turn {
		return fmt.Errorf("it is %s in turn %d, expected %s in turn %d", theirs.Type, theirs.Turn, own.Type, own.Turn)
	}
	if own.At != theirs.At {
		return fmt.Errorf("%s: it happened after %s, expected %s", own.Type, theirs.At, own.At)
	}
	mine, err := canon.Marshal(own.Payload)
	if err != nil {
		return err
	}
	others, err := canon.Marshal(theirs.Payload)
	if err != nil {
		return err
	}
	if string(mine) == string(others) {
		return nil
	}
	if strings.Contains(string(others), redactedMark) && reflect.DeepEqual(unredacted(mine), unredacted(others)) {
		return nil
	}
	return fmt.Errorf("%s is %.300s, expected %.300s", own.Type, others, mine)
}

// unredacted is a document without the members that say that something was taken out.
func unredacted(data []byte) any {
	var v any
	if canon.Unmarshal(data, &v) != nil {
		return nil
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "redacted")
			for _, m := range v {
				strip(m)
			}
		case []any:
			for _, m := range v {
				strip(m)
			}
		}
	}
	strip(v)
	return v
}

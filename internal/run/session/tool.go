package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

// A ToolCall is a call that the agent wants. Args are a JSON object as the
// model wrote it, which may be malformed.
type ToolCall struct {
	Name string
	Args []byte
	ID   string // the provider's, for a driver that knows it
}

// A ToolReply is what goes back to the agent. Text is JSON, or says in words
// why there is no result.
type ToolReply struct {
	Text    string
	IsError bool
	Denied  bool
	Reason  string
	Trust   string // of the result: untrusted, imported, pinned or internal
}

// Tool asks the policy about a call, has it approved if need be, executes it
// and records all of that. In autonomous mode a violation takes the working
// folder and the tools back to what they were before the call.
func (s *Session) Tool(ctx context.Context, c ToolCall) (ToolReply, error) {
	if strings.HasPrefix(c.Name, policy.HTTPPrefix) {
		// The record would tell of a request that was not made.
		return ToolReply{Text: "no tool is called " + s.Safe(cutText(c.Name, 200)) + ": names that begin with " + policy.HTTPPrefix + " are those of HTTP requests", IsError: true}, nil
	}
	if err := s.reads(len(c.Args)); err != nil {
		return ToolReply{}, err
	}
	if err := s.enter(); err != nil {
		return ToolReply{}, err
	}
	defer s.mu.Unlock()
	if err := s.checkLimits(); err != nil {
		return ToolReply{}, err
	}
	if err := s.cleanCall(&c); err != nil {
		return ToolReply{}, err
	}
	id := s.nextCall()
	args, whole := s.args(c.Args)
	if len(whole) <= keptIfDenied {
		s.keepArgs(whole)
	}
	if err := s.event(&trajectory.ToolProposed{Call: id, Name: s.named(c.Name), ID: shortID(s.safe(c.ID)), Class: s.classes[c.Name], Args: args, Trust: descriptionTrust(s.trust[c.Name])}); err != nil {
		return ToolReply{}, err
	}
	// A call that cannot be understood is given to the policy without its
	// arguments: the tool will refuse it, and rules must see it all the same.
	class, known := s.classes[c.Name]
	call := policy.Call{ID: id, Action: policy.Tool, Name: c.Name, Class: class, Known: known, Turn: s.turn, At: s.elapsed}
	if object, err := canon.Canonicalize(c.Args); err == nil && len(object) > 0 && object[0] == '{' {
		call.Args = object
	}
	before := s.checkpoint(id)
	decision, err := s.decide(ctx, call)
	if err != nil {
		return ToolReply{}, err
	}
	if !decision.Permits() {
		if err := s.record(call, policy.Usage{}, before); err != nil {
			return ToolReply{}, err
		}
		return ToolReply{Text: deniedText(decision), IsError: true, Denied: true, Reason: decision.Reason}, nil
	}
	s.keepArgs(whole)
	return s.execute(ctx, call, c, args, before)
}

// cleanCall takes the secrets of this case out of a call, before a person is
// asked about it.
func (s *Session) cleanCall(c *ToolCall) (err error) {
	for _, text := range []*string{&c.Name, &c.ID} {
		clean, err := s.redactor.Outgoing([]byte(*text))
		if err != nil {
			return err
		}
		*text = string(clean)
	}
	c.Args, err = s.redactor.Outgoing(c.Args)
	return err
}

// keptIfDenied bounds the arguments that are kept whole of a call that is not
// made. Of longer ones the event has the beginnings and the digest.
const keptIfDenied = 64 << 10

func (s *Session) keepArgs(whole []byte) {
	if whole != nil {
		s.keepWhole(digest.ContentOf(whole), whole)
	}
}

func deniedText(d policy.Decision) string {
	return trajectory.DeniedText(d.Rule) + ": " + d.Reason
}

// descriptionTrust is the label of who wrote a tool's description.
func descriptionTrust(t string) string {
	switch t {
	case "":
		return ""
	case tools.Outside:
		return "untrusted"
	}
	return "pinned"
}

// execute makes a call that was permitted. The lock is held: a case has one
// order of events.
func (s *Session) execute(ctx context.Context, call policy.Call, c ToolCall, args trajectory.Args, before *checkpoint) (ToolReply, error) {
	var result tools.Result
	if s.cfg.Tools == nil {
		result = tools.Result{Error: "there is no tool called " + s.named(c.Name), Source: tools.Fixture}
	} else {
		var err error
		if result, err = s.cfg.Tools.Call(ctx, c.Name, c.Args); err != nil {
			return ToolReply{}, s.toolFailed(call.ID, err)
		}
	}
	s.elapsed += result.Latency
	reply := ToolReply{Text: string(result.JSON), Trust: result.Trust}
	if result.Error != "" {
		reply = ToolReply{Text: result.Error, IsError: true, Reason: result.Error, Trust: result.Trust}
	}
	executed := &trajectory.ToolExecuted{Call: call.ID, Name: s.named(c.Name), Args: args, Error: cutText(s.safe(result.Error), maxDetail),
		LatencyMS: result.Latency.Milliseconds(), CostMicroUSD: result.CostMicroUSD, Tokens: result.Tokens, Source: result.Source, Trust: result.Trust,
		Result: s.content(reply.Text, trajectory.ResultHead)}
	s.spend(executed)
	if err := s.event(executed); err != nil {
		return ToolReply{}, err
	}
	for _, f := range result.Findings {
		if err := s.event(&trajectory.SecurityEvent{Name: f.Name, Detail: cutText(s.safe(f.Detail), maxDetail), Severity: f.Severity}); err != nil {
			return ToolReply{}, err
		}
	}
	if err := s.noteWritten(result.Wrote); err != nil {
		return ToolReply{}, err
	}
	before.effectOf(call, result)
	usage := policy.Usage{Executed: true, CostMicroUSD: result.CostMicroUSD, Tokens: result.Tokens, Latency: result.Latency}
	return reply, s.record(call, usage, before)
}

func (s *Session) toolFailed(id string, err error) error {
	name, detail := nameOf(err)
	kind := Failed
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		kind, name = Truncated, refusal.LimitReached // the time of the case is over
	}
	if eerr := s.event(&trajectory.Failure{Call: id, Name: string(name), Detail: cutText(s.safe(detail), maxDetail)}); eerr != nil {
		return eerr
	}
	return s.halt(kind, name, err)
}

// decide asks the policy and, if it escalates, the case or a person.
func (s *Session) decide(ctx context.Context, call policy.Call) (policy.Decision, error) {
	d := s.enforcer.Decide(call)
	if err := s.event(s.decided(call, d)); err != nil {
		return d, err
	}
	if !s.enforcer.Pending(call.ID) {
		return d, nil
	}
	approve, err := s.approval(ctx, call, d)
	if err != nil {
		return d, err
	}
	if approve {
		d, err = s.enforcer.Approve(call.ID)
	} else {
		d, err = s.enforcer.Refuse(call.ID)
	}
	if err != nil {
		return d, s.halt(Broken, refusal.Failed, err)
	}
	return d, s.event(s.decided(call, d))
}

func (s *Session) decided(call policy.Call, d policy.Decision) *trajectory.PolicyDecision {
	p := trajectory.Decided(call, d)
	p.Name, p.Reason = s.named(p.Name), cutText(s.safe(p.Reason), maxDetail)
	return p
}

// A Question is what a person is asked to approve: the request as it is
// recorded, and what a person must see before approving.
type Question struct {
	trajectory.ApprovalRequested
	Target string // whose agent asks
	Turn   int
	Class  policy.Class // of the tool
	Args   string       // JSON, with secrets taken out; "" if there are none
}

// approval finds an answer to an escalation: the case's, then a person's.
// Without one the case is suspended; driving it again with the answer known
// takes it past this point.
func (s *Session) approval(ctx context.Context, call policy.Call, d policy.Decision) (bool, error) {
	q := trajectory.ApprovalRequested{Action: call.Action, Call: call.ID, Name: s.named(call.Name), Reason: cutText(s.safe(d.Reason), maxDetail), Rule: d.Rule}
	if err := s.event(&q); err != nil {
		return false, err
	}
	for i, a := range s.cfg.Approvals {
		if a.Action != call.Action || a.Name != "*" && a.Name != call.Name || a.Times > 0 && s.left[i] == 0 {
			continue
		}
		s.left[i]--
		return a.Approve, s.event(&trajectory.ApprovalResolved{Call: call.ID, Approved: a.Approve, By: "case", Note: a.Note})
	}
	if s.cfg.Person != nil {
		approve, answered, err := s.cfg.Person(ctx, Question{q, s.cfg.Run.Target, call.Turn, call.Class, s.safe(string(call.Args))})
		if err != nil {
			return false, s.halt(Broken, refusal.Failed, err)
		}
		if answered {
			return approve, s.event(&trajectory.ApprovalResolved{Call: call.ID, Approved: approve, By: "person"})
		}
	}
	return false, s.halt(Suspended, refusal.ApprovalPending, fmt.Errorf("%s %s waits for an approval and no answer came", call.Action, call.Name))
}

// record tells the policy that a call is over, and rolls back if that was a
// violation in autonomous mode.
func (s *Session) record(call policy.Call, use policy.Usage, before *checkpoint) error {
	violations, err := s.enforcer.Record(call, use)
	if err != nil {
		return s.halt(Broken, refusal.Failed, err)
	}
	if err := s.violated(violations); err != nil {
		return err
	}
	if len(violations) == 0 || before == nil {
		return nil
	}
	return s.rollBack(call.ID, violations[0].Text, before)
}

package scenario

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

// FromTrajectory makes a scenario of something that happened: the user says the
// same, the model and the tools answer the same in the same order, approvals
// are answered the same. Driving another agent with it shows where that agent
// does something else. Content gives whole texts of which events have only the
// beginning; it may be nil.
//
// The replies are in the order of the events and not matched by what is asked,
// so what an agent gets after it has parted from the trajectory means nothing.
func FromTrajectory(v *trajectory.Verified, content func(digest.Content) ([]byte, bool)) (*Scenario, error) {
	r := &replayed{content: content, s: &Scenario{Version: 1}, tools: map[string]*tools.Definition{}, asked: map[string]trajectory.ApprovalRequested{}, calls: map[string]int64{}}
	for e := range v.Events() {
		if err := r.event(e); err != nil {
			return nil, fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
		}
	}
	for _, name := range r.order {
		d := r.tools[name]
		if len(d.Replies) == 0 {
			// Asked for and never carried out: denied, or the end came first.
			d.Default = &tools.Reply{Error: "the trajectory has no result of this tool"}
		}
		r.s.Tools = append(r.s.Tools, *d)
	}
	if len(r.s.Turns) == 0 {
		return nil, fmt.Errorf("it has no turn in which the user speaks")
	}
	return r.s, r.s.Validate()
}

// Offer gives a scenario that was made of a trajectory the tools as the case of
// that trajectory defines them: a trajectory tells what tools were called and
// what they gave, not how they were described. Tools that were never called are
// offered too. Tools of the working folder act on it, as they did.
func (s *Scenario) Offer(defined []tools.Definition) {
	called := map[string]tools.Definition{}
	for _, d := range s.Tools {
		called[d.Name] = d
	}
	offered := make([]tools.Definition, 0, len(defined))
	for _, d := range defined {
		if was, ok := called[d.Name]; ok && d.Source != tools.Folder {
			d.Source, d.Operation, d.Remote, d.Default, d.State = "", "", "", nil, nil
			d.Replies = was.Replies
		} else if d.Source == tools.World {
			// The world does not run again: what it would have said is not known.
			d.Source, d.Remote, d.Default = "", "", &tools.Reply{Error: "the trajectory has no result of this tool"}
		}
		delete(called, d.Name)
		offered = append(offered, d)
	}
	for _, d := range s.Tools {
		if _, extra := called[d.Name]; extra {
			offered = append(offered, d)
		}
	}
	s.Tools = offered
}

type replayed struct {
	content func(digest.Content) ([]byte, bool)
	s       *Scenario
	tools   map[string]*tools.Definition
	order   []string
	asked   map[string]trajectory.ApprovalRequested
	calls   map[string]int64
}

// whole is the text that a content stands for.
func (r *replayed) whole(c *trajectory.Content) (string, error) {
	if c == nil {
		return "", nil
	}
	if !c.Truncated && !c.Lossy {
		return c.Head, nil
	}
	if r.content != nil {
		if data, ok := r.content(c.Digest); ok {
			return string(data), nil
		}
	}
	return "", fmt.Errorf("a text of %d bytes is there only in part, and the evidence does not have %s", c.Bytes, c.Digest)
}

func (r *replayed) event(e trajectory.Event) error {
	switch p := e.Payload.(type) {
	case *trajectory.TurnStarted:
		text, err := r.whole(p.Input)
		if err != nil || text == "" {
			return err // a turn that an agent began itself
		}
		r.s.Turns = append(r.s.Turns, Turn{Text: text})
	case *trajectory.ModelCallCompleted:
		return r.modelReply(p)
	case *trajectory.ToolProposed:
		r.tool(p.Name, p.Class)
	case *trajectory.ToolExecuted:
		return r.toolReply(p)
	case *trajectory.ApprovalRequested:
		r.asked[p.Call] = *p
	case *trajectory.ApprovalResolved:
		if q, ok := r.asked[p.Call]; ok {
			r.s.Approvals = append(r.s.Approvals, Approval{Action: q.Action, Name: q.Name, Approve: p.Approved, Note: p.Note, Times: 1})
		}
	case *trajectory.MemoryWritten:
		if e.Turn == 0 {
			value, err := r.whole(&p.Value)
			if err != nil {
				return err
			}
			r.s.Memory = append(r.s.Memory, Memory{Tier: p.Tier, Key: p.Key, Value: value})
		}
	}
	return nil
}

func (r *replayed) modelReply(p *trajectory.ModelCallCompleted) error {
	text, err := r.whole(&p.Output)
	if err != nil {
		return err
	}
	reply := Reply{Text: text, TokensIn: p.TokensIn, TokensOut: p.TokensOut, CostMicroUSD: p.CostMicroUSD, Unpriced: p.Unpriced, LatencyMS: p.LatencyMS}
	if status, ok := strings.CutPrefix(p.Error, "status "); ok {
		reply.Text = ""
		if reply.Status, err = strconv.Atoi(status); err != nil {
			return fmt.Errorf("found the status %q", status)
		}
	}
	// A reply with tool calls is written as an object; see package session.
	var said struct {
		Text      string `json:"text"`
		ToolCalls []struct {
			Name string `json:"name"`
			Args string `json:"args"`
		} `json:"tool_calls"`
	}
	if json.Unmarshal([]byte(text), &said) == nil && len(said.ToolCalls) > 0 {
		reply.Text = said.Text
		for _, c := range said.ToolCalls {
			args := map[string]any{}
			call := Call{Name: c.Name, Args: &args}
			if err := canon.Unmarshal([]byte(c.Args), &args); err != nil {
				return fmt.Errorf("the arguments of a call of %s: %w", c.Name, err)
			}
			reply.ToolCalls = append(reply.ToolCalls, call)
		}
	}
	if reply.Text == "" && len(reply.ToolCalls) == 0 && reply.Status == 0 {
		reply.Status = 500 // a model that said nothing at all
	}
	r.s.Model = append(r.s.Model, reply)
	return nil
}

// tool makes the definition of a tool that was asked for. A tool without a
// class may do anything.
func (r *replayed) tool(name string, class policy.Class) *tools.Definition {
	if d := r.tools[name]; d != nil {
		return d
	}
	if class == "" {
		class = policy.Privileged
	}
	d := &tools.Definition{Name: name, Class: class, Trust: tools.Outside}
	r.tools[name] = d
	r.order = append(r.order, name)
	return d
}

func (r *replayed) toolReply(p *trajectory.ToolExecuted) error {
	d := r.tool(p.Name, "")
	r.calls[p.Name]++
	latency, cost, tokens := p.LatencyMS, p.CostMicroUSD, p.Tokens
	reply := tools.Reply{Call: r.calls[p.Name], LatencyMS: &latency, CostMicroUSD: &cost, Tokens: &tokens}
	text, err := r.whole(&p.Result)
	if err != nil {
		return err
	}
	if p.Error != "" {
		if text == "" {
			text = p.Error
		}
		reply.Error = tools.LiteralText(text)
	} else {
		result, err := canon.Canonicalize([]byte(text))
		if err != nil { // not JSON: the text itself
			if result, err = canon.Marshal(text); err != nil {
				return err
			}
		}
		raw, err := tools.Literal(result)
		if err != nil {
			return err
		}
		reply.Result = &raw
	}
	d.Replies = append(d.Replies, reply)
	return nil
}

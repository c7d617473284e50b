package harness

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
)

// A ToolCaller calls tools of MCP servers for a case that another machine drives. The
// servers, their keys, the journal and the recording are on this machine.
type ToolCaller interface {
	CallTool(ctx context.Context, name string, args []byte) (tools.Result, error)
}

// A bookedTool is one call of a tool.
type bookedTool struct {
	name   string
	args   []byte
	result tools.Result
	err    error
	told   bool // the trajectory tells of it
}

// openTools has the books call tools too. The policy is asked again here, because a tool
// acts on the world: a worker that does not ask its own must not get past it. What it
// knows of the case are these calls, so a rule about others counts only when the
// trajectory is there; what would have to be approved is not called.
func (r *run) openTools(live LiveTools) error {
	b := r.heard
	start, err := r.c.Scenario.StartTime()
	if err != nil {
		return err
	}
	if b.state, err = tools.New(r.c.Scenario.Tools, "the folder of the agent", nil, r.w.cfg.Live.Redactor()); err != nil {
		return err
	}
	b.box = live.ToolBox(b.state)
	b.policy, err = r.w.rules.Enforcer(start)
	return err
}

// isLive reports whether a tool is one of an MCP server.
func isLive(state *tools.State, name string) (tools.Definition, bool) {
	if state == nil {
		return tools.Definition{}, false
	}
	d, ok := state.Lookup(name)
	return d, ok && strings.HasPrefix(d.Source, tools.MCPPrefix)
}

// CallTool calls a tool of an MCP server, if the policy permits it, and writes down what
// came of it. Calls follow each other, as in a session.
func (b *books) CallTool(ctx context.Context, name string, args []byte) (tools.Result, error) {
	b.toolTurn.Lock()
	defer b.toolTurn.Unlock()
	t := &bookedTool{name: name, args: canonicalArgs(args)}
	t.result, t.err = b.callTool(ctx, len(b.tools)+1, t)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tools = append(b.tools, t)
	return t.result, t.err
}

func (b *books) callTool(ctx context.Context, n int, t *bookedTool) (tools.Result, error) {
	d, ok := isLive(b.state, t.name)
	if !ok {
		return tools.Result{}, refusal.Newf(refusal.Malformed, "the case has no tool %.100q of an MCP server", t.name)
	}
	if wrong := b.state.Check(t.name, t.args); wrong != nil {
		return *wrong, nil
	}
	call := policy.Call{ID: fmt.Sprintf("tool-%d", n), Action: policy.Tool, Name: t.name, Class: d.Class, Known: true, Args: t.args}
	if decision := b.policy.Decide(call); !decision.Permits() {
		return tools.Result{}, refusal.Newf(refusal.Failed, "the tool %s was not called: %s (%s)", t.name, decision.Reason, decision.Rule).
			WithHint("a call that a person has to approve is not made for another machine; run the case without --fleet")
	}
	result, err := b.box.Call(ctx, t.name, t.args)
	_, rerr := b.policy.Record(call, policy.Usage{Executed: err == nil, Latency: result.Latency})
	if err == nil {
		err = rerr
	}
	return result, err
}

// tellTool gives what came of the call of which a trajectory tells next.
func (b *books) tellTool(name string, args []byte) (tools.Result, error) {
	args = canonicalArgs(args)
	for _, t := range b.tools {
		if t.told {
			continue
		}
		if t.name != name || !bytes.Equal(t.args, args) {
			break
		}
		t.told = true
		if t.err != nil { // as it came to the worker
			r := refusal.Of(t.err)
			return tools.Result{}, refusal.Newf(r.Name, "%s", r.Error())
		}
		return t.result, nil
	}
	return tools.Result{}, fmt.Errorf("%w: the tool %.100q was not called with these arguments, or not in this order", session.ErrNotAsked, name)
}

func canonicalArgs(args []byte) []byte {
	if len(args) == 0 {
		return []byte("{}")
	}
	if canonical, err := canon.Canonicalize(args); err == nil {
		return canonical
	}
	return args
}

// bookTools answer tools of MCP servers from the books, when the case is driven again.
type bookTools struct {
	*tools.State
	b *books
}

// Call gives what came of the same call.
func (t bookTools) Call(ctx context.Context, name string, args []byte) (tools.Result, error) {
	if _, ok := isLive(t.State, name); !ok {
		return t.State.Call(ctx, name, args)
	}
	if wrong := t.Check(name, args); wrong != nil {
		return *wrong, nil
	}
	return t.b.tellTool(name, args)
}

package tools

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/strictyaml"
)

// A reply is a [Reply] ready to be tried.
type reply struct {
	args  *template // a constant
	has   *template // a constant
	where []condition
	state []condition
	call  int64
	times int64
	given string // under which the state counts how often it was given, if times is set

	failed  bool // content is the text of an error
	content template
	changes []change

	latency      time.Duration
	costMicroUSD int64
	tokens       int64
}

// A change is one change of the state.
type change struct {
	kind string // set, add, subtract, append or delete
	key  string
	with template
}

// compileReply reads a reply of a definition; problems come with the path to
// them, which begins with at.
func compileReply(r *Reply, d *Definition, at []string) (*reply, error) {
	out := &reply{call: r.Call, times: r.Times}
	bad := func(err error, where ...string) error { return strictyaml.At(append(slices.Clone(at), where...), err) }
	var err error
	if out.args, err = compileMatch(r.Args); err != nil {
		return nil, bad(err, "args")
	}
	has := &r.Has
	if r.Has == nil {
		has = nil
	}
	if out.has, err = compileMatch(has); err != nil {
		return nil, bad(err, "has")
	}
	for _, conditions := range []struct {
		key  string
		from map[string]Condition
		to   *[]condition
	}{{"where", r.Where, &out.where}, {"if", r.If, &out.state}} {
		for _, path := range sortedKeys(conditions.from) {
			c, err := compileCondition(path, conditions.from[path])
			if err != nil {
				return nil, bad(err, conditions.key, path)
			}
			*conditions.to = append(*conditions.to, c)
		}
	}
	switch {
	case r.Call < 0:
		return nil, bad(fmt.Errorf("found %d, expected the number of a call, from 1", r.Call), "call")
	case r.Times < 0:
		return nil, bad(fmt.Errorf("found %d, expected how often the reply is given, from 1", r.Times), "times")
	case r.Result == nil && r.Error == "":
		return nil, bad(errors.New("found neither result nor error, expected one of them"))
	case r.Result != nil && r.Error != "":
		return nil, bad(errors.New("found a result and an error, expected one of them"), "error")
	}
	if r.Result != nil {
		out.content, err = parseTemplate(*r.Result)
	} else {
		out.failed = true
		out.content, err = compileTemplate(r.Error)
	}
	if err != nil {
		return nil, bad(err, map[bool]string{false: "result", true: "error"}[out.failed])
	}
	if err := out.compileChanges(r, at); err != nil {
		return nil, err
	}
	return out, out.compileUse(r, d, at)
}

// compileMatch reads what arguments are compared with.
func compileMatch(raw *canon.RawMessage) (*template, error) {
	if raw == nil {
		return nil, nil
	}
	t, err := parseTemplate(*raw)
	if err != nil {
		return nil, err
	}
	if !t.fixed {
		return nil, errors.New("found a template; compare with where instead")
	}
	if _, ok := t.constant.(map[string]any); !ok {
		return nil, errors.New("expected an object: arguments are always one")
	}
	return &t, nil
}

func (out *reply) compileChanges(r *Reply, at []string) error {
	seen := map[string]string{}
	add := func(kind, key string, raw canon.RawMessage) error {
		place := append(slices.Clone(at), kind, key)
		if other, twice := seen[key]; twice {
			return strictyaml.At(place, fmt.Errorf("the same value is changed by %s too, and their order would matter", other))
		}
		seen[key] = kind
		c := change{kind: kind, key: key}
		if raw != nil {
			var err error
			if c.with, err = parseTemplate(raw); err != nil {
				return strictyaml.At(place, err)
			}
			if _, number := c.with.constant.(float64); c.with.fixed && !number && (kind == "add" || kind == "subtract") {
				return strictyaml.At(place, errors.New("expected a number, or a template that gives one"))
			}
		}
		out.changes = append(out.changes, c)
		return nil
	}
	for _, m := range []struct {
		kind string
		from map[string]canon.RawMessage
	}{{"set", r.Set}, {"add", r.Add}, {"subtract", r.Subtract}, {"append", r.Append}} {
		for _, key := range sortedKeys(m.from) {
			if err := add(m.kind, key, m.from[key]); err != nil {
				return err
			}
		}
	}
	for _, key := range r.Delete {
		if err := add("delete", key, nil); err != nil {
			return err
		}
	}
	return nil
}

// compileUse takes over what a call takes.
func (out *reply) compileUse(r *Reply, d *Definition, at []string) error {
	latencyMS := d.LatencyMS
	out.costMicroUSD, out.tokens = d.CostMicroUSD, d.Tokens
	for _, use := range []struct {
		key  string
		from *int64
		to   *int64
	}{{"latency_ms", r.LatencyMS, &latencyMS}, {"cost_microdollars", r.CostMicroUSD, &out.costMicroUSD}, {"tokens", r.Tokens, &out.tokens}} {
		if use.from == nil {
			continue
		}
		if err := checkUse(*use.from); err != nil {
			return strictyaml.At(append(slices.Clone(at), use.key), err)
		}
		*use.to = *use.from
	}
	out.latency = time.Duration(latencyMS) * time.Millisecond
	return nil
}

// maxUse bounds latencies in milliseconds, costs and tokens of one call, so
// that no sum of them overflows.
const maxUse = 1_000_000_000

func checkUse(n int64) error {
	if n < 0 || n > maxUse {
		return fmt.Errorf("found %d, expected 0 to %d", n, maxUse)
	}
	return nil
}

// stateKeys calls visit for each key of the state that the reply uses, with the
// key of the reply that uses it.
func (out *reply) stateKeys(visit func(where, key string) error) error {
	in := func(where string) func(string) error {
		return func(key string) error { return visit(where, key) }
	}
	for _, conditions := range []struct {
		where string
		list  []condition
	}{{"where", out.where}, {"if", out.state}} {
		for i := range conditions.list {
			if conditions.where == "if" {
				if err := visit("if", conditions.list[i].path[0]); err != nil {
					return err
				}
			}
			for j := range conditions.list[i].tests {
				if err := conditions.list[i].tests[j].with.stateKeys(in(conditions.where)); err != nil {
					return err
				}
			}
		}
	}
	for i := range out.changes {
		c := &out.changes[i]
		if err := visit(c.kind, c.key); err != nil {
			return err
		}
		if err := c.with.stateKeys(in(c.kind)); err != nil {
			return err
		}
	}
	return out.content.stateKeys(in(map[bool]string{false: "result", true: "error"}[out.failed]))
}

// answers reports whether the reply is for a call with these arguments that is
// the n-th of its tool, having been given used times.
func (out *reply) answers(args, state map[string]any, n, used int64) bool {
	if out.call != 0 && out.call != n || out.times != 0 && used >= out.times {
		return false
	}
	if out.args != nil && !equal(out.args.constant, any(args)) || out.has != nil && !within(out.has.constant, args) {
		return false
	}
	for i := range out.where {
		if !out.where[i].holds(args, args, state) {
			return false
		}
	}
	for i := range out.state {
		if !out.state[i].holds(state, args, state) {
			return false
		}
	}
	return true
}

// change returns the state after the changes of the reply; the state given
// stays as it is. An argument that cannot be added is the caller's mistake.
func (out *reply) change(args, state map[string]any) (map[string]any, error) {
	if len(out.changes) == 0 {
		return state, nil
	}
	after := make(map[string]any, len(state)+1)
	for key, v := range state {
		after[key] = v
	}
	for i := range out.changes {
		c := &out.changes[i]
		with := c.with.value(args, state)
		switch old := state[c.key]; c.kind {
		case "set":
			after[c.key] = with
		case "delete":
			delete(after, c.key)
		case "append":
			list, ok := old.([]any)
			if !ok && old != nil {
				return nil, fmt.Errorf("%s is not a list", c.key)
			}
			after[c.key] = append(slices.Clip(list), with)
		default:
			total, err := total(c, old, with)
			if err != nil {
				return nil, err
			}
			after[c.key] = total
		}
	}
	return after, nil
}

func total(c *change, old, with any) (float64, error) {
	have, ok := old.(float64)
	if !ok && old != nil {
		return 0, fmt.Errorf("%s is not a number", c.key)
	}
	amount, ok := with.(float64)
	if !ok {
		return 0, fmt.Errorf("what changes %s is not a number", c.key)
	}
	if c.kind == "subtract" {
		amount = -amount
	}
	total, ok := sum(have, amount)
	if !ok {
		return 0, fmt.Errorf("%s becomes a number that is too large", c.key)
	}
	return total, nil
}

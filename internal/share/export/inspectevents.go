package export

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/read/conversation"
	"tallystick/internal/record/cost"
	"tallystick/internal/run/trajectory"
)

type object = map[string]any

// inspectTeller writes the transcript of a sample as Inspect has it: messages, and events
// that refer to them. Each event says in its metadata which events of our trajectory it
// was made of.
type inspectTeller struct {
	started     time.Time
	model       string // of the attempt, where an event names none
	messages    []any
	events      []any
	attachments object
	usage       map[string]*inspectUsage
	spans       int
	open        []string // ids of spans, the innermost last
	at          time.Duration
	asked       bool     // a model was called
	results     []object // messages of tools since the last call of a model
}

// An inspectUsage is what calls of one model took.
type inspectUsage struct {
	in, out int64
	cost    cost.Cost
}

func (u *inspectUsage) add(in, out int64, c cost.Cost) {
	u.in, u.out, u.cost = u.in+in, u.out+out, u.cost.Plus(c)
}

// json is the usage; its cost is left out where it is not all known.
func (u *inspectUsage) json() object {
	o := object{"input_tokens": u.in, "output_tokens": u.out, "total_tokens": u.in + u.out}
	if u.cost.Known() {
		o["total_cost"] = float64(u.cost.MicroUSD) / 1e6
	}
	return o
}

func usageJSON(usage map[string]*inspectUsage) object {
	all := object{}
	for model, u := range usage {
		all[model] = u.json()
	}
	return all
}

// mostInline is how long a text may be that is no attachment, in bytes. Inspect looks for
// attachments in what a model said, in the input, in info and in the store, and not in
// results of tools, errors, approvals and scores.
const mostInline = 100

// text is a text itself, or a reference to an attachment.
func (t *inspectTeller) text(s string) string {
	if len(s) <= mostInline {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	name := hex.EncodeToString(sum[:16])
	t.attachments[name] = s
	return "attachment://" + name
}

// event adds an event at a time since the sample began.
func (t *inspectTeller) event(kind string, at time.Duration, seqs []int, members object) {
	t.at = max(t.at, at)
	e := object{"event": kind, "uuid": fmt.Sprintf("e%d", len(t.events)+1), "timestamp": iso(t.started.Add(at)), "working_start": at.Seconds()}
	if n := len(t.open); n > 0 {
		e["span_id"] = t.open[n-1]
	}
	metadata, _ := members["metadata"].(object)
	if seqs != nil {
		if metadata == nil {
			metadata = object{}
		}
		metadata["events"] = seqs
	}
	if metadata != nil {
		e["metadata"] = metadata
	}
	for name, v := range members {
		if name != "metadata" {
			e[name] = v
		}
	}
	t.events = append(t.events, e)
}

// span puts what write adds into a span of its own.
func (t *inspectTeller) span(kind, name string, at time.Duration, write func()) {
	t.spans++
	id := fmt.Sprintf("s%d", t.spans)
	begin := object{"id": id, "type": kind, "name": name}
	if n := len(t.open); n > 0 {
		begin["parent_id"] = t.open[n-1]
	}
	t.open = append(t.open, id)
	t.event("span_begin", at, nil, begin)
	write()
	t.event("span_end", t.at, nil, object{"id": id})
	t.open = t.open[:len(t.open)-1]
}

func (t *inspectTeller) message(role, text string, more object) object {
	m := object{"id": fmt.Sprintf("m%d", len(t.messages)+1), "role": role, "content": text}
	for name, v := range more {
		m[name] = v
	}
	t.messages = append(t.messages, m)
	return m
}

// tell writes a conversation.
func (t *inspectTeller) tell(c *conversation.Conversation, events map[int]*trajectory.Event) {
	for _, turn := range c.Turns {
		name, at := "turn "+strconv.Itoa(turn.N), t.at
		if turn.N == 0 {
			name = "before the first turn"
		}
		if len(turn.Items) > 0 {
			at = turn.Items[0].At
		}
		asks := slices.ContainsFunc(turn.Items, func(i conversation.Item) bool { return i.Exchange != nil })
		t.span("solver", name, at, func() {
			var asked map[*conversation.Item]object
			for i := range turn.Items {
				item := &turn.Items[i]
				switch {
				case item.Speech != nil:
					t.speech(item, asks)
				case item.Exchange != nil:
					asked = t.exchange(item, turn.Items[i+1:])
				case item.Call != nil:
					t.call(item, asked[item])
				case item.Memory != nil:
					t.memory(item)
				case item.Files != nil:
					t.files(item)
				case item.Note != nil:
					t.note(item, events)
				}
			}
		})
	}
}

func headOf(x *conversation.Text) string {
	if x == nil {
		return ""
	}
	return x.Head
}

// speech is what was said outside of requests to a model. Inspect knows it as messages
// only; an event says that it was said here, unless the call of a model shows it.
func (t *inspectTeller) speech(item *conversation.Item, shown bool) {
	s := item.Speech
	if s.Text == nil {
		return // it is there already
	}
	role := map[string]string{conversation.User: "user", conversation.System: "system"}[s.Role]
	if role == "" {
		role = "assistant"
	}
	t.message(role, s.Text.Head, nil)
	if !shown {
		t.event("info", item.At, item.Events, object{"source": s.Role, "data": t.text(s.Text.Head)})
	}
}

var inspectStops = map[string]string{"stop": "stop", "end_turn": "stop", "completed": "stop", "tool_calls": "tool_calls", "tool_use": "tool_calls", "length": "max_tokens", "max_tokens": "max_tokens", "content_filter": "content_filter"}

// sent is a message of a request that was not said before. Instructions come first, as
// Inspect has them; a result of a tool is what the model was told of a call that is there.
func (t *inspectTeller) sent(role, text string) {
	switch role {
	case conversation.System:
		m := t.message(role, text, nil)
		if !t.asked {
			t.messages = slices.Insert(t.messages[:len(t.messages)-1], 0, any(m))
		}
	case conversation.Tool:
		at := slices.IndexFunc(t.results, func(m object) bool {
			was := m["content"].(string)
			return m["error"] != nil || strings.Contains(text, was)
		})
		if at < 0 {
			t.message(role, text, nil)
			return
		}
		t.results[at]["content"] = text
		if wrong, ok := t.results[at]["error"].(object); ok && wrong["message"] == notMade {
			wrong["message"] = text // the event has it as well
		}
		t.results = slices.Delete(t.results, at, at+1)
	case conversation.Assistant:
		t.message(role, text, nil)
	default:
		t.message("user", text, nil)
	}
}

// exchange is a call of a model. The calls of tools that its reply asks for are the items
// that come before the next exchange; they are given with the calls of the message.
func (t *inspectTeller) exchange(item *conversation.Item, after []conversation.Item) map[*conversation.Item]object {
	x := item.Exchange
	for _, m := range x.Request.New {
		t.sent(m.Role, m.Text.Head)
	}
	t.asked, t.results = true, nil
	input := len(t.messages)
	model := cmp.Or(x.Model, t.model)
	asked, calls, wanted := map[*conversation.Item]object{}, []any{}, slices.Clone(x.Calls)
	for i := range after {
		if after[i].Exchange != nil {
			break
		}
		if c := after[i].Call; c != nil {
			if at := slices.Index(wanted, c.Name); at >= 0 {
				wanted = slices.Delete(wanted, at, at+1)
				asked[&after[i]] = callJSON(&after[i])
				calls = append(calls, asked[&after[i]])
			}
		}
	}
	for i, u := range x.Untold {
		calls = append(calls, object{"id": fmt.Sprintf("untold-%d-%d", item.Seq(), i+1), "function": u.Name, "arguments": arguments(u.Value), "type": "function"})
	}
	stop := cmp.Or(inspectStops[x.Finish], "unknown")
	var output object
	if reply := headOf(x.Reply); x.Replied > 0 {
		message := t.message("assistant", reply, object{"source": "generate", "model": model})
		if len(calls) > 0 {
			message["tool_calls"] = calls
		}
		u := &inspectUsage{}
		u.add(x.TokensIn, x.TokensOut, x.Cost)
		short := object{}
		for name, v := range message {
			short[name] = v
		}
		short["content"] = t.text(reply)
		output = object{"model": model, "choices": []any{object{"message": short, "stop_reason": stop}}, "usage": u.json(), "time": x.Latency.Seconds()}
		if t.usage[model] == nil {
			t.usage[model] = &inspectUsage{}
		}
		t.usage[model].add(x.TokensIn, x.TokensOut, x.Cost)
	} else {
		output = object{"model": model, "choices": []any{}}
	}
	tools := []any{}
	for _, name := range x.Request.Tools {
		tools = append(tools, object{"name": name, "description": "", "parameters": object{"type": "object", "properties": object{}, "required": []any{}, "additionalProperties": false}})
	}
	e := object{"model": model, "input": []any{}, "input_refs": []any{[]int{0, input}}, "tools": tools, "tool_choice": "auto", "config": object{}, "output": output,
		"completed": iso(t.started.Add(item.At + x.Latency)), "working_time": x.Latency.Seconds(), "metadata": object{"source": x.Source, "provider": x.Provider}}
	if wrong := x.Error; wrong != "" || len(x.Problems) > 0 {
		for _, p := range x.Problems {
			wrong = strings.TrimPrefix(wrong+"; "+p.Name+": "+p.Detail, "; ")
		}
		e["error"] = wrong
	}
	t.event("model", item.At, item.Events, e)
	return asked
}

// arguments is a value as an object of arguments.
func arguments(v conversation.Text) object {
	var o object
	if v.IsJSON && json.Unmarshal([]byte(v.Head), &o) == nil && o != nil {
		return o
	}
	return object{"arguments": v.Head}
}

// callJSON is a call as messages and approvals have it.
func callJSON(item *conversation.Item) object {
	c := item.Call
	args := object{}
	for _, a := range c.Args {
		var v any = a.Value.Head
		if a.Value.IsJSON && json.Unmarshal([]byte(a.Value.Head), &v) != nil {
			v = a.Value.Head
		}
		args[a.Name] = v
	}
	return object{"id": cmp.Or(c.ID, fmt.Sprintf("call-%d", item.Seq())), "function": cmp.Or(c.Name, "unnamed"), "arguments": args, "type": "function"}
}

// call is a call of a tool, with what policy and people said of it.
func (t *inspectTeller) call(item *conversation.Item, asked object) {
	c := item.Call
	if asked == nil { // no reply that is here asks for it
		asked = callJSON(item)
		t.message("assistant", "", object{"source": "generate", "model": t.model, "tool_calls": []any{asked}})
	}
	result := cmp.Or(headOf(c.Result), headOf(c.Reported))
	var wrong object
	switch {
	case c.Denied:
		wrong = object{"type": "permission", "message": cmp.Or(c.Error, reasonOf(c), "the policy denied it")}
	case c.Stopped:
		wrong = object{"type": "unknown", "message": cmp.Or(c.Error, reasonOf(c), notMade)}
	case c.Error != "" || c.Failed:
		wrong = object{"type": "unknown", "message": cmp.Or(c.Error, "it failed")}
	}
	more := object{"tool_call_id": asked["id"], "function": asked["function"]}
	if wrong != nil {
		more["error"] = wrong
	}
	content := result
	if content == "" && wrong != nil {
		content = cmp.Or(c.Error, reasonOf(c), "not called")
	}
	m := t.message("tool", content, more)
	t.results = append(t.results, m)
	for _, a := range c.Approvals {
		decision := "reject"
		if a.Approved {
			decision = "approve"
		}
		if a.Answer > 0 {
			t.event("approval", item.At, item.Events, object{"message": a.Reason, "call": asked, "approver": cmp.Or(a.By, "unknown"), "decision": decision, "explanation": a.Note})
		}
	}
	metadata := object{"vantage": string(c.Vantage), "class": string(c.Class)}
	if c.Source != "" {
		metadata["source"] = c.Source
	}
	var said []any
	for _, d := range c.Decisions {
		said = append(said, object{"verdict": string(d.Verdict), "rule": d.Rule, "reason": d.Reason})
	}
	if said != nil {
		metadata["policy"] = said
	}
	var broke []string
	for _, v := range c.Violations {
		broke = append(broke, v.Rule+": "+v.Text)
	}
	if broke != nil {
		metadata["violations"] = broke
	}
	e := object{"type": "function", "id": asked["id"], "function": asked["function"], "arguments": asked["arguments"], "result": result,
		"completed": iso(t.started.Add(item.At + c.Latency)), "working_time": c.Latency.Seconds(), "message_id": m["id"], "metadata": metadata}
	if wrong != nil {
		e["error"] = wrong
	}
	t.event("tool", item.At, item.Events, e)
}

// notMade is said of a call until the model is told why it was not made.
const notMade = "it was not made"

func reasonOf(c *conversation.Call) string {
	for _, d := range c.Decisions {
		if d.Reason != "" {
			return d.Reason
		}
	}
	return ""
}

func (t *inspectTeller) memory(item *conversation.Item) {
	m := item.Memory
	if !m.Written {
		t.event("info", item.At, item.Events, object{"source": "memory", "data": object{"key": m.Key, "proposed": t.text(m.After.Head)}})
		return
	}
	change := object{"op": "add", "path": "/memory/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(m.Key), "value": t.text(m.After.Head)}
	if m.Before != nil {
		change["op"], change["replaced"] = "replace", t.text(m.Before.Head)
	}
	t.event("store", item.At, item.Events, object{"changes": []any{change}})
}

func (t *inspectTeller) files(item *conversation.Item) {
	for _, f := range item.Files.Changed {
		if f.Deleted {
			t.event("info", item.At, []int{f.Event}, object{"source": "files", "data": object{"deleted": f.Path}})
			continue
		}
		t.event("sandbox", item.At, []int{f.Event}, object{"action": "write_file", "file": f.Path, "metadata": object{"bytes": f.Bytes, "digest": f.Digest.String(), "new": f.New}})
	}
}

// inspectLimits are limits of ours as Inspect calls them.
var inspectLimits = map[string]string{"turns": "turn", "tokens": "token", "cost_microdollars": "cost", "wall_clock_ms": "time"}

func limitOf(p *trajectory.LimitReached) (kind string, limit float64) {
	limit = float64(p.Max)
	switch kind = cmp.Or(inspectLimits[p.Limit], "custom"); kind {
	case "cost":
		limit /= 1e6
	case "time":
		limit /= 1e3
	}
	return kind, limit
}

func (t *inspectTeller) note(item *conversation.Item, events map[int]*trajectory.Event) {
	if e := events[item.Seq()]; e != nil {
		if p, ok := e.Payload.(*trajectory.LimitReached); ok {
			kind, limit := limitOf(p)
			t.event("sample_limit", item.At, item.Events, object{"type": kind, "limit": limit, "message": item.Note.Summary})
			return
		}
	}
	says := t.text(item.Note.Summary)
	data := object{"says": says}
	for _, x := range item.Note.Texts {
		if !x.IsEmpty() {
			data[cmp.Or(strings.TrimPrefix(x.At, "/payload/"), "text")] = t.text(x.Head)
		}
	}
	if len(data) == 1 {
		t.event("info", item.At, item.Events, object{"source": string(item.Note.Type), "data": says})
		return
	}
	t.event("info", item.At, item.Events, object{"source": string(item.Note.Type), "data": data})
}

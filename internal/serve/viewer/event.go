package viewer

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/run/trajectory"
)

// An event is one of a transcript, as a page shows it. Fields and texts name where
// in the event's line they stand.
type event struct {
	Seq, Turn int
	AtMS      int64
	Type      trajectory.Type
	Title     string
	Subject   string
	Bad       bool
	NewTurn   bool
	Fields    []field
	Minor     []field // digests, names of calls and the like
	Texts     []said
}

// minor are members that few people look at.
var minor = map[string]bool{"call": true, "digest": true, "bytes": true, "request": true, "policy": true, "policy_short": true, "format": true, "attempt": true,
	"case": true, "class": true, "check": true, "id": true, "messages": true, "admitted": true, "compression": true, "sections": true, "budget": true, "used": true, "window": true,
	"execution": true, "repeat": true, "restored": true, "entry": true}

// A field is a short value.
type field struct {
	Name  string
	Value template.HTML
}

// A said is a text of which the event has the beginning.
type said struct {
	Name     string
	Head     template.HTML
	Bytes    int64
	Digest   string
	Cut      bool // the page has less than the whole
	Redacted bool
	Folded   bool // it is long, and mostly what was said before
}

// titles are the types of events in the words of the page.
var titles = map[trajectory.Type]string{
	"run_started": "Run started", "run_completed": "Run completed", "run_failed": "Run failed",
	"turn_started": "Turn started", "turn_completed": "Turn completed", "context_compiled": "Context compiled", "plan": "Plan",
	"model_call_started": "Asked the model", "model_call_completed": "The model answered",
	"tool_proposed": "Wants to call", "tool_executed": "Called", "tool_observed": "Call seen",
	"policy_decision": "Policy decided", "policy_violation": "Policy violation",
	"approval_requested": "Approval asked for", "approval_resolved": "Approval answered",
	"memory_proposed": "Wants to remember", "memory_written": "Remembered", "memory_retrieved": "Recalled",
	"checkpoint_saved": "Checkpoint saved", "rollback": "Rolled back", "handoff": "Handed off", "transport_request": "Request",
	"file_written": "Wrote a file", "file_deleted": "Deleted a file", "security_event": "Security event",
	"limit_reached": "Limit reached", "error": "Error", "test_run": "Test run",
	"user_moved": "Simulated user", "user_tool_called": "The user's own tool", "user_broke_rule": "The user broke a rule", "user_ended": "The user ended",
	"world_started": "World started", "world_state": "State of the world", "service_traffic": "Traffic with a service",
}

// lanes say in which row of the timeline, and of the outline, a type stands.
var lanes = map[trajectory.Type]string{
	"model_call_started": "model", "model_call_completed": "model", "tool_proposed": "tools", "tool_executed": "tools", "tool_observed": "tools",
	"policy_decision": "policy", "policy_violation": "policy", "approval_requested": "policy", "approval_resolved": "policy", "security_event": "policy",
	"memory_proposed": "memory", "memory_written": "memory", "memory_retrieved": "memory",
	"file_written": "files", "file_deleted": "files", "checkpoint_saved": "files", "rollback": "files", "test_run": "files",
	"world_started": "tools", "world_state": "tools", "service_traffic": "tools",
}

var laneNames = []string{"model", "tools", "policy", "memory", "files"}

// otherLane is that of the types without one.
const otherLane = "other"

func laneOf(t trajectory.Type) string {
	if lane := lanes[t]; lane != "" {
		return lane
	}
	return otherLane
}

// newEvent makes an event of its line, which was verified.
func newEvent(seq int, line []byte, o outlineOf) (event, error) {
	doc, err := decode(line)
	if err != nil {
		return event{}, fmt.Errorf("event %d: %w", seq, err)
	}
	e := event{Seq: seq, Turn: int(o.Turn), AtMS: o.AtMS, Type: o.Type, Title: titles[o.Type], Subject: o.Subject, Bad: o.Denied || o.Failed, NewTurn: o.Type == trajectory.TurnStartedType}
	if e.Title == "" {
		e.Title = string(o.Type)
	}
	switch o.Type {
	case trajectory.PolicyViolationType, trajectory.SecurityEventType, trajectory.LimitReachedType, trajectory.ErrorType, trajectory.RunFailedType, trajectory.UserBrokeRuleType:
		e.Bad = true
	}
	if e.Subject == "" {
		e.Subject = subjectOf(doc)
	}
	if text, _ := shown(doc, "/payload/error", AsText); text != "" {
		e.Bad = true
	}
	e.members(doc, "/payload")
	return e, nil
}

// subjectOf is what an event is about that the outline does not name.
func subjectOf(doc any) string {
	for _, name := range []string{"model", "key", "to", "path", "name", "host", "limit"} {
		if text, ok := shown(doc, "/payload/"+name, AsText); ok {
			return text
		}
	}
	return ""
}

func (e *event) note(name string, value template.HTML) {
	if f := (field{words(name), value}); minor[name] {
		e.Minor = append(e.Minor, f)
	} else {
		e.Fields = append(e.Fields, f)
	}
}

// members adds what an object has, in the order of its names.
func (e *event) members(doc any, pointer string) {
	v, _ := at(doc, pointer)
	object, _ := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		e.member(doc, pointer+"/"+escapePointer(name), name, object[name])
	}
}

func (e *event) member(doc any, pointer, name string, value any) {
	switch x := value.(type) {
	case map[string]any:
		_, hasHead := x["head"].(string)
		switch {
		case hasHead:
			e.Texts = append(e.Texts, newSaid(doc, pointer, name, x))
		case name == "args" || name == "values" || name == "raw":
			e.members(doc, pointer)
		default:
			e.note(name, asJSON(value))
		}
	case []any:
		var parts []template.HTML
		for i := range x {
			parts = append(parts, eventValue(doc, fmt.Sprintf("%s/%d", pointer, i), "text"))
		}
		e.note(name, joinHTML(parts))
	case string:
		if strings.Contains(x, "\n") || len(x) > 120 {
			e.Texts = append(e.Texts, said{Name: words(name), Head: eventValue(doc, pointer, "text"), Bytes: int64(len(x)), Cut: tooLong(x)})
			return
		}
		e.note(name, eventValue(doc, pointer, "text"))
	case bool:
		e.note(name, eventValue(doc, pointer, "bool"))
	default:
		as := AsText
		if name == "cost_microdollars" { // with what its neighbour says of it
			as, name, pointer = AsCost, "cost", strings.TrimSuffix(pointer, "/"+name)
		}
		e.note(name, eventValue(doc, pointer, as))
	}
}

func newSaid(doc any, pointer, name string, x map[string]any) said {
	s := said{Name: words(name), Folded: name == "prompt", Head: eventValue(doc, pointer+"/head", "text")}
	if n, ok := x["bytes"].(json.Number); ok {
		s.Bytes, _ = n.Int64()
	}
	s.Digest, _ = x["digest"].(string)
	truncated, _ := x["truncated"].(bool)
	head, _ := x["head"].(string)
	s.Cut = truncated || tooLong(head)
	s.Redacted, _ = x["redacted"].(bool)
	return s
}

// eventValue shows a value of an event, with where it stands in the event.
func eventValue(doc any, pointer string, as Format) template.HTML {
	text, ok := shown(doc, pointer, as)
	if !ok {
		v, _ := at(doc, pointer)
		return asJSON(v)
	}
	return template.HTML(`<span data-field="` + template.HTMLEscapeString(pointer) + `" data-as="` + string(as) + `">` + template.HTMLEscapeString(text) + `</span>`)
}

func asJSON(v any) template.HTML {
	raw, _ := json.Marshal(v)
	return template.HTML(`<code>` + template.HTMLEscapeString(Text(string(raw))) + `</code>`)
}

func joinHTML(parts []template.HTML) template.HTML {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(p))
	}
	return template.HTML(b.String())
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// Package outline says what happened in a run, step by step, as people review it: the
// calls with their arguments, what the policy and people said of them, what came of
// them, what the agent was offered, remembered, wrote and answered, and what went wrong.
// Two outlines are compared as people compare two runs: a step is missing, is new,
// moved, was replaced, is denied now, or says something else. Prompts stand beside it and
// are compared word by word, so that an edited prompt is told from a changed behaviour.
//
// Every event is a step or a line of one, and every member of it is shown unless the
// table names it as noise: what a later program records surfaces without a change here.
//
// Of and Compare are all there is; Check compares a run with a golden file, which
// holds an outline or, written at the level exact, every event.
//
// Where it stops: long texts stand for themselves by their beginning and digest. A
// prompt is compared in the part that its event carries (2 KiB); that it differs
// beyond is told, and not how.
package outline

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// A Level says how much of what was done is compared.
type Level string

// The levels, each with what the one before has.
const (
	Structure Level = "structure" // turns, calls and their arguments, hand-offs
	Behaviour Level = "behaviour" // every step with all that it says, but for the noise of the table
	Exact     Level = "exact"     // and every event with every prompt
)

// Levels lists them.
func Levels() []Level { return []Level{Structure, Behaviour, Exact} }

// Tested is the kind of move that tells how the tests of a case ended, which is part
// of its score.
const Tested = "test"

// Kinds of steps that something here knows; the table has the others.
const (
	user     = "user"
	offer    = "offer"
	call     = "call"
	handoff  = "handoff"
	approval = "approval"
	remember = "memory"
	wrote    = "file"
	limit    = "limit"
	failed   = "error"
	tested   = Tested
	answer   = "answer"
	end      = "end"
)

// decided begins the line of what the policy said.
const decided = "policy"

// A Move is one step: something that was done or said, with what came of it.
type Move struct {
	Turn    int
	Kind    string
	What    string // the tool, agent, key or path
	Detail  string // arguments, in canonical JSON; "" if there are none
	Outcome string // a line for each event about it; the level structure is without
}

// IsDeed reports whether the step is something that the agent did or said, and not how
// it was asked, watched or bounded.
func (m *Move) IsDeed() bool {
	return slices.Contains([]string{call, handoff, approval, remember, wrote, "rollback", limit, tested, answer, end}, m.Kind)
}

// isDenied reports whether the last word of the policy about the step was no.
func (m *Move) isDenied() bool {
	denied := false
	for l := range strings.Lines(m.Outcome) {
		if said, ok := strings.CutPrefix(l, decided+" "); ok {
			denied = !strings.HasPrefix(said, string(`"`+policy.Allow+`"`))
		}
	}
	return denied
}

// A Prompt is what a model was asked first.
type Prompt struct {
	Model string
	Text  string // its beginning
	Rest  string // digest and length of the whole, if that is longer
}

// An Outline is what was done in a run.
type Outline struct {
	Prompts []Prompt // of each model, in the order in which they were first asked
	Moves   []Move
}

// Of gives the outline of a run.
func Of(v *trajectory.Verified) *Outline {
	b := builder{asked: map[string]bool{}, byCall: map[string]*step{}, entries: map[string]string{}, written: map[string]int{}}
	calls := trajectory.CallsOf(v).Calls
	byEvent := map[int]*step{}
	for i := range calls {
		c := &calls[i]
		s := b.begin(c.Seq, c.Turn, call, c.Name, arguments(&c.Args))
		s.only = len(c.Events()) == 1
		for _, seq := range c.Events() {
			byEvent[seq] = s
		}
		b.tie(c.Call, s)
		if c.Report != nil {
			b.tie(c.Report.Judged, s)
		}
	}
	for e := range v.Events() {
		b.event(&e, byEvent[e.Seq])
	}
	for i := range calls {
		if c := &calls[i]; c.Made == nil && c.Report == nil {
			s := byEvent[c.Events()[0]]
			s.lines = append(s.lines, "not made")
		}
	}
	// A call stands at the event that speaks for it.
	slices.SortStableFunc(b.steps, func(x, y *step) int { return cmp.Compare(x.seq, y.seq) })
	for _, s := range b.steps {
		s.Outcome = strings.Join(s.lines, "\n")
		b.outline.Moves = append(b.outline.Moves, s.Move)
	}
	return &b.outline
}

// A step is a move in the making.
type step struct {
	Move
	seq   int
	lines []string
	known map[string]string // what the lines so far say, by member
	only  bool              // a call of which nothing but one event tells
}

type builder struct {
	outline Outline
	steps   []*step
	byCall  map[string]*step
	asked   map[string]bool   // models
	said    string            // the last answer of a turn
	context string            // as it was compiled last
	entries map[string]string // of memory, by the name that events have
	written map[string]int    // how often, by tier and key
}

func (b *builder) begin(seq, turn int, kind, what, detail string) *step {
	s := &step{Move: Move{Turn: turn, Kind: kind, What: what, Detail: detail}, seq: seq, known: map[string]string{}}
	for action, k := range actions {
		if k == kind {
			s.known["action"] = text(string(action))
		}
	}
	b.steps = append(b.steps, s)
	return s
}

// tie makes later events of a call part of the step.
func (b *builder) tie(call string, s *step) {
	if call != "" && b.byCall[call] == nil {
		b.byCall[call] = s
	}
}

// event adds a line to the step that an event is about, or begins one.
func (b *builder) event(e *trajectory.Event, s *step) {
	r, about := rowOf(e.Type), ""
	switch p := e.Payload.(type) {
	case *trajectory.ModelCallStarted:
		b.ask(e, p)
	case *trajectory.MemoryWritten:
		b.name(p)
	case *trajectory.PolicyDecision:
		r.kind = actions[p.Action]
	case *trajectory.ApprovalRequested:
		r.kind = actions[p.Action]
	}
	members := b.members(e.Payload)
	if e.Type != trajectory.ToolObservedType { // its call is the model's
		about = callOf(e.Payload)
	}
	if s == nil {
		s = b.byCall[about]
	}
	if s == nil {
		what, _ := e.Payload.Subject()
		if _, known := table()[e.Type]; known {
			what = unquoted(members[r.what])
		}
		s = b.begin(e.Seq, e.Turn, r.kind, what, members[r.detail])
		b.tie(about, s)
	} else if s.Detail == "" && r.kind == s.Kind {
		s.Detail = members[r.detail] // a hand-off whose decision came first
	}
	switch p := e.Payload.(type) {
	case *trajectory.ContextCompiled:
		if p.Used > p.Budget {
			members["over_budget"] = "true"
		}
		if now := fmt.Sprint(members); now == b.context {
			b.steps = b.steps[:len(b.steps)-1] // as before
			return
		} else {
			b.context = now
		}
	case *trajectory.TurnCompleted:
		b.said = members["answer"]
	case *trajectory.RunCompleted:
		if members["answer"] == b.said { // mostly it is said already
			return
		}
	}
	s.add(r, members)
}

// add says in a line what the lines before it have not said.
func (s *step) add(r row, members map[string]string) {
	parts := []string{r.word}
	say := func(name string) {
		value, there := members[name]
		switch {
		case !there, name == r.what && value == text(s.What), name == r.detail && value == s.Detail:
			return
		case s.known[name] == value && (name != r.bare || r.word != decided): // every verdict is said
			return
		case name == r.bare:
			parts = append(parts, value)
		default:
			parts = append(parts, name+" "+value)
		}
		s.known[name] = value
	}
	say(r.bare)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name != r.bare {
			say(name)
		}
	}
	line := strings.Join(parts, " ")
	// That the model asked for a call goes without saying if more is known of it.
	if line == "" || !s.only && line == "seen "+text(string(trajectory.Proposed)) {
		return
	}
	s.lines = append(s.lines, line)
}

// ask notes what a model is asked first, and what it is told of tools.
func (b *builder) ask(e *trajectory.Event, p *trajectory.ModelCallStarted) {
	if !b.asked[p.Model] {
		b.asked[p.Model] = true
		b.outline.Prompts = append(b.outline.Prompts, promptOf(p))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Definitions)) {
		c := p.Definitions[name]
		s := b.begin(e.Seq, e.Turn, offer, name, "")
		s.lines = []string{"is " + shown(&c, trajectory.DefinitionHead)}
	}
}

// name gives a memory entry a name that tells what it is of: its number would change
// with every write before it.
func (b *builder) name(p *trajectory.MemoryWritten) {
	name := string(p.Tier) + "/" + p.Key
	if b.written[name]++; b.written[name] > 1 {
		name = fmt.Sprintf("%s (%d)", name, b.written[name])
	}
	b.entries[p.Entry] = name
}

// members are the values of a payload that are not noise, as text, by name.
func (b *builder) members(p trajectory.Payload) map[string]string {
	list := map[string]string{}
	noise := rowOf(p.Type()).noise
	v := reflect.ValueOf(p).Elem()
	for f := range v.Type().Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		value := v.FieldByIndex(f.Index)
		if _, hidden := noise[name]; hidden || strings.Contains(options, "omitempty") && value.IsZero() {
			continue
		}
		switch name {
		case "definitions": // steps of their own
			continue
		case "admitted", "entries", "supersedes":
			list[name] = b.entryNames(value.Interface())
		default:
			list[name] = valueText(value.Interface())
		}
	}
	return list
}

func (b *builder) entryNames(names any) string {
	known := func(id string) string { return cmp.Or(b.entries[id], id) }
	if one, ok := names.(string); ok {
		return text(known(one))
	}
	list := []string{}
	if ids, ok := names.([]string); ok {
		for _, id := range ids {
			list = append(list, known(id))
		}
	}
	return valueText(list)
}

// valueText is the value of a member: a text as such, arguments in canonical JSON,
// anything else in canonical JSON too.
func valueText(value any) string {
	switch x := value.(type) {
	case trajectory.Content:
		return content(&x)
	case *trajectory.Content:
		return content(x)
	case trajectory.Args:
		return arguments(&x)
	}
	out, err := canon.Marshal(value)
	if err != nil {
		return text(fmt.Sprint(value)) // events are read from JSON
	}
	return string(plain.JSON(out))
}

// callOf is the call that an event is about.
func callOf(p trajectory.Payload) string {
	v := reflect.ValueOf(p).Elem()
	for f := range v.Type().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == "call" {
			return v.FieldByIndex(f.Index).String()
		}
	}
	return ""
}

func promptOf(p *trajectory.ModelCallStarted) Prompt {
	prompt := Prompt{Model: p.Model, Text: p.Prompt.Head}
	if p.Prompt.Truncated && !p.Prompt.Redacted {
		prompt.Rest = fmt.Sprintf("%s, %d bytes", p.Prompt.Digest, p.Prompt.Bytes)
	}
	return prompt
}

// maxShown is how much of a text an outline has. A longer one has its digest.
const maxShown = 120

// content stands for a text: all of it, or its beginning with its digest. Of a text
// with secrets only what is left is compared, as its digest changes with them.
func content(c *trajectory.Content) string { return shown(c, maxShown) }

func shown(c *trajectory.Content, most int) string {
	if c.Redacted {
		return "redacted " + text(cut(c.Head, most))
	}
	if !c.Truncated && !c.Lossy && len(c.Head) <= most+80 { // a digest would be no shorter
		return text(c.Head)
	}
	return fmt.Sprintf("%s… %s, %d bytes", text(cut(c.Head, most)), c.Digest, c.Bytes)
}

func cut(s string, most int) string {
	for i := range s {
		if i > most {
			return s[:i]
		}
	}
	return s
}

// unquoted is the text of a JSON string that [text] wrote.
func unquoted(value string) string {
	var s string
	if canon.Unmarshal([]byte(value), &s) != nil {
		return value
	}
	return s
}

// text is a JSON string in which everything can be seen.
func text(s string) string {
	out, err := canon.Marshal(s)
	if err != nil {
		return strconv.QuoteToASCII(s) // it is not UTF-8, which events are
	}
	return string(plain.JSON(out))
}

// arguments are those of a call, in canonical JSON; long ones by their digest.
func arguments(a *trajectory.Args) string {
	if a.Raw != nil {
		return "raw " + content(a.Raw)
	}
	shown := make(map[string]any, len(a.Values)+len(a.Cut))
	for name, value := range a.Values {
		shown[name] = value
	}
	for name, c := range a.Cut {
		shown[name] = fmt.Sprintf("%s, %d bytes", c.Digest, c.Bytes)
	}
	out, err := canon.Marshal(shown)
	if err != nil || len(out) > 1000 {
		return fmt.Sprintf("%s, %d bytes", a.Digest, a.Bytes)
	}
	return string(plain.JSON(out))
}
